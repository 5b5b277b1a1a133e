package tunnel

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tapir/nic/tap"
	"tapir/wire/frame"
)

// keyFile makes a file with a key.
func keyFile(t testing.TB) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "key")
	must(os.WriteFile(name, []byte(strings.Repeat("5a", keyLen)+"\n"), 0o600))
	return name
}

// acquaint has two ends with a key know each other's session: a frame each way may be lost.
func acquaint(t testing.TB, x, y *Wire) {
	t.Helper()
	if x.seal == nil {
		return
	}
	for until := time.Now().Add(5 * time.Second); time.Now().Before(until); {
		if x.seal.peer.id == y.seal.own.id && y.seal.peer.id == x.seal.own.id {
			for _, w := range []*Wire{x, y} {
				for w.Read(frame.New(make([]byte, 1<<17), nil)) != tap.ErrAgain {
				}
			}
			return
		}
		f := frame.New(make([]byte, 4096), nil)
		f.Append(make([]byte, 60))
		for _, w := range []*Wire{x, y} {
			_ = w.Write(f)
		}
		for _, w := range []*Wire{x, y} {
			_ = w.Read(frame.New(make([]byte, 1<<17), nil))
		}
	}
	t.Fatal("the ends do not get acquainted")
}

func ends(t *testing.T) (a, b *sealer) {
	t.Helper()
	key := keyFile(t)
	for _, s := range []**sealer{&a, &b} {
		var err error
		if *s, err = newSealer(key); err != nil {
			t.Fatal(err)
		}
	}
	return a, b
}

// say seals text for a receiver and opens it there.
func say(from, to *sealer, text string) verdict {
	plain, v := to.open(from.seal(nil, []byte(text), from.peer.id))
	if v == accepted && string(plain) != text {
		return forged
	}
	return v
}

// meet has two sealers know each other.
func meet(t *testing.T, a, b *sealer) {
	t.Helper()
	if v := say(a, b, "hello"); v != stale {
		t.Fatalf("a stranger's first: %v", v)
	}
	if _, v := a.open(b.seal(nil, nil, b.stale.id)); v != greeting {
		t.Fatalf("greeting: %v", v)
	}
	if v := say(a, b, "hello"); v != accepted {
		t.Fatalf("after the greeting: %v", v)
	}
	if v := say(b, a, "hello"); v != accepted {
		t.Fatalf("the other way: %v", v)
	}
}

// Each datagram counts once, in any order within the window, and not when any octet differs.
func TestReplay(t *testing.T) {
	a, b := ends(t)
	meet(t, a, b)
	var sent [][]byte
	for range 3 * window {
		sent = append(sent, a.seal(nil, []byte("frame"), a.peer.id))
	}
	open := func(i int) verdict {
		_, v := b.open(bytes.Clone(sent[i]))
		return v
	}
	for _, i := range []int{0, 5, 3, 700, 699, 64, 701, 1500, 1499, 700} {
		want := map[bool]verdict{true: accepted, false: replayed}[b.fresh(a.number-uint64(3*window-1-i))]
		if v := open(i); v != want {
			t.Errorf("%d: %v, want %v", i, v, want)
		}
	}
	for i := range sent {
		open(i)
	}
	for i := range sent {
		if v := open(i); v != replayed {
			t.Fatalf("%d again: %v", i, v)
		}
	}
	whole := a.seal(nil, []byte("frame"), a.peer.id)
	for i := range whole {
		bad := bytes.Clone(whole)
		bad[i] ^= 1
		if _, v := b.open(bad); v == accepted || v == greeting {
			t.Fatalf("octet %d: %v", i, v)
		}
	}
	for n := range sealLen {
		if _, v := b.open(whole[:n]); v != forged {
			t.Fatalf("%d octets: %v", n, v)
		}
	}
	if _, v := b.open(whole); v != accepted {
		t.Errorf("untouched: %v", v)
	}
}

// What was recorded before either end began anew never counts again.
func TestSessions(t *testing.T) {
	a, b := ends(t)
	meet(t, a, b)
	old := a.seal(nil, []byte("old"), a.peer.id)
	for range 2 * maxRetired {
		again, err := newSealer(keyFile(t))
		if err != nil {
			t.Fatal(err)
		}
		for range 3 { // b may have begun a new session
			if say(again, b, "hello") == stale {
				again.open(b.seal(nil, nil, b.stale.id))
			}
		}
		if v := say(again, b, "new"); v != accepted {
			t.Fatalf("after a restart: %v", v)
		}
		if _, v := b.open(bytes.Clone(old)); v == accepted || v == greeting {
			t.Fatalf("of the session before: %v", v)
		}
		old = again.seal(nil, []byte("old"), again.peer.id)
	}
}

func TestKeyFile(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		name = filepath.Join(dir, name)
		must(os.WriteFile(name, []byte(text), mode))
		must(os.Chmod(name, mode))
		return name
	}
	for want, name := range map[string]string{
		"makes one":          filepath.Join(dir, "none"),
		"others may read":    file("open", strings.Repeat("a5", keyLen), 0o644),
		"expected 64":        file("short", "a5a5", 0o600),
		"hexadecimal digits": file("words", strings.Repeat("no", keyLen), 0o600),
	} {
		if _, err := Open(Spec{UDP, 0, free(t, "127.0.0.1"), free(t, "127.0.0.1"), name}, true); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// A forged datagram from the right address is counted and lost, and the tunnel goes on.
func TestForged(t *testing.T) {
	x, y := pair(t, VXLAN, keyFile(t), free(t, "127.0.0.1"), free(t, "127.0.0.2"))
	acquaint(t, x, y)
	plain, err := Open(Spec{VXLAN, 42, free(t, "127.0.0.1"), y.spec.Local, ""}, true)
	must(err)
	defer plain.Close()
	f := superframe(100, 1448)
	must(plain.Write(f))
	if _, err := next(t, y); err != tap.ErrRefused || y.forged != 1 {
		t.Errorf("forged: %v, %d counted", err, y.forged)
	}
	must(x.Write(f))
	if _, err := next(t, y); err != nil {
		t.Error(err)
	}
}

// A datagram that is sent again is counted and lost, and the tunnel goes on.
func TestReplayed(t *testing.T) {
	x, y := pair(t, UDP, keyFile(t), free(t, "127.0.0.1"), free(t, "127.0.0.1"))
	acquaint(t, x, y)
	again := y.seal.seal(nil, []byte("frame"), y.seal.peer.id)
	for i := range 3 {
		if _, err := unix.SendmsgN(y.fd, again, nil, nil, 0); err != nil {
			t.Fatal(err)
		}
		b, err := next(t, x)
		if i == 0 && (err != nil || string(b) != "frame") || i > 0 && err != tap.ErrRefused || x.replayed != uint64(i) {
			t.Errorf("time %d: %q, %v, %d counted", i, b, err, x.replayed)
		}
	}
	f := superframe(100, 1448)
	must(y.Write(f))
	if _, err := next(t, x); err != nil {
		t.Error(err)
	}
}

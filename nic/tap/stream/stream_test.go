package stream

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"tapir/lab/check/testenv"
	"tapir/nic/tap"
	"tapir/nic/tap/meet"
	"tapir/wire/frame"
)

func must(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func newFrame(n int) *frame.Frame {
	f := frame.New(make([]byte, frame.DefaultHeadroom+1<<17), nil)
	b := f.Extend(n)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return f
}

// open is a wire that listens, and the end of a program that connects to it.
func open(t *testing.T) (w *Wire, peer net.Conn) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "wire")
	w, err := Open(path, true)
	must(t, err)
	t.Cleanup(func() { w.Close() })
	peer, err = net.Dial("unix", path)
	must(t, err)
	t.Cleanup(func() { peer.Close() })
	testenv.UntilTurned(t, "they meet", func() bool { return w.up }, w)
	return w, peer
}

func record(b []byte) []byte { return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...) }

// Frames arrive whole and in order, however the stream is cut.
func TestPieces(t *testing.T) {
	for _, piece := range []int{1, 3, 4, 5, 17, 1000, 1 << 17} {
		w, peer := open(t)
		var all []byte
		lengths := []int{14, 60, 1514, 9014, 65549, 14}
		for _, n := range lengths {
			all = append(all, record(newFrame(n).Bytes())...)
		}
		if piece < 10 {
			all, lengths = all[:(14+4)+(60+4)], lengths[:2]
		}
		go func() {
			for b := range bytesOf(all, piece) {
				if _, err := peer.Write(b); err != nil {
					return
				}
			}
		}()
		for _, n := range lengths {
			f := newFrame(0)
			testenv.UntilTurned(t, fmt.Sprint(n, " octets"), func() bool { return w.Read(f) == nil }, w)
			if !bytes.Equal(f.Bytes(), newFrame(n).Bytes()) {
				t.Fatalf("pieces of %d: %d octets, want %d", piece, f.Len(), n)
			}
		}
	}
}

// bytesOf cuts b into pieces.
func bytesOf(b []byte, piece int) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(b) > 0 {
			n := min(piece, len(b))
			if !yield(b[:n]) {
				return
			}
			b = b[n:]
		}
	}
}

// A length that no frame has ends the session with that peer; the next one is welcome.
func TestBadLengths(t *testing.T) {
	for _, n := range []uint32{0, 13, longest + 1, 1 << 31, 1<<32 - 1} {
		w, peer := open(t)
		_, err := peer.Write(append(binary.BigEndian.AppendUint32(record(newFrame(60).Bytes()), n), make([]byte, 100)...))
		must(t, err)
		testenv.UntilTurned(t, "the good frame", func() bool { return w.Read(newFrame(0)) == nil }, w)
		testenv.UntilTurned(t, "the end", func() bool { return w.Read(newFrame(0)) == tap.ErrRefused }, w)
		if w.up || w.broken != 1 {
			t.Errorf("%d: up %v, %d broken", n, w.up, w.broken)
		}
		next, err := net.Dial("unix", w.name[len("stream:"):])
		must(t, err)
		testenv.UntilTurned(t, "the next peer", func() bool { return w.up }, w)
		must(t, next.Close())
	}
}

// A peer that goes amid a frame leaves nothing of it to the next.
func TestPeerGoes(t *testing.T) {
	w, peer := open(t)
	_, err := peer.Write(record(newFrame(1000).Bytes())[:500])
	must(t, err)
	_ = w.Read(newFrame(0))
	must(t, peer.Close())
	testenv.UntilTurned(t, "it notices", func() bool { return w.Read(newFrame(0)) == tap.ErrAgain && !w.up }, w)
	if err := w.Write(newFrame(60)); err != tap.ErrRefused {
		t.Errorf("without a peer: %v", err)
	}
	next, err := net.Dial("unix", w.name[len("stream:"):])
	must(t, err)
	defer next.Close()
	testenv.UntilTurned(t, "the next peer", func() bool { return w.up }, w)
	_, err = next.Write(record(newFrame(77).Bytes()))
	must(t, err)
	f := newFrame(0)
	testenv.UntilTurned(t, "its frame", func() bool { return w.Read(f) == nil }, w)
	if f.Len() != 77 {
		t.Errorf("%d octets", f.Len())
	}
}

// A peer that does not read has the writer wait; nothing is lost or torn.
func TestBackPressure(t *testing.T) {
	w, peer := open(t)
	sent := 0
	for ; ; sent++ {
		if err := w.Write(newFrame(9000)); err == tap.ErrAgain {
			break
		} else if err != nil || sent > 10000 {
			t.Fatal(sent, err)
		}
	}
	if w.Ready(true, true) || w.Counters()[4].Value == 0 {
		t.Error("a full socket has room")
	}
	got := make(chan int)
	go func() {
		n := 0
		defer func() { got <- n }()
		for b := make([]byte, 9004); n < sent+1; n++ {
			for at := 0; at < len(b); {
				k, err := peer.Read(b[at:])
				if err != nil {
					return
				}
				at += k
			}
			if !bytes.Equal(b, record(newFrame(9000).Bytes())) {
				return
			}
		}
	}()
	testenv.UntilTurned(t, "room", func() bool { return w.Write(newFrame(9000)) == nil }, w)
	testenv.UntilTurned(t, "all is sent", func() bool { return len(w.out) == 0 }, w)
	if n := <-got; n != sent+1 {
		t.Errorf("%d frames came, want %d", n, sent+1)
	}
}

// At TCP only the named peer is heard, and one at a time.
func TestStrangers(t *testing.T) {
	w, err := Open("listen:127.0.0.1:47931,127.0.0.9", true)
	must(t, err)
	defer w.Close()
	dial := func(from string) net.Conn {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		c, err := d.Dial("tcp", "127.0.0.1:47931")
		must(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	dial("127.0.0.8")
	testenv.UntilTurned(t, "the stranger is refused", func() bool { return w.point.Stats().Refused == 1 }, w)
	dial("127.0.0.9")
	testenv.UntilTurned(t, "the peer is in", func() bool { return w.up }, w)
	dial("127.0.0.9")
	testenv.UntilTurned(t, "the third is refused", func() bool { return w.point.Stats().Refused == 2 }, w)
	if !w.up {
		t.Error("the peer is out")
	}
}

// What is no wire is refused with one line; a file that is no socket stays.
func TestRefused(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	must(t, os.WriteFile(plain, []byte("mine"), 0o600))
	for _, text := range []string{"", "x", "listen:192.0.2.1:7000", "listen:/", "connect:192.0.2.1:7000,192.0.2.2", "192.0.2.1:7000",
		plain, "/no/such/directory/x"} {
		if w, err := Open(text, true); err == nil {
			t.Errorf("%s is a wire", text)
			w.Close()
		} else if bytes.ContainsRune([]byte(err.Error()), '\n') {
			t.Errorf("%s: %v", text, err)
		}
	}
	if b, err := os.ReadFile(plain); err != nil || string(b) != "mine" {
		t.Error("a file of somebody's was replaced")
	}
	if cfg, err := Parse("listen:127.0.0.1:7000"); err != nil || cfg.Role != meet.Listen {
		t.Error(cfg, err)
	}
}

package meet

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"tapir/lab/check/testenv"
)

func must(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func open(t *testing.T, cfg Config) *Point {
	t.Helper()
	p, err := Open(cfg)
	must(t, err)
	t.Cleanup(p.Close)
	return p
}

// Two ends meet, whoever comes first; the socket is the user's alone, and goes with the end.
func TestMeet(t *testing.T) {
	for name, cfg := range map[string][2]Config{
		"path": {{Path: filepath.Join(t.TempDir(), "p")}, {}},
		"connects first": {{Addr: netip.MustParseAddrPort("127.0.0.1:47941"), Role: Connect},
			{Addr: netip.MustParseAddrPort("127.0.0.1:47941"), Role: Listen}},
		"IPv6": {{Addr: netip.MustParseAddrPort("[::1]:47942"), Role: Listen, From: netip.MustParseAddr("::1")},
			{Addr: netip.MustParseAddrPort("[::1]:47942"), Role: Connect}},
	} {
		if name == "path" {
			cfg[1] = cfg[0]
		}
		a, b := open(t, cfg[0]), open(t, cfg[1])
		testenv.UntilTurned(t, name, func() bool { return a.Conn() >= 0 && b.Conn() >= 0 }, a, b)
		if a.Accepted() == b.Accepted() || a.Stats().Joined != 1 {
			t.Errorf("%s: %v %v %+v", name, a.Accepted(), b.Accepted(), a.Stats())
		}
		if p := cfg[0].Path; p != "" {
			info, err := os.Stat(p)
			must(t, err)
			if info.Mode().Perm() != 0o600 {
				t.Errorf("mode %v", info.Mode())
			}
		}
		b.Close()
		testenv.UntilTurned(t, name+": notices", func() bool {
			if a.Turn() { // the end of the stream is there to be read
				a.Drop()
			}
			return a.Conn() < 0
		})
		a.Close()
		a.Close()
		if _, err := os.Lstat(cfg[0].Path); err == nil {
			t.Error("the socket is left")
		}
	}
}

// A socket of an end that was killed is replaced, and one that somebody serves is not.
func TestStaleSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err, unix.Bind(fd, &unix.SockaddrUnix{Name: path}), unix.Close(fd))
	a := open(t, Config{Path: path})
	if a.listener < 0 {
		t.Error("it does not listen")
	}
	if _, err := Open(Config{Path: path, Role: Listen}); err != nil {
		t.Log(err) // absent counts it as not there yet
	}
	testenv.UntilTurned(t, "somebody serves it still", func() bool { return a.ours() }, a)
}

// An end whose socket file is taken away listens again.
func TestSocketRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p")
	a := open(t, Config{Path: path})
	for range 3 {
		must(t, os.Remove(path))
		testenv.UntilTurned(t, "it listens again", func() bool {
			_, err := os.Lstat(path)
			return err == nil
		}, a)
	}
	b := open(t, Config{Path: path})
	testenv.UntilTurned(t, "they meet", func() bool { return a.Conn() >= 0 && b.Conn() >= 0 }, a, b)
}

// An end that listens connects to who takes the path over, as QEMU does that serves it, whenever
// that is: it looks again and again.
func TestTakenOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p")
	a := open(t, Config{Path: path})
	for ticks := 0; ticks < 3; { // as long as nobody comes
		if n, err := unix.Poll([]unix.PollFd{{Fd: int32(a.Fd()), Events: unix.POLLIN}}, 1000); err == nil && n > 0 {
			a.Turn()
			ticks++
		} else if n == 0 {
			t.Fatalf("it looked %d times", ticks)
		}
	}
	must(t, os.Remove(path))
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err, unix.Bind(fd, &unix.SockaddrUnix{Name: path}), unix.Listen(fd, 1))
	defer unix.Close(fd)
	testenv.UntilTurned(t, "it connects", func() bool { return a.Conn() >= 0 && !a.Accepted() }, a)
}

func TestCheck(t *testing.T) {
	for want, c := range map[string]Config{
		"at most 107 octets": {Path: "/" + strings.Repeat("x", 107)},
		"expected a path":    {},
		"open to strangers":  {Addr: netip.MustParseAddrPort("192.0.2.1:7000"), Role: Listen},
	} {
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

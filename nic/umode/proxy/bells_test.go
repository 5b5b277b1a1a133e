package proxy

import (
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"tapir/lab/check/testenv"
	"tapir/nic/uapi/doorbell"
)

func (b *bed) bell(n uint64, command string) (errno uint32, fds []int) {
	b.t.Helper()
	a, fds := b.ask(Request{Kind: Bell, File: 1, Size: n, Command: []byte(command)})
	return a.Errno, fds
}

// rung is what doorbells posted since the last call.
func (b *bed) rung() string {
	b.t.Helper()
	a, _ := b.command(100, "", 'B')
	return string(a.Memory)
}

// bells are the client's; the first posts command.
func (b *bed) bells(command string) *doorbell.Bells {
	b.t.Helper()
	errno, fds := b.bell(0, command)
	if errno != 0 || len(fds) != 2 {
		b.t.Fatalf("errno %d, %d files", errno, len(fds))
	}
	fd, err := unix.Dup(fds[1])
	if err != nil {
		b.t.Fatal(err)
	}
	bells, err := doorbell.Open(fds[0], fd)
	if err != nil {
		b.t.Fatal(err)
	}
	return bells
}

func TestBells(t *testing.T) {
	b := newBed(t)
	bells := b.bells("bx")
	for n, command := range map[uint64]string{63: "by", MaxBells - 1: "bz"} {
		if errno, fds := b.bell(n, command); errno != 0 || len(fds) != 0 {
			t.Fatalf("doorbell %d: errno %d, %d files", n, errno, len(fds))
		}
	}
	for _, test := range []struct {
		ring []int
		want string
	}{{[]int{0}, "x"}, {[]int{63}, "y"}, {[]int{MaxBells - 1}, "z"}, {[]int{MaxBells - 1, 63, 0}, "xyz"}, {[]int{1, 100}, ""}, {nil, ""}} {
		for _, n := range test.ring {
			if _, err := bells.Ring(n); err != nil {
				t.Fatal(err)
			}
		}
		// The request comes after what was rung for.
		got := []byte(b.rung())
		slices.Sort(got) // the session may have looked between
		if string(got) != test.want {
			t.Errorf("%v: posted %q, want %q", test.ring, got, test.want)
		}
	}
	if errno, _ := b.bell(0, "bw"); errno != 0 {
		t.Fatal(errno)
	}
	if _, err := bells.Ring(0); err != nil || b.rung() != "w" {
		t.Errorf("a doorbell with another command: %v", err)
	}
	b.end()
	testenv.Await(t, b.toy.closed, "the toy's end")
	if _, err := bells.Ring(0); err != syscall.EPIPE {
		t.Errorf("after the session's end: %v", err)
	}
}

func TestRefusedBells(t *testing.T) {
	b := newBed(t)
	if errno, _ := b.bell(MaxBells, "bx"); errno != uint32(syscall.EINVAL) {
		t.Errorf("one too many: errno %d", errno)
	}
	if a, _ := b.ask(Request{Kind: Bell, File: 7, Command: []byte("bx")}); a.Errno != uint32(syscall.EBADF) {
		t.Errorf("of no file: errno %d", a.Errno)
	}
}

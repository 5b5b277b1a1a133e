package proxy

import (
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"tapir/lab/check/testenv"
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
func (b *bed) bells(command string) *Bells {
	b.t.Helper()
	errno, fds := b.bell(0, command)
	if errno != 0 || len(fds) != 2 {
		b.t.Fatalf("errno %d, %d files", errno, len(fds))
	}
	fd, err := unix.Dup(fds[1])
	if err != nil {
		b.t.Fatal(err)
	}
	bells, err := OpenBells(fds[0], fd)
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

// A doorbell that was rung is not rung again before somebody has looked, and
// what a client writes to the memory reaches no further than its doorbells.
func TestBellMemory(t *testing.T) {
	b, memory, err := newBells()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(memory)
	defer b.close()
	for i, want := range []bool{true, false, false} {
		if fresh, err := b.Ring(70); fresh != want || err != nil {
			t.Errorf("ring %d: %v, %v", i, fresh, err)
		}
	}
	seen := 0
	b.drain(func(n int) {
		if seen++; n != 70 {
			t.Errorf("doorbell %d", n)
		}
	})
	if fresh, _ := b.Ring(70); !fresh || seen != 1 {
		t.Errorf("after a look: fresh %v, seen %d times", fresh, seen)
	}
	for i := range b.bell.rung {
		b.bell.rung[i].Store(^uint64(0))
	}
	b.bell.words.Store(^uint64(0))
	seen = 0
	b.drain(func(n int) {
		if seen++; n < 0 || n >= MaxBells {
			t.Errorf("doorbell %d", n)
		}
	})
	if seen != MaxBells {
		t.Errorf("%d doorbells", seen)
	}
	if err := unix.Ftruncate(memory, 0); err != unix.EPERM {
		t.Errorf("a client takes the memory away: %v", err)
	}
}

// While the NIC looks by itself, ringing signals nothing.
func TestBellsThatTheNICLooksAt(t *testing.T) {
	b, memory, err := newBells()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(memory)
	defer b.close()
	for _, looks := range []bool{true, false, true} {
		b.Looks(looks)
		if fresh, err := b.Ring(3); !fresh || err != nil || !b.Rung() {
			t.Errorf("the NIC looks %v: fresh %v, %v, rung %v", looks, fresh, err, b.Rung())
		}
		if _, err := unix.Read(b.fd, make([]byte, 8)); (err == unix.EAGAIN) != looks {
			t.Errorf("the NIC looks %v: the signal: %v", looks, err)
		}
		if b.drain(func(int) {}); b.Rung() {
			t.Error("rung after a look")
		}
	}
}

// The eventfd is the client's as well: one that makes it block, and takes its
// count away, does not have the NIC wait.
func TestBellsOfABlockingClient(t *testing.T) {
	b, memory, err := newBells()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(memory)
	if err := unix.SetNonblock(b.fd, false); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 1000 {
			b.drain(func(int) {})
		}
	}()
	testenv.Await(t, done, "a thousand looks")
	b.close()
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

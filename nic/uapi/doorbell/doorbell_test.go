package doorbell

import (
	"testing"

	"golang.org/x/sys/unix"

	"tapir/lab/check/testenv"
)

// A doorbell that was rung is not rung again before somebody has looked, and
// what a client writes to the memory reaches no further than its doorbells.
func TestBellMemory(t *testing.T) {
	b, memory, err := New()
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
	b.Drain(func(n int) {
		if seen++; n != 70 {
			t.Errorf("doorbell %d", n)
		}
	})
	if fresh, _ := b.Ring(70); !fresh || seen != 1 {
		t.Errorf("after a look: fresh %v, seen %d times", fresh, seen)
	}
	for i := range b.page.rung {
		b.page.rung[i].Store(^uint64(0))
	}
	b.page.words.Store(^uint64(0))
	seen = 0
	b.Drain(func(n int) {
		if seen++; n < 0 || n >= Max {
			t.Errorf("doorbell %d", n)
		}
	})
	if seen != Max {
		t.Errorf("%d doorbells", seen)
	}
	if err := unix.Ftruncate(memory, 0); err != unix.EPERM {
		t.Errorf("a client takes the memory away: %v", err)
	}
}

// While the NIC looks by itself, ringing signals nothing.
func TestBellsThatTheNICLooksAt(t *testing.T) {
	b, memory, err := New()
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
		if b.Drain(func(int) {}); b.Rung() {
			t.Error("rung after a look")
		}
	}
}

// The eventfd is the client's as well: one that makes it block, and takes its
// count away, does not have the NIC wait.
func TestBellsOfABlockingClient(t *testing.T) {
	b, memory, err := New()
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
			b.Drain(func(int) {})
		}
	}()
	testenv.Await(t, done, "a thousand looks")
	b.close()
}

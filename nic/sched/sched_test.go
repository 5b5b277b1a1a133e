package sched

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestShort: the kernel shows the slice where it knows slices (Linux 6.12),
// and the thread's policy, niceness and slice are afterwards what they were.
func TestShort(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	attr := func() unix.SchedAttr {
		a, err := unix.SchedGetAttr(0, 0)
		if err != nil {
			t.Fatal(err)
		}
		return *a
	}
	was := attr()
	restore := Short()
	want := was
	if was.Runtime != 0 {
		want.Runtime = slice
	}
	if got := attr(); got != want {
		t.Errorf("%+v in short slices, want %+v", got, want)
	}
	restore()
	if got := attr(); got != was {
		t.Errorf("%+v afterwards, was %+v", got, was)
	}
}

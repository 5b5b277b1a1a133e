package loop

import "golang.org/x/sys/unix"

// slice is the processor time that the loop's thread asks for at a time. From
// Linux 6.12 on, a thread that wakes with a shorter slice than the running one
// takes its place at once. A program that polls its queues would otherwise keep
// the NIC waiting for the rest of its own, some milliseconds.
const slice = 100_000 // nanoseconds

// shortSlice has the calling thread scheduled in short slices until restore is
// called. It needs no rights; older kernels take it for granted and do nothing.
func shortSlice() (restore func()) {
	was, err := unix.SchedGetAttr(0, 0)
	if err != nil || was.Policy != unix.SCHED_NORMAL {
		return func() {}
	}
	short := *was
	short.Runtime = slice
	if unix.SchedSetAttr(0, &short, 0) != nil {
		return func() {}
	}
	return func() { unix.SchedSetAttr(0, was, 0) }
}

// Package sched is what threads that take turns with other processes ask of the
// kernel's scheduler.
package sched

import "golang.org/x/sys/unix"

// slice is the processor time that the thread of a NIC asks for at a time, and
// that of a program while it sleeps for completions. From
// Linux 6.12 on, a thread that wakes with a shorter slice than the running one
// takes its place at once. A program that polls its queues would otherwise keep
// the NIC waiting for the rest of its own, some milliseconds. Who yields gives way
// to those whose slices are no longer.
const slice = 100_000 // nanoseconds

// Short has the calling thread scheduled in short slices until restore is
// called. It needs no rights; older kernels take it for granted and do nothing.
func Short() (restore func()) {
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

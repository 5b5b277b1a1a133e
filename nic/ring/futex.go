package ring

import (
	"math"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Operations of futex(2), between processes.
const (
	futexWait = 0
	futexWake = 1
)

// wake wakes whoever sleeps on w.
func wake(w *atomic.Uint32) {
	_, _, _ = unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(w)), futexWake, math.MaxInt32, 0, 0, 0)
}

// sleep returns at once if w is not v, else when it is woken, when most has
// passed or when a signal came.
func sleep(w *atomic.Uint32, v uint32, most time.Duration) {
	timeout := unix.NsecToTimespec(int64(most))
	_, _, _ = unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(w)), futexWait, uintptr(v),
		uintptr(unsafe.Pointer(&timeout)), 0, 0)
}

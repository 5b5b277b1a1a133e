package ipc

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Sleeper is a thread of this process that sleeps in a system call on a descriptor, or
// on the memory of process PID; 0: on the descriptor.
type Sleeper struct{ FD, PID int }

// Sleepers are the threads of this process that sleep in system calls, as far as
// these move or change data. A thread that is not running because others are does not
// sleep.
func Sleepers() (list []Sleeper) {
	names, _ := filepath.Glob("/proc/self/task/*/syscall") // the pattern is well-formed
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		var nr, first int
		if n, _ := fmt.Sscanf(string(b), "%d 0x%x", &nr, &first); n != 2 {
			continue // it runs
		}
		switch nr {
		case unix.SYS_READ, unix.SYS_WRITE, unix.SYS_PREAD64, unix.SYS_PWRITE64, unix.SYS_PWRITEV,
			unix.SYS_IOCTL, unix.SYS_FALLOCATE:
			list = append(list, Sleeper{FD: first})
		case unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV:
			list = append(list, Sleeper{PID: first})
		}
	}
	return list
}

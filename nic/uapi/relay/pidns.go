package relay

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/ipc"
	"tapir/nic/uapi/trap"
)

// depth is how many PID namespaces the supervisor is below this process: 1 if
// it is in a container and the NIC is not. Threads have other numbers there.
type depth int

// depthOf is that of a supervisor.
func depthOf(pid int) depth {
	return depth(max(0, len(numbers(pid))-len(numbers(os.Getpid()))))
}

// numbers are those of a thread, from our PID namespace on inwards; nil if it is
// gone.
func numbers(thread int) []string {
	return strings.Fields(procField(fmt.Sprintf("/proc/%d/status", thread), "NSpid"))
}

// inner is the number that the supervisor has for a thread; 0 if it is gone.
func (d depth) inner(thread int) int {
	if d == 0 {
		return thread
	}
	if list := numbers(thread); int(d) < len(list) {
		n, _ := strconv.Atoi(list[d]) // the kernel writes numbers
		return n
	}
	return 0
}

// outer is our number for what is a thread's to the supervisor; process is a
// pidfd of its process. 0 if it is gone.
func (d depth) outer(inner, process int) int {
	if d == 0 {
		return inner
	}
	// none if it is gone
	tasks, _ := os.ReadDir("/proc/" + procField(fmt.Sprintf("/proc/self/fdinfo/%d", process), "Pid") + "/task")
	for _, t := range tasks {
		if n, err := strconv.Atoi(t.Name()); err == nil && d.inner(n) == inner {
			return n
		}
	}
	return 0
}

// tell sends a message about a call. Where the NIC's process has other numbers
// for threads, a pidfd goes along.
func (c *Client) tell(made *trap.Call, m *message, tail string) {
	m.Thread = int32(made.Thread())
	pidfd := -1
	if c.Hello.Below {
		if pid, err := made.Process(); err == nil {
			pidfd, _ = unix.PidfdOpen(pid, 0) // fails if it is gone
		}
	}
	c.link.send(m, tail, pidfd)
	ipc.Close(pidfd)
}

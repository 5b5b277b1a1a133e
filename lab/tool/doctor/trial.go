package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"tapir/nic/uapi/trap"
)

// trialName is the argv[0] under which this program, started again by
// tryUser, is the trial and nothing else.
const trialName = "tapir-doctor-trial"

// supervisedArg is the argument of this program, started again by tryRun.
const supervisedArg = "tapir-doctor-supervised"

// trialTime bounds one trial: where many network namespaces come and go, a new one
// may take seconds.
const trialTime = 20 * time.Second

// The trial must run before main of whatever program holds this package.
func init() {
	trap.Launched()
	if len(os.Args) == 2 && os.Args[1] == supervisedArg {
		os.Exit(0)
	}
	if len(os.Args) == 1 && os.Args[0] == trialName {
		inside(os.Stdout)
		os.Exit(0)
	}
}

// inside runs in the new user namespace and reports two error numbers, 0 for
// success: of making a network namespace and of making a TAP in it. Both are
// deeds, because a security module may leave a process its capabilities and
// still refuse their use.
func inside(w *os.File) {
	runtime.LockOSThread()
	net := syscall.Unshare(syscall.CLONE_NEWNET)
	tap := net
	if net == nil {
		tap = tryTAP()
	}
	fmt.Fprintf(w, "trial %d %d\n", number(net), number(tap))
}

func number(err error) syscall.Errno {
	var n syscall.Errno
	if err != nil && !errors.As(err, &n) {
		return syscall.EIO
	}
	return n
}

// tryRun starts this program again under a supervisor.
func tryRun() error {
	p, err := trap.Start(trap.Options{Argv: []string{"/proc/self/exe", supervisedArg}})
	if err != nil {
		return err
	}
	code, err := p.Wait()
	if err == nil && code != 0 {
		err = fmt.Errorf("it ended with code %d", code)
	}
	return err
}

// tryUser starts this program again in a new user namespace.
func tryUser(ctx context.Context) Trial {
	ctx, cancel := context.WithTimeout(ctx, trialTime)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args = []string{trialName}
	cmd.Stdout = &out
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return Trial{Start: err}
	}
	return parseTrial(out.String())
}

func parseTrial(out string) Trial {
	var net, tap syscall.Errno
	if _, err := fmt.Sscanf(out, "trial %d %d\n", &net, &tap); err != nil {
		return Trial{Start: fmt.Errorf("the trial answered %q", strings.TrimSpace(out))}
	}
	var t Trial
	if net != 0 {
		t.Net = net
	}
	if tap != 0 {
		t.TAP = tap
	}
	return t
}

func openTUN() (int, error) {
	return syscall.Open("/dev/net/tun", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
}

// ifreq is struct ifreq of linux/if.h as TUNSETIFF reads it.
type ifreq struct {
	name  [syscall.IFNAMSIZ]byte
	flags uint16
	_     [22]byte
}

// tryTAP makes a TAP in the network namespace of the calling thread. The
// kernel picks a free name and removes the TAP when the descriptor closes.
func tryTAP() error {
	fd, err := openTUN()
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	req := ifreq{flags: syscall.IFF_TAP | syscall.IFF_NO_PI}
	copy(req.name[:], "tapirdoc%d")
	_, _, n := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.TUNSETIFF, uintptr(unsafe.Pointer(&req)))
	if n != 0 {
		return n
	}
	return nil
}

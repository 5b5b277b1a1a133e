package trap

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// kernelError says why this kernel cannot supervise, if it cannot.
func kernelError() error {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return err
	}
	return tooOld(unix.ByteSliceToString(u.Release[:]))
}

// tooOld judges a kernel by its release, such as "5.4.0-150-generic".
func tooOld(release string) error {
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		return nil // not a name we know how to read: let seccomp itself say
	}
	if major < 5 || major == 5 && minor < 9 {
		return fmt.Errorf("Linux %s cannot do this: a supervisor needs SECCOMP_IOCTL_NOTIF_ADDFD of Linux 5.9: use "+
			"a newer kernel or --via preload", release)
	}
	return nil
}

// explain turns a failed step of the launcher into a message with a remedy.
func explain(step byte, errno unix.Errno) error {
	if step == stepPrivileges {
		return fmt.Errorf("take away the right to set the machine's clock: %w", errno)
	}
	switch {
	case errors.Is(errno, unix.EBUSY):
		return fmt.Errorf("supervise the program: %w: another supervisor already listens to this process tree, and "+
			"Linux allows one: "+
			"start it outside of the other tapir run, container manager (LXD or Incus: "+
			"security.syscalls.intercept.*) or sandbox, or use --via preload", errno)
	case errors.Is(errno, unix.ENOSYS), errors.Is(errno, unix.EINVAL):
		return fmt.Errorf("supervise the program: %w: this kernel has no seccomp user notification: it needs "+
			"CONFIG_SECCOMP_FILTER; or use --via preload", errno)
	case errors.Is(errno, unix.EPERM), errors.Is(errno, unix.EACCES):
		return fmt.Errorf(
			"supervise the program: %w: a seccomp profile around this process forbids seccomp(2): allow it, "+
				"for example with: docker run --security-opt seccomp=unconfined; or use --via preload", errno)
	}
	return fmt.Errorf("supervise the program: %w", errno)
}

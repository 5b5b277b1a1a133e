package tap

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// OpenDevice opens the device file of a macvtap interface, such as /dev/tap7 where 7 is the
// interface's index. With vnet, frames may carry a frame.Offload. An error is one line.
func OpenDevice(path string, vnet bool) (*TAP, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("tapdev:%s: %w%s", path, err, remedy(path, err))
	}
	t := &TAP{fd: fd, vnet: vnet}
	if err := t.claim(); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("tapdev:%s: %w", path, err)
	}
	return t, nil
}

func remedy(path string, err error) string {
	switch {
	case errors.Is(err, unix.ENOENT):
		return ": `ip link add link eth1 name mv0 type macvtap mode bridge` makes one"
	case errors.Is(err, unix.EACCES):
		return fmt.Sprintf(": as root run `chown $USER %s`", path)
	case errors.Is(err, unix.EBUSY):
		return ": another process holds it"
	}
	return ""
}

// Attached reports whether the queue's interface exists.
func (t *TAP) Attached() bool {
	ifr, err := unix.NewIfreq("")
	return err == nil && unix.IoctlIfreq(t.fd, unix.TUNGETIFF, ifr) == nil
}

// claim sets the queue up and finds its interface.
func (t *TAP) claim() error {
	ifr, err := unix.NewIfreq("")
	if err == nil {
		err = unix.IoctlIfreq(t.fd, unix.TUNGETIFF, ifr)
	}
	if err != nil {
		return fmt.Errorf("not the device of a macvtap: TUNGETIFF: %w", err)
	}
	t.name = ifr.Name()
	flags := uint16(unix.IFF_TAP | unix.IFF_NO_PI)
	if t.vnet {
		flags |= unix.IFF_VNET_HDR
	}
	ifr.SetUint16(flags)
	if err := unix.IoctlIfreq(t.fd, unix.TUNSETIFF, ifr); err != nil {
		return fmt.Errorf("TUNSETIFF: %w", err)
	}
	if t.vnet {
		var err error
		t.uso, err = setVnet(t.fd, true)
		return err
	}
	return setOffload(t.fd, 0)
}

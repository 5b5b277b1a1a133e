package link

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// offloads are the ethtool commands that switch what a link leaves to later
// stages: checksums, scatter-gather and segmentation, both ways. Checksums
// come last: without them the kernel turns off the others by itself.
var offloads = [...]uint32{
	unix.ETHTOOL_SGRO, unix.ETHTOOL_SGSO, unix.ETHTOOL_STSO, unix.ETHTOOL_SSG, unix.ETHTOOL_STXCSUM,
	unix.ETHTOOL_SRXCSUM,
}

// NoOffloads turns a link's offloads off, so that only true frames with
// complete checksums cross it. What a link cannot switch stays.
func (n *Net) NoOffloads(name string) error {
	return wrap("turn off the offloads of", name, n.ns.Do(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		for _, cmd := range offloads {
			value := struct{ cmd, data uint32 }{cmd: cmd}
			var req struct {
				name [unix.IFNAMSIZ]byte
				data unsafe.Pointer
				_    [16]byte
			}
			copy(req.name[:unix.IFNAMSIZ-1], name)
			req.data = unsafe.Pointer(&value)
			_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&req)))
			if errno != 0 && errno != unix.EOPNOTSUPP {
				return errno
			}
		}
		return nil
	}))
}

package nicnode

import (
	"fmt"
	"os"

	"tapir/lab/host/link"
	"tapir/lab/host/netns"
	"tapir/lab/node"
)

// look finds the interface of a VF, calls do with it and its namespace. It may have been
// moved to another namespace, as those do who give VFs to containers. That is not kept open:
// it could not end.
func (h *vfHost) look(do func(s node.Space, d link.Netdev) error) error {
	if !h.away {
		if d, err := h.Links.NetdevAt(h.index); err == nil {
			return do(h.Space, d)
		}
	}
	name, file, err := h.tap.Queues[0].Moved()
	if err != nil {
		return nil // it is gone: its queues tell
	}
	defer file.Close()
	path := fmt.Sprint("/proc/self/fd/", file.Fd())
	h.away = !h.isHome(path)
	s := h.Space
	if h.away {
		if s.NS, err = netns.Open(path); err != nil {
			return err
		}
		defer s.NS.Close()
		if s.Links, err = link.In(s.NS); err != nil {
			return err
		}
		defer s.Links.Close()
	}
	d, err := s.Links.Netdev(name)
	if err != nil {
		return err
	}
	h.index = d.Index
	return do(s, d)
}

// isHome tells whether a namespace is that in which the interface was made.
func (h *vfHost) isHome(path string) bool {
	home := "/proc/self/ns/net"
	if h.NS != nil {
		home = fmt.Sprint("/proc/self/fd/", h.NS.Fd())
	}
	a, err := os.Stat(path)
	b, err2 := os.Stat(home)
	return err == nil && err2 == nil && os.SameFile(a, b)
}

// renew gives a VF a host TAP again, where the configuration has it: as the kernel gives
// the interfaces of hardware back when a namespace ends. The policies stay as they are.
func (v *vfs) renew(i int) error {
	h, count := v.hosts[i], len(v.hosts)
	v.end(h)
	err := v.add(h.id, true)
	if len(v.hosts) > count {
		v.hosts[i], v.hosts = v.hosts[count], v.hosts[:count]
	}
	return err
}

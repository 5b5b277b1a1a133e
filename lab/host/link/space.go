package link

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"tapir/lab/host/netns"
)

// Space is a network namespace with the links in it: what every lab, demo and
// test bed is built of.
type Space struct {
	NS  *netns.NS
	Net *Net
}

// NewSpace makes a namespace without links but the loopback device, which is
// down. prepare, such as Quiet, sets it up first; it may be nil.
func NewSpace(prepare func(*netns.NS) error) (s *Space, err error) {
	s = &Space{}
	if s.NS, err = netns.New(); err != nil {
		return nil, err
	}
	if prepare != nil {
		err = prepare(s.NS)
	}
	if err == nil {
		s.Net, err = In(s.NS)
	}
	if err != nil {
		s.NS.Close()
		return nil, err
	}
	return s, nil
}

// Close removes the namespace and everything in it, once no process runs there
// any more. A nil Space is closed already.
func (s *Space) Close() {
	if s != nil {
		s.Net.Close()
		s.NS.Close()
	}
}

// AddPort makes a link a port of a bridge, with an MTU in octets, and brings
// it up.
func (s *Space) AddPort(name, bridge string, mtu int) error {
	if err := s.Net.SetMTU(name, mtu); err != nil {
		return err
	}
	if err := s.Net.Join(name, bridge); err != nil {
		return err
	}
	return s.Net.Up(name)
}

// Quiet keeps the kernel's own traffic and filters off the links that are
// made in ns afterwards. Where /proc/sys is read-only, as in some containers,
// things stay as they are.
func Quiet(ns *netns.NS) error {
	for _, s := range [][2]string{
		{"ipv6/conf/default/disable_ipv6", "1"}, // no MLD, RS and DAD on links that only carry frames
		{"bridge/bridge-nf-call-iptables", "0"},
		{"bridge/bridge-nf-call-ip6tables", "0"},
		{"bridge/bridge-nf-call-arptables", "0"},
	} {
		err := ns.Sysctl(s[0], s[1])
		if err != nil && !errors.Is(err, unix.EROFS) && !errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("set net.%s: %w", s[0], err)
		}
	}
	return nil
}

package link

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"tapir/lab/host/netns"
)

// Undo is what has to be undone at the end. Several goroutines may add to it.
type Undo struct {
	mu   sync.Mutex
	list []func()
}

// Add adds a function to run at the end, before those added earlier.
func (u *Undo) Add(fn func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.list = append(u.list, fn)
}

// Run undoes everything, latest first.
func (u *Undo) Run() {
	u.mu.Lock()
	list := u.list
	u.list = nil
	u.mu.Unlock()
	for _, fn := range slices.Backward(list) {
		fn()
	}
}

// Space is the bed of every lab, demo, test and benchmark: a network namespace
// with the links in it, and what Close ends before they go.
type Space struct {
	NS   *netns.NS
	Net  *Net
	Undo Undo
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

// NewBridge is NewSpace with a bridge that is up. It and what AddPort joins to it
// have an MTU in octets.
func NewBridge(bridge string, mtu int) (*Space, error) {
	s, err := NewSpace(Quiet)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(s.Net.AddBridge(bridge), s.Net.SetMTU(bridge, mtu)); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close runs Undo, then removes the namespace and everything in it, once no
// process runs there any more. A nil Space is closed already.
func (s *Space) Close() {
	if s != nil {
		s.Undo.Run()
		s.Net.Close()
		s.NS.Close()
	}
}

// AddTAP makes a TAP, with virtio-net headers if vnet, that is AddPort's.
func (s *Space) AddTAP(name, bridge string, vnet bool, mtu int) error {
	if err := s.Net.AddTAP(name, vnet); err != nil {
		return err
	}
	return s.AddPort(name, bridge, mtu)
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
		{"ipv4/conf/all/arp_ignore", "1"},       // no bridge answers for the address of a host TAP
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

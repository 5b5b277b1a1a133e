package link

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"

	"tapir/lab/host/netns"
)

// Pair is the smallest lab: two network namespaces, in each a TAP on a
// bridge, and a veth pair between the bridges.
//
//	  namespace A                 namespace B
//	NIC - tap0 - br0 - veth0 === veth0 - br0 - tap0 - NIC
//
// The bridges forward super-frames whole between TAPs with a virtio-net
// header.
type Pair struct{ A, B *Side }

// Side is one namespace of a Pair.
type Side struct {
	NS  *netns.NS
	Net *Net
}

// Names of a side's links.
const (
	PairTAP    = "tap0"
	pairBridge = "br0"
	pairVeth   = "veth0"
)

// NewPair makes a pair whose links have the given MTU in octets, ready to
// carry frames. With vnet its TAPs have virtio-net headers.
func NewPair(mtu int, vnet bool) (p *Pair, err error) {
	p = &Pair{}
	defer func() {
		if err != nil {
			p.Close()
			p = nil
		}
	}()
	if p.A, err = newSide(); err != nil {
		return p, err
	}
	if p.B, err = newSide(); err != nil {
		return p, err
	}
	// B's own links come before the veth pair, A's behind it: its ends then
	// differ in index, without which the kernel holds back the news of their
	// carrier for up to a second, and the bridges drop what is sent meanwhile.
	if err := p.B.addLinks(vnet); err != nil {
		return p, err
	}
	if err := p.A.Net.AddVeth(pairVeth, p.B.Net, pairVeth); err != nil {
		return p, err
	}
	if err := p.A.addLinks(vnet); err != nil {
		return p, err
	}
	for _, s := range []*Side{p.A, p.B} {
		if err := s.join(mtu); err != nil {
			return p, err
		}
	}
	return p, p.awaitVeth()
}

func newSide() (*Side, error) {
	ns, err := netns.New()
	if err != nil {
		return nil, err
	}
	n, err := In(ns)
	if err != nil {
		ns.Close()
		return nil, err
	}
	return &Side{ns, n}, Quiet(ns)
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

func (s *Side) addLinks(vnet bool) error {
	if err := s.Net.AddTAP(PairTAP, vnet); err != nil {
		return err
	}
	return s.Net.AddBridge(pairBridge)
}

func (s *Side) join(mtu int) error {
	for _, port := range []string{PairTAP, pairVeth} {
		if err := s.Net.SetMTU(port, mtu); err != nil {
			return err
		}
		if err := s.Net.Join(port, pairBridge); err != nil {
			return err
		}
		if err := s.Net.Up(port); err != nil {
			return err
		}
	}
	return nil
}

// vethWithin is longer than the kernel ever holds a carrier back.
const vethWithin = 3 * time.Second

// awaitVeth waits until frames can cross from one bridge to the other.
func (p *Pair) awaitVeth() error {
	for deadline := time.Now().Add(vethWithin); ; time.Sleep(time.Millisecond) {
		a, errA := p.A.Net.Get(pairVeth)
		b, errB := p.B.Net.Get(pairVeth)
		switch err := errors.Join(errA, errB); {
		case err != nil:
			return err
		case a.Live && b.Live:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("%s has no carrier after %v", pairVeth, vethWithin)
		}
	}
}

// Close removes the namespaces and everything in them, once no process runs
// there any more.
func (p *Pair) Close() {
	for _, s := range []*Side{p.A, p.B} {
		if s != nil {
			s.Net.Close()
			s.NS.Close()
		}
	}
}

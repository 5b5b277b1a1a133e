package link

import (
	"errors"
	"fmt"
	"time"
)

// Pair is the smallest lab: two network namespaces, in each a TAP on a
// bridge, and a veth pair between the bridges.
//
//	  namespace A                 namespace B
//	NIC - tap0 - br0 - veth0 === veth0 - br0 - tap0 - NIC
//
// The bridges forward super-frames whole between TAPs with a virtio-net
// header.
type Pair struct{ A, B *Space }

// Names of the links on each side.
const (
	PairTAP    = "tap0"
	pairBridge = "br0"
	pairVeth   = "veth0"
)

// NewPair makes a pair whose links have the given MTU in octets, ready to
// carry frames. With vnet its TAPs have virtio-net headers.
func NewPair(mtu int, vnet bool) (p *Pair, err error) {
	p = &Pair{}
	if err = p.build(mtu, vnet); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (p *Pair) build(mtu int, vnet bool) (err error) {
	if p.A, err = NewSpace(Quiet); err != nil {
		return err
	}
	if p.B, err = NewBridge(pairBridge, mtu); err != nil {
		return err
	}
	// B's own links come before the veth pair, A's behind it: its ends then
	// differ in index, without which the kernel holds back the news of their
	// carrier for up to a second, and the bridges drop what is sent meanwhile.
	a, b := p.A, p.B
	if err := errors.Join(b.AddTAP(PairTAP, pairBridge, vnet, mtu), a.Net.AddVeth(pairVeth, b.Net, pairVeth),
		a.Net.AddBridge(pairBridge), a.Net.SetMTU(pairBridge, mtu), a.AddTAP(PairTAP, pairBridge, vnet, mtu),
		a.AddPort(pairVeth, pairBridge, mtu), b.AddPort(pairVeth, pairBridge, mtu)); err != nil {
		return err
	}
	return errors.Join(a.Net.AwaitLive(pairVeth), b.Net.AwaitLive(pairVeth))
}

// liveWithin is longer than the kernel ever holds a carrier back, on a busy machine, too.
const liveWithin = 30 * time.Second

// AwaitLive waits until an interface carries frames.
func (n *Net) AwaitLive(name string) error {
	for deadline := time.Now().Add(liveWithin); ; time.Sleep(time.Millisecond) {
		switch info, err := n.Get(name); {
		case err != nil || info.Live:
			return err
		case time.Now().After(deadline):
			return fmt.Errorf("%s has no carrier after %v", name, liveWithin)
		}
	}
}

// Close removes the namespaces and everything in them, once no process runs
// there any more.
func (p *Pair) Close() {
	p.A.Close()
	p.B.Close()
}

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"tapir/lab/check/bench/result"
	"tapir/lab/host/link"
)

// bed is one bridge with everything that is measured on it:
//
//	NIC - gso0 ---+        +--- gso1 - NIC      virtio-net headers
//	NIC - wire0 --+- br0 --+--- wire1 - NIC     true frames
//	host A - on0 -+        +--- on1 - host B    veth, offloads on
//	host C - off0 +        +--- off1 - host D   veth, offloads off
//
// Another veth connects hosts A and B directly, and one hosts C and D.
type bed struct {
	mtu    int
	middle *link.Space
	hosts  map[string]*link.Space // by link in the middle
}

const bridge = "br0"

// pairEnd is the end of a direct veth in each host.
const pairEnd = "pair"

// addresses of the hosts behind the veths; the NICs have others of the same
// network.
var addresses = map[string]string{"on0": "10.9.0.1", "on1": "10.9.0.2", "off0": "10.9.0.3", "off1": "10.9.0.4"}

// nicAddresses are those of the two NICs.
var nicAddresses = [2]string{"10.9.0.11", "10.9.0.12"}

// What a lossy bed does to the frames on their way to a receiver without
// super-frames, wire1 and off1: it loses some of those with data, at the same
// place for all.
const (
	lossPPM  = 10_000
	dataOver = 1000 // octets
)

// bedKind says which bed a case needs; the zero value: none.
type bedKind struct {
	mtu   int
	lossy bool
}

// bed makes the bed the first time that it is needed.
func (b *bench) bed(k bedKind) (*bed, error) {
	if k == (bedKind{}) || b.beds[k] != nil {
		return b.beds[k], nil
	}
	bd := &bed{mtu: k.mtu, hosts: map[string]*link.Space{}}
	if err := bd.build(k.lossy); err != nil {
		bd.close()
		return nil, err
	}
	b.beds[k] = bd
	return bd, nil
}

func (b *bed) build(lossy bool) (err error) {
	if b.middle, err = link.NewBridge(bridge, b.mtu); err != nil {
		return err
	}
	n := b.middle.Net
	if err := n.Up("lo"); err != nil {
		return err
	}
	for i := range 2 {
		for kind, vnet := range map[string]bool{"gso": true, "wire": false} {
			name := fmt.Sprint(kind, i)
			if err := b.middle.AddTAP(name, bridge, vnet, b.mtu); err != nil {
				return err
			}
		}
		for kind, on := range map[string]bool{"on": true, "off": false} {
			if err := b.addHost(fmt.Sprint(kind, i), on); err != nil {
				return err
			}
		}
	}
	if err := b.addPairs(); err != nil || !lossy {
		return err
	}
	if err := errors.Join(n.Drop("wire1", lossPPM, dataOver), n.Drop("off1", lossPPM, dataOver)); err != nil {
		return fmt.Errorf("%w: random loss: %w", errNotHere, err)
	}
	return nil
}

// addPairs connects the hosts of a kind by another veth, without the bridge.
func (b *bed) addPairs() error {
	for kind, on := range map[string]bool{"on": true, "off": false} {
		near, far := b.hosts[kind+"0"], b.hosts[kind+"1"]
		if err := near.Net.AddVeth(pairEnd, far.Net, pairEnd); err != nil {
			return err
		}
		for _, h := range []*link.Space{near, far} {
			if !on {
				if err := h.Net.NoOffloads(pairEnd); err != nil {
					return err
				}
			}
			if err := errors.Join(h.Net.SetMTU(pairEnd, b.mtu), h.Net.Up(pairEnd)); err != nil {
				return err
			}
		}
	}
	return nil
}

// addHost makes a namespace behind a veth pair.
func (b *bed) addHost(name string, offloads bool) error {
	h, err := link.NewSpace(link.Quiet)
	if err != nil {
		return err
	}
	b.hosts[name] = h
	const inner = "eth0"
	if err := b.middle.Net.AddVeth(name, h.Net, inner); err != nil {
		return err
	}
	if !offloads {
		if err := errors.Join(b.middle.Net.NoOffloads(name), h.Net.NoOffloads(inner)); err != nil {
			return err
		}
	}
	prefix := netip.PrefixFrom(netip.MustParseAddr(addresses[name]), 24)
	return errors.Join(b.middle.AddPort(name, bridge, b.mtu), h.Net.SetMTU(inner, b.mtu), h.Net.AddAddr(inner, prefix),
		h.Net.Up(inner), h.Net.Up("lo"))
}

func (b *bed) close() {
	for _, h := range b.hosts {
		h.Close()
	}
	b.middle.Close()
}

// role starts this program again in the middle of the bed.
func (b *bed) role(ctx context.Context, cpu int, role string, spec any) (*child, error) {
	return start(ctx, b.middle.NS, cpu, nil, command(role, spec)...)
}

// pair runs a role on both sides, the server first, and returns what the two
// report. spec is what each does: 1 is the server.
func (m *measurement) pair(ctx context.Context, p pins, role string, spec func(i int) any) (cr, sr result.Result,
	err error) {
	return both(m.duration, func(i int) (*child, error) { return m.role(ctx, p.cpu(i), role, spec(i)) })
}

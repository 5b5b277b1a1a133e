package main

import (
	"errors"
	"fmt"
	"net/netip"

	"tapir/lab/host/link"
	"tapir/lab/host/netns"
)

// bed is one bridge with everything that is measured on it:
//
//	NIC - gso0 ---+        +--- gso1 - NIC      virtio-net headers
//	NIC - wire0 --+- br0 --+--- wire1 - NIC     true frames
//	host A - on0 -+        +--- on1 - host B    veth, offloads on
//	host C - off0 +        +--- off1 - host D   veth, offloads off
type bed struct {
	mtu    int
	middle *side
	hosts  map[string]*side // by link in the middle
}

// side is a namespace and its links.
type side struct {
	ns  *netns.NS
	net *link.Net
}

const bridge = "br0"

// addresses of the hosts behind the veths; the NICs have others of the same
// network.
var addresses = map[string]string{"on0": "10.9.0.1", "on1": "10.9.0.2", "off0": "10.9.0.3", "off1": "10.9.0.4"}

// nicAddresses are those of the two NICs.
var nicAddresses = [2]string{"10.9.0.11", "10.9.0.12"}

func newSide() (*side, error) {
	s, err := link.NewSpace(link.Quiet)
	if err != nil {
		return nil, err
	}
	return &side{s.NS, s.Net}, nil
}

func (s *side) close() {
	s.net.Close()
	s.ns.Close()
}

// What a lossy bed does to the frames on their way to a receiver without
// super-frames, wire1 and off1: it loses some of those with data, at the same
// place for all.
const (
	lossPPM  = 10_000
	dataOver = 1000 // octets
)

func newBed(mtu int, lossy bool) (b *bed, err error) {
	b = &bed{mtu: mtu, hosts: map[string]*side{}}
	defer func() {
		if err != nil {
			b.close()
			b = nil
		}
	}()
	if b.middle, err = newSide(); err != nil {
		return b, err
	}
	if err := b.middle.net.AddBridge(bridge); err != nil {
		return b, err
	}
	for i := range 2 {
		for kind, vnet := range map[string]bool{"gso": true, "wire": false} {
			name := fmt.Sprint(kind, i)
			if err := errors.Join(b.middle.net.AddTAP(name, vnet), b.join(name)); err != nil {
				return b, err
			}
		}
		for kind, on := range map[string]bool{"on": true, "off": false} {
			if err := b.addHost(fmt.Sprint(kind, i), on); err != nil {
				return b, err
			}
		}
	}
	if lossy {
		if err := errors.Join(b.middle.net.Drop("wire1", lossPPM, dataOver),
			b.middle.net.Drop("off1", lossPPM, dataOver)); err != nil {
			return b, fmt.Errorf("%w: random loss: %w", errNotHere, err)
		}
	}
	return b, nil
}

// join makes a link a port of the bridge.
func (b *bed) join(name string) error {
	n := b.middle.net
	return errors.Join(n.SetMTU(name, b.mtu), n.Join(name, bridge), n.Up(name))
}

// addHost makes a namespace behind a veth pair.
func (b *bed) addHost(name string, offloads bool) error {
	h, err := newSide()
	if err != nil {
		return err
	}
	b.hosts[name] = h
	const inner = "eth0"
	if err := b.middle.net.AddVeth(name, h.net, inner); err != nil {
		return err
	}
	if !offloads {
		if err := errors.Join(b.middle.net.NoOffloads(name), h.net.NoOffloads(inner)); err != nil {
			return err
		}
	}
	prefix := netip.PrefixFrom(netip.MustParseAddr(addresses[name]), 24)
	return errors.Join(b.join(name), h.net.SetMTU(inner, b.mtu), h.net.AddAddr(inner, prefix), h.net.Up(inner),
		h.net.Up("lo"))
}

func (b *bed) close() {
	for _, h := range b.hosts {
		h.close()
	}
	if b.middle != nil {
		b.middle.close()
	}
}

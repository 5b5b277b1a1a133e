// Package oracle holds the NIC against implementations that are Go modules of
// their own. It is a module apart, so that Tapir's users never inherit them.
package oracle

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/fdbased"
	"gvisor.dev/gvisor/pkg/tcpip/network/arp"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"

	"tapir/lab/check/interop"
	"tapir/lab/host/link"
	"tapir/nic/tap"
)

// netstack is gVisor's network stack on a TAP of its own, which a bridge
// joins to the NIC's.
type netstack struct {
	stack *stack.Stack
	queue *tap.TAP
}

const (
	nicID  = 1
	ownTAP = "tap1"
	bridge = "br0"
)

func attach(w *interop.World) (interop.Peer, error) {
	q, err := w.Net.OpenTAP(tap.Config{Name: ownTAP})
	if err != nil {
		return nil, err
	}
	err = link.Quiet(w.NS)
	for _, step := range []func() error{
		func() error { return w.Net.AddBridge(bridge) },
		func() error { return w.Net.SetMTU(ownTAP, w.Cell.MTU) },
		func() error { return w.Net.Join(ownTAP, bridge) },
		func() error { return w.Net.Join(interop.TAP, bridge) },
		func() error { return w.Net.SetMTU(bridge, w.Cell.MTU) },
		func() error { return w.Net.Up(ownTAP) },
	} {
		if err == nil {
			err = step()
		}
	}
	n := &netstack{queue: q}
	if err == nil {
		err = n.start(w.Cell.MTU)
	}
	if err != nil {
		q.Close()
		return nil, err
	}
	return n, nil
}

func (n *netstack) start(mtu int) error {
	n.stack = stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol, ipv6.NewProtocol, arp.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol},
	})
	ep, err := fdbased.New(&fdbased.Options{
		FDs: []int{n.queue.Fd()}, IsPacketSocket: []bool{false}, MTU: uint32(mtu), EthernetHeader: true,
		Address: tcpip.LinkAddress([]byte{2, 0, 0, 0, 0x77, 2}), PacketDispatchMode: fdbased.Readv,
	})
	if err != nil {
		return err
	}
	sack := tcpip.TCPSACKEnabled(true)
	buffer := tcpip.TCPReceiveBufferSizeRangeOption{Min: 4 << 10, Default: 1 << 20, Max: 4 << 20}
	sendBuffer := tcpip.TCPSendBufferSizeRangeOption{Min: 4 << 10, Default: 1 << 20, Max: 4 << 20}
	for _, err := range []tcpip.Error{
		n.stack.SetTransportProtocolOption(tcp.ProtocolNumber, &sack),
		n.stack.SetTransportProtocolOption(tcp.ProtocolNumber, &buffer),
		n.stack.SetTransportProtocolOption(tcp.ProtocolNumber, &sendBuffer),
		n.stack.CreateNIC(nicID, ep),
		n.address(ipv4.ProtocolNumber, interop.Peer4),
		n.address(ipv6.ProtocolNumber, interop.Peer6),
	} {
		if err != nil {
			return errors.New("netstack: " + err.String())
		}
	}
	n.stack.SetRouteTable([]tcpip.Route{
		{Destination: header.IPv4EmptySubnet, NIC: nicID}, {Destination: header.IPv6EmptySubnet, NIC: nicID},
	})
	return nil
}

func (n *netstack) address(proto tcpip.NetworkProtocolNumber, p netip.Prefix) tcpip.Error {
	return n.stack.AddProtocolAddress(nicID, tcpip.ProtocolAddress{
		Protocol:          proto,
		AddressWithPrefix: tcpip.AddressWithPrefix{Address: tcpip.AddrFromSlice(p.Addr().AsSlice()), PrefixLen: p.Bits()},
	}, stack.AddressProperties{})
}

// full is a in netstack's terms.
func full(a netip.AddrPort) (tcpip.FullAddress, tcpip.NetworkProtocolNumber) {
	proto := tcpip.NetworkProtocolNumber(ipv4.ProtocolNumber)
	if a.Addr().Is6() {
		proto = ipv6.ProtocolNumber
	}
	return tcpip.FullAddress{NIC: nicID, Addr: tcpip.AddrFromSlice(a.Addr().AsSlice()), Port: a.Port()}, proto
}

func (n *netstack) Listen(at netip.AddrPort) (net.Listener, error) {
	a, proto := full(at)
	l, err := gonet.ListenTCP(n.stack, a, proto)
	if err != nil {
		return nil, fmt.Errorf("netstack: listen: %w", err)
	}
	return l, nil
}

func (n *netstack) Dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	a, proto := full(to)
	c, err := gonet.DialContextTCP(ctx, n.stack, a, proto)
	if err != nil {
		return nil, fmt.Errorf("netstack: dial: %w", err)
	}
	return c, nil
}

func (n *netstack) Close() {
	n.stack.Destroy()
	n.queue.Close()
}

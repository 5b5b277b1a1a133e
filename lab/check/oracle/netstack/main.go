// Command netstack is gVisor's TCP on a TAP with super-frames: one end of a
// stream that a benchmark holds against the NIC's. It is tuned as well as
// netstack can be for this: one processor per process, no RACK, large buffers,
// writes of whole super-frames.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/network/arp"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"

	"tapir/lab/check/bench/result"
	"tapir/nic/tap"
)

const (
	nicID   = 1
	port    = 5003
	buffers = 4 << 20
	read    = 256 << 10
)

type options struct {
	tap, ip, connect string
	mtu, write       int
	duration         time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.tap, "tap", "", "the TAP")
	flag.StringVar(&o.ip, "ip", "", "address with prefix length")
	flag.StringVar(&o.connect, "connect", "", "the server's address; empty: be the server")
	flag.IntVar(&o.mtu, "mtu", 1500, "MTU in octets")
	flag.IntVar(&o.write, "write", 1<<20, "octets of a write")
	flag.DurationVar(&o.duration, "duration", time.Second, "how long to send")
	flag.Parse()
	runtime.GOMAXPROCS(1)
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "netstack:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	prefix, err := netip.ParsePrefix(o.ip)
	if err != nil {
		return err
	}
	s, err := start(o, prefix)
	if err != nil {
		return err
	}
	if o.connect == "" {
		return serve(s, prefix.Addr())
	}
	to, err := netip.ParseAddr(o.connect)
	if err != nil {
		return err
	}
	return send(s, to, o)
}

// start makes a stack on the TAP.
func start(o options, prefix netip.Prefix) (*stack.Stack, error) {
	q, err := tap.Open(tap.Config{Name: o.tap, Vnet: true})
	if err != nil {
		return nil, err
	}
	last := prefix.Addr().As4()[3]
	ep, err := newEndpoint(q.Fd(), uint32(o.mtu), tcpip.LinkAddress([]byte{2, 0, 0, 0, 0x78, last}))
	if err != nil {
		return nil, err
	}
	s := stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol, arp.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol},
	})
	sack, recovery, cubic := tcpip.TCPSACKEnabled(true), tcpip.TCPRecovery(0), tcpip.CongestionControlOption("cubic")
	in := tcpip.TCPReceiveBufferSizeRangeOption{Min: 4 << 10, Default: buffers, Max: buffers}
	out := tcpip.TCPSendBufferSizeRangeOption{Min: 4 << 10, Default: buffers, Max: buffers}
	for _, opt := range []tcpip.SettableTransportProtocolOption{&sack, &recovery, &cubic, &in, &out} {
		if err := s.SetTransportProtocolOption(tcp.ProtocolNumber, opt); err != nil {
			return nil, errors.New(err.String())
		}
	}
	address := tcpip.AddressWithPrefix{Address: tcpip.AddrFromSlice(prefix.Addr().AsSlice()), PrefixLen: prefix.Bits()}
	for _, err := range []tcpip.Error{
		s.CreateNIC(nicID, ep),
		s.AddProtocolAddress(nicID, tcpip.ProtocolAddress{Protocol: ipv4.ProtocolNumber, AddressWithPrefix: address},
			stack.AddressProperties{}),
	} {
		if err != nil {
			return nil, errors.New(err.String())
		}
	}
	s.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: nicID}})
	return s, nil
}

func full(a netip.Addr) tcpip.FullAddress {
	return tcpip.FullAddress{NIC: nicID, Addr: tcpip.AddrFromSlice(a.AsSlice()), Port: port}
}

// serve reads one stream to its end; its timing counts.
func serve(s *stack.Stack, at netip.Addr) error {
	l, err := gonet.ListenTCP(s, full(at), ipv4.ProtocolNumber)
	if err != nil {
		return err
	}
	result.Ready()
	c, err := l.Accept()
	if err != nil {
		return err
	}
	cpu := result.CPU()
	r, err := drain(c)
	if err != nil {
		return err
	}
	r.CPU = result.CPU() - cpu
	return r.Print()
}

func drain(c net.Conn) (r result.Result, err error) {
	b := make([]byte, read)
	var begun time.Time
	for {
		n, err := c.Read(b)
		if begun.IsZero() {
			begun = time.Now()
		}
		r.Bytes += int64(n)
		if err == io.EOF {
			r.Elapsed = time.Since(begun)
			return r, c.Close()
		}
		if err != nil {
			return r, err
		}
	}
}

func send(s *stack.Stack, to netip.Addr, o options) error {
	c, err := gonet.DialTCP(s, full(to), ipv4.ProtocolNumber)
	if err != nil {
		return err
	}
	result.Ready()
	cpu, begun := result.CPU(), time.Now()
	var r result.Result
	for b := make([]byte, o.write); time.Since(begun) < o.duration; r.Messages++ {
		n, err := c.Write(b)
		if err != nil {
			return err
		}
		r.Bytes += int64(n)
	}
	r.Elapsed, r.CPU = time.Since(begun), result.CPU()-cpu
	if err := c.CloseWrite(); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, c); err != nil { // until the other end has it all
		return err
	}
	return r.Print()
}

package main

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"tapir/lab/fabric"
	"tapir/nic/loop"
	"tapir/nic/tap"
	"tapir/opa"
	"tapir/vnic"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// The two TAPs between which frames are forwarded: the kernel of a host sends
// into one, what comes out of the other nobody receives.
const (
	opaHost   = "host0"
	opaFabric = "fab0"
	opaVESW   = 2
	opaMTU    = 1500
)

// warmUp is how long frames flow before they are counted.
const warmUp = 100 * time.Millisecond

// forwarder is what is measured: it passes on the frames of the host TAP.
type forwarder interface {
	sent() (uint64, error)
	close() error
}

// startForwarder begins to forward between the TAPs of s, with virtio-net headers
// or without.
type startForwarder func(ctx context.Context, s *side, vnet bool) (forwarder, error)

// forwardCase counts the frames that one thread forwards while a host sends as
// fast as it can: of 1514 octets, or super-frames with vnet.
func forwardCase(name string, vnet bool, start startForwarder) *testCase {
	return &testCase{name: name, run: func(ctx context.Context, b *bench) (sample, error) {
		s, err := newSide()
		if err != nil {
			return sample{}, err
		}
		defer s.close()
		f, err := start(ctx, s, vnet)
		if err != nil {
			return sample{}, err
		}
		flood := flooded
		if vnet {
			flood = floodedWhole
		}
		n, err := flood(s, f, b.opt.duration)
		return sample{rate: float64(n) / b.opt.duration.Seconds()}, errors.Join(err, f.close())
	}}
}

// flooded counts what f forwards in that time.
func flooded(s *side, f forwarder, d time.Duration) (n uint64, err error) {
	from, to := netip.MustParsePrefix("10.6.0.1/24"), netip.MustParseAddr("10.6.0.2")
	far := opa.LMAC{Fabric: 1, VESW: opaVESW, LID: 2}.Addr()
	if err := errors.Join(s.net.SetMTU(opaHost, opaMTU), s.net.AddAddr(opaHost, from), s.net.Up(opaHost), s.net.Up(opaFabric),
		s.net.AddNeighbor(opaHost, to, net.HardwareAddr(far[:]))); err != nil {
		return 0, err
	}
	var c *net.UDPConn
	if err := s.ns.Do(func() (err error) {
		c, err = net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, 9)))
		return err
	}); err != nil {
		return 0, err
	}
	defer c.Close()
	if err := segmented(c); err != nil {
		return 0, err
	}
	payload := make([]byte, perWrite*datagram)
	return during(f, d, func() { _, _ = c.Write(payload) }) // a full queue is what is wanted
}

// during counts what f forwards in that time, while send is called again and
// again.
func during(f forwarder, d time.Duration, send func()) (n uint64, err error) {
	var flood sync.WaitGroup
	var over atomic.Bool
	flood.Go(func() {
		for !over.Load() {
			send()
		}
	})
	defer flood.Wait()
	defer over.Store(true)
	time.Sleep(warmUp)
	before, err := f.sent()
	if err != nil {
		return 0, err
	}
	time.Sleep(d)
	after, err := f.sent()
	return after - before, err
}

// A write of the host becomes that many datagrams, each as long as the MTU
// allows, so that it is faster than whoever reads its frames.
const (
	datagram   = opaMTU - 28
	perWrite   = 40
	udpSegment = 103 // UDP_SEGMENT of linux/udp.h
)

func segmented(c *net.UDPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_UDP, udpSegment, datagram)
	})
	return errors.Join(err, failed)
}

// bare passes frames on between two TAPs and does nothing else.
type bare struct {
	loop   *loop.Loop
	out    *loop.Port
	queue  []*frame.Frame
	count  uint64
	cancel context.CancelFunc
	ended  chan error
}

func (b *bare) Receive(port frame.Port, frames []*frame.Frame, _ frame.Time) {
	for _, f := range frames {
		if port == frame.Wire {
			f.Release()
			continue
		}
		b.queue = append(b.queue, f)
	}
}

func (b *bare) Dispatch(frame.Time) bool { return false }

func (b *bare) Poll(frame.Time) frame.Time {
	n := 0
	for n < len(b.queue) && b.out.Room() > 0 {
		b.out.Transmit(b.queue[n])
		n++
	}
	b.count += uint64(n)
	b.queue = b.queue[:copy(b.queue, b.queue[n:])]
	return frame.Never
}

func (b *bare) TxDone(uint64, frame.Time) bool { return false }

func (b *bare) sent() (n uint64, err error) {
	err = b.loop.DoWait(func(frame.Time) { n = b.count })
	return n, err
}

func (b *bare) close() error {
	b.cancel()
	return <-b.ended
}

func startBare(_ context.Context, s *side, vnet bool) (forwarder, error) {
	l, err := loop.New(loop.Config{})
	if err != nil {
		return nil, err
	}
	b := &bare{loop: l, ended: make(chan error, 1)}
	for port, name := range []string{opaFabric, opaHost} {
		t, err := s.net.OpenTAP(tap.Config{Name: name, Vnet: vnet})
		if err != nil {
			l.Close()
			return nil, err
		}
		q := l.AddQueue(frame.Port(port), t, opaMTU+ether.MaxHeaderLen)
		if b.out == nil {
			b.out = q
		}
	}
	l.SetEngine(b)
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel = cancel
	go func() { b.ended <- l.Run(ctx) }()
	return b, nil
}

// throughVNIC is an HFI whose VNIC's host sends.
type throughVNIC struct{ *fabric.Node }

func (v throughVNIC) sent() (uint64, error) {
	counts, err := v.Counts()
	return counts.TxPackets, err
}

func (v throughVNIC) close() error { return v.Close() }

func startVNIC(ctx context.Context, s *side, _ bool) (forwarder, error) {
	n, err := fabric.Start(ctx, fabric.Config{Name: "bench", TAP: opaFabric, GUID: 1, LID: 1, NS: s.ns,
		VNICs: []fabric.VNIC{{VESW: opaVESW, TAP: opaHost, MTU: opaMTU, Policy: vnic.DefaultPolicy()}}})
	if err != nil {
		return nil, err
	}
	return throughVNIC{n}, nil
}

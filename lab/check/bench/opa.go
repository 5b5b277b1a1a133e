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

	"tapir/lab/conf/hficonf"
	"tapir/lab/host/link"
	"tapir/lab/node"
	"tapir/lab/node/hfinode"
	"tapir/nic"
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
	sent() (tally, error)
	Close() error
}

// tally is what a forwarder has passed on so far, and the processor time of its
// thread.
type tally struct {
	frames     uint64
	cpu        time.Duration
	interrupts uint64
	time       time.Duration // in which it did
}

// add adds what was passed on at another time.
func (n *tally) add(more tally) {
	n.frames += more.frames
	n.cpu += more.cpu
	n.interrupts += more.interrupts
	n.time += more.time
}

const rusageThread = 1 // RUSAGE_THREAD of sys/resource.h

// tallied adds the time of the calling thread.
func tallied(frames uint64) tally {
	var u syscall.Rusage
	_ = syscall.Getrusage(rusageThread, &u) // fails for no thread that runs
	return tally{frames: frames, cpu: time.Duration(u.Utime.Nano() + u.Stime.Nano())}
}

// way is what is forwarded: frames of 1514 octets, or super-frames with vnet; from
// the host TAP to the other, or back.
type way struct{ vnet, back bool }

// frames is the frame mode of a NIC on the way.
func (w way) frames() string {
	if w.vnet {
		return nic.GSO.String()
	}
	return nic.Wire.String()
}

// in is the TAP that frames come in by.
func (w way) in() string {
	if w.back {
		return opaFabric
	}
	return opaHost
}

// startForwarder begins to forward between the TAPs of s.
type startForwarder func(ctx context.Context, s *link.Space, w way) (forwarder, error)

// forwardCase counts the frames that one thread forwards while a kernel sends as
// fast as it can.
func forwardCase(name string, w way, start startForwarder) *testCase {
	return &testCase{name: name, run: func(ctx context.Context, m *measurement) (got sample, err error) {
		s, err := link.NewSpace(link.Quiet)
		if err != nil {
			return got, err
		}
		defer s.Close()
		f, err := start(ctx, s, w)
		if err != nil {
			return got, err
		}
		send, err := flooder(s, w)
		if err != nil {
			return got, errors.Join(err, f.Close())
		}
		n, err := during(f, warmUp, m.duration, send)
		return n.sample(w), errors.Join(err, f.Close())
	}}
}

// flooder returns what sends on the way as fast as a kernel can.
func flooder(s *link.Space, w way) (send func(), err error) {
	if w.vnet {
		return floodWhole(s, w)
	}
	return floodFrames(s, w)
}

// sample is what was passed on.
func (n tally) sample(w way) sample {
	octets := opaMTU + ether.HeaderLen
	if w.vnet {
		octets = len(superFrame(ether.Addr{}))
	}
	return sample{rate: float64(n.frames) / n.time.Seconds(), cpu: float64(n.cpu) /
		(float64(n.frames) * float64(octets) / 1024), interrupts: 1000 * float64(n.interrupts) / float64(n.frames)}
}

// floodFrames sends datagrams that fill frames.
func floodFrames(s *link.Space, w way) (send func(), err error) {
	in := w.in()
	from, to := netip.MustParsePrefix("10.6.0.1/24"), netip.MustParseAddr("10.6.0.2")
	far, err := far(s, w)
	if err := errors.Join(err, s.Net.SetMTU(in, opaMTU), s.Net.AddAddr(in, from), s.Net.Up(opaHost),
		s.Net.Up(opaFabric),
		s.Net.AddNeighbor(in, to, far)); err != nil {
		return nil, err
	}
	var c *net.UDPConn
	if err := s.NS.Do(func() (err error) {
		c, err = net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, 9)))
		return err
	}); err != nil {
		return nil, err
	}
	s.Undo.Add(func() { _ = c.Close() })
	if err := segmented(c); err != nil {
		return nil, err
	}
	payload := make([]byte, perWrite*datagram)
	return func() { _, _ = c.Write(payload) }, nil // a full queue is what is wanted
}

// far is the station that is sent to: on the way back the host, else another.
func far(s *link.Space, w way) (net.HardwareAddr, error) {
	if w.back {
		return s.Net.MAC(opaHost)
	}
	a := opa.LMAC{Fabric: 1, VESW: opaVESW, LID: 2}.Addr()
	return a[:], nil
}

// during counts what f forwards in time d, while send is called again and again, and was
// before for some time.
func during(f forwarder, before, d time.Duration, send func()) (n tally, err error) {
	var flood sync.WaitGroup
	var over atomic.Bool
	flood.Go(func() {
		for !over.Load() {
			send()
		}
	})
	defer flood.Wait()
	defer over.Store(true)
	time.Sleep(before)
	first, err := f.sent()
	if err != nil {
		return tally{}, err
	}
	begun := time.Now()
	time.Sleep(d)
	last, err := f.sent()
	return tally{last.frames - first.frames, last.cpu - first.cpu, last.interrupts - first.interrupts,
		time.Since(begun)}, err
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

// bare passes frames on from one TAP to another and does nothing else.
type bare struct {
	loop   *loop.Loop
	from   frame.Port
	out    *loop.Port
	queue  []*frame.Frame
	count  uint64
	cancel context.CancelFunc
	ended  chan error
}

func (b *bare) Receive(port frame.Port, frames []*frame.Frame, _ frame.Time) {
	for _, f := range frames {
		if port != b.from {
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

func (b *bare) TxDone(_ uint64, _, _ frame.Time) bool { return false }

func (b *bare) sent() (n tally, err error) {
	err = b.loop.DoWait(func(frame.Time) { n = tallied(b.count) })
	return n, err
}

func (b *bare) Close() error {
	b.cancel()
	return <-b.ended
}

func startBare(_ context.Context, s *link.Space, w way) (forwarder, error) {
	l, err := loop.New(loop.Config{})
	if err != nil {
		return nil, err
	}
	in := w.in()
	b := &bare{loop: l, ended: make(chan error, 1)}
	for port, name := range []string{opaFabric, opaHost} {
		t, err := s.Net.OpenTAP(tap.Config{Name: name, Vnet: w.vnet})
		if err != nil {
			l.Close()
			return nil, err
		}
		if q := l.AddQueue(frame.Port(port), t, opaMTU+ether.MaxHeaderLen); name == in {
			b.from = frame.Port(port)
		} else {
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
type throughVNIC struct{ *hfinode.Node }

func (v throughVNIC) sent() (tally, error) {
	counts, err := v.Counts()
	return tally{frames: counts.TxPackets}, err
}

func startVNIC(ctx context.Context, s *link.Space, _ way) (forwarder, error) {
	n, err := hfinode.Start(ctx, hficonf.Config{Name: "bench", TAP: opaFabric, GUID: 1, LID: 1,
		VNICs: []hficonf.VNIC{{VESW: opaVESW, TAP: opaHost, MTU: opaMTU, Policy: vnic.DefaultPolicy()}}},
		node.Env{NS: s.NS})
	return throughVNIC{n}, err
}

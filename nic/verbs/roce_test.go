package verbs_test

import (
	"net/netip"
	"testing"
	"time"

	"tapir/nic/buf"
	"tapir/nic/roce"
	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// port is one end of a RoCE cable.
type port struct {
	dev    *verbs.Device
	engine *roce.Engine
	addr   verbs.GID
	sent   []*frame.Frame
}

func (p *port) Transmit(f *frame.Frame, _ *roce.Hop, _ frame.Time) { p.sent = append(p.sent, f) }
func (p *port) Room() int                                          { return 256 }

// ethernet is two RoCE ports and the time.
type ethernet struct {
	now frame.Time
	end [2]*port
}

func newEthernet(devs [2]*verbs.Device) fabric {
	c := &ethernet{now: frame.Time(time.Second)}
	pool := buf.NewPool(1<<12, 0)
	for i, dev := range devs {
		p := &port{dev: dev, addr: verbs.GIDFromAddr(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}))}
		dev.SetGIDs([]verbs.GIDEntry{{GID: p.addr, Type: verbs.RoCEv2}})
		p.engine = roce.New(dev, roce.Env{Pool: pool, Out: p, MTU: func() int { return 1024 },
			Segments: func() int { return 1 }})
		c.end[i] = p
	}
	return c
}

// Stream implements fabric.
func (c *ethernet) Stream() bool { return false }

// Connect implements fabric: the owners move their queue pairs.
func (c *ethernet) Connect(t testing.TB, a, b *verbs.QP, _ func(func() bool)) {
	for i, q := range []*verbs.QP{a, b} {
		peer := []*verbs.QP{b, a}[i]
		attr := qpattr.Attr{
			Path: qpattr.Path{DGID: c.end[1-i].addr}, PathMTU: 1024, DestQPN: peer.QPN(), RQPSN: 0xfffff0,
			SQPSN: 0xfffff0, MaxDestRdAtomic: 8, MaxRdAtomic: 8, MinRNRTimer: 1, Timeout: 14, RetryCount: 3, RNRRetry: 3,
		}
		check(t, q.ModifyAttr(verbs.RTR, &attr, qpattr.AV|qpattr.PathMTU|qpattr.DestQPN|qpattr.RQPSN|
			qpattr.MaxDestRdAtomic|qpattr.MinRNRTimer))
		check(t, q.ModifyAttr(verbs.RTS, &attr, qpattr.Timeout|qpattr.RetryCount|qpattr.RNRRetry|qpattr.SQPSN|
			qpattr.MaxRdAtomic))
	}
}

// Step implements fabric.
func (c *ethernet) Step() (now frame.Time, busy bool) {
	next := frame.Never
	for i, p := range c.end {
		peer := c.end[1-i]
		for _, f := range peer.sent {
			p.engine.Receive(f.Bytes(), int(f.GSOSize), ether.Tag{}, c.now)
			f.Release()
			busy = true
		}
		peer.sent = peer.sent[:0]
		next = min(next, p.engine.Poll(c.now))
		busy = busy || len(p.sent) > 0 || next <= c.now
	}
	if !busy && next != frame.Never {
		c.now, busy = next, true
	}
	c.now++
	return c.now, busy
}

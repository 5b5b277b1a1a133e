package verbs_test

import (
	"net/netip"
	"testing"
	"time"

	"tapir/nic/buf"
	"tapir/nic/cm"
	"tapir/nic/iwarp"
	"tapir/nic/toe"
	"tapir/nic/toe/isn"
	"tapir/nic/verbs"
	"tapir/wire/frame"
	"tapir/wire/ip"
)

// station is one end of a cable: iWARP over TCP.
type station struct {
	tcp   *toe.Engine
	cm    *cm.Manager
	iwarp *iwarp.Engine
	addr  netip.Addr
	sent  []*frame.Frame
	next  frame.Time
}

func (s *station) Transmit(f *frame.Frame, _ netip.Addr, _ frame.Time) { s.sent = append(s.sent, f) }
func (s *station) Room() int                                           { return 256 }

// cable is two stations and the time.
type cable struct {
	now frame.Time
	end [2]*station
}

func newCable(devs [2]*verbs.Device) fabric {
	c := &cable{now: frame.Time(time.Second)}
	pool := buf.NewPool(1<<12, 0)
	for i, dev := range devs {
		s := &station{cm: cm.New(dev), addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)})}
		s.tcp = toe.New(toe.Config{Secret: isn.Secret{byte(i + 1)}}, pool, s, nil)
		source := func(netip.Addr) (netip.Addr, error) { return s.addr, nil }
		s.iwarp = iwarp.New(iwarp.Config{Source: source}, dev, s.cm, s.tcp, nil)
		c.end[i] = s
	}
	return c
}

// Stream implements fabric.
func (c *cable) Stream() bool { return true }

// Connect implements fabric.
func (c *cable) Connect(t testing.TB, a, b *verbs.QP, run func(func() bool)) {
	up, at := 0, netip.AddrPortFrom(c.end[1].addr, 7471)
	l, err := c.end[1].cm.Listen(at, 4, func(ev cm.Event, now frame.Time) {
		switch ev.Type {
		case cm.ConnectRequest:
			check(t, ev.ID.Accept(cm.Params{QP: b}, now))
		case cm.PassiveComplete:
			up++
		}
	}, nil)
	check(t, err)
	id := c.end[0].cm.NewID(func(ev cm.Event, _ frame.Time) {
		if ev.Type == cm.ActiveComplete {
			up++
		}
	}, nil)
	check(t, id.Connect(at, cm.Params{QP: a, PeerToPeer: true}, c.now))
	run(func() bool { return up == 2 })
	l.Close()
}

// Step implements fabric: it moves packets, or else the time to the next timer.
func (c *cable) Step() (now frame.Time, busy bool) {
	next := frame.Never
	for i, s := range c.end {
		peer := c.end[1-i]
		for _, f := range peer.sent {
			h, seg, err := ip.Parse(f.Bytes())
			if err != nil || !s.tcp.Segment(&h, seg, f.Offload, c.now) {
				panic("a packet for nobody")
			}
			f.Release()
			busy = true
		}
		peer.sent = peer.sent[:0]
		s.iwarp.Poll(c.now)
		s.next = min(s.tcp.Poll(c.now), s.iwarp.Deadline())
		busy = busy || len(s.sent) > 0 || s.next <= c.now
		next = min(next, s.next)
	}
	if !busy && next != frame.Never {
		c.now, busy = next, true
	}
	c.now++
	return c.now, busy
}

package inspect

import (
	"bytes"
	"cmp"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"tapir/mpa"
	"tapir/nic"
	"tapir/nic/buf"
	"tapir/nic/cm"
	"tapir/nic/ideal"
	"tapir/nic/toe"
	"tapir/nic/verbs"
	"tapir/wire/frame"
	"tapir/wire/pcapng"
	"tapir/wire/virtio"
)

// A bench is two NICs on a cable in virtual time, with a capture at one of its
// ends: what that NIC sends, before the cable loses it, and what reaches it.
type bench struct {
	r     *rand.Rand
	now   frame.Time
	pool  *buf.Pool
	sides [2]*station
	fly   []flight
	made  int
	list  []Packet // captured
	at    int      // side of the capture
	cable cable
	// alter, if there is one, alters what side 0 sends.
	alter func(b []byte) []byte
	cut   bool // nothing arrives any more
}

// cable is what happens to frames, in thousandths.
type cable struct{ loss, twice, late int }

// flight is a frame on its way.
type flight struct {
	at   frame.Time
	nth  int
	to   int
	data []byte
	off  frame.Offload
}

// station is a NIC with its application.
type station struct {
	b      *bench
	side   int
	dev    *nic.Device
	gso    bool
	pd     *verbs.PD
	cq     *verbs.CQ
	qp     *verbs.QP
	mr     *verbs.MR
	mem    []byte
	id     *cm.ID
	up     bool
	over   bool
	accept func(ev cm.Event, now frame.Time)
}

// plan is a variant of start-up, load and end.
type plan struct {
	side    [2]nic.Config
	params  [2]cm.Params
	v6      bool
	reject  bool
	cable   cable
	at      int // side of the capture
	posts   int
	fault   int // of the last request, 0: none
	end     int
	silence time.Duration // before the end, for keep-alive probes
}

const (
	atMost    = 30 * time.Second // a world's time
	benchMem  = 64 << 10
	latency   = frame.Time(30 * time.Microsecond)
	benchPort = 7174
)

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// planOf makes the plan of a seed: its variants go through all combinations of
// what start-up knows, the rest is chosen.
func planOf(seed uint64) (p plan, r *rand.Rand) {
	r = rand.New(rand.NewPCG(seed, 18))
	n := seed
	next := func(m uint64) int { v := n % m; n /= m; return int(v) }
	model, rtr := next(3), [2]mpa.RTR{mpa.RTR(next(8)), mpa.RTR(next(8))}
	p.v6 = r.IntN(3) == 0
	vlan, frames := pick[uint16](r, 0, 0, 7), pick(r, nic.Wire, nic.Wire, nic.GSO, nic.Jumbo)
	idle := pick[time.Duration](r, 0, 0, 200*time.Millisecond)
	for k := range p.side {
		addr := netip.MustParsePrefix(pick(r, "10.9.0.1/24"))
		c := nic.Config{Name: string(rune('a' + k)), Seed: seed, VLAN: vlan, Frames: frames, Hardware: &ideal.Config{}}
		if p.v6 {
			addr = netip.MustParsePrefix("fd00::1/64")
		}
		ip := addr.Addr()
		if k == 1 {
			ip = ip.Next()
		}
		if frames == nic.GSO && r.IntN(3) == 0 {
			c.Frames = nic.Wire
		}
		c.Addrs = []netip.Prefix{netip.PrefixFrom(ip, addr.Bits())}
		c.MTU = pick(r, 0, 0, 0, 1400, 576+704*k)
		if p.v6 {
			c.MTU = pick(r, 0, 1280)
		}
		c.TCP.Params = toe.Params{Nagle: r.IntN(6) == 0, KeepAlive: idle}
		c.TCP.RcvWnd = pick(r, 0, 64<<10)
		c.TCP.TimeWait = time.Second
		c.IWARP.Markers = r.IntN(3) == 0
		c.IWARP.CRC = pick(r, mpa.CRCRequired, mpa.CRCOptional, mpa.CRCOptional, mpa.CRCRefused)
		c.IWARP.InOrder, c.IWARP.NoZeroCopy = r.IntN(4) == 0, r.IntN(3) == 0
		c.IWARP.StrictReads = r.IntN(8) == 0
		c.IWARP.RTR = rtr[k]
		c.IWARP.Revision = pick[uint8](r, 2, 2, 1)
		c.IWARP.GSO = r.IntN(5) == 0
		c.IWARP.CloseTimeout, c.IWARP.ReplyTimeout = time.Second, 2*time.Second
		if model == 0 {
			c.IWARP.Revision = uint8(1 + k) // a responder of revision 2
		} else if k == 0 || model == 1 {
			c.IWARP.Revision = 2
		}
		c.IWARP.PeerToPeer = k == 0 && model == 2
		p.side[k] = c
		depth := []uint16{0, 1, 2, 8, cm.NoReads}
		p.params[k] = cm.Params{IRD: pick(r, depth...), ORD: pick(r, depth...),
			PrivateData: make([]byte, pick(r, 0, 0, 1, 4, 56, 251, 252, 508))}
	}
	p.reject = r.IntN(12) == 0
	if r.IntN(2) == 0 {
		p.cable = cable{pick(r, 0, 20, 80), pick(r, 0, 0, 30), pick(r, 0, 0, 50)}
	}
	p.at, p.posts, p.end = r.IntN(2), r.IntN(14), r.IntN(5)
	p.fault = pick(r, 0, 0, 1+r.IntN(faults))
	if idle > 0 && r.IntN(2) == 0 {
		p.silence = time.Second
	}
	return p, r
}

// play makes the plan's capture.
func (p *plan) play(r *rand.Rand, alter func(b []byte) []byte) ([]Packet, error) {
	b := &bench{r: r, now: frame.Time(time.Hour), pool: buf.NewPool(4096, 0), at: p.at, cable: p.cable, alter: alter}
	for k := range b.sides {
		s := &station{b: b, side: k, gso: p.side[k].Frames != nic.Wire, mem: make([]byte, benchMem)}
		b.sides[k] = s
		if err := s.open(p.side[k]); err != nil {
			return nil, err
		}
	}
	c, s := b.sides[0], b.sides[1]
	addr := p.side[1].Addrs[0].Addr()
	s.accept = func(ev cm.Event, now frame.Time) {
		if s.id = ev.ID; p.reject {
			_ = ev.ID.Reject(p.params[1].PrivateData, now)
			return
		}
		x := p.params[1]
		x.QP = s.qp
		if ev.ID.Accept(x, now) != nil { // private data that revision 2 has no room for
			_ = ev.ID.Reject(nil, now)
		}
	}
	if _, err := s.dev.CM.Listen(netip.AddrPortFrom(addr, benchPort), 4, s.handle, nil); err != nil {
		return nil, err
	}
	c.id = c.dev.CM.NewID(c.handle, nil)
	x := p.params[0]
	x.QP = c.qp
	if err := c.id.Connect(netip.AddrPortFrom(addr, benchPort), x, b.now); err != nil {
		return nil, err
	}
	b.run(atMost, func() bool { return c.over || s.over || c.up && s.up })
	if c.up && s.up {
		p.load(b)
	}
	p.finish(b)
	return b.list, nil
}

func (s *station) open(cfg nic.Config) (err error) {
	if s.dev, err = nic.New(cfg, nic.Env{Pool: s.b.pool, Wire: s}); err != nil {
		return err
	}
	pd, err1 := s.dev.Verbs.AllocPD()
	cq, err2 := s.dev.Verbs.CreateCQ(512, nil)
	if err := cmp.Or(err1, err2); err != nil {
		return err
	}
	s.pd, s.cq = pd, cq
	const rights = verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic
	if s.mr, err = pd.RegMR(s.mem, rights); err != nil {
		return err
	}
	s.qp, err = pd.CreateQP(verbs.QPConfig{SendCQ: cq, RecvCQ: cq, MaxSend: 64, MaxRecv: 64, MaxSGE: 4, MaxInline: 256})
	return err
}

func (s *station) handle(ev cm.Event, now frame.Time) {
	switch ev.Type {
	case cm.ConnectRequest:
		s.accept(ev, now)
	case cm.ActiveComplete, cm.PassiveComplete:
		s.up = true
	case cm.ClosedEvent:
		s.over = true
	}
}

// Transmit implements frame.Link.
func (s *station) Transmit(f *frame.Frame) {
	b, id, off := s.b, f.ID, f.Offload
	data := bytes.Clone(f.Bytes())
	f.Release()
	if b.alter != nil && s.side == 0 {
		data = b.alter(data)
	}
	b.capture(s.side, data)
	far := b.sides[1-s.side]
	if off.GSO != frame.GSONone && !far.gso || off.NeedsCsum && !far.gso {
		if err := virtio.Split(off, data, func(seg []byte) { b.enter(far.side, bytes.Clone(seg), frame.Offload{}) }); err != nil {
			panic(err)
		}
	} else {
		b.enter(far.side, data, off)
	}
	s.dev.TxDone(id, b.now, b.now)
}

// Room implements frame.Link.
func (s *station) Room() int { return 64 }

// enter puts a frame on the cable.
func (b *bench) enter(to int, data []byte, off frame.Offload) {
	n := 1
	if b.cut || b.r.IntN(1000) < b.cable.loss {
		n = 0
	} else if b.r.IntN(1000) < b.cable.twice {
		n = 2
	}
	for range n {
		at := b.now + latency
		if b.r.IntN(1000) < b.cable.late {
			at += latency * frame.Time(1+b.r.IntN(40))
		}
		b.made++
		b.fly = append(b.fly, flight{at, b.made, to, data, off})
	}
}

func (b *bench) capture(side int, data []byte) {
	if side == b.at {
		n := len(b.list) + 1
		b.list = append(b.list, Packet{Number: n, Time: int64(b.now), Link: pcapng.LinkEthernet, Data: data, OrigLen: len(data)})
	}
}

// run lets time pass until done, at most d.
func (b *bench) run(d time.Duration, done func() bool) {
	for end := b.now.Add(d); b.now < end && !done(); {
		next := end
		for _, s := range b.sides {
			for again := true; again; {
				again = s.dev.Dispatch(b.now)
				at := s.dev.Poll(b.now)
				if again = again || at <= b.now; !again {
					next = min(next, at)
				}
			}
		}
		k := -1
		for i, f := range b.fly {
			if f.at <= next && (k < 0 || f.at < b.fly[k].at || f.at == b.fly[k].at && f.nth < b.fly[k].nth) {
				k = i
			}
		}
		if k < 0 {
			b.now = next
			continue
		}
		f := b.fly[k]
		b.fly = slices.Delete(b.fly, k, k+1)
		b.now = max(b.now, f.at)
		b.capture(f.to, f.data)
		fr := b.pool.Get(len(f.data))
		fr.Append(f.data)
		fr.Offload = f.off
		b.sides[f.to].dev.Receive(frame.Wire, []*frame.Frame{fr}, b.now)
	}
}

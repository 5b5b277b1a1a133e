package sw_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"tapir/lab/conf/swconf"
	"tapir/lab/node/sw"
	"tapir/lab/run/virtual/vtime"
	"tapir/nic"
	"tapir/nic/ideal"
	"tapir/nic/linkmode"
	"tapir/nic/roce/dcqcn"
	"tapir/nic/show"
	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
	"tapir/ptp/clock"
	"tapir/wire/frame"
)

// station is a NIC with RoCE on a port of a switch, by a cable of 1 µs.
type station struct {
	w     *vtime.World
	place *vtime.Place
	dev   *nic.Device
	other *vtime.Place // the switch's
	port  frame.Port
	pd    *verbs.PD
	cq    *verbs.CQ
	mr    *verbs.MR
}

const (
	cable  = time.Microsecond
	mtu    = 4200
	memory = 1 << 20
)

func (s *station) Room() int { return 1000 }

// Transmit implements frame.Link.
func (s *station) Transmit(f *frame.Frame) {
	id := f.ID
	s.w.Arrive(s.other, s.port, f, s.w.Now().Add(cable))
	s.dev.TxDone(id, s.w.Now(), frame.Time(s.w.At(s.w.Now())))
}

// Receive implements vtime.Engine.
func (s *station) Receive(_ frame.Port, f []*frame.Frame, now frame.Time) {
	s.dev.Receive(frame.Wire, f, now)
}

// Poll implements vtime.Engine.
func (s *station) Poll(now frame.Time) frame.Time {
	for {
		again := s.dev.Dispatch(now)
		if next := s.dev.Poll(now); next > now && !again {
			return next
		}
	}
}

// outlet is a port of the switch.
type outlet struct {
	w  *vtime.World
	to *station
}

func (o *outlet) Room() int { return 1000 }

func (o *outlet) Transmit(f *frame.Frame) {
	o.w.Arrive(o.to.place, frame.Wire, f, o.w.Now().Add(cable))
}

// bottleneck is a switch of 40 Gb/s, by which two NICs write to a third as fast as they may.
type bottleneck struct {
	w  *vtime.World
	sw *sw.Switch
	s  [3]*station // the last one is the target
}

func newBottleneck(t *testing.T, p dcqcn.Params) *bottleneck {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	b := &bottleneck{w: vtime.New(16 << 10)}
	t.Cleanup(b.w.Close)
	cfg := swconf.Config{Speed: linkmode.Speed40G, Queue: 2048, Seed: 1, Ports: make([]swconf.PortConfig, 3),
		ECN: swconf.ECN{Kmin: 5000, Kmax: 200_000, Pmax: 10_000}}
	phc, err := clock.New(clock.Config{})
	must(err)
	env := sw.Env{Pool: b.w.Pool, Clock: phc}
	for i := range b.s {
		b.s[i] = &station{w: b.w, port: frame.Port(i)}
		env.Links = append(env.Links, &outlet{b.w, b.s[i]})
	}
	b.sw, err = sw.New(cfg, env)
	must(err)
	t.Cleanup(b.sw.Close)
	place := b.w.Add(b.sw)
	for i, s := range b.s {
		s.other = place
		c := nic.Config{Hardware: &ideal.Config{}, Name: fmt.Sprint("n", i), MTU: mtu, Seed: uint64(i + 1),
			Addrs: []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("10.0.0.%d/24", i+1))},
			RDMA:  nic.RDMA{Personality: verbs.RoCE, DCQCN: p}}
		s.dev, err = nic.New(c, nic.Env{Pool: b.w.Pool, Wire: s, Clock: b.w})
		must(err)
		s.place = b.w.Add(s)
		s.dev.LinkUp(b.w.Now())
		s.pd, err = s.dev.Verbs.AllocPD()
		must(err)
		s.cq, err = s.dev.Verbs.CreateCQ(2048, nil)
		must(err)
		s.mr, err = s.pd.RegMR(make([]byte, memory), verbs.LocalWrite|verbs.RemoteWrite)
		must(err)
	}
	b.w.Run(b.w.Now().Add(time.Millisecond))
	for _, s := range b.s[:2] {
		to := b.s[2]
		var qp [2]*verbs.QP
		for k, s := range []*station{s, to} {
			qp[k], err = s.pd.CreateQP(verbs.QPConfig{Type: qpattr.RC, SendCQ: s.cq, RecvCQ: s.cq, MaxSend: 1024, MaxRecv: 1})
			must(err)
		}
		for k, q := range qp {
			peer := []*station{to, s}[k]
			a := qpattr.Attr{Port: 1, Access: uint8(verbs.RemoteWrite), PathMTU: 4096, DestQPN: qp[1-k].QPN(), RQPSN: 1, SQPSN: 1,
				Path: qpattr.Path{DGID: peer.dev.Verbs.GIDs()[3], SGIDIndex: 3}, MinRNRTimer: 12, Timeout: 14, RetryCount: 7,
				RNRRetry: 7}
			must(q.ModifyAttr(verbs.Init, &a, qpattr.PKeyIndex|qpattr.Port|qpattr.Access))
			must(q.ModifyAttr(verbs.RTR, &a, qpattr.AV|qpattr.PathMTU|qpattr.DestQPN|qpattr.RQPSN|qpattr.MaxDestRdAtomic|qpattr.MinRNRTimer))
			must(q.ModifyAttr(verbs.RTS, &a, qpattr.SQPSN|qpattr.Timeout|qpattr.RetryCount|qpattr.RNRRetry|qpattr.MaxRdAtomic))
		}
		for range 1000 {
			_, err := qp[0].PostSend(verbs.SendWR{Opcode: verbs.OpWrite, RKey: to.mr.RKey(), RemoteAddr: to.mr.Addr(),
				SGEs: []verbs.SGE{{Addr: s.mr.Addr(), Length: memory, LKey: s.mr.LKey()}}})
			must(err)
		}
		b.w.Touch(s.place)
	}
	return b
}

// sent is what each sender has sent and the bottleneck has carried so far, in octets.
func (b *bottleneck) sent() (each [2]float64, carried float64) {
	for i := range each {
		each[i] = float64(b.s[i].dev.RoCE.Stats().OctetsOut)
	}
	return each, float64(b.sw.Counts(2).TxOctets)
}

// Two queue pairs of two NICs share a bottleneck of 40 Gb/s that marks as DCQCN's paper says:
// after 50 ms by equal parts, with the link in use and without loss. Equal seeds give equal
// octets.
//
// RD-22 RD-23
func TestDCQCNSharesABottleneck(t *testing.T) {
	t.Parallel()
	b := newBottleneck(t, dcqcn.Params{Enable: true, MaxRate: 40_000})
	begun := b.w.Now()
	var before, after [2]float64
	var from, to float64
	for at := range 8 {
		b.w.Run(begun.Add(time.Duration(at) * 10 * time.Millisecond))
		before, from = after, to
		after, to = b.sent()
		c := b.sw.Counts(2)
		q := [2]show.RoCEQPInfo{b.s[0].dev.ShowRoCEQP()[0], b.s[1].dev.ShowRoCEQP()[0]}
		t.Logf("%d0 ms: %.1f and %.1f Gb/s, link %.3f, queue %d octets, at most %d, marked %d, rates %.0f %.0f, alpha %.3f %.3f", at,
			(after[0]-before[0])*8/1e7, (after[1]-before[1])*8/1e7, (to-from)*8/4e8, c.QueuedOctets, c.QueueMostOctets, c.CE,
			q[0].Rate, q[1].Rate, q[0].Alpha, q[1].Alpha)
		if at > 5 {
			x, y := after[0]-before[0], after[1]-before[1]
			jain := (x + y) * (x + y) / (2 * (x*x + y*y))
			use := (to - from) * 8 / 4e8
			if jain < 0.9 || use < 0.9 {
				t.Errorf("Jain's index %.3f, link use %.3f", jain, use)
			}
		}
	}
	c := b.sw.Counts(2)
	if c.QueueMostOctets > 2*200_000 { // of Kmax
		t.Errorf("%d octets were in the queue", c.QueueMostOctets)
	}
	if c.TxDrops.Total() > 0 || c.CE == 0 || b.s[0].dev.RoCE.Stats().PacketsAgain > 0 {
		t.Errorf("%+v", c)
	}
}

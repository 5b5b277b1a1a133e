package nic

import (
	"net/netip"
	"testing"
	"time"

	"tapir/nic/fastlinq"
	"tapir/nic/roce/dcqcn"
	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ib"
	"tapir/wire/ip"
)

// congested is what a sender of Writes shows whose packets are marked for 1 ms, then for
// 1.5 ms not.
type congested struct {
	cnps, octets        int
	dscp, pcp           uint8 // of the last CNP
	rate, target, alpha float64
	ignored             uint64
	ect                 bool // its packets are ECN-capable
}

func congest(t *testing.T, set func(p *dcqcn.Params)) (r congested) {
	t.Helper()
	w, a, b := twoRoCE(t, func(c *Config) {
		c.VLAN = 7
		c.RDMA.DCQCN = dcqcn.Params{Enable: true, ByteCount: 40_000, G: 4096}
		set(&c.RDMA.DCQCN)
	})
	x, y := roceEndOn(t, a, qpattr.RC, 3), roceEndOn(t, b, qpattr.RC, 3)
	x.move(t, y)
	y.move(t, x)
	begun := w.now
	w.lose = func(from *node, data []byte) bool {
		h, n, err := ether.Parse(data)
		if err != nil || h.Type != ether.TypeIPv4 || data[n+9] != ip.ProtoUDP {
			return false
		}
		p, bth := data[n:], ib.ParseBTH(data[n+28:])
		switch {
		case bth.Opcode == ib.CNP:
			r.cnps++
			r.dscp, r.pcp = p[1]>>2, h.Tags[0].PCP()
			if from != b || p[1]&ip.ECNMask != 0 || bth.DestQP != x.qp.QPN() || !bth.BECN || h.Tags[0].VID() != 7 {
				t.Errorf("CNP %+v, %+v", h, bth)
			}
		case from == a:
			r.ect = p[1]&ip.ECNMask == ip.ECT0
			if w.now.Sub(begun) < time.Millisecond {
				ip.MarkCE(p)
			}
		}
		return false
	}
	for w.now.Sub(begun) < 2500*time.Microsecond {
		for range 4 {
			_, err := x.qp.PostSend(verbs.SendWR{Opcode: verbs.OpWrite, SGEs: x.sge(0, 8192), RemoteAddr: y.mr.Addr(),
				RKey: y.mr.RKey(), Flags: verbs.Signaled})
			must(t, err)
		}
		for range 4 {
			x.take(t, w)
			r.octets += 8192
		}
	}
	q := a.dev.ShowRoCEQP()[0]
	r.rate, r.target, r.alpha, r.ignored = q.Rate, q.Target, q.Alpha, a.counter("rp_cnp_ignored")
	if n := b.counter("np_cnp_sent"); n != uint64(r.cnps) || a.counter("rp_cnp_handled")+r.ignored != n {
		t.Errorf("%d CNPs, %d are counted", r.cnps, n)
	}
	if marked := b.counter("np_ecn_marked_roce_packets"); (marked > 0) != r.ect {
		t.Errorf("%d packets have CE", marked)
	}
	return r
}

// Each parameter of DCQCN has the effect that it is for. Packets with CE bring CNPs on the VLAN
// of the queue pair, which lower the rate that tapir show shows.
//
// RD-04 RD-22 RD-23
func TestDCQCN(t *testing.T) {
	base := congest(t, func(*dcqcn.Params) {})
	if base.cnps < 4 || base.cnps > 21 || base.dscp != 48 || base.pcp != 6 || base.rate >= base.target && base.rate < 100_000 ||
		base.alpha <= 0 || !base.ect || base.ignored != 0 {
		t.Errorf("%+v", base)
	}
	for what, c := range map[string]struct {
		set func(p *dcqcn.Params)
		is  func(r congested) bool
	}{
		"roce_enable_dcqcn=0":       {func(p *dcqcn.Params) { p.Enable = false }, func(r congested) bool { return r.cnps == 0 && !r.ect && r.rate == 0 }},
		"notification_point=0":      {func(p *dcqcn.Params) { p.NoNotification = true }, func(r congested) bool { return r.cnps == 0 && r.rate == 100_000 }},
		"reaction_point=0":          {func(p *dcqcn.Params) { p.NoReaction = true }, func(r congested) bool { return r.cnps > 0 && r.ignored > 0 && r.rate == 0 }},
		"roce_congestion":           {func(p *dcqcn.Params) { p.Algorithm = dcqcn.AIMD }, func(r congested) bool { return r.alpha == 0 && r.target == 100_000 }},
		"dcqcn_cnp_dscp":            {func(p *dcqcn.Params) { p.CNPDSCP = 7 }, func(r congested) bool { return r.dscp == 7 }},
		"dcqcn_cnp_vlan_priority":   {func(p *dcqcn.Params) { p.CNPPriority = 3 }, func(r congested) bool { return r.pcp == 3 }},
		"dcqcn_cnp_send_timeout_us": {func(p *dcqcn.Params) { p.CNPTimeout = 500 }, func(r congested) bool { return r.cnps > 0 && r.cnps <= 3 }},
		"rl_bc_rate":                {func(p *dcqcn.Params) { p.ByteCount = 10_000_000 }, func(r congested) bool { return r.rate < base.rate }},
		"rl_max_rate":               {func(p *dcqcn.Params) { p.MaxRate = 500 }, func(r congested) bool { return r.rate <= 500 && r.octets <= 500/8*2700 }},
		"rl_r_ai":                   {func(p *dcqcn.Params) { p.RAI = 2000 }, func(r congested) bool { return r.rate > base.rate }},
		"rl_r_hai":                  {func(p *dcqcn.Params) { p.RHAI = 2000 }, func(r congested) bool { return r.rate > base.rate }},
		"dcqcn_g":                   {func(p *dcqcn.Params) { p.G = 256 }, func(r congested) bool { return r.alpha > base.alpha }},
		"dcqcn_k_us":                {func(p *dcqcn.Params) { p.K = 1000 }, func(r congested) bool { return r.alpha > base.alpha }},
		"dcqcn_timeout_us":          {func(p *dcqcn.Params) { p.Timeout = 500 }, func(r congested) bool { return r.rate < base.rate }},
	} {
		if r := congest(t, c.set); !c.is(r) {
			t.Errorf("%s: %+v, by default %+v", what, r, base)
		}
	}
	r := RDMA{DCQCN: dcqcn.Params{Enable: true}}
	if r.Validate() == nil {
		t.Error("DCQCN of iWARP")
	}
}

// The first 64 queue pairs of a NIC have a limiter, which shows; the next one sends as fast as
// ever when it is told of congestion, until another gives its limiter back.
//
// RD-24
func TestLimitersRunOut(t *testing.T) {
	w, a, b := twoRoCE(t, func(c *Config) { c.RDMA.DCQCN = dcqcn.Params{Enable: true} })
	pair := func() (x, y *roceEnd) {
		x, y = roceEndOn(t, a, qpattr.RC, 3), roceEndOn(t, b, qpattr.RC, 3)
		x.move(t, y)
		y.move(t, x)
		return x, y
	}
	first, firstTo := pair()
	for range dcqcn.Limiters - 1 {
		pair()
	}
	last, lastTo := pair()
	w.lose = func(_ *node, data []byte) bool {
		ip.MarkCE(data[ether.HeaderLen:])
		return false
	}
	rounds := func(x, y *roceEnd) time.Duration {
		begun := w.now
		for range 40 {
			_, err := x.qp.PostSend(verbs.SendWR{Opcode: verbs.OpWrite, SGEs: x.sge(0, 8192), RemoteAddr: y.mr.Addr(),
				RKey: y.mr.RKey(), Flags: verbs.Signaled})
			must(t, err)
			x.take(t, w)
		}
		return w.now.Sub(begun)
	}
	slow, free := rounds(first, firstTo), rounds(last, lastTo)
	q := a.dev.ShowRoCEQP()
	if slow < 2*free || q[0].Rate >= 100_000 || q[63].Rate != 100_000 || q[64].Rate != 0 || q[64].CNPsIn != 0 ||
		a.counter("rp_cnp_ignored") == 0 {
		t.Errorf("%v with a limiter, %v without; %+v, %+v", slow, free, q[0], q[64])
	}
	must(t, first.qp.Destroy())
	next, _ := pair()
	if i := a.dev.ShowRoCEQP(); i[len(i)-1].Num != next.qp.QPN() || i[len(i)-1].Rate != 100_000 {
		t.Errorf("%+v", i[len(i)-1])
	}
}

// With rate limiters the Ethernet function shares the queue of the first queue pair: alone it has
// that one's rate, and beside it each sends a frame in turn. Other queue pairs have rates of their
// own. Without a first queue pair nothing limits it.
//
// RD-25
func TestEthernetSharesTheFirstQueue(t *testing.T) {
	const mbps, frames, size = 800, 40, 1000
	w := newWorld(t)
	h := &hostSide{w: w, room: 1000, held: map[netip.AddrPort]bool{}}
	a := &node{w: w, room: 1000}
	cfg := func(name, addr string) (c Config) {
		c = roceConfig()
		c.Name, c.Addrs, c.RDMA.DCQCN = name, prefixes(addr, "fd00::"+addr[7:8]+"/64"), dcqcn.Params{Enable: true, MaxRate: mbps}
		c.Hardware = &fastlinq.Config{}
		return c
	}
	w.attach(a, cfg("nic0", "10.0.0.1/24"), Env{Pool: w.pool, Wire: a, Host: h, Reserver: h})
	b := w.nic(cfg("nic1", "10.0.0.2/24"))
	a.dev.LinkUp(w.now)
	b.dev.LinkUp(w.now)
	w.run(time.Millisecond)
	type ends [2]*roceEnd
	pair := func() (p ends) {
		p = ends{roceEndOn(t, a, qpattr.RC, 3), roceEndOn(t, b, qpattr.RC, 3)}
		p[0].move(t, p[1])
		p[1].move(t, p[0])
		return p
	}
	// send has the operating system send frames while queue pairs are busy. It returns the time
	// between two of its frames, and the rate of each queue pair while it sent, in Mb/s.
	send := func(pairs ...ends) (gap time.Duration, rates []float64) {
		a.all = nil
		for _, p := range pairs {
			for range 10 {
				_, err := p[0].qp.PostSend(verbs.SendWR{Opcode: verbs.OpWrite, SGEs: p[0].sge(0, 8192), RemoteAddr: p[1].mr.Addr(),
					RKey: p[1].mr.RKey()})
				must(t, err)
			}
		}
		for range frames {
			f := w.pool.Get(size)
			ether.Header{Dst: b.dev.Config().MAC, Src: a.dev.Config().MAC, Type: 0x88b5}.Put(f.Extend(size))
			a.dev.Receive(frame.Host, []*frame.Frame{f}, w.now)
		}
		w.run(10 * time.Millisecond)
		var at []frame.Stamp
		octets := map[uint32]int{}
		for _, r := range a.all {
			switch {
			case r.Port != frame.Wire || r.Dir != frame.Outbound || len(at) == frames:
			case len(r.Data) == size:
				at = append(at, r.System)
			case len(r.Data) > size:
				octets[ib.ParseBTH(r.Data[ether.HeaderLen+28:]).DestQP] += len(r.Data) + 24
			}
		}
		if len(at) != frames {
			t.Fatalf("%d of %d frames left", len(at), frames)
		}
		took := time.Duration(at[frames-1] - at[0])
		for _, p := range pairs {
			rates = append(rates, float64(octets[p[1].qp.QPN()])*8e3/float64(took))
		}
		return took / (frames - 1), rates
	}
	is := func(what string, gap time.Duration, first, second float64, pairs ...ends) {
		t.Helper()
		got, rates := send(pairs...)
		for i, want := range []float64{first, second}[:len(pairs)] {
			if rates[i] < want*0.97 || rates[i] > want*1.03 {
				t.Errorf("%s: %.0f Mb/s, not %.0f", what, rates[i], want)
			}
		}
		if got != gap {
			t.Errorf("%s: a frame each %v, not %v", what, got, gap)
		}
	}
	// What 1024 octets take, which are a frame and its gap, and those of a packet of 1108.
	const own, both = 1024 * 8 * time.Second / (mbps * 1e6), (1024 + 1108) * 8 * time.Second / (mbps * 1e6)
	is("no queue pair", 0, 0, 0)
	x, y := pair(), pair()
	is("alone", own, 0, 0)
	is("beside the first queue pair", both, mbps*1108/2132., 0, x)
	is("beside both", both, mbps*1108/2132., mbps, x, y)
	must(t, x[0].qp.Destroy())
	is("the first queue pair is gone", 0, 0, 0)
	x = pair()
	is("another is the first", both, mbps*1108/2132., 0, x)
}

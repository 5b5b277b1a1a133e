package roce

import (
	"testing"
	"time"

	"tapir/nic/nicdrop"
	"tapir/nic/roce/dcqcn"
	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ib"
	"tapir/wire/ip"
)

// newCongested is a sim whose stations have congestion control on a link of 40 Gb/s; cnps are
// the times and packets of the notifications sent.
func newCongested(t testing.TB, v6 bool, p dcqcn.Params) (w *sim, cnps *[]noted) {
	w = newSim(t, 7, false, v6)
	cnps = new([]noted)
	for _, s := range w.end {
		s.e.env.Speed = func() int { return 40_000 }
		s.e.startCongestion(p)
	}
	w.peek = func(from *station, b []byte) {
		if bth := bthOf(b); bth.Opcode == ib.CNP {
			*cnps = append(*cnps, noted{w.now, from, append([]byte(nil), b...)})
		}
	}
	return w, cnps
}

// noted is a CNP on the link.
type noted struct {
	at   frame.Time
	from *station
	b    []byte
}

// ipLen is the length of the IP and UDP headers of b.
func ipLen(b []byte) int {
	if b[0]>>4 == 4 {
		return 28
	}
	return 48
}

func bthOf(b []byte) ib.BTH { return ib.ParseBTH(b[ipLen(b):]) }

func tosOf(b []byte) uint8 {
	if b[0]>>4 == 4 {
		return b[1]
	}
	return b[0]<<4 | b[1]>>4
}

// busy has a queue pair work for a time: messages of an operation, one after the other. It
// returns the octets that were carried.
func (w *sim) busy(from, to *station, q *verbs.QP, op verbs.Opcode, d time.Duration) (octets int) {
	const size = 64 << 10
	from.wcs = nil
	posted := 0
	for end := w.now.Add(d); w.now < end; w.step() {
		for ; posted < len(from.wcs)+16; posted++ {
			_, err := q.PostSend(verbs.SendWR{Opcode: op, Flags: verbs.Signaled, SGEs: from.sge(0, size), RKey: to.mr.RKey(),
				RemoteAddr: to.mr.Addr()})
			from.must(err)
		}
	}
	for _, wc := range from.wcs {
		if wc.Status != verbs.StatusSuccess {
			w.t.Fatal(wc.Status)
		}
	}
	return len(from.wcs) * size
}

// Packets of RC and UC are ECT(0). CE on data has the receiver send one CNP for each interval,
// with DSCP and priority as set; the sender slows down and counts. Acknowledgements are never
// the cause.
//
// RD-22 RD-23
func TestCongestionNotification(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		for _, typ := range []qpattr.Type{qpattr.RC, qpattr.UC} {
			w, cnps := newCongested(t, v6, dcqcn.Params{Enable: true, CNPTimeout: 70, CNPDSCP: 40, CNPPriority: 5,
				MaxRate: 40_000, RAI: 4000})
			w.segments = 8
			a, b := w.end[0], w.end[1]
			from, to := w.pair(typ)
			marked := 0
			w.change = func(p []byte) {
				if bth := bthOf(p); bth.Opcode == ib.CNP {
					if tosOf(p) != 40<<2 {
						t.Fatalf("traffic class %#x of a CNP", tosOf(p))
					}
				} else if tosOf(p)&ip.ECNMask != ip.ECT0 {
					t.Fatalf("%v: traffic class %#x", bth.Opcode, tosOf(p))
				}
				if ip.MarkCE(p) {
					marked++
				}
			}
			free := w.busy(a, b, from, verbs.OpWrite, time.Millisecond)
			if len(*cnps) < 10 || marked == 0 {
				t.Fatalf("%d CNPs, %d packets marked", len(*cnps), marked)
			}
			for i, n := range *cnps {
				if n.from != b || i > 0 && n.at.Sub((*cnps)[i-1].at) < 70*time.Microsecond {
					t.Errorf("CNP %d of %v, %v after the last one", i, n.from.gid, n.at.Sub((*cnps)[max(1, i)-1].at))
				}
				bth := bthOf(n.b)
				want := ib.BTH{Opcode: ib.CNP, BECN: true, MigReq: true, PKey: 0xffff, DestQP: from.QPN()}
				if bth != want || len(n.b)-ipLen(n.b) != ib.BTHLen+16+ib.ICRCLen {
					t.Errorf("%+v, %d octets", bth, len(n.b))
				}
			}
			info, _ := InfoOf(from)
			if s := info.Limiter; s == nil || !s.Limited || s.Rate > 2e9 || s.Alpha < 500_000 {
				t.Errorf("%+v", s)
			}
			if peer, _ := InfoOf(to); info.CNPsIn != uint64(len(*cnps)) || peer.CNPsOut != info.CNPsIn || peer.Limiter.Limited {
				t.Errorf("%+v, %+v", info, peer)
			}
			if s := b.e.Stats(); s.CNPsOut != info.CNPsIn || s.ECNMarked == 0 || a.e.Stats().CNPsHandled != info.CNPsIn {
				t.Errorf("%+v", s)
			}
			slow := w.busy(a, b, from, verbs.OpWrite, time.Millisecond)
			w.change = nil
			w.busy(a, b, from, verbs.OpWrite, 3*time.Millisecond)
			again := w.busy(a, b, from, verbs.OpWrite, time.Millisecond)
			if slow*4 > again || again < free*9/10 {
				t.Errorf("v6 %v, %v: %d octets, then %d, at last %d", v6, typ, free, slow, again)
			}
		}
	}
}

// What a queue pair with a limit sends keeps to its rate: requests, and at the responder the
// responses to Reads, while acknowledgements do not wait.
func TestLimitedRate(t *testing.T) {
	for _, segments := range []int{1, 16} {
		for _, op := range []verbs.Opcode{verbs.OpWrite, verbs.OpRead} {
			w, _ := newCongested(t, false, dcqcn.Params{Enable: true, RAI: 1, ByteCount: 1 << 30, Timeout: 1_000_000})
			w.segments = segments
			from, to := w.pair(qpattr.RC)
			sender := from
			if op == verbs.OpRead {
				sender = to
			}
			for range 5 {
				sender.Endpoint().(*qp).limiter.CNP(w.now)
			}
			s := sender.Endpoint().(*qp).limiter.State()
			octets := w.busy(w.end[0], w.end[1], from, op, 20*time.Millisecond)
			// 1024 octets of payload are 1106 of the line, 1044 in the same IP packet.
			want := float64(s.Rate) / 8 * 0.020 * 1024 / 1110
			if got := float64(octets); got < want*0.9-4*65536 || got > want*1.02 {
				t.Errorf("%v, %d segments: %.0f octets at %d Mb/s, expected %.0f", op, segments, got, s.Rate/1e6, want)
			}
		}
	}
}

// The first 64 queue pairs get a limiter and the next sends without; one that is reset gives its
// own back. Without DCQCN there are none, and its packets are not ECN-capable.
//
// RD-04 RD-24
func TestLimiters(t *testing.T) {
	w, _ := newCongested(t, false, dcqcn.Params{Enable: true})
	var list []*verbs.QP
	for range dcqcn.Limiters + 1 {
		q, _ := w.pair(qpattr.RC)
		list = append(list, q)
	}
	last := list[dcqcn.Limiters]
	limited := func(q *verbs.QP) bool {
		i, _ := InfoOf(q)
		return i.Limiter != nil
	}
	a, b := w.end[0], w.end[1]
	if !limited(list[0]) || !limited(list[63]) || limited(last) || a.e.Limiters() != 0 {
		t.Errorf("%d limiters are free", a.e.Limiters())
	}
	w.change = func(p []byte) { ip.MarkCE(p) }
	slow := w.busy(a, b, list[0], verbs.OpWrite, 2*time.Millisecond)
	free := w.busy(a, b, last, verbs.OpWrite, 2*time.Millisecond)
	if s := a.e.Stats(); free < 4*slow || s.CNPsIgnored == 0 || s.CNPsHandled == 0 {
		t.Errorf("%d octets with a limiter, %d without; %+v", slow, free, s)
	}
	a.must(list[5].Modify(verbs.Reset))
	if a.e.Limiters() != 1 || limited(list[5]) {
		t.Error("a queue pair that is reset keeps its limiter")
	}
	a.must(list[6].Destroy())
	if a.e.Limiters() != 2 {
		t.Error("a queue pair that is gone keeps its limiter")
	}
	for _, p := range []dcqcn.Params{{}, {NoReaction: true, Enable: true}} {
		w, cnps := newCongested(t, false, p)
		q, _ := w.pair(qpattr.RC)
		if limited(q) || w.end[0].e.Limiters() != 0 {
			t.Error("limiters without DCQCN")
		}
		w.change = func(b []byte) { ip.MarkCE(b) }
		w.busy(w.end[0], w.end[1], q, verbs.OpWrite, time.Millisecond)
		if s := w.end[0].e.Stats(); (len(*cnps) > 0) != p.Enable || s.CNPsHandled != 0 || (s.CNPsIgnored > 0) != p.Enable {
			t.Errorf("%+v: %d CNPs, %+v", p, len(*cnps), s)
		}
	}
	w, cnps := newCongested(t, false, dcqcn.Params{Enable: true, NoNotification: true})
	q, _ := w.pair(qpattr.RC)
	w.change = func(b []byte) { ip.MarkCE(b) }
	w.busy(w.end[0], w.end[1], q, verbs.OpWrite, time.Millisecond)
	if len(*cnps) > 0 || w.end[1].e.Stats().ECNMarked == 0 {
		t.Errorf("%d CNPs", len(*cnps))
	}
}

// CNPs that are no queue pair's, of another partition or peer, or with a wrong ICRC are dropped
// and counted, and change nothing.
func TestWrongCNPs(t *testing.T) {
	w, cnps := newCongested(t, false, dcqcn.Params{Enable: true})
	a, b := w.end[0], w.end[1]
	from, _ := w.pair(qpattr.RC)
	w.change = func(p []byte) { ip.MarkCE(p) }
	w.busy(a, b, from, verbs.OpWrite, 200*time.Microsecond)
	if len(*cnps) == 0 {
		t.Fatal("no CNP")
	}
	good := (*cnps)[0].b
	route := from.Endpoint().(*qp)
	for what, c := range map[string]struct {
		change func(p *ib.Packet, h []byte)
		want   frame.DropReason
	}{
		"unknown queue pair": {func(p *ib.Packet, _ []byte) { p.DestQP = 0x77777 }, nicdrop.DestQP},
		"partition":          {func(p *ib.Packet, _ []byte) { p.PKey = 0x1234 }, nicdrop.PKey},
		"peer":               {func(_ *ib.Packet, h []byte) { h[15] = 99 }, nicdrop.Peer},
		"ICRC":               {nil, nicdrop.ICRC},
		"none":               {func(*ib.Packet, []byte) {}, frame.DropNone},
	} {
		h := append([]byte(nil), good[:28]...)
		var p ib.Packet
		if err := p.Parse(good[28 : len(good)-ib.ICRCLen]); err != nil {
			t.Fatal(err)
		}
		if c.change != nil {
			c.change(&p, h)
		}
		packet := append(h, make([]byte, p.HeaderLen()+ib.ICRCLen)...)
		n := p.PutHeaders(packet[28:])
		startICRC(h).Headers(packet[28 : 28+n]).Put(packet[28+n:])
		if c.change == nil {
			packet[len(packet)-1] ^= 1
		}
		before, handled := route.limiter.State(), a.e.stats.CNPsHandled
		r := a.e.Receive(packet, 0, ether.Tag{}, w.now)
		after := route.limiter.State()
		if r != c.want || (after != before) != (c.want == frame.DropNone) || a.e.stats.CNPsHandled-handled > 0 != (c.want == frame.DropNone) {
			t.Errorf("%s: %v, %+v became %+v", what, r, before, after)
		}
		if c.want != frame.DropNone && a.e.stats.Drops[c.want] == 0 {
			t.Errorf("%s is not counted", what)
		}
	}
	off := newSim(t, 1, false, false)
	q, _ := off.pair(qpattr.RC)
	p := ib.Packet{BTH: ib.BTH{Opcode: ib.CNP, MigReq: true, BECN: true, PKey: 0xffff, DestQP: q.QPN()}}
	h := append([]byte(nil), good[:28]...)
	packet := append(h, make([]byte, p.HeaderLen()+ib.ICRCLen)...)
	n := p.PutHeaders(packet[28:])
	startICRC(h).Headers(packet[28 : 28+n]).Put(packet[28+n:])
	if r := off.end[0].e.Receive(packet, 0, ether.Tag{}, off.now); r != drop.Unused || off.end[0].e.stats.CNPsIgnored != 1 {
		t.Errorf("without DCQCN: %v", r)
	}
}

// Data with CE, CNPs and limiters allocate nothing.
func TestCongestionAllocatesNothing(t *testing.T) {
	r := newBench(t, 16<<10, 16)
	for i, s := range r.end {
		s.e.env.Speed = func() int { return 40_000 }
		s.e.startCongestion(dcqcn.Params{Enable: true, CNPTimeout: 1})
		s.must([]*verbs.QP{r.a, r.b}[i].Modify(verbs.Reset))
	}
	r.connect(r.a, r.b)
	mark := func() {
		r.now = r.now.Add(20 * time.Microsecond)
		for i, s := range r.end {
			s.e.Poll(r.now)
			d := &r.out[i]
			for _, f := range d.sent {
				ip.MarkCE(f.Bytes())
				r.end[1-i].e.Receive(f.Bytes(), int(f.GSOSize), ether.Tag{}, r.now)
				f.Release()
			}
			d.sent = d.sent[:0]
		}
	}
	work := func() {
		if _, err := r.a.PostSend(r.wr[0], r.wr[2]); err != nil {
			t.Fatal(err)
		}
		for done, n := 0, 0; done < 2; n++ {
			mark()
			if done += r.end[0].cq.Poll(r.wcs[:]); n > 100_000 {
				t.Fatal("no completion")
			}
		}
	}
	work()
	if allocs := testing.AllocsPerRun(50, work); allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
	if s := r.end[0].e.Stats(); s.CNPsHandled < 50 || r.end[1].e.Stats().CNPsOut < 50 {
		t.Errorf("%+v", s)
	}
}

// What a slow queue pair sends is not taken for lost: the time until an acknowledgement is that
// until the packet that asks for it.
func TestSlowIsNotLost(t *testing.T) {
	w, _ := newCongested(t, false, dcqcn.Params{Enable: true, RAI: 1, ByteCount: 1 << 30, Timeout: 1_000_000})
	from, to := w.pair(qpattr.RC)
	for op, q := range map[verbs.Opcode]*verbs.QP{verbs.OpWrite: from, verbs.OpRead: to} {
		for range 100 {
			q.Endpoint().(*qp).limiter.CNP(w.now)
		}
		if s := q.Endpoint().(*qp).limiter.State(); s.Rate != dcqcn.MinRate {
			t.Fatalf("%+v", s)
		}
		w.busy(w.end[0], w.end[1], from, op, 500*time.Millisecond)
	}
	for _, s := range w.end {
		if c := s.e.Stats(); c.PacketsAgain > 0 || c.Retries > 0 || c.Duplicates > 0 || c.OctetsOut+c.OctetsIn < 400_000 {
			t.Errorf("%+v", c)
		}
	}
}

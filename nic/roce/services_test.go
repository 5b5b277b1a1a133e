package roce

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"tapir/nic/nicdrop"
	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
	"tapir/wire/frame"
	"tapir/wire/ib"
)

// TestUnreliable: a lost packet of an unreliable connection takes its message with it; the
// sender does not notice, and the next message arrives.
func TestUnreliable(t *testing.T) {
	w := newSim(t, 3, false, true)
	a, b := w.pair(qpattr.UC)
	from, to := w.end[0], w.end[1]
	fillBytes(from.mem)
	for i := range 3 {
		_, err := b.PostRecv(verbs.RecvWR{ID: uint64(i), SGEs: to.sge(i*8192, 8192)})
		to.must(err)
	}
	n := 0
	w.lose = func([]byte) bool { n++; return n == 4 } // the second packet of the second message
	for i := range 3 {
		_, err := a.PostSend(verbs.SendWR{ID: uint64(i), Opcode: verbs.OpSendImm, Imm: uint64(i), Flags: verbs.Signaled,
			SGEs: from.sge(i*100, 2000)})
		from.must(err)
	}
	w.until("completions", func() bool { return len(from.wcs) == 3 && len(to.wcs) == 2 })
	if to.wcs[1].Imm != 2 || !bytes.Equal(to.mem[8192:][:2000], from.mem[200:][:2000]) {
		t.Errorf("receives %s", last(to.wcs))
	}
	write := verbs.SendWR{Opcode: verbs.OpWriteImm, Flags: verbs.Signaled, SGEs: from.sge(0, 5000), RKey: to.mr.RKey(),
		RemoteAddr: to.mr.Addr() + 100_000, Imm: 5}
	_, err := a.PostSend(write)
	from.must(err)
	w.until("Write", func() bool { return len(to.wcs) == 3 })
	if !bytes.Equal(to.mem[100_000:][:5000], from.mem[:5000]) || to.wcs[2].Opcode != verbs.WCRecvWrite {
		t.Errorf("Write: %s", last(to.wcs))
	}
	write.RKey++
	_, err = a.PostSend(write)
	from.must(err)
	w.until("a refused Write", func() bool { return slices.Contains(to.drops, nicdrop.Refused) })
	if a.State() != verbs.RTS || b.State() != verbs.RTS {
		t.Errorf("states %v %v", a.State(), b.State())
	}
	if _, err := a.PostSend(verbs.SendWR{Opcode: verbs.OpRead}); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("Read of an unreliable connection: %v", err)
	}
}

// datagrams makes a queue pair of type UD at each station.
func (w *sim) datagrams() (list [2]*verbs.QP) {
	for i, s := range w.end {
		q, err := s.pd.CreateQP(verbs.QPConfig{Type: qpattr.UD, SendCQ: s.cq, RecvCQ: s.cq, MaxSGE: 2})
		s.must(err)
		attr := w.attr(w.end[1-i], 0)
		s.must(q.ModifyAttr(verbs.Init, attr, qpattr.PKeyIndex|qpattr.Port|qpattr.QKey))
		s.must(q.ModifyAttr(verbs.RTR, attr, 0))
		s.must(q.ModifyAttr(verbs.RTS, attr, qpattr.SQPSN))
		list[i] = q
	}
	return list
}

// TestDatagrams: the receiver finds 40 octets in front, the sender's number and the immediate data;
// a wrong Q_Key is dropped, a datagram that is too long fails at the sender, which recovers.
func TestDatagrams(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		w := newSim(t, 4, false, v6)
		q := w.datagrams()
		from, to := w.end[0], w.end[1]
		fillBytes(from.mem)
		ah, err := from.pd.CreateAH(qpattr.Path{DGID: to.gid, SGIDIndex: 1, TClass: 0x20, SL: 3})
		from.must(err)
		recv := func(id uint64, n int) {
			_, err := q[1].PostRecv(verbs.RecvWR{ID: id, SGEs: to.sge(0, n)})
			to.must(err)
		}
		send := verbs.SendWR{ID: 1, Opcode: verbs.OpSendImm, Imm: 0xabcd, Flags: verbs.Signaled, SGEs: from.sge(0, 1000),
			AH: ah, RemoteQPN: q[1].QPN(), RemoteQKey: 0x1234}
		post := func(wr verbs.SendWR) {
			_, err := q[0].PostSend(wr)
			from.must(err)
		}
		recv(1, 1040)
		post(send)
		w.until("datagram", func() bool { return len(to.wcs) == 1 && len(from.wcs) == 1 })
		wc := to.wcs[0]
		if wc.ByteLen != 1040 || wc.SrcQP != q[0].QPN() || !wc.GRH || !wc.WithImm || wc.Imm != 0xabcd ||
			!bytes.Equal(to.mem[40:1040], from.mem[:1000]) {
			t.Errorf("receive %+v", wc)
		}
		if v := to.mem[20] >> 4; !v6 && (v != 4 || to.mem[21] != 0x20) || v6 && to.mem[0]>>4 != 6 {
			t.Errorf("header in front: % x", to.mem[:40])
		}
		send.RemoteQKey = 0x80000000 // the sender's own
		recv(2, 1040)
		post(send)
		w.until("own Q_Key", func() bool { return len(to.wcs) == 2 })
		send.RemoteQKey = 0x4321
		post(send)
		w.until("wrong Q_Key", func() bool { return to.e.Stats().BadQKeys == 1 })
		send.RemoteQKey = 0x1234
		post(send)
		w.until("no receive", func() bool { return slices.Contains(to.drops, nicdrop.Refused) })
		recv(3, 100)
		post(send)
		w.until("receive too short", func() bool { return len(to.wcs) == 3 })
		if to.wcs[2].Status != verbs.StatusLocalLength || q[1].State() != verbs.RTS {
			t.Errorf("receive too short: %s, state %v", last(to.wcs), q[1].State())
		}
		send.SGEs = from.sge(0, 1025)
		post(send)
		w.until("SQE", func() bool { return q[0].State() == verbs.SQE })
		if n := len(from.wcs); from.wcs[n-1].Status != verbs.StatusLocalLength {
			t.Errorf("datagram too long: %s", last(from.wcs))
		}
		from.must(q[0].ModifyAttr(verbs.RTS, &qpattr.Attr{}, 0))
		send.SGEs = from.sge(0, 0)
		recv(4, 40)
		post(send)
		w.until("after SQE", func() bool { return len(to.wcs) == 4 })
		if to.wcs[3].ByteLen != 40 || to.wcs[3].Status != verbs.StatusSuccess {
			t.Errorf("after SQE: %+v", to.wcs[3])
		}
		from.must(ah.Destroy())
		if _, err := q[0].PostSend(send); !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("destroyed address handle: %v", err)
		}
	}
}

// TestMulticast: each attached queue pair gets the datagram, no other one does.
func TestMulticast(t *testing.T) {
	w := newSim(t, 5, false, false)
	q := w.datagrams()
	from, to := w.end[0], w.end[1]
	group := verbs.GID{10: 0xff, 11: 0xff, 12: 239, 13: 1, 14: 2, 15: 3}
	other, err := to.pd.CreateQP(verbs.QPConfig{Type: qpattr.UD, SendCQ: to.cq, RecvCQ: to.cq})
	to.must(err)
	to.must(other.ModifyAttr(verbs.Init, w.attr(from, 0), qpattr.PKeyIndex|qpattr.Port|qpattr.QKey))
	to.must(other.ModifyAttr(verbs.RTR, &qpattr.Attr{}, 0))
	for _, v := range []*verbs.QP{q[1], other} {
		to.must(v.AttachMcast(group))
		to.must(v.AttachMcast(group))
		_, err := v.PostRecv(verbs.RecvWR{SGEs: to.sge(0, 100)}, verbs.RecvWR{SGEs: to.sge(0, 100)})
		to.must(err)
	}
	ah, err := from.pd.CreateAH(qpattr.Path{DGID: group, SGIDIndex: 1})
	from.must(err)
	send := verbs.SendWR{AH: ah, RemoteQPN: verbs.MulticastQPN, RemoteQKey: 0x1234, SGEs: from.sge(0, 8)}
	_, err = q[0].PostSend(send)
	from.must(err)
	w.until("both", func() bool { return len(to.wcs) == 2 })
	to.must(other.DetachMcast(group))
	if err := other.DetachMcast(group); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("detached twice: %v", err)
	}
	_, err = q[0].PostSend(send)
	from.must(err)
	w.until("one", func() bool { return len(to.wcs) == 3 })
	if to.wcs[2].QP != q[1] {
		t.Error("the wrong queue pair")
	}
	to.must(q[1].Destroy())
	if g := to.dev.Groups(); len(g) != 0 {
		t.Errorf("groups left: %v", g)
	}
	if err := q[0].AttachMcast(to.gid); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("a unicast group: %v", err)
	}
}

// TestXRC: an initiator sends to two shared receive queues of the peer's domain by number.
func TestXRC(t *testing.T) {
	w := newSim(t, 6, false, false)
	w.faults.loss = 50
	from, to := w.end[0], w.end[1]
	ctx, err := to.dev.Open(nil)
	to.must(err)
	x, err := ctx.AllocXRCD()
	to.must(err)
	ini, err := from.pd.CreateQP(verbs.QPConfig{Type: qpattr.XRCInitiator, SendCQ: from.cq, RecvCQ: from.cq})
	from.must(err)
	tgt, err := to.pd.CreateQP(verbs.QPConfig{Type: qpattr.XRCTarget, XRCD: x})
	to.must(err)
	w.connect(ini, tgt)
	fillBytes(from.mem)
	var srqs [2]*verbs.SRQ
	for i := range srqs {
		srqs[i], err = to.pd.CreateXSRQ(x, to.cq, 16, 1)
		to.must(err)
		_, err = srqs[i].PostRecv(verbs.RecvWR{ID: uint64(i), SGEs: to.sge(i*8192, 8192)})
		to.must(err)
	}
	for i := range srqs {
		_, err = ini.PostSend(verbs.SendWR{SGEs: from.sge(i*10, 5000), RemoteSRQ: srqs[1-i].Num(), Flags: verbs.Signaled})
		from.must(err)
	}
	w.until("messages", func() bool { return len(from.wcs) == 2 && len(to.wcs) == 2 })
	if to.wcs[0].ID != 1 || to.wcs[1].ID != 0 || !bytes.Equal(to.mem[8192:][:5000], from.mem[:5000]) {
		t.Errorf("receives %v", to.wcs)
	}
	read := verbs.SendWR{ID: 9, Opcode: verbs.OpRead, SGEs: from.sge(100_000, 3000), RKey: to.mr.RKey(),
		RemoteAddr: to.mr.Addr(), Flags: verbs.Signaled, RemoteSRQ: srqs[0].Num()}
	_, err = ini.PostSend(read)
	from.must(err)
	w.until("Read", func() bool { return len(from.wcs) == 3 })
	if !bytes.Equal(from.mem[100_000:][:3000], to.mem[:3000]) {
		t.Error("Read: memory differs")
	}
	if err := x.Dealloc(); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("a domain in use: %v", err)
	}
	if _, err := tgt.PostSend(verbs.SendWR{}); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("a target sends: %v", err)
	}
	_, err = ini.PostSend(verbs.SendWR{ID: 10, RemoteSRQ: 0x777, Flags: verbs.Signaled})
	from.must(err)
	w.until("error", func() bool { return ini.State() == verbs.Err && tgt.State() == verbs.Err })
	if got := from.wcs[3]; got.Status != verbs.StatusRemoteInvalid {
		t.Errorf("unknown SRQ: %v", got.Status)
	}
	to.must(tgt.Destroy())
	for _, s := range srqs {
		to.must(s.Destroy())
	}
	to.must(x.Dealloc())
}

// TestReclaim: what has to be sent again is copied when its memory is given back before it is
// acknowledged.
func TestReclaim(t *testing.T) {
	w := newSim(t, 7, false, false)
	a, _ := w.pair(qpattr.RC)
	from, to := w.end[0], w.end[1]
	own := make([]byte, 5000)
	fillBytes(own)
	want := bytes.Clone(own)
	mr, err := from.pd.RegMR(own, verbs.LocalWrite)
	from.must(err)
	w.lose = func([]byte) bool { return true }
	_, err = a.PostSend(verbs.SendWR{Opcode: verbs.OpWrite, Flags: verbs.Signaled, RKey: to.mr.RKey(),
		SGEs: []verbs.SGE{{Addr: mr.Addr(), Length: 5000, LKey: mr.LKey()}}, RemoteAddr: to.mr.Addr()})
	from.must(err)
	w.step()
	from.must(mr.Dereg())
	clear(own)
	w.lose = nil
	w.until("Write", func() bool { return len(from.wcs) == 1 })
	if from.wcs[0].Status != verbs.StatusSuccess || !bytes.Equal(to.mem[:5000], want) {
		t.Errorf("%s", last(from.wcs))
	}
}

// heard is what queue pair 1 has received.
type heard struct{ list []Datagram }

func (h *heard) Datagram(d *Datagram, _ frame.Time) {
	c := *d
	c.Payload = bytes.Clone(d.Payload)
	h.list = append(h.list, c)
}

// TestManagement: datagrams of queue pair 1 go both ways, by the way back that they name.
func TestManagement(t *testing.T) {
	for _, v1 := range []bool{false, true} {
		w := newSim(t, 8, v1, false)
		var h [2]heard
		for i, s := range w.end {
			s.e.SetGSI(&h[i])
		}
		mad := bytes.Repeat([]byte{5}, 256)
		from, to := w.end[0], w.end[1]
		from.must(from.e.SendMAD(&qpattr.Path{DGID: to.gid, SGIDIndex: 1}, ib.QP1, 0, mad))
		w.until("request", func() bool { return len(h[1].list) == 1 })
		d := h[1].list[0]
		if d.SrcQP != 1 || d.PKeyIndex != 0 || !bytes.Equal(d.Payload, mad) || d.From.DGID != from.gid ||
			d.From.SGIDIndex != 1 {
			t.Errorf("datagram %+v", d)
		}
		to.must(to.e.SendMAD(&d.From, d.SrcQP, d.PKeyIndex, mad[:100]))
		w.until("answer", func() bool { return len(h[0].list) == 1 })
		if err := from.e.SendMAD(&qpattr.Path{DGID: to.gid}, 1, 0, mad); !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("empty GID: %v", err)
		}
		var err error
		for range maxMADs + 1 {
			err = from.e.SendMAD(&qpattr.Path{DGID: to.gid, SGIDIndex: 1}, 1, 0, mad)
		}
		if !errors.Is(err, verbs.ErrQueueFull) {
			t.Errorf("too many: %v", err)
		}
	}
}

// TestPartitions: a packet passes if its key and that of the queue pair are of one partition
// and not both limited (section 10.9); queue pair 1 is in all partitions of the port.
func TestPartitions(t *testing.T) {
	for _, c := range []struct {
		from, to uint16
		ok       bool
	}{{0xffff, 0xffff, true}, {0x7fff, 0xffff, true}, {0xffff, 0x7fff, true}, {0x7fff, 0x7fff, false},
		{0x8001, 0xffff, false}, {0x8001, 0x0001, true}} {
		w := newSim(t, 8, false, false)
		var h [2]heard
		for i, s := range w.end {
			s.e.SetGSI(&h[i])
			s.must(s.dev.ModifyPort(verbs.PortMod{PKeys: []uint16{0x8005, []uint16{c.from, c.to}[i]}}))
		}
		from, to := w.end[0], w.end[1]
		bad := func() uint32 { return to.dev.PortAttr().BadPKeys }
		drops := func() uint64 { return to.e.Stats().Drops[nicdrop.PKey] }
		path := qpattr.Path{DGID: to.gid, SGIDIndex: 1}
		from.must(from.e.SendMAD(&path, ib.QP1, 1, make([]byte, 256)))
		w.until("datagram", func() bool { return len(h[1].list) > 0 || bad() > 0 })
		if got := len(h[1].list) > 0; got != c.ok || c.ok && h[1].list[0].PKeyIndex != 1 || !c.ok && drops() != 1 {
			t.Errorf("%#04x to %#04x, queue pair 1: %+v, %d dropped", c.from, c.to, h[1].list, drops())
		}
		for i, s := range w.end {
			s.must(s.dev.ModifyPort(verbs.PortMod{PKeys: []uint16{[]uint16{c.from, c.to}[i]}}))
		}
		before := bad()
		a, _ := w.pair(qpattr.RC)
		_, err := a.PostSend(verbs.SendWR{ID: 1, Opcode: verbs.OpWrite, Flags: verbs.Signaled, SGEs: from.sge(0, 8),
			RemoteAddr: to.mr.Addr(), RKey: to.mr.RKey()})
		from.must(err)
		w.until("Write", func() bool { return len(from.wcs) > 0 })
		if got := from.wcs[0].Status == verbs.StatusSuccess; got != c.ok || (bad() == before) != c.ok {
			t.Errorf("%#04x to %#04x: %v, %d bad keys", c.from, c.to, from.wcs[0].Status, bad()-before)
		}
	}
	w := newSim(t, 8, false, false)
	a := w.datagrams()[0]
	attr := qpattr.Attr{PKeyIndex: 1, Port: 1}
	w.end[0].must(a.Modify(verbs.Reset))
	if err := a.ModifyAttr(verbs.Init, &attr, qpattr.PKeyIndex|qpattr.Port|qpattr.QKey); !errors.Is(err,
		verbs.ErrInvalid) {
		t.Errorf("a free entry of the table: %v", err)
	}
	if err := w.end[0].e.SendMAD(&qpattr.Path{SGIDIndex: 1}, 1, 1, nil); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("a datagram with a free entry: %v", err)
	}
}

// TestManagementKey: queue pair 1 takes datagrams with its own Q_Key alone.
func TestManagementKey(t *testing.T) {
	r := newRig(t, qpattr.RC)
	var h heard
	r.end[1].e.SetGSI(&h)
	for key, want := range map[uint32]frame.DropReason{ib.QKeyQP1: frame.DropNone, 0x1234: nicdrop.PKey, 0: nicdrop.PKey} {
		got := r.send(ib.OpSendOnly, 0, func(p *ib.Packet) {
			p.Opcode, p.DestQP, p.DETH = ib.UDSendOnly, ib.QP1, ib.DETH{QKey: key, SrcQP: ib.QP1}
			p.Payload = make([]byte, ib.MADLen)
		})
		if got != want {
			t.Errorf("Q_Key %#x: %v, want %v", key, got, want)
		}
	}
	if n := r.end[1].e.Stats().BadQKeys; n != 2 || len(h.list) != 1 {
		t.Errorf("%d bad Q_Keys, %d datagrams", n, len(h.list))
	}
}

// TestSourcePort: the UDP source port follows the flow and stays in its range.
func TestSourcePort(t *testing.T) {
	if got := SourcePort(0xabcde, 1, 2); got != 0xc000|(0xabcde&0x3fff^0xabcde>>14) {
		t.Errorf("with flow label: %#x", got)
	}
	ports := map[uint16]bool{}
	for i := range uint32(100) {
		p := SourcePort(0, 17+i, 40+i)
		ports[p] = true
		if p < 0xc000 || p != SourcePort(0, 17+i, 40+i) {
			t.Errorf("port %#x", p)
		}
	}
	if len(ports) < 60 {
		t.Errorf("100 connections have %d ports", len(ports))
	}
}

// allocate nothing: a Write, a Send and a Read of several packets each, and their acknowledgements.
func TestAllocations(t *testing.T) {
	r := newBench(t, 4096, 16)
	r.round()
	if n := testing.AllocsPerRun(50, r.round); n != 0 {
		t.Errorf("%v allocations for a Write, a Send and a Read", n)
	}
}

package roce

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"tapir/nic/nicdrop"
	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ib"
)

// rig is a queue pair of b whose peer is the test: it sends packets by hand and keeps what
// comes back.
type rig struct {
	*sim
	t    *testing.T
	a, b *verbs.QP
	out  []ib.Packet // of b
	psn  uint32
}

func newRig(t *testing.T, typ qpattr.Type) *rig {
	r := &rig{sim: newSim(t, 1, false, false), t: t, psn: 0xfffff0}
	r.a, r.b = r.pair(typ)
	r.lose = func([]byte) bool { return true }
	r.peek = func(from *station, b []byte) {
		var p ib.Packet
		if !ib.ICRCIPv4(b).Check(b[28:]) {
			t.Error("wrong ICRC")
		}
		if err := p.Parse(b[28 : len(b)-ib.ICRCLen]); err != nil {
			t.Error(err)
		}
		p.Payload = bytes.Clone(p.Payload)
		if from == r.end[1] {
			r.out = append(r.out, p)
		}
	}
	return r
}

// send gives b a packet of a; its PSN counts from the first one.
func (r *rig) send(op ib.Opcode, psn int, change func(p *ib.Packet)) frame.DropReason {
	q := r.a.Endpoint().(*qp)
	p := ib.Packet{BTH: ib.BTH{Opcode: op | q.class, PKey: 0xffff, DestQP: r.b.QPN(), PSN: add(r.psn, uint32(psn)),
		AckReq: true}}
	if change != nil {
		change(&p)
	}
	n := len(p.Payload)
	var w writer
	if !r.end[0].e.begin(&w, &q.route, p.HeaderLen()+n+int(ib.PadOf(n))+ib.ICRCLen, 0) {
		r.t.Fatal("no frame")
	}
	copy(w.packet(&p, n), p.Payload)
	w.seal(&p, n, nil)
	defer w.f.Release()
	return r.end[1].e.Receive(w.f.Bytes(), 0, ether.Tag{}, r.now)
}

// answers lets b send and returns what it says.
func (r *rig) answers() []ib.Packet {
	r.out = nil
	for range 3 {
		r.step()
	}
	return r.out
}

// want compares the one answer of b.
func (r *rig) want(what string, s ib.Syndrome, psn int) {
	r.t.Helper()
	out := r.answers()
	if len(out) != 1 || out[0].AETH.Syndrome != s || out[0].PSN != add(r.psn, uint32(psn)) {
		r.t.Errorf("%s: answers %+v, want %v for PSN %d", what, out, s, psn)
	}
}

func (r *rig) recv(n int) {
	_, err := r.b.PostRecv(verbs.RecvWR{ID: 1, SGEs: r.end[1].sge(0, n)})
	r.end[1].must(err)
}

func payload(n int) func(p *ib.Packet) { return func(p *ib.Packet) { p.Payload = make([]byte, n) } }

// reth is a Write or Read of n octets at off of b's memory.
func (r *rig) reth(off, n, carries int) func(p *ib.Packet) {
	return func(p *ib.Packet) {
		mr := r.end[1].mr
		p.RETH = ib.RETH{VA: mr.Addr() + uint64(off), RKey: mr.RKey(), Len: uint32(n)}
		p.Payload = bytes.Repeat([]byte{7}, carries)
	}
}

// TestResponder walks through the responder's checks (section 9.7.4): the answer to each
// wrong request, the state of the queue pair, the event, and that no octet of memory changes.
func TestResponder(t *testing.T) {
	for _, c := range []struct {
		name  string
		do    func(r *rig)
		nak   ib.Syndrome
		event verbs.EventType
	}{
		{"Middle without First", func(r *rig) { r.send(ib.OpSendMiddle, 0, payload(1024)) }, ib.NAKInvalidRequest,
			verbs.EventQPRequestError},
		{"First shorter than the MTU", func(r *rig) { r.send(ib.OpSendFirst, 0, payload(1000)) },
			ib.NAKInvalidRequest, verbs.EventQPRequestError},
		{"longer than the MTU", func(r *rig) { r.send(ib.OpSendOnly, 0, payload(1025)) },
			ib.NAKInvalidRequest, verbs.EventQPRequestError},
		{"Write with too few octets", func(r *rig) { r.send(ib.OpWriteOnly, 0, r.reth(0, 9, 8)) }, ib.NAKInvalidRequest,
			verbs.EventQPRequestError},
		{"Write with too many octets", func(r *rig) { r.send(ib.OpWriteOnly, 0, r.reth(0, 7, 8)) }, ib.NAKInvalidRequest,
			verbs.EventQPRequestError},
		{"Write out of bounds", func(r *rig) { r.send(ib.OpWriteOnly, 0, r.reth(simMem-4, 8, 8)) }, ib.NAKRemoteAccess,
			verbs.EventQPAccessError},
		{"Write that would end out of bounds", func(r *rig) { r.send(ib.OpWriteFirst, 0, r.reth(simMem-1024, 2000, 1024)) },
			ib.NAKRemoteAccess, verbs.EventQPAccessError},
		{"Write with a wrong R_Key", func(r *rig) {
			r.send(ib.OpWriteOnly, 0, func(p *ib.Packet) { r.reth(0, 8, 8)(p); p.RETH.RKey++ })
		}, ib.NAKRemoteAccess, verbs.EventQPAccessError},
		{"Write that the queue pair does not allow", func(r *rig) {
			r.end[1].must(r.b.ModifyAttr(verbs.RTS, &qpattr.Attr{}, qpattr.Access))
			r.send(ib.OpWriteOnly, 0, r.reth(0, 8, 8))
		}, ib.NAKInvalidRequest, verbs.EventQPRequestError},
		{"Read with a wrong R_Key", func(r *rig) {
			r.send(ib.OpReadRequest, 0, func(p *ib.Packet) { r.reth(0, 8, 0)(p); p.RETH.RKey++ })
		}, ib.NAKRemoteAccess, verbs.EventQPAccessError},
		{"more Reads than resources", func(r *rig) {
			for i := range 5 {
				r.send(ib.OpReadRequest, i, r.reth(0, 8, 0))
			}
		}, ib.NAKInvalidRequest, verbs.EventQPRequestError},
		{"atomic not aligned", func(r *rig) {
			r.send(ib.OpFetchAdd, 0, func(p *ib.Packet) {
				p.Atomic = ib.AtomicETH{VA: r.end[1].mr.Addr() + 4,
					RKey: r.end[1].mr.RKey()}
			})
		}, ib.NAKInvalidRequest, verbs.EventQPRequestError},
		{"atomic out of bounds", func(r *rig) {
			r.send(ib.OpFetchAdd, 0, func(p *ib.Packet) {
				p.Atomic = ib.AtomicETH{VA: r.end[1].mr.Addr() + simMem,
					RKey: r.end[1].mr.RKey()}
			})
		}, ib.NAKRemoteAccess, verbs.EventQPAccessError},
		{"Send longer than the receive", func(r *rig) { r.recv(8); r.send(ib.OpSendOnly, 0, payload(9)) },
			ib.NAKInvalidRequest, 0},
		{"invalidation of nothing", func(r *rig) {
			r.recv(8)
			r.send(ib.OpSendOnlyInvalidate, 0, func(p *ib.Packet) { p.Invalidate = 0x123456 })
		}, ib.NAKRemoteAccess, 0},
		{"Read between the packets of a Write", func(r *rig) {
			r.send(ib.OpWriteFirst, 0, r.reth(0, 2000, 1024))
			r.send(ib.OpReadRequest, 1, r.reth(0, 8, 0))
		}, ib.NAKInvalidRequest, verbs.EventQPRequestError},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, qpattr.RC)
			before := bytes.Clone(r.end[1].mem)
			c.do(r)
			out := r.answers()
			if len(out) == 0 || out[len(out)-1].AETH.Syndrome != c.nak || r.b.State() != verbs.Err {
				t.Errorf("answers %+v, state %v", out, r.b.State())
			}
			if c.event != 0 && !slices.Contains(r.end[1].events, c.event) {
				t.Errorf("events %v, want %v", r.end[1].events, c.event)
			}
			if c.event == 0 && !slices.ContainsFunc(r.end[1].wcs, func(wc verbs.WC) bool {
				return wc.Status != verbs.StatusSuccess && wc.Status != verbs.StatusFlushed
			}) {
				t.Errorf("the receive in use does not tell: %v", last(r.end[1].wcs))
			}
			if c.name != "Read between the packets of a Write" && !bytes.Equal(before, r.end[1].mem) {
				t.Error("memory has changed")
			}
			if r.send(ib.OpSendOnly, 9, nil) == frame.DropNone || len(r.answers()) != 0 {
				t.Error("a queue pair in error answers")
			}
		})
	}
}

// Packets that are dropped without an answer, with the reason.
func TestSilentDrops(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p *ib.Packet)
		want   frame.DropReason
	}{
		"unknown queue pair":  {func(p *ib.Packet) { p.DestQP = 0x777 }, nicdrop.DestQP},
		"other service":       {func(p *ib.Packet) { p.Opcode = ib.TransportUC | ib.OpSendOnly }, nicdrop.DestQP},
		"unknown opcode":      {func(p *ib.Packet) { p.Opcode = 0x1f }, nicdrop.Transport},
		"header version":      {func(p *ib.Packet) { p.Version = 1 }, nicdrop.Transport},
		"partition":           {func(p *ib.Packet) { p.PKey = 0x8001 }, nicdrop.PKey},
		"CNP":                 {func(p *ib.Packet) { p.Opcode = ib.CNP; p.BECN = true }, drop.Unused},
		"response to nothing": {func(p *ib.Packet) { p.Opcode = ib.OpReadResponseOnly }, drop.Unused},
	} {
		r := newRig(t, qpattr.RC)
		if got := r.send(ib.OpSendOnly, 0, c.change); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if out := r.answers(); len(out) != 0 || r.b.State() != verbs.RTS || r.end[1].e.Stats().Drops.Total() == 0 {
			t.Errorf("%s: answers %+v, state %v", name, out, r.b.State())
		}
	}
	r := newRig(t, qpattr.RC)
	r.send(ib.OpSendOnly, 0, func(p *ib.Packet) { p.PKey = 0x8001 })
	if n := r.end[1].dev.PortAttr().BadPKeys; n != 1 {
		t.Errorf("%d bad P_Keys counted", n)
	}
	q := r.a.Endpoint().(*qp)
	q.route.hop.Src[15] = 9 // another station
	q.route.set(&qpattr.Path{DGID: r.end[1].gid}, verbs.GIDEntry{GID: q.route.hop.Src}, 1, 2)
	if got := r.send(ib.OpSendOnly, 0, nil); got != nicdrop.Peer {
		t.Errorf("other station: %v", got)
	}
}

// TestBadFrames gives Receive what is no packet.
func TestBadFrames(t *testing.T) {
	r := newRig(t, qpattr.RC)
	r.lose, r.peek = nil, nil
	var good []byte
	r.lose = func(b []byte) bool { good = bytes.Clone(b); return true }
	_, err := r.a.PostSend(verbs.SendWR{Opcode: verbs.OpWrite, SGEs: r.end[0].sge(0, 64), RKey: r.end[1].mr.RKey(),
		RemoteAddr: r.end[1].mr.Addr()})
	r.end[0].must(err)
	r.step()
	change := func(at int, v byte) []byte {
		b := bytes.Clone(good)
		b[at] = v
		return b
	}
	for name, c := range map[string]struct {
		b    []byte
		want frame.DropReason
	}{
		"nothing": {nil, drop.Truncated}, "short": {good[:20], drop.Truncated}, "no transport": {good[:32], drop.Truncated},
		"options": {change(0, 0x46), drop.IPOptions}, "fragment": {change(6, 0x20), drop.Fragment},
		"payload": {change(60, 0xff), nicdrop.ICRC}, "length": {good[:len(good)-4], nicdrop.ICRC},
	} {
		if got := r.end[1].e.Receive(c.b, 0, ether.Tag{}, r.now); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if got := r.end[1].e.ReceiveV1(good, ether.Tag{}, r.now); got == frame.DropNone {
		t.Error("a v2 packet as v1")
	}
	// TTL, DSCP and the UDP checksum may change on the way: the ICRC does not cover them.
	b := change(8, 3)
	b[1], b[26], b[27] = 0x28, 0x12, 0x34
	if got := r.end[1].e.Receive(b, 0, ether.Tag{}, r.now); got != frame.DropNone {
		t.Errorf("after a router: %v", got)
	}
}

// TestSequence: a gap is answered by one NAK, duplicates are acknowledged or answered again,
// and an atomic operation is never executed twice.
func TestSequence(t *testing.T) {
	r := newRig(t, qpattr.RC)
	r.send(ib.OpWriteOnly, 0, r.reth(0, 8, 8))
	r.want("Write", ib.SyndromeACK, 0)
	r.send(ib.OpWriteOnly, 2, r.reth(0, 8, 8))
	r.want("gap", ib.NAKSequence, 1)
	r.send(ib.OpWriteOnly, 3, r.reth(0, 8, 8))
	if out := r.answers(); len(out) != 0 {
		t.Errorf("a second NAK: %+v", out)
	}
	r.send(ib.OpWriteOnly, 0, r.reth(100, 8, 8))
	r.want("duplicate", ib.SyndromeACK, 0)
	if r.end[1].mem[100] != 0 {
		t.Error("a duplicate was executed")
	}
	counter := func(p *ib.Packet) {
		p.Atomic = ib.AtomicETH{VA: r.end[1].mr.Addr() + 64, RKey: r.end[1].mr.RKey(), SwapAdd: 5}
	}
	for range 3 {
		r.send(ib.OpFetchAdd, 1, counter)
		if out := r.answers(); len(out) != 1 || out[0].Opcode != ib.OpAtomicAcknowledge || out[0].Orig != 0 {
			t.Errorf("FetchAdd: %+v", out)
		}
	}
	if v := binary.NativeEndian.Uint64(r.end[1].mem[64:]); v != 5 {
		t.Errorf("counter %d after one FetchAdd and two duplicates", v)
	}
	fillBytes(r.end[1].mem)
	r.send(ib.OpReadRequest, 2, r.reth(0, 3000, 0))
	if out := r.answers(); len(out) != 3 || out[2].PSN != add(r.psn, 4) || !bytes.Equal(out[1].Payload,
		r.end[1].mem[1024:2048]) {
		t.Errorf("Read: %+v", out)
	}
	r.end[1].mem[2100]++
	r.send(ib.OpReadRequest, 4, r.reth(2048, 952, 0)) // what is missing of it, from memory
	if out := r.answers(); len(out) != 1 || out[0].Opcode != ib.OpReadResponseOnly || out[0].PSN != add(r.psn, 4) ||
		!bytes.Equal(out[0].Payload, r.end[1].mem[2048:3000]) {
		t.Errorf("Read again: %+v", out)
	}
	r.send(ib.OpReadRequest, 3, r.reth(5000, 952, 0))
	r.send(ib.OpReadRequest, 3, r.reth(1024, 4000, 0))
	if out := r.answers(); len(out) != 0 {
		t.Errorf("a duplicate Read of other memory: %+v", out)
	}
	r.send(ib.OpReadRequest, 5, r.reth(0, 0, 0)) // R_Key does not matter
	if out := r.answers(); len(out) != 1 || out[0].Opcode != ib.OpReadResponseOnly || len(out[0].Payload) != 0 {
		t.Errorf("Read of nothing: %+v", out)
	}
}

// A peer that has what it read says so, and its memory goes while a duplicate of its request is
// on the way: the connection outlives that. A Read that was never answered ends it.
func TestReadOfMemoryGone(t *testing.T) {
	r := newRig(t, qpattr.RC)
	first, second := r.reth(0, 3000, 0), r.reth(1024, 1976, 0)
	var other [2]*verbs.MR
	for i := range other {
		mr, err := r.end[1].pd.RegMR(r.end[1].mem, verbs.RemoteRead)
		r.end[1].must(err)
		other[i] = mr
	}
	of := func(mr *verbs.MR, reth func(*ib.Packet)) func(*ib.Packet) {
		return func(p *ib.Packet) {
			reth(p)
			p.RETH.VA, p.RETH.RKey = p.RETH.VA-r.end[1].mr.Addr()+mr.Addr(), mr.RKey()
		}
	}
	r.send(ib.OpReadRequest, 0, of(other[0], first))
	r.send(ib.OpReadRequest, 3, of(other[1], first))
	if out := r.answers(); len(out) != 6 {
		t.Fatalf("Reads: %+v", out)
	}
	r.end[1].must(other[1].Dereg())
	r.send(ib.OpReadRequest, 4, of(other[1], second))
	if out := r.answers(); len(out) != 0 || r.b.State() != verbs.RTS {
		t.Errorf("duplicate of the newest Read, whose memory has gone: %v, %+v", r.b.State(), out)
	}
	r.send(ib.OpReadRequest, 0, of(other[0], first))
	if out := r.answers(); len(out) != 3 {
		t.Errorf("duplicate of the one before: %+v", out)
	}
	r.send(ib.OpReadRequest, 6, of(other[0], first))
	r.send(ib.OpReadRequest, 9, r.reth(0, 8, 0)) // newer, and still there
	r.end[1].must(other[0].Dereg())
	r.want("Read whose memory goes before its response", ib.NAKRemoteAccess, 6)
	if r.b.State() != verbs.Err {
		t.Errorf("state %v", r.b.State())
	}
}

func fillBytes(b []byte) {
	for i := range b {
		b[i] = byte(i * 2654435761 >> 11)
	}
}

// TestReceiverNotReady: without a receive a Send is answered by an RNR NAK with the queue
// pair's timer code, and later packets by nothing.
func TestReceiverNotReady(t *testing.T) {
	r := newRig(t, qpattr.RC)
	r.send(ib.OpSendOnly, 0, payload(8))
	r.want("no receive", ib.SyndromeRNR+12, 0)
	r.send(ib.OpSendOnly, 1, payload(8))
	if out := r.answers(); len(out) != 0 {
		t.Errorf("behind it: %+v", out)
	}
	r.send(ib.OpSendOnly, 0, payload(8))
	r.want("again", ib.SyndromeRNR+12, 0)
	r.recv(8)
	r.send(ib.OpSendOnly, 0, payload(8))
	r.want("with a receive", ib.SyndromeACK, 0)
	r.send(ib.OpWriteOnlyImm, 1, r.reth(0, 8, 8))
	r.want("Write with immediate data", ib.SyndromeRNR+12, 1)
	r.send(ib.OpSendOnly, 1, func(p *ib.Packet) { p.Solicited = true })
	r.recv(8)
	r.answers()
	r.send(ib.OpWriteOnlyImm, 1, func(p *ib.Packet) { r.reth(0, 8, 8)(p); p.Imm = 77 })
	r.want("with a receive", ib.SyndromeACK, 1)
	wcs := r.end[1].wcs
	if n := len(wcs); n != 2 || wcs[1].Opcode != verbs.WCRecvWrite || wcs[1].Imm != 77 || wcs[1].ByteLen != 8 {
		t.Errorf("completions %v", wcs)
	}
}

// reply gives a's requester a packet of b.
func (r *rig) reply(op ib.Opcode, psn int, s ib.Syndrome, data []byte) {
	r.a, r.b = r.b, r.a
	r.end[0], r.end[1] = r.end[1], r.end[0]
	r.send(op, psn, func(p *ib.Packet) {
		p.AckReq, p.AETH.Syndrome, p.Payload = false, s, data
	})
	r.a, r.b = r.b, r.a
	r.end[0], r.end[1] = r.end[1], r.end[0]
}

// sentBy lets a send and returns the PSNs, from the first one.
func (r *rig) sentBy() (psns []int) {
	old := r.peek
	defer func() { r.peek = old }()
	r.peek = func(from *station, b []byte) {
		if from == r.end[0] {
			psns = append(psns, int(sub(ib.ParseBTH(b[28:]).PSN, r.psn)))
		}
	}
	for range 3 {
		r.stepTo(r.now)
	}
	return psns
}

// stepTo polls without letting time pass.
func (r *rig) stepTo(now frame.Time) {
	for _, s := range r.end {
		s.e.Poll(now)
		s.dev.Dispatch(now)
		var wcs [64]verbs.WC
		s.wcs = append(s.wcs, wcs[:s.cq.Poll(wcs[:])]...)
	}
}

// write posts Writes of one packet each.
func (r *rig) write(n int) {
	for i := range n {
		_, err := r.a.PostSend(verbs.SendWR{ID: uint64(i), Opcode: verbs.OpWrite, Flags: verbs.Signaled,
			SGEs: r.end[0].sge(0, 8), RKey: r.end[1].mr.RKey(), RemoteAddr: r.end[1].mr.Addr()})
		r.end[0].must(err)
	}
}

// TestGoBackN: the requester goes back to what a NAK names, once until there is progress, and
// never sends again what is acknowledged (roce.md section 8).
func TestGoBackN(t *testing.T) {
	r := newRig(t, qpattr.RC)
	r.write(6)
	if got := r.sentBy(); !slices.Equal(got, []int{0, 1, 2, 3, 4, 5}) {
		t.Fatalf("sent %v", got)
	}
	r.reply(ib.OpAcknowledge, 2, ib.NAKSequence, nil)
	r.reply(ib.OpAcknowledge, 2, ib.NAKSequence, nil)
	if got := r.sentBy(); !slices.Equal(got, []int{2, 3, 4, 5}) {
		t.Errorf("after a NAK for 2, twice: %v", got)
	}
	r.reply(ib.OpAcknowledge, 2, ib.NAKSequence, nil)
	if got := r.sentBy(); len(got) != 0 {
		t.Errorf("after a third NAK for 2: %v", got)
	}
	r.reply(ib.OpAcknowledge, 3, ib.NAKSequence, nil)
	r.reply(ib.OpAcknowledge, 4, ib.SyndromeACK, nil)
	if got := r.sentBy(); !slices.Equal(got, []int{5}) {
		t.Errorf("after a NAK for 3 and an ACK of 4: %v", got)
	}
	if n := len(r.end[0].wcs); n != 5 {
		t.Errorf("%d completions", n)
	}
	r.reply(ib.OpAcknowledge, 9, ib.SyndromeACK, nil)
	r.reply(ib.OpAcknowledge, 1, ib.NAKRemoteAccess, nil)
	r.reply(ib.OpAcknowledge, 5, 0x47, nil) // reserved
	if r.sentBy(); r.a.State() != verbs.RTS || len(r.end[0].wcs) != 5 {
		t.Error("ghosts count")
	}
	r.reply(ib.OpAcknowledge, 5, ib.NAKRemoteAccess, nil)
	if r.sentBy(); r.a.State() != verbs.Err || r.end[0].wcs[5].Status != verbs.StatusRemoteAccess {
		t.Errorf("state %v, %s", r.a.State(), last(r.end[0].wcs))
	}
}

// TestAdaptiveRetransmission: what a NAK has asked for is lost again, and the ACK timer is a second.
func TestAdaptiveRetransmission(t *testing.T) {
	r := newRig(t, qpattr.RC)
	r.a.Attr().Timeout = 18
	r.write(8)
	r.sentBy()
	r.now = r.now.Add(2 * time.Millisecond) // the round trip
	r.reply(ib.OpAcknowledge, 2, ib.SyndromeACK, nil)
	r.reply(ib.OpAcknowledge, 5, ib.NAKSequence, nil)
	if got := r.sentBy(); !slices.Equal(got, []int{5, 6, 7}) {
		t.Errorf("after a NAK for 5: %v", got)
	}
	paused := true // by PFC
	r.a.Endpoint().(*qp).e.env.Holds = func(*Hop) bool { return paused }
	r.now = r.now.Add(8 * time.Millisecond)
	if got := r.sentBy(); len(got) > 0 {
		t.Errorf("sent while paused: %v", got)
	}
	paused = false
	for _, step := range []struct {
		after time.Duration
		sends bool
	}{{7 * time.Millisecond, false}, {time.Millisecond, true}, {15 * time.Millisecond, false}, {time.Millisecond, true}} {
		r.now = r.now.Add(step.after)
		if got := r.sentBy(); slices.Equal(got, []int{5, 6, 7}) != step.sends || len(got) > 0 != step.sends {
			t.Errorf("after another %v: %v", step.after, got)
		}
	}
	q := r.a.Endpoint().(*qp)
	if q.e.stats.Adaptive != 2 || q.count.Timeouts != 0 || q.req.retries != 6 {
		t.Errorf("%d adaptive, %d time-outs, %d retries left", q.e.stats.Adaptive, q.count.Timeouts, q.req.retries)
	}
}

// TestTimeouts: nothing answers, or the receiver is never ready: the counters run out.
func TestTimeouts(t *testing.T) {
	r := newRig(t, qpattr.RC)
	r.write(2)
	start := r.now
	r.until("retries", func() bool { return r.a.State() == verbs.Err })
	if got := last(r.end[0].wcs); r.end[0].wcs[0].Status != verbs.StatusRetryExceeded ||
		r.end[0].wcs[1].Status != verbs.StatusFlushed {
		t.Error(got)
	}
	if took, want := r.now.Sub(start), 8*ib.Timeout(8); took < want || took > 4*want {
		t.Errorf("took %v, want %v or up to four times that", took, want)
	}
	if q := r.a.Endpoint().(*qp); q.count.Timeouts != 8 {
		t.Errorf("%d time-outs", q.count.Timeouts)
	}
	for _, retries := range []uint8{2, 7} {
		r = newRig(t, qpattr.RC)
		r.a.Attr().RNRRetry = retries
		r.a.Endpoint().(*qp).reload()
		r.write(1)
		for range 20 {
			r.sentBy()
			r.reply(ib.OpAcknowledge, 0, ib.SyndromeRNR+1, nil)
			if got := r.sentBy(); len(got) != 0 {
				t.Fatalf("sent %v before the timer", got)
			}
			r.now = r.now.Add(10 * time.Microsecond)
		}
		if r.stepTo(r.now); retries == 7 != (r.a.State() == verbs.RTS) {
			t.Errorf("RNR retry %d: %v, %s", retries, r.a.State(), last(r.end[0].wcs))
		}
	}
}

// TestImpliedNAK: an acknowledgement behind a Read without response, and a gap in a response,
// have the Read requested again from what is missing.
func TestImpliedNAK(t *testing.T) {
	r := newRig(t, qpattr.RC)
	read := verbs.SendWR{ID: 1, Opcode: verbs.OpRead, Flags: verbs.Signaled, SGEs: r.end[0].sge(4096, 3000),
		RKey: r.end[1].mr.RKey(), RemoteAddr: r.end[1].mr.Addr()}
	_, err := r.a.PostSend(read)
	r.end[0].must(err)
	r.write(1)
	if got := r.sentBy(); !slices.Equal(got, []int{0, 3}) {
		t.Fatalf("sent %v", got)
	}
	r.reply(ib.OpAcknowledge, 3, ib.SyndromeACK, nil)
	if got := r.sentBy(); !slices.Equal(got, []int{0, 3}) || len(r.end[0].wcs) != 0 {
		t.Errorf("after an ACK of 3: %v, %s", got, last(r.end[0].wcs))
	}
	r.reply(ib.OpReadResponseFirst, 0, ib.SyndromeACK, bytes.Repeat([]byte{1}, 1024))
	r.reply(ib.OpReadResponseLast, 2, ib.SyndromeACK, bytes.Repeat([]byte{3}, 952))
	if got := r.sentBy(); !slices.Equal(got, []int{1, 3}) {
		t.Errorf("after a gap: %v", got)
	}
	r.reply(ib.OpReadResponseFirst, 1, ib.SyndromeACK, bytes.Repeat([]byte{2}, 1024))
	r.reply(ib.OpReadResponseLast, 2, ib.SyndromeACK, bytes.Repeat([]byte{3}, 952))
	r.reply(ib.OpAcknowledge, 3, ib.SyndromeACK, nil)
	if r.sentBy(); len(r.end[0].wcs) != 2 || r.end[0].mem[4096] != 1 || r.end[0].mem[4096+1024] != 2 ||
		r.end[0].mem[4096+2999] != 3 {
		t.Errorf("Read: %s", last(r.end[0].wcs))
	}
	_, err = r.a.PostSend(read)
	r.end[0].must(err)
	r.sentBy()
	r.reply(ib.OpReadResponseOnly, 4, ib.SyndromeACK, make([]byte, 8))
	if r.sentBy(); r.a.State() != verbs.Err || r.end[0].wcs[2].Status != verbs.StatusBadResponse {
		t.Errorf("a response of the wrong length: %v %s", r.a.State(), last(r.end[0].wcs))
	}
}

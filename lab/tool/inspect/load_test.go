package inspect

import (
	"time"

	"tapir/nic/verbs"
)

// request is a random good one of s.
func (b *bench) request(s *station) verbs.SendWR {
	r, o := b.r, b.sides[1-s.side]
	n := pick(r, 0, 1, 8, r.IntN(300), r.IntN(9000))
	wr := verbs.SendWR{Flags: verbs.Signaled, SGEs: s.sge(r.IntN(1000), n), RKey: o.mr.RKey(), RemoteAddr: o.mr.Addr() + uint64(8*r.IntN(1000))}
	wr.Opcode = pick(r, verbs.OpSend, verbs.OpSend, verbs.OpSendInv, verbs.OpSendImm, verbs.OpWrite, verbs.OpWrite, verbs.OpWriteImm,
		verbs.OpRead, verbs.OpRead, verbs.OpCompSwap, verbs.OpFetchAdd, verbs.OpSwap, verbs.OpMaskedCompSwap, verbs.OpMaskedFetchAdd)
	if wr.Opcode >= verbs.OpRead && s.id.ORD() == 0 {
		wr.Opcode = verbs.OpWrite
	}
	switch wr.Opcode {
	case verbs.OpSendInv:
		if mr, err := o.pd.RegMR(make([]byte, 64), verbs.LocalWrite|verbs.RemoteWrite); err == nil {
			wr.Invalidate = mr.RKey()
		}
	case verbs.OpSendImm:
		wr.SGEs = nil
	case verbs.OpCompSwap, verbs.OpFetchAdd, verbs.OpSwap, verbs.OpMaskedCompSwap, verbs.OpMaskedFetchAdd:
		wr.SGEs = s.sge(0, verbs.AtomicLen)
	}
	if wr.Opcode == verbs.OpSend || wr.Opcode == verbs.OpSendInv {
		wr.Flags |= pick(r, 0, verbs.Solicited)
	}
	return wr
}

func (s *station) sge(off, n int) []verbs.SGE {
	return []verbs.SGE{{Addr: s.mr.Addr() + uint64(off), Length: uint32(n), LKey: s.mr.LKey()}}
}

// faulty are requests that the peer answers with a Terminate, or none of which
// anything is left but the end of the connection.
var faulty = []func(b *bench, s, o *station) verbs.SendWR{
	func(_ *bench, _, o *station) verbs.SendWR { // wraps
		return verbs.SendWR{Opcode: verbs.OpWrite, RKey: o.mr.RKey(), RemoteAddr: ^uint64(0) - 7}
	},
	func(_ *bench, _, o *station) verbs.SendWR {
		return verbs.SendWR{Opcode: verbs.OpWrite, RKey: o.mr.RKey() ^ 0x100, RemoteAddr: o.mr.Addr()}
	},
	func(_ *bench, _, o *station) verbs.SendWR {
		return verbs.SendWR{Opcode: verbs.OpWrite, RKey: o.mr.RKey(), RemoteAddr: o.mr.Addr() + benchMem - 9}
	},
	func(_ *bench, _, o *station) verbs.SendWR { return o.foreign(verbs.OpWrite) },
	func(_ *bench, _, o *station) verbs.SendWR { return o.without(verbs.OpWrite, verbs.RemoteRead) },
	func(_ *bench, _, o *station) verbs.SendWR {
		return verbs.SendWR{Opcode: verbs.OpRead, RKey: o.mr.RKey() ^ 0x100, RemoteAddr: o.mr.Addr()}
	},
	func(_ *bench, _, o *station) verbs.SendWR {
		return verbs.SendWR{Opcode: verbs.OpRead, RKey: o.mr.RKey(), RemoteAddr: o.mr.Addr() + benchMem - 9}
	},
	func(_ *bench, _, o *station) verbs.SendWR { return o.foreign(verbs.OpRead) },
	func(_ *bench, _, o *station) verbs.SendWR { return o.without(verbs.OpRead, verbs.RemoteWrite) },
	func(_ *bench, _, o *station) verbs.SendWR {
		return verbs.SendWR{Opcode: verbs.OpRead, RKey: o.mr.RKey(), RemoteAddr: ^uint64(0) - 7}
	},
	func(_ *bench, _, o *station) verbs.SendWR { return o.without(verbs.OpFetchAdd, verbs.RemoteWrite) },
	func(_ *bench, _, o *station) verbs.SendWR {
		return verbs.SendWR{Opcode: verbs.OpFetchAdd, RKey: o.mr.RKey(), RemoteAddr: o.mr.Addr() + 3}
	},
	func(b *bench, _, o *station) verbs.SendWR { // more than there are receives
		return verbs.SendWR{Opcode: verbs.OpSend}
	},
	func(b *bench, _, o *station) verbs.SendWR { // longer than every receive
		_, _ = o.qp.PostRecv(verbs.RecvWR{SGEs: o.sge(0, 7)})
		return verbs.SendWR{Opcode: verbs.OpSend}
	},
	func(_ *bench, _, o *station) verbs.SendWR {
		_, _ = o.qp.PostRecv(verbs.RecvWR{SGEs: o.sge(0, 9000)})
		return verbs.SendWR{Opcode: verbs.OpSendInv, Invalidate: 12345}
	},
	func(_ *bench, s, o *station) verbs.SendWR { // of this side
		_ = s.mr.Invalidate()
		return verbs.SendWR{Opcode: verbs.OpWrite, RKey: o.mr.RKey(), RemoteAddr: o.mr.Addr()}
	},
	func(_ *bench, _, o *station) verbs.SendWR { // a region that goes while it is read
		_ = o.mr.Invalidate()
		return verbs.SendWR{Opcode: verbs.OpRead, RKey: o.mr.RKey(), RemoteAddr: o.mr.Addr()}
	},
}

var faults = len(faulty)

// wraps is the fault that breaks a rule on the wire.
const wraps = 1

// foreign aims at a region of another protection domain.
func (s *station) foreign(op verbs.Opcode) verbs.SendWR {
	pd, _ := s.dev.Verbs.AllocPD()
	mr, _ := pd.RegMR(make([]byte, 10_000), verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead)
	return verbs.SendWR{Opcode: op, RKey: mr.RKey(), RemoteAddr: mr.Addr()}
}

// without aims at a region with other rights than those that are needed.
func (s *station) without(op verbs.Opcode, rights verbs.Access) verbs.SendWR {
	mr, _ := s.pd.RegMR(make([]byte, 10_000), verbs.LocalWrite|rights)
	return verbs.SendWR{Opcode: op, RKey: mr.RKey(), RemoteAddr: mr.Addr()}
}

// load lets both sides post their requests; the responder answers, unless the
// model lets it begin.
func (p *plan) load(b *bench) {
	pause := func() { b.run(time.Duration(b.r.IntN(400))*time.Microsecond, b.ended) }
	receives := func(n int) {
		for _, s := range b.sides {
			for range n {
				_, _ = s.qp.PostRecv(verbs.RecvWR{SGEs: s.sge(0, 20_000)})
			}
		}
	}
	receives(p.posts + 1)
	for n := range p.posts {
		s := b.sides[0]
		if n > 0 || p.side[0].IWARP.PeerToPeer {
			s = b.sides[b.r.IntN(2)]
		}
		_, _ = s.qp.PostSend(b.request(s)) // what was not agreed on is refused
		pause()
	}
	if p.fault == 0 {
		b.run(10*time.Millisecond, b.ended)
		return
	}
	b.run(pick(b.r, 0, 20*time.Millisecond), b.ended)
	k := 0
	if p.posts > 0 {
		k = b.r.IntN(2)
	}
	s := b.sides[k]
	wr := faulty[p.fault-1](b, s, b.sides[1-k])
	wr.Flags = verbs.Signaled
	n := pick(b.r, 10, 8000)
	switch wr.Opcode {
	case verbs.OpFetchAdd:
		n = verbs.AtomicLen
	}
	if wr.SGEs = s.sge(0, n); wr.Opcode == verbs.OpSend {
		for range 40 { // until there is no receive for one
			_, _ = s.qp.PostSend(wr)
		}
	}
	_, _ = s.qp.PostSend(wr)
	pause()
	for range b.r.IntN(3) {
		o := b.sides[b.r.IntN(2)]
		_, _ = o.qp.PostSend(b.request(o))
	}
}

// ended tells whether the connection has ended on both sides.
func (b *bench) ended() bool { return b.sides[0].over && b.sides[1].over }

// finish ends the connection one way or another.
func (p *plan) finish(b *bench) {
	b.run(p.silence, b.ended)
	k := b.r.IntN(2)
	abort := p.end == 1
	b.sides[k].leave(abort)
	switch p.end {
	case 2: // both at once
		b.sides[1-k].leave(false)
	case 3: // shortly behind
		b.run(time.Duration(b.r.IntN(100))*time.Microsecond, b.ended)
		b.sides[1-k].leave(b.r.IntN(2) == 0)
	case 4: // nobody hears of it
		b.cut = b.r.IntN(3) == 0
	}
	b.run(atMost, b.ended)
	b.run(2*time.Second, func() bool { return false })
	for _, s := range b.sides {
		_ = s.dev.Close(b.now)
	}
}

// leave disconnects, if there is a connection.
func (s *station) leave(abort bool) {
	if s.id != nil {
		_ = s.id.Disconnect(abort, s.b.now)
	}
}

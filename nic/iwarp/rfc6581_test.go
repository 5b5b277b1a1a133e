package iwarp

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"tapir/mpa"
	"tapir/nic/cm"
	"tapir/nic/toe"
	"tapir/nic/verbs"
	"tapir/rdmap"
	"tapir/wire/frame"
)

// Tests of RFC 6581 on live connections, clause by clause.

// Section 9.1 (6581-9.1-1, 6581-9.1-8): what the peer states reaches the
// application, with a request, a reply and a reject.
func TestPeerReadsReachTheApplication(t *testing.T) {
	for _, reject := range []bool{false, true} {
		w := newWorld(t, toe.Config{}, Config{})
		x := dial(t, w, 64, cm.Params{IRD: 3, ORD: 9}, func(s *end, ev cm.Event, now frame.Time) {
			if reject {
				ev.ID.Reject(nil, now)
				return
			}
			acceptAll(cm.Params{IRD: 5, ORD: 2})(s, ev, now)
		})
		w.must("outcome", func() bool { return len(x.c.events) > 0 })
		if ird, ord, ok := x.s.id.PeerReads(); ird != 3 || ord != 9 || !ok {
			t.Errorf("responder learns %d, %d, %v", ird, ord, ok)
		}
		wantIRD, wantORD := uint16(5), uint16(2)
		if reject {
			wantIRD, wantORD = 9, 3
		}
		if ird, ord, ok := x.c.id.PeerReads(); ird != wantIRD || ord != wantORD || !ok {
			t.Errorf("reject %v: initiator learns %d, %d, %v", reject, ird, ord, ok)
		}
	}
	x := connect(t, toe.Config{}, Config{Revision: 1}, 64)
	if _, _, ok := x.c.id.PeerReads(); ok {
		t.Error("a peer of revision 1 stated depths")
	}
}

// Sections 8, 9.1, 9.2 and 9.3 (6581-9.1-4, 6581-9.1-6, 6581-9.1-7,
// 6581-9.2-9, 6581-9.2-10, 6581-9.3-1): the initiator's Terminates, and the
// end of the connection behind them.
func TestStartupErrorsSendATerminate(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  Config
		e    mpa.Enhanced
		code byte
	}{
		{"insufficient IRD", Config{IRD: 4}, mpa.Enhanced{IRD: 1, ORD: 129}, 6},
		{"no RTR in common", Config{PeerToPeer: true, RTR: mpa.RTRSend}, mpa.Enhanced{IRD: 1, ORD: 1, P2P: true, RTRWrite: true}, 7},
		{"not peer to peer", Config{PeerToPeer: true}, mpa.Enhanced{IRD: 1, ORD: 1}, 7},
		{"CRC refused here", Config{CRC: mpa.CRCRefused}, mpa.Enhanced{IRD: 1, ORD: 1}, 5},
	} {
		w, p, client := rawServer(t, c.cfg)
		_, n, _ := mpa.ParseFrame(p.in, mpa.Request)
		p.write(reply(c.e))
		w.must(c.name+": FIN", func() bool { return p.fin })
		u, size, err := crcOn.ParseFPDU(p.in[n:], 0, nil)
		if err != nil || size != len(p.in)-n {
			t.Fatalf("%s: %x behind the request: %v", c.name, p.in[n:], err)
		}
		term, _, err := rdmap.ParseTerminate(u[18:])
		if err != nil || term.Layer != 2 || term.Type != 0 || term.Code != c.code || term.HasDDP || u[1] != 0x47 {
			t.Errorf("%s: %x", c.name, u)
		}
		w.must(c.name+": end", func() bool { return client.got(cm.ClosedEvent) })
		if client.events[0].Type != cm.Failed || client.qp.State() == verbs.RTS {
			t.Errorf("%s: %s, QP in %v", c.name, client.names(), client.qp.State())
		}
	}
}

// Section 9.3 (6581-9.3-1): a responder that cannot go on says so in its
// reply; it does not reset the connection.
func TestResponderThatCannotGoOnRejects(t *testing.T) {
	w := newWorld(t, toe.Config{}, Config{})
	var refusal error
	x := dial(t, w, 64, cm.Params{}, func(s *end, ev cm.Event, now frame.Time) {
		// The queue pair is under way to somewhere else.
		other := w.b.cm.NewID(nil, nil)
		if err := other.Connect(netip.AddrPortFrom(w.a.addr, 9), cm.Params{QP: s.qp}, now); err != nil {
			t.Error(err)
		}
		refusal = ev.ID.Accept(cm.Params{QP: s.qp}, now)
	})
	w.must("end", func() bool { return x.c.got(cm.ClosedEvent) && x.s.got(cm.ClosedEvent) })
	if x.c.events[0].Type != cm.Rejected || !errors.Is(refusal, cm.ErrBusy) {
		t.Errorf("%s, %v", x.c.names(), refusal)
	}
}

// Sections 5 and 9.2 (6581-5-1, 6581-9.2-8): the first FPDU of a peer-to-peer
// initiator is the indication that was agreed on, empty; requests follow.
func TestRTRComesFirst(t *testing.T) {
	for _, c := range []struct {
		e  mpa.Enhanced
		op rdmap.Opcode
		n  int
	}{
		{mpa.Enhanced{IRD: 1, ORD: 1, P2P: true, RTRSend: true}, rdmap.Send, 18},
		{mpa.Enhanced{IRD: 1, ORD: 1, P2P: true, RTRWrite: true}, rdmap.Write, 14},
		{mpa.Enhanced{IRD: 1, ORD: 1, P2P: true, RTRRead: true}, rdmap.ReadRequestOp, 46},
	} {
		w, p, client := rawServer(t, Config{PeerToPeer: true})
		_, at, _ := mpa.ParseFrame(p.in, mpa.Request)
		p.write(reply(c.e))
		w.must("completion", func() bool { return client.got(cm.ActiveComplete) })
		client.post(t, verbs.SendWR{Opcode: verbs.OpWrite, SGEs: client.sge(0, 5), RemoteAddr: 1, RKey: 1})
		w.quiet(time.Second)
		var ops []rdmap.Opcode
		for b := p.in[at:]; len(b) > 0; {
			u, n, err := crcOn.ParseFPDU(b, 0, nil)
			if err != nil || n == 0 {
				t.Fatalf("%x: %v", b, err)
			}
			if len(ops) == 0 && len(u) != c.n {
				t.Errorf("%v: ULPDU of %d octets", c.op, len(u))
			}
			ops, b = append(ops, rdmap.ParseControl(u[1]).Opcode), b[n:]
		}
		if len(ops) != 2 || ops[0] != c.op || ops[1] != rdmap.Write {
			t.Errorf("%v agreed on, sent %v", c.op, ops)
		}
	}
}

package iwarp

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"

	"tapir/ddp"
	"tapir/mpa"
	"tapir/nic/cm"
	"tapir/nic/toe"
	"tapir/nic/verbs"
	"tapir/rdmap"
	"tapir/wire/frame"
)

// Tests of RFC 5040 and RFC 5041 on live connections, clause by clause.

// served is a server in full operation with a scripted client.
func served(t *testing.T, cfg Config, prepare func(*end)) (*world, *scripted, *end) {
	t.Helper()
	w, p, s := rawClient(t, cfg, prepare)
	p.write(request(mpa.DefaultConfig()))
	w.must("reply", func() bool { return len(p.in) > 0 && s.got(cm.PassiveComplete) })
	return w, p, s
}

// terminateIn is the Terminate among what p received.
func terminateIn(t *testing.T, p *scripted) *rdmap.Terminate {
	t.Helper()
	for _, u := range p.fpdus(t, crcOn) {
		if rdmap.ParseControl(u[1]).Opcode == rdmap.TerminateOp {
			term, _, err := rdmap.ParseTerminate(u[ddp.UntaggedLen:])
			if err != nil {
				t.Fatal(err)
			}
			return &term
		}
	}
	return nil
}

func write(s *end, off uint64, payload string) []byte {
	return segment(rdmap.TaggedHeader(rdmap.Write, true, s.mr.RKey(), s.mr.Addr()+off), []byte(payload))
}

// Sections 5.5 and 5.2 (5040-5.5-5, 5040-5.5-6, 5040-5.5-9): completions come
// in the order of the requests, a Read's with its data, a long Write's not
// before the peer's TCP has it.
func TestCompletionsFollowTheRequests(t *testing.T) {
	x := connect(t, toe.Config{}, Config{}, 1<<20)
	fill(x.s.mem, 3)
	want := append([]byte(nil), x.s.mem[:100]...)
	for i, op := range []verbs.Opcode{verbs.OpWrite, verbs.OpRead, verbs.OpWrite, verbs.OpRead, verbs.OpWrite} {
		n := []int{200000, 100, 8, 50000, 0}[i]
		at := 0 // Reads look at what no Write changes
		if op == verbs.OpWrite {
			at = (i + 1) * 200000
		}
		x.c.post(t, verbs.SendWR{ID: uint64(i), Opcode: op, Flags: verbs.Signaled, SGEs: x.c.sge(i*200000, n), RKey: x.s.mr.RKey(),
			RemoteAddr: x.s.mr.Addr() + uint64(at)})
	}
	acked := func() uint64 { return endpointOf(x.c.qp).conn.tcp.Info().SndUna }
	start := acked()
	for done := 0; done < 5; {
		before := len(x.c.wcs)
		x.must("a completion", func() bool { return len(x.c.poll()) > before })
		for ; done < len(x.c.wcs); done++ {
			if wc := x.c.wcs[done]; wc.ID != uint64(done) || wc.Status != verbs.StatusSuccess {
				t.Fatalf("completion %d: %s", done, wcString(x.c.wcs[done:]))
			}
			if done == 0 && acked()-start < 200000 {
				t.Errorf("a Write of 200000 octets completes when %d are acknowledged", acked()-start)
			}
			if done == 1 && !bytes.Equal(x.c.mem[200000:200100], want) {
				t.Error("a Read completes without its data")
			}
		}
	}
}

// Sections 6.2.1 and 7.1 of RFC 5040, 6.2.2 and 7 of RFC 5041 (5040-6.2.1-1,
// 5040-6.2.1-2, 5040-6.2.1-3, 5040-7.1-1, 5040-7.1-2, 5041-6.2.2-1,
// 5041-6.2.2-2, 5041-7-1, 5040-7-1, 5041-3-9): an error is told to the
// application and in a Terminate; what is outstanding completes in error;
// nothing is placed any more; TCP ends in order.
func TestErrorEndsTheStream(t *testing.T) {
	bad := send(1, "damaged")
	bad[12] ^= 4
	for _, c := range []struct {
		name  string
		in    []byte
		layer rdmap.Layer
	}{
		{"MPA", bad, rdmap.LayerLLP},
		{"DDP", segment(rdmap.UntaggedHeader(rdmap.Send, true, 0, 7, 0), nil), rdmap.LayerDDP},
		{"RDMAP", segment(ddp.Header{Tagged: true, Last: true, Version: ddp.Version, ULP: 0x4f}, nil), rdmap.LayerRDMA},
	} {
		w, p, s := served(t, Config{}, func(s *end) {
			s.recv(t, verbs.RecvWR{ID: 1, SGEs: s.sge(0, 64)})
			s.post(t, verbs.SendWR{ID: 2, Opcode: verbs.OpRead, SGEs: s.sge(64, 8), RKey: 1})
		})
		p.write(write(s, 3000, "go"))
		w.must("Read Request", func() bool { return len(p.fpdus(t, crcOn)) == 1 })
		p.write(append(append([]byte(nil), c.in...), write(s, 200, "too late")...))
		w.must(c.name+": end", func() bool { return p.fin && s.got(cm.Disconnected) })
		if term := terminateIn(t, p); term == nil || term.Layer != c.layer || p.ended {
			t.Errorf("%s: Terminate %+v, reset %v", c.name, term, p.ended)
		}
		if wcs := s.poll(); len(wcs) != 2 || wcs[0].Status != verbs.StatusFlushed || wcs[1].Status != verbs.StatusFlushed {
			t.Errorf("%s: %s", c.name, wcString(wcs))
		}
		var r *rdmap.Error
		if len(w.b.async) != 1 || !errors.As(w.b.async[0].Err, &r) || r.Layer != c.layer || s.qp.State() != verbs.Err {
			t.Errorf("%s: events %v, QP in %v", c.name, w.b.async, s.qp.State())
		}
		if !bytes.Equal(s.mem[200:208], make([]byte, 8)) {
			t.Errorf("%s: a Write behind the error was placed", c.name)
		}
	}
}

// Section 7.1 (5040-7.1-2, rule 1): an error of this side's own requests goes
// out without headers, instead of the request.
func TestOwnErrorIsSentInsteadOfTheRequest(t *testing.T) {
	w, p, s := served(t, Config{}, func(*end) {})
	p.write(write(s, 0, "go"))
	sge := s.sge(0, 8)
	sge[0].LKey ^= 0x100
	s.post(t, verbs.SendWR{ID: 1, Opcode: verbs.OpWrite, Flags: verbs.Signaled, SGEs: sge, RKey: 1})
	w.must("FIN", func() bool { return p.fin })
	got := p.fpdus(t, crcOn)
	term := terminateIn(t, p)
	if len(got) != 1 || term == nil || term.Layer != rdmap.LayerRDMA || term.Type != rdmap.TypeCatastrophic || term.HasDDP || term.HasRead {
		t.Errorf("sent %x", got)
	}
	if wcs := s.poll(); len(wcs) != 1 || wcs[0].Status != verbs.StatusLocalProtection {
		t.Errorf("%s", wcString(wcs))
	}
}

// Section 7 (5040-7-2), 3 of RFC 5041 (5041-3-10, 5041-3-11, 5041-3-12): one
// stream per connection: with the stream the connection goes, in order or
// not, and both sides are told so.
func TestConnectionEndsWithItsStream(t *testing.T) {
	for _, abortive := range []bool{false, true} {
		x := connect(t, toe.Config{}, Config{}, 4096)
		x.c.id.Disconnect(abortive, x.now)
		x.must("end", func() bool { return x.c.got(cm.ClosedEvent) && x.s.got(cm.ClosedEvent) })
		if !x.a.e.Idle() || !x.b.e.Idle() || !x.c.got(cm.Disconnected) || !x.s.got(cm.Disconnected) {
			t.Errorf("client %s, server %s", x.c.names(), x.s.names())
		}
		for _, ev := range append(x.c.events, x.s.events...) {
			if ev.Type == cm.Disconnected && (ev.Err != nil) != abortive {
				t.Errorf("abortive %v: %v", abortive, ev.Err)
			}
		}
	}
	// After an error this side ends the connection, whatever the peer does.
	w, p, s := served(t, Config{}, func(*end) {})
	p.write(segment(rdmap.TaggedHeader(rdmap.Write, true, s.mr.RKey()^0x100, s.mr.Addr()), []byte("x")))
	w.must("FIN", func() bool { return p.fin })
	w.must("end", func() bool { return s.got(cm.ClosedEvent) && p.ended })
}

// Section 6.2.1 of RFC 5041 (5041-6.2.1-1, 5041-6.2.1-5): after the request
// for a graceful end nothing new is taken, what was queued still goes, and the
// peer's data is still placed.
func TestGracefulTeardown(t *testing.T) {
	w, p, s := served(t, Config{}, func(*end) {})
	p.write(write(s, 0, "go"))
	w.must("Write", func() bool { return string(s.mem[:2]) == "go" })
	s.post(t, verbs.SendWR{ID: 1, Opcode: verbs.OpWrite, Flags: verbs.Signaled, SGEs: s.sge(0, 2), RKey: 1})
	s.id.Disconnect(false, w.now)
	if _, err := s.qp.PostSend(verbs.SendWR{}); !errors.Is(err, verbs.ErrState) {
		t.Errorf("a request behind it: %v", err)
	}
	p.write(write(s, 500, "still placed"))
	w.must("FIN", func() bool { return p.fin })
	if got := p.fpdus(t, crcOn); len(got) != 1 || rdmap.ParseControl(got[0][1]).Opcode != rdmap.Write {
		t.Errorf("sent %x", got)
	}
	w.must("Write", func() bool { return string(s.mem[500:512]) == "still placed" })
	p.conn.Close()
	w.must("end", func() bool { return s.got(cm.ClosedEvent) })
	if wcs := s.poll(); len(wcs) != 1 || wcs[0].Status != verbs.StatusSuccess || p.err != nil {
		t.Errorf("%s, %v", wcString(wcs), p.err)
	}
}

// Section 6.2.1 of RFC 5041 (5041-6.2.1-2): octets that claim to lie behind
// the peer's FIN are never placed.
func TestNothingIsTakenBehindTheFIN(t *testing.T) {
	w, p, s := served(t, Config{}, func(*end) {})
	p.write(write(s, 0, "before"))
	w.must("Write", func() bool { return string(s.mem[:6]) == "before" })
	c := endpointOf(s.qp).conn
	p.conn.Close()
	w.must("end", func() bool { return s.got(cm.Disconnected) })
	c.Receive(c.tcp, write(s, 100, "behind"), w.now)
	if !bytes.Equal(s.mem[100:106], make([]byte, 6)) || s.qp.State() != verbs.Err {
		t.Errorf("placed %q, QP in %v", s.mem[100:106], s.qp.State())
	}
}

// Section 6.2.1 of RFC 5041 (5041-6.2.1-4): the peer's FIN is answered by a FIN
// of this side; receives that wait are flushed.
func TestPeersFINIsAnsweredInOrder(t *testing.T) {
	w, p, s := served(t, Config{}, func(s *end) { s.recv(t, verbs.RecvWR{ID: 1, SGEs: s.sge(0, 8)}) })
	p.write(write(s, 0, "go"))
	p.conn.Close()
	w.must("end", func() bool { return p.fin && p.ended && s.got(cm.ClosedEvent) })
	if wcs := s.poll(); p.err != nil || len(wcs) != 1 || wcs[0].Status != verbs.StatusFlushed {
		t.Errorf("%v, %s", p.err, wcString(wcs))
	}
}

// Section 5.5 (5040-5.5-6) and 7.1 of RFC 5041 (5041-7.1-2, 5041-7.1-3): a
// missing receive ends the stream at once; it cannot happen twice.
func TestMissingReceiveEndsTheStream(t *testing.T) {
	w, p, _ := served(t, Config{}, func(*end) {})
	p.write(append(send(1, "one"), send(2, "two")...))
	w.must("FIN", func() bool { return p.fin })
	term := terminateIn(t, p)
	if term == nil || term.Layer != rdmap.LayerDDP || term.Type != 2 || term.Code != ddp.NoBuffer || len(w.b.async) != 1 {
		t.Errorf("%+v, events %v", term, w.b.async)
	}
}

// Section 8.1.1 of RFC 5040 and 8.3 of RFC 5041 (5040-8.1.1-7,
// 5041-8.3.1-7): a Write that arrives after the region was taken back is
// refused, in the middle of a message too.
func TestRevokedRegionIsWrittenNoMore(t *testing.T) {
	w, p, s := served(t, Config{}, func(*end) {})
	mem := make([]byte, 64)
	mr, err := s.pd.RegMR(mem, verbs.LocalWrite|verbs.RemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	h := rdmap.TaggedHeader(rdmap.Write, false, mr.RKey(), mr.Addr())
	p.write(segment(h, []byte("first")))
	w.must("Write", func() bool { return string(mem[:5]) == "first" })
	if err := mr.Dereg(); err != nil {
		t.Fatal(err)
	}
	h = rdmap.TaggedHeader(rdmap.Write, true, mr.RKey(), mr.Addr()+5)
	p.write(segment(h, []byte("second")))
	w.must("FIN", func() bool { return p.fin })
	if term := terminateIn(t, p); term == nil || term.Layer != rdmap.LayerDDP || term.Code != ddp.InvalidSTag || mem[5] != 0 {
		t.Errorf("%+v, memory %q", term, mem)
	}
}

// Sections 5.3, 7.2 and 8.1.1 (5040-5.3-10, 5040-7.2-4, 5040-7.2-5,
// 5040-8.1.1-8): what the peer invalidates must be of the queue pair's
// protection domain; it is closed before the receive completes.
func TestInvalidationByThePeer(t *testing.T) {
	for name, own := range map[string]bool{"own": true, "other PD": false} {
		w, p, s := served(t, Config{}, func(s *end) { s.recv(t, verbs.RecvWR{ID: 1, SGEs: s.sge(0, 8)}) })
		pd := s.pd
		if !own {
			pd, _ = w.b.dev.AllocPD()
		}
		mr, err := pd.RegMR(make([]byte, 64), verbs.LocalWrite|verbs.RemoteWrite)
		if err != nil {
			t.Fatal(err)
		}
		p.write(segment(rdmap.UntaggedHeader(rdmap.SendInvalidate, true, mr.RKey(), 1, 0), []byte("x")))
		w.must("outcome", func() bool { return len(s.poll()) == 1 })
		if wc := s.wcs[0]; own != (wc.Status == verbs.StatusSuccess) || own == mr.Valid() || own && (!wc.WithInv || wc.Invalidated != mr.RKey()) {
			t.Errorf("%s: %+v, still valid %v", name, wc, mr.Valid())
		}
	}
}

// another makes one more connection, from node a to a new listener of node b
// at addr; the server's queue pair belongs to pd if that is not nil.
func another(t *testing.T, w *world, addr netip.AddrPort, pd *verbs.PD) (c, s *end) {
	t.Helper()
	s = newEnd(t, w.b, 4096)
	if pd != nil {
		var err error
		if s.qp, err = pd.CreateQP(verbs.QPConfig{SendCQ: s.cq, RecvCQ: s.cq}); err != nil {
			t.Fatal(err)
		}
	}
	w.b.cm.Listeners()[0].Close()
	if _, err := w.b.cm.Listen(addr, 8, func(ev cm.Event, now frame.Time) {
		s.handle(ev, now)
		if ev.Type == cm.ConnectRequest {
			acceptAll(cm.Params{})(s, ev, now)
		}
	}, nil); err != nil {
		t.Fatal(err)
	}
	c = newEnd(t, w.a, 4096)
	c.id = w.a.cm.NewID(c.handle, nil)
	if err := c.id.Connect(addr, cm.Params{QP: c.qp}, w.now); err != nil {
		t.Fatal(err)
	}
	w.must("one more connection", func() bool { return c.got(cm.ActiveComplete) })
	return c, s
}

// Section 8.1.2 (5040-8.1.2-7): each stream has Read slots of its own: one
// that has used up its own leaves the other's alone.
func TestReadSlotsAreNotShared(t *testing.T) {
	w, p, s := served(t, Config{IRD: 2}, func(*end) {})
	c2, s2 := another(t, w, p.conn.Remote(), nil)
	var burst []byte
	for i := range uint32(3) {
		r := rdmap.ReadRequest{SinkSTag: 1, Size: 1, SourceSTag: s.mr.RKey(), SourceTO: s.mr.Addr()}
		burst = append(burst, segment(rdmap.UntaggedHeader(rdmap.ReadRequestOp, true, 0, i+1, 0), r.AppendTo(nil))...)
	}
	p.write(burst)
	c2.post(t, verbs.SendWR{ID: 1, Opcode: verbs.OpRead, Flags: verbs.Signaled, SGEs: c2.sge(0, 9), RKey: s2.mr.RKey(), RemoteAddr: s2.mr.Addr()})
	w.must("both", func() bool { return p.fin && len(c2.poll()) == 1 })
	if term := terminateIn(t, p); term == nil || term.Code != ddp.NoBuffer || c2.wcs[0].Status != verbs.StatusSuccess {
		t.Errorf("%+v; the other stream's Read: %s", term, wcString(c2.wcs))
	}
}

// Section 6.1 (5040-6.1-1) and 5.4 (5040-5.4-8): only FPDUs with RDMA
// messages, from the start-up frame to the FIN.
func TestOnlyMessagesAreSent(t *testing.T) {
	w, p, s := served(t, Config{}, func(s *end) { s.recv(t, verbs.RecvWR{ID: 1, SGEs: s.sge(0, 8)}) })
	p.write(send(1, "go"))
	for i := range 5 {
		s.post(t, verbs.SendWR{Opcode: []verbs.Opcode{verbs.OpWrite, verbs.OpSend}[i%2], SGEs: s.sge(0, i*700), RKey: 1})
	}
	s.id.Disconnect(false, w.now)
	w.must("FIN", func() bool { return p.fin })
	_, n, _ := mpa.ParseFrame(p.in, mpa.Reply)
	for _, u := range p.fpdus(t, crcOn) {
		n += crcOn.FPDULen(0, len(u))
		if op := rdmap.ParseControl(u[1]).Opcode; op != rdmap.Write && op != rdmap.Send || u[1]>>6 != 1 {
			t.Errorf("sent %x", u[:2])
		}
	}
	if n != len(p.in) {
		t.Errorf("%d octets in frames, %d sent", n, len(p.in))
	}
}

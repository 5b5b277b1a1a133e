package iwarp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"tapir/mpa"
	"tapir/nic/cm"
	"tapir/nic/toe"
	"tapir/nic/verbs"
	"tapir/rdmap"
	"tapir/wire/frame"
)

// Tests of RFC 5044 on live connections, clause by clause.

// quiet runs for d.
func (w *world) quiet(d time.Duration) {
	limit := w.now.Add(d)
	w.a.out.packets = append(w.a.out.packets, packet{w.pool.Get(1), limit}) // so that time stops there
	w.run(func() bool { return w.now >= limit })
}

// Sections 7.1.1 and 7.1.2 (5044-7.1.1-2, 5044-7.1.1-16, 5044-7.1.1-18,
// 5044-7.1.2-2, 5044-7.1.2-3, 5044-7.1.2-11, 5044-8-4): a bad request ends
// the connection at once, without a reply.
func TestBadRequestClosesTheConnection(t *testing.T) {
	long := mpa.Frame{Kind: mpa.Request, Rev: 1, PrivateData: make([]byte, 512)}
	b := long.AppendTo(nil)
	b[18], b[19] = 2, 1
	for name, in := range map[string][]byte{
		"key":                 []byte("MPA ID Req FramX\x00\x01\x00\x00"),
		"initiator initiates": []byte("MPA ID Rep Frame\x00\x01\x00\x00"),
		"revision":            []byte("MPA ID Req Frame\x00\x07\x00\x00"),
		"513 octets":          append(b, 0),
		"more than it says":   []byte("MPA ID Req Frame\x00\x01\x00\x01ab"),
		"S without data":      []byte("MPA ID Req Frame\x10\x02\x00\x00"),
	} {
		w, p, s := rawClient(t, Config{}, func(*end) { t.Errorf("%s: request reported", name) })
		start := w.now
		p.write(in)
		w.must(name+": end", func() bool { return p.ended })
		if w.now.Sub(start) > time.Second || len(p.in) != 0 || len(s.events) != 0 || !w.b.e.Idle() {
			t.Errorf("%s: after %v, answered %q, events %s", name, w.now.Sub(start), p.in, s.names())
		}
	}
}

// Sections 7.1.1 and 7.1.2 (5044-7.1.1-4, 5044-7.1.2-6, 5044-7.1.2-7,
// 5044-7.1.2-11, 5044-8-4): a bad reply ends the connection at once and is
// reported to the application.
func TestBadReplyClosesTheConnection(t *testing.T) {
	for name, in := range map[string]string{
		"key":                 "MPA ID Rep FramX\x00\x02\x00\x00",
		"initiator initiates": "MPA ID Req Frame\x00\x02\x00\x00",
		"revision":            "MPA ID Rep Frame\x00\x07\x00\x00",
		"65535 octets":        "MPA ID Rep Frame\x00\x02\xff\xff",
		"S without data":      "MPA ID Rep Frame\x10\x02\x00\x00",
	} {
		w, p, c := rawServer(t, Config{})
		start, sent := w.now, len(p.in)
		p.write([]byte(in))
		w.must(name+": end", func() bool { return p.ended && c.got(cm.ClosedEvent) })
		if w.now.Sub(start) > time.Second || len(p.in) != sent || c.qp.State() == verbs.RTS {
			t.Errorf("%s: after %v, sent %q, QP in %v", name, w.now.Sub(start), p.in[sent:], c.qp.State())
		}
		if ev := c.events[0]; ev.Type != cm.Failed || !errors.Is(ev.Err, &mpa.Error{Code: mpa.Startup}) {
			t.Errorf("%s: %v %v", name, ev.Type, ev.Err)
		}
	}
}

// Section 7.1.2 (5044-7.1.2-4, 5044-7.1.2-8, 5044-7.1.2-12): a rejected
// connection is left by MPA as it is, and its owner, the connection manager,
// closes it in order: no reset, every octet acknowledged, FIN not before the
// peer has the reply.
func TestRejectLeavesTCPInOrder(t *testing.T) {
	w := newWorld(t, toe.Config{}, Config{})
	resets, early := 0, false
	var acked uint32 // by the client
	w.a.out.drop = func(_ int, f *frame.Frame) bool {
		resets += int(f.Bytes()[33] >> 2 & 1)
		acked = binary.BigEndian.Uint32(f.Bytes()[28:])
		return false
	}
	w.b.out.drop = func(_ int, f *frame.Frame) bool {
		resets += int(f.Bytes()[33] >> 2 & 1)
		early = early || f.Bytes()[33]&1 != 0 && binary.BigEndian.Uint32(f.Bytes()[24:]) != acked
		return false
	}
	x := dial(t, w, 64, cm.Params{}, func(_ *end, ev cm.Event, now frame.Time) {
		if err := ev.ID.Reject([]byte("full"), now); err != nil {
			t.Error(err)
		}
	})
	w.must("end", func() bool { return x.c.got(cm.ClosedEvent) && x.s.got(cm.ClosedEvent) })
	if ev := x.c.events[0]; ev.Type != cm.Rejected || string(ev.PrivateData) != "full" || resets != 0 {
		t.Errorf("%v with %q, %d resets", ev.Type, ev.PrivateData, resets)
	}
	if early {
		t.Error("FIN came with the reply")
	}
}

// Section 7.1.2 (5044-7.1.2-5, 5044-7.1.2-9, 5044-7.1-1,
// 5044-7.1-2): full operation begins right behind the start-up frames, with a
// queue pair bound.
func TestFullOperationBeginsBehindTheFrames(t *testing.T) {
	w, p, s := rawClient(t, Config{}, func(s *end) { s.recv(t, verbs.RecvWR{ID: 1, SGEs: s.sge(0, 64)}) })
	req := request(mpa.DefaultConfig())
	p.write(req)
	w.must("reply", func() bool { return len(p.in) > 0 })
	if s.qp.State() != verbs.RTS || endpointOf(s.qp).conn == nil {
		t.Errorf("QP in %v", s.qp.State())
	}
	p.write(send(1, "first"))
	w.must("receive", func() bool { return len(s.poll()) == 1 })
	c := endpointOf(s.qp).conn
	_, n, _ := mpa.ParseFrame(p.in, mpa.Reply)
	if c.base != uint64(n) || c.rx.Pos() != uint64(len(send(1, "first"))) {
		t.Errorf("sending counts from %d, reply has %d octets; received up to %d", c.base, n, c.rx.Pos())
	}
}

// Section 7.1.2 (5044-7.1.2-10): whatever the application asks for, the
// responder sends no FPDU and no marker before it has received one.
func TestResponderSendsNothingFirst(t *testing.T) {
	for name, act := range map[string]func(w *world, s *end){
		"work":     func(_ *world, s *end) { s.post(t, verbs.SendWR{SGEs: s.sge(0, 8)}) },
		"graceful": func(w *world, s *end) { s.id.Disconnect(false, w.now) },
		"abortive": func(w *world, s *end) { s.id.Disconnect(true, w.now) },
		"modify":   func(_ *world, s *end) { s.qp.Modify(verbs.Err) },
	} {
		w, p, s := rawClient(t, Config{}, func(*end) {})
		cfg := mpa.DefaultConfig()
		cfg.Markers = true
		p.write(request(cfg))
		w.must("reply", func() bool { return len(p.in) > 0 && s.got(cm.PassiveComplete) })
		act(w, s)
		w.quiet(3 * time.Second)
		_, n, _ := mpa.ParseFrame(p.in, mpa.Reply)
		if len(p.in) != n {
			t.Errorf("%s: %x behind the reply", name, p.in[n:])
		}
		if name == "abortive" || name == "modify" {
			if !p.ended || s.qp.State() != verbs.Err || !w.b.e.Idle() {
				t.Errorf("%s: ended %v, QP in %v", name, p.ended, s.qp.State())
			}
		}
	}
}

// Section 7.1.2 (5044-7.1.2-14, 5044-7.1.2-18): waiting for either frame has
// an end.
func TestStartupTimeouts(t *testing.T) {
	w, p, _ := rawClient(t, Config{RequestTimeout: 2 * time.Second}, func(*end) {})
	start := w.now
	p.write(request(mpa.DefaultConfig())[:19])
	w.must("responder gives up", func() bool { return p.ended })
	if d := w.now.Sub(start); d < 1900*time.Millisecond || d > 2500*time.Millisecond {
		t.Errorf("responder gave up after %v", d)
	}
	w, p, c := rawServer(t, Config{ReplyTimeout: 2 * time.Second})
	start = w.now
	p.write(reply(mpa.Enhanced{IRD: 1, ORD: 1})[:22])
	w.must("initiator gives up", func() bool { return c.got(cm.ClosedEvent) })
	if d := w.now.Sub(start); d < 1900*time.Millisecond || d > 2500*time.Millisecond || c.events[0].Type != cm.TimedOut {
		t.Errorf("initiator gave up after %v: %s", d, c.names())
	}
}

// Sections 4.4 and 8 (5044-8-6, 5041-6.2-1, 5041-6.2.2-3, 5041-6.2.2-4,
// 5041-7.1-8): an error of MPA or DDP does not cut the connection by itself:
// a Terminate still goes out, then the queue pair's owner side closes with FIN.
func TestErrorIsReportedBeforeTheClose(t *testing.T) {
	bad := send(1, "damaged")
	bad[10] ^= 1
	for name, in := range map[string][]byte{
		"CRC": bad,
		"DDP": segment(rdmap.UntaggedHeader(rdmap.Send, true, 0, 9, 0), nil),
	} {
		w, p, s := rawClient(t, Config{}, func(s *end) { s.recv(t, verbs.RecvWR{ID: 1, SGEs: s.sge(0, 64)}) })
		p.write(request(mpa.DefaultConfig()))
		w.must("reply", func() bool { return len(p.in) > 0 })
		p.write(in)
		w.must(name+": FIN", func() bool { return p.fin || p.ended })
		if got := p.fpdus(t, crcOn); len(got) != 1 || got[0][1] != 0x47 || p.ended {
			t.Errorf("%s: sent %x, reset %v", name, got, p.ended)
		}
		if s.qp.State() != verbs.Err {
			t.Errorf("%s: QP in %v", name, s.qp.State())
		}
	}
}

// Sections 7.2 and 8 (5044-7.2-1, 5044-8-1 code 1): the end of TCP is told
// upwards, an orderly one and a lost one.
func TestEndOfTCPIsReported(t *testing.T) {
	for _, abort := range []bool{false, true} {
		w, p, s := rawClient(t, Config{}, func(s *end) { s.recv(t, verbs.RecvWR{ID: 1, SGEs: s.sge(0, 64)}) })
		p.write(request(mpa.DefaultConfig()))
		w.must("reply", func() bool { return len(p.in) > 0 && s.got(cm.PassiveComplete) })
		if abort {
			p.conn.Abort()
		} else {
			p.conn.Close()
		}
		w.must("end", func() bool { return s.got(cm.ClosedEvent) })
		ev := s.events[2]
		if ev.Type != cm.Disconnected || (ev.Err != nil) != abort {
			t.Errorf("abort %v: %s, %v", abort, s.names(), ev.Err)
		}
		if wcs := s.poll(); len(wcs) != 1 || wcs[0].Status != verbs.StatusFlushed || s.qp.State() != verbs.Err {
			t.Errorf("abort %v: %s", abort, wcString(wcs))
		}
	}
}

// Sections 3, 4.5 and 5.1 (5044-3-2, 5044-3-3, 5044-4.5-3, 5044-5.1-1,
// 5044-5.1-3, 5041-3-2, 5041-3-3, 5041-5.2-1): new FPDUs fit the segment size
// and fill it, and TCP segments begin with an FPDU. After the segment size has
// shrunk, those already cut keep their boundaries.
func TestFPDUsFollowTheSegmentSize(t *testing.T) {
	for _, markers := range []bool{false, true} {
		_, c := sourceOf(t, Config{Markers: markers})
		cut := map[uint64]uint32{}
		for i := c.log.head; i != c.log.tail; i++ {
			r := c.log.at(i)
			cut[r.off] = r.size
			if ulpdu := int(r.hlen) + int(r.n); ulpdu > c.tx.MULPDU(1448) || r.size > 1448 || !r.last && ulpdu != c.tx.MULPDU(1448) {
				t.Errorf("markers %v: ULPDU of %d, last %v, MULPDU %d", markers, ulpdu, r.last, c.tx.MULPDU(1448))
			}
		}
		tail := c.log.tail
		qp := c.qp
		if _, err := qp.PostSend(verbs.SendWR{Opcode: verbs.OpWrite, Flags: verbs.Inline, Inline: make([]byte, 200), RemoteAddr: 1, RKey: 1}); err != nil {
			t.Fatal(err)
		}
		for c.Next(c.log.end, 160) > 0 {
		}
		for i := c.log.head; i != c.log.tail; i++ {
			r := c.log.at(i)
			if size, old := cut[r.off]; old && r.size != size {
				t.Errorf("markers %v: the FPDU at %d had %d octets, now %d", markers, r.off, size, r.size)
			} else if !old && (r.size > 160 || i-tail > 3) {
				t.Errorf("markers %v: a new FPDU has %d octets", markers, r.size)
			}
		}
	}
}

// Sections 7.1.5 and 1.2 (5044-7.1.5-2, 5044-7.1.5-3, 5041-3-4, 5041-3-13):
// TCP recovers from loss, reordering and duplication, in start-up too.
func TestTCPRecoversDuringStartup(t *testing.T) {
	for lost := 1; lost < 8; lost++ {
		for side := range 2 {
			w := newWorld(t, toe.Config{}, Config{Markers: true})
			o := []*wire{w.a.out, w.b.out}[side]
			o.drop = func(n int, _ frameArg) bool { return n == lost }
			x := dial(t, w, 1<<16, cm.Params{PrivateData: []byte("p")}, acceptAll(cm.Params{}))
			w.must("connection", func() bool { return x.c.got(cm.ActiveComplete) && x.s.got(cm.PassiveComplete) })
			fill(x.c.mem, lost)
			x.c.post(t, verbs.SendWR{Opcode: verbs.OpWrite, Flags: verbs.Signaled, SGEs: x.c.sge(0, 9000), RemoteAddr: x.s.mr.Addr(), RKey: x.s.mr.RKey()})
			w.must("Write", func() bool { return len(x.c.poll()) == 1 })
			if !bytes.Equal(x.c.mem[:9000], x.s.mem[:9000]) || x.b.e.Totals().RxMessages[0] != 1 {
				t.Errorf("packet %d of side %d lost: memory differs or %d messages", lost, side, x.b.e.Totals().RxMessages[0])
			}
		}
	}
}

// Sections 4.4 and 7.1.1 (5044-4.4-1, 5044-4.4-5, 5044-7.1.1-10,
// 5044-7.1.1-11): on the wire, CRCs are there when a side asked for them, and
// the application sees no difference.
func TestCRCOnTheWire(t *testing.T) {
	for _, on := range []bool{false, true} {
		w, p, s := rawClient(t, Config{CRC: mpa.CRCOptional}, func(s *end) { s.recv(t, verbs.RecvWR{ID: 1, SGEs: s.sge(0, 64)}) })
		cfg := mpa.DefaultConfig()
		if !on {
			cfg.CRC = mpa.CRCOptional
		}
		p.write(request(cfg))
		w.must("reply", func() bool { return len(p.in) > 0 })
		bad := send(1, "hello")
		bad[len(bad)-1] ^= 1
		p.write(bad)
		w.must("outcome", func() bool { return len(s.poll()) == 1 })
		if status := s.wcs[0].Status; (status == verbs.StatusFlushed) != on {
			t.Errorf("CRC %v: a wrong one gives %v", on, status)
		}
	}
}

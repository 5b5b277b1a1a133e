package iwarp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"tapir/ddp"
	"tapir/mpa"
	"tapir/nic/cm"
	"tapir/nic/toe"
	"tapir/nic/verbs"
	"tapir/rdmap"
)

// assigned are all error numbers of RFC 5040 section 4.8, RFC 5041 section
// 7.2, RFC 5044 section 8 and RFC 6581 section 8.
func assigned() (all []rdmap.Error) {
	for layer := range rdmap.Layer(3) {
		for typ := range uint8(3) {
			for code := range 256 {
				if code != 0 && layer != rdmap.LayerLLP && typ == 0 || rdmap.Name(layer, typ, uint8(code)) == "" {
					continue
				}
				all = append(all, rdmap.Error{Layer: layer, Type: typ, Code: uint8(code)})
			}
		}
	}
	return all
}

// ambiguous tells whether a bare control field of siw reads as another error
// in the RFC's order (facts of the two layouts: the nibbles change places).
func ambiguous(e rdmap.Error) bool {
	_, sure := rdmap.RecognizeTerminate([]byte{e.Type<<4 | uint8(e.Layer), e.Code, 0})
	return !sure && uint8(e.Layer) != e.Type
}

// TestEveryTerminateIsUnderstood: whatever error the peer reports, in either
// order of the control field and with any headers, becomes one event with
// that error, ends the connection and flushes what is queued. Nothing is
// answered.
func TestEveryTerminateIsUnderstood(t *testing.T) {
	all := assigned()
	if len(all) < 30 {
		t.Fatalf("%d errors only", len(all))
	}
	for _, e := range all {
		for _, order := range []rdmap.Order{rdmap.OrderRFC, rdmap.OrderSiw} {
			for _, headers := range []string{"", "M D", "M D R"} {
				if headers == "" && order == rdmap.OrderSiw && ambiguous(e) {
					continue
				}
				term := rdmap.Terminate{Layer: e.Layer, Type: e.Type, Code: e.Code, Order: order}
				if headers != "" {
					term = term.WithSegment(rdmap.UntaggedHeader(rdmap.ReadRequestOp, true, 0, 1, 0), ddp.UntaggedLen+rdmap.ReadRequestLen)
				}
				if headers == "M D R" {
					term = term.WithRead(rdmap.ReadRequest{SinkSTag: 1, Size: 2})
				}
				receiveTerminate(t, fmt.Sprintf("%v %s in order %v", &e, headers, order), term, e)
			}
		}
	}
}

func receiveTerminate(t *testing.T, name string, term rdmap.Terminate, want rdmap.Error) {
	w, p, s := rawClient(t, Config{}, func(s *end) { s.recv(t, verbs.RecvWR{ID: 1}) })
	p.write(request(mpa.DefaultConfig()))
	w.must("reply", func() bool { return len(p.in) > 0 })
	s.post(t, verbs.SendWR{ID: 2, Opcode: verbs.OpRead, SGEs: s.sge(0, 8)})
	h := rdmap.UntaggedHeader(rdmap.TerminateOp, true, 0, 1, 0)
	p.write(segment(h, term.AppendTo(nil)))
	w.must("end", func() bool { return p.fin && s.got(cm.Disconnected) })
	if len(w.b.async) != 1 || w.b.async[0].Type != verbs.EventTerminated || w.b.async[0].QP != s.qp || !errors.Is(w.b.async[0].Err, &want) {
		t.Errorf("%s: events %v", name, w.b.async)
	}
	var r *rdmap.Error
	if got := s.events[len(s.events)-1]; !errors.As(got.Err, &r) || !r.Remote {
		t.Errorf("%s: %v %v", name, got.Type, got.Err)
	}
	if wcs := s.poll(); len(wcs) != 2 || wcs[0].Status != verbs.StatusFlushed || wcs[1].Status != verbs.StatusFlushed || s.qp.State() != verbs.Err {
		t.Errorf("%s: %s, QP %v", name, wcString(wcs), s.qp.State())
	}
	if len(p.fpdus(t, crcOn)) != 0 {
		t.Errorf("%s: something was sent", name)
	}
}

// What is wrong with an inbound message becomes the completion of the receive
// or Read that it was for.
func TestLocalCompletionOfBadMessages(t *testing.T) {
	for _, c := range []struct {
		name   string
		in     func(s *end) []byte
		want   rdmap.Error
		status verbs.Status
	}{
		{"Send too long", func(*end) []byte { return send(1, string(make([]byte, 65))) },
			rdmap.Error{Layer: rdmap.LayerDDP, Type: 2, Code: ddp.TooLong}, verbs.StatusLocalLength},
		{"Send invalidates nothing", func(*end) []byte {
			return segment(rdmap.UntaggedHeader(rdmap.SendInvalidate, true, 0xbad00, 1, 0), []byte("x"))
		}, rdmap.Error{Type: rdmap.TypeProtection, Code: rdmap.CannotBeInvalidated}, verbs.StatusRemoteInvalid},
		{"Send to a receive whose region is gone", func(s *end) []byte {
			s.mr.Invalidate()
			return send(1, "x")
		}, rdmap.Error{Type: rdmap.TypeOperation, Code: rdmap.CatastrophicStream}, verbs.StatusLocalProtection},
		{"Write without right", func(s *end) []byte {
			return segment(rdmap.TaggedHeader(rdmap.Write, true, 0x12300, 0), []byte("x"))
		}, rdmap.Error{Layer: rdmap.LayerDDP, Type: 1, Code: ddp.InvalidSTag}, verbs.StatusFlushed},
		{"Immediate Data of nine octets", func(s *end) []byte {
			return segment(rdmap.UntaggedHeader(rdmap.ImmediateOp, true, 0, 1, 0), make([]byte, 9))
		}, rdmap.Error{Layer: rdmap.LayerDDP, Type: 2, Code: ddp.TooLong}, verbs.StatusFlushed},
	} {
		w, p, s := rawClient(t, Config{}, func(s *end) {
			s.recv(t, verbs.RecvWR{ID: 1, SGEs: s.sge(0, 64)})
			s.recv(t, verbs.RecvWR{ID: 2})
		})
		p.write(request(mpa.DefaultConfig()))
		w.must("reply", func() bool { return len(p.in) > 0 })
		p.write(c.in(s))
		w.must("end", func() bool { return p.fin })
		wcs := s.poll()
		if len(wcs) != 2 || wcs[0].ID != 1 || wcs[0].Status != c.status || wcs[1].Status != verbs.StatusFlushed {
			t.Errorf("%s: %s", c.name, wcString(wcs))
		}
		if len(w.b.async) != 1 || !errors.Is(w.b.async[0].Err, &c.want) {
			t.Errorf("%s: events %v", c.name, w.b.async)
		}
	}
}

// The sink of a Read vanishes under its response: the Read fails here, and the
// peer learns that the stream is lost.
func TestSinkOfReadVanishes(t *testing.T) {
	x := connect(t, toe.Config{}, Config{}, 256<<10)
	x.c.post(t, verbs.SendWR{ID: 1, Opcode: verbs.OpRead, SGEs: x.c.sge(0, 256<<10), RKey: x.s.mr.RKey(), RemoteAddr: x.s.mr.Addr()})
	x.c.post(t, verbs.SendWR{ID: 2, Opcode: verbs.OpRead, SGEs: x.c.sge(0, 8), RKey: x.s.mr.RKey(), RemoteAddr: x.s.mr.Addr()})
	x.must("some of it", func() bool { return x.a.e.Totals().RxFPDUs > 10 })
	if err := x.c.mr.Invalidate(); err != nil {
		t.Fatal(err)
	}
	x.must("end", func() bool { return x.c.got(cm.ClosedEvent) && x.s.got(cm.ClosedEvent) })
	if wcs := x.c.poll(); len(wcs) != 2 || wcs[0].Status != verbs.StatusLocalProtection || wcs[1].Status != verbs.StatusFlushed {
		t.Errorf("completions %s", wcString(wcs))
	}
	want := rdmap.Error{Type: rdmap.TypeOperation, Code: rdmap.CatastrophicStream}
	if r := remoteErr(x.b); r == nil || !errors.Is(r, &want) {
		t.Errorf("peer learnt %v", r)
	}
}

// A Read that fails when part of it has been answered: the Terminate says how
// far it has come (RFC 5040 section 4.8).
func TestTerminateOfHalfAnsweredRead(t *testing.T) {
	const size = 200_000
	w, p, s := rawClient(t, Config{}, func(*end) {})
	big := make([]byte, size)
	fill(big, 1)
	mr, err := s.pd.RegMR(big, verbs.RemoteRead)
	if err != nil {
		t.Fatal(err)
	}
	p.write(request(mpa.DefaultConfig()))
	w.must("reply", func() bool { return len(p.in) > 0 })
	req := rdmap.ReadRequest{SinkSTag: 7, SinkTO: 1000, Size: size, SourceSTag: mr.RKey(), SourceTO: mr.Addr()}
	p.write(segment(rdmap.UntaggedHeader(rdmap.ReadRequestOp, true, 0, 1, 0), req.AppendTo(nil)))
	w.must("some of it", func() bool { return w.b.e.Totals().TxFPDUs > 5 })
	if err := mr.Dereg(); err != nil {
		t.Fatal(err)
	}
	w.must("end", func() bool { return p.fin })
	got := p.fpdus(t, crcOn)
	done := 0
	for _, u := range got[:len(got)-1] {
		done += len(u) - ddp.TaggedLen
	}
	last := got[len(got)-1]
	term, rest, err := rdmap.ParseTerminate(last[ddp.UntaggedLen:])
	if err != nil || len(rest) != 0 || done == 0 || done == size {
		t.Fatalf("%v, %d octets came", err, done)
	}
	want := rdmap.Terminate{Type: rdmap.TypeProtection, Code: rdmap.InvalidSTag}.
		WithSegment(rdmap.UntaggedHeader(rdmap.ReadRequestOp, true, 0, 1, 0), ddp.UntaggedLen+rdmap.ReadRequestLen).
		WithRead(rdmap.ReadRequest{SinkSTag: 7, SinkTO: 1000 + uint64(done), Size: uint32(size - done), SourceSTag: mr.RKey(), SourceTO: mr.Addr() + uint64(done)})
	if term != want {
		t.Errorf("got  %+v\nwant %+v", term, want)
	}
}

// Markers on one side or both, with FPDU ends at every distance from them,
// and CRCs or not.
func TestMarkersAtEveryAlignment(t *testing.T) {
	for _, c := range []struct{ client, server Config }{
		{Config{Markers: true}, Config{}}, {Config{}, Config{Markers: true}},
		{Config{Markers: true, CRC: mpa.CRCOptional}, Config{Markers: true, CRC: mpa.CRCOptional}},
	} {
		w := newWorld(t, toe.Config{}, c.client)
		w.b = w.newNode(2, toe.Config{}, c.server)
		x := dial(t, w, 4096, cm.Params{}, acceptAll(cm.Params{}))
		w.must("connection", func() bool { return x.c.got(cm.ActiveComplete) && x.s.got(cm.PassiveComplete) })
		for n := range 520 { // FPDUs of 20 to 540 octets end everywhere
			binary.BigEndian.PutUint32(x.c.mem, uint32(n))
			x.c.wcs, x.s.wcs = nil, nil
			x.s.recv(t, verbs.RecvWR{SGEs: x.s.sge(0, 600)})
			x.c.post(t, verbs.SendWR{Flags: verbs.Signaled, SGEs: x.c.sge(0, n+4)})
			x.c.post(t, verbs.SendWR{Opcode: verbs.OpRead, Flags: verbs.Signaled, SGEs: x.c.sge(2048, n), RKey: x.s.mr.RKey(), RemoteAddr: x.s.mr.Addr()})
			x.must("both", func() bool { return len(x.c.poll()) == 2 && len(x.s.poll()) == 1 })
			if !bytes.Equal(x.c.mem[:n], x.s.mem[:n]) || !bytes.Equal(x.c.mem[2048:2048+n], x.s.mem[:n]) {
				t.Fatalf("%d octets differ", n)
			}
		}
		if len(w.a.async)+len(w.b.async) != 0 {
			t.Errorf("events %v %v", w.a.async, w.b.async)
		}
	}
}

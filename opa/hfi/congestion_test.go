package hfi

import (
	"bytes"
	"testing"
	"time"

	"tapir/opa"
	"tapir/opa/mad"
	"tapir/wire/drop"
	"tapir/wire/frame"
)

// reacting sets up the congestion control of a port: each BECN waits for as long as ten
// packets take.
func (b *bed) reacting(e mad.CongestionSetting) {
	t := mad.CCT{Limit: 63}
	for i := range t.Entries {
		t.Entries[i] = mad.CCTEntry(10 * i)
	}
	b.Congestion().SetTable(0, t)
	s := mad.CongestionSettings{ControlMap: 1 << 2}
	s.SLs[2] = e
	b.Congestion().SetSettings(s)
}

// cnp is a notification to the port from a LID, in its framing.
func (b *bed) cnp(from opa.LID, change func(p []byte)) *frame.Frame {
	f := b.pool.Get(opa.SizeCNP)
	opa.PutCNP(f.Extend(opa.SizeCNP), opa.Header{SLID: from, DLID: ownLID, SC: 2, PKey: 0x8001}, opa.ICRCv1)
	if change != nil {
		change(f.Bytes())
	}
	b.cfg.Framing.Wrap16B(f)
	return f
}

// sends queues a packet of 1250 octets to LID 6 on a service class.
func (b *bed) sends(t *testing.T, sc uint8) {
	h := opa.Header{SLID: ownLID, DLID: 6, SC: sc, PKey: 0x8001, VESW: 2}
	packet := h.AppendTo(nil, make([]byte, 1223), opa.ICRCv1) // 1248 with header, pad and trailer
	if r := b.nd.Transmit(b.frameFor(packet), sc); r != frame.DropNone {
		t.Fatal(r)
	}
}

// A packet with FECN is answered by a notification, ahead of what waits; one to a group
// is not.
func TestFECNIsAnswered(t *testing.T) {
	for _, framing := range []opa.Framing{opa.FramingNSH, opa.Framing88B5, opa.FramingGeneve} {
		b := newBed(t, Config{Framing: framing})
		b.sends(t, 0)
		h := header()
		h.FECN, h.SC = true, 2
		b.gets(b.framed(h.AppendTo(nil, make([]byte, 60), opa.ICRCv1)))
		h.DLID = opa.FirstMulticast + 2
		b.gets(b.framed(h.AppendTo(nil, make([]byte, 60), opa.ICRCv1)))
		b.Poll(0)
		if len(b.wire.sent) != 2 {
			t.Fatalf("%v: %d frames", framing, len(b.wire.sent))
		}
		opa.Unwrap(b.wire.sent[0])
		p, r := opa.ParseCNP(b.wire.sent[0].Bytes(), opa.ICRCv1)
		if r != frame.DropNone || p.SLID() != ownLID || p.DLID() != 6 || p.SC() != 2 || p.PKey() != 0x8001 || !p.BECN() || p.FECN() {
			t.Errorf("%v: %v", framing, r)
		}
		if c := b.Counts(); c.FECN != 2 || c.TxCNP != 1 {
			t.Errorf("%+v", c)
		}
		for _, f := range b.wire.sent {
			f.Release()
		}
		if b.pool.Lent() != 0 {
			t.Errorf("%d frames lost", b.pool.Lent())
		}
	}
}

// After a notification packets of the service level leave with gaps of the delay that
// the table says, exactly; those of another level do not wait; nothing does when the
// index is down again.
func TestBECNDelaysItsLevel(t *testing.T) {
	b := newBed(t, Config{})
	b.reacting(mad.CongestionSetting{Increase: 10, Timer: 100})
	b.gets(b.cnp(6, nil))
	for range 3 {
		b.sends(t, 2)
	}
	b.sends(t, 1)
	const mult = 100
	var left []frame.Time
	for at := frame.Time(0); at < frame.Never && at < frame.Time(90*time.Microsecond); {
		n := len(b.wire.sent)
		next := b.Poll(at)
		for range len(b.wire.sent) - n {
			left = append(left, at)
		}
		at = next
	}
	gap := frame.Time(1248 * 8000 * mult / 100_000)
	if want := []frame.Time{0, 0, gap, 2 * gap}; len(left) != 4 || left[1] != want[1] || left[2] != want[2] || left[3] != want[3] {
		t.Errorf("left at %v, want %v", left, want)
	}
	if c := b.Counts(); c.RxCNP != 1 || c.BECN != 1 || c.CCA.BECN != 1 || c.CCA.Delayed != 3 {
		t.Errorf("%+v", c.CCA)
	}
	b.gets(b.cnp(6, nil))
	b.sends(t, 2)
	b.sends(t, 2)
	if b.Poll(frame.Time(90 * time.Microsecond)); !b.SendMAD(mad.Address{LID: 6, QP: opa.QPGeneral, SL: 2}, make([]byte, 24)) {
		t.Error("no MAD while data are delayed")
	}
	before := len(b.wire.sent)
	b.Poll(frame.Time(90 * time.Microsecond))
	if len(b.wire.sent) != before+1 || len(b.wire.sent[before].Bytes()) > 200 {
		t.Error("a MAD waits behind delayed data")
	}
	b.Poll(frame.Time(10 * time.Millisecond))
	for range 2 {
		b.sends(t, 2)
	}
	n := len(b.wire.sent)
	if b.Poll(frame.Time(10 * time.Millisecond)); len(b.wire.sent) != n+2 {
		t.Error("it still waits")
	}
}

// Notifications that cannot be for the port change nothing.
func TestBadNotifications(t *testing.T) {
	for _, c := range []struct {
		name   string
		from   opa.LID
		change func([]byte)
		drop   frame.DropReason
	}{
		{"ICRC", 6, func(b []byte) { b[20] ^= 1 }, opa.DropICRC},
		{"our own", ownLID, nil, opa.DropLooped},
		{"not a notification", 6, func(b []byte) { b[16] = 0x64 }, opa.DropL4},
		{"tail", 6, func(b []byte) { b[len(b)-1] |= 0x20 }, opa.DropTail},
	} {
		b := newBed(t, Config{})
		b.reacting(mad.CongestionSetting{Increase: 10, Timer: 100})
		b.gets(b.cnp(c.from, c.change))
		var want frame.Drops
		want.Count(c.drop)
		if n := b.Counts(); n.RxDrops != want || n.BECN != 0 || b.Congestion().Active() || b.pool.Lent() != 0 {
			t.Errorf("%s: %v", c.name, n.RxDrops)
		}
	}
}

// MADs between ports of which one has a LID beyond 0xbfff cross in 16B packets, in every
// framing; those of subnet management too while the port has no LID.
func TestMADsBeyond9B(t *testing.T) {
	for _, framing := range []opa.Framing{opa.FramingNSH, opa.Framing88B5, opa.FramingGeneve} {
		const far opa.LID = 0xefffff
		a, b := newBed(t, Config{Framing: framing}), newBed(t, Config{LID: far, Framing: framing})
		e := &echo{}
		b.Attach(e)
		must(t, a.SetPKeys([]uint16{0xffff}))
		want := bytes.Repeat([]byte{1, 2, 3, 0x80}, 64)
		for _, to := range []mad.Address{{LID: far, QP: opa.QPGeneral, SL: 3}, {LID: far, QP: opa.QPSubnet}} {
			e.got = nil
			if !a.SendMAD(to, want) {
				t.Fatalf("%v: not sent", a.Counts().TxDrops)
			}
			a.Poll(0)
			f := a.wire.sent[len(a.wire.sent)-1]
			b.gets(f)
			if len(e.got) != 1 || b.Counts().MADs == 0 {
				t.Errorf("%v: %+v: %d received, %v", framing, to, len(e.got), b.Counts().RxDrops)
			}
		}
		if d := b.Counts(); d.RxDrops != (frame.Drops{}) {
			t.Errorf("%v", d.RxDrops)
		}
	}
	b := newBed(t, Config{})
	h := opa.Header{SLID: 0x10000, DLID: ownLID, PKey: 0xffff}
	for _, c := range []struct {
		change func(*opa.Header)
		qp     uint32
		drop   frame.DropReason
	}{
		{func(h *opa.Header) { h.DLID = 0x10001 }, 1, opa.DropNotOurLID},
		{func(h *opa.Header) { h.PKey = 0x8002 }, 1, opa.DropPKey},
		{func(h *opa.Header) {}, 2, opa.DropL4},
		{func(h *opa.Header) {}, 0, drop.Malformed}, // not on SC 15
		{func(h *opa.Header) { h.SLID = ownLID }, 1, opa.DropLooped},
		{func(h *opa.Header) {}, 1, drop.Unused},
	} {
		was := b.Counts().RxDrops
		was.Count(c.drop)
		h := h
		c.change(&h)
		f := b.pool.Get(256)
		f.Append(make([]byte, 24))
		opa.EncapsulateMAD(f, &h, c.qp, c.qp, opa.ICRCv1)
		b.cfg.Framing.Wrap16B(f)
		if b.gets(f); b.Counts().RxDrops != was {
			t.Errorf("%v: %v", c.drop, b.Counts().RxDrops)
		}
	}
}

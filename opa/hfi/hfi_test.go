package hfi

import (
	"bytes"
	"errors"
	"testing"

	"tapir/nic/buf"
	"tapir/opa"
	"tapir/opa/mad"
	"tapir/wire/drop"
	"tapir/wire/frame"
)

// link keeps what is sent over it.
type link struct {
	room int
	sent []*frame.Frame
}

func (l *link) Room() int { return l.room }
func (l *link) Transmit(f *frame.Frame) {
	l.room--
	l.sent = append(l.sent, f)
}

// client keeps what is delivered to it.
type client struct {
	got    [][]byte
	queues []uint16
	events int
	drop   frame.DropReason
}

func (c *client) Deliver(p opa.Packet, f *frame.Frame, _ frame.Time) frame.DropReason {
	c.got = append(c.got, bytes.Clone(p.Frame()))
	c.queues = append(c.queues, f.Queue)
	f.Release()
	return c.drop
}

func (c *client) PortEvent(frame.Time) { c.events++ }

// bed is a port with one open netdev of vESW 2.
type bed struct {
	*Port
	pool *buf.Pool
	wire *link
	up   *client
	nd   opa.RDMANetdev
}

const ownLID opa.LID = 5

func newBed(tb testing.TB, cfg Config) *bed {
	tb.Helper()
	b := &bed{pool: buf.NewPool(1<<12, 0), wire: &link{room: 1 << 20}, up: &client{}}
	if cfg.LID == 0 {
		cfg.LID = ownLID
	}
	p, err := New(cfg, Env{Pool: b.pool, Wire: b.wire})
	must(tb, err)
	b.Port = p
	p.LinkUp(0)
	b.nd, err = p.AllocRDMANetdev(b.up)
	must(tb, err)
	must(tb, b.nd.SetID(1, 2))
	must(tb, b.nd.Open())
	b.nd.SetMulticast([]opa.LID{opa.FirstMulticast + 2})
	return b
}

// framed returns a frame with the packet b in the port's framing.
func (b *bed) framed(packet []byte) *frame.Frame {
	f := b.pool.Get(len(packet))
	f.Append(packet)
	if r := b.cfg.Framing.Wrap(f, 1); r != frame.DropNone {
		panic(r.String())
	}
	return f
}

func (b *bed) gets(f *frame.Frame) { b.Receive([]*frame.Frame{f}, 0) }

// header is that of a packet that the bed's netdev receives.
func header() opa.Header {
	return opa.Header{SLID: 6, DLID: ownLID, PKey: 0x8001, Entropy: 0x5a, VESW: 2}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func TestReceive(t *testing.T) {
	inner := bytes.Repeat([]byte{7}, 61)
	for _, c := range []struct {
		name   string
		change func(*opa.Header)
		spoil  func([]byte)
		drop   frame.DropReason
	}{
		{name: "good"},
		{name: "multicast", change: func(h *opa.Header) { h.DLID = opa.FirstMulticast + 2 }},
		{name: "not our LID", change: func(h *opa.Header) { h.DLID = 7 }, drop: opa.DropNotOurLID},
		{name: "group of others", change: func(h *opa.Header) { h.DLID = opa.FirstMulticast + 3 }, drop: opa.DropNotOurLID},
		{name: "our own", change: func(h *opa.Header) { h.SLID = ownLID }, drop: opa.DropLooped},
		{name: "multicast source", change: func(h *opa.Header) { h.SLID = opa.FirstMulticast }, drop: opa.DropSLID},
		{name: "collective", change: func(h *opa.Header) { h.DLID = opa.FirstCollective }, drop: opa.DropDLID},
		{name: "other partition", change: func(h *opa.Header) { h.PKey = 0x8002 }, drop: opa.DropPKey},
		{name: "limited member", change: func(h *opa.Header) { h.PKey = 0x0001 }},
		{name: "SC 15", change: func(h *opa.Header) { h.SC = 15 }, drop: opa.DropPKey},
		{name: "vESW 258", change: func(h *opa.Header) { h.VESW = 258 }, drop: opa.DropVESW},
		{name: "vESW 0", change: func(h *opa.Header) { h.VESW = 0 }, drop: opa.DropVESW},
		{name: "bit flipped", spoil: func(b []byte) { b[30] ^= 1 }, drop: opa.DropICRC},
		{name: "L4 type", spoil: func(b []byte) { b[8] = 9 }, drop: opa.DropL4},
		{name: "10B", spoil: func(b []byte) { b[7] ^= 0x60 }, drop: opa.DropL2},
		{name: "length", spoil: func(b []byte) { b[2] ^= 0x10 }, drop: opa.DropLength},
		{name: "pad", spoil: func(b []byte) { b[len(b)-6] = 1 }, drop: opa.DropPad},
		{name: "tail", spoil: func(b []byte) { b[len(b)-1] |= 0x20 }, drop: opa.DropTail},
		{name: "marks and SC on the way", spoil: func(b []byte) { p := opa.Packet(b); p.SetFECN(true); p.SetBECN(true); p.SetSC(3); p.SetAge(9) }},
	} {
		b := newBed(t, Config{})
		h := header()
		if c.change != nil {
			c.change(&h)
		}
		packet := h.AppendTo(nil, inner, opa.ICRCv1)
		if c.spoil != nil {
			c.spoil(packet)
		}
		b.gets(b.framed(packet))
		var want frame.Drops
		if c.drop != frame.DropNone {
			want.Count(c.drop)
		} else if len(b.up.got) != 1 || !bytes.Equal(b.up.got[0], inner) || b.up.queues[0] != (2^0x5a)&7 {
			t.Errorf("%s: %d frames, contexts %v", c.name, len(b.up.got), b.up.queues)
		}
		b.Poll(0) // a congestion mark is answered
		for _, f := range b.wire.sent {
			f.Release()
		}
		n := b.Counts()
		if n.RxDrops != want || c.drop != 0 && len(b.up.got) != 0 || n.RxPackets != 1 || b.pool.Lent() != 0 {
			t.Errorf("%s: %d frames, drops %v", c.name, len(b.up.got), n.RxDrops)
		}
		if marks := c.name == "marks and SC on the way"; marks != (n.FECN == 1) || marks != (n.BECN == 1) {
			t.Errorf("%s: FECN %d, BECN %d", c.name, n.FECN, n.BECN)
		}
	}
}

// A packet of a framing other than the port's own is understood; other
// traffic on the fabric's Ethernet is not for us.
func TestFramings(t *testing.T) {
	b := newBed(t, Config{})
	h := header()
	for _, framing := range []opa.Framing{opa.FramingNSH, opa.Framing88B5, opa.FramingGeneve} {
		f := b.pool.Get(200)
		f.Append(h.AppendTo(nil, make([]byte, 60), opa.ICRCv1))
		framing.Wrap(f, 1)
		b.gets(f)
	}
	if len(b.up.got) != 3 {
		t.Errorf("%d frames", len(b.up.got))
	}
	f := b.pool.Get(60)
	copy(f.Extend(60)[12:], []byte{0x08, 0x06})
	b.gets(f)
	if d := b.Counts().RxDrops; d != (frame.Drops{drop.EtherType: 1}) {
		t.Errorf("drops %v", d)
	}
}

func TestControlOperations(t *testing.T) {
	b := newBed(t, Config{Netdevs: 2})
	h := header()
	packet := h.AppendTo(nil, make([]byte, 60), opa.ICRCv1)
	other, err := b.AllocRDMANetdev(&client{})
	must(t, err)
	if _, err := b.AllocRDMANetdev(&client{}); !errors.Is(err, opa.ErrNetdevs) {
		t.Errorf("third netdev of two: %v", err)
	}
	if err := other.Open(); !errors.Is(err, opa.ErrNoVESW) {
		t.Errorf("open without vESW: %v", err)
	}
	if err := other.SetID(1, 2); !errors.Is(err, opa.ErrVESWInUse) {
		t.Errorf("vESW 2 twice: %v", err)
	}
	must(t, other.SetID(1, 258))
	other.SetMulticast([]opa.LID{opa.FirstMulticast + 9})
	theirs := header()
	theirs.DLID = opa.FirstMulticast + 9
	b.gets(b.framed(theirs.AppendTo(nil, make([]byte, 60), opa.ICRCv1)))
	if len(b.up.got) != 0 || b.Counts().RxDrops[opa.DropNotOurLID] != 1 {
		t.Error("a group that only another netdev listens to")
	}
	arrives := func(what string, want bool) {
		t.Helper()
		b.up.got = nil
		b.gets(b.framed(packet))
		if (len(b.up.got) == 1) != want {
			t.Errorf("%s: %d frames", what, len(b.up.got))
		}
	}
	b.nd.Stop()
	arrives("stopped", false)
	if r := b.nd.Transmit(b.frameFor(packet), 0); r != opa.DropPort {
		t.Errorf("sent while stopped: %v", r)
	}
	must(t, b.nd.Open())
	arrives("opened", true)
	must(t, b.nd.SetID(1, 3))
	arrives("moved to vESW 3", false)
	must(t, other.SetID(1, 2))
	must(t, b.nd.SetID(1, 258))
	if n := b.UnknownVESW(); n != 2 {
		t.Errorf("%d packets for unknown vESWs", n)
	}
	b.FreeRDMANetdev(other)
	b.FreeRDMANetdev(other)
	must(t, b.nd.SetID(1, 2))
	arrives("back", true)
	b.FreeRDMANetdev(b.nd)
	arrives("freed", false)
	if len(b.listened) != 0 || b.pool.Lent() != 0 {
		t.Errorf("left behind: %v, %d frames", b.listened, b.pool.Lent())
	}
}

func (b *bed) frameFor(packet []byte) *frame.Frame {
	f := b.pool.Get(len(packet))
	f.Append(packet)
	return f
}

// Lanes share the link frame by frame, management goes first, a full lane
// refuses and leaves the others alone.
func TestVirtualLanes(t *testing.T) {
	b := newBed(t, Config{QueueFrames: 3})
	b.wire.room = 0
	for vl := range uint8(3) {
		for i := range 4 {
			h := header()
			h.SLID, h.DLID, h.SC, h.Entropy = ownLID, 6, vl, uint16(i)
			r := b.nd.Transmit(b.frameFor(h.AppendTo(nil, make([]byte, 60), opa.ICRCv1)), vl)
			if want := [...]frame.DropReason{0, 0, 0, drop.TxQueue}[i]; r != want {
				t.Errorf("lane %d, frame %d: %v", vl, i, r)
			}
		}
	}
	if !b.SendMAD(mad.Address{LID: 9}, make([]byte, 24)) {
		t.Error("management is refused")
	}
	b.wire.room = 8
	b.Poll(0)
	b.Poll(0)
	var order []int
	for _, f := range b.wire.sent {
		lane := 15
		queue := f.Queue
		if format, r := opa.Unwrap(f); r != frame.DropNone {
			t.Fatal(r)
		} else if format == opa.Format16B {
			p := opa.Packet(f.Bytes())
			lane = int(p.SC())
			if want := uint16(lane)*2 + p.Entropy()&1; queue != want {
				t.Errorf("engine %d, want %d", queue, want)
			}
		}
		order = append(order, lane)
		f.Release()
	}
	if want := []int{15, 0, 1, 2, 0, 1, 2, 0}; !bytes.Equal(octets(order), octets(want)) {
		t.Errorf("lanes %v, want %v", order, want)
	}
	if b.Waiting() != 2 {
		t.Errorf("%d wait", b.Waiting())
	}
	b.LinkDown(0)
	if b.Waiting() != 0 || b.Counts().TxDrops[opa.DropPort] != 2 || b.pool.Lent() != 0 {
		t.Errorf("%d wait, %d lent", b.Waiting(), b.pool.Lent())
	}
}

func octets(list []int) (b []byte) {
	for _, v := range list {
		b = append(b, byte(v))
	}
	return b
}

func TestOversizePacket(t *testing.T) {
	b := newBed(t, Config{MTU: 2048})
	h := header()
	h.SLID, h.DLID = ownLID, 6
	for size, want := range map[int]frame.DropReason{2143: 0, 2144: drop.Oversize} {
		packet := h.AppendTo(nil, make([]byte, size), opa.ICRCv1)
		if r := b.nd.Transmit(b.frameFor(packet), 0); r != want {
			t.Errorf("packet of %d octets: %v", len(packet), r)
		}
	}
}

func TestPortStates(t *testing.T) {
	b := newBed(t, Config{})
	b.cfg.LID, b.lid = 0, 0
	b.LinkDown(0)
	b.LinkUp(0)
	if b.State() != Init || b.Active() {
		t.Fatalf("without a LID: %v", b.State())
	}
	if err := b.SetState(Active, 0); !errors.Is(err, ErrState) {
		t.Errorf("active without a LID: %v", err)
	}
	for _, bad := range []opa.LID{0, opa.FirstMulticast, opa.Permissive} {
		if err := b.SetLID(bad, 0, 0); !errors.Is(err, ErrLID) {
			t.Errorf("LID %v: %v", bad, err)
		}
	}
	if err := b.SetLID(9, 1, 0); !errors.Is(err, ErrLID) {
		t.Errorf("LID 9 with LMC 1: %v", err)
	}
	before := b.up.events
	must(t, b.SetLID(8, 2, 0))
	must(t, b.SetState(Armed, 0))
	must(t, b.SetState(Active, 0))
	must(t, b.SetState(Active, 0))
	if b.up.events != before+3 {
		t.Errorf("%d events", b.up.events-before)
	}
	for dlid := opa.LID(7); dlid <= 12; dlid++ {
		h := header()
		h.DLID = dlid
		b.up.got = nil
		b.gets(b.framed(h.AppendTo(nil, make([]byte, 60), opa.ICRCv1)))
		if want := dlid >= 8 && dlid < 12; want != (len(b.up.got) == 1) {
			t.Errorf("LMC 2 of LID 8: LID %v taken: %v", dlid, !want)
		}
	}
	b.LinkDown(0)
	if err := b.SetState(Init, 0); !errors.Is(err, ErrState) {
		t.Errorf("out of down: %v", err)
	}
}

func TestBadConfig(t *testing.T) {
	env := Env{Pool: buf.NewPool(1, 0), Wire: &link{}}
	for name, cfg := range map[string]Config{
		"LID": {LID: opa.FirstMulticast}, "MTU": {MTU: 1500}, "contexts": {Contexts: 3}, "engines": {Engines: -1},
		"netdevs": {Netdevs: -1}, "P_Keys": {PKeys: make([]uint16, 257)},
	} {
		if _, err := New(cfg, env); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := New(Config{}, Env{}); err == nil {
		t.Error("without an environment")
	}
}

// echo is an agent that answers requests, with the method's response bit.
type echo struct {
	got  []mad.Address
	poll int
}

func (e *echo) Receive(b []byte, from mad.Address, _ frame.Time, send mad.Send) {
	e.got = append(e.got, from)
	if b[3]&0x80 == 0 {
		answer := bytes.Clone(b)
		answer[3] |= 0x80
		send(from, answer)
	}
}

func (e *echo) Poll(now frame.Time, _ mad.Send) frame.Time {
	e.poll++
	return now.Add(7)
}

func TestMADs(t *testing.T) {
	b := newBed(t, Config{})
	e := &echo{}
	b.Attach(e)
	b.Attach(&echo{})
	datagram := func(h opa.Header9B) *frame.Frame {
		f := b.pool.Get(300)
		f.Append(h.AppendTo(nil, make([]byte, 256), opa.ICRCv1))
		opa.FramingNSH.Wrap9B(f)
		return f
	}
	good := opa.Header9B{SLID: 6, DLID: ownLID, PKey: 0xffff, DestQP: 1, SrcQP: 1, QKey: opa.QKeyGSI}
	for _, c := range []struct {
		name   string
		change func(*opa.Header9B)
		drop   frame.DropReason
	}{
		{"good", func(*opa.Header9B) {}, 0},
		{"not our LID", func(h *opa.Header9B) { h.DLID = 9 }, opa.DropNotOurLID},
		{"looped", func(h *opa.Header9B) { h.SLID = ownLID }, opa.DropLooped},
		{"queue pair 2", func(h *opa.Header9B) { h.DestQP = 2 }, opa.DropL4},
		{"Q_Key", func(h *opa.Header9B) { h.QKey = 1 }, drop.Malformed},
		{"P_Key", func(h *opa.Header9B) { h.PKey = 0x8003 }, opa.DropPKey},
		{"both limited", func(h *opa.Header9B) { h.PKey = 0x7fff }, opa.DropPKey},
		{"subnet management not on SC 15", func(h *opa.Header9B) { h.DestQP = 0 }, drop.Malformed},
		{"subnet management", func(h *opa.Header9B) { h.DestQP, h.SrcQP, h.SC, h.QKey, h.PKey = 0, 0, 15, 0, 0 }, 0},
		{"to everybody", func(h *opa.Header9B) {
			h.DestQP, h.SrcQP, h.SC, h.QKey, h.DLID, h.SLID = 0, 0, 15, 0, opa.Permissive, opa.Permissive
		}, 0},
	} {
		h := good
		c.change(&h)
		e.got, b.wire.sent = nil, nil
		before := b.Counts().RxDrops
		b.gets(datagram(h))
		for next := b.Poll(100); next != 107; next = b.Poll(100) {
			if next != 100 {
				t.Fatalf("agents want to be called at %v", next)
			}
		}
		after := b.Counts().RxDrops
		if c.drop != 0 {
			before.Count(c.drop)
		} else if len(e.got) == 0 || e.got[0].QP != h.SrcQP || e.got[0].LID != h.SLID {
			t.Errorf("%s: from %v", c.name, e.got)
		}
		if after != before || (len(b.wire.sent) > 0) != (c.drop == 0) {
			t.Errorf("%s: %d sent, drops %v", c.name, len(b.wire.sent), after)
		}
		for _, f := range b.wire.sent {
			_, r := opa.Unwrap(f)
			p, r9 := opa.Parse9B(f.Bytes(), opa.ICRCv1)
			if r != frame.DropNone || r9 != frame.DropNone || p.DLID() != h.SLID || p.SLID() != ownLID || p.Payload()[3] != 0x80 {
				t.Errorf("%s: answer %v %v", c.name, r, r9)
			}
			f.Release()
		}
	}
	if b.pool.Lent() != 0 {
		t.Errorf("%d frames lost", b.pool.Lent())
	}
}

// Who asks itself is answered without the fabric, and hears what it says to
// everybody.
func TestMADsToItself(t *testing.T) {
	b := newBed(t, Config{PKeys: []uint16{0xffff}})
	e := &echo{}
	b.Attach(e)
	if !b.SendMAD(mad.Address{LID: ownLID, QP: 1}, make([]byte, 24)) {
		t.Fatal("not sent")
	}
	for b.Poll(0) == 0 {
	}
	if len(e.got) != 2 || len(b.wire.sent) != 0 {
		t.Errorf("%d received, %d sent", len(e.got), len(b.wire.sent))
	}
	e.got = nil
	b.SendMAD(mad.Address{LID: opa.Permissive, QP: 0}, []byte{0, 0, 0, 0x81})
	for b.Poll(0) == 0 {
	}
	if len(e.got) != 1 || len(b.wire.sent) != 1 {
		t.Errorf("to everybody: %d received, %d sent", len(e.got), len(b.wire.sent))
	}
}

func TestSendMADRefuses(t *testing.T) {
	b := newBed(t, Config{})
	for _, c := range []struct {
		to   mad.Address
		size int
		drop frame.DropReason
	}{
		{mad.Address{LID: opa.Permissive, QP: 1}, 24, opa.DropDLID},
		{mad.Address{LID: 6, QP: 1}, opa.MaxMAD + 1, drop.Oversize},
	} {
		want := b.Counts().TxDrops
		want.Count(c.drop)
		if b.SendMAD(c.to, make([]byte, c.size)) || b.Counts().TxDrops != want {
			t.Errorf("%+v: %v", c.to, b.Counts().TxDrops)
		}
	}
	b.LinkDown(0)
	b.SendMAD(mad.Address{LID: 6}, nil)
	if d := b.Counts().TxDrops; d[opa.DropPort] != 1 || b.pool.Lent() != 0 {
		t.Errorf("%v, %d frames lost", d, b.pool.Lent())
	}
}

type trace struct{ list []frame.Record }

func (t *trace) Trace(r *frame.Record) {
	c := *r
	c.Data = bytes.Clone(r.Data)
	t.list = append(t.list, c)
}

// The capture shows frames as they were on the wire, with what became of them.
func TestTracer(t *testing.T) {
	b := newBed(t, Config{})
	tr := &trace{}
	b.SetTracer(tr)
	h := header()
	f := b.framed(h.AppendTo(nil, make([]byte, 60), opa.ICRCv1))
	wire := bytes.Clone(f.Bytes())
	b.up.drop = opa.DropSpoofed
	b.gets(f)
	h.SLID, h.DLID = ownLID, 6
	b.nd.Transmit(b.frameFor(h.AppendTo(nil, make([]byte, 60), opa.ICRCv1)), 0)
	b.nd.Stop()
	b.nd.Transmit(b.frameFor(h.AppendTo(nil, make([]byte, 60), opa.ICRCv1)), 0)
	b.Poll(0)
	if len(tr.list) != 3 || !bytes.Equal(tr.list[0].Data, wire) || tr.list[0].Drop != opa.DropSpoofed ||
		tr.list[1].Drop != opa.DropPort || tr.list[2].Dir != frame.Outbound || tr.list[2].Drop != frame.DropNone {
		t.Errorf("%+v", tr.list)
	}
}

// Waiting is the number of frames that wait for the fabric link.
func (p *Port) Waiting() (n int) {
	for vl := range p.queues {
		n += p.queues[vl].Len()
	}
	return n
}

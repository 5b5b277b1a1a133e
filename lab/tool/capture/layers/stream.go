package layers

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/gopacket"
	tcplayers "github.com/google/gopacket/layers"

	"tapir/mpa"
	"tapir/wire/stream"
	"tapir/wire/tcp"
)

// Conversation is what the two directions of a connection agreed on.
type Conversation struct {
	request, reply *mpa.Frame
}

// layout is how the direction that began with a frame of kind sends FPDUs.
// CRC and markers are taken from what has been seen of the start-up phase.
func (c *Conversation) layout(kind mpa.Kind) (l mpa.Layout) {
	own, peer := c.request, c.reply
	if kind == mpa.Reply {
		own, peer = peer, own
	}
	l.CRC = own != nil && own.CRC || peer != nil && peer.CRC
	l.Markers = peer != nil && peer.Markers
	return l
}

// Stream decodes one direction of a connection from its first octet on.
type Stream struct {
	conv *Conversation
	emit func(gopacket.Packet)

	started bool
	kind    mpa.Kind
	head    []byte // of an unfinished start-up frame
	fpdus   *mpa.Receiver
	layout  mpa.Layout
	err     error
}

// NewStream returns a stream that hands a packet to emit for each start-up
// frame and each FPDU. Both directions of a connection share one
// Conversation. Packets do not alias the stream's input.
func NewStream(c *Conversation, emit func(gopacket.Packet)) *Stream {
	return &Stream{conv: c, emit: emit}
}

// Write takes the next octets of the stream, borrowing b. Its error is
// sticky: a start-up frame, an FPDU's CRC or a marker was wrong.
func (s *Stream) Write(b []byte) (int, error) {
	n := len(b)
	if s.err == nil && !s.started {
		b = s.start(b)
	}
	if s.err == nil && len(b) > 0 {
		s.fpdu(b)
	}
	if s.err != nil {
		return 0, s.err
	}
	return n, nil
}

// start takes octets of the start-up frame and returns those behind it.
func (s *Stream) start(b []byte) []byte {
	had := len(s.head)
	s.head = append(s.head, b[:min(len(b), mpa.MaxFrameLen-had)]...)
	kind := startKind(s.head)
	f, n, err := mpa.ParseFrame(s.head, kind)
	if s.err = err; err != nil || n == 0 {
		return nil
	}
	s.started, s.kind = true, kind
	if kind == mpa.Request {
		s.conv.request = &f
	} else {
		s.conv.reply = &f
	}
	s.emit(gopacket.NewPacket(s.head[:n:n], LayerTypeMPAStart, gopacket.NoCopy))
	s.head = nil
	return b[n-had:]
}

func (s *Stream) fpdu(b []byte) {
	if s.fpdus == nil {
		// Only now has the other side's frame been seen.
		s.layout = s.conv.layout(s.kind)
		s.fpdus = mpa.NewReceiver(s.layout, nil)
	}
	s.err = s.fpdus.Receive(b, s)
}

// ULPDU implements mpa.Consumer.
func (s *Stream) ULPDU(u []byte) error {
	// Markers are gone and the trailer was checked: put a plain FPDU around it.
	plain := mpa.Layout{CRC: s.layout.CRC}
	b := make([]byte, plain.FPDULen(0, len(u)))
	plain.Put(b, 0, u)
	p := gopacket.NewPacket(b, LayerTypeMPA, gopacket.NoCopy)
	if m, ok := p.Layer(LayerTypeMPA).(*MPA); ok {
		m.CRCChecked = s.layout.CRC
	}
	s.emit(p)
	return nil
}

// PDU is a start-up frame or an FPDU of a capture. Packet has the layers
// MPAStart, or MPA, DDP, RDMAP and Payload. Markers are taken out; an FPDU's
// trailer is normalized.
type PDU struct {
	Net, Transport gopacket.Flow // of the segment that completed it
	Seen           time.Time
	Packet         gopacket.Packet
}

// ErrSkipped is reported for a connection of which the capture lacks octets.
var ErrSkipped = errors.New("layers: octets of the connection are missing from the capture")

// Assembler finds the PDUs of all connections in a capture: segments in any
// order, FPDUs anywhere in them. Connections that do not begin with an MPA
// frame are passed over.
type Assembler struct {
	emit   func(PDU)
	failed func(net, transport gopacket.Flow, err error)
	open   map[ends]*direction
	opened int
}

type ends struct{ net, transport gopacket.Flow }

// NewAssembler returns an assembler that calls emit for each PDU, in the
// order in which they are completed, and failed (which may be nil) once for a
// direction of a connection that cannot be decoded further.
func NewAssembler(emit func(PDU), failed func(net, transport gopacket.Flow, err error)) *Assembler {
	return &Assembler{emit: emit, failed: failed, open: map[ends]*direction{}}
}

// Packet takes the next packet of the capture; those that carry no TCP are
// passed over.
func (a *Assembler) Packet(p gopacket.Packet) {
	t, ok := p.TransportLayer().(*tcplayers.TCP)
	if !ok || p.NetworkLayer() == nil {
		return
	}
	e := ends{p.NetworkLayer().NetworkFlow(), t.TransportFlow()}
	d := a.open[e]
	if d == nil {
		if !t.SYN && len(t.Payload) == 0 {
			return
		}
		d = a.direction(e)
	}
	s := stream.Segment[note]{Seq: tcp.Seq(t.Seq), Data: t.Payload, Note: note{p.Metadata().Timestamp, t.FIN || t.RST}}
	if t.SYN {
		s.Seq++
		if !d.begun {
			d.begun, d.octets.Next = true, s.Seq
		}
	}
	if !d.begun || d.octets.Next.Less(s.Seq) {
		d.octets.Wait(s)
		return
	}
	for due := true; due && a.open[e] == d; s, due = d.octets.Due() {
		d.take(s)
	}
}

// direction begins a direction of a connection.
func (a *Assembler) direction(e ends) *direction {
	conv := &Conversation{}
	if back := a.open[ends{e.net.Reverse(), e.transport.Reverse()}]; back != nil {
		if c := back.stream.conv; c.request == nil || c.reply == nil {
			conv = c
		}
	}
	a.opened++
	d := &direction{a: a, ends: e, number: a.opened}
	d.stream = NewStream(conv, func(p gopacket.Packet) {
		a.emit(PDU{Net: e.net, Transport: e.transport, Seen: d.seen, Packet: p})
	})
	a.open[e] = d
	return d
}

// Flush ends the directions that wait for octets that will not come. It is
// called at the end of a capture.
func (a *Assembler) Flush() {
	byNumber := func(x, y *direction) int { return cmp.Compare(x.number, y.number) }
	for _, d := range slices.SortedFunc(maps.Values(a.open), byNumber) {
		if len(d.octets.Gap) > 0 {
			d.fail(ErrSkipped)
		}
	}
}

// note is what is known of a segment: when it was seen, and whether it is the
// last one.
type note struct {
	seen time.Time
	last bool
}

// direction is one direction of a connection, from its SYN on.
type direction struct {
	ends
	number int // of those that were opened
	a      *Assembler
	stream *Stream
	octets stream.Order[note]
	begun  bool // the SYN was seen
	seen   time.Time
	dead   bool
}

// take takes a segment that is in order.
func (d *direction) take(s stream.Segment[note]) {
	if b := d.octets.Advance(s); len(b) > 0 && !d.dead {
		d.seen = s.Note.seen
		if _, err := d.stream.Write(b); err != nil {
			d.fail(err)
		}
	}
	if s.Note.last {
		delete(d.a.open, d.ends)
	}
}

// fail ends the decoding. A connection that is not MPA at all is no failure.
func (d *direction) fail(err error) {
	if !d.dead && d.a.failed != nil && (d.stream.started || err == ErrSkipped) {
		d.a.failed(d.net, d.transport, fmt.Errorf("%v %v: %w", d.net, d.transport, err))
	}
	d.dead = true
}

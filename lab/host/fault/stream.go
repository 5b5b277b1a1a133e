package fault

import (
	"encoding/binary"

	"tapir/ddp"
	"tapir/mpa"
	"tapir/rdmap"
)

// item is a start-up frame or an FPDU in a stream.
type item struct {
	start, end uint64 // in the stream
	pos        uint64 // of an FPDU: start in the full operation stream
	layout     mpa.Layout
	startup    bool
	kind       mpa.Kind // of a start-up frame

	head    [headMost]byte // the first octets, without markers
	got     int            // of them
	ulpdu   int            // octets
	pdu     *pdu           // of iSCSI
	opcode  rdmap.Opcode   // one that is not valid if the FPDU is too short for a header
	tagged  bool
	last    bool
	number  int // of the FPDU in its direction, from 1
	message int // of that opcode
	segment int // of the message

	judged  bool
	strikes []*strike
}

// headMost is as much of an FPDU as tells what it is.
const headMost = mpa.LengthLen + ddp.UntaggedLen

// length is that of the whole item without markers.
func (i *item) length() int {
	if i.startup || i.pdu != nil {
		return int(i.end - i.start)
	}
	return mpa.Layout{}.FPDULen(0, i.ulpdu)
}

// contents is length without pad and CRC.
func (i *item) contents() int {
	if i.pdu != nil {
		n := i.length()
		if data := i.pdu.bhs.DataLen(); data > 0 {
			if n -= -data & 3; i.pdu.digests.Data {
				n -= 4
			}
		}
		return n
	}
	if i.startup {
		return i.length()
	}
	return mpa.LengthLen + i.ulpdu
}

// offset is the place in the stream of octet n of an item, markers left out.
func (i *item) offset(n int) uint64 {
	if !i.layout.Markers {
		return i.start + uint64(n)
	}
	at := i.pos
	for {
		if at%mpa.MarkerInterval == 0 {
			at += mpa.MarkerLen
		}
		room := int(mpa.MarkerInterval - at%mpa.MarkerInterval)
		if n < room {
			return i.start + at - i.pos + uint64(n)
		}
		n -= room
		at += uint64(room)
	}
}

type followState uint8

const (
	inStartup followState = iota
	inFull
	inISCSI
	notMPA
)

// follower finds the items of one direction of a connection in its octets,
// which come in order.
type follower struct {
	state  followState
	peer   *follower
	begun  bool // start-up frame is complete
	frame  mpa.Frame
	start  []byte // of an unfinished start-up frame
	at     uint64 // place of the next octet
	base   uint64 // where full operation begins
	item   *item  // in hand
	fpdus  int
	counts [rdmap.NumOpcodes]struct {
		message, segment int
		open             bool // the last segment was not the message's last
	}
	left    int // octets of a marker under way
	session session
}

// feed takes octets and calls visit for each item that has some of them, once
// it is known what the item is: from and to are their places in the stream.
func (f *follower) feed(b []byte, visit func(i *item, from, to uint64)) {
	for len(b) > 0 && f.state != notMPA {
		var n int
		switch f.state {
		case inStartup:
			n = f.feedStartup(b, visit)
		case inFull:
			n = f.feedFPDU(b, visit)
		case inISCSI:
			n = f.feedPDU(b, visit)
		}
		f.at += uint64(n)
		b = b[n:]
	}
}

// feedStartup takes octets of the start-up frame.
func (f *follower) feedStartup(b []byte, visit func(i *item, from, to uint64)) int {
	had := len(f.start)
	if had == 0 && beginsLogin(b) {
		f.state = inISCSI
		return 0
	}
	f.start = append(f.start, b[:min(len(b), mpa.MaxFrameLen-had)]...)
	kind := mpa.Request
	if p := f.peer; p.begun && p.frame.Kind == mpa.Request {
		kind = mpa.Reply
	}
	frame, n, err := mpa.ParseFrame(f.start, kind)
	if err != nil {
		f.state = notMPA
		return len(b)
	}
	if f.item == nil && len(f.start) >= mpa.FrameHeaderLen {
		size := mpa.FrameHeaderLen + int(binary.BigEndian.Uint16(f.start[18:]))
		f.item = &item{startup: true, kind: kind, start: f.at - uint64(had), opcode: rdmap.NumOpcodes}
		f.item.end = f.item.start + uint64(size)
	}
	if n == 0 {
		if f.item != nil {
			visit(f.item, f.at, f.at+uint64(len(b)))
		}
		return len(b)
	}
	visit(f.item, f.at, f.item.end)
	frame.PrivateData = nil
	f.frame, f.begun, f.start, f.state = frame, true, nil, inFull
	f.base, f.item = f.item.end, nil
	return n - had
}

// layout is how this direction frames its ULPDUs; false if the start-up is not
// over.
func (f *follower) layout() (l mpa.Layout, ok bool) {
	p := f.peer
	return mpa.Layout{CRC: f.frame.CRC || p.frame.CRC, Markers: p.frame.Markers}, p.begun
}

// feedFPDU takes octets of one FPDU.
func (f *follower) feedFPDU(b []byte, visit func(i *item, from, to uint64)) int {
	if f.item == nil {
		layout, ok := f.layout()
		if !ok {
			f.state = notMPA
			return len(b)
		}
		f.fpdus++
		f.item = &item{start: f.at, pos: f.at - f.base, layout: layout, number: f.fpdus, ulpdu: -1,
			opcode: rdmap.NumOpcodes}
	}
	i := f.item
	n := 0
	for n < len(b) && !f.known() {
		f.head(b[n], f.at+uint64(n))
		n++
	}
	if !f.known() {
		return n
	}
	n = min(len(b), int(i.end-f.at))
	visit(i, f.at, f.at+uint64(n))
	if f.at+uint64(n) == i.end {
		f.item = nil
	}
	return n
}

// known tells whether the FPDU in hand has shown what it is.
func (f *follower) known() bool { return f.item.end != 0 && f.item.judgeable() }

// judgeable: the head is complete.
func (i *item) judgeable() bool { return i.got >= min(headMost, mpa.LengthLen+i.ulpdu) }

// head takes one octet at place at of the beginning of the FPDU in hand.
func (f *follower) head(c byte, at uint64) {
	i := f.item
	if f.left > 0 {
		f.left--
		return
	}
	if i.layout.Markers && (at-f.base)%mpa.MarkerInterval == 0 {
		f.left = mpa.MarkerLen - 1
		return
	}
	i.head[i.got] = c
	i.got++
	if i.got == mpa.LengthLen {
		i.ulpdu = int(binary.BigEndian.Uint16(i.head[:]))
		i.end = i.start + uint64(i.layout.FPDULen(i.pos, i.ulpdu))
	}
	if i.end != 0 && i.judgeable() {
		f.identify()
	}
}

// identify reads the headers of the FPDU in hand.
func (f *follower) identify() {
	i := f.item
	h, _, err := ddp.Parse(i.head[mpa.LengthLen:i.got])
	if err != nil {
		return
	}
	i.tagged, i.last = h.Tagged, h.Last
	if i.opcode = rdmap.ParseControl(h.ULP).Opcode; !i.opcode.Valid() {
		return
	}
	c := &f.counts[i.opcode]
	if !c.open {
		c.message++
		c.segment = 0
	}
	c.segment++
	c.open = !h.Last
	i.message, i.segment = c.message, c.segment
}

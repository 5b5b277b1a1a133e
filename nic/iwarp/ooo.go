package iwarp

import (
	"tapir/ddp"
	"tapir/mpa"
	"tapir/nic/msglog"
	"tapir/nic/toe"
	"tapir/rdmap"
	"tapir/wire/frame"
)

// Placement of what arrives out of order: the payload goes straight into its
// region, and what is left of the segment waits for its turn as an arrival.
//
// Where an FPDU begins must be known (RFC 5044 section 6). Behind a gap that
// takes a marker or, while every segment of TCP has begun with an FPDU, a
// header that continues the last message known in front of the gap at exactly
// the place where equal FPDUs in the gap would lead it. What follows such an
// FPDU begins where that one ends. When the gap closes, the chain of FPDUs
// must meet the place, else the connection ends.

const (
	// holdBack octets at the end of each segment placed early wait for their
	// turn: among them are the last ones of a message, however it was cut, so
	// that nobody who polls them sees them before the rest.
	holdBack = 64
	// maxArrivals bounds the segments of a connection that wait.
	maxArrivals = 2048
	// maxExtents bounds the messages that they belong to.
	maxExtents = 16
	// spareOOO and spareArrivals bound what idle memory of it is kept.
	spareOOO      = 4
	spareArrivals = 1024
)

// arrival is a segment of DDP that has arrived before its turn.
type arrival struct {
	off    uint64 // of its FPDU in the stream
	size   uint32 // of its FPDU
	n      uint32 // payload octets
	placed uint32 // of these, from the front
	msg    uint8  // extent of its message
	hdr    ddp.Header
	tail   [holdBack]byte // what has not been placed
}

func (a *arrival) end() uint64 { return a.off + uint64(a.size) }

// extent is the memory of a message that is known to be written, from what
// its in-order part has reached to the furthest octet seen.
type extent struct {
	used, tagged bool
	scattered    bool // it goes elsewhere than its offsets say
	stag         uint32
	lo, hi       uint64
	end          uint64 // stream offset behind its last arrival
}

// oooQueue holds a connection's arrivals while there are any.
type oooQueue struct {
	list    []arrival // by offset, from head on
	head    int
	extents [maxExtents]extent
}

func (m *memory) getOOO() *oooQueue {
	if k := len(m.oooQueues); k > 0 {
		x := m.oooQueues[k-1]
		m.oooQueues = m.oooQueues[:k-1]
		return x
	}
	return new(oooQueue)
}

func (m *memory) putOOO(x *oooQueue) {
	if len(m.oooQueues) < spareOOO && cap(x.list) <= spareArrivals {
		*x = oooQueue{list: x.list[:0]}
		m.oooQueues = append(m.oooQueues, x)
	}
}

// refusal says why a segment was not placed before its turn.
type refusal uint8

const (
	refusedNot      refusal = iota
	refusedOff              // the NIC is told not to
	refusedState            // no FPDUs are expected
	refusedNoCRC            // the connection has no CRC
	refusedUnknown          // it is not known whether an FPDU begins there
	refusedPartial          // the FPDU ends in another segment
	refusedCRC              // CRC or marker is wrong
	refusedOverlap          // it would overwrite what another message still has to write
	refusedOther            // not a message that may be placed, or an access that is not allowed
	refusedMemory           // too many wait already
	numRefusals     = iota
	firstRefusal    = refusedOff
	countedRefusals = numRefusals - int(firstRefusal)
)

// RefusalNames names Counters.OOORefused.
var RefusalNames = [countedRefusals]string{
	"off", "state", "no_crc", "unknown_start", "partial", "bad_crc", "overlap", "not_placeable", "memory",
}

// ReceiveOOO implements toe.OOOReceiver.
func (in *inbound) ReceiveOOO(_ *toe.Conn, off uint64, data []byte, _ frame.Time) (taken int) {
	in.placeNow()
	for taken < len(data) {
		n, why := in.takeOOO(off+uint64(taken), data[taken:])
		if why != refusedNot {
			in.c.counters.OOORefused[why-firstRefusal]++
			return taken
		}
		taken += n
	}
	return taken
}

// takeOOO takes the FPDU at the start of data and returns its length.
func (in *inbound) takeOOO(off uint64, data []byte) (int, refusal) {
	switch {
	case in.c.e.cfg.InOrder:
		return 0, refusedOff
	case in.c.phase != full || in.rx.Err() != nil || in.c.counters.RxFPDUs == 0:
		return 0, refusedState
	case !in.c.result.CRC:
		return 0, refusedNoCRC
	case in.ooo != nil && len(in.ooo.list)-in.ooo.head >= maxArrivals:
		return 0, refusedMemory
	}
	i, e := in.edge(off)
	if e.end != off && (e.hdr.Last || in.unaligned && !in.c.result.MarkersRx) {
		return 0, refusedUnknown
	}
	if !in.c.result.MarkersRx {
		return in.judge(i, &e, off, data, nil)
	}
	scratch := in.c.e.memory.Get(len(data))
	n, why := in.judge(i, &e, off, data, scratch)
	in.c.e.memory.Put(scratch)
	return n, why
}

// edge is the last FPDU known in front of some place.
type edge struct {
	end  uint64 // where it ends
	size int
	n    uint64 // its payload
	msg  int    // extent of its message, -1 if it has none yet
	hdr  *ddp.Header
}

// next is the offset, TO or MO, behind its payload.
func (e *edge) next() uint64 { return position(e.hdr) + e.n }

func position(h *ddp.Header) uint64 {
	if h.Tagged {
		return h.TO
	}
	return uint64(h.MO)
}

// edge finds the last FPDU in front of stream offset off, and where in the
// list an arrival at off belongs.
func (in *inbound) edge(off uint64) (int, edge) {
	i := 0
	if x := in.ooo; x != nil {
		i = len(x.list)
		for i > x.head && x.list[i-1].off >= off {
			i--
		}
		if i > x.head {
			a := &x.list[i-1]
			return i, edge{a.end(), int(a.size), uint64(a.n), int(a.msg), &a.hdr}
		}
	}
	h := in.c.stream.Header()
	size := in.lastFPDU
	if size == 0 && in.lastULPDU > 0 {
		size = in.c.result.Rx().FPDULen(0, in.lastULPDU)
	}
	return i, edge{in.rxBase + in.rx.Pos(), size, uint64(in.lastULPDU - h.Len()), -1, h}
}

// judge checks the FPDU at off, behind edge e, and places it. scratch is where
// it is gathered from between markers; i is its place in the list.
func (in *inbound) judge(i int, e *edge, off uint64, data, scratch []byte) (int, refusal) {
	pos := off - in.rxBase
	rx := in.c.result.Rx()
	ulpdu, size, err := rx.ParseFPDU(data, pos, scratch)
	switch {
	case err != nil:
		return 0, refusedCRC
	case size == 0:
		return 0, refusedPartial
	}
	h, payload, err := ddp.Parse(ulpdu)
	if err != nil {
		return 0, refusedOther
	}
	if e.end != off && !e.leadsTo(&h, off, rx, size, pos) {
		return 0, refusedUnknown
	}
	if in.ooo == nil {
		in.ooo = in.c.e.memory.getOOO()
		i = 0
	}
	msg := in.ooo.claim(e, &h, off, uint64(len(payload)), in.scattered(&h))
	if msg < 0 {
		in.trimOOO()
		return 0, refusedOverlap
	}
	placed := max(0, len(payload)-holdBack)
	if !in.c.stream.PlaceOOO(&h, payload, placed) {
		in.trimOOO()
		return 0, refusedOther
	}
	x := &in.ooo.extents[msg]
	x.hi, x.end = max(x.hi, position(&h)+uint64(len(payload))), max(x.end, off+uint64(size))
	a := in.ooo.insert(i)
	*a = arrival{off: off, size: uint32(size), n: uint32(len(payload)), placed: uint32(placed), msg: uint8(msg), hdr: h}
	copy(a.tail[:], payload[placed:])
	in.c.counters.OOOPlaced += uint64(placed)
	in.c.counters.OOOHeld += uint64(len(payload) - placed)
	if in.c.e.notes.On {
		in.note(&h, rdmap.NoRef, true)
		in.noteBegun(&h, payload)
	}
	return size, refusedNot
}

// scattered tells whether h is that of a Read Response for several elements of
// memory: its offsets do not say where it goes.
func (in *inbound) scattered(h *ddp.Header) bool {
	ref := in.c.stream.ReadRef()
	if ref == rdmap.NoRef || rdmap.ParseControl(h.ULP).Opcode != rdmap.ReadResponse {
		return false
	}
	w := in.c.qp.SendWQE(ref)
	return w != nil && len(w.SGEs) > 1
}

// leadsTo tells whether the FPDU of size octets with header h at off, behind
// a gap, surely is one, and continues e's message.
func (e *edge) leadsTo(h *ddp.Header, off uint64, l mpa.Layout, size int, pos uint64) bool {
	was := e.hdr
	if h.Tagged != was.Tagged || h.ULP != was.ULP || h.STag != was.STag || h.QN != was.QN || h.MSN != was.MSN {
		return false
	}
	gap, ahead := off-e.end, position(h)-e.next()
	each := uint64(e.size)
	if !l.Markers {
		return gap%each == 0 && ahead == gap/each*e.n
	}
	// Their number makes FPDUs differ a little; what is not payload does not.
	body := gap - mpa.MarkerLen*mpa.MarkersIn(pos-gap, pos)
	other := uint64(mpa.Overhead + h.Len())
	k := (gap + each/2) / each
	return l.Marked(pos, size) && k > 0 && ahead == body-k*other
}

// claim returns the extent of the message of the FPDU behind e with header h
// and n octets of payload, or -1 if other messages that are not complete
// write there too: then only the order of the stream is safe.
// A scattered message is never mixed with others: its target is unknown.
func (x *oooQueue) claim(e *edge, h *ddp.Header, off, n uint64, scattered bool) int {
	from, to := position(h), position(h)+n
	msg := e.msg
	if e.end == off && e.hdr.Last {
		msg = -1
	} else {
		from = e.next()
		if msg < 0 {
			msg = x.find(e.hdr, from)
		}
	}
	for i := range x.extents {
		o := &x.extents[i]
		if i == msg || !o.used {
			continue
		}
		if scattered || o.scattered || o.tagged && h.Tagged && o.stag == h.STag && from < o.hi && o.lo < to {
			return -1
		}
	}
	if msg >= 0 {
		return msg
	}
	for i := range x.extents {
		if !x.extents[i].used {
			x.extents[i] = extent{used: true, scattered: scattered, tagged: h.Tagged, stag: h.STag, lo: from, hi: from}
			return i
		}
	}
	return -1
}

// find returns the extent of the message under way in order, which has
// reached position at, or -1.
func (x *oooQueue) find(h *ddp.Header, at uint64) int {
	for i := range x.extents {
		o := &x.extents[i]
		if o.used && o.tagged == h.Tagged && o.stag == h.STag && o.lo <= at && at <= o.hi {
			return i
		}
	}
	return -1
}

// insert makes room for an arrival at index i.
func (x *oooQueue) insert(i int) *arrival {
	if len(x.list) == cap(x.list) && x.head > 0 {
		n := copy(x.list, x.list[x.head:])
		x.list, i, x.head = x.list[:n], i-x.head, 0
	}
	x.list = append(x.list, arrival{})
	copy(x.list[i+1:], x.list[i:])
	return &x.list[i]
}

// Skip implements toe.OOOReceiver: the turn of arrivals has come.
func (in *inbound) Skip(_ *toe.Conn, n int, _ frame.Time) {
	in.placeNow()
	end := in.rxOff + uint64(n)
	for in.rxOff < end && in.c.phase == full {
		if err := in.resume(); err != nil {
			in.failReceive(err)
			break
		}
	}
	in.rxOff = end
	in.trimOOO()
	in.c.drained()
}

// resume does with the first arrival what ULPDU does in order.
func (in *inbound) resume() error {
	x := in.ooo
	a := &x.list[x.head]
	if err := in.rx.Skip(int(a.size)); err != nil {
		return err
	}
	x.head++
	in.rxOff = a.end()
	in.lastULPDU, in.lastFPDU = a.hdr.Len()+int(a.n), int(a.size)
	note, read := in.c.e.notes.On, rdmap.NoRef
	if note {
		read = in.readWR()
	}
	err := in.c.stream.Resume(&a.hdr, int(a.placed), a.tail[:a.n-a.placed])
	if in.c.e.cfg.Log.On(msglog.RX) {
		in.c.logReceived(append(a.hdr.AppendTo(nil), make([]byte, a.n)...))
	}
	if note {
		in.note(&a.hdr, read, false)
	}
	return in.received(err)
}

// trimOOO forgets the messages that are complete, and the list when it is empty.
func (in *inbound) trimOOO() {
	x := in.ooo
	if x == nil {
		return
	}
	if x.head == len(x.list) {
		in.dropOOO()
		return
	}
	for i := range x.extents {
		if o := &x.extents[i]; o.used && o.end <= in.rxOff {
			*o = extent{}
		}
	}
}

// dropOOO forgets all arrivals.
func (in *inbound) dropOOO() {
	if in.ooo != nil {
		in.c.e.memory.putOOO(in.ooo)
		in.ooo = nil
	}
}

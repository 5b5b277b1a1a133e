package script

import (
	"bytes"
	"fmt"
	"time"

	"tapir/ddp"
	"tapir/mpa"
	"tapir/rdmap"
	"tapir/wire/tcp"
)

// endpoint is one connection of an iWARP script: the peer's TCP, the two
// streams, and what the application of the NIC has of it.
type endpoint struct {
	w    *world
	peer *peer

	// Of the application.
	id   connection
	qp   queuePair
	told []happening // not claimed

	// The peer's TCP, which acknowledges at once.
	opening bool // its SYN was sent
	open    bool // both SYNs have crossed
	finSent bool
	finGot  bool
	due     bool // an ACK, or a SYN and ACK
	rst     bool // the NIC has reset it
	taken   int  // octets of the peer's stream that are acknowledged
	room    int  // the window behind them

	overSince time.Duration // when a live machine was seen to have ended it

	out    []byte // the peer's stream as built
	sent   int    // octets of it that were sent or lost
	lost   []span // what was lost of it
	hidden []byte // FPDUs that are payload only
	shown  bool   // they were used: the next one begins anew
	in     []byte // the NIC's stream in order
	read   int    // octets of it that were taken apart

	mine   *mpa.Frame
	theirs *mpa.Frame
	// indicates: an empty Write of the NIC says that it is ready to receive.
	indicates bool
	start     int // of full operation in out
	startIn   int // and in in

	built, seen side // messages to and from the NIC
}

// side is what one direction's numbers count from, and its segments so far.
type side struct {
	msn [rdmap.NumQueues]uint32 // of the next message
	mo  [rdmap.NumQueues]uint32 // of its next segment
	log []record
}

// record is a DDP segment, as a Terminate quotes it.
type record struct {
	header ddp.Header
	length int // of the segment
	read   rdmap.ReadRequest
	isRead bool
}

func newEndpoint(w *world, p *peer) *endpoint {
	e := &endpoint{w: w, peer: p}
	for i := range e.built.msn {
		e.built.msn[i], e.seen.msn[i] = 1, 1
	}
	return e
}

// explicit tells whether the script states every segment.
func (e *endpoint) explicit() bool { return e.w.r.script.set.explicit }

// mss is the payload of the peer's longest segment.
func (e *endpoint) mss() int {
	if e.w.r.script.set.v6 {
		return e.w.r.script.set.mtu() - 60
	}
	return e.w.r.script.set.mtu() - 40
}

// segment sends a segment of the peer as its TCP would.
func (e *endpoint) segment(flags tcp.Flags, off, n int, opts *tcpOptions) {
	s := segment{flags: flags, first: value{n: int64(off + 1)}, n: n, win: value{any: true}, urg: value{any: true},
		opts: opts}
	if flags.Has(tcp.SYN) {
		s.first.n = 0
	}
	s.ack.n = int64(len(e.in) + 1)
	if e.finGot {
		s.ack.n++
	}
	if _, wrong := s.send(e.w.r, e.peer); wrong != nil {
		panic(wrong.name) // the octets are there: the caller has built them
	}
}

// answer sends what TCP owes the NIC.
func (e *endpoint) answer() {
	if !e.due {
		return
	}
	e.due = false
	switch {
	case !e.open: // the NIC's SYN has come
		e.open = true
		e.segment(tcp.SYN|tcp.ACK, 0, 0, e.synOptions())
	case e.finSent:
		e.segment(tcp.ACK, e.sent+1, 0, nil)
	default:
		e.segment(tcp.ACK, e.sent, 0, nil)
	}
}

func (e *endpoint) synOptions() *tcpOptions {
	return &tcpOptions{list: []tcpOption{{name: "mss", values: []value{{n: int64(e.mss())}}}}}
}

// ensureOpen makes the connection, if it is the peer's to make.
func (e *endpoint) ensureOpen() string {
	if e.open || e.explicit() {
		return ""
	}
	if !e.opening && !e.peer.based {
		e.opening = true
		e.segment(tcp.SYN, 0, 0, e.synOptions())
	}
	if !e.soonOpen() {
		return "the NIC has not made the TCP connection; " + e.w.r.state(e.peer).String()
	}
	return ""
}

func (e *endpoint) soonOpen() bool { return e.w.r.soon(func() bool { return e.open }) }

// payload fills in the octets of a segment that the script states, from the
// stream built so far.
func (e *endpoint) payload(dst []byte, s *segment) *difference {
	if len(dst) == 0 {
		return nil
	}
	off := int(s.first.n) - 1
	if off < 0 || off+len(dst) > len(e.out) {
		return &difference{fmt.Sprintf("the peer's stream holds only %d octets; expected a message with [join] before",
			len(e.out)), s.seqWord}
	}
	copy(dst, e.out[off:])
	e.sent = max(e.sent, off+len(dst))
	return nil
}

// push sends what was built and not sent, cut as m says.
func (e *endpoint) push(m *framing) {
	pieces := m.cut
	if len(pieces) == 0 && m.lose != nil && !m.each {
		pieces = []int{e.mss()}
	}
	for i := 0; e.sent < len(e.out); i++ {
		n := min(len(e.out)-e.sent, e.mss())
		switch {
		case m.each:
			n = 1
		case i < len(pieces):
			n = min(n, pieces[i])
		}
		from := e.sent
		e.sent += n
		if m.loses(i) {
			e.lost = append(e.lost, span{uint64(from), uint64(e.sent)})
			continue
		}
		e.carry(from, e.sent)
		if m.twice {
			e.carry(from, e.sent)
		}
		if m.each || len(pieces) > 0 {
			e.w.poll()
		}
	}
}

// finish ends the peer's stream: FIN, in the segment of what was built and not
// sent.
func (e *endpoint) finish() {
	e.finSent = true
	if e.sent == len(e.out) {
		e.segment(tcp.FIN|tcp.ACK, e.sent, 0, nil)
		return
	}
	e.push(&framing{})
}

// carry sends octets [from, to) of the stream in one segment.
func (e *endpoint) carry(from, to int) {
	flags := tcp.ACK
	if to == len(e.out) {
		flags |= tcp.PSH
		if e.finSent {
			flags |= tcp.FIN
		}
	}
	if e.w.r.live != nil { // a Linux has no endless window at first
		e.w.r.soon(func() bool { return to <= e.taken+e.room || e.rst })
	}
	e.segment(flags, from, to-from, nil)
}

// resend delivers what was lost: all of it, or piece n from 1 on.
func (e *endpoint) resend(n int) string {
	if len(e.lost) < max(n, 1) {
		return fmt.Sprintf("%d segments are lost", len(e.lost))
	}
	again := e.lost
	if n > 0 {
		again = e.lost[n-1 : n : n]
		e.lost = append(append([]span(nil), e.lost[:n-1]...), e.lost[n:]...)
	} else {
		e.lost = nil
	}
	for _, s := range again {
		e.carry(int(s.off), int(s.end))
	}
	return ""
}

// received takes a packet of the NIC, last in the queue, with its payload. Without
// explicit segments it is taken out again and only what its octets mean
// remains.
func (e *endpoint) received(got *packet, data []byte) {
	r := e.w.r
	explicit := e.explicit() || got.broken != ""
	if explicit {
		r.tracef(">", got.text(), got.at)
	} else {
		r.queue = r.queue[:len(r.queue)-1]
	}
	f := got.tcp.Flags
	if f.Has(tcp.ACK) {
		e.taken, e.room = max(e.taken, int(got.ack)-1), int(got.tcp.Window)
	}
	if f.Has(tcp.RST) {
		e.rst = true
		e.due = false // nobody is there any more
		if !explicit {
			e.unit(got, &unit{text: "rst", rst: true})
		}
		return
	}
	if f.Has(tcp.SYN) {
		e.open = e.open || f.Has(tcp.ACK) || explicit
		e.due = !explicit
		return
	}
	off := int(got.seq) - 1
	if skip := len(e.in) - off; skip >= 0 && skip < len(data) {
		e.in = append(e.in, data[skip:]...)
		e.units(got)
	}
	e.due = !explicit && (e.due || len(data) > 0)
	if f.Has(tcp.FIN) && !e.finGot && off+len(data) == len(e.in) {
		e.finGot, e.due = true, !explicit
		if !explicit {
			e.unit(got, &unit{text: "fin", fin: true})
		}
	}
}

// unit queues something that was found in the stream of packet got.
func (e *endpoint) unit(got *packet, u *unit) {
	r := e.w.r
	r.tracef(">", u.text, got.at)
	r.queue = append(r.queue, &packet{at: got.at, peer: e.peer, unit: u, broken: u.broken})
}

// unit is one thing in the stream from the NIC: a start-up frame, an FPDU, or
// its end.
type unit struct {
	text     string // as a script would say it
	broken   string // what no NIC may send
	fin, rst bool
	frame    *mpa.Frame
	kind     mpa.Kind
	ulpdu    []byte // of an FPDU
	nth      int    // of it in seen.log
	begun    side   // the numbers before it

	record *messageKind // of a message of a bench, and its fields
	values map[string]any
}

// units takes apart what has come in order.
func (e *endpoint) units(got *packet) {
	for e.read < len(e.in) {
		b := e.in[e.read:]
		var u *unit
		var n int
		if e.theirs == nil {
			u, n = e.startup(b)
		} else {
			u, n = e.fpdu(b)
		}
		if n == 0 {
			return
		}
		e.read += n
		if e.indicates && u.ulpdu != nil {
			if e.indicates = false; len(u.ulpdu) == ddp.TaggedLen {
				continue
			}
		}
		e.unit(got, u)
	}
}

// startup reads the NIC's start-up frame.
func (e *endpoint) startup(b []byte) (*unit, int) {
	kind := mpa.Reply
	if bytes.HasPrefix(b, []byte("MPA ID Req")) {
		kind = mpa.Request
	}
	f, n, err := mpa.ParseFrame(b, kind)
	if err != nil {
		return &unit{text: "octets", broken: err.Error()}, len(b)
	}
	if n == 0 {
		return nil, 0
	}
	f.PrivateData = append([]byte(nil), f.PrivateData...)
	e.theirs, e.startIn = &f, e.read+n
	return &unit{text: frameText(&f), frame: &f, kind: kind}, n
}

// tx and rx are the framing of the peer's stream and of the NIC's.
func (e *endpoint) tx() mpa.Layout {
	return mpa.Layout{CRC: e.crc(), Markers: e.theirs != nil && e.theirs.Markers}
}

func (e *endpoint) rx() mpa.Layout {
	return mpa.Layout{CRC: e.crc(), Markers: e.mine != nil && e.mine.Markers}
}

// crc tells whether CRCs are in use: either side has asked for them.
func (e *endpoint) crc() bool {
	return e.theirs != nil && e.theirs.CRC || e.mine != nil && e.mine.CRC
}

// fpdu reads one FPDU of the NIC.
func (e *endpoint) fpdu(b []byte) (*unit, int) {
	l, pos := e.rx(), uint64(e.read-e.startIn)
	ulpdu, n, err := l.ParseFPDU(b, pos, make([]byte, mpa.MaxULPDU))
	if err != nil {
		return &unit{text: "an FPDU", broken: err.Error()}, len(b)
	}
	if n == 0 {
		return nil, 0
	}
	u := &unit{ulpdu: append([]byte(nil), ulpdu...), begun: e.seen, nth: len(e.seen.log)}
	t := l.Trailer(b[:n], pos)
	switch {
	case t.Pad != [3]byte{}:
		u.broken = "FPDU: its pad is not zero"
	case !l.CRC && t.CRC != 0:
		u.broken = "FPDU: its CRC field is not zero although CRCs are off"
	}
	h, err := e.seen.note(u.ulpdu)
	if err != nil {
		u.text, u.broken = "an FPDU", err.Error()
		return u, n
	}
	e.seen.advance(&h, len(u.ulpdu))
	u.text = e.w.describe(u.ulpdu, e, true)
	return u, n
}

// note puts a segment into the log.
func (s *side) note(ulpdu []byte) (ddp.Header, error) {
	h, payload, err := ddp.Parse(ulpdu)
	rec := record{header: h, length: len(ulpdu)}
	if err == nil && rdmap.ParseControl(h.ULP).Opcode == rdmap.ReadRequestOp {
		rec.read, err = rdmap.ParseReadRequest(payload)
		rec.isRead = err == nil
	}
	s.log = append(s.log, rec)
	return h, err
}

// advance counts a segment that continues its queue as it should.
func (s *side) advance(h *ddp.Header, length int) {
	if h.Tagged || h.QN >= rdmap.NumQueues || h.MSN != s.msn[h.QN] || h.MO != s.mo[h.QN] {
		return
	}
	if h.Last {
		s.msn[h.QN]++
		s.mo[h.QN] = 0
		return
	}
	s.mo[h.QN] += uint32(length - ddp.UntaggedLen)
}

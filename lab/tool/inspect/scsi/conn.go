// Package scsi judges connections of iSCSI by RFC 7143. It is given the octets of
// both directions in order, as a capture has them, and tells a Reporter what breaks
// which clause. It does no I/O and owns no clock.
package scsi

import (
	"encoding/binary"
	"fmt"

	"tapir/lab/tool/inspect/clause"
	"tapir/lab/tool/inspect/message"
	"tapir/wire/crc"
	"tapir/wire/iscsi"
)

// Reporter is told what a connection shows.
type Reporter = message.Reporter

// Octets are the octets of a direction that are not taken yet, in order. Offsets
// count from the first of them.
type Octets interface {
	Bytes() []byte
	Known(from, to int) bool // the capture has them
	Packet(at int) int       // that brought the octet
	Begins(at int) bool      // a segment begins there
	Next(at int) int         // where the first segment behind at begins; the end if none does
}

// fact is something that a capture may not tell.
type fact uint8

const (
	unknown fact = iota
	no
	yes
)

func factOf(b bool) fact {
	if b {
		return yes
	}
	return no
}

type phase uint8

const (
	loggingIn phase = iota
	fullFeature
	loginFailed
	loggedOut
)

// Conn judges one connection.
type Conn struct {
	to        Reporter
	initiator int
	late      bool // begins behind the login
	phase     phase
	lost      [2]bool // a side has no PDU boundary
	header    fact    // digests: of headers
	data      fact    // of data
	login     login
	keys      keys
	par       params
	cmd       command
	stat      status
	tasks     map[uint32]*task
	over      map[uint32]ending // tags of tasks that are over
	unsol     []*task           // commands whose unsolicited data is not complete, in their order
	pings     map[uint32]bool   // transfer tags of NOP-In
	iser      *iser             // nil: over TCP
}

// New judges a connection, whose initiator is a side, from its first octet on, or
// with late set from somewhere behind its login.
func New(to Reporter, initiator int, late bool) *Conn {
	c := &Conn{to: to, initiator: initiator, late: late, header: no, data: no, tasks: map[uint32]*task{},
		over: map[uint32]ending{}, pings: map[uint32]bool{}}
	c.keys = newKeys()
	if late {
		c.phase, c.header, c.data = fullFeature, unknown, unknown
		c.lost = [2]bool{true, true}
	}
	return c
}

// Begins tells whether b, the first octets of a connection's side, may begin a login.
func Begins(b []byte) bool {
	return len(b) >= iscsi.HeaderLen && iscsi.Opcode(b[0]&0x3f) == iscsi.LoginReq && b[0]&0x80 == 0 && b[2] == 0 &&
		b[3] == 0 && b[4] == 0 && b[5] == 0
}

// Plausible tells whether b may begin a PDU, of a target or an initiator.
func Plausible(b []byte, target bool) bool {
	if len(b) < iscsi.HeaderLen {
		return false
	}
	h := iscsi.BHS(b)
	op := h.Opcode()
	if !op.Valid() || op.OfTarget() != target || b[0]&0x80 != 0 || h[4] != 0 && op != iscsi.Command {
		return false
	}
	switch op {
	case iscsi.DataOut:
		return h[1]&^iscsi.Final == 0 && h[2] == 0 && h[3] == 0 && h.U32(iscsi.CmdSN) == 0 && h.U32(iscsi.MaxCmdSN) == 0
	case iscsi.DataIn:
		return h[1]&0x38 == 0 && h[2] == 0
	case iscsi.Command:
		return h[1]&0x18 == 0 && h[2] == 0 && h[3] == 0
	case iscsi.NopOut, iscsi.NopIn, iscsi.R2T:
		return h[1] == iscsi.Final && h[2] == 0 && h[3] == 0
	case iscsi.LoginReq:
		return h[2] == 0 && h[3] == 0
	}
	return h[1]&iscsi.Final != 0 || op == iscsi.TextReq || op == iscsi.TextRsp || op == iscsi.LoginRsp
}

// pdu is one in hand.
type pdu struct {
	iscsi.BHS
	ahs    []byte
	text   []byte // its data segment, if the capture has all of it
	cut    bool   // it has not
	side   int
	packet int // that brought its header
	end    int // that brought its last octet
	advert iscsi.Advert
}

// Take takes the PDUs that are complete and returns how many octets they and what
// is given up have.
func (c *Conn) Take(side int, s Octets) (done int) {
	for {
		b := s.Bytes()[done:]
		if len(b) == 0 {
			return done
		}
		if c.lost[side] {
			n, ok := c.find(side, s, done)
			if done += n; !ok {
				return done
			}
		}
		n, ok := c.next(side, s, done)
		done += n
		if !ok && !(c.lost[side] && done < len(s.Bytes())) {
			return done
		}
	}
}

// Gap says that octets of a side are missing in front of the next.
func (c *Conn) Gap(side, packet int) {
	c.lost[side] = true
	c.vague(packet, "octets are missing from the capture")
}

// vague forgets what missing PDUs may have changed, and says why they are missing.
func (c *Conn) vague(packet int, why string) {
	c.to.Part(packet, why)
	if c.phase == loggingIn {
		c.phase, c.header, c.data, c.par = fullFeature, unknown, unknown, params{}
	}
	c.cmd.known, c.stat.known, c.cmd.most, c.cmd.haveMost = false, false, 0, false
	c.late = true
	for _, t := range c.tasks {
		t.vague = true
	}
	c.unsol = nil
}

// find looks for a PDU at the beginning of a segment, and returns how many octets
// are in front of it.
func (c *Conn) find(side int, s Octets, from int) (int, bool) {
	b := s.Bytes()
	at := from
	if !s.Begins(at) {
		at = s.Next(at)
	}
	for ; at < len(b); at = s.Next(at) {
		if len(b)-at < iscsi.HeaderLen {
			return at - from, false
		}
		if s.Known(at, at+iscsi.HeaderLen) && Plausible(b[at:], side != c.initiator) {
			c.lost[side] = false
			return at - from, true
		}
	}
	return at - from, false
}

// next takes one PDU and reports false if there is none in full.
func (c *Conn) next(side int, s Octets, at int) (int, bool) {
	b := s.Bytes()[at:]
	if len(b) < iscsi.HeaderLen {
		return 0, false
	}
	p := &pdu{BHS: iscsi.BHS(b), side: side, packet: s.Packet(at)}
	head := iscsi.HeaderLen + 4*int(p.BHS[4])
	if !s.Known(at, at+iscsi.HeaderLen) || c.late && !Plausible(b, side != c.initiator) {
		c.lost[side] = true
		c.vague(p.packet, "where PDUs begin is not known")
		return min(len(b), s.Next(at)-at), false
	}
	header := c.header
	if op := p.Opcode(); op == iscsi.LoginReq || op == iscsi.LoginRsp {
		header = no
	} else if header == unknown {
		if !c.decideHeader(s, at, head) {
			return 0, false
		}
		header = c.header
	}
	if len(b) < head || header == yes && len(b) < head+4 {
		return 0, false
	}
	if header == yes && s.Known(at, at+head+4) && binary.LittleEndian.Uint32(b[head:]) != crc.CRC32C(b[:head]) {
		p.end = s.Packet(at + head + 3)
		c.bad(p, headerDigest, "%s", p.Append(nil))
		c.lost[side] = true
		c.vague(p.end, "nothing tells where the next PDU begins behind a header with a wrong digest")
		return min(len(b), s.Next(at)-at), false
	}
	p.ahs = b[iscsi.HeaderLen:head]
	if header == yes {
		head += 4
	}
	n := c.segment(p, s, at, head)
	if n == 0 {
		return 0, false
	}
	c.take(p)
	return n, true
}

// segment reads the data segment, which lies behind head octets, and returns the
// length of the PDU, 0 if it is not all there.
func (c *Conn) segment(p *pdu, s Octets, at, head int) int {
	b := s.Bytes()[at:]
	n := p.DataLen()
	pad := -n & 3
	end := head + n + pad
	digest := c.data
	if op := p.Opcode(); op == iscsi.LoginReq || op == iscsi.LoginRsp {
		digest = no
	}
	if len(b) < end || n > 0 && digest == unknown && !c.decideData(s, at, head, end) {
		return 0
	}
	if digest == unknown {
		digest = c.data
	}
	if n == 0 {
		p.end = s.Packet(at + head - 1)
		return head
	}
	size := end
	if digest == yes {
		size += 4
	}
	if len(b) < size {
		return 0
	}
	p.end = s.Packet(at + size - 1)
	if p.cut = !s.Known(at+head, at+size); p.cut {
		return size
	}
	p.text = b[head : head+n]
	if digest == yes && binary.LittleEndian.Uint32(b[end:]) != crc.CRC32C(b[head:end]) {
		c.bad(p, dataDigest, "%s", p.Append(nil))
		p.cut, p.text = true, nil
		c.spoil(p)
	}
	for _, x := range b[head+n : end] {
		if x != 0 {
			c.bad(p, pduPad, "")
			break
		}
	}
	return size
}

// decideHeader finds out whether headers have digests, and reports false if that needs more octets.
func (c *Conn) decideHeader(s Octets, at, head int) bool {
	b := s.Bytes()[at:]
	switch {
	case len(b) < head || !s.Known(at, at+head):
		return false
	case len(b) == head || s.Begins(at+head): // nobody puts the digest into another segment
		c.header = no
	case len(b) < head+4:
		return false
	default:
		c.header = factOf(binary.LittleEndian.Uint32(b[head:]) == crc.CRC32C(b[:head]))
	}
	return true
}

// decideData does the same for the data segment from head to end.
func (c *Conn) decideData(s Octets, at, head, end int) bool {
	b := s.Bytes()[at:]
	known := s.Known(at+head, at+min(end+4, len(b)))
	switch {
	case len(b) == end || s.Begins(at+end):
		c.data = no
	case len(b) < end+4:
		return false
	case !known:
		c.data = factOf(s.Begins(at+end+4) || len(b) == end+4)
	default:
		c.data = factOf(binary.LittleEndian.Uint32(b[end:]) == crc.CRC32C(b[head:end]))
	}
	return true
}

// Ended judges a side that ends its direction with n octets that are no PDU.
func (c *Conn) Ended(side, packet, n int) {
	if n > 0 && !c.lost[side] && !c.late {
		c.to.Violate(side, packet, streamEnd, fmt.Sprintf("%d octets of one", n))
	}
}

// bad reports a violation.
func (c *Conn) bad(p *pdu, r *clause.Rule, format string, args ...any) {
	packet := p.packet
	if r == dataDigest || r == headerDigest || r == pduPad {
		packet = p.end
	}
	c.to.Violate(p.side, packet, r, fmt.Sprintf(format, args...))
}

// cross reports what PDUs of both sides prove together.
func (c *Conn) cross(p *pdu, r *clause.Rule, format string, args ...any) {
	if c.seen(p) {
		c.bad(p, r, format, args...)
	}
}

// seen tells whether everything that the other side than p's has sent was judged.
func (c *Conn) seen(p *pdu) bool { return !c.late && !c.lost[1-p.side] && c.to.Seen(1-p.side) }

const missingPackets = "packets are missing from the capture, or in another order than on the wire"

// take judges a PDU.
func (c *Conn) take(p *pdu) {
	op := p.Opcode()
	if !c.late && !c.to.Seen(1-p.side) {
		c.vague(p.packet, missingPackets)
	}
	c.to.PDU(p.side, p.packet, op.String(), string(p.advert.Describe(p.Append(nil))), p.DataLen())
	target := p.side != c.initiator
	if !op.Valid() || op.OfTarget() != target {
		c.bad(p, pduOpcode, "%v", op)
		return
	}
	if p.BHS[4] != 0 && op != iscsi.Command {
		c.bad(p, pduAHS, "%v", op)
	}
	if most := c.par.receive[1-p.side]; most > 0 && p.DataLen() > most && c.phase == fullFeature {
		c.bad(p, pduLong, "%d octets; %d are declared", p.DataLen(), most)
	}
	switch op {
	case iscsi.TaskRequest, iscsi.TaskResponse, iscsi.R2T, iscsi.LogoutReq, iscsi.LogoutRsp, iscsi.SNACK:
		if p.DataLen() > 0 {
			c.bad(p, pduNoData, "%v, %d octets", op, p.DataLen())
		}
	}
	switch {
	case c.phase == loggingIn:
		c.logIn(p)
	case c.phase == loginFailed:
		c.cross(p, loginAfterFail, "%v", op)
	case c.phase == loggedOut:
		c.cross(p, logoutTheEnd, "%v", op)
	default:
		if op == iscsi.LoginReq || op == iscsi.LoginRsp {
			c.cross(p, loginAgain, "%v", op)
		} else if target {
			c.ofTarget(p)
		} else {
			c.ofInitiator(p)
		}
	}
}

package scsi

import (
	"bytes"
	"encoding/binary"

	"tapir/wire/iscsi"
)

// status is the numbering of answers.
type status struct {
	next  uint32
	known bool
	acked uint32 // latest ExpStatSN
}

// status judges StatSN. A PDU with a status of its own takes a number.
func (c *Conn) status(p *pdu, takes bool) {
	s := &c.stat
	sn := p.U32(iscsi.StatSN)
	switch {
	case !s.known || sn == s.next:
	case c.par.recovery > 0 && iscsi.Less(sn, s.next):
		return // a SNACK has asked for it again
	default:
		c.bad(p, statSNNext, "%d instead of %d", sn, s.next)
	}
	s.known, s.next = true, sn
	if takes {
		s.next++
	}
}

// checkExpStatSN judges what an initiator acknowledges: each number once, and none before the first
// answer.
func (c *Conn) checkExpStatSN(p *pdu) {
	sn := p.U32(iscsi.ExpStatSN)
	if sn != c.stat.acked && c.stat.known && iscsi.Less(c.stat.next, sn) && c.seen(p) {
		c.bad(p, expStatSN, "%d; the next is %d", sn, c.stat.next)
	}
	c.stat.acked = sn
}

// window judges ExpCmdSN and MaxCmdSN.
func (c *Conn) window(p *pdu) {
	n := &c.cmd
	exp, most := p.U32(iscsi.ExpCmdSN), p.U32(iscsi.MaxCmdSN)
	if iscsi.Less(most, exp-1) {
		c.bad(p, maxCmdSN, "%d, %d", most, exp)
		return
	}
	if n.known && !n.shared && iscsi.Less(n.next, exp) && c.seen(p) {
		c.bad(p, expCmdSN, "%d; the next is %d", exp, n.next)
	}
	if !n.haveMost || iscsi.Less(n.most, most) {
		n.most, n.haveMost = most, true
	}
}

// ofTarget judges a PDU of the full feature phase.
func (c *Conn) ofTarget(p *pdu) {
	c.window(p)
	tag := p.U32(iscsi.ITT)
	switch p.Opcode() {
	case iscsi.DataIn:
		if p.BHS[1]&iscsi.Status != 0 {
			c.status(p, true)
		}
		c.dataIn(p)
		return
	case iscsi.R2T:
		c.status(p, false)
		c.readyToTransfer(p)
		return
	case iscsi.NopIn:
		c.status(p, tag != iscsi.Unassigned)
		c.nopIn(p)
		return
	}
	c.status(p, true)
	switch p.Opcode() {
	case iscsi.Response:
		c.response(p)
	case iscsi.TaskResponse:
		c.taskResponse(p)
	case iscsi.TextRsp:
		c.textResponse(p)
	case iscsi.LogoutRsp:
		if c.answers(p, iscsi.LogoutReq) != nil {
			c.end(tag, answered)
		}
		if p.BHS[2] == 0 {
			c.phase = loggedOut
		}
	case iscsi.Reject:
		c.reject(p)
	}
}

// answers finds the request that p answers; nil: it is not known.
func (c *Conn) answers(p *pdu, op iscsi.Opcode) *task {
	tag := p.U32(iscsi.ITT)
	t := c.tasks[tag]
	if t == nil {
		switch how, was := c.over[tag]; {
		case was && how == managed && !c.late:
			c.cross(p, afterTaskMgmt, "%#x", tag)
		case was && how == rejected:
		default:
			c.cross(p, tagUnknown, "%#x", tag)
			c.over[tag] = unasked
		}
		return nil
	}
	if t.bhs.Opcode() != op {
		c.cross(p, rspKind, "%v to %v in packet %d", p.Opcode(), t.bhs.Opcode(), t.packet)
		return nil
	}
	if final := t.bhs.U32(iscsi.CmdSN); !t.bhs.Immediate() && !c.cmd.shared &&
		!iscsi.Less(final, p.U32(iscsi.ExpCmdSN)) && (p.Opcode() != iscsi.DataIn || p.BHS[1]&iscsi.Status != 0) {
		c.bad(p, expCmdSNLate, "CmdSN %d, ExpCmdSN %d", final, p.U32(iscsi.ExpCmdSN))
	}
	return t
}

// turn judges the number of a Data-In or R2T in its command.
func (c *Conn) turn(p *pdu, t *task) bool {
	sn := p.U32(iscsi.DataSN)
	if sn == t.sn {
		t.sn++
		return true
	}
	if !(c.par.recovery > 0 && iscsi.Less(sn, t.sn)) {
		c.bad(p, inSN, "%d instead of %d", sn, t.sn)
	}
	t.vague = true
	return false
}

func (c *Conn) dataIn(p *pdu) {
	t := c.answers(p, iscsi.Command)
	if t == nil {
		return
	}
	flags, n := p.BHS[1], uint32(p.DataLen())
	last := flags&iscsi.Status != 0
	if last && (flags&iscsi.Final == 0 || p.BHS[3] == checkCondition) {
		c.bad(p, inStatus, "flags %#x, status %#x", flags, p.BHS[3])
	}
	if !t.vague {
		c.readData(p, t, n)
	}
	if !last {
		return
	}
	c.residual(p, t, p.BHS[3])
	c.end(p.U32(iscsi.ITT), answered)
}

// readData judges read data.
func (c *Conn) readData(p *pdu, t *task, n uint32) {
	switch {
	case !t.read:
		c.cross(p, inKind, "of packet %d", t.packet)
		t.vague = true
		return
	case !c.turn(p, t):
		return
	case p.U32(iscsi.Offset) != t.in && c.par.pdusInOrder == yes && c.par.seqsInOrder == yes && n > 0:
		c.bad(p, inOffset, "%d instead of %d", p.U32(iscsi.Offset), t.in)
		t.vague = true
		return
	}
	t.in += n
	t.run += n
	switch {
	case !t.both && t.in > t.expect:
		c.cross(p, inTooMuch, "%d of %d octets", t.in, t.expect)
		t.vague = true
	case c.par.burst > 0 && t.run > uint32(c.par.burst):
		c.bad(p, inBurst, "%d octets; %d are allowed", t.run, c.par.burst)
		t.run = 0
	}
	if p.BHS[1]&iscsi.Final != 0 {
		t.run = 0
	}
}

func (c *Conn) readyToTransfer(p *pdu) {
	t := c.answers(p, iscsi.Command)
	if t == nil {
		return
	}
	r := r2t{tag: p.U32(iscsi.TTT), offset: p.U32(iscsi.Offset), desired: p.U32(iscsi.Desired), lun: p.LUN()}
	defer func() { t.r2ts = append(t.r2ts, r) }()
	if t.vague || !c.turn(p, t) {
		return
	}
	again := r.tag == iscsi.Unassigned
	for _, x := range t.r2ts {
		again = again || x.tag == r.tag
	}
	for _, x := range []struct {
		broken bool
		fail   func()
	}{
		{!t.write, func() { c.cross(p, r2tKind, "of packet %d", t.packet) }},
		{again, func() { c.bad(p, r2tTag, "%#x", r.tag) }},
		{r.desired == 0 || c.par.burst > 0 && r.desired > uint32(c.par.burst),
			func() { c.bad(p, r2tDesired, "%d; MaxBurstLength is %d", r.desired, c.par.burst) }},
		{uint64(r.offset)+uint64(r.desired) > uint64(t.expect),
			func() { c.cross(p, r2tRange, "%d at %d of %d octets", r.desired, r.offset, t.expect) }},
		{r.offset != t.asked && c.par.seqsInOrder == yes && c.par.leveled && c.par.recovery == 0 && !t.open,
			func() { c.cross(p, r2tOffset, "%d instead of %d", r.offset, t.asked) }},
		{c.par.r2ts > 0 && len(t.r2ts) >= c.par.r2ts && c.seen(p),
			func() { c.bad(p, r2tMany, "%d; %d are allowed", len(t.r2ts)+1, c.par.r2ts) }},
		{r.lun != t.bhs.LUN(), func() { c.bad(p, r2tLUN, "%#x instead of %#x", r.lun, t.bhs.LUN()) }},
	} {
		if x.broken {
			x.fail()
			t.vague = true
			return
		}
	}
	t.asked = r.offset + r.desired
}

// checkCondition is the SCSI status that has sense data (SAM-5 section 5.3).
const checkCondition = 2

func (c *Conn) response(p *pdu) {
	t := c.answers(p, iscsi.Command)
	if t == nil {
		return
	}
	code, flags := p.BHS[2], p.BHS[1]
	if flags&(iscsi.Overflow|iscsi.Underflow) == iscsi.Overflow|iscsi.Underflow || flags&0x18 == 0x18 {
		c.bad(p, rspFlags, "%#x", flags)
	}
	if code > 1 && code < 0x80 {
		c.bad(p, rspCode, "%d", code)
	}
	if code == 0 && p.BHS[3] == checkCondition && !p.cut &&
		(len(p.text) < 2 || int(binary.BigEndian.Uint16(p.text))+2 > len(p.text)) {
		c.bad(p, rspSense, "%d octets", len(p.text))
	}
	if exp := p.U32(iscsi.ExpDataSN); code == 0 && !t.vague && exp != t.sn && c.iser == nil {
		c.bad(p, rspExpSN, "%d instead of %d", exp, t.sn)
	}
	if code == 0 {
		c.residual(p, t, p.BHS[3])
	}
	c.end(p.U32(iscsi.ITT), answered)
}

// residual holds the octets of a command that has succeeded against its residual.
func (c *Conn) residual(p *pdu, t *task, status byte) {
	if status != 0 || t.vague || t.both || p.cut || !c.seen(p) {
		return
	}
	under, over := p.BHS[1]&iscsi.Underflow != 0, p.BHS[1]&iscsi.Overflow != 0
	count := p.U32(iscsi.Residual)
	switch {
	case under && count > t.expect:
		c.bad(p, rspResidual, "%d too few of %d octets", count, t.expect)
	case t.read && under && t.in != t.expect-count, t.read && !under && t.in != t.expect:
		c.bad(p, rspResidual, "%d of %d octets came, %d too few", t.in, t.expect, count)
	case t.write && !under && t.out+t.got != t.expect, over && t.write && t.out+t.got != t.expect:
		c.bad(p, rspResidual, "%d of %d octets were sent, %d too few", t.out+t.got, t.expect, count)
	}
}

func (c *Conn) taskResponse(p *pdu) {
	t := c.answers(p, iscsi.TaskRequest)
	if t == nil {
		return
	}
	tag := p.U32(iscsi.ITT)
	c.end(tag, answered)
	if p.BHS[2] != 0 {
		return
	}
	about := t.bhs.U32(iscsi.RefTag)
	for k, x := range c.tasks {
		hit := false
		switch t.bhs[1] & 0x7f {
		case 1: // ABORT TASK
			hit = k == about
		case 2, 4, 5: // ABORT TASK SET, CLEAR TASK SET, LOGICAL UNIT RESET
			hit = x.bhs.LUN() == t.bhs.LUN()
		case 6, 7: // TARGET RESET
			hit = true
		}
		if hit && x.bhs.Opcode() == iscsi.Command {
			c.end(k, managed)
		}
	}
}

func (c *Conn) textResponse(p *pdu) {
	flags, tag := p.BHS[1], p.U32(iscsi.TTT)
	final := flags&iscsi.Final != 0
	if final && flags&iscsi.Continue != 0 || final != (tag == iscsi.Unassigned) {
		c.bad(p, textFlags, "flags %#x, tag %#x", flags, tag)
	}
	c.cmd.text = false
	if c.answers(p, iscsi.TextReq) != nil && final {
		c.end(p.U32(iscsi.ITT), answered)
	}
	c.redeclare(p)
}

func (c *Conn) nopIn(p *pdu) {
	itt, tag := p.U32(iscsi.ITT), p.U32(iscsi.TTT)
	if itt == iscsi.Unassigned {
		if p.DataLen() > 0 {
			c.bad(p, nopUnasked, "%d octets", p.DataLen())
		}
		if tag != iscsi.Unassigned {
			c.pings[tag] = true
		}
		return
	}
	if tag != iscsi.Unassigned {
		c.bad(p, nopUnasked, "tag %#x", tag)
	}
	t := c.answers(p, iscsi.NopOut)
	if t == nil {
		return
	}
	if n := min(len(p.text), len(t.data)); !t.vague && !p.cut && (!bytes.Equal(p.text[:n], t.data[:n]) ||
		len(p.text) > len(t.data) || len(p.text) < len(t.data) && len(p.text) < c.par.receive[c.initiator]) {
		c.cross(p, nopEcho, "%d of %d octets", len(p.text), len(t.data))
	}
	c.end(itt, answered)
}

// reject takes the header of the PDU that is refused. What becomes of its task is not known.
func (c *Conn) reject(p *pdu) {
	if p.cut {
		return
	}
	if len(p.text) < iscsi.HeaderLen {
		c.bad(p, rejectBHS, "%d octets", len(p.text))
		return
	}
	h := iscsi.BHS(p.text)
	tag := h.U32(iscsi.ITT)
	t := c.tasks[tag]
	switch {
	case t == nil:
	case t.bhs.Opcode() == iscsi.Command:
		t.vague = true
	default:
		c.end(tag, rejected)
	}
	if h.Opcode() == iscsi.TextReq {
		c.cmd.text = false
	}
}

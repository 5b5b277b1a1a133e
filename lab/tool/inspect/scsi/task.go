package scsi

import "tapir/wire/iscsi"

// command is the numbering of commands.
type command struct {
	next     uint32 // CmdSN of the next one
	known    bool
	shared   bool   // with other connections of the session
	most     uint32 // highest MaxCmdSN
	haveMost bool
	logout   bool // a Logout Request was sent
	text     bool // a Text Request waits for its answer
}

// task is a request that waits for its answer.
type task struct {
	bhs    iscsi.BHS
	packet int
	read   bool
	write  bool
	both   bool
	expect uint32 // Expected Data Transfer Length
	data   []byte // of a NOP-Out
	vague  bool   // not all that belongs to it was seen, or was right
	open   bool   // unsolicited data is to come
	out    uint32 // octets of unsolicited data
	outSN  uint32
	in     uint32 // octets of Data-In
	run    uint32 // of them, in the present sequence
	sn     uint32 // DataSN or R2TSN of the next PDU of the target
	asked  uint32 // where the next R2T begins
	got    uint32 // octets that were sent for R2Ts
	r2ts   []r2t
	advert iscsi.Advert // memory of the initiator, in iSER
	busy   int          // RDMA Reads of it that are not answered
	early  *pdu         // the response, if it came before their answers
}

// r2t is an R2T that is not fulfilled yet.
type r2t struct {
	tag, offset, desired, have, sn uint32
	lun                            uint64
}

// ending is how a task has ended.
type ending uint8

const (
	answered ending = iota + 1
	managed         // by task management
	rejected
	unasked // an answer has come before the request
)

// mostOver bounds the tags of tasks that are over.
const mostOver = 1 << 16

// end takes a task away.
func (c *Conn) end(tag uint32, how ending) {
	if len(c.over) > mostOver {
		clear(c.over)
	}
	c.over[tag] = how
	if t := c.tasks[tag]; t != nil {
		c.settled(t)
		delete(c.tasks, tag)
	}
}

// settled takes a task out of those whose unsolicited data is to come.
func (c *Conn) settled(t *task) {
	t.open = false
	for i, x := range c.unsol {
		if x == t {
			c.unsol = append(c.unsol[:i], c.unsol[i+1:]...)
			return
		}
	}
}

// spoil marks the task of a PDU whose data nobody can take.
func (c *Conn) spoil(p *pdu) {
	if t := c.tasks[p.U32(iscsi.ITT)]; t != nil {
		t.vague = true
	}
}

// ofInitiator judges a PDU of the full feature phase.
func (c *Conn) ofInitiator(p *pdu) {
	c.checkExpStatSN(p)
	op := p.Opcode()
	if op == iscsi.DataOut {
		c.dataOut(p)
		return
	}
	if op == iscsi.SNACK {
		if c.par.leveled && c.par.recovery == 0 {
			c.bad(p, snackLevel, "")
		}
		return
	}
	if c.cmd.logout {
		c.bad(p, logoutMore, "%v", op)
	}
	retry := c.number(p)
	tag := p.U32(iscsi.ITT)
	if op == iscsi.NopOut && tag == iscsi.Unassigned {
		if !p.Immediate() {
			c.bad(p, nopImmediate, "")
		}
		c.pong(p)
		return
	}
	if tag == iscsi.Unassigned {
		c.bad(p, tagReserved, "%v", op)
		return
	}
	more := op == iscsi.TextReq && p.U32(iscsi.TTT) != iscsi.Unassigned
	if t := c.tasks[tag]; t != nil && !t.vague && !retry && !more {
		c.cross(p, tagInUse, "%#x, of packet %d", tag, t.packet)
	}
	if retry {
		return
	}
	t := &task{bhs: p.BHS, packet: p.packet, vague: p.cut && op == iscsi.Command || c.over[tag] == unasked}
	c.tasks[tag] = t
	delete(c.over, tag)
	c.request(p, t)
}

// request judges what a request has beside its numbers.
func (c *Conn) request(p *pdu, t *task) {
	switch p.Opcode() {
	case iscsi.Command:
		c.command(p, t)
	case iscsi.NopOut:
		if t.data = append([]byte(nil), p.text...); p.cut {
			t.vague = true
		}
		c.pong(p)
	case iscsi.TaskRequest:
		if f := p.BHS[1] & 0x7f; f == 0 || f > 8 {
			c.bad(p, taskFunction, "%d", f)
		}
	case iscsi.LogoutReq:
		c.cmd.logout = true
		if r := p.BHS[1] & 0x7f; r > 2 {
			c.bad(p, logoutReason, "%d", r)
		}
	case iscsi.TextReq:
		if c.cmd.text {
			c.cross(p, textMany, "")
		}
		c.cmd.text = true
		if p.BHS[1]&(iscsi.Final|iscsi.Continue) == iscsi.Final|iscsi.Continue {
			c.bad(p, textFlags, "C and F")
		}
		c.redeclare(p)
	}
}

// number judges CmdSN, and reports true for a request that is sent again.
func (c *Conn) number(p *pdu) (retry bool) {
	n := &c.cmd
	sn := p.U32(iscsi.CmdSN)
	defer func() { n.known = true }()
	if t := c.tasks[p.U32(iscsi.ITT)]; t != nil && t.bhs.Opcode() == p.Opcode() && t.bhs.U32(iscsi.CmdSN) == sn &&
		!p.Immediate() && c.par.recovery > 0 {
		return true
	}
	if p.Immediate() {
		if n.known && !n.shared && sn != n.next && !c.late {
			c.bad(p, cmdSNCurrent, "%d instead of %d", sn, n.next)
		}
		if !n.known {
			n.next = sn
		}
		return false
	}
	switch {
	case n.haveMost && !n.shared && iscsi.Less(n.most, sn) && c.seen(p):
		c.bad(p, cmdSNWindow, "%d; MaxCmdSN is %d", sn, n.most)
		if sn != n.next {
			return false // the target ignores it
		}
	case !n.known || sn == n.next:
	case iscsi.Less(sn, n.next):
		c.bad(p, cmdSNOrder, "%d behind %d", sn, n.next-1)
		return false
	case !n.shared && !c.late:
		c.bad(p, cmdSNNext, "%d instead of %d", sn, n.next)
	}
	n.next = sn + 1
	return false
}

func (c *Conn) command(p *pdu, t *task) {
	flags := p.BHS[1]
	t.read, t.write = flags&iscsi.Read != 0, flags&iscsi.Write != 0
	t.both = t.read && t.write
	t.expect = p.U32(iscsi.Expected)
	n := uint32(p.DataLen())
	final := flags&iscsi.Final != 0
	if !final && !t.write || !t.read && !t.write && t.expect != 0 {
		c.bad(p, cmdFlags, "%#x, %d octets expected", flags, t.expect)
		t.vague = true
	}
	if n > 0 && !t.write {
		c.bad(p, pduNoData, "%v, %d octets", p.Opcode(), n)
	}
	if n > 0 && c.par.immediate == no {
		c.bad(p, cmdImmediate, "%d octets", n)
	}
	if c.par.first > 0 && n > uint32(c.par.first) {
		c.bad(p, cmdFirstBurst, "%d octets; %d are allowed", n, c.par.first)
	}
	if t.write && n > t.expect {
		c.bad(p, cmdTooMuch, "%d of %d octets", n, t.expect)
	}
	t.out, t.asked = n, n
	if final {
		return
	}
	if c.par.initialR2T == yes {
		c.bad(p, cmdUnsol, "")
	}
	t.open = true
	c.unsol = append(c.unsol, t)
}

// dataOut judges written data.
func (c *Conn) dataOut(p *pdu) {
	t := c.tasks[p.U32(iscsi.ITT)]
	switch {
	case t == nil:
		if _, was := c.over[p.U32(iscsi.ITT)]; !was && !c.late {
			c.cross(p, tagUnknown, "%#x", p.U32(iscsi.ITT))
		}
		return
	case t.vague:
		c.vagueOut(p, t)
		return
	}
	tag := p.U32(iscsi.TTT)
	if tag == iscsi.Unassigned {
		c.unsolicited(p, t)
		return
	}
	for i := range t.r2ts {
		if t.r2ts[i].tag == tag {
			c.solicited(p, t, i)
			return
		}
	}
	if c.seen(p) {
		c.bad(p, outTag, "%#x", tag)
	}
}

// vagueOut takes data of a task of which too little is known.
func (c *Conn) vagueOut(p *pdu, t *task) {
	if p.BHS[1]&iscsi.Final != 0 {
		tag := p.U32(iscsi.TTT)
		if tag == iscsi.Unassigned {
			c.settled(t)
		}
		for i := range t.r2ts {
			if t.r2ts[i].tag == tag {
				t.r2ts = append(t.r2ts[:i], t.r2ts[i+1:]...)
				return
			}
		}
	}
}

// sequence judges number and place of a Data-Out.
func (c *Conn) sequence(p *pdu, t *task, sn, offset uint32) bool {
	switch {
	case p.U32(iscsi.DataSN) != sn:
		c.bad(p, outSN, "%d instead of %d", p.U32(iscsi.DataSN), sn)
	case p.U32(iscsi.Offset) != offset && c.par.pdusInOrder == yes:
		c.bad(p, outOffset, "%d instead of %d", p.U32(iscsi.Offset), offset)
	default:
		return true
	}
	t.vague = true
	return false
}

func (c *Conn) unsolicited(p *pdu, t *task) {
	final := p.BHS[1]&iscsi.Final != 0
	if !t.open {
		c.bad(p, outUnsol, "%d octets at %d", p.DataLen(), p.U32(iscsi.Offset))
		t.vague = true
		return
	}
	if c.unsol[0] != t {
		c.cross(p, outOrder, "of the command in packet %d before that in packet %d", t.packet, c.unsol[0].packet)
	}
	if !c.sequence(p, t, t.outSN, t.out) {
		c.vagueOut(p, t)
		return
	}
	t.outSN++
	t.out += uint32(p.DataLen())
	t.asked = t.out
	limit := t.expect
	if c.par.first > 0 {
		limit = min(limit, uint32(c.par.first))
	}
	switch {
	case t.out > t.expect:
		c.bad(p, cmdTooMuch, "%d of %d octets", t.out, t.expect)
	case t.out > limit && c.par.first > 0:
		c.bad(p, cmdFirstBurst, "%d octets; %d are allowed", t.out, limit)
	case final && t.out < limit && c.par.first > 0:
		c.bad(p, outPart, "%d of %d octets", t.out, limit)
	}
	if final {
		c.settled(t)
	}
}

func (c *Conn) solicited(p *pdu, t *task, i int) {
	r := &t.r2ts[i]
	final := p.BHS[1]&iscsi.Final != 0
	if p.LUN() != r.lun {
		c.bad(p, outLUN, "%#x instead of %#x", p.LUN(), r.lun)
	}
	if !c.sequence(p, t, r.sn, r.offset+r.have) {
		c.vagueOut(p, t)
		return
	}
	r.sn++
	r.have += uint32(p.DataLen())
	t.got += uint32(p.DataLen())
	switch {
	case r.have > r.desired:
		c.bad(p, outRange, "%d of %d octets", r.have, r.desired)
		t.vague = true
	case final != (r.have == r.desired):
		c.bad(p, outFinal, "%d of %d octets", r.have, r.desired)
		t.vague = true
	}
	if final || r.have >= r.desired {
		t.r2ts = append(t.r2ts[:i], t.r2ts[i+1:]...)
	}
}

// pong judges the transfer tag of a NOP-Out.
func (c *Conn) pong(p *pdu) {
	tag := p.U32(iscsi.TTT)
	if tag == iscsi.Unassigned {
		return
	}
	if !c.pings[tag] && c.seen(p) {
		c.bad(p, nopTag, "%#x", tag)
	}
	delete(c.pings, tag)
}

package iscsi

import (
	"errors"
	"net/netip"

	"tapir/nic/iscsi/keys"
	"tapir/nic/scsi"
	"tapir/wire/frame"
	"tapir/wire/iscsi"
)

// phase of a connection.
type phase uint8

const (
	loggingIn phase = iota
	fullFeature
	ended
)

// Conn is a connection, and in its full feature phase a session.
type Conn struct {
	t *Target
	offloaded
	link          Link
	move          mover
	iser          bool // by RDMA
	lingering     bool // the initiator is to end the connection
	local, remote netip.AddrPort
	phase         phase
	out           output
	rd            iscsi.Reader
	heard         frame.Time // when the peer last sent; in the login, when it began
	pinged        bool
	closing       bool
	held          int // octets of buffers

	login     login
	node      *Node // nil: discovery
	initiator string
	isid      [6]byte
	cid       uint16
	tsih      uint16
	nexus     *scsi.Nexus
	par       keys.Params

	statSN, expCmdSN uint32
	tag              uint32       // the last target transfer tag
	advert           iscsi.Advert // of the PDU that has come by RDMA
	greeted          bool         // the Hello that iSER wants has come
	intrusions       []intrusion
	outgoing         Outgoing  // the one that is being sent
	header           iscsi.BHS // of the response that is being sent
	tasks            map[uint32]*task
	queued           int // of tasks: those that count against the window
	idle             *task
	placing          *task // whose data the Data-Out that is being read holds
	early            []early
	earlyLen         int
	late             [16]uint32 // tags of tasks that ended before all of their data had come
	lateN            int
	orphan           *Buffer // of such a task: the data that is being read still goes there
	text             text
}

// early is a PDU that came before its turn.
type early struct {
	bhs    iscsi.BHS
	data   []byte
	advert iscsi.Advert
}

// Receive takes what the peer has sent (borrowed), in order.
func (c *Conn) Receive(data []byte, now frame.Time) {
	if c.phase == fullFeature {
		c.heard, c.pinged = now, false
	}
	for c.phase != ended && !c.closing {
		n, ev, err := c.rd.Next(data)
		data = data[n:]
		switch {
		case err != nil:
			c.broken(err)
		case ev == iscsi.More:
			return
		case ev == iscsi.Head:
			note(c.t.cfg.Notes, &c.rd.BHS)
			c.placing = nil
			if c.phase == fullFeature && c.rd.BHS.Opcode() == iscsi.DataOut {
				c.drain(now) // its command comes first
				if dst := c.place(&c.rd.BHS); dst != nil {
					c.rd.Into(dst)
				}
			}
		default:
			if c.rd.DataBad {
				noteBad(c.t.cfg.Notes, "data", &c.rd.BHS)
			}
			c.taken(now)
		}
	}
}

// broken ends a connection whose stream cannot be read any further.
func (c *Conn) broken(err error) {
	if errors.Is(err, iscsi.ErrHeaderDigest) {
		noteBad(c.t.cfg.Notes, "header", &c.rd.BHS)
		c.t.stats[HeaderDigest]++
		c.violation(ErrHeaderDigest)
	} else {
		c.t.stats[TooLong]++
		c.violation(ErrSegmentLength)
	}
	c.abort()
}

// Next is how many octets there are to send at off, at most limit.
func (c *Conn) Next(off uint64, limit int) int { return c.out.next(off, limit) }

// Render writes octets that Next has told of to p.
func (c *Conn) Render(off uint64, p []byte) { c.out.render(off, p) }

// Acked says that the peer has everything before off.
func (c *Conn) Acked(off uint64) { c.out.acked(off, &c.t.pool) }

// PeerClosed says that the peer sends no more.
func (c *Conn) PeerClosed() { c.close() }

// close ends the connection when all is sent.
func (c *Conn) close() {
	if !c.closing && c.phase != ended {
		c.closing = true
		c.leave()
		c.link.CloseBoth()
	}
}

// abort ends the connection at once.
func (c *Conn) abort() {
	if c.phase != ended {
		c.closing = true
		c.leave()
		c.link.Abort()
	}
}

// Gone says that the connection has ended.
func (c *Conn) Gone() {
	if c.phase == ended {
		return
	}
	c.leave()
	c.phase = ended
	c.t.pool.drop(c.orphan)
	c.out.acked(c.out.end, &c.t.pool)
	for i, o := range c.t.conns {
		if o == c {
			c.t.conns = append(c.t.conns[:i], c.t.conns[i+1:]...)
			break
		}
	}
}

// leave ends the session: tasks, reservations.
func (c *Conn) leave() {
	for _, t := range c.tasks {
		c.cancel(t, nil)
	}
	if c.nexus != nil {
		c.nexus.Close()
		c.nexus = nil
	}
}

// poll does what is due on the connection.
func (c *Conn) poll(now frame.Time) frame.Time {
	limit := pingAfter
	switch {
	case c.phase == loggingIn:
		limit = loginWithin
	case c.lingering:
		limit = lingerFor
	}
	if at := c.heard.Add(limit); now < at {
		return at
	}
	switch {
	case c.phase == loggingIn:
		c.t.stats[LoginTimeout]++
		c.abort()
		return frame.Never
	case c.lingering:
		c.lingering, c.heard = false, now
		c.link.CloseBoth()
		return now.Add(pingAfter)
	case c.closing || c.pinged:
		c.t.stats[Silent]++
		c.abort()
		return frame.Never
	}
	c.pinged, c.heard = true, now
	c.ping()
	return now.Add(limit)
}

// send sends a PDU: data is its own, not part of a buffer; t, which may be nil, is the task that
// it ends. A PDU with a status of its own takes a StatSN.
func (c *Conn) send(h *iscsi.BHS, data []byte, t *task) {
	c.number(h)
	if !c.move.send(h, data, t) {
		c.t.stats[SlowReader]++
		c.abort()
		return
	}
	c.link.Kick()
}

// number fills in what every PDU of a target tells of sequence numbers.
func (c *Conn) number(h *iscsi.BHS) {
	h.Put(iscsi.StatSN, c.statSN)
	h.Put(iscsi.ExpCmdSN, c.expCmdSN)
	h.Put(iscsi.MaxCmdSN, c.maxCmdSN())
}

// maxCmdSN is the last command that the initiator may send.
func (c *Conn) maxCmdSN() uint32 { return c.expCmdSN + uint32(c.t.window()-c.queued) - 1 }

// answerTo is the header of a PDU that answers one.
func answerTo(to *iscsi.BHS, op iscsi.Opcode) (h iscsi.BHS) {
	h[0], h[1] = byte(op), iscsi.Final
	h.Put(iscsi.ITT, to.U32(iscsi.ITT))
	return h
}

// respond sends a PDU that has a status, which the initiator acknowledges.
func (c *Conn) respond(h *iscsi.BHS, data []byte) {
	c.send(h, data, nil)
	c.statSN++
}

// Reasons of a Reject (RFC 7143 section 11.17.1).
const (
	rejectDigest    = 0x02
	rejectSNACK     = 0x03
	rejectProtocol  = 0x04
	rejectOpcode    = 0x05
	rejectImmediate = 0x06
	rejectBusy      = 0x07
	rejectField     = 0x09
)

// reject refuses a PDU.
func (c *Conn) reject(reason byte, bad *iscsi.BHS) {
	c.t.stats[Rejected]++
	if op := bad.Opcode(); (op == iscsi.DataOut || op == iscsi.SNACK) && !c.intrude(0, 1) {
		return // other requests have answers that are expected
	}
	var h iscsi.BHS
	h[0], h[1], h[2] = byte(iscsi.Reject), iscsi.Final, reason
	h.Put(iscsi.ITT, iscsi.Unassigned)
	c.respond(&h, append([]byte(nil), bad[:]...))
}

// Events of an asynchronous message (RFC 7143 section 11.9.1).
const eventDropSession = 3

// async sends an asynchronous message.
func (c *Conn) async(event byte) {
	if !c.intrude(0, 1) {
		return
	}
	var h iscsi.BHS
	h[0], h[1], h[36] = byte(iscsi.Async), iscsi.Final, event
	h.Put(iscsi.ITT, iscsi.Unassigned)
	h[40], h[41] = 0, 2 // Parameter2: seconds before the initiator may come back
	c.respond(&h, nil)
}

// ping asks a silent peer whether it is there.
func (c *Conn) ping() {
	var h iscsi.BHS
	h[0], h[1] = byte(iscsi.NopIn), iscsi.Final
	h.Put(iscsi.ITT, iscsi.Unassigned)
	tag := c.newTag()
	if !c.intrude(tag, 0) {
		return
	}
	h.Put(iscsi.TTT, tag)
	c.t.stats[Pings]++
	c.send(&h, nil, nil)
}

// newTag makes a target transfer tag.
func (c *Conn) newTag() uint32 {
	if c.tag++; c.tag == iscsi.Unassigned {
		c.tag = 1
	}
	return c.tag
}

// taken has a whole PDU taken. Those of the full feature phase go by the completion queue but
// for data that is asked for, which has its place.
func (c *Conn) taken(now frame.Time) {
	h, data := &c.rd.BHS, c.rd.Data
	if c.hw == nil || h.Opcode() == iscsi.DataOut || c.rd.DataBad {
		c.pdu(h, data)
		return
	}
	if bad := c.complete(h, data, now, c.later); bad != NoError {
		c.t.stats[Overrun]++
		c.violation(bad)
		c.abort()
	}
}

// later takes a PDU out of the completion queue.
func (c *Conn) later(h *iscsi.BHS, data []byte, _ frame.Time) {
	if !c.closing && c.phase != ended {
		c.pdu(h, data)
	}
}

// pdu takes a whole PDU.
func (c *Conn) pdu(h *iscsi.BHS, data []byte) {
	switch {
	case c.phase == loggingIn:
		c.loginPDU(h, data)
		return
	case h.Opcode() == iscsi.DataOut:
		c.dataOut(h, data)
		return
	case c.rd.DataBad && h == &c.rd.BHS:
		c.t.stats[DataDigest]++
		c.reject(rejectDigest, h)
		return
	case h.Opcode() == iscsi.SNACK:
		c.reject(rejectSNACK, h)
		return
	case h.Immediate():
		c.request(h, data)
		return
	}
	sn := h.U32(iscsi.CmdSN)
	if iscsi.Less(sn, c.expCmdSN) || iscsi.Less(c.maxCmdSN(), sn) {
		c.t.stats[OutsideWindow]++ // RFC 7143 section 4.2.2.1: ignored silently
		return
	}
	if sn != c.expCmdSN {
		c.keep(h, data)
		return
	}
	c.expCmdSN++
	c.request(h, data)
	c.catchUp()
}

// keep keeps a PDU whose turn is yet to come.
func (c *Conn) keep(h *iscsi.BHS, data []byte) {
	if c.earlyLen += len(data); c.earlyLen > maxEarly || len(c.early) >= window {
		c.t.stats[OutsideWindow]++
		c.abort()
		return
	}
	c.early = append(c.early, early{*h, append([]byte(nil), data...), c.advert})
}

// catchUp takes the PDUs whose turn has come.
func (c *Conn) catchUp() {
	for i := 0; i < len(c.early); i++ {
		if e := c.early[i]; e.bhs.U32(iscsi.CmdSN) == c.expCmdSN && !c.closing {
			c.early = append(c.early[:i], c.early[i+1:]...)
			c.earlyLen -= len(e.data)
			c.expCmdSN++
			c.advert = e.advert
			c.request(&e.bhs, e.data)
			i = -1
		}
	}
}

// request does what a PDU asks for; its turn has come.
func (c *Conn) request(h *iscsi.BHS, data []byte) {
	op := h.Opcode()
	if c.node == nil && (op == iscsi.Command || op == iscsi.TaskRequest) {
		c.reject(rejectOpcode, h) // a discovery session has text and logout only
		return
	}
	switch op {
	case iscsi.Command:
		c.command(h, data)
	case iscsi.NopOut:
		c.nop(h, data)
	case iscsi.TaskRequest:
		c.manage(h)
	case iscsi.TextReq:
		c.textPDU(h, data)
	case iscsi.LogoutReq:
		c.logout(h)
	case iscsi.LoginReq:
		c.reject(rejectProtocol, h)
	default:
		c.reject(rejectOpcode, h)
	}
}

// nop answers a ping.
func (c *Conn) nop(h *iscsi.BHS, data []byte) {
	if h.U32(iscsi.ITT) == iscsi.Unassigned {
		return // it answers one of ours
	}
	data = data[:min(len(data), c.par.Send)]
	r := answerTo(h, iscsi.NopIn)
	copy(r[8:16], h[8:16])
	r.Put(iscsi.TTT, iscsi.Unassigned)
	c.respond(&r, append([]byte(nil), data...))
}

// Answers to a logout (RFC 7143 section 11.15.1).
const (
	logoutDone        = 0
	logoutUnknownCID  = 1
	logoutUnsupported = 2
)

// logout ends the session, which has one connection.
func (c *Conn) logout(h *iscsi.BHS) {
	result := byte(logoutDone)
	switch reason := h[1] & 0x7f; {
	case reason > 1:
		result = logoutUnsupported
	case reason == 1 && uint16(h[20])<<8|uint16(h[21]) != c.cid:
		result = logoutUnknownCID
	}
	c.t.stats[Logouts]++
	r := answerTo(h, iscsi.LogoutRsp)
	r[2] = result
	c.respond(&r, nil)
	switch {
	case result != logoutDone || c.closing:
	case c.iser: // the initiator ends the connection: libiscsi does not survive that the target does
		c.closing, c.lingering = true, true
		c.leave()
	default:
		c.close()
	}
}

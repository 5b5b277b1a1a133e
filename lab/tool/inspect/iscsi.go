package inspect

import (
	"strings"

	"tapir/lab/tool/inspect/clause"
	"tapir/lab/tool/inspect/scsi"
	"tapir/wire/iscsi"
	"tapir/wire/tcp"
)

// session is a connection as its judge of iSCSI sees it: scsi.Reporter.
type session struct{ *conn }

// Violate implements scsi.Reporter.
func (c session) Violate(side, packet int, r *clause.Rule, detail string) {
	c.half[side].violate(r, packet, "%s", detail)
}

// PDU implements scsi.Reporter.
func (c session) PDU(side, packet int, name, detail string, octets int) {
	h := c.half[side]
	h.stat.PDUs++
	h.stat.message(name, uint64(octets))
	h.event(packet, h.stream.now, name, strings.TrimPrefix(strings.TrimPrefix(detail, name), " "))
}

// Part implements scsi.Reporter.
func (c session) Part(packet int, why string) { c.part(why) }

// Seen implements scsi.Reporter: everything that the peer has acknowledged was judged.
func (c session) Seen(side int) bool {
	h, o := c.half[side], c.half[1-side]
	late := o.unsent
	return h.begun && h.cut == 0 && !h.stream.resumed && o.acked.LessEq(h.order.Next) &&
		(len(late) == 0 || late[len(late)-1].end.LessEq(h.order.Next))
}

// octets are what a stream has that nobody has taken: scsi.Octets.
type octets struct{ *fpduStream }

// Bytes implements scsi.Octets.
func (o octets) Bytes() []byte { return o.rest() }

// Known implements scsi.Octets.
func (o octets) Known(from, to int) bool { return !o.unknown(o.done+uint64(from), o.done+uint64(to)) }

// Packet implements scsi.Octets.
func (o octets) Packet(at int) int { return o.packet(o.done + uint64(at)) }

// Begins implements scsi.Octets.
func (o octets) Begins(at int) bool { return o.begins(o.done + uint64(at)) }

// Next implements scsi.Octets.
func (o octets) Next(at int) int { return int(o.segmentEnd(o.done+uint64(at)) - o.done) }

// speaksISCSI makes the connection one of iSCSI if b, the first octets of a side,
// begin a login.
func speaksISCSI(h *half, b []byte) {
	if scsi.Begins(b) {
		h.c.scsi = scsi.New(session{h.c}, h.side, false)
		h.c.flow.Protocol = "iSCSI"
	}
}

// joins begins with a connection whose start is missing, at a PDU to or from the
// port of iSCSI, and reports false if there is none.
func joins(h *half, t *tcp.Header, b []byte) bool {
	target := h.addr.Port() == iscsi.Port
	if h.c.req != nil || target == (h.peer().addr.Port() == iscsi.Port) || !scsi.Plausible(b, target) {
		return false
	}
	h.begin(t.Seq - 1)
	c := h.c
	for _, x := range c.half {
		x.stream.state = streamOther
	}
	if c.scsi == nil {
		initiator := h.side
		if target {
			initiator = 1 - h.side
		}
		late := !scsi.Begins(b)
		c.scsi = scsi.New(session{c}, initiator, late)
		c.flow.Protocol = "iSCSI"
		if late {
			c.part("begins behind the login: keys, digests and tasks under way are not known, " +
				"and what depends on them is not judged")
		}
	}
	return true
}

// finishISCSI ends the judging of a connection of iSCSI.
func (c *conn) finishISCSI() {
	if c.flow.State == "" {
		c.flow.State = Replayed
	}
	c.flow.Agreed = c.scsi.Agreed()
}

package iscsi

import (
	"tapir/nic/iscsi/keys"
	"tapir/wire/iscsi"
)

// text is a text negotiation of the full feature phase.
type text struct {
	tag   uint32 // of the answer that goes on
	asked []byte
	reply []byte
}

// textPDU takes a text request (RFC 7143 section 11.10).
func (c *Conn) textPDU(h *iscsi.BHS, data []byte) {
	x := &c.text
	switch tag := h.U32(iscsi.TTT); {
	case tag == iscsi.Unassigned:
		*x = text{}
	case tag != x.tag || x.tag == 0:
		c.reject(rejectField, h)
		return
	}
	if x.asked = append(x.asked, data...); len(x.asked) > maxText {
		*x = text{}
		c.reject(rejectProtocol, h)
		return
	}
	if h[1]&iscsi.Continue != 0 {
		c.tell(h)
		return
	}
	if len(x.reply) == 0 {
		pairs, err := iscsi.ParseText(x.asked)
		if err != nil {
			*x = text{}
			c.reject(rejectProtocol, h)
			return
		}
		for _, p := range pairs {
			if p.Key != "SendTargets" {
				c.t.stats[BadKey]++
				x.reply = iscsi.AppendText(x.reply, p.Key, keys.NotUnderstood)
				continue
			}
			c.sendTargets(p.Value)
		}
	}
	x.asked = nil
	c.tell(h)
}

// sendTargets lists the targets that the initiator may know of (RFC 7143 appendix C).
func (c *Conn) sendTargets(which string) {
	if which == "All" && c.node != nil {
		c.text.reply = iscsi.AppendText(c.text.reply, "SendTargets", keys.Refused)
		return
	}
	for _, n := range c.t.cfg.Nodes {
		if which == "All" || which == n.Name || which == "" && n == c.node {
			if n.admits(c.initiator) {
				c.text.reply = iscsi.AppendText(c.text.reply, "TargetName", n.Name)
				c.text.reply = iscsi.AppendText(c.text.reply, "TargetAddress", c.local.String()+",1")
			}
		}
	}
}

// tell sends as much of the reply as a PDU holds. The initiator asks for the rest.
func (c *Conn) tell(to *iscsi.BHS) {
	x := &c.text
	part := x.reply[:min(len(x.reply), c.par.Send)]
	x.reply = x.reply[len(part):]
	more := len(x.reply) > 0
	h := answerTo(to, iscsi.TextRsp)
	h.Put(iscsi.TTT, iscsi.Unassigned)
	if more || to[1]&iscsi.Continue != 0 {
		x.tag = c.newTag()
		h.Put(iscsi.TTT, x.tag)
		h[1] = 0
	}
	if more {
		h[1] = iscsi.Continue
	}
	c.respond(&h, part)
}

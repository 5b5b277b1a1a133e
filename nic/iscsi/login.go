package iscsi

import (
	"fmt"
	"slices"

	"tapir/nic/iscsi/keys"
	"tapir/nic/scsi"
	"tapir/wire/iscsi"
)

// Statuses of a login: class and detail (RFC 7143 section 11.13.5).
const (
	initiatorError     = 0x0200
	notAuthenticated   = keys.NotAuthenticated
	notAuthorized      = 0x0202
	noSuchTarget       = 0x0203
	wrongVersion       = 0x0205
	tooManyConnections = 0x0206
	missingParameter   = 0x0207
	wrongSessionType   = 0x0209
	noSuchSession      = 0x020a
	invalidRequest     = 0x020b
	unavailable        = 0x0301
	outOfResources     = 0x0302
)

// Stages of a login.
const (
	security    = 0
	operational = 1
	full        = 3
)

// maxSessions is how many sessions a target has at most.
const maxSessions = 64

// login is the state of a login phase.
type login struct {
	keys.Login
	begun   bool
	leading bool // the first text has been read
	stage   byte
	name    string // TargetName
	tsih    uint16
	text    []byte
	auth    keys.Auth
}

// loginPDU takes a PDU of the login phase.
func (c *Conn) loginPDU(h *iscsi.BHS, data []byte) {
	l := &c.login
	flags := h[1]
	csg, nsg, transit, more := flags>>2&3, flags&3, flags&iscsi.Transit != 0, flags&iscsi.Continue != 0
	if !l.begun {
		l.begun, l.stage, l.Par, l.tsih, l.RDMA = true, csg, c.par, uint16(h[14])<<8|uint16(h[15]), c.iser
		copy(c.isid[:], h[8:14])
		c.cid, c.expCmdSN, c.statSN = uint16(h[20])<<8|uint16(h[21]), h.U32(iscsi.CmdSN), h.U32(iscsi.ExpStatSN)
	}
	switch {
	case h.Opcode() != iscsi.LoginReq:
		c.refuse(h, invalidRequest)
		return
	case h[3] > 0:
		c.refuse(h, wrongVersion)
		return
	case csg != l.stage, csg > operational, transit && (more || nsg <= csg || nsg == 2),
		len(l.text)+len(data) > maxText:
		c.malformed(h)
		return
	}
	if l.text = append(l.text, data...); more {
		c.loginAnswer(h, csg<<2, 0, nil)
		return
	}
	pairs, err := iscsi.ParseText(l.text)
	l.text = l.text[:0]
	if err != nil {
		c.malformed(h)
		return
	}
	c.negotiate(h, pairs, csg, nsg, transit)
}

// negotiate answers a whole text.
func (c *Conn) negotiate(h *iscsi.BHS, pairs []iscsi.Pair, csg, nsg byte, transit bool) {
	l := &c.login
	var reply []byte
	if !l.leading {
		l.leading = true
		if status := c.lead(pairs); status != 0 {
			c.refuse(h, status)
			return
		}
		if !l.Discovery {
			reply = iscsi.AppendText(reply, "TargetPortalGroupTag", "1")
		}
	}
	if csg == operational && !c.proved() {
		c.refuse(h, notAuthenticated)
		return
	}
	if l.Again(pairs) {
		c.malformed(h)
		return
	}
	var status uint16
	if csg == security {
		reply, status = c.authenticate(reply, pairs)
	} else {
		var bad uint64
		reply, bad = l.Operate(reply, pairs)
		c.t.stats[BadKey] += bad
	}
	if status == 0 && csg == operational && l.Par.First > l.Par.Burst {
		l.Par.First = l.Par.Burst
	}
	switch {
	case status != 0:
		c.refuse(h, status)
		return
	case csg == security && !c.proved():
		transit = false
	}
	if !transit {
		c.loginAnswer(h, csg<<2, 0, reply)
		return
	}
	if l.stage = nsg; nsg == full {
		if status := c.begin(); status != 0 {
			c.refuse(h, status)
			return
		}
	}
	c.loginAnswer(h, iscsi.Transit|csg<<2|nsg, 0, reply)
	if nsg == full {
		c.phase = fullFeature
		c.par = l.Par
		c.rd.Digests = l.Par.Digests
		if l.Declared {
			c.rd.Max = maxSegment
		}
		c.login = login{}
	}
}

// required is the CHAP of the target that is logged in to; discovery has none.
func (c *Conn) required() CHAP {
	if c.node == nil {
		return CHAP{}
	}
	return c.node.CHAP
}

// proved tells whether the initiator is who it has to be.
func (c *Conn) proved() bool { return c.required().User == "" || c.login.auth.Proved }

// authenticate answers security keys.
func (c *Conn) authenticate(reply []byte, pairs []iscsi.Pair) (_ []byte, status uint16) {
	reply, o := c.login.auth.Answer(reply, pairs, c.required(), c.t.cfg.Random)
	c.t.stats[BadKey] += o.Bad
	if o.Failed {
		c.t.stats[BadCHAP]++
	}
	return reply, o.Status
}

// lead reads who logs in, and where (RFC 7143 section 6.3.1).
func (c *Conn) lead(pairs []iscsi.Pair) (status uint16) {
	l := &c.login
	for _, p := range pairs {
		switch p.Key {
		case "InitiatorName":
			c.initiator = p.Value
		case "TargetName":
			l.name = p.Value
		case "SessionType":
			if l.Discovery = p.Value == "Discovery"; !l.Discovery && p.Value != "Normal" {
				return wrongSessionType
			}
		}
	}
	switch {
	case c.initiator == "" || len(c.initiator) > 223 || !l.Discovery && l.name == "":
		return missingParameter
	case c.t.stopped:
		return unavailable
	case l.Discovery:
		return 0
	}
	if c.node = c.t.node(l.name); c.node == nil {
		return noSuchTarget
	}
	if !c.node.admits(c.initiator) {
		return notAuthorized
	}
	if old := c.t.sessionOf(c); l.tsih != 0 && (old == nil || old.tsih != l.tsih) {
		return noSuchSession
	}
	return 0
}

// admits tells whether an initiator may log in.
func (n *Node) admits(initiator string) bool {
	return len(n.Initiators) == 0 || slices.Contains(n.Initiators, initiator)
}

// begin makes the session. One of the same initiator port ends (RFC 7143 section 6.3.5).
func (c *Conn) begin() (status uint16) {
	t := c.t
	if c.node == nil {
		t.stats[Discoveries]++
		t.tsih++
		c.tsih = max(t.tsih, 1)
		return 0
	}
	if c.iser && !c.login.Par.ISER {
		t.stats[Malformed]++
		return initiatorError // a session on RDMA is one in iSER (RFC 7145 section 6.3)
	}
	if old := t.sessionOf(c); old != nil {
		t.stats[Reinstated]++
		old.close()
	}
	if len(t.Sessions()) >= maxSessions {
		return outOfResources
	}
	if c.tsih = c.login.tsih; c.tsih == 0 {
		t.tsih++
		t.tsih = max(t.tsih, 1)
		c.tsih = t.tsih
	}
	t.stats[Sessions]++
	c.nexus = scsi.NewNexus(fmt.Sprintf("%s,i,0x%x", c.initiator, c.isid), c.node.Units)
	return 0
}

// loginAnswer sends a login response.
func (c *Conn) loginAnswer(to *iscsi.BHS, flags byte, status uint16, text []byte) {
	h := answerTo(to, iscsi.LoginRsp)
	h[1] = flags
	copy(h[8:14], c.isid[:])
	h[14], h[15] = byte(c.tsih>>8), byte(c.tsih)
	h.Put(iscsi.StatusClass, uint32(status)<<16)
	c.respond(&h, text)
}

// refuse ends a login.
func (c *Conn) refuse(h *iscsi.BHS, status uint16) {
	c.t.stats[LoginRefused]++
	c.loginAnswer(h, 0, status, nil)
	c.close()
}

// malformed ends a login that breaks its rules.
func (c *Conn) malformed(h *iscsi.BHS) {
	c.t.stats[Malformed]++
	c.refuse(h, initiatorError)
}

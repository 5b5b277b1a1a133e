package scsi

import (
	"fmt"
	"strings"

	"tapir/wire/iscsi"
)

// login is what the login phase has come to.
type login struct {
	begun   bool
	asked   bool // a request waits for its answer
	first   iscsi.BHS
	last    iscsi.BHS // the latest request
	stage   byte      // that the next request is of
	text    [2][]byte // keys that are under way
	named   bool
	session string
}

const fullStage = 3

// logIn judges a PDU of the login phase.
func (c *Conn) logIn(p *pdu) {
	l := &c.login
	switch {
	case p.Opcode() == iscsi.LoginReq:
		c.loginRequest(p)
		l.asked, l.last = true, p.BHS
	case p.Opcode() == iscsi.LoginRsp:
		if !l.asked {
			c.bad(p, loginUnasked, "")
			c.keys.unsure = true
			return
		}
		l.asked = false
		c.loginResponse(p)
	default:
		c.bad(p, loginFirst, "%v", p.Opcode())
	}
}

// stages judges T, C and the stages of a login PDU.
func (c *Conn) stages(p *pdu) {
	csg, nsg := p.BHS[1]>>2&3, p.BHS[1]&3
	transit := p.BHS[1]&iscsi.Transit != 0
	if transit && p.BHS[1]&iscsi.Continue != 0 {
		c.bad(p, loginContinue, "")
	}
	if csg > 1 || transit && (nsg == 2 || nsg <= csg) {
		c.bad(p, loginStage, "%d to %d", csg, nsg)
	}
	if l := &c.login; l.begun && csg != l.stage {
		c.bad(p, loginBack, "%d instead of %d", csg, l.stage)
		l.stage = csg
	}
}

func (c *Conn) loginRequest(p *pdu) {
	l := &c.login
	if l.asked {
		c.bad(p, loginTwo, "")
	}
	c.stages(p)
	if p.BHS[2] != 0 || p.BHS[3] != 0 {
		c.bad(p, loginVersion, "%d, %d", p.BHS[2], p.BHS[3])
	}
	if !l.begun {
		l.begun, l.first, l.stage = true, p.BHS, p.BHS[1]>>2&3
		c.cmd.next, c.cmd.known = p.U32(iscsi.CmdSN), true
		c.cmd.shared = p.BHS[14] != 0 || p.BHS[15] != 0
	}
	for _, x := range []struct {
		same bool
		fail func()
	}{
		{[2]byte(p.BHS[14:16]) == [2]byte(l.first[14:16]),
			func() { c.bad(p, loginTSIH, "%x instead of %x", p.BHS[14:16], l.first[14:16]) }},
		{[2]byte(p.BHS[20:22]) == [2]byte(l.first[20:22]),
			func() { c.bad(p, loginCID, "%x instead of %x", p.BHS[20:22], l.first[20:22]) }},
		{p.U32(iscsi.CmdSN) == l.first.U32(iscsi.CmdSN),
			func() { c.bad(p, loginCmdSN, "%d instead of %d", p.U32(iscsi.CmdSN), l.first.U32(iscsi.CmdSN)) }},
	} {
		if !x.same {
			x.fail()
		}
	}
	c.checkExpStatSN(p)
	if c.loginText(p) && !l.named {
		l.named = true
		c.names(p)
	}
}

// names judges the text of the first request: RFC 7143 section 6.3.
func (c *Conn) names(p *pdu) {
	has := c.keys.said[p.side]
	discovery := has["SessionType"] == "Discovery"
	switch {
	case c.keys.unsure:
		return
	case has["InitiatorName"] == "":
		c.bad(p, loginNames, "no InitiatorName")
	case has["TargetName"] == "" && !discovery:
		c.bad(p, loginNames, "no TargetName")
	}
	if c.login.session = "normal"; discovery {
		c.login.session = "discovery"
	}
}

func (c *Conn) loginResponse(p *pdu) {
	l := &c.login
	c.status(p, true)
	c.window(p)
	class := p.BHS[36]
	if class > 3 {
		c.bad(p, loginStatus, "%d", class)
	}
	if class != 0 {
		c.phase = loginFailed
		return
	}
	c.stages(p)
	transit, nsg := p.BHS[1]&iscsi.Transit != 0, p.BHS[1]&3
	switch {
	case !transit:
	case l.last[1]&iscsi.Transit == 0:
		c.bad(p, loginTransit, "")
	case nsg > l.last[1]&3:
		c.bad(p, loginNSG, "%d instead of %d", nsg, l.last[1]&3)
	}
	tsih := uint16(p.BHS[14])<<8 | uint16(p.BHS[15])
	first := uint16(l.first[14])<<8 | uint16(l.first[15])
	done := transit && nsg == fullStage
	if done && tsih == 0 || !done && tsih != first {
		c.bad(p, loginTSIHZero, "%d", tsih)
	}
	c.loginText(p)
	if transit {
		l.stage = nsg
	}
	if done {
		c.settle(p)
		c.phase = fullFeature
	}
}

// loginText collects the keys of a login PDU and judges them when they are complete.
func (c *Conn) loginText(p *pdu) bool {
	l := &c.login
	if p.cut {
		c.keys.unsure = true
		return true
	}
	l.text[p.side] = append(l.text[p.side], p.text...)
	if p.BHS[1]&iscsi.Continue != 0 {
		return false
	}
	pairs, err := iscsi.ParseText(l.text[p.side])
	l.text[p.side] = nil
	if err != nil {
		c.bad(p, keyFormat, "")
		c.keys.unsure = true
		return true
	}
	for _, x := range pairs {
		c.key(p, x.Key, x.Value)
	}
	return true
}

// settle is the end of the login phase.
func (c *Conn) settle(p *pdu) {
	c.unanswered(p)
	if !c.keys.unsure {
		c.par = c.keys.outcome(c.initiator)
		c.header, c.data = factOf(c.keys.result("HeaderDigest", "None") == "CRC32C"),
			factOf(c.keys.result("DataDigest", "None") == "CRC32C")
		if c.par.connections > 1 {
			c.cmd.shared = true
		}
		if c.keys.said[0]["FirstBurstLength"]+c.keys.said[1]["FirstBurstLength"] != "" && c.par.first > c.par.burst {
			c.bad(p, keyBursts, "%d, %d", c.par.first, c.par.burst)
		}
		if c.login.session == "discovery" && c.par.recovery > 0 {
			c.bad(p, keyDiscovery, "%d", c.par.recovery)
		}
		if v := c.keys.result("RDMAExtensions", "No"); c.iser != nil && v != "Yes" && c.login.session == "normal" {
			c.bad(p, iserKey, "RDMAExtensions=%s", v)
		}
	} else {
		c.header, c.data = unknown, unknown
	}
}

// Agreed is what the login has agreed on, in a line.
func (c *Conn) Agreed() string {
	if !c.login.begun {
		return ""
	}
	said := c.keys.said[c.initiator]
	var b strings.Builder
	if c.iser != nil {
		b.WriteString("iSER, ")
	}
	fmt.Fprintf(&b, "%s session of %s", c.login.session, said["InitiatorName"])
	if t := said["TargetName"]; t != "" {
		fmt.Fprintf(&b, " with %s", t)
	}
	switch {
	case c.phase == loginFailed:
		b.WriteString(", login failed")
	case c.phase == loggingIn:
		b.WriteString(", login not complete")
	case c.keys.unsure:
		b.WriteString(", keys not known")
	default:
		fmt.Fprintf(&b, ", header digest %s, data digest %s", onOff(c.header == yes), onOff(c.data == yes))
		if c.login.session == "normal" {
			fmt.Fprintf(&b, ", InitialR2T %v, ImmediateData %v, MaxBurstLength %d, FirstBurstLength %d, "+
				"ErrorRecoveryLevel %d",
				yesNo(c.par.initialR2T), yesNo(c.par.immediate), c.par.burst, c.par.first, c.par.recovery)
		}
	}
	return b.String()
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func yesNo(f fact) string {
	if f == yes {
		return "Yes"
	}
	return "No"
}

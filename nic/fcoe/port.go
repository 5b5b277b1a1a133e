package fcoe

import (
	"slices"
	"time"

	"tapir/wire/ether"
	"tapir/wire/fc"
	"tapir/wire/fip"
	"tapir/wire/frame"
)

// portState is where a port is on its way into the fabric.
type portState uint8

const (
	portDown  portState = iota
	portLogin           // FLOGI or FDISC is on its way
	portNames           // it registers with the name server
	portUp
)

var portStates = [...]string{"down", "login", "registration", "up"}

// Port is a port of a node.
type Port struct {
	n       *Node
	cfg     PortConfig
	index   int
	state   portState
	id      fc.ID
	mac     ether.Addr
	granted ether.Addr // the address in the last reply to a login
	refused Refusal    // the last one
	remotes []*Remote
	take    func(h *fc.Header, payload []byte, now frame.Time)
	timer   alarm // of logins and queries
	beat    alarm // of keep-alives
}

// Name is the port's world-wide name, ID its identifier, 0 before its login.
func (p *Port) Name() fc.WWN { return p.cfg.Port }

// serviceParams are those of the port in a login or its acceptance.
func (p *Port) serviceParams(cmd fc.ELS) fc.Login {
	size := uint16(p.n.cfg.MaxPayload)
	return fc.Login{Command: cmd, BBCredit: 10, Features: fc.RandomOffset | fc.AltBBCredit, MaxPayload: size,
		RATOV: 0x00ff001f, EDTOV: uint32(edTOV / time.Millisecond), Port: p.cfg.Port, Node: p.cfg.Node, Class3: true,
		Class3Size: size, Concurrent: 255, Open: 1}
}

// admitted takes the reply to FLOGI or FDISC: with an acceptance the port has an identifier
// and an address, and goes on to the name server.
func (p *Port) admitted(h *fc.Header, payload []byte, m fip.Map, now frame.Time) bool {
	if !p.accepted(h, payload) || p.granted != m.MAC(h.D) || h.D == 0 {
		return false
	}
	p.id, p.mac, p.state = h.D, p.granted, portNames
	p.n.stations()
	p.register(now)
	if !p.n.fabric.fcf.Quiet {
		p.n.set(&p.beat, now.Add(portKeepAlive), p.keepAlive)
	}
	if p.index == 0 {
		for _, v := range p.n.ports[1:] {
			v.join(now)
		}
	}
	return true
}

// join logs a virtual port in.
func (p *Port) join(now frame.Time) {
	p.state = portLogin
	l := p.serviceParams(fc.FDISC)
	l.Features = 0
	f := p.n.fabric.fcf
	p.login(fip.FDISC, f.MAC, fc.FabricPort, l.AppendTo(nil), now, func(h *fc.Header, payload []byte, now frame.Time) {
		if p.n.fabric.fcf != f || p.state != portLogin || p.admitted(h, payload, f.Map, now) {
			return
		}
		p.n.stats[LoginFailures]++
		p.n.set(&p.timer, now.Add(rejectedWait), p.join)
	})
}

// down ends all sessions of the port; orderly: after a logout from them and the fabric.
func (p *Port) down(orderly bool, now frame.Time) {
	for _, r := range slices.Clone(p.remotes) {
		if orderly && r.state >= loggedIn {
			p.logout(r.ID, r.mac)
		}
		p.forget(r, now)
	}
	if orderly && p.state > portLogin && !p.n.cfg.VN2VN {
		l := fc.Logout{Port: p.id, Name: p.cfg.Port}
		p.login(fip.LOGO, p.n.fabric.fcf.MAC, fc.FabricPort, l.AppendTo(nil), now,
			func(*fc.Header, []byte, frame.Time) {})
	}
	for _, x := range p.n.exchanges {
		if x.port == p {
			p.n.endExchange(x)
		}
	}
	p.n.cancel(&p.timer)
	p.n.cancel(&p.beat)
	p.state, p.id, p.mac = portDown, 0, ether.Addr{}
}

// register logs in to the directory server, registers there what the port is, registers for
// state changes and asks for other ports.
func (p *Port) register(now frame.Time) {
	l := p.serviceParams(fc.PLOGI)
	p.service(fc.Directory, l.AppendTo(nil), now, func(h *fc.Header, payload []byte, now frame.Time) {
		if !p.accepted(h, payload) {
			p.later(p.register, now)
			return
		}
		var types fc.Types
		types.Add(fc.TypeFCP)
		p.query(fc.RFTID, append(fc.AppendID(nil, p.id), types[:]...), now, func(_ []byte, now frame.Time) {
			features := byte(0)
			if p.cfg.Units != nil {
				features |= fc.TargetFeature
			}
			if p.cfg.Initiator {
				features |= fc.InitiatorFeature
			}
			rff := append(fc.AppendID(nil, p.id), 0, 0, features, byte(fc.TypeFCP))
			p.query(fc.RFFID, rff, now, func(_ []byte, now frame.Time) { p.listen(now) })
		})
	})
}

// listen registers for state changes.
func (p *Port) listen(now frame.Time) {
	p.service(fc.Controller, fc.AppendSCR(nil, fc.ScrFull), now, func(h *fc.Header, payload []byte, now frame.Time) {
		if !p.accepted(h, payload) {
			p.later(p.register, now)
			return
		}
		p.state = portUp
		p.survey(now)
	})
}

// survey asks the name server for ports of FCP.
func (p *Port) survey(now frame.Time) {
	p.query(fc.GPNFT, fc.AppendType(nil, fc.TypeFCP), now, func(b []byte, now frame.Time) {
		list, err := fc.ParseEntries(b, true)
		if err != nil && len(b) > 0 {
			p.later(p.register, now)
			return
		}
		p.found(list, now)
	})
}

// query asks the name server. done gets what follows the header of its acceptance, nothing
// after a refusal.
func (p *Port) query(cmd fc.CTCommand, params []byte, now frame.Time, done func(b []byte, now frame.Time)) {
	p.n.stats[Queries]++
	p.request(fc.Directory, fc.UnsolicitedCtl, fc.TypeCT, fc.AppendQuery(nil, cmd, params), now,
		func(h *fc.Header, payload []byte, now frame.Time) {
			c, rest, err := fc.ParseCT(payload)
			switch {
			case h == nil || err != nil:
				p.later(p.register, now)
			case c.Command != fc.CTReply:
				p.n.stats[RejectsReceived]++
				p.refused = Refusal{c.Reason, c.Explanation}
				done(nil, now)
			default:
				done(rest, now)
			}
		})
}

// later tries again after a while.
func (p *Port) later(fn func(now frame.Time), now frame.Time) {
	p.n.set(&p.timer, now.Add(retryAfter), fn)
}

// found takes the list of the fabric's ports: those that are gone are forgotten, an initiator
// logs in to new ones and makes sure of the others.
func (p *Port) found(list []fc.Entry, now frame.Time) {
	for _, r := range slices.Clone(p.remotes) {
		if !slices.ContainsFunc(list, func(e fc.Entry) bool { return e.ID == r.ID && e.Name == r.Name }) {
			p.forget(r, now)
		}
	}
	for _, e := range list {
		r := p.remote(e.ID)
		switch {
		case !p.cfg.Initiator || p.n.owns(e.Name):
		case r == nil:
			if r = p.newRemote(e.ID, e.Name); r != nil {
				r.plogi(now)
			}
		case r.state >= loggedIn:
			r.verify(now)
		}
	}
}

// owns tells that a port is one of the node's.
func (n *Node) owns(w fc.WWN) bool {
	return slices.ContainsFunc(n.ports, func(p *Port) bool { return p.cfg.Port == w })
}

// loginAllowed tells whether an initiator may log in.
func (p *Port) loginAllowed(w fc.WWN) bool {
	return len(p.cfg.Hosts) == 0 || slices.Contains(p.cfg.Hosts, w)
}

// logout sends LOGO to another port.
func (p *Port) logout(id fc.ID, to ether.Addr) {
	if to.IsZero() {
		to = p.n.macOf(id)
	}
	x := p.newExchange(id)
	delete(p.n.exchanges, x.oxid) // nothing depends on the answer
	p.n.stats[LogoutsSent]++
	p.frame(to, x.header(fc.ELSRequest, fc.TypeELS), fc.Logout{Port: p.id, Name: p.cfg.Port}.AppendTo(nil))
}

// Remotes are the ports that the port knows.
func (p *Port) Remotes() []*Remote { return slices.Clone(p.remotes) }

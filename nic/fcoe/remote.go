package fcoe

import (
	"slices"
	"time"

	"tapir/nic/scsi"
	"tapir/wire/ether"
	"tapir/wire/fc"
	"tapir/wire/fip"
	"tapir/wire/frame"
)

// State is where the session with a remote port is.
type State uint8

// States.
const (
	Found     State = iota
	exchanged       // FLOGI was, or is being, exchanged (VN2VN)
	loggingIn       // PLOGI is on its way
	loggedIn        // PLOGI is accepted
	Ready           // PRLI is: commands may be sent
)

var states = [...]string{"found", "flogi", "plogi", "prli", "ready"}

// String is the state's name.
func (s State) String() string { return states[s] }

// peerWait is how long the port with the higher name has for its PLOGI.
const peerWait = 5 * retryAfter

// Remote is another port, seen from one of the node's.
type Remote struct {
	ID         fc.ID
	Name, Node fc.WWN
	p          *Port
	mac        ether.Addr
	enode      ether.Addr // VN2VN
	state      State
	asking     bool // FLOGI is on its way
	target     bool // it is one
	payload    int  // octets that it takes in a frame
	handle     int  // of the hardware
	timer      alarm
	nexus      *scsi.Nexus      // of the node as target
	tasks      map[uint16]*task // by OX_ID
	requests   []*Request       // in the order of submission
}

// State is where the session is. Target tells that the port is one.
func (r *Remote) State() State { return r.state }

// Target tells that the remote port is a target.
func (r *Remote) Target() bool { return r.target }

// remote is the port with an identifier, or nil.
func (p *Port) remote(id fc.ID) *Remote {
	i := slices.IndexFunc(p.remotes, func(r *Remote) bool { return r.ID == id })
	if i < 0 {
		return nil
	}
	return p.remotes[i]
}

// newRemote takes note of a port; nil: there are too many.
func (p *Port) newRemote(id fc.ID, name fc.WWN) *Remote {
	if len(p.remotes) >= maxRemotes {
		p.n.stats[TooManyPorts]++
		return nil
	}
	r := &Remote{ID: id, Name: name, p: p, mac: p.n.macOf(id), tasks: map[uint16]*task{}}
	p.remotes = append(p.remotes, r)
	return r
}

// forget ends a session and drops the port.
func (p *Port) forget(r *Remote, now frame.Time) {
	r.end(now)
	p.n.cancel(&r.timer)
	p.remotes = slices.DeleteFunc(p.remotes, func(o *Remote) bool { return o == r })
}

// end ends the session: its commands are lost.
func (r *Remote) end(now frame.Time) {
	was := r.state
	r.state = Found
	for _, t := range r.tasks {
		t.gone = true
	}
	for _, t := range r.order() {
		t.cancel()
	}
	if r.nexus != nil {
		r.nexus.Close()
		r.nexus = nil
	}
	list := r.requests
	r.requests = nil
	for _, q := range list {
		q.fail(ErrGone, now)
	}
	if was == Ready {
		r.p.n.env.Sessions.Terminate(r.handle)
		r.p.n.stats[SessionsEnded]++
		r.p.n.env.Changed(r, now)
	}
}

// meet begins with a neighbor of VN2VN.
func (p *Port) meet(o *neighbor, now frame.Time) {
	r := p.remote(o.ID)
	if r != nil && r.Name != o.Name {
		p.forget(r, now)
		r = nil
	}
	if r == nil {
		if r = p.newRemote(o.ID, o.Name); r == nil {
			return
		}
	}
	r.Node, r.enode, r.payload = o.node, o.enode, o.payload
	if r.state == Found {
		r.flogi(now)
	}
}

// flogi sends FLOGI to a neighbor (FC-BB-6 clause 7.9.7.8).
func (r *Remote) flogi(now frame.Time) {
	p := r.p
	r.state, r.asking = exchanged, true
	p.n.cancel(&r.timer)
	l := p.serviceParams(fc.FLOGI)
	p.login(fip.FLOGI, r.enode, r.ID, l.AppendTo(nil), now, func(h *fc.Header, payload []byte, now frame.Time) {
		r.asking = false
		switch {
		case r.state != exchanged:
		case p.accepted(h, payload):
			r.elect(now)
		default:
			r.again(now)
		}
	})
}

// again begins with the session once more, after a while.
func (r *Remote) again(now frame.Time) {
	r.p.n.stats[LoginFailures]++
	r.state = Found
	r.p.n.set(&r.timer, now.Add(retryAfter), r.begin)
}

// begin logs in.
func (r *Remote) begin(now frame.Time) {
	if r.p.n.cfg.VN2VN {
		r.flogi(now)
	} else {
		r.plogi(now)
	}
}

// elect has the port with the higher name send PLOGI.
func (r *Remote) elect(now frame.Time) {
	if r.p.cfg.Port > r.Name {
		r.plogi(now)
		return
	}
	r.p.n.set(&r.timer, now.Add(peerWait), r.again)
}

// flogi takes the FLOGI of a neighbor, which was accepted.
func (p *Port) flogi(o *neighbor, now frame.Time) {
	r := p.remote(o.ID)
	if r == nil {
		return
	}
	r.enode = o.enode
	if r.state >= loggedIn { // it has begun again
		r.end(now)
	}
	if r.state = exchanged; !r.asking { // else the answer decides
		r.elect(now)
	}
}

// plogi logs in to the port.
func (r *Remote) plogi(now frame.Time) {
	p := r.p
	p.n.cancel(&r.timer)
	r.state = loggingIn
	l := p.serviceParams(fc.PLOGI)
	p.service(r.ID, l.AppendTo(nil), now, func(h *fc.Header, payload []byte, now frame.Time) {
		if r.state != loggingIn {
			return // the other port was first
		}
		a, err := fc.ParseLogin(payload)
		if !p.accepted(h, payload) || err != nil || a.Port != r.Name {
			r.again(now)
			return
		}
		r.accepted(&a)
		r.prli(now)
	})
}

// accepted takes the parameters of a login.
func (r *Remote) accepted(l *fc.Login) {
	r.Node, r.state = l.Node, loggedIn
	most := int(max(l.MaxPayload, 256))
	if l.Class3Size >= 256 {
		most = min(most, int(l.Class3Size))
	}
	if r.p.n.cfg.VN2VN && r.payload > 0 {
		most = min(most, r.payload)
	}
	r.payload = min(most, r.p.n.cfg.MaxPayload) &^ 3
}

// params are the service parameters of FCP.
func (p *Port) params() uint32 {
	v := uint32(fc.NoReadXferRdy)
	if p.cfg.Initiator {
		v |= fc.Initiator
	}
	if p.cfg.Units != nil {
		v |= fc.Target
	}
	return v
}

// prli begins FCP with a port that is logged in; a target waits for it.
func (r *Remote) prli(now frame.Time) {
	p := r.p
	p.n.cancel(&r.timer)
	if !p.cfg.Initiator {
		return
	}
	l := fc.ProcessLogin{Command: fc.PRLI, Type: fc.TypeFCP, Flags: fc.EstablishPair, Params: p.params()}
	p.service(r.ID, l.AppendTo(nil), now, func(h *fc.Header, payload []byte, now frame.Time) {
		if r.state != loggedIn {
			return
		}
		a, err := fc.ParseProcessLogin(payload)
		if !p.accepted(h, payload) || err != nil || a.Flags&fc.ResponseMask != fc.Executed {
			p.n.stats[LoginFailures]++
			p.n.set(&r.timer, now.Add(retryAfter), r.prli)
			return
		}
		r.ready(a.Params, now)
	})
}

// ready begins the session, unless the hardware has no place for it.
func (r *Remote) ready(params uint32, now frame.Time) bool {
	p := r.p
	if r.state == Ready {
		r.end(now)
	}
	r.state = loggedIn
	h, err := p.n.env.Sessions.Offload(Session{Source: p.mac, Dest: r.mac, SID: p.id, DID: r.ID, TxPayload: r.payload,
		Payload: p.n.cfg.MaxPayload, EDTOV: edTOV})
	if err != nil {
		p.n.stats[NoPlace]++
		p.logout(r.ID, r.mac)
		r.state = Found
		p.n.set(&r.timer, now.Add(rejectedWait), r.begin)
		return false
	}
	p.n.cancel(&r.timer)
	r.handle, r.state, r.target = h, Ready, params&fc.Target != 0
	if p.cfg.Units != nil && params&fc.Initiator != 0 {
		r.nexus = scsi.NewNexus(scsi.FCPPort(uint64(r.Name)), p.cfg.Units)
	}
	p.n.stats[SessionsBegun]++
	p.n.env.Changed(r, now)
	return true
}

// verify makes sure of a session by ADISC after a state change.
func (r *Remote) verify(now frame.Time) {
	p := r.p
	d := fc.Discovery{Command: fc.ADISC, Port: p.cfg.Port, Node: p.cfg.Node, ID: p.id}
	p.service(r.ID, d.AppendTo(nil), now, func(h *fc.Header, payload []byte, now frame.Time) {
		a, err := fc.ParseDiscovery(payload)
		if r.state >= loggedIn && (!p.accepted(h, payload) || err != nil || a.Port != r.Name) {
			r.end(now)
			r.begin(now)
		}
	})
}

// loggedOut takes a LOGO.
func (p *Port) loggedOut(id fc.ID, now frame.Time) {
	p.n.stats[LogoutsReceived]++
	r := p.remote(id)
	if r == nil {
		return
	}
	r.end(now)
	if p.n.cfg.VN2VN || p.cfg.Initiator {
		p.n.set(&r.timer, now.Add(retryAfter), r.begin)
	}
}

// edTOVms and raTOVms are the timeouts as RTV tells them.
const (
	edTOVms = uint32(edTOV / time.Millisecond)
	raTOVms = uint32(raTOV / time.Millisecond)
)

// els answers an extended link service.
func (p *Port) els(h *fc.Header, b []byte, now frame.Time) {
	p.n.stats[ServicesReceived]++
	r := p.remote(h.S)
	switch fc.Command(b) {
	case fc.PLOGI:
		p.plogiFrom(h, b, now)
	case fc.PRLI:
		p.prliFrom(r, h, b, now)
	case fc.PRLO:
		a := fc.ProcessLogin{Command: fc.LSACC, Type: fc.TypeFCP, Flags: fc.Executed}
		p.reply(h, a.AppendTo(nil))
		if r != nil && r.state == Ready {
			r.end(now)
			r.state = loggedIn
		}
	case fc.LOGO:
		p.reply(h, fc.AppendAccept(nil))
		p.loggedOut(h.S, now)
	case fc.ADISC:
		d, err := fc.ParseDiscovery(b)
		if err != nil || r == nil || r.state < loggedIn || d.Port != r.Name {
			p.reject(h, fc.CannotPerform, fc.PortLoginRequired)
			return
		}
		d = fc.Discovery{Command: fc.LSACC, Port: p.cfg.Port, Node: p.cfg.Node, ID: p.id}
		p.reply(h, d.AppendTo(nil))
	case fc.RSCN:
		if _, err := fc.ParseStateChange(b); err != nil || h.S != fc.Controller {
			p.reject(h, fc.ProtocolError, fc.NoExplanation)
			return
		}
		p.n.stats[StateChanges]++
		p.reply(h, fc.AppendAccept(nil))
		if p.state == portUp {
			p.survey(now)
		}
	case fc.RRQ:
		p.reply(h, fc.AppendAccept(nil))
	case fc.REC:
		p.rec(r, h, b)
	case fc.RTV:
		p.reply(h, fc.AppendTimeouts(nil, raTOVms, edTOVms))
	case fc.ECHO:
		p.reply(h, append(fc.AppendAccept(nil), b[4:]...))
	default:
		p.reject(h, fc.NotSupported, fc.ExplainUnsupported)
	}
}

// plogiFrom answers PLOGI.
func (p *Port) plogiFrom(h *fc.Header, b []byte, now frame.Time) {
	l, err := fc.ParseLogin(b)
	r := p.remote(h.S)
	switch {
	case err != nil || !l.Class3 || l.MaxPayload < 256:
		p.reject(h, fc.LogicalError, fc.BadServiceParams)
		return
	case !p.loginAllowed(l.Port):
		p.n.stats[NotAllowed]++
		p.reject(h, fc.CannotPerform, fc.BadPortName)
		return
	case r != nil && r.state == loggingIn && p.cfg.Port > l.Port:
		p.reject(h, fc.CannotPerform, fc.LoginInProgress)
		return
	}
	if r != nil && r.Name != l.Port {
		p.forget(r, now)
		r = nil
	}
	if r == nil {
		if r = p.newRemote(h.S, l.Port); r == nil {
			p.reject(h, fc.CannotPerform, fc.NoResources)
			return
		}
	}
	r.end(now)
	r.accepted(&l)
	a := p.serviceParams(fc.LSACC)
	p.reply(h, a.AppendTo(nil))
	r.prli(now)
}

// prliFrom answers PRLI.
func (p *Port) prliFrom(r *Remote, h *fc.Header, b []byte, now frame.Time) {
	l, err := fc.ParseProcessLogin(b)
	switch {
	case err != nil:
		p.reject(h, fc.ProtocolError, fc.BadServiceParams)
		return
	case r == nil || r.state < loggedIn:
		p.reject(h, fc.CannotPerform, fc.PortLoginRequired)
		return
	case l.Type != fc.TypeFCP:
		p.reject(h, fc.NotSupported, fc.ExplainUnsupported)
		return
	}
	a := fc.ProcessLogin{Command: fc.LSACC, Type: fc.TypeFCP, Flags: fc.EstablishPair | fc.Executed, Params: p.params()}
	if !r.ready(l.Params, now) {
		p.reject(h, fc.CannotPerform, fc.NoResources)
		return
	}
	p.reply(h, a.AppendTo(nil))
}

// rec tells of an exchange of an initiator.
func (p *Port) rec(r *Remote, h *fc.Header, b []byte) {
	x, err := fc.ParseExchange(b)
	if err != nil || r == nil || r.tasks[x.OXID] == nil {
		p.reject(h, fc.LogicalError, fc.BadOXIDRXID)
		return
	}
	t := r.tasks[x.OXID]
	s := fc.ExchangeState{OXID: x.OXID, RXID: t.rxid, Originator: r.ID, Responder: p.id, Transferred: uint32(t.next)}
	if !t.asked {
		s.Status = fc.HasInitiative
	}
	p.reply(h, s.AppendTo(nil))
}

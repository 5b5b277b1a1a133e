package fcoe

import (
	"slices"
	"time"

	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/fc"
	"tapir/wire/fcoe"
	"tapir/wire/fip"
	"tapir/wire/frame"
)

// Times of VN2VN (FC-BB-6 table 44).
const (
	probeWait    = 100 * time.Millisecond
	announceWait = 400 * time.Millisecond
	beaconEvery  = 8 * time.Second
	beaconFuzz   = 100 * time.Millisecond
	beaconLost   = beaconEvery * 5 / 2
	slowProbe    = 10 * time.Second // after maxCollisions
)

// Limits of VN2VN.
const (
	maxCollisions = 10
	maxNeighbors  = maxRemotes
)

// stage is where a node is on its way to an identifier.
type stage uint8

const (
	idle stage = iota
	probe1
	probe2
	claiming
	joined
)

// neighbor is another end node.
type neighbor struct {
	fip.Port
	node    fc.WWN
	enode   ether.Addr
	payload int
	expiry  alarm
	up      frame.Time // when its claim holds: until then it takes no login
	login   alarm
}

// vn2vn is FIP of an end node without a fabric (FC-BB-6 clause 7.9.7).
type vn2vn struct {
	n          *Node
	stage      stage
	id         fc.ID
	collisions int
	claimed    frame.Time // when the last claim was sent
	neighbors  []*neighbor
	timer      alarm
}

// start begins with the identifier that the MAC address ends with.
func (v *vn2vn) start(now frame.Time) {
	m := v.n.cfg.MAC
	v.id = fc.ID(m[4])<<8 | fc.ID(m[5])
	if v.id == 0 || v.id == 0xffff {
		v.id = v.random()
	}
	v.probe(now)
}

// random is another identifier.
func (v *vn2vn) random() fc.ID { return 1 + fc.ID(v.n.env.Random.Uint64()%0xfffe) }

// restart takes another identifier after a collision.
func (v *vn2vn) restart(now frame.Time) {
	v.n.stats[Collisions]++
	v.collisions++
	v.n.ports[0].down(false, now)
	v.n.stations()
	v.stage, v.id = idle, v.random()
	if v.collisions > maxCollisions {
		v.n.set(&v.timer, now.Add(slowProbe), v.probe)
		return
	}
	v.probe(now)
}

// probe sends the first probe.
func (v *vn2vn) probe(now frame.Time) {
	v.stage = probe1
	v.send(fip.ProbeRequest, fip.AllVN2VN, 0)
	v.n.set(&v.timer, now.Add(probeWait), func(now frame.Time) {
		v.stage = probe2
		v.send(fip.ProbeRequest, fip.AllVN2VN, 0)
		v.n.set(&v.timer, now.Add(announceWait), v.claim)
	})
}

// claim announces the identifier.
func (v *vn2vn) claim(now frame.Time) {
	v.stage = claiming
	v.announce(now)
	v.n.set(&v.timer, now.Add(announceWait), v.join)
}

// announce sends a claim.
func (v *vn2vn) announce(now frame.Time) {
	v.claimed = now
	v.send(fip.ClaimNotify, fip.AllVN2VN, v.n.maxSize())
}

// join ends the wait for objections: the port is up.
func (v *vn2vn) join(now frame.Time) {
	v.stage = joined
	p := v.n.ports[0]
	p.id, p.mac, p.state = v.id, fip.VN2VNMap.MAC(v.id), portUp
	v.n.stations()
	v.beacon(now)
	for _, o := range v.neighbors {
		v.meet(o, now)
	}
}

// meet begins with a neighbor as soon as both sides have joined.
func (v *vn2vn) meet(o *neighbor, now frame.Time) {
	v.n.cancel(&o.login)
	switch {
	case v.stage != joined:
	case o.up > now:
		v.n.set(&o.login, o.up, func(now frame.Time) { v.meet(o, now) })
	default:
		v.n.ports[0].meet(o, now)
	}
}

// beacon tells that the identifier is in use.
func (v *vn2vn) beacon(now frame.Time) {
	v.send(fip.Beacon, fip.AllVN2VN, 0)
	fuzz := time.Duration(v.n.env.Random.Uint64() % uint64(beaconFuzz))
	v.n.set(&v.timer, now.Add(beaconEvery+fuzz), v.beacon)
}

// send sends a message; a claim is padded to a length in octets.
func (v *vn2vn) send(op fip.Op, dst ether.Addr, size uint16) {
	c := &v.n.cfg.Ports[0]
	m := fip.Message{Op: op, MAC: v.n.cfg.MAC, Name: c.Node,
		Port: fip.Port{MAC: fip.VN2VNMap.MAC(v.id), ID: v.id, Name: c.Port}}
	m.Set(fip.MAC, fip.Name, fip.VNPort)
	if op == fip.ClaimNotify || op == fip.ClaimReply {
		m.Set(fip.Features, fip.MaxSize)
		m.MaxSize = v.n.maxSize()
		m.Types.Add(fc.TypeFCP)
		m.Types.Add(fc.TypeCT)
		if c.Units != nil {
			m.FCP |= fc.TargetFeature
		}
		if c.Initiator {
			m.FCP |= fc.InitiatorFeature
		}
	}
	b := m.AppendTo(nil)
	if n := int(size) - len(b); n > 0 {
		b = append(b, make([]byte, n)...)
	}
	src := v.n.cfg.MAC
	if op == fip.Beacon {
		src = m.Port.MAC
	}
	v.n.sendFIP(src, dst, b)
}

// receive takes a FIP frame.
func (v *vn2vn) receive(h ether.Header, m *fip.Message, now frame.Time) frame.DropReason {
	if m.Port.Name == v.n.cfg.Ports[0].Port {
		return drop.Source // a loop, or a station with the node's name
	}
	mine := m.Port.ID == v.id && v.stage != idle
	switch m.Op {
	case fip.ProbeRequest:
		if mine {
			v.probed(m, now)
		}
	case fip.ProbeReply:
		if mine && v.stage < joined {
			v.restart(now)
		}
	case fip.ClaimNotify:
		v.claimedBy(m, mine, now)
	case fip.ClaimReply:
		if v.stage >= claiming && !mine {
			v.add(m, now, now)
		}
	case fip.Beacon:
		v.heard(m, mine, now)
	case fip.Request:
		return v.requested(h, m, now)
	case fip.Reply:
		f, payload, err := fc.Parse(m.Frame)
		if err != nil {
			return drop.Malformed
		}
		return v.n.loginReply(&f, m, payload, now)
	default:
		return drop.Unused
	}
	return frame.DropNone
}

// probed answers a probe for the identifier that the node has, or wants.
func (v *vn2vn) probed(m *fip.Message, now frame.Time) {
	if v.stage >= claiming || v.n.cfg.Ports[0].Port > m.Port.Name && m.Flags&fip.Recorded == 0 {
		v.send(fip.ProbeReply, m.MAC, 0)
		return
	}
	v.restart(now)
}

// claimedBy takes a claim.
func (v *vn2vn) claimedBy(m *fip.Message, mine bool, now frame.Time) {
	switch {
	case mine && (v.stage < claiming || m.Port.Name > v.n.cfg.Ports[0].Port):
		v.restart(now)
	case mine:
		v.announce(now)
	case v.stage >= claiming:
		v.send(fip.ClaimReply, m.MAC, min(m.MaxSize, v.n.maxSize()))
		v.add(m, now.Add(announceWait), now)
	}
}

// heard takes a beacon.
func (v *vn2vn) heard(m *fip.Message, mine bool, now frame.Time) {
	if o := v.neighbor(m.Port.ID); o != nil && o.Name == m.Port.Name {
		v.n.set(&o.expiry, now.Add(beaconLost), func(now frame.Time) { v.lost(o, now) })
		if o.up > now {
			o.up = now
			v.meet(o, now)
		}
		return
	}
	switch {
	case mine && m.Port.Name > v.n.cfg.Ports[0].Port:
		v.restart(now)
	case v.stage == joined && now.Sub(v.claimed) > announceWait:
		v.announce(now) // it answers with its own
	}
}

// neighbor is the one with an identifier, or nil.
func (v *vn2vn) neighbor(id fc.ID) *neighbor {
	i := slices.IndexFunc(v.neighbors, func(o *neighbor) bool { return o.ID == id })
	if i < 0 {
		return nil
	}
	return v.neighbors[i]
}

// add takes note of a neighbor, whose claim holds from up on.
func (v *vn2vn) add(m *fip.Message, up, now frame.Time) {
	o := v.neighbor(m.Port.ID)
	if o != nil && o.Name != m.Port.Name {
		v.lost(o, now)
		o = nil
	}
	if o == nil {
		if len(v.neighbors) >= maxNeighbors {
			v.n.stats[TooManyPorts]++
			return
		}
		o = &neighbor{Port: m.Port, up: up}
		v.neighbors = append(v.neighbors, o)
	}
	o.node, o.enode = m.Name, m.MAC
	o.payload = max(256, int(m.MaxSize)-fcoe.Overhead) &^ 3
	v.n.set(&o.expiry, now.Add(beaconLost), func(now frame.Time) { v.lost(o, now) })
	v.meet(o, now)
}

// lost forgets a neighbor that is silent.
func (v *vn2vn) lost(o *neighbor, now frame.Time) {
	v.n.stats[NeighborsLost]++
	v.n.cancel(&o.expiry)
	v.n.cancel(&o.login)
	v.neighbors = slices.DeleteFunc(v.neighbors, func(other *neighbor) bool { return other == o })
	p := v.n.ports[0]
	if r := p.remote(o.ID); r != nil {
		p.forget(r, now)
	}
}

// requested takes a login or logout of a neighbor.
func (v *vn2vn) requested(eh ether.Header, m *fip.Message, now frame.Time) frame.DropReason {
	h, payload, err := fc.Parse(m.Frame)
	p := v.n.ports[0]
	switch {
	case err != nil:
		return drop.Malformed
	case v.stage != joined || h.D != p.id:
		return drop.NotOurMAC
	}
	o := v.neighbor(h.S)
	answer := func(payload []byte) {
		r := h.ReplyTo(fc.ELSReply)
		a := fip.Message{Op: fip.Reply, Login: m.Login, MAC: p.mac, Frame: r.AppendFrame(nil, payload)}
		if fc.Command(payload) == fc.LSACC {
			a.Set(fip.MAC)
		}
		v.n.sendFIP(v.n.cfg.MAC, eh.Src, a.AppendTo(nil))
	}
	l, err := fc.ParseLogin(payload)
	switch {
	case o == nil || o.enode != eh.Src:
		v.n.stats[RejectsSent]++
		answer(fc.AppendReject(nil, fc.FIPError, fc.NotNeighbor))
	case m.Login == fip.LOGO:
		answer(fc.AppendAccept(nil))
		p.loggedOut(h.S, now)
	case m.Login != fip.FLOGI || err != nil || l.Port != o.Name:
		v.n.stats[RejectsSent]++
		answer(fc.AppendReject(nil, fc.LogicalError, fc.BadPortName))
	default:
		a := p.serviceParams(fc.LSACC)
		answer(a.AppendTo(nil))
		p.flogi(o, now)
	}
	return frame.DropNone
}

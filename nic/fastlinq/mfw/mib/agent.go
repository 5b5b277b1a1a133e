package mib

import (
	"bytes"
	"slices"

	"tapir/nic/dcbx"
	"tapir/nic/lldp"
	"tapir/wire/ether"
	"tapir/wire/frame"
	wire "tapir/wire/lldp"
)

// Event is what a driver is told.
type Event uint8

// The events.
const (
	LLDPData     Event = iota // the neighbors of an agent have changed
	RemoteMIB                 // the neighbor's DCBX has
	OperMIB                   // what the port acts on has
	ReceivedTLVs              // an LLDPDU with the registered TLV is new
)

// Env is what an agent needs around it.
type Env struct {
	// Send sends a frame, borrowed; false: not now.
	Send func(b []byte, now frame.Time) bool
	// Post tells the drivers of an event.
	Post func(Event)
	// MACPHY is the link as LLDP tells it.
	MACPHY func() *wire.MACPHY
	System string // its name
}

// Agent is LLDP and DCBX of one port.
type Agent struct {
	env    Env
	mac    ether.Addr
	shm    *Port
	agents *lldp.Port
	dcbx   *dcbx.Machine
	wanted uint8 // the registered type of TLV
	want   bool
}

// New returns the agent of a port, which is off, and publishes into shm.
func New(shm *Port, mac ether.Addr, env Env) *Agent {
	a := &Agent{env: env, mac: mac, shm: shm, dcbx: dcbx.New(mac)}
	a.agents = lldp.New(mac, lldp.Env{Local: a.local, Send: env.Send, Changed: a.changed})
	for s := range lldp.Scopes {
		shm.LLDP[s].Chassis, shm.LLDP[s].PortID = a.ids()
	}
	a.publish(false)
	return a
}

// SetMAC sets another station address.
func (a *Agent) SetMAC(mac ether.Addr) {
	a.mac = mac
	a.agents.SetMAC(mac)
	for s := range lldp.Scopes {
		a.shm.LLDP[s].Chassis, a.shm.LLDP[s].PortID = a.ids()
	}
}

func (a *Agent) ids() (chassis, port idWords) {
	return putID(wire.MACID(wire.ChassisMAC, a.mac)), putID(wire.MACID(wire.PortMAC, a.mac))
}

// LLDP is the protocol's own state, to be looked at.
func (a *Agent) LLDP() *lldp.Port { return a.agents }

// SetLink tells whether frames pass the port.
func (a *Agent) SetLink(up bool, now frame.Time) { a.agents.SetLink(up, now) }

// Receive takes a frame; see lldp.Port.Receive.
func (a *Agent) Receive(b []byte, now frame.Time) (taken bool, err error) {
	return a.agents.Receive(b, now)
}

// Poll returns when it wants to be called again.
func (a *Agent) Poll(now frame.Time) frame.Time { return a.agents.Poll(now) }

// local is what an agent tells. DCBX is that of the nearest bridge.
func (a *Agent) local(s lldp.Scope) *wire.PDU {
	chassis, port := a.shm.LLDP[s].IDs()
	p := &wire.PDU{Chassis: chassis, Port: port, SystemName: a.env.System,
		Capabilities: &wire.Capabilities{Has: wire.CapStation, Enabled: wire.CapStation}, MACPHY: a.env.MACPHY()}
	if t := &a.shm.SystemTLVs; t.Valid != 0 {
		p.Extra = t.Data[:min(t.Length, MaxSystemTLVs)]
	}
	if s == lldp.NearestBridge {
		a.dcbx.AddTo(p)
	}
	return p
}

// changed follows what the neighbors of an agent tell.
func (a *Agent) changed(s lldp.Scope, _ frame.Time) {
	list := a.agents.Neighbors(s)
	st := &a.shm.Status[s]
	st.Prefix++
	st.Status, st.Chassis, st.PortID = 0, idWords{}, idWords{}
	if len(list) > 0 {
		n := list[len(list)-1]
		st.Status, st.Chassis, st.PortID = 1, putID(n.PDU.Chassis), putID(n.PDU.Port)
		a.keepTLVs(n.Raw)
	}
	st.Suffix = st.Prefix
	a.env.Post(LLDPData)
	if s == lldp.NearestBridge {
		a.update()
	}
}

// keepTLVs keeps an LLDPDU with the registered type.
func (a *Agent) keepTLVs(b []byte) {
	if !a.want {
		return
	}
	for rest := b; ; {
		typ, _, next, err := wire.Next(rest)
		if err != nil || typ == wire.TypeEnd && a.wanted != wire.TypeEnd {
			return
		}
		if typ == a.wanted {
			break
		}
		rest = next
	}
	if r := &a.shm.Received; !bytes.Equal(r.Data, b) {
		r.Prefix++
		r.Data = bytes.Clone(b)
		r.Suffix = r.Prefix
		a.env.Post(ReceivedTLVs)
	}
}

// update lets DCBX take in the neighbors and publishes what has come of it.
func (a *Agent) update() {
	var peers []dcbx.Peer
	for _, n := range a.agents.Neighbors(lldp.NearestBridge) {
		peers = append(peers, dcbx.Peer{MAC: n.Source, PDU: n.PDU})
	}
	a.dcbx.Update(peers)
	a.publish(true)
	if a.dcbx.News() {
		a.agents.LocalChanged(lldp.NearestBridge)
	}
}

// publish writes the MIBs that have changed, and posts.
func (a *Agent) publish(post bool) {
	none := &dcbx.Values{}
	remote := a.dcbx.Remote()
	word := uint32(a.dcbx.Version()) | bit(a.dcbx.TooMany(), 3) | bit(a.dcbx.Synced(), 4)
	there := word
	if remote == nil {
		remote, there = none, 0
	}
	for _, m := range []struct {
		to    *MIB
		word  uint32
		v     *dcbx.Values
		event Event
	}{{&a.shm.Remote, there, remote, RemoteMIB}, {&a.shm.Oper, word, a.dcbx.Operational(), OperMIB}} {
		var f Features
		if f.set(m.v); f == m.to.Features && m.word == m.to.Flags {
			continue
		}
		m.to.begin()
		m.to.Features, m.to.Flags = f, m.word
		m.to.end()
		if post {
			a.env.Post(m.event)
		}
	}
}

// CheckSystemTLVs tells whether b is whole TLVs, none of which is mandatory; with
// discard those that are, are left out. nil: it is not.
func CheckSystemTLVs(b []byte, discard bool) (out []byte, ok bool) {
	for len(b) > 0 {
		typ, v, rest, err := wire.Next(b)
		if err != nil {
			return nil, false
		}
		switch mandatory := typ <= wire.TypeTTL; {
		case mandatory && !discard:
			return nil, false
		case !mandatory:
			out = append(out, b[:2+len(v)]...)
		}
		b = rest
	}
	return slices.Clip(out), len(out) <= MaxSystemTLVs
}

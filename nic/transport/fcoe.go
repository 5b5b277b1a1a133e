package transport

import (
	"slices"

	"tapir/nic/fcoe"
	"tapir/nic/ip"
	"tapir/nic/port"
	"tapir/nic/secret"
	"tapir/nic/view"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/fc"
	"tapir/wire/fip"
	"tapir/wire/frame"

	wire "tapir/wire/fcoe"
)

// FCoE joins an end node of FCoE, while there is one, with the port and the stations of a NIC.
// All methods but Start are fine on nil: the NIC has no FCoE.
type FCoE struct {
	env      Env
	pool     frame.Pool
	random   secret.Source
	hardware fcoe.Hardware // nil: the device has no part in it
	node     *fcoe.Node    // nil: none runs
	vlan     uint16        // that an FCF has offered; 0: the NIC's own
	stopping bool          // it has frames left to send
	awake    bool          // the node asks for a Poll
	waiting  bool          // it waits for room
	due      frame.Time    // when it wants to be polled
	past     fcoe.Stats    // of nodes that have ended
}

// NewFCoE makes the way of a node to the wire.
func NewFCoE(pool frame.Pool, random secret.Source, env Env) *FCoE {
	return &FCoE{env: env, pool: pool, random: random}
}

// Attach tells of the device's part; nil: none.
func (t *FCoE) Attach(h fcoe.Hardware) {
	if t != nil {
		t.hardware = h
	}
}

// Start starts a node with ports whose names, where there are none, follow from the station's
// address. A node that runs is in its way.
func (t *FCoE) Start(cfg fcoe.Config, world fcoe.Env, now frame.Time) *fcoe.Node {
	mac := t.env.IP.MAC
	cfg.MAC, cfg.VLAN, cfg.MaxPayload, cfg.Ports = mac, t.env.IP.VLAN, t.payload(), slices.Clone(cfg.Ports)
	for i := range cfg.Ports {
		p := &cfg.Ports[i]
		if p.Node == 0 {
			p.Node = fc.FromMAC(0x1000, mac)
		}
		if p.Port == 0 {
			p.Port = fc.FromMAC(0x2000+uint16(i), mac)
		}
	}
	world.Send, world.Room, world.Stations, world.Random = t.send, t.room, t.listen, t.random
	world.Wake = func() { t.awake = true }
	if t.hardware != nil {
		world.Sessions = t.hardware
	}
	t.end()
	t.node = fcoe.New(cfg, world)
	if !t.env.Wire.Closed {
		t.node.Start(now)
	}
	return t.node
}

// Stop logs the node out everywhere and ends it.
func (t *FCoE) Stop(now frame.Time) {
	if t != nil && t.node != nil && !t.stopping {
		t.stopping = true
		t.node.Stop(now)
	}
}

// end forgets the node.
func (t *FCoE) end() {
	if t.node != nil {
		for i, v := range t.node.Stats() {
			t.past[i] += v
		}
		t.listen(0, nil)
	}
	t.node, t.stopping, t.awake, t.waiting, t.due = nil, false, false, false, frame.Never
}

// Node is the node that runs; nil: none does.
func (t *FCoE) Node() *fcoe.Node {
	if t == nil || t.stopping {
		return nil
	}
	return t.node
}

// Idle tells that no node has frames left to send after its end.
func (t *FCoE) Idle() bool { return t == nil || !t.stopping }

// Link tells that frames pass the port from now on, or no longer.
func (t *FCoE) Link(up bool, now frame.Time) {
	n := t.Node()
	if n == nil {
		return
	}
	if up {
		n.Start(now)
	} else {
		n.LinkDown(now)
	}
}

// Follow tells that the NIC may have another station address, or MTU.
func (t *FCoE) Follow(now frame.Time) {
	if n := t.Node(); n != nil && !n.Has(t.env.IP.MAC, t.payload()) {
		n.Move(t.env.IP.MAC, t.payload(), !t.env.Wire.Closed, now)
	}
}

// payload is the longest one of a frame of Fibre Channel, in octets, that MTU and device allow.
func (t *FCoE) payload() int {
	most := min(fc.MaxPayload, t.env.IP.MTU-wire.Overhead) &^ 3
	if t.hardware != nil {
		most = min(most, t.hardware.MaxPayload())
	}
	return most
}

// listen takes the stations and groups of the node, and the VLAN that it is in, in place of those
// that it had.
func (t *FCoE) listen(vlan uint16, stations []ether.Addr) {
	if t.vlan = vlan; vlan != 0 {
		stations = append(stations, t.env.IP.MAC)
	}
	groups := make([]ip.Group, len(stations))
	for i, a := range stations {
		groups[i] = ip.Group{MAC: a, VLAN: vlan}
	}
	t.env.IP.Listen(t, groups...)
}

// Receive takes a frame of FIP or FCoE behind its header, borrowed.
func (t *FCoE) Receive(h ether.Header, body []byte, now frame.Time) {
	why := drop.Unused
	if t.node != nil {
		why, t.awake = t.node.Receive(h, body, now), true
	}
	if why == frame.DropNone {
		return
	}
	t.env.Wire.Drops.Count(why)
	if t.env.IP.InHand() {
		t.env.Notes.Drop(why)
	}
}

// Poll sends what is due and returns when it wants to be called again.
func (t *FCoE) Poll(now frame.Time) frame.Time {
	if t == nil || t.node == nil {
		return frame.Never
	}
	if t.awake || t.waiting || t.due <= now {
		t.awake = false
		if t.due, t.waiting = t.node.Poll(now); t.stopping && !t.waiting {
			t.end()
		}
	}
	if t.awake {
		return now
	}
	return t.due
}

// tag has a header have the VLAN of the NIC or the node, and the priority that DCBX has given to
// FCoE.
func (t *FCoE) tag(h *ether.Header) {
	own := t.env.IP.Header()
	h.NTags, h.Tags = own.NTags, own.Tags
	if t.vlan != 0 {
		h.NTags, h.Tags[0] = 1, ether.Tag{TPID: ether.TypeVLAN, TCI: t.vlan}
	}
	p := &t.env.Wire.DCB().FCoE
	if !p.On || p.PCP == 0 {
		return
	}
	if h.NTags == 0 {
		h.NTags, h.Tags[0] = 1, ether.Tag{TPID: ether.TypeVLAN}
	}
	h.Tags[0].TCI |= uint16(p.PCP) << 13
}

// room is how many frames the node may send.
func (t *FCoE) room() int {
	var h ether.Header
	t.tag(&h)
	if t.env.Wire.Holds(h.NTags > 0, uint8(h.Tags[0].TCI>>13), false, 0) || !t.env.Sched.Ready() {
		return 0
	}
	room := t.env.Wire.EngineRoom()
	if t.hardware != nil {
		room = min(room, t.hardware.Room())
	}
	return room
}

// send sends a frame: data and commands of FCP by the port, the rest as the device sends it.
func (t *FCoE) send(h ether.Header, body []byte, now frame.Time) {
	t.tag(&h)
	if t.hardware != nil && (h.Type == fip.EtherType || wire.TypeOf(body) != fc.TypeFCP) {
		t.hardware.Send(h, body)
		return
	}
	f := t.pool.Get(h.Len() + len(body))
	if f == nil {
		t.env.Wire.Drops.Count(drop.NoBuffer)
		return
	}
	h.Put(f.Extend(h.Len()))
	f.Append(body)
	t.env.Wire.Send(port.Out{Frame: f, Offloaded: true}, now)
}

// totals are the counters of all nodes that there have been.
func (t *FCoE) totals() fcoe.Stats {
	sum := t.past
	if t.node != nil {
		for i, v := range t.node.Stats() {
			sum[i] += v
		}
	}
	return sum
}

// LoginFailures is how many logins were refused or not answered.
func (t *FCoE) LoginFailures() uint64 {
	if t == nil {
		return 0
	}
	return t.totals()[fcoe.LoginFailures]
}

// Counters are those of all nodes that there have been.
func (t *FCoE) Counters() (list []view.Counter) {
	if t == nil {
		return nil
	}
	for i, v := range t.totals() {
		list = append(list, view.Count("fcoe_"+fcoe.Counter(i).String(), v))
	}
	return list
}

// Package sma is the subnet management agent of an HFI port: what a fabric
// manager asks and sets before anything else can cross the fabric. It is a
// state machine without a clock and without state: all is the port's.
package sma

import (
	"cmp"
	"slices"

	"tapir/opa"
	"tapir/opa/cca"
	"tapir/opa/mad"
	"tapir/wire/frame"
)

// Info is what the agent tells of a port.
type Info struct {
	GUID        uint64
	Name        string // node description
	LID         opa.LID
	SMLID       opa.LID // the fabric manager in charge
	SMSL        uint8
	State       mad.PortState
	MTU         int  // octets of the longest payload of a packet
	EthOnFabric bool // virtual NICs can be set up through the port
}

// Node is the description of the HFI, with a P_Key table of so many entries.
func (i *Info) Node(pkeys int) mad.NodeInfo {
	return mad.NodeInfo{Type: mad.NodeHFI, Ports: 1, SystemGUID: i.GUID, NodeGUID: i.GUID, PortGUID: i.GUID,
		PartitionCap: uint16(pkeys), LocalPort: 1, VendorID: uint32(i.GUID >> 40)}
}

// Port is the state of the port.
func (i *Info) Port() mad.PortInfo {
	p := mad.PortInfo{LID: i.LID, State: i.State, SMSL: i.SMSL, SMLID: i.SMLID, MTUCap: mad.MTUCode(i.MTU),
		LocalPort: 1, Speed: mad.Speed25G, Width: mad.Width4X, Prefix: gidPrefix}
	if i.State > mad.PortDown {
		p.PhysState = mad.PhysLinkUp
	}
	if i.EthOnFabric {
		p.CapMask3 = mad.CapEthOnFabric
	}
	return p
}

// Port is an HFI port as its agent sees it.
type Port interface {
	Info() Info
	// PKeys is the whole P_Key table, borrowed; 0 is an empty entry.
	PKeys() []uint16
	// SetPKeys replaces the table (borrowed), which has as many entries as
	// before.
	SetPKeys(table []uint16)
	// Congestion is the port's congestion control.
	Congestion() *cca.Control
	// SetLID sets the LID, which is unicast, and the way to the fabric manager.
	SetLID(lid, sm opa.LID, sl uint8)
	// Reregister tells the port's clients to register with the fabric manager again.
	Reregister()
	// SetState moves the port from init to armed or from armed to active.
	SetState(s mad.PortState)
}

// Agent answers for one port.
type Agent struct {
	port    Port
	answers Counters
	buf     [mad.DirectedHeaderLen + mad.CongestionLogLen]byte // the longest attribute
}

// Counters are the agent's.
type Counters struct {
	Gets, Sets uint64
	Refused    uint64 // answered with a status other than 0
}

// New returns the agent of port (kept).
func New(port Port) *Agent { return &Agent{port: port} }

// Counters returns the counters so far.
func (a *Agent) Counters() Counters { return a.answers }

// Poll has nothing to do.
func (a *Agent) Poll(frame.Time, mad.Send) frame.Time { return frame.Never }

// Receive answers subnet management packets that ask for this port, but for
// those that a fabric manager answers.
func (a *Agent) Receive(b []byte, from mad.Address, now frame.Time, send mad.Send) {
	s, data, err := mad.ParseSMP(b)
	info := a.port.Info()
	if err != nil || s.GUID != 0 && s.GUID != info.GUID || s.Attr == mad.AttrSMInfo {
		return
	}
	var status mad.Status
	switch s.Method {
	case mad.MethodGet:
		a.answers.Gets++
	case mad.MethodSet:
		a.answers.Sets++
		status = a.set(&s, data)
	default:
		return
	}
	n := 0
	if status == mad.StatusOK {
		n, status = a.get(&s, a.buf[s.Len():], now)
	}
	if status != mad.StatusOK {
		a.answers.Refused++
		n = copy(a.buf[s.Len():], data)
	}
	s.Method, s.Status, s.GUID = mad.MethodGetResp, status, info.GUID
	s.Put(a.buf[:])
	send(mad.Address{LID: from.LID, QP: opa.QPSubnet, SL: from.SL}, a.buf[:s.Len()+n])
}

// get writes the attribute into b and returns its length.
func (a *Agent) get(s *mad.SMP, b []byte, now frame.Time) (int, mad.Status) {
	info := a.port.Info()
	switch s.Attr {
	case mad.AttrNodeDescription:
		mad.PutNodeDescription(b, info.Name)
		return mad.NodeDescriptionLen, mad.StatusOK
	case mad.AttrNodeInfo:
		n := info.Node(len(a.port.PKeys()))
		n.Put(b)
		return mad.NodeInfoLen, mad.StatusOK
	case mad.AttrPortInfo:
		if s.Modifier&^1 != mad.OnePort&^1 { // port 0 is the one that is asked
			return 0, mad.StatusBadValue
		}
		p := info.Port()
		p.Put(b)
		return mad.PortInfoLen, mad.StatusOK
	case mad.AttrPKeyTable:
		block, ok := a.block(s.Modifier)
		if !ok {
			return 0, mad.StatusBadValue
		}
		var keys [mad.PKeysPerBlock]uint16
		copy(keys[:], a.port.PKeys()[block*mad.PKeysPerBlock:])
		mad.PutPKeys(b, keys)
		return mad.PKeyBlockLen, mad.StatusOK
	}
	return a.getCongestion(s, b, now)
}

// getCongestion is get for the attributes of congestion control.
func (a *Agent) getCongestion(s *mad.SMP, b []byte, now frame.Time) (int, mad.Status) {
	c := a.port.Congestion()
	if s.Attr != mad.AttrCongestionControlTable && s.Modifier != 0 {
		return 0, mad.StatusBadValue
	}
	switch s.Attr {
	case mad.AttrCongestionInfo:
		info := c.Info()
		info.Put(b)
		return mad.CongestionInfoLen, mad.StatusOK
	case mad.AttrHFICongestionSetting:
		settings := c.Settings()
		settings.Put(b)
		return mad.CongestionSettingsLen, mad.StatusOK
	case mad.AttrHFICongestionLog:
		log := c.Log(now)
		log.Put(b)
		return mad.CongestionLogLen, mad.StatusOK
	case mad.AttrCongestionControlTable:
		block := int(s.Modifier & 0xff)
		table, ok := c.Table(block)
		if !ok || s.Modifier != mad.CCTBlock(block) {
			return 0, mad.StatusBadValue
		}
		table.Put(b)
		return mad.CCTLen, mad.StatusOK
	}
	return 0, mad.StatusBadAttribute
}

// block is the block of the P_Key table that a modifier names.
func (a *Agent) block(modifier uint32) (int, bool) {
	block := int(modifier & 0x7ff)
	return block, modifier == mad.PKeyBlock(block) && block*mad.PKeysPerBlock < len(a.port.PKeys())
}

// set changes what a Set asks for, all of it or nothing.
func (a *Agent) set(s *mad.SMP, data []byte) mad.Status {
	switch s.Attr {
	case mad.AttrPortInfo:
		return a.setPortInfo(s.Modifier, mad.ParsePortInfo(data))
	case mad.AttrPKeyTable:
		return a.setPKeys(s.Modifier, mad.ParsePKeys(data))
	case mad.AttrHFICongestionSetting:
		if s.Modifier != 0 {
			return mad.StatusBadValue
		}
		a.port.Congestion().SetSettings(mad.ParseCongestionSettings(data))
		return mad.StatusOK
	case mad.AttrCongestionControlTable:
		block := int(s.Modifier & 0xff)
		if s.Modifier != mad.CCTBlock(block) || !a.port.Congestion().SetTable(block, mad.ParseCCT(data)) {
			return mad.StatusBadValue
		}
		return mad.StatusOK
	}
	return mad.StatusBadAttribute
}

func (a *Agent) setPortInfo(modifier uint32, p mad.PortInfo) mad.Status {
	info := a.port.Info()
	lid, state := cmp.Or(p.LID, info.LID), p.State
	if state == info.State {
		state = 0
	}
	switch {
	case modifier != mad.OnePort, p.LID != 0 && !p.LID.IsUnicast(), p.SMLID != 0 && !p.SMLID.IsUnicast(),
		p.PhysState != 0,
		// A port without LID can only stay in init.
		state != 0 && (state != info.State+1 || state < mad.PortArmed || state > mad.PortActive || lid == 0):
		return mad.StatusBadValue
	}
	if lid != 0 && (p.LID != 0 || p.SMLID != 0) {
		a.port.SetLID(lid, cmp.Or(p.SMLID, info.SMLID), p.SMSL)
	}
	if state != 0 {
		a.port.SetState(state)
	}
	if p.Reregister {
		a.port.Reregister()
	}
	return mad.StatusOK
}

func (a *Agent) setPKeys(modifier uint32, keys [mad.PKeysPerBlock]uint16) mad.Status {
	block, ok := a.block(modifier)
	if !ok {
		return mad.StatusBadValue
	}
	table := slices.Clone(a.port.PKeys())
	n := copy(table[block*mad.PKeysPerBlock:], keys[:])
	if slices.ContainsFunc(keys[n:], func(k uint16) bool { return k != 0 }) {
		return mad.StatusBadValue
	}
	a.port.SetPKeys(table)
	return mad.StatusOK
}

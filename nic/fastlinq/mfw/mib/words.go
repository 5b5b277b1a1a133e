// Package mib is LLDP and DCBX of the management firmware: the words of a port's
// shared memory that firmware and drivers exchange, and the agent that keeps them
// up to date. Words are in host order; texts and octets in them big-endian.
package mib

import (
	"encoding/binary"

	"tapir/nic/dcb"
	"tapir/nic/dcbx"
	"tapir/nic/lldp"
	wire "tapir/wire/lldp"
)

// MaxSystemTLVs is how many octets of TLVs a driver may add to the LLDPDUs.
const MaxSystemTLVs = 256

// Port is the part of a port's shared memory.
type Port struct {
	LLDP       [lldp.Scopes]LLDPConfig // the drivers' wishes
	Status     [lldp.Scopes]LLDPStatus // the newest neighbor of each agent
	SystemTLVs SystemTLVs
	Admin      Local
	Remote     MIB
	Oper       MIB
	DSCP       DSCP
	Received   Received
}

// Of is the memory that p points to, new if there is none yet.
func Of(p **Port) *Port {
	if *p == nil {
		*p = &Port{}
		for s := range lldp.Scopes {
			(*p).LLDP[s].SetParams(lldp.Default)
		}
	}
	return *p
}

// idWords hold an ID: its subtype, its length, and the first 14 octets.
type idWords [4]uint32

func putID(id wire.ID) (w idWords) {
	var b [16]byte
	b[0], b[1] = id.Subtype, uint8(len(id.Value))
	copy(b[2:], id.Value)
	for i := range w {
		w[i] = binary.BigEndian.Uint32(b[4*i:])
	}
	return w
}

func (w idWords) id() wire.ID {
	var b [16]byte
	for i := range w {
		binary.BigEndian.PutUint32(b[4*i:], w[i])
	}
	return wire.ID{Subtype: b[0], Value: string(b[2 : 2+min(int(b[1]), len(b)-2)])}
}

// LLDPConfig is lldp_config_params: interval (bits 0 to 7), hold (8 to 11), credit (12
// to 15), receive (30) and transmit (31), and the local IDs.
type LLDPConfig struct {
	Config          uint32
	Chassis, PortID idWords
}

// SetParams and Params convert the configuration.
func (c *LLDPConfig) SetParams(p lldp.Params) {
	c.Config = uint32(p.Interval) | uint32(p.Hold&15)<<8 | uint32(p.Credit&15)<<12 | bit(p.Rx, 30) | bit(p.Tx, 31)
}

func (c *LLDPConfig) Params() lldp.Params {
	w := c.Config
	return lldp.Params{Interval: uint8(w), Hold: uint8(w >> 8 & 15), Credit: uint8(w >> 12 & 15), Rx: w>>30&1 != 0,
		Tx: w>>31 != 0}
}

// IDs are the Chassis ID and the Port ID that the port tells.
func (c *LLDPConfig) IDs() (chassis, port wire.ID) { return c.Chassis.id(), c.PortID.id() }

// LLDPStatus is lldp_status_params: the IDs of the newest neighbor, Status 1: there is
// one. A reader takes it only if both sequence numbers are equal.
type LLDPStatus struct {
	Prefix, Status  uint32
	Chassis, PortID idWords
	Suffix          uint32
}

// IDs are those of the neighbor; false: there is none.
func (s *LLDPStatus) IDs() (chassis, port wire.ID, ok bool) {
	return s.Chassis.id(), s.PortID.id(), s.Status != 0
}

// SystemTLVs are lldp_system_tlvs_buffer: what goes into the LLDPDUs.
type SystemTLVs struct {
	Valid, Length uint32
	Data          [MaxSystemTLVs]byte
}

// Received is lldp_received_tlvs: the newest LLDPDU with a TLV of the type that a driver
// has registered.
type Received struct {
	Prefix uint32
	Data   []byte
	Suffix uint32
}

// DSCP is the map of DSCPs to priorities: bit 0 of Flags: it is in use; three bits for
// each DSCP, eight a word, in nibbles.
type DSCP struct {
	Flags uint32
	Map   [8]uint32
}

// Get and Set are the map as a table.
func (d *DSCP) Get() (on bool, table [64]uint8) {
	for i := range table {
		table[i] = uint8(d.Map[i/8] >> (4 * (i % 8)) & 7)
	}
	return d.Flags&1 != 0, table
}

func (d *DSCP) Set(on bool, table *[64]uint8) {
	*d = DSCP{Flags: bit(on, 0)}
	for i, prio := range table {
		d.Map[i/8] |= uint32(prio&7) << (4 * (i % 8))
	}
}

// Features are dcbx_features: ETS, PFC and the application table.
type Features struct {
	ETS      uint32 // enabled 0, willing 1, error 2, CBS 3, max TCs 4 to 7
	PrioTC   uint32 // a nibble for each priority, 0 in the highest
	Weight   [2]uint32
	TSA      [2]uint32
	PFC      uint32 // priorities 0 to 7, caps 8 to 11, MBC 14, willing 15, enabled 16, error 17
	AppFlags uint32 // enabled 0, willing 1, error 2, max TCs 12 to 15, entries 16 to 23
	Apps     [dcbx.MaxApps]uint32
}

// Versions of DCBX in a configuration word, with Static as a bit.
const (
	versionMask = 3
	versionBit  = 1 << 2 // static: no negotiation
	tooManyBit  = 1 << 3 // several neighbors have stopped it
	syncedBit   = 1 << 4 // CEE: the neighbor has acknowledged
)

// Local is dcbx_local_params: what a driver wants.
type Local struct {
	Config uint32
	Features
}

// Set and Get convert it.
func (l *Local) Set(v dcbx.Version, static bool, values *dcbx.Values) {
	l.Config = uint32(v) | bit(static, 2)
	l.Features.set(values)
}

func (l *Local) Get() (v dcbx.Version, static bool, values dcbx.Values) {
	return dcbx.Version(l.Config & versionMask), l.Config&versionBit != 0, l.Features.get()
}

// MIB is dcbx_mib. A reader takes it only if both sequence numbers are equal.
type MIB struct {
	Prefix, Flags uint32
	Features
	Suffix uint32
}

// Get is what a MIB says: the version in use, and whether several neighbors have
// stopped the negotiation.
func (m *MIB) Get() (v dcbx.Version, tooMany, synced bool, values dcbx.Values) {
	return dcbx.Version(m.Flags & versionMask), m.Flags&tooManyBit != 0, m.Flags&syncedBit != 0, m.Features.get()
}

// begin and end are around a change: meanwhile the numbers differ.
func (m *MIB) begin() { m.Prefix++ }
func (m *MIB) end()   { m.Suffix = m.Prefix }

func bit(is bool, n int) uint32 {
	if is {
		return 1 << n
	}
	return 0
}

func flags(f dcbx.Feature) uint32 { return bit(f.Enabled, 0) | bit(f.Willing, 1) | bit(f.Error, 2) }

func feature(w uint32) dcbx.Feature {
	return dcbx.Feature{Enabled: w&1 != 0, Willing: w&2 != 0, Error: w&4 != 0}
}

// Selectors of CEE in an application word, beside those of IEEE.
const (
	ceeShift, ieeeShift, protocolShift = 8, 12, 16
	ceePort                            = 1
)

func (f *Features) set(v *dcbx.Values) {
	*f = Features{ETS: flags(v.ETS) | bit(v.CBS, 3) | uint32(v.MaxTCs&15)<<4}
	for prio, tc := range v.PrioTC {
		f.PrioTC |= uint32(tc&15) << (28 - 4*prio)
	}
	for i := range v.Weight {
		f.Weight[i/4] |= uint32(v.Weight[i]) << (24 - 8*(i%4))
		f.TSA[i/4] |= uint32(v.TSA[i]) << (24 - 8*(i%4))
	}
	f.PFC = uint32(v.Config.PFC) | uint32(v.PFCCap&15)<<8 | bit(v.MBC, 14) | bit(v.Pause.Willing, 15) |
		bit(v.Pause.Enabled, 16) | bit(v.Pause.Error, 17)
	n := min(len(v.Apps), len(f.Apps))
	f.AppFlags = flags(v.App) | uint32(v.MaxTCs&15)<<12 | uint32(n)<<16
	for i, a := range v.Apps[:n] {
		f.Apps[i] = 1<<(a.Priority&7) | uint32(a.Selector&15)<<ieeeShift | uint32(a.Protocol)<<protocolShift
		if a.Selector != wire.SelEtherType {
			f.Apps[i] |= ceePort << ceeShift
		}
	}
}

func (f *Features) get() (v dcbx.Values) {
	v.ETS, v.CBS, v.MaxTCs = feature(f.ETS), f.ETS&8 != 0, uint8(f.ETS>>4&15)
	for i := range v.PrioTC {
		v.PrioTC[i] = uint8(f.PrioTC >> (28 - 4*i) & 15)
		v.Weight[i] = uint8(f.Weight[i/4] >> (24 - 8*(i%4)))
		v.TSA[i] = dcb.TSA(f.TSA[i/4] >> (24 - 8*(i%4)))
	}
	v.Config.PFC, v.PFCCap, v.MBC = uint8(f.PFC), uint8(f.PFC>>8&15), f.PFC>>14&1 != 0
	v.Pause = dcbx.Feature{Willing: f.PFC>>15&1 != 0, Enabled: f.PFC>>16&1 != 0, Error: f.PFC>>17&1 != 0}
	v.App = feature(f.AppFlags)
	for _, w := range f.Apps[:min(int(f.AppFlags>>16&0xff), len(f.Apps))] {
		prio := uint8(0)
		for prio < 7 && w>>prio&1 == 0 {
			prio++
		}
		v.Apps = append(v.Apps, wire.AppEntry{Priority: prio, Selector: uint8(w >> ieeeShift & 15),
			Protocol: uint16(w >> protocolShift)})
	}
	return v
}

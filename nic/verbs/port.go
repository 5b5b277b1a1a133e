package verbs

import (
	"fmt"
	"slices"

	"tapir/nic/verbs/qpattr"
	"tapir/wire/enum"
)

// MaxGIDs is the length of a port's GID table.
const MaxGIDs = 128

// MaxGUIDs is the number of GUIDs of a port: its own and seven aliases.
const MaxGUIDs = 8

// MaxPKeys is the length of a port's partition key table. The packets of RoCE carry a
// key of it. An RNIC of iWARP knows no partitions: it keeps the keys.
const MaxPKeys = 32

// DefaultPKey is the full member of the default partition.
const DefaultPKey = 0xffff

// PortState is the logical state of a port, numbered as ibv_port_state.
type PortState uint8

const (
	PortDown PortState = 1 + iota
	PortInit           // link up; a manager must arm and activate the port
	PortArmed
	PortActive // data passes
)

var portStates = [...]string{"no change", "DOWN", "INIT", "ARMED", "ACTIVE"}

func (s PortState) String() string { return enum.Name(portStates[:], s, "state %d") }

// PhysState is the physical state of a port, as in the PortInfo attribute
// (InfiniBand Architecture 1.3, section 14.2.5.6).
type PhysState uint8

const (
	PhysPolling  PhysState = 2
	PhysDisabled PhysState = 3
	PhysLinkUp   PhysState = 5
)

var physStates = [...]string{"no change", "SLEEP", "POLLING", "DISABLED", "TRAINING", "LINK_UP"}

func (s PhysState) String() string { return enum.Name(physStates[:], s, "state %d") }

// PortAttr is what query_port tells.
type PortAttr struct {
	State        PortState
	Phys         PhysState
	MTU          int // octets of IP that the link carries
	MaxMsg       uint32
	LID, SMLID   uint16 // 0 unless a manager set them: iWARP has none
	LMC          uint8
	SubnetPrefix uint64
	GIDs         int // entries in use
	GIDTable     int // length of the table
	PKeyTable    int
	BadPKeys     uint32 // packets with a partition key that matches none; no packet of iWARP carries one
}

// Port is the one port of a device.
type Port struct {
	dev      *Device
	state    PortState
	phys     PhysState
	carrier  bool
	disabled bool
	managed  bool // a manager has set the state: it must also activate the port
	mtu      int
	lid      uint16
	smLID    uint16
	lmc      uint8
	prefix   uint64
	addrs    []GID // own ones: of the MAC and the IP addresses
	aliases  [MaxGUIDs]GUID
	pkeys    [MaxPKeys]uint16
	gids     []GID      // the table
	entries  []GIDEntry // the same, as SetGIDs was given it; nil: plain ones
	open     func(bool)
	badPKeys uint32
}

// newPort is a port whose link is up, as that of a device without a NIC.
func newPort() Port {
	return Port{
		state: PortActive, phys: PhysLinkUp, carrier: true, mtu: 1500,
		prefix: 0xfe80 << 48, pkeys: [MaxPKeys]uint16{DefaultPKey},
	}
}

func checkPort(n uint8) error {
	if n != 1 {
		return fmt.Errorf("port %d, the device has port 1 only: %w", n, ErrInvalid)
	}
	return nil
}

// PortAttr returns the attributes of the port.
func (p *Port) PortAttr() PortAttr {
	return PortAttr{
		State: p.state, Phys: p.phys, MTU: p.mtu, MaxMsg: p.dev.limits.MaxMsg, LID: p.lid, SMLID: p.smLID,
		LMC: p.lmc, SubnetPrefix: p.prefix, GIDs: len(p.gids), GIDTable: MaxGIDs, PKeyTable: MaxPKeys,
		BadPKeys: p.badPKeys,
	}
}

// CountBadPKey counts a packet with a partition key that matches none.
func (p *Port) CountBadPKey() { p.badPKeys++ }

// GIDs returns the used part of the port's GID table: that of the MAC address,
// those of the IP addresses, then those of alias GUIDs; with RoCE as SetGIDs says, a zero
// GID is an empty entry. Borrowed.
func (p *Port) GIDs() []GID { return p.gids }

// GIDType is the type of entry i of the GID table.
func (p *Port) GIDType(i int) GIDType {
	return p.GIDEntry(i).Type
}

// GIDEntry is entry i of the GID table, zero beyond its end.
func (p *Port) GIDEntry(i int) (e GIDEntry) {
	switch {
	case i < len(p.entries):
		return p.entries[i]
	case i < len(p.gids):
		e.GID = p.gids[i]
	}
	return e
}

// SetGIDs sets the table of a port that keeps it elsewhere, as RoCE does: entries with a
// zero GID are empty. EventGIDChange if the table changed.
func (p *Port) SetGIDs(table []GIDEntry) {
	if p.entries != nil && slices.Equal(table, p.entries) {
		return
	}
	p.entries, p.gids = table, make([]GID, len(table))
	for i, e := range table {
		p.gids[i] = e.GID
	}
	p.dev.Async(AsyncEvent{Type: EventGIDChange, Port: 1})
}

// PKeys returns the port's partition key table, borrowed; 0 is a free entry.
func (p *Port) PKeys() []uint16 { return p.pkeys[:] }

// HasPKey tells whether an entry of the port's partition key table is in use.
func (p *Port) HasPKey(i uint16) bool { return int(i) < len(p.pkeys) && p.pkeys[i] != 0 }

// fullMember is the bit of a partition key that tells full members from limited ones.
const fullMember = 0x8000

// PKeysMatch tells whether two partition keys are of the same partition and one is a
// full member (InfiniBand Architecture 1.3, section 10.9.3).
func PKeysMatch(a, b uint16) bool {
	return a&^fullMember == b&^fullMember && a&^fullMember != 0 && (a|b)&fullMember != 0
}

// MatchPKey is the index of the table's entry that matches a packet's key, of a full
// member if there is one; false: the port is not in the partition.
func (p *Port) MatchPKey(key uint16) (index uint16, ok bool) {
	for i, k := range p.pkeys {
		if PKeysMatch(k, key) && (!ok || k&fullMember != 0 && p.pkeys[index]&fullMember == 0) {
			index, ok = uint16(i), true
		}
	}
	return index, ok
}

// GUIDs returns the port's GUIDs: the device's own, then the aliases; zero is
// a free entry.
func (p *Port) GUIDs() [MaxGUIDs]GUID {
	list := p.aliases
	list[0] = p.dev.identity.GUID
	return list
}

// OnPort sets what is told whenever data begins (true) or ceases (false) to
// pass the port: the layer below the objects.
func (p *Port) OnPort(h func(open bool)) { p.open = h }

// SetMTU tells the octets of IP that the link carries.
func (p *Port) SetMTU(octets int) { p.mtu = octets }

// roceHeaders is what of the octets of IP a packet of RoCE v2 over IPv6 takes at most:
// IPv6 40, UDP 8, BTH 12, RETH 16, ImmDt 4, ICRC 4.
const roceHeaders = 84

// PathMTU is the longest payload of a packet, 256 to 4096 octets, that the link carries
// with RoCE: the port's active MTU.
func (p *Port) PathMTU() int {
	octets := qpattr.MTUOctets(5)
	for octets > qpattr.MTUOctets(1) && octets > p.mtu-roceHeaders {
		octets /= 2
	}
	return octets
}

// SetCarrier tells that the physical link came up or went down. A port that
// no manager has set a state of becomes active by itself.
func (p *Port) SetCarrier(up bool) {
	p.carrier = up
	p.retrain()
}

// retrain sets the states that follow from carrier and switch.
func (p *Port) retrain() {
	switch {
	case p.disabled:
		p.phys = PhysDisabled
		p.setPort(PortDown)
	case !p.carrier:
		p.phys = PhysPolling
		p.setPort(PortDown)
	default:
		p.phys = PhysLinkUp
		switch {
		case !p.managed:
			p.setPort(PortActive)
		case p.state == PortDown:
			p.setPort(PortInit)
		}
	}
}

func (p *Port) setPort(to PortState) {
	was := p.state
	p.state = to
	switch {
	case was == to:
		return
	case to == PortActive:
		p.dev.Async(AsyncEvent{Type: EventPortActive, Port: 1})
	case was == PortActive:
		p.dev.Async(AsyncEvent{Type: EventPortError, Port: 1})
	}
	if p.open != nil && (was == PortActive || to == PortActive) {
		p.open(to == PortActive)
	}
}

// SetAddrs sets the port's own GIDs; EventGIDChange if the table changed.
func (p *Port) SetAddrs(gids []GID) {
	p.addrs = append(p.addrs[:0], gids...)
	p.rebuildGIDs()
}

func (p *Port) rebuildGIDs() {
	table := append([]GID(nil), p.addrs...)
	for _, g := range p.aliases {
		if !g.IsZero() {
			table = append(table, aliasGID(p.prefix, g))
		}
	}
	p.setTable(table[:min(len(table), MaxGIDs)])
}

func (p *Port) setTable(table []GID) {
	if slices.Equal(table, p.gids) {
		return
	}
	p.gids = table
	p.dev.Async(AsyncEvent{Type: EventGIDChange, Port: 1})
}

func aliasGID(prefix uint64, g GUID) (gid GID) {
	for i := range 8 {
		gid[i] = byte(prefix >> (56 - 8*i))
	}
	copy(gid[8:], g[:])
	return gid
}

// PortMod names what ModifyPort changes; a nil field stays.
type PortMod struct {
	// State moves the port as a manager does: Down from everywhere, after
	// which it comes back to Init by itself; Armed from Init; Active from
	// Armed.
	State *PortState
	// Disabled switches the physical link off or on.
	Disabled     *bool
	LID, SMLID   *uint16
	LMC          *uint8
	SubnetPrefix *uint64
	// Reregister asks all clients to register again with the manager.
	Reregister bool
	// PKeys replaces the partition key table from entry PKeyFirst on.
	PKeys     []uint16
	PKeyFirst int
	// Aliases replaces the port's GUIDs from entry AliasFirst on; entry 0 is
	// the device's own and stays.
	Aliases    []GUID
	AliasFirst int
}

// ModifyPort changes what mod names, all or nothing, and raises the events
// that follow.
func (p *Port) ModifyPort(mod PortMod) error {
	switch {
	case p.dev.state == deviceRemoved:
		return fmt.Errorf("modify port: %w", ErrRemoved)
	case mod.State != nil && !p.mayEnter(*mod.State):
		return fmt.Errorf("modify port: %v to %v: %w", p.state, *mod.State, ErrPortState)
	case mod.PKeyFirst < 0 || mod.PKeyFirst+len(mod.PKeys) > MaxPKeys:
		return fmt.Errorf("modify port: PKeys %d..%d, the table has %d: %w", mod.PKeyFirst,
			mod.PKeyFirst+len(mod.PKeys)-1, MaxPKeys, ErrInvalid)
	case mod.AliasFirst < 0 || mod.AliasFirst+len(mod.Aliases) > MaxGUIDs:
		return fmt.Errorf("modify port: GUIDs %d..%d, the port has %d: %w", mod.AliasFirst,
			mod.AliasFirst+len(mod.Aliases)-1, MaxGUIDs, ErrInvalid)
	}
	p.modifyIDs(&mod)
	p.modifyTables(&mod)
	if mod.Disabled != nil && *mod.Disabled != p.disabled {
		p.disabled = *mod.Disabled
		p.retrain()
	}
	if mod.State != nil {
		p.managed = true
		p.setPort(*mod.State)
		p.retrain()
	}
	if mod.Reregister {
		p.dev.Async(AsyncEvent{Type: EventClientReregister, Port: 1})
	}
	return nil
}

func (p *Port) mayEnter(s PortState) bool {
	switch s {
	case PortDown:
		return true
	case PortArmed:
		return p.state == PortInit || p.state == PortArmed
	case PortActive:
		return p.state == PortArmed || p.state == PortActive
	}
	return false
}

func (p *Port) modifyIDs(mod *PortMod) {
	if mod.LID != nil && *mod.LID != p.lid || mod.LMC != nil && *mod.LMC != p.lmc {
		p.dev.Async(AsyncEvent{Type: EventLIDChange, Port: 1})
	}
	if mod.SMLID != nil && *mod.SMLID != p.smLID {
		p.dev.Async(AsyncEvent{Type: EventSMChange, Port: 1})
	}
	set(&p.lid, mod.LID)
	set(&p.lmc, mod.LMC)
	set(&p.smLID, mod.SMLID)
	set(&p.prefix, mod.SubnetPrefix)
}

func set[T any](p *T, v *T) {
	if v != nil {
		*p = *v
	}
}

func (p *Port) modifyTables(mod *PortMod) {
	was := p.pkeys
	copy(p.pkeys[mod.PKeyFirst:], mod.PKeys)
	if p.pkeys != was {
		p.dev.Async(AsyncEvent{Type: EventPKeyChange, Port: 1})
	}
	copy(p.aliases[mod.AliasFirst:], mod.Aliases)
	p.aliases[0] = GUID{}
	if p.entries == nil {
		p.rebuildGIDs()
	}
}

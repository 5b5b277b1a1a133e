package msg

import "encoding/binary"

// The structs of fixed size below are laid out as on the wire; ParseData and
// AppendManagement go by that.

// Empty is the data of NULL_MANAGEMENT, ENABLE_PORT and DISABLE_PORT.
type Empty struct{}

// Octet is the data of the ids that have a single value: priorities, domain,
// slaveOnly, intervals (log2 of seconds, signed), accuracy and so on. The flags
// of TRACEABILITY_PROPERTIES and TIMESCALE_PROPERTIES are the second octet of
// Flags.
type Octet struct {
	Value uint8
	_     uint8
}

// DefaultDataSet is defaultDS (section 15.5.3.3.1).
type DefaultDataSet struct {
	Flags       uint8 // DefaultTwoStep, DefaultSlaveOnly
	_           uint8
	NumberPorts uint16
	Priority1   uint8
	Quality     ClockQuality
	Priority2   uint8
	Identity    ClockIdentity
	Domain      uint8
	_           uint8
}

// Flags of DefaultDataSet.
const (
	DefaultTwoStep   uint8 = 1
	DefaultSlaveOnly uint8 = 2
)

// CurrentDataSet is currentDS (section 15.5.3.4.1).
type CurrentDataSet struct {
	StepsRemoved     uint16
	OffsetFromMaster TimeInterval
	MeanPathDelay    TimeInterval
}

// ParentDataSet is parentDS (section 15.5.3.5.1).
type ParentDataSet struct {
	Parent                  PortIdentity
	Stats                   uint8 // 1: the observed values are valid
	_                       uint8
	ObservedVariance        uint16
	ObservedPhaseChangeRate int32
	GrandmasterPriority1    uint8
	GrandmasterQuality      ClockQuality
	GrandmasterPriority2    uint8
	GrandmasterIdentity     ClockIdentity
}

// TimeProperties is timePropertiesDS (section 15.5.3.6.1).
type TimeProperties struct {
	UTCOffset int16 // s
	Flags     uint8 // second octet of Flags, from FlagLeap61 on
	Source    TimeSource
}

// PortDataSet is portDS (section 15.5.3.7.1).
type PortDataSet struct {
	Identity                PortIdentity
	State                   PortState
	LogMinDelayReqInterval  int8
	PeerMeanPathDelay       TimeInterval
	LogAnnounceInterval     int8
	AnnounceReceiptTimeout  uint8
	LogSyncInterval         int8
	DelayMechanism          DelayMechanism
	LogMinPdelayReqInterval int8
	Version                 uint8 // versionNumber in the lower 4 bits
}

// TimeStatus is TIME_STATUS_NP of linuxptp.
type TimeStatus struct {
	MasterOffset         int64 // ns
	IngressTime          int64 // ns, of the last Sync
	CumulativeRateOffset int32 // (ratio - 1) * 2^41
	LastFreqChange       int32 // as in FollowUpInfo
	TimeBaseIndicator    uint16
	LastPhaseChange      ScaledNs
	GrandmasterPresent   int32 // 0: this clock is the grandmaster
	GrandmasterIdentity  ClockIdentity
}

// GrandmasterSettings is GRANDMASTER_SETTINGS_NP of linuxptp: what this clock
// says of itself as a grandmaster.
type GrandmasterSettings struct {
	Quality   ClockQuality
	UTCOffset int16
	TimeFlags uint8 // second octet of Flags
	Source    TimeSource
}

// PortDataSetNP is PORT_DATA_SET_NP of linuxptp.
type PortDataSetNP struct {
	NeighborPropDelayThresh uint32 // ns
	AsCapable               int32  // 0: not
}

// SubscribeEvents is SUBSCRIBE_EVENTS_NP of linuxptp: notifications for some
// time.
type SubscribeEvents struct {
	Duration uint16 // s
	Bitmask  [64]uint8
}

// Event is what a SubscribeEvents can ask for.
type Event uint16

// The events.
const (
	EventPortState Event = iota
	EventTimeSync
	EventParentDataSet
)

// Has reports whether e is asked for.
func (s *SubscribeEvents) Has(e Event) bool { return s.Bitmask[e/8]&(1<<(e%8)) != 0 }

// Add asks for e.
func (s *SubscribeEvents) Add(e Event) { s.Bitmask[e/8] |= 1 << (e % 8) }

// PortHWClock is PORT_HWCLOCK_NP of linuxptp.
type PortHWClock struct {
	Identity PortIdentity
	PHCIndex int32
	Flags    uint8 // 1: a virtual clock
	_        uint8
}

// Timestamping tells where a port's stamps come from, in linuxptp's numbers.
type Timestamping uint8

// The kinds of time stamps.
const (
	TimestampingSoftware Timestamping = iota
	TimestampingHardware
	TimestampingLegacyHardware
	TimestampingOneStep
	TimestampingP2POneStep
)

// PortProperties is PORT_PROPERTIES_NP of linuxptp.
type PortProperties struct {
	Identity     PortIdentity
	State        PortState
	Timestamping Timestamping
	Interface    string
}

func (p *PortProperties) parse(b []byte) error {
	c := cursor{b: b}
	if head := c.take(PortIdentityLen + 2); head != nil {
		p.Identity.parse(head)
		p.State, p.Timestamping = PortState(head[10]), Timestamping(head[11])
	}
	p.Interface = c.text()
	return c.err()
}

func (p *PortProperties) append(b []byte) []byte {
	b = append(p.Identity.append(b), uint8(p.State), uint8(p.Timestamping))
	return appendText(b, p.Interface)
}

// PortStats is PORT_STATS_NP of linuxptp: messages by type. These counters
// alone are little-endian on the wire.
type PortStats struct {
	Identity PortIdentity
	Rx, Tx   [16]uint64
}

func (p *PortStats) parse(b []byte) error {
	if len(b) != PortIdentityLen+2*len(p.Rx)*8 {
		return ErrDataLength
	}
	p.Identity.parse(b)
	getCounters(b[PortIdentityLen:], p.Rx[:])
	getCounters(b[PortIdentityLen+8*len(p.Rx):], p.Tx[:])
	return nil
}

func (p *PortStats) append(b []byte) []byte {
	return appendCounters(appendCounters(p.Identity.append(b), p.Rx[:]), p.Tx[:])
}

func getCounters(b []byte, to []uint64) {
	for i := range to {
		to[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
}

func appendCounters(b []byte, from []uint64) []byte {
	for _, v := range from {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

// ServiceStat is an index of PortServiceStats.
type ServiceStat int

// What PortServiceStats counts.
const (
	StatAnnounceTimeout ServiceStat = iota
	StatSyncTimeout
	StatDelayTimeout
	StatUnicastServiceTimeout
	StatUnicastRequestTimeout
	StatMasterAnnounceTimeout
	StatMasterSyncTimeout
	StatQualificationTimeout
	StatSyncMismatch
	StatFollowUpMismatch
	NumServiceStats
)

// PortServiceStats is PORT_SERVICE_STATS_NP of linuxptp; little-endian
// counters again.
type PortServiceStats struct {
	Identity PortIdentity
	Counters [NumServiceStats]uint64
}

func (p *PortServiceStats) parse(b []byte) error {
	if len(b) != PortIdentityLen+8*len(p.Counters) {
		return ErrDataLength
	}
	p.Identity.parse(b)
	getCounters(b[PortIdentityLen:], p.Counters[:])
	return nil
}

func (p *PortServiceStats) append(b []byte) []byte {
	return appendCounters(p.Identity.append(b), p.Counters[:])
}

// UnicastMaster is one row of UnicastMasterTable.
type UnicastMaster struct {
	Identity             PortIdentity
	Quality              ClockQuality
	Selected             bool  // the best master
	State                uint8 // 0 waiting, 1 Announce, 2 Sync and Delay_Resp asked for, 3 received
	Priority1, Priority2 uint8
	Address              PortAddress
}

// UnicastMasterTable is UNICAST_MASTER_TABLE_NP of linuxptp.
type UnicastMasterTable struct{ Masters []UnicastMaster }

func (u *UnicastMasterTable) parse(b []byte) error {
	c := cursor{b: b}
	for range c.uint16() {
		v := c.take(18)
		if v == nil {
			break
		}
		m := UnicastMaster{Selected: v[14] != 0, State: v[15], Priority1: v[16], Priority2: v[17]}
		m.Identity.parse(v)
		m.Quality.parse(v[10:])
		m.Address = c.address()
		u.Masters = append(u.Masters, m)
	}
	return c.err()
}

func (u *UnicastMasterTable) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(u.Masters)))
	for i := range u.Masters {
		m := &u.Masters[i]
		q := m.Quality
		b = append(m.Identity.append(b), q.Class, q.Accuracy, uint8(q.Variance>>8), uint8(q.Variance))
		b = append(b, bit(m.Selected, 0), m.State, m.Priority1, m.Priority2)
		b = m.Address.append(b)
	}
	return b
}

// Clock types of ClockDescription, which may be combined.
const (
	ClockOrdinary       uint16 = 0x8000
	ClockBoundary       uint16 = 0x4000
	ClockP2PTransparent uint16 = 0x2000
	ClockE2ETransparent uint16 = 0x1000
	ClockManagement     uint16 = 0x0800
)

// ClockDescription describes a port and its clock (section 15.5.3.1.2).
type ClockDescription struct {
	Type             uint16
	PhysicalProtocol string // "IEEE 802.3"
	PhysicalAddress  []byte
	ProtocolAddress  PortAddress
	Manufacturer     [3]byte // OUI
	Product          string  // manufacturer;model;instance
	Revision         string  // hardware;firmware;software
	User             string  // name;location
	Profile          [6]byte // profileIdentity
}

func (d *ClockDescription) parse(b []byte) error {
	c := cursor{b: b}
	d.Type, d.PhysicalProtocol = c.uint16(), c.text()
	d.PhysicalAddress = c.take(int(c.uint16()))
	d.ProtocolAddress = c.address()
	copy(d.Manufacturer[:], c.take(4)) // and a reserved octet
	d.Product, d.Revision, d.User = c.text(), c.text(), c.text()
	copy(d.Profile[:], c.take(6))
	return c.err()
}

func (d *ClockDescription) append(b []byte) []byte {
	b = appendText(binary.BigEndian.AppendUint16(b, d.Type), d.PhysicalProtocol)
	b = binary.BigEndian.AppendUint16(b, uint16(len(d.PhysicalAddress)))
	b = d.ProtocolAddress.append(append(b, d.PhysicalAddress...))
	b = append(append(b, d.Manufacturer[:]...), 0)
	b = appendText(appendText(appendText(b, d.Product), d.Revision), d.User)
	return append(b, d.Profile[:]...)
}

// UserDescription is USER_DESCRIPTION (section 15.5.3.1.3): name;location.
type UserDescription struct{ Text string }

func (u *UserDescription) parse(b []byte) error {
	c := cursor{b: b}
	u.Text = c.text()
	return c.err()
}

func (u *UserDescription) append(b []byte) []byte { return appendText(b, u.Text) }

func (c *cursor) err() error {
	if !c.end() {
		return ErrDataLength
	}
	return nil
}

package mad

import "tapir/opa"

// Attributes of congestion control, with the numbers and layouts of the Linux
// driver hfi1, and for switches of the fabric manager opa-fm.
const (
	AttrCongestionInfo          uint16 = 0x008b // Get
	AttrSwitchCongestionSetting uint16 = 0x008d // Get, Set; of a switch
	AttrSwitchPortCongestion    uint16 = 0x008e // Get, Set; modifier SwitchPort
	AttrHFICongestionLog        uint16 = 0x008f // Get, which also clears it
	AttrHFICongestionSetting    uint16 = 0x0090 // Get, Set
	AttrCongestionControlTable  uint16 = 0x0091 // Get, Set; modifier CCTBlock
)

// Bits of SwitchCongestionSetting.ControlMap: which fields count.
const (
	SwitchThresholdValid uint32 = 0x04 // Threshold and PacketSize
	SwitchMarkingValid   uint32 = 0x10 // MarkingRate
)

// SwitchPacketUnit is the unit of PacketSize in octets.
const SwitchPacketUnit = 64

// SwitchCongestionSetting says when a switch sets FECN, on the ports without a setting of
// their own.
type SwitchCongestionSetting struct {
	ControlMap             uint32
	VictimMask, CreditMask [32]uint8 // bits of ports: without use here
	Threshold              uint8     // in the upper 4 bits: 0 for never, to 15 for early
	PacketSize             uint8     // of the shortest packets that are marked
	CSThreshold            uint8     // of credit starvation, as ReturnDelay: without use here
	_                      uint8
	ReturnDelay            uint16
	MarkingRate            uint16 // packets that are left alone after each marked one
}

// SwitchCongestionLen is the attribute's length.
const SwitchCongestionLen = 76

// ParseSwitchCongestion reads the attribute.
func ParseSwitchCongestion(data []byte) SwitchCongestionSetting {
	return decode[SwitchCongestionSetting](data)
}

// Put writes the attribute.
func (c *SwitchCongestionSetting) Put(b []byte) { encode(b, c) }

// SwitchPortCongestion is the setting of one port of a switch.
type SwitchPortCongestion struct {
	Threshold   uint8 // bit 7: the setting counts; lower 4 bits as in the setting of the switch
	PacketSize  uint8
	MarkingRate uint16
}

// SwitchPortValid in Threshold has the setting of a port count.
const SwitchPortValid uint8 = 0x80

// SwitchPortCongestionLen is the attribute's length for one port.
const SwitchPortCongestionLen = 4

// ParseSwitchPortCongestion reads the attribute.
func ParseSwitchPortCongestion(data []byte) SwitchPortCongestion {
	return decode[SwitchPortCongestion](data)
}

// Put writes the attribute.
func (c *SwitchPortCongestion) Put(b []byte) { encode(b, c) }

// SwitchPort is the modifier for one port of a switch, which count from 1.
func SwitchPort(port uint8) uint32 { return 1<<24 | uint32(port) }

// MaxSLs is the number of service levels.
const MaxSLs = 32

// CongestionTick is the unit of CCTI timers and of stamps in the congestion log, in
// nanoseconds.
const CongestionTick = 1024

// CongestionInfo says what a port can do.
type CongestionInfo struct {
	Info      uint16
	CCTBlocks uint8 // of the longest congestion control table
	LogLength uint8 // events that the log keeps
}

// CongestionInfoLen is the attribute's length.
const CongestionInfoLen = 4

// ParseCongestionInfo reads the attribute.
func ParseCongestionInfo(data []byte) CongestionInfo { return decode[CongestionInfo](data) }

// Put writes the attribute.
func (c *CongestionInfo) Put(b []byte) { encode(b, c) }

// CongestionSetting is how a port reacts to BECN on one service level. CCTI is the
// level's index into the congestion control table.
type CongestionSetting struct {
	Increase  uint8 // of the CCTI with each BECN
	_         uint8
	Timer     uint16 // after which the CCTI falls by one, in units of CongestionTick
	Threshold uint8  // CCTI from which BECNs are logged; 0: none
	Min       uint8  // least CCTI
}

// CongestionSettings are those of all service levels.
type CongestionSettings struct {
	ControlMap  uint32 // bit n: service level n reacts
	PortControl uint16 // bit 0: by service level, not by queue pair
	SLs         [MaxSLs]CongestionSetting
}

// PortControlSL in PortControl is the only way in which ports react here.
const PortControlSL uint16 = 1

// CongestionSettingsLen is the attribute's length.
const CongestionSettingsLen = 6 + 6*MaxSLs

// ParseCongestionSettings reads the attribute.
func ParseCongestionSettings(data []byte) CongestionSettings { return decode[CongestionSettings](data) }

// Put writes the attribute.
func (c *CongestionSettings) Put(b []byte) { encode(b, c) }

// CCTEntry is the injection delay at one CCTI: the time that a packet takes on the
// link, shifted right by the upper 2 bits, times the lower 14 bits.
type CCTEntry uint16

// MaxMultiplier is the greatest multiplier of an entry.
const MaxMultiplier = 1<<14 - 1

// Shift and Multiplier are the parts of an entry.
func (e CCTEntry) Shift() uint8       { return uint8(e >> 14) }
func (e CCTEntry) Multiplier() uint16 { return uint16(e & MaxMultiplier) }

// CCTPerBlock is the number of entries in one block of a table, MaxCCTBlocks that of
// the blocks of the longest table.
const (
	CCTPerBlock  = 64
	MaxCCTBlocks = 31
)

// CCT is one block of a congestion control table, with the greatest CCTI.
type CCT struct {
	Limit   uint16
	Entries [CCTPerBlock]CCTEntry
}

// CCTLen is the attribute's length.
const CCTLen = 2 + 2*CCTPerBlock

// CCTBlock is the modifier for one block of the table.
func CCTBlock(block int) uint32 { return 1<<24 | uint32(block) }

// ParseCCT reads one block.
func ParseCCT(data []byte) CCT { return decode[CCT](data) }

// Put writes one block.
func (c *CCT) Put(b []byte) { encode(b, c) }

// CongestionLogEvents is the number of events that a congestion log keeps.
const CongestionLogEvents = 96

// CongestionEvent is a BECN that was logged.
type CongestionEvent struct {
	LocalQP, RemoteQP uint32 // 24 bits
	SL                uint8  // 5 bits
	Service           uint8  // 3 bits
	RemoteLID         opa.LID
	Stamp             uint32 // in units of CongestionTick
}

// ServiceUD is the service of datagrams.
const ServiceUD uint8 = 3

// CongestionLog is a port's log, which begins anew when it is read.
type CongestionLog struct {
	Flags  uint8
	Count  uint16 // of events since it was last read; the latest are kept
	Now    uint32 // in units of CongestionTick
	SLs    uint32 // bit n: there was an event on service level n
	Events [CongestionLogEvents]CongestionEvent
}

// CongestionLogLen is the attribute's length.
const CongestionLogLen = 12 + 16*CongestionLogEvents

// logTypeHFI marks the log of an HFI.
const logTypeHFI = 2

// congestionLogLayout is the attribute as it crosses the fabric.
type congestionLogLayout struct {
	Type, Flags uint8
	Count       uint16
	Now, SLs    uint32
	Events      [CongestionLogEvents]struct {
		LocalQP, RemoteQP [3]byte
		SL, _             uint8
		RemoteLID         opa.LID
		Stamp             uint32
	}
}

// ParseCongestionLog reads the attribute.
func ParseCongestionLog(data []byte) CongestionLog {
	l := decode[congestionLogLayout](data)
	c := CongestionLog{Flags: l.Flags, Count: l.Count, Now: l.Now, SLs: l.SLs}
	qp := func(b [3]byte) uint32 { return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2]) }
	for i, e := range l.Events {
		c.Events[i] = CongestionEvent{LocalQP: qp(e.LocalQP), RemoteQP: qp(e.RemoteQP), SL: e.SL >> 3,
			Service: e.SL & 7, RemoteLID: e.RemoteLID, Stamp: e.Stamp}
	}
	return c
}

// Put writes the attribute.
func (c *CongestionLog) Put(b []byte) {
	l := congestionLogLayout{Type: logTypeHFI, Flags: c.Flags, Count: c.Count, Now: c.Now, SLs: c.SLs}
	qp := func(n uint32) [3]byte { return [3]byte{byte(n >> 16), byte(n >> 8), byte(n)} }
	for i, e := range c.Events {
		to := &l.Events[i]
		to.LocalQP, to.RemoteQP, to.SL = qp(e.LocalQP), qp(e.RemoteQP), e.SL<<3|e.Service&7
		to.RemoteLID, to.Stamp = e.RemoteLID, e.Stamp
	}
	encode(b, &l)
}

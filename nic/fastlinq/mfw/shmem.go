package mfw

import (
	"cmp"
	"encoding/binary"

	"tapir/nic/fastlinq/mfw/mib"
)

// Limits of the shared memory.
const (
	MaxPorts = 4
	MaxPaths = 2
	UnionLen = 64 // octets of data with a command
	NVMChunk = 32 // octets of NVM with a command
)

// sequence is the part of a mailbox header that numbers commands.
const sequence = 0xffff

// SHMEM is the memory that firmware and drivers share ("public" memory): its
// sections, and the register that counts the firmware's resets.
type SHMEM struct {
	DrvMB  []DrvMB // by function, as are MFWMB and Func
	MFWMB  []MFWMB
	Global Global
	Path   [MaxPaths]Path
	Port   []Port
	Func   []Func

	History uint32
}

// DrvMB is the driver mailbox of a function: a command, the answer, and what
// goes with either. Data are little-endian.
type DrvMB struct {
	DrvHeader, DrvParam uint32 // Command | sequence
	FWHeader, FWParam   uint32 // Response | sequence
	DrvPulse, MCPPulse  uint32
	Union               [UnionLen]byte
}

// mailboxOctets is the room for a counter of eight bits per message, in words.
const mailboxOctets = (int(NumMessages) + 3) / 4 * 4

// MFWMB is the firmware mailbox of a function: a producer per message, and
// what the driver has acknowledged. Words of four counters, big-endian.
type MFWMB struct {
	Msg, Ack [mailboxOctets]byte
}

// Producer is the counter of message m among words.
func Producer(words *[mailboxOctets]byte, m Message) uint8 {
	w := binary.BigEndian.Uint32(words[m/4*4:])
	return uint8(w >> (m % 4 * 8))
}

func (mb *MFWMB) produce(m Message) {
	w := mb.Msg[m/4*4:]
	shift := m % 4 * 8
	v := binary.BigEndian.Uint32(w)
	next := uint32(uint8(v>>shift) + 1)
	binary.BigEndian.PutUint32(w, v&^(0xff<<shift)|next<<shift)
}

// Global is what the firmware says of the whole device.
type Global struct {
	MFWVersion          uint32 // a.b.c.d, an octet each
	MaxPath, MaxPorts   uint32
	InternalTemperature int32 // degrees Celsius
	MdumpReason         uint32
}

// Path is what it says of an engine.
type Path struct {
	ProcessKill uint32 // lower half: how often
}

// Port is what it says of a port.
type Port struct {
	LinkStatus      uint32 // Link* bits
	MediaType       uint32
	LFAStatus       uint32 // why the link had to flap, LFA* bits
	LinkChangeCount uint32
	TransceiverData uint32 // state | type << 8
	EEEStatus       uint32 // EEE* fields
	LinkSpeedCaps   uint32 // Speeds that the board has
	DefaultLink     PHYConfig
	WoLInfo         uint32    // magic packets seen
	DCB             *mib.Port // nil: nobody has asked for it
}

// Func is what it says of a function: func_info, and the TLVs that it asks
// for.
type Func struct {
	Config    uint32 // pause on host ring, protocol, min and max bandwidth
	MTU       uint32
	MACUpper  uint32 // the two octets in front
	MACLower  uint32
	WWPN      uint64
	WWNN      uint64
	OVLAN     uint32 // outer tag; NoOVLAN: none
	OEMConfig uint32 // UFP: traffic class, and who decides on the outer tag's priority
	DriverID  uint32
	NumMSIX   uint32
	TLVLength uint32 // octets of TLV
	TLV       []byte // the request, and its answer: borrowed
}

// NoOVLAN is the outer tag of a function that has none.
const NoOVLAN = 0xffff

// Fields of Func.Config.
const (
	funcPauseOnHostRing = 0x2
	funcProtocolShift   = 4
	funcMinBWShift      = 8
	funcMaxBWShift      = 16
)

// Fields of Func.OEMConfig.
const (
	oemTC          = 0xf
	oemPriority    = 0x30
	oemPriorityNIC = 0x10
	oemPriorityOS  = 0x20
)

// FuncInfo is the static data of a function (ecore_mcp_function_info).
type FuncInfo struct {
	PauseOnHostRing bool
	Protocol        Protocol
	BandwidthMin    uint8 // percent
	BandwidthMax    uint8 // percent
	MAC             [6]byte
	WWPN, WWNN      uint64
	OVLAN           uint16
	TC              uint8 // of UFP
	OSPriority      bool  // UFP: the operating system decides on the outer tag's priority
	MTU             uint16
}

// Info reads func_info. A minimum bandwidth of 0 stands for 1 percent, a
// maximum outside of 1 to 100 for 100.
func (f *Func) Info() FuncInfo {
	i := FuncInfo{
		PauseOnHostRing: f.Config&funcPauseOnHostRing != 0,
		Protocol:        Protocol(f.Config >> funcProtocolShift & 0xf),
		BandwidthMin:    uint8(f.Config >> funcMinBWShift),
		BandwidthMax:    uint8(f.Config >> funcMaxBWShift),
		MAC:             macOf(f.MACUpper, f.MACLower),
		WWPN:            f.WWPN, WWNN: f.WWNN, OVLAN: uint16(f.OVLAN), MTU: cmp.Or(uint16(f.MTU), defaultMTU),
		TC: uint8(f.OEMConfig & oemTC), OSPriority: f.OEMConfig&oemPriority == oemPriorityOS,
	}
	if i.BandwidthMin < 1 || i.BandwidthMin > 100 {
		i.BandwidthMin = 1
	}
	if i.BandwidthMax < 1 || i.BandwidthMax > 100 {
		i.BandwidthMax = 100
	}
	return i
}

const defaultMTU = 1500

// macOf is an address of which the upper word has the first two octets.
func macOf(upper, lower uint32) (mac [6]byte) {
	binary.BigEndian.PutUint16(mac[:], uint16(upper))
	binary.BigEndian.PutUint32(mac[2:], lower)
	return mac
}

func (f *Func) setMAC(mac [6]byte) {
	f.MACUpper = uint32(binary.BigEndian.Uint16(mac[:]))
	f.MACLower = binary.BigEndian.Uint32(mac[2:])
}

func (f *Func) setBandwidth(low, high uint8) {
	f.Config = f.Config&^(0xffff<<funcMinBWShift) | uint32(low)<<funcMinBWShift | uint32(high)<<funcMaxBWShift
}

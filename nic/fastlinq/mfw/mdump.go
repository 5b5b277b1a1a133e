package mfw

import "encoding/binary"

// Operations of MDUMP_CMD.
const (
	MdumpAck         = 0x01
	MdumpSetValues   = 0x02
	MdumpTrigger     = 0x03
	MdumpGetConfig   = 0x04
	MdumpSetEnable   = 0x05
	MdumpClearLogs   = 0x06
	MdumpGetRetain   = 0x07
	MdumpClearRetain = 0x08
)

// Why there is a dump.
const (
	dumpNone     = 0
	dumpDriver   = 1 // it was asked for
	dumpCritical = 2
	maxLogs      = 4
	mdumpVersion = 2
)

// mdump is the crash dump area in the flash.
type mdump struct {
	enabled bool
	values  [3]uint32 // epoch, firmware, HSI: what the driver set
	logs    uint32
	retain  MdumpRetain
}

// MdumpConfig is what MDUMP GET_CONFIG tells.
type MdumpConfig struct {
	Version, Config, Epoch, MaxLogs, ValidLogs uint32
}

// DecodeMdumpConfig reads five words.
func DecodeMdumpConfig(b []byte) MdumpConfig { return decode[MdumpConfig](b) }

// MdumpRetain is what outlived the last dump.
type MdumpRetain struct {
	Valid, Epoch, PF, Status uint32
}

// DecodeMdumpRetain reads four words.
func DecodeMdumpRetain(b []byte) MdumpRetain { return decode[MdumpRetain](b) }

// encode writes what the mailbox carries, little endian: numbers, or a struct of
// them. It fits.
func encode(b []byte, v any) {
	if _, err := binary.Encode(b, binary.LittleEndian, v); err != nil {
		panic("mfw: " + err.Error())
	}
}

// decode is the reverse of encode.
func decode[T any](b []byte) (v T) {
	if _, err := binary.Decode(b, binary.LittleEndian, &v); err != nil {
		panic("mfw: " + err.Error())
	}
	return v
}

func (f *Firmware) mdumpCmd(r *request) Response {
	d := &f.dump
	switch r.param & 0xff {
	case MdumpAck:
		f.shm.Global.MdumpReason = dumpNone
	case MdumpSetValues:
		d.values = decode[[3]uint32](r.data)
	case MdumpSetEnable:
		d.enabled = true
	case MdumpTrigger:
		if !d.enabled || d.logs == maxLogs {
			return Error
		}
		f.dumpReason(dumpDriver)
	case MdumpGetConfig:
		encode(r.data, MdumpConfig{mdumpVersion, b2u(d.enabled), d.values[0], maxLogs, d.logs})
	case MdumpClearLogs:
		d.logs = 0
	case MdumpGetRetain:
		encode(r.data, d.retain)
	case MdumpClearRetain:
		d.retain = MdumpRetain{}
	default:
		return MdumpInvalidCmd
	}
	return OK
}

func b2u(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// dumpReason writes a log, if there is room, and what is retained.
func (f *Firmware) dumpReason(why uint32) {
	d := &f.dump
	f.shm.Global.MdumpReason = why
	if d.enabled && d.logs < maxLogs {
		d.logs++
	}
	d.retain = MdumpRetain{Valid: 1, Epoch: d.values[0], Status: why}
}

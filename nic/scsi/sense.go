package scsi

import "encoding/binary"

// Status ends a command (SAM-5 table 49).
type Status uint8

// Statuses.
const (
	Good                Status = 0x00
	CheckCondition      Status = 0x02
	ReservationConflict Status = 0x18
	TaskSetFull         Status = 0x28
)

// Key is the kind of a sense (SPC-4 table 48).
type Key uint8

// Sense keys.
const (
	NoSense        Key = 0x0
	NotReady       Key = 0x2
	MediumError    Key = 0x3
	HardwareError  Key = 0x4
	IllegalRequest Key = 0x5
	UnitAttention  Key = 0x6
	DataProtect    Key = 0x7
	AbortedCommand Key = 0xb
	Miscompare     Key = 0xe
)

// Sense says why a command failed: key, additional sense code with its qualifier in the
// lower octet, and the information field, an LBA or an offset, if Valid.
type Sense struct {
	Key   Key
	Code  uint16
	Valid bool
	Info  uint32
}

// Causes of the units (SPC-4 annex F).
var (
	invalidOpcode     = Sense{Key: IllegalRequest, Code: 0x2000}
	outOfRange        = Sense{Key: IllegalRequest, Code: 0x2100}
	invalidFieldInCDB = Sense{Key: IllegalRequest, Code: 0x2400}
	noLogicalUnit     = Sense{Key: IllegalRequest, Code: 0x2500}
	invalidParameter  = Sense{Key: IllegalRequest, Code: 0x2600}
	wrongListLength   = Sense{Key: IllegalRequest, Code: 0x1a00}
	savingUnsupported = Sense{Key: IllegalRequest, Code: 0x3900}
	writeProtected    = Sense{Key: DataProtect, Code: 0x2700}
	stopped           = Sense{Key: NotReady, Code: 0x0402}
	readError         = Sense{Key: MediumError, Code: 0x1100}
	writeError        = Sense{Key: MediumError, Code: 0x0c00}
	poweredOn         = Sense{Key: UnitAttention, Code: 0x2900}
	wasReset          = Sense{Key: UnitAttention, Code: 0x2903}
	modeChanged       = Sense{Key: UnitAttention, Code: 0x2a01}
)

// Causes that protocols have (RFC 7143 section 11.4.7.2).
var (
	UnexpectedData = Sense{Key: AbortedCommand, Code: 0x0c0c}
	WrongAmount    = Sense{Key: AbortedCommand, Code: 0x0c0d}
	DigestError    = Sense{Key: AbortedCommand, Code: 0x4705}
	PhaseError     = Sense{Key: AbortedCommand, Code: 0x4b00}
	BadLength      = Sense{Key: IllegalRequest, Code: 0x2400} // of a command whose data must be Exact
)

// Append appends the sense in the fixed format of 18 octets (SPC-4 section 4.5.3).
func (s Sense) Append(b []byte) []byte {
	var f [18]byte
	f[0], f[2], f[7] = 0x70, byte(s.Key), byte(len(f)-8)
	if s.Valid {
		f[0] |= 0x80
		binary.BigEndian.PutUint32(f[3:], s.Info)
	}
	binary.BigEndian.PutUint16(f[12:], s.Code)
	return append(b, f[:]...)
}

// Package iscsi reads and writes the PDUs of iSCSI (RFC 7143 section 11). All
// fields are big-endian on the wire; digests alone have their octets least
// significant first.
package iscsi

import (
	"encoding/binary"

	"tapir/wire/crc"
)

// Port is the TCP port of targets (RFC 7143 section 5.1).
const Port = 3260

// Lengths in octets.
const (
	HeaderLen = 48      // basic header segment
	digestLen = 4       // header or data digest
	maxAHS    = 255 * 4 // additional header segments
)

// Opcode says which PDU it is (RFC 7143 section 11.2.1.2).
type Opcode uint8

// PDUs that initiators send.
const (
	NopOut      Opcode = 0x00
	Command     Opcode = 0x01
	TaskRequest Opcode = 0x02
	LoginReq    Opcode = 0x03
	TextReq     Opcode = 0x04
	DataOut     Opcode = 0x05
	LogoutReq   Opcode = 0x06
	SNACK       Opcode = 0x10
)

// PDUs that targets send.
const (
	NopIn        Opcode = 0x20
	Response     Opcode = 0x21
	TaskResponse Opcode = 0x22
	LoginRsp     Opcode = 0x23
	TextRsp      Opcode = 0x24
	DataIn       Opcode = 0x25
	LogoutRsp    Opcode = 0x26
	R2T          Opcode = 0x31
	Async        Opcode = 0x32
	Reject       Opcode = 0x3f
)

// Flags of the second octet.
const (
	Final     = 0x80 // the last PDU of a sequence
	Transit   = 0x80 // login: on to the next stage
	Continue  = 0x40 // login, text: the text goes on in the next PDU
	Read      = 0x40 // command: data to the initiator
	Write     = 0x20 // command: data to the target
	Overflow  = 0x04 // response, Data-In: there was more data than expected
	Underflow = 0x02 // less
	Status    = 0x01 // Data-In: the SCSI status is in it
)

// Unassigned is the tag that names no task and no transfer.
const Unassigned = 0xffffffff

// Field is a field of 32 bits of the basic header segment: its offset there. What an
// offset means depends on the PDU.
type Field int

// Fields (RFC 7143 sections 11.3 to 11.19).
const (
	ITT         Field = 16 // initiator task tag
	TTT         Field = 20 // target transfer tag; of Data, R2T, NOP and text
	Expected    Field = 20 // command: expected data transfer length
	RefTag      Field = 20 // task management: the task that is meant
	CmdSN       Field = 24 // of initiators
	ExpStatSN   Field = 28
	StatSN      Field = 24 // of targets
	ExpCmdSN    Field = 28
	MaxCmdSN    Field = 32
	DataSN      Field = 36 // number of a Data PDU in its sequence
	R2TSN       Field = 36
	ExpDataSN   Field = 36 // response: how many Data-In and R2T there were
	Offset      Field = 40 // of data in the buffer of the command
	Desired     Field = 44 // R2T: octets wanted
	Residual    Field = 44 // octets too many or too few
	StatusClass Field = 36 // login response: class and detail in the upper half
)

// BHS is a basic header segment, as it is on the wire.
type BHS [HeaderLen]byte

// Opcode is the kind of PDU.
func (h *BHS) Opcode() Opcode { return Opcode(h[0] & 0x3f) }

// Immediate tells that the PDU does not wait for its turn.
func (h *BHS) Immediate() bool { return h[0]&0x40 != 0 }

// U32 reads a field.
func (h *BHS) U32(f Field) uint32 { return binary.BigEndian.Uint32(h[f : f+4]) }

// Put writes a field.
func (h *BHS) Put(f Field, v uint32) { binary.BigEndian.PutUint32(h[f:f+4], v) }

// LUN is the logical unit number, as SAM-5 section 4.7 has it.
func (h *BHS) LUN() uint64 { return binary.BigEndian.Uint64(h[8:16]) }

// CDB are the 16 octets of the command.
func (h *BHS) CDB() []byte { return h[32:48] }

// DataLen is the length of the data segment in octets, without padding.
func (h *BHS) DataLen() int { return int(h[5])<<16 | int(h[6])<<8 | int(h[7]) }

// SetDataLen sets it; it is less than 1<<24.
func (h *BHS) SetDataLen(n int) { h[5], h[6], h[7] = byte(n>>16), byte(n>>8), byte(n) }

// Less compares sequence numbers (RFC 1982).
func Less(a, b uint32) bool { return int32(a-b) < 0 }

// pad is how many octets round n up to a multiple of 4.
func pad(n int) int { return -n & 3 }

// Digests says which digests a connection has: CRC32C of the header segments and of
// the data segment with its padding (RFC 7143 section 13.1).
type Digests struct{ Header, Data bool }

// Head appends a basic header segment and its digest.
func (d Digests) Head(dst []byte, h *BHS) []byte {
	dst = append(dst, h[:]...)
	if d.Header {
		dst = binary.LittleEndian.AppendUint32(dst, crc.CRC32C(dst[len(dst)-HeaderLen:]))
	}
	return dst
}

// Tail appends what follows the data segment: padding, and its digest.
func (d Digests) Tail(dst, data []byte) []byte {
	if len(data) == 0 {
		return dst
	}
	var zeros [3]byte
	padding := zeros[:pad(len(data))]
	dst = append(dst, padding...)
	if d.Data {
		dst = binary.LittleEndian.AppendUint32(dst, crc.Update(crc.CRC32C(data), dst[len(dst)-len(padding):]))
	}
	return dst
}

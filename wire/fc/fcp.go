package fc

import "encoding/binary"

// Flags of a command (FCP-4 section 9.1).
const (
	ReadData  = 0x02 // data to the initiator
	WriteData = 0x01 // data to the target
)

// Task management flags of a command.
const (
	AbortTaskSet = 0x02
	ClearTaskSet = 0x04
	ResetLUN     = 0x10
	ResetTarget  = 0x20
	ClearACA     = 0x40
)

// CommandLen is the length of an FCP_CMND without an additional CDB, in octets.
const CommandLen = 32

// SCSICommand is FCP_CMND. A CDB of more than 16 octets is not supported.
type SCSICommand struct {
	LUN        uint64 // as SAM-5 section 4.7 has it
	Ref        uint8
	Attribute  uint8 // task attribute in bits 2..0, priority in 6..3
	Management uint8
	Flags      uint8 // ReadData, WriteData
	CDB        [16]byte
	DataLen    uint32 // octets
}

// ParseCommand reads FCP_CMND. Errors: ErrShort; ErrFormat for an additional CDB.
func ParseCommand(b []byte) (c SCSICommand, err error) {
	if len(b) < CommandLen {
		return c, ErrShort
	}
	if b[11]>>2 != 0 {
		return c, ErrFormat
	}
	c = SCSICommand{LUN: binary.BigEndian.Uint64(b), Ref: b[8], Attribute: b[9], Management: b[10], Flags: b[11] & 3,
		DataLen: binary.BigEndian.Uint32(b[28:])}
	copy(c.CDB[:], b[12:])
	return c, nil
}

// AppendTo appends the 32 octets of the command.
func (c *SCSICommand) AppendTo(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, c.LUN)
	b = append(b, c.Ref, c.Attribute, c.Management, c.Flags)
	return binary.BigEndian.AppendUint32(append(b, c.CDB[:]...), c.DataLen)
}

// Transfer is FCP_XFER_RDY: the target asks for data.
type Transfer struct {
	Offset uint32 // in the data of the command, in octets
	Burst  uint32 // octets
}

// ParseTransfer reads FCP_XFER_RDY. Error: ErrShort.
func ParseTransfer(b []byte) (Transfer, error) {
	if len(b) < 12 {
		return Transfer{}, ErrShort
	}
	return Transfer{binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])}, nil
}

// AppendTo appends the 12 octets.
func (t Transfer) AppendTo(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, t.Offset)
	return append(binary.BigEndian.AppendUint32(b, t.Burst), 0, 0, 0, 0)
}

// Flags of a response (FCP-4 section 9.5).
const (
	ConfirmWanted = 0x10
	Underrun      = 0x08 // less data than expected
	Overrun       = 0x04 // more
	HasSense      = 0x02
	HasInfo       = 0x01
)

// Codes of the response information.
const (
	TaskDone        = 0x00
	DataLenWrong    = 0x01
	CommandInvalid  = 0x02
	DataParamsWrong = 0x03
	TaskUnsupported = 0x04
	TaskFailed      = 0x05
	BadLUN          = 0x09
)

// Response is FCP_RSP.
type Response struct {
	Flags    uint8
	Status   uint8  // SCSI status
	Residual uint32 // octets
	Info     uint8  // response code, with HasInfo
	Sense    []byte // with HasSense
}

// ResponseLen is the length of FCP_RSP without response information and sense data, in octets.
const ResponseLen = 24

// ParseResponse reads FCP_RSP; Sense borrows b. Error: ErrShort.
func ParseResponse(b []byte) (r Response, err error) {
	if len(b) < ResponseLen {
		return r, ErrShort
	}
	r = Response{Flags: b[10], Status: b[11]}
	if r.Flags&(Underrun|Overrun) != 0 {
		r.Residual = binary.BigEndian.Uint32(b[12:])
	}
	rest := b[ResponseLen:]
	if r.Flags&HasInfo != 0 {
		n := uint64(binary.BigEndian.Uint32(b[20:]))
		if n < 4 || n > uint64(len(rest)) {
			return r, ErrShort
		}
		r.Info, rest = rest[3], rest[n:]
	}
	if r.Flags&HasSense != 0 {
		n := uint64(binary.BigEndian.Uint32(b[16:]))
		if n > uint64(len(rest)) {
			return r, ErrShort
		}
		r.Sense = rest[:n]
	}
	return r, nil
}

// AppendTo appends the response with its information and sense data.
func (r *Response) AppendTo(b []byte) []byte {
	var p [ResponseLen]byte
	p[10], p[11] = r.Flags, r.Status
	binary.BigEndian.PutUint32(p[12:], r.Residual)
	if r.Flags&HasSense != 0 {
		binary.BigEndian.PutUint32(p[16:], uint32(len(r.Sense)))
	}
	if r.Flags&HasInfo != 0 {
		binary.BigEndian.PutUint32(p[20:], 8)
	}
	b = append(b, p[:]...)
	if r.Flags&HasInfo != 0 {
		b = append(b, 0, 0, 0, r.Info, 0, 0, 0, 0)
	}
	if r.Flags&HasSense != 0 {
		b = append(b, r.Sense...)
	}
	return b
}

package iscsi

import (
	"encoding/binary"
	"strconv"
)

var opcodeNames = [...]string{
	NopOut: "NOP-Out", Command: "SCSI Command", TaskRequest: "Task Management Request", LoginReq: "Login Request",
	TextReq: "Text Request", DataOut: "Data-Out", LogoutReq: "Logout Request", SNACK: "SNACK Request",
	NopIn: "NOP-In", Response: "SCSI Response", TaskResponse: "Task Management Response",
	LoginRsp: "Login Response", TextRsp: "Text Response", DataIn: "Data-In", LogoutRsp: "Logout Response",
	R2T: "R2T", Async: "Asynchronous Message", Reject: "Reject",
}

// String is the name of the PDU (RFC 7143 section 11.2.1.2).
func (o Opcode) String() string {
	if int(o) < len(opcodeNames) && opcodeNames[o] != "" {
		return opcodeNames[o]
	}
	return "opcode 0x" + strconv.FormatUint(uint64(o), 16)
}

// Valid tells that the opcode is none of the reserved ones.
func (o Opcode) Valid() bool { return int(o) < len(opcodeNames) && opcodeNames[o] != "" }

// OfTarget tells that targets send it.
func (o Opcode) OfTarget() bool { return o&0x20 != 0 }

// Append appends the PDU's kind and fields as a line of text.
func (h *BHS) Append(dst []byte) []byte {
	op := h.Opcode()
	dst = append(dst, op.String()...)
	if n := h.U32(ITT); n != Unassigned {
		dst = appendHex(dst, " ITT ", n)
	}
	switch op {
	case Command:
		dst = h.appendCommand(dst)
	case TaskRequest:
		dst = appendDec(h.appendLUN(dst), " function ", uint32(h[1]&0x7f))
		dst = appendHex(dst, " about ITT ", h.U32(RefTag))
	case DataOut, DataIn:
		dst = appendDec(dst, " DataSN ", h.U32(DataSN))
		dst = appendDec(dst, " offset ", h.U32(Offset))
	case R2T:
		dst = appendDec(h.appendLUN(dst), " R2TSN ", h.U32(R2TSN))
		dst = appendDec(appendDec(dst, " asks for ", h.U32(Desired)), " at ", h.U32(Offset))
	case LoginReq, LoginRsp:
		dst = append(append(dst, " stage "...), '0'+h[1]>>2&3)
		if h[1]&Transit != 0 {
			dst = append(append(dst, " to "...), '0'+h[1]&3)
		}
		if op == LoginRsp && h[36] != 0 {
			dst = appendHex(dst, " status ", uint32(h[36])<<8|uint32(h[37]))
		}
	case LogoutReq:
		dst = appendDec(dst, " reason ", uint32(h[1]&0x7f))
	case TaskResponse, LogoutRsp, Reject:
		dst = appendHex(dst, " code ", uint32(h[2]))
	case Async:
		dst = appendDec(dst, " event ", uint32(h[36]))
	}
	if op == Response || op == DataIn && h[1]&Status != 0 {
		dst = h.appendStatus(dst)
	}
	if n := h.DataLen(); n > 0 {
		dst = append(appendDec(dst, ", ", uint32(n)), " octets"...)
	}
	return dst
}

func (h *BHS) appendCommand(dst []byte) []byte {
	dst = h.appendLUN(dst)
	dst = appendDec(dst, " CmdSN ", h.U32(CmdSN))
	dst = appendHex(dst, " CDB ", uint32(h[32]))
	for _, d := range [...]struct {
		flag byte
		text string
	}{{Read, " reads "}, {Write, " writes "}} {
		if h[1]&d.flag != 0 {
			dst = appendDec(dst, d.text, h.U32(Expected))
		}
	}
	return dst
}

func (h *BHS) appendStatus(dst []byte) []byte {
	if h.Opcode() == Response && h[2] != 0 {
		dst = appendHex(dst, " response ", uint32(h[2]))
	} else {
		dst = appendHex(dst, " status ", uint32(h[3]))
	}
	switch {
	case h[1]&Underflow != 0:
		dst = append(appendDec(dst, ", ", h.U32(Residual)), " too few"...)
	case h[1]&Overflow != 0:
		dst = append(appendDec(dst, ", ", h.U32(Residual)), " too many"...)
	}
	return dst
}

// appendLUN appends a unit's number if it is of one level, else its octets (SAM-5 section 4.7).
func (h *BHS) appendLUN(dst []byte) []byte {
	if n := binary.BigEndian.Uint16(h[8:]); n < 0x8000 && h.LUN()<<16 == 0 {
		return appendDec(dst, " LUN ", uint32(n&0x3fff))
	}
	return strconv.AppendUint(append(dst, " LUN 0x"...), h.LUN(), 16)
}

func appendDec(dst []byte, text string, n uint32) []byte {
	return strconv.AppendUint(append(dst, text...), uint64(n), 10)
}

func appendHex(dst []byte, text string, n uint32) []byte {
	return strconv.AppendUint(append(append(dst, text...), "0x"...), uint64(n), 16)
}

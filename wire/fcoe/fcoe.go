// Package fcoe puts frames of Fibre Channel into Ethernet frames (FC-BB-6 clause 7.7).
package fcoe

import (
	"encoding/binary"
	"errors"

	"tapir/wire/crc"
	"tapir/wire/fc"
)

// EtherType is that of FCoE.
const EtherType uint16 = 0x8906

// Lengths in octets: what stands before and behind the frame of Fibre Channel.
const (
	headLen = 14
	tailLen = 8 // CRC, end of frame, reserved
	// Overhead is what an Ethernet payload holds beside the payload of Fibre Channel.
	Overhead = headLen + fc.HeaderLen + tailLen
)

// SOF is the delimiter at the start of a frame, EOF that at its end.
type (
	SOF uint8
	EOF uint8
)

// Delimiters of class 3.
const (
	SOFi3 SOF = 0x2e // first frame of a sequence
	SOFn3 SOF = 0x36 // further frame
	SOFf  SOF = 0x28 // of switches
	EOFn  EOF = 0x41 // more frames follow in the sequence
	EOFt  EOF = 0x42 // last frame of the sequence
	EOFni EOF = 0x49 // invalid
	EOFa  EOF = 0x50 // aborted
)

// Errors of Parse.
var (
	ErrShort     = errors.New("fcoe: frame is too short")
	ErrVersion   = errors.New("fcoe: version is not 0")
	ErrCRC       = errors.New("fcoe: CRC is wrong")
	ErrDelimiter = errors.New("fcoe: start or end of frame is not of class 3")
)

// Parse takes a frame of Fibre Channel, header and payload, out of an Ethernet payload,
// which frame borrows. Errors: ErrShort, ErrVersion, ErrDelimiter, ErrCRC.
func Parse(b []byte) (s SOF, e EOF, frame []byte, err error) {
	if len(b) < Overhead {
		return 0, 0, nil, ErrShort
	}
	if b[0]>>4 != 0 {
		return 0, 0, nil, ErrVersion
	}
	frame = b[headLen : len(b)-tailLen]
	tail := b[len(b)-tailLen:]
	s, e = SOF(b[headLen-1]), EOF(tail[4])
	if s != SOFi3 && s != SOFn3 || e != EOFn && e != EOFt {
		return s, e, nil, ErrDelimiter
	}
	if binary.LittleEndian.Uint32(tail) != crc.IEEE(0, frame) {
		return s, e, nil, ErrCRC
	}
	return s, e, frame, nil
}

// Header reads the header of the frame in an Ethernet payload, and nothing else of it; false: there
// is none.
func Header(b []byte) (h fc.Header, ok bool) {
	if len(b) < Overhead {
		return h, false
	}
	h, _, err := fc.Parse(b[headLen : len(b)-tailLen])
	return h, err == nil
}

// Append appends the Ethernet payload of a frame of class 3: the delimiters follow from
// its header.
func Append(b []byte, h fc.Header, payload []byte) []byte {
	s, e := SOFn3, EOFn
	if h.SeqCnt == 0 {
		s = SOFi3
	}
	if h.FCtl&fc.End != 0 {
		e = EOFt
	}
	b = append(b, make([]byte, headLen)...)
	b[len(b)-1] = byte(s)
	at := len(b)
	b = h.AppendFrame(b, payload)
	b = binary.LittleEndian.AppendUint32(b, crc.IEEE(0, b[at:]))
	return append(b, byte(e), 0, 0, 0)
}

// TypeOf is the type of the frame of Fibre Channel in an Ethernet payload that Append has made.
func TypeOf(b []byte) fc.Type { return fc.Type(b[headLen+8]) }

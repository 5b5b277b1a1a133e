package mpa

import (
	"bytes"
	"encoding/binary"

	"tapir/wire/enum"
)

// Kind tells a request frame from a reply frame; on the wire it is the key.
type Kind uint8

const (
	// Request is sent by the initiator.
	Request Kind = iota
	// Reply is sent by the responder.
	Reply
)

func (k Kind) String() string {
	if k == Request {
		return "request"
	}
	return "reply"
}

const (
	// FrameHeaderLen is the length of a start-up frame without private data.
	FrameHeaderLen = 20
	// MaxPrivateData bounds PD_Length, enhanced data included (RFC 5044
	// section 7.1.1).
	MaxPrivateData = 512
	// MaxFrameLen is the length of the longest start-up frame.
	MaxFrameLen = FrameHeaderLen + MaxPrivateData

	keyLen     = 16
	keyRequest = "MPA ID Req Frame"
	keyReply   = "MPA ID Rep Frame"
)

// Frame is a start-up frame, RFC 5044 section 7.1.1 as changed by RFC 6581
// section 6.
type Frame struct {
	Kind     Kind
	Markers  bool  // M: the sender demands markers in what it receives
	CRC      bool  // C: the sender demands CRCs
	Reject   bool  // R: the responder refuses; without meaning in a request
	Enhanced bool  // S: the private data begins with an Enhanced word pair
	Reserved uint8 // 4 bits, zero when sending
	Rev      uint8 // revision: 1 or 2
	// PrivateData is everything PD_Length covers, at most MaxPrivateData.
	PrivateData []byte
}

// ParseFrame reads the frame of the wanted kind at the start of b. It returns
// the octets consumed, 0 when b is still too short to tell; a wrong key is
// found at its first wrong octet. PrivateData aliases b. Errors are *Error
// with code Startup.
func ParseFrame(b []byte, want Kind) (f Frame, n int, err error) {
	if err := checkKey(b, want); err != nil {
		return Frame{}, 0, err
	}
	if len(b) < FrameHeaderLen {
		return Frame{}, 0, nil
	}
	pd := int(binary.BigEndian.Uint16(b[18:]))
	if pd > MaxPrivateData {
		return Frame{}, 0, &Error{Code: Startup, Detail: "private data longer than 512 octets"}
	}
	n = FrameHeaderLen + pd
	if len(b) < n {
		return Frame{}, 0, nil
	}
	flags := b[keyLen]
	return Frame{
		Kind:        want,
		Markers:     flags&0x80 != 0,
		CRC:         flags&0x40 != 0,
		Reject:      flags&0x20 != 0,
		Enhanced:    flags&0x10 != 0,
		Reserved:    flags & 0x0f,
		Rev:         b[keyLen+1],
		PrivateData: b[FrameHeaderLen:n:n],
	}, n, nil
}

func checkKey(b []byte, want Kind) error {
	key, other := keyRequest, keyReply
	if want == Reply {
		key, other = other, key
	}
	n := min(len(b), keyLen)
	switch {
	case string(b[:n]) == key[:n]:
		return nil
	case n == keyLen && bytes.Equal(b[:n], []byte(other)):
		return &Error{Code: Startup, Detail: "both sides act as MPA " + roleOf(want)}
	}
	return &Error{Code: Startup, Detail: "wrong key in MPA " + want.String() + " frame"}
}

// roleOf names the role of a receiver that waits for a frame of kind want.
func roleOf(want Kind) string {
	if want == Reply {
		return "initiator"
	}
	return "responder"
}

// Len is the frame's length on the wire.
func (f *Frame) Len() int { return FrameHeaderLen + len(f.PrivateData) }

// AppendTo appends the frame to b. Private data beyond MaxPrivateData is a
// programming error and panics; callers check lengths where they come in.
func (f *Frame) AppendTo(b []byte) []byte {
	if len(f.PrivateData) > MaxPrivateData {
		panic("mpa: private data too long")
	}
	key := keyRequest
	if f.Kind == Reply {
		key = keyReply
	}
	b = append(b, key...)
	flags := f.Reserved & 0x0f
	for i, set := range [...]bool{f.Markers, f.CRC, f.Reject, f.Enhanced} {
		if set {
			flags |= 0x80 >> i
		}
	}
	b = append(b, flags, f.Rev)
	b = binary.BigEndian.AppendUint16(b, uint16(len(f.PrivateData)))
	return append(b, f.PrivateData...)
}

// EnhancedLen is the length of the enhanced connection establishment data.
const EnhancedLen = 4

// NotNegotiated as an IRD or ORD leaves that value to the upper layers (RFC
// 6581 section 9.1).
const NotNegotiated = 0x3fff

// Enhanced is the enhanced connection establishment data at the start of the
// private data, RFC 6581 section 9.
type Enhanced struct {
	IRD, ORD uint16 // 14 bits each
	P2P      bool   // A: peer-to-peer connection model
	RTRSend  bool   // B: ready-to-receive by a zero-length Send
	RTRWrite bool   // C: by a zero-length RDMA Write
	RTRRead  bool   // D: by a zero-length RDMA Read
}

// ParseEnhanced reads the enhanced data at the start of a frame's private
// data and returns what follows it: the upper layer's private data.
func ParseEnhanced(pd []byte) (e Enhanced, rest []byte, err error) {
	if len(pd) < EnhancedLen {
		return Enhanced{}, nil, &Error{Code: Startup, Detail: "enhanced frame without IRD and ORD"}
	}
	ird, ord := binary.BigEndian.Uint16(pd), binary.BigEndian.Uint16(pd[2:])
	return Enhanced{
		IRD: ird & NotNegotiated, ORD: ord & NotNegotiated,
		P2P: ird&0x8000 != 0, RTRSend: ird&0x4000 != 0,
		RTRWrite: ord&0x8000 != 0, RTRRead: ord&0x4000 != 0,
	}, pd[EnhancedLen:], nil
}

// AppendTo appends the four octets to b.
func (e Enhanced) AppendTo(b []byte) []byte {
	ird, ord := e.IRD&NotNegotiated, e.ORD&NotNegotiated
	if e.P2P {
		ird |= 0x8000
	}
	if e.RTRSend {
		ird |= 0x4000
	}
	if e.RTRWrite {
		ord |= 0x8000
	}
	if e.RTRRead {
		ord |= 0x4000
	}
	b = binary.BigEndian.AppendUint16(b, ird)
	return binary.BigEndian.AppendUint16(b, ord)
}

// RTR is a set of ready-to-receive indications (RFC 6581 section 9.2).
type RTR uint8

const (
	// RTRSend is a zero-length Send.
	RTRSend RTR = 1 << iota
	// RTRWrite is a zero-length RDMA Write.
	RTRWrite
	// RTRRead is a zero-length RDMA Read.
	RTRRead
	// RTRAny is the set of all three.
	RTRAny = RTRSend | RTRWrite | RTRRead
)

// String lists the indications: "send,write,read".
func (r RTR) String() string {
	return enum.Bits([]string{"send", "write", "read"}, r)
}

// RTR returns the indications named in e.
func (e Enhanced) RTR() (r RTR) {
	if e.RTRSend {
		r |= RTRSend
	}
	if e.RTRWrite {
		r |= RTRWrite
	}
	if e.RTRRead {
		r |= RTRRead
	}
	return r
}

// setRTR names exactly the indications of r in e.
func (e *Enhanced) setRTR(r RTR) {
	e.RTRSend, e.RTRWrite, e.RTRRead = r&RTRSend != 0, r&RTRWrite != 0, r&RTRRead != 0
}

// Package msg encodes and decodes the messages of the Precision Time Protocol,
// version 2: IEEE 1588-2008, IEEE 1588-2019 and IEEE 802.1AS. Section numbers
// are those of IEEE 1588-2019. All fields are big-endian on the wire.
//
// A Message is the decoded form of all ten message types, for both directions.
// TLVs stay raw octets and are read where they are wanted, so unknown ones
// pass unharmed.
package msg

import (
	"encoding/binary"
	"errors"
)

// Type is a message type (table 36).
type Type uint8

// The message types. Those below 8 are event messages: their passing is
// time-stamped.
const (
	Sync               Type = 0x0
	DelayReq           Type = 0x1
	PdelayReq          Type = 0x2
	PdelayResp         Type = 0x3
	FollowUp           Type = 0x8
	DelayResp          Type = 0x9
	PdelayRespFollowUp Type = 0xa
	Announce           Type = 0xb
	Signaling          Type = 0xc
	Management         Type = 0xd
)

// kinds has, for each type, its name, its length without TLVs in octets (0: no
// such type) and its obsolete controlField (table 42).
var kinds = [16]struct {
	name    string
	length  uint8
	control uint8
}{
	Sync:               {"Sync", 44, 0},
	DelayReq:           {"Delay_Req", 44, 1},
	PdelayReq:          {"Pdelay_Req", 54, 5},
	PdelayResp:         {"Pdelay_Resp", 54, 5},
	FollowUp:           {"Follow_Up", 44, 2},
	DelayResp:          {"Delay_Resp", 54, 3},
	PdelayRespFollowUp: {"Pdelay_Resp_Follow_Up", 54, 5},
	Announce:           {"Announce", 64, 5},
	Signaling:          {"Signaling", 44, 5},
	Management:         {"Management", 48, 4},
}

// Event reports whether messages of type t are time-stamped.
func (t Type) Event() bool { return t < 8 }

// Len is the length in octets of a message of type t without TLVs, 0 if there
// is no such type.
func (t Type) Len() int { return int(kinds[t&15].length) }

// Control is the controlField that a message of type t has had since version 1.
func (t Type) Control() uint8 { return kinds[t&15].control }

// String is the name in the standard.
func (t Type) String() string {
	if name := kinds[t&15].name; name != "" {
		return name
	}
	return "reserved"
}

// Flags are the two octets of flagField, the first in the upper half (table
// 37).
type Flags uint16

// The flags.
const (
	FlagAlternateMaster    Flags = 0x0100
	FlagTwoStep            Flags = 0x0200
	FlagUnicast            Flags = 0x0400
	FlagProfile1           Flags = 0x2000
	FlagProfile2           Flags = 0x4000
	FlagLeap61             Flags = 0x0001
	FlagLeap59             Flags = 0x0002
	FlagUTCOffsetValid     Flags = 0x0004
	FlagPTPTimescale       Flags = 0x0008
	FlagTimeTraceable      Flags = 0x0010
	FlagFrequencyTraceable Flags = 0x0020
	FlagSyncUncertain      Flags = 0x0040
)

// Has reports whether all flags of f are set.
func (fs Flags) Has(f Flags) bool { return fs&f == f }

const (
	// HeaderLen is the length in octets of the common header.
	HeaderLen = 34
	// IntervalUnspecified is the logMessageInterval of messages that have none.
	IntervalUnspecified int8 = 0x7f
	// MaxLen is the length in octets of the longest message.
	MaxLen = 0xffff
)

// Places in an encoded message, in octets, for those who edit it in place.
const (
	FlagsAt      = 6
	CorrectionAt = 8
	BodyAt       = HeaderLen // of the timestamp in all types that have one
)

// What can be wrong with a message. Parse returns one of these unwrapped.
var (
	ErrTruncated   = errors.New("msg: frame ends before the message")
	ErrVersion     = errors.New("msg: not version 2")
	ErrType        = errors.New("msg: reserved message type")
	ErrLength      = errors.New("msg: messageLength below that of the message type")
	ErrNanoseconds = errors.New("msg: timestamp with a second or more of nanoseconds")
	ErrTLV         = errors.New("msg: TLV ends behind the message")
	ErrTLVLength   = errors.New("msg: TLV of odd length")
)

// Header is the common header (section 13.3), without versionPTP, which is 2,
// and messageLength.
type Header struct {
	Type         Type
	SdoID        uint16 // 12 bits: majorSdoId (transportSpecific of 2008), minorSdoId
	MinorVersion uint8  // 4 bits; 1 since 2019
	Domain       uint8
	Flags        Flags
	Correction   TimeInterval
	TypeSpecific uint32 // messageTypeSpecific, reserved in general messages
	Source       PortIdentity
	Sequence     uint16
	Control      uint8 // obsolete; Type.Control
	LogInterval  int8  // logMessageInterval
}

// Grandmaster is what an Announce message says, but for its timestamp (section
// 13.5).
type Grandmaster struct {
	UTCOffset    int16 // currentUtcOffset in s
	Priority1    uint8
	Quality      ClockQuality
	Priority2    uint8
	Identity     ClockIdentity
	StepsRemoved uint16
	TimeSource   TimeSource
}

// Action is what a management message asks for or is (section 15.4.1).
type Action uint8

// The actions.
const (
	Get Action = iota
	Set
	Response
	Command
	Acknowledge
)

// Message is a decoded message.
type Message struct {
	Header
	// Timestamp is the first field of the body: originTimestamp,
	// preciseOriginTimestamp, receiveTimestamp, requestReceiptTimestamp or
	// responseOriginTimestamp. Signaling and Management have none.
	Timestamp Timestamp
	// Port is requestingPortIdentity in Delay_Resp, Pdelay_Resp and
	// Pdelay_Resp_Follow_Up, targetPortIdentity in Signaling and Management.
	Port        PortIdentity
	Grandmaster Grandmaster // Announce only
	// The rest of the body of Management.
	StartingBoundaryHops, BoundaryHops uint8
	Action                             Action // 4 bits
	// TLVs follows the body. Parse borrows it from the frame and has checked
	// that it is a whole number of TLVs of even length.
	TLVs TLVs
}

// Parse reads the message at the front of b, which may be longer than
// messageLength says: the rest is padding of the frame. Any minorVersionPTP is
// accepted and reserved fields are ignored, as section 13.3 asks. After an
// error m has no meaning.
func (m *Message) Parse(b []byte) error {
	if len(b) < HeaderLen {
		return ErrTruncated
	}
	if b[1]&15 != 2 {
		return ErrVersion
	}
	be := binary.BigEndian
	least, n := Type(b[0]&15).Len(), int(be.Uint16(b[2:]))
	switch {
	case least == 0:
		return ErrType
	case n < least:
		return ErrLength
	case n > len(b):
		return ErrTruncated
	}
	*m = Message{TLVs: b[least:n:n]}
	h := &m.Header
	h.Type, h.SdoID = Type(b[0]&15), uint16(b[0]&0xf0)<<4|uint16(b[5])
	h.MinorVersion, h.Domain = b[1]>>4, b[4]
	h.Flags = Flags(be.Uint16(b[6:]))
	h.Correction = TimeInterval(be.Uint64(b[CorrectionAt:]))
	h.TypeSpecific = be.Uint32(b[16:])
	h.Source.parse(b[20:])
	h.Sequence, h.Control, h.LogInterval = be.Uint16(b[30:]), b[32], int8(b[33])
	if err := m.parseBody(b[BodyAt:least]); err != nil {
		return err
	}
	if len(m.TLVs) != 0 {
		return m.TLVs.check()
	}
	return nil
}

func (m *Message) parseBody(b []byte) error {
	switch m.Type {
	case Signaling:
		m.Port.parse(b)
		return nil
	case Management:
		m.Port.parse(b)
		m.StartingBoundaryHops, m.BoundaryHops, m.Action = b[10], b[11], Action(b[12]&15)
		return nil
	case Announce:
		m.Timestamp.parse(b)
		m.Grandmaster.parse(b[TimestampLen:])
		return nil
	}
	m.Timestamp.parse(b)
	switch m.Type {
	case DelayReq, PdelayReq:
		return nil // nobody needs the timestamp; 802.1AS reserves it
	case Sync:
		if m.Flags.Has(FlagTwoStep) {
			return nil // the same
		}
	case DelayResp, PdelayResp, PdelayRespFollowUp:
		m.Port.parse(b[TimestampLen:])
	}
	if m.Timestamp.Nanoseconds >= second {
		return ErrNanoseconds
	}
	return nil
}

func (g *Grandmaster) parse(b []byte) {
	_ = b[19]
	be := binary.BigEndian
	g.UTCOffset = int16(be.Uint16(b)) // b[2] is reserved
	g.Priority1, g.Priority2 = b[3], b[8]
	g.Quality.parse(b[4:])
	g.Identity = ClockIdentity(b[9:17])
	g.StepsRemoved, g.TimeSource = be.Uint16(b[17:]), TimeSource(b[19])
}

// Append appends the encoded message to b. messageLength is that of the type
// and of TLVs, together at most MaxLen octets. A buffer of m.Len octets of
// capacity is not reallocated.
func (m *Message) Append(b []byte) []byte {
	var buf [64]byte
	n := m.Type.Len()
	w := buf[:n]
	be := binary.BigEndian
	w[0] = uint8(m.SdoID>>4)&0xf0 | uint8(m.Type&15)
	w[1] = m.MinorVersion<<4 | 2
	be.PutUint16(w[2:], uint16(m.Len()))
	w[4], w[5] = m.Domain, uint8(m.SdoID)
	be.PutUint16(w[6:], uint16(m.Flags))
	be.PutUint64(w[CorrectionAt:], uint64(m.Correction))
	be.PutUint32(w[16:], m.TypeSpecific)
	m.Source.put(w[20:])
	be.PutUint16(w[30:], m.Sequence)
	w[32], w[33] = m.Control, uint8(m.LogInterval)
	m.putBody(w[BodyAt:])
	b = append(b, w...)
	return append(b, m.TLVs...)
}

// Len is the encoded length in octets.
func (m *Message) Len() int { return m.Type.Len() + len(m.TLVs) }

func (m *Message) putBody(w []byte) {
	switch m.Type {
	case Signaling:
		m.Port.put(w)
		return
	case Management:
		m.Port.put(w)
		w[10], w[11], w[12] = m.StartingBoundaryHops, m.BoundaryHops, uint8(m.Action&15)
		return
	}
	m.Timestamp.Put(w)
	switch m.Type {
	case DelayResp, PdelayResp, PdelayRespFollowUp:
		m.Port.put(w[TimestampLen:])
	case Announce:
		m.Grandmaster.put(w[TimestampLen:])
	}
}

func (g *Grandmaster) put(w []byte) {
	_ = w[19]
	be := binary.BigEndian
	be.PutUint16(w, uint16(g.UTCOffset))
	w[3], w[8] = g.Priority1, g.Priority2
	g.Quality.put(w[4:])
	copy(w[9:17], g.Identity[:])
	be.PutUint16(w[17:], g.StepsRemoved)
	w[19] = uint8(g.TimeSource)
}

package iscsi

import (
	"encoding/binary"
	"errors"
	"strconv"
)

// ISERLen is the length in octets of the header that a PDU has in iSER, before its basic header
// segment (RFC 7145 section 9.1).
const ISERLen = 28

// MaxAHS is how many octets of additional header segments a receiver in iSER must expect unless it
// says otherwise (RFC 7145 section 6.8).
const MaxAHS = 256

// iserVersion is the version of RFC 7145.
const iserVersion = 10

// ISERKind is the operation code of an iSER header.
type ISERKind uint8

// Kinds of message (RFC 7145 section 9.1).
const (
	ISERControl    ISERKind = 1 // a PDU follows
	ISERHello      ISERKind = 2
	ISERHelloReply ISERKind = 3
)

// Flags of the first octet.
const (
	iserWrite  = 0x08
	iserRead   = 0x04
	iserReject = 0x01
)

// Flags of the private data of a connection, in the first of its four octets, as Linux has them.
const (
	// ISERNoZBVA says that base offsets are addresses, not offsets from 0.
	ISERNoZBVA = 0x80
	// ISERNoInvalidate says that Send with Invalidate is not used.
	ISERNoInvalidate = 0x40
)

// Advert is the memory of an initiator that a command is about: what is to be written to the disk,
// and where to put what is read. Its fields are big-endian on the wire.
type Advert struct {
	Write, Read         bool // which of them there is
	WriteSTag, ReadSTag uint32
	WriteBase, ReadBase uint64 // addresses of their first octets
}

// Append appends the header of a PDU.
func (a *Advert) Append(dst []byte) []byte {
	flags := byte(ISERControl) << 4
	var w, r Advert
	if a.Write {
		flags, w = flags|iserWrite, *a
	}
	if a.Read {
		flags, r = flags|iserRead, *a
	}
	dst = binary.BigEndian.AppendUint32(append(dst, flags, 0, 0, 0), w.WriteSTag)
	dst = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(dst, w.WriteBase), r.ReadSTag)
	return binary.BigEndian.AppendUint64(dst, r.ReadBase)
}

// AppendHello appends a Hello of an initiator that takes reads RDMA Reads at a time.
func AppendHello(dst []byte, reads uint16) []byte {
	dst = append(dst, byte(ISERHello)<<4, iserVersion<<4|iserVersion, byte(reads>>8), byte(reads))
	return append(dst, make([]byte, ISERLen-4)...)
}

// AppendHelloReply appends the answer of a target that sends reads RDMA Reads at a time.
func AppendHelloReply(dst []byte, reads uint16) []byte {
	n := len(dst)
	dst = AppendHello(dst, reads)
	dst[n] = byte(ISERHelloReply) << 4
	return dst
}

// Message is a message of iSER, borrowed from the memory that it was read from.
type Message struct {
	Kind   ISERKind
	Advert Advert // of a control-type PDU
	BHS    BHS
	Data   []byte // without padding
	Reads  uint16 // of a Hello or its reply: RDMA Reads at a time
}

// ErrISER says that a message is none of RFC 7145: it has an unknown operation code or version, it
// is too short, or it is a refusal.
var ErrISER = errors.New("iscsi: malformed iSER message")

// parseAdvert reads the memory of a control-type header.
func parseAdvert(b []byte) (a Advert) {
	if b[0]&iserWrite != 0 {
		a.Write, a.WriteSTag, a.WriteBase = true, binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint64(b[8:])
	}
	if b[0]&iserRead != 0 {
		a.Read, a.ReadSTag, a.ReadBase = true, binary.BigEndian.Uint32(b[16:]), binary.BigEndian.Uint64(b[20:])
	}
	return a
}

// DescribeISER appends the message that begins with b as text. Of the data behind its headers nothing
// is needed.
func DescribeISER(dst, b []byte) []byte {
	switch {
	case len(b) < ISERLen:
	case ISERKind(b[0]>>4) == ISERHello:
		return append(dst, "iSER Hello"...)
	case ISERKind(b[0]>>4) == ISERHelloReply:
		return append(dst, "iSER HelloReply"...)
	case ISERKind(b[0]>>4) == ISERControl && len(b) >= ISERLen+HeaderLen:
		h, a := BHS(b[ISERLen:]), parseAdvert(b)
		return a.Describe(h.Append(append(dst, "iSER "...)))
	}
	return append(dst, "iSER message without a header of its kind"...)
}

// ParseISER reads a message.
func ParseISER(b []byte) (m Message, err error) {
	if len(b) < ISERLen {
		return m, ErrISER
	}
	switch m.Kind = ISERKind(b[0] >> 4); m.Kind {
	case ISERHello, ISERHelloReply:
		m.Reads = binary.BigEndian.Uint16(b[2:])
		if b[1] != iserVersion<<4|iserVersion || m.Kind == ISERHelloReply && b[0]&iserReject != 0 {
			return m, ErrISER
		}
		return m, nil
	case ISERControl:
	default:
		return m, ErrISER
	}
	m.Advert = parseAdvert(b)
	if len(b) < ISERLen+HeaderLen {
		return m, ErrISER
	}
	m.BHS = BHS(b[ISERLen:])
	at, n := ISERLen+HeaderLen+int(m.BHS[4])*4, m.BHS.DataLen()
	if len(b) < at+n {
		return m, ErrISER
	}
	m.Data = b[at : at+n]
	return m, nil
}

// AppendISER appends a control-type PDU: its header, then data with padding. The length in h is
// set.
func AppendISER(dst []byte, a *Advert, h *BHS, data []byte) []byte {
	h.SetDataLen(len(data))
	dst = append(append(a.Append(dst), h[:]...), data...)
	return append(dst, make([]byte, pad(len(data)))...)
}

// Describe appends the memory as text: nothing if there is none.
func (a *Advert) Describe(dst []byte) []byte {
	for _, x := range [...]struct {
		has  bool
		text string
		stag uint32
		base uint64
	}{{a.Write, " write STag ", a.WriteSTag, a.WriteBase}, {a.Read, " read STag ", a.ReadSTag, a.ReadBase}} {
		if x.has {
			dst = strconv.AppendUint(append(appendHex(dst, x.text, x.stag), " at 0x"...), x.base, 16)
		}
	}
	return dst
}

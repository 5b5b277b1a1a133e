package pcapng

import (
	"encoding/binary"
	"unicode/utf8"
)

var le = binary.LittleEndian

// Option codes by block, draft-ietf-opsawg-pcapng sections 3.5 and 4.
const (
	optEnd     = 0
	optComment = 1

	shbHardware    = 2
	shbOS          = 3
	shbApplication = 4

	ifName        = 2
	ifDescription = 3
	ifMAC         = 6
	ifSpeed       = 8
	ifTSResol     = 9
	ifFilter      = 11
	ifOS          = 12
	ifTSOffset    = 14
	ifHardware    = 15

	epbFlags     = 2
	epbDropCount = 4
	epbID        = 5
	epbQueue     = 6

	isbStart     = 2
	isbEnd       = 3
	isbReceived  = 4
	isbDropped   = 5
	isbAccepted  = 6
	isbOSDropped = 7
	isbDelivered = 8
)

const (
	byteOrderMagic = 0x1a2b3c4d
	maxOption      = 0xffff // octets an option can carry
	nanoseconds    = 9      // if_tsresol
)

// AppendTo appends the block to b.
func (s *Section) AppendTo(b []byte) []byte {
	b, start := begin(b, typeSection)
	b = le.AppendUint32(b, byteOrderMagic)
	b = le.AppendUint16(b, 1)
	b = le.AppendUint16(b, 0)
	b = le.AppendUint64(b, 1<<64-1) // length not given
	opts := len(b)
	b = appendComments(b, s.Comments)
	b = appendText(b, shbHardware, s.Hardware)
	b = appendText(b, shbOS, s.OS)
	b = appendText(b, shbApplication, s.Application)
	return finish(b, start, opts)
}

// AppendTo appends the block to b.
func (i *Interface) AppendTo(b []byte) []byte {
	b, start := begin(b, typeInterface)
	b = le.AppendUint16(b, i.LinkType)
	b = le.AppendUint16(b, 0)
	b = le.AppendUint32(b, i.SnapLen)
	opts := len(b)
	b = appendComments(b, i.Comments)
	b = appendText(b, ifName, i.Name)
	b = appendText(b, ifDescription, i.Description)
	if i.MAC != [6]byte{} {
		b = optionHead(b, ifMAC, len(i.MAC))
		b = pad(append(b, i.MAC[:]...), len(i.MAC))
	}
	if i.Speed != 0 {
		b = appendUint64(b, ifSpeed, i.Speed)
	}
	b = append(optionHead(b, ifTSResol, 1), nanoseconds, 0, 0, 0)
	if i.Filter != "" {
		f := cut(i.Filter, maxOption-1)
		b = append(optionHead(b, ifFilter, len(f)+1), 0) // 0: libpcap filter string
		b = pad(append(b, f...), len(f)+1)
	}
	b = appendText(b, ifOS, i.OS)
	b = appendText(b, ifHardware, i.Hardware)
	return finish(b, start, opts)
}

// AppendTo appends the block to b. It allocates only to grow b.
func (p *Packet) AppendTo(b []byte) []byte {
	b, start := begin(b, typePacket)
	b = le.AppendUint32(b, p.Interface)
	b = appendStamp(b, p.Stamp)
	b = le.AppendUint32(b, uint32(len(p.Data)))
	b = le.AppendUint32(b, p.OrigLen)
	b = pad(append(b, p.Data...), len(p.Data))
	opts := len(b)
	b = appendComments(b, p.Comments)
	if p.Has&HasFlags != 0 {
		b = appendUint32(b, epbFlags, uint32(p.Flags))
	}
	if p.Has&HasDropCount != 0 {
		b = appendUint64(b, epbDropCount, p.DropCount)
	}
	if p.Has&HasID != 0 {
		b = appendUint64(b, epbID, p.ID)
	}
	if p.Has&HasQueue != 0 {
		b = appendUint32(b, epbQueue, p.Queue)
	}
	return finish(b, start, opts)
}

// Size is an upper bound for the octets that AppendTo adds.
func (p *Packet) Size() int {
	n := 32 + len(p.Data) + 3 + 8 + 12 + 12 + 8 + 4
	for _, c := range p.Comments {
		n += 4 + min(len(c), maxOption) + 3
	}
	return n
}

// AppendTo appends the block to b.
func (s *Statistics) AppendTo(b []byte) []byte {
	b, start := begin(b, typeStatistics)
	b = le.AppendUint32(b, s.Interface)
	b = appendStamp(b, s.Stamp)
	opts := len(b)
	b = appendComments(b, s.Comments)
	if s.Has&HasStart != 0 {
		b = appendStamp(optionHead(b, isbStart, 8), s.Start)
	}
	if s.Has&HasEnd != 0 {
		b = appendStamp(optionHead(b, isbEnd, 8), s.End)
	}
	for _, o := range s.counts() {
		if s.Has&o.has != 0 {
			b = appendUint64(b, o.code, *o.val)
		}
	}
	return finish(b, start, opts)
}

type count struct {
	code uint16
	has  Has
	val  *uint64
}

func (s *Statistics) counts() [5]count {
	return [5]count{
		{isbReceived, HasReceived, &s.Received},
		{isbDropped, HasDropped, &s.Dropped},
		{isbAccepted, HasAccepted, &s.Accepted},
		{isbOSDropped, HasOSDropped, &s.OSDropped},
		{isbDelivered, HasDelivered, &s.Delivered},
	}
}

// begin opens a block whose length finish fills in at both ends.
func begin(b []byte, typ uint32) ([]byte, int) {
	start := len(b)
	b = le.AppendUint32(b, typ)
	return le.AppendUint32(b, 0), start
}

func finish(b []byte, start, opts int) []byte {
	if len(b) > opts {
		b = le.AppendUint32(b, optEnd)
	}
	n := uint32(len(b) - start + 4)
	le.PutUint32(b[start+4:], n)
	return le.AppendUint32(b, n)
}

func optionHead(b []byte, code uint16, n int) []byte {
	b = le.AppendUint16(b, code)
	return le.AppendUint16(b, uint16(n))
}

func appendComments(b []byte, comments []string) []byte {
	for _, c := range comments {
		c = cut(c, maxOption)
		b = pad(append(optionHead(b, optComment, len(c)), c...), len(c))
	}
	return b
}

// appendText writes nothing for an empty string.
func appendText(b []byte, code uint16, s string) []byte {
	if s == "" {
		return b
	}
	s = cut(s, maxOption)
	return pad(append(optionHead(b, code, len(s)), s...), len(s))
}

func appendUint32(b []byte, code uint16, v uint32) []byte {
	return le.AppendUint32(optionHead(b, code, 4), v)
}

func appendUint64(b []byte, code uint16, v uint64) []byte {
	return le.AppendUint64(optionHead(b, code, 8), v)
}

// appendStamp writes the high word first, as the format asks in either byte
// order.
func appendStamp(b []byte, ns int64) []byte {
	v := uint64(max(ns, 0))
	b = le.AppendUint32(b, uint32(v>>32))
	return le.AppendUint32(b, uint32(v))
}

// pad aligns what follows n octets to 32 bits.
func pad(b []byte, n int) []byte {
	for ; n%4 != 0; n++ {
		b = append(b, 0)
	}
	return b
}

// cut shortens s to at most n octets without splitting a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

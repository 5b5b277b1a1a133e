package pcapng

import (
	"encoding/binary"
	"slices"
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
	start := len(b)
	b, data := p.AppendHead(b, len(p.Data))
	copy(data, p.Data)
	return p.AppendTail(appendComments(b, p.Comments), start)
}

// AppendHead is for writers who want to put the kept octets straight into
// their place: it appends the block up to n octets of data, whose place it
// returns. Any number of AppendComment and then AppendTail follow. p.Data and
// p.Comments are not looked at.
func (p *Packet) AppendHead(b []byte, n int) (block, data []byte) {
	at := len(b)
	end := at + packetHead + (n+3)&^3
	b = slices.Grow(b, end-at)[:end]
	h := b[at : at+packetHead]
	stamp := uint64(max(p.Stamp, 0))
	le.PutUint32(h, typePacket)
	le.PutUint32(h[8:], p.Interface)
	le.PutUint32(h[12:], uint32(stamp>>32))
	le.PutUint32(h[16:], uint32(stamp))
	le.PutUint32(h[20:], uint32(n))
	le.PutUint32(h[24:], p.OrigLen)
	if end > at+packetHead {
		le.PutUint32(b[end-4:], 0) // the padding
	}
	return b, b[at+packetHead : at+packetHead+n]
}

// IsPacket tells whether block is the encoding of a Packet, with all the data
// that it says it has.
func IsPacket(block []byte) bool {
	return len(block) > packetHead && le.Uint32(block) == typePacket &&
		uint64(le.Uint32(block[20:])) <= uint64(len(block)-packetHead)
}

// Kept is the place of the data in block, the encoding of a Packet.
func Kept(block []byte) []byte {
	return block[packetHead : packetHead+le.Uint32(block[20:])]
}

// AppendComment appends a comment to a block that AppendHead has begun.
func AppendComment(b, text []byte) []byte {
	text = text[:min(len(text), maxOption)]
	return pad(append(optionHead(b, optComment, len(text)), text...), len(text))
}

// AppendTail appends the block's other options and its end to b; start is
// where in b the block begins.
func (p *Packet) AppendTail(b []byte, start int) []byte {
	at := len(b)
	b = slices.Grow(b, packetTail)[:at+packetTail]
	t := b[at:]
	n := 0
	if p.Has&HasFlags != 0 {
		n += putOption(t[n:], epbFlags, 4)
		le.PutUint32(t[n-4:], uint32(p.Flags))
	}
	if p.Has&HasDropCount != 0 {
		n += putOption(t[n:], epbDropCount, 8)
		le.PutUint64(t[n-8:], p.DropCount)
	}
	if p.Has&HasID != 0 {
		n += putOption(t[n:], epbID, 8)
		le.PutUint64(t[n-8:], p.ID)
	}
	if p.Has&HasQueue != 0 {
		n += putOption(t[n:], epbQueue, 4)
		le.PutUint32(t[n-4:], p.Queue)
	}
	kept := int(le.Uint32(b[start+20:]))
	if n > 0 || at > start+packetHead+(kept+3)&^3 {
		le.PutUint32(t[n:], optEnd)
		n += 4
	}
	length := uint32(at - start + n + 4)
	le.PutUint32(t[n:], length)
	le.PutUint32(b[start+4:], length)
	return b[:at+n+4]
}

// Octets of a packet block before its data, and of its options without
// comments and its end.
const (
	packetHead = 28
	packetTail = 8 + 12 + 12 + 8 + 4 + 4
)

// putOption writes the head of an option of n octets to b and returns the
// length of both.
func putOption(b []byte, code uint16, n int) int {
	le.PutUint16(b, code)
	le.PutUint16(b[2:], uint16(n))
	return 4 + n
}

// Size is an upper bound for the octets that AppendTo adds.
func (p *Packet) Size() int {
	n := PacketSize(len(p.Data))
	for _, c := range p.Comments {
		n += CommentSize(len(c))
	}
	return n
}

// PacketSize is an upper bound for the octets of a packet block with n octets
// of data and no comment, CommentSize for those of a comment of n octets.
func PacketSize(n int) int { return packetHead + n + 3 + packetTail }

// CommentSize: see PacketSize.
func CommentSize(n int) int { return 4 + min(n, maxOption) + 3 }

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

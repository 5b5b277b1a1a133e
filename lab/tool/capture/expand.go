package capture

import (
	"encoding/binary"
	"errors"
	"io"

	"tapir/wire/pcapng"
	"tapir/wire/virtio"
)

// A Repeat block says of the packet block before it that n more segments of its
// super-frame follow, and holds the octets that are kept of their payload. Its
// type is one of those that pcapng leaves to local use, so that readers who do
// not know it skip it. Little-endian like everything else in the file:
//
//	type, length, n    4 octets each
//	l3, l4, payload    2 octets each: see virtio.Shape
//	size               2: payload of a segment on the wire
//	kept               2: and in the file
//	flags              1: of TCP; and 1: those of the last
//	octets             n times kept, and up to 3 zeros
//	length             4
const typeRepeat = 0x80007461

const (
	repeatHead = 24
	blockTail  = 4
)

// repeat is what a Repeat block says.
type repeat struct {
	virtio.Shape
	n, kept     int
	flags, last byte
}

var le = binary.LittleEndian

// repeatSize is the length of the block for n segments of which kept octets
// each are kept.
func repeatSize(n, kept int) int { return repeatHead + (n*kept+3)&^3 + blockTail }

// appendRepeat appends the block to b, with what it keeps of payload, that of
// the segments one behind the other.
func appendRepeat(b []byte, r *repeat, payload []byte) []byte {
	at := len(b)
	end := at + repeatSize(r.n, r.kept)
	b = b[:end] // the caller has made room
	le.PutUint32(b[at:], typeRepeat)
	le.PutUint32(b[at+4:], uint32(end-at))
	le.PutUint32(b[at+8:], uint32(r.n))
	for i, v := range [...]int{r.L3, r.L4, r.Payload, r.Size, r.kept, int(r.flags) | int(r.last)<<8} {
		le.PutUint16(b[at+12+2*i:], uint16(v))
	}
	to := b[at+repeatHead : end-blockTail]
	for range r.n {
		copy(to[:r.kept], payload)
		to, payload = to[r.kept:], payload[r.Size:]
	}
	clear(to)
	le.PutUint32(b[end-blockTail:], uint32(end-at))
	return b
}

// parseRepeat reads the whole block b; octets are those that it holds. ok is
// false if they cannot be what follows a packet of the given length.
func parseRepeat(b []byte, packet int) (r repeat, octets []byte, ok bool) {
	if len(b) < repeatHead+blockTail {
		return r, nil, false
	}
	field := func(i int) int { return int(le.Uint16(b[12+2*i:])) }
	r = repeat{virtio.Shape{L3: field(0), L4: field(1), Payload: field(2), Size: field(3)}, int(le.Uint32(b[8:])),
		field(4), b[22], b[23]}
	octets = b[repeatHead : len(b)-blockTail]
	ok = r.L3+20 <= r.L4 && r.L4+20 <= r.Payload && r.Payload+r.kept == packet && r.n <= len(octets) &&
		r.n*r.kept <= len(octets)
	return r, octets, ok
}

// Expander writes a capture made with Options.Compact to a writer, as if it
// had been made without.
type Expander struct {
	w    io.Writer
	part []byte // the beginning of a block that is not complete
	last []byte // the last packet block
	out  []byte
}

// NewExpander returns an Expander that writes to w.
func NewExpander(w io.Writer) *Expander { return &Expander{w: w} }

// expanded is what an Expander collects before it writes.
const expanded = 256 << 10

var errBlock = errors.New("capture: octets that are no pcapng block")

// Write takes the next octets of the capture, however it is divided.
func (e *Expander) Write(p []byte) (int, error) {
	n := len(p)
	if len(e.part) > 0 {
		e.part = append(e.part, p...)
		p = e.part
	}
	for len(p) >= 8 {
		size := int(le.Uint32(p[4:]))
		if size < 12 || size > chunkOctets {
			return 0, errBlock
		}
		if len(p) < size {
			break
		}
		e.block(p[:size])
		p = p[size:]
		if len(e.out) >= expanded {
			if err := e.flush(); err != nil {
				return 0, err
			}
		}
	}
	e.part = append(e.part[:0], p...)
	return n, e.flush()
}

func (e *Expander) flush() error {
	_, err := e.w.Write(e.out)
	e.out = e.out[:0]
	return err
}

// block takes a whole block.
func (e *Expander) block(b []byte) {
	if le.Uint32(b) == typeRepeat && len(e.last) > 0 {
		if r, octets, ok := parseRepeat(b, len(pcapng.Kept(e.last))); ok {
			e.repeat(&r, octets)
			return
		}
	}
	e.out = append(e.out, b...)
	if pcapng.IsPacket(b) {
		e.last = append(e.last[:0], b...)
	}
}

func (e *Expander) repeat(r *repeat, octets []byte) {
	for k := range r.n {
		at, flags := len(e.out), r.flags
		if k == r.n-1 {
			flags = r.last
		}
		e.out = append(e.out, e.last...)
		data := pcapng.Kept(e.out[at:])
		r.Step(data, k+1, flags)
		copy(data[r.Payload:], octets[k*r.kept:][:r.kept])
	}
}

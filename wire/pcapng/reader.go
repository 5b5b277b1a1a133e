package pcapng

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/bits"
)

// maxBlock bounds what one block may claim, so that a damaged length field
// cannot exhaust memory. Wireshark draws the same line.
const maxBlock = 16 << 20

// Reader reads the blocks of a file in order.
type Reader struct {
	r      io.Reader
	order  binary.ByteOrder // nil before the first section
	ifaces []ifaceState
	buf    []byte
	pos    int64 // offset of the block being read
	next   int64
}

// ifaceState is what the reader must know to read an interface's packets.
type ifaceState struct {
	resol   byte  // if_tsresol
	offset  int64 // if_tsoffset, seconds
	snapLen uint32
}

// NewReader returns a reader of r's blocks. It reads no further than the block
// it returns.
func NewReader(r io.Reader) *Reader { return &Reader{r: r} }

// Next returns the next block of a known type. Packet.Data is borrowed until
// the following call. At the end of the file the error is io.EOF; a file that
// ends in mid-block gives ErrTruncated; every other violation wraps
// ErrMalformed and tells the block's offset.
func (r *Reader) Next() (Block, error) {
	for {
		typ, body, err := r.block()
		if err != nil {
			return nil, err
		}
		b, err := r.parse(typ, body)
		if err != nil {
			return nil, fmt.Errorf("%w at offset %d: %w", ErrMalformed, r.pos, err)
		}
		if b != nil {
			return b, nil
		}
	}
}

// block reads one block and returns what lies between its two length fields.
func (r *Reader) block() (typ uint32, body []byte, err error) {
	r.pos = r.next
	var head [12]byte
	if _, err := io.ReadFull(r.r, head[:8]); err != nil {
		return 0, nil, truncated(err, true)
	}
	got := head[:8]
	if le.Uint32(head[:]) == typeSection {
		if _, err := io.ReadFull(r.r, head[8:]); err != nil {
			return 0, nil, truncated(err, false)
		}
		if err := r.section(head[8:]); err != nil {
			return 0, nil, err
		}
		got = head[:]
	}
	if r.order == nil {
		return 0, nil, fmt.Errorf("%w at offset %d: the file does not begin with a section header", ErrMalformed, r.pos)
	}
	typ = r.order.Uint32(head[:])
	n := r.order.Uint32(head[4:])
	if n < 12 || n%4 != 0 || n > maxBlock || int(n) < len(got)+4 {
		return 0, nil, fmt.Errorf("%w at offset %d: block length %d", ErrMalformed, r.pos, n)
	}
	body, err = r.rest(got[8:], int(n)-8)
	if err != nil {
		return 0, nil, err
	}
	r.next = r.pos + int64(n)
	tail := len(body) - 4
	if r.order.Uint32(body[tail:]) != n {
		return 0, nil, fmt.Errorf("%w at offset %d: the two length fields differ", ErrMalformed, r.pos)
	}
	return typ, body[:tail], nil
}

// rest returns n octets of which have was read before. It grows its buffer as
// input arrives, never on the word of a length field alone.
func (r *Reader) rest(have []byte, n int) ([]byte, error) {
	r.buf = append(r.buf[:0], have...)
	for len(r.buf) < n {
		from := len(r.buf)
		step := min(n-from, 64<<10)
		if cap(r.buf) < from+step {
			r.buf = append(r.buf, make([]byte, step)...)
		}
		r.buf = r.buf[:from+step]
		if _, err := io.ReadFull(r.r, r.buf[from:]); err != nil {
			return nil, truncated(err, false)
		}
	}
	return r.buf, nil
}

func truncated(err error, first bool) error {
	if err == io.EOF && first {
		return io.EOF
	}
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return ErrTruncated
	}
	return err
}

// section sets the byte order for the blocks up to the next section header.
func (r *Reader) section(magic []byte) error {
	switch {
	case le.Uint32(magic) == byteOrderMagic:
		r.order = le
	case binary.BigEndian.Uint32(magic) == byteOrderMagic:
		r.order = binary.BigEndian
	default:
		return fmt.Errorf("%w at offset %d: byte-order magic %x", ErrMalformed, r.pos, magic)
	}
	r.ifaces = r.ifaces[:0]
	return nil
}

// parse returns nil for a block of a type that has no struct here.
func (r *Reader) parse(typ uint32, b []byte) (Block, error) {
	switch typ {
	case typeSection:
		return r.parseSection(b)
	case typeInterface:
		return r.parseInterface(b)
	case typePacket:
		return r.parsePacket(b)
	case typeSimple:
		return r.parseSimple(b)
	case typeStatistics:
		return r.parseStatistics(b)
	case typeJournal:
		return parseJournal(b), nil
	}
	return nil, nil
}

func (r *Reader) parseSection(b []byte) (Block, error) {
	if len(b) < 16 {
		return nil, errShort
	}
	// Version 1.2 exists in the field and means the same as 1.0 (section 4.1).
	major, minor := r.order.Uint16(b[4:]), r.order.Uint16(b[6:])
	if major != 1 || minor != 0 && minor != 2 {
		return nil, fmt.Errorf("version %d.%d", major, minor)
	}
	s := &Section{}
	err := r.options(b[16:], func(code uint16, v []byte) error {
		switch code {
		case optComment:
			s.Comments = append(s.Comments, string(v))
		case shbHardware:
			s.Hardware = string(v)
		case shbOS:
			s.OS = string(v)
		case shbApplication:
			s.Application = string(v)
		}
		return nil
	})
	return s, err
}

func (r *Reader) parseInterface(b []byte) (Block, error) {
	if len(b) < 8 {
		return nil, errShort
	}
	i := &Interface{LinkType: r.order.Uint16(b), SnapLen: r.order.Uint32(b[4:])}
	st := ifaceState{resol: 6, snapLen: i.SnapLen}
	err := r.options(b[8:], func(code uint16, v []byte) error {
		return r.interfaceOption(i, &st, code, v)
	})
	if err == nil {
		r.ifaces = append(r.ifaces, st)
	}
	return i, err
}

func (r *Reader) interfaceOption(i *Interface, st *ifaceState, code uint16, v []byte) error {
	switch code {
	case optComment:
		i.Comments = append(i.Comments, string(v))
	case ifName:
		i.Name = string(v)
	case ifDescription:
		i.Description = string(v)
	case ifMAC:
		copy(i.MAC[:], v)
		return fixed(v, 6)
	case ifSpeed:
		return r.number64(v, &i.Speed)
	case ifTSResol:
		if len(v) == 1 {
			st.resol = v[0]
		}
		return fixed(v, 1)
	case ifTSOffset:
		var u uint64
		err := r.number64(v, &u)
		st.offset = int64(u)
		return err
	case ifFilter:
		if len(v) > 0 && v[0] == 0 {
			i.Filter = string(v[1:])
		}
	case ifOS:
		i.OS = string(v)
	case ifHardware:
		i.Hardware = string(v)
	}
	return nil
}

func (r *Reader) parsePacket(b []byte) (Block, error) {
	if len(b) < 20 {
		return nil, errShort
	}
	p := &Packet{Interface: r.order.Uint32(b), OrigLen: r.order.Uint32(b[16:])}
	var err error
	if p.Stamp, err = r.stamp(p.Interface, b[4:12]); err != nil {
		return nil, err
	}
	n := int64(r.order.Uint32(b[12:]))
	if n > int64(len(b)-20) {
		return nil, fmt.Errorf("captured length %d exceeds the block", n)
	}
	p.Data = b[20 : 20+n : 20+n]
	err = r.options(b[20+align(int(n)):], func(code uint16, v []byte) error {
		return r.packetOption(p, code, v)
	})
	return p, err
}

func (r *Reader) packetOption(p *Packet, code uint16, v []byte) (err error) {
	var u uint32
	switch code {
	case optComment:
		p.Comments = append(p.Comments, string(v))
	case epbFlags:
		err = r.number32(v, &u)
		p.Flags, p.Has = Flags(u), p.Has|HasFlags
	case epbDropCount:
		err = r.number64(v, &p.DropCount)
		p.Has |= HasDropCount
	case epbID:
		err = r.number64(v, &p.ID)
		p.Has |= HasID
	case epbQueue:
		err = r.number32(v, &p.Queue)
		p.Has |= HasQueue
	}
	return err
}

// parseSimple reads the Simple Packet Block, section 4.4: interface 0, no
// time, no options.
func (r *Reader) parseSimple(b []byte) (Block, error) {
	if len(b) < 4 {
		return nil, errShort
	}
	if len(r.ifaces) == 0 {
		return nil, fmt.Errorf("interface 0 is not described")
	}
	p := &Packet{OrigLen: r.order.Uint32(b)}
	n := int64(p.OrigLen)
	if snap := r.ifaces[0].snapLen; snap != 0 {
		n = min(n, int64(snap))
	}
	if n > int64(len(b)-4) {
		return nil, fmt.Errorf("packet length %d exceeds the block", n)
	}
	p.Data = b[4 : 4+n : 4+n]
	return p, nil
}

func (r *Reader) parseStatistics(b []byte) (Block, error) {
	if len(b) < 12 {
		return nil, errShort
	}
	s := &Statistics{Interface: r.order.Uint32(b)}
	var err error
	if s.Stamp, err = r.stamp(s.Interface, b[4:12]); err != nil {
		return nil, err
	}
	err = r.options(b[12:], func(code uint16, v []byte) error {
		return r.statisticsOption(s, code, v)
	})
	return s, err
}

func (r *Reader) statisticsOption(s *Statistics, code uint16, v []byte) (err error) {
	switch code {
	case optComment:
		s.Comments = append(s.Comments, string(v))
		return nil
	case isbStart, isbEnd:
		if err := fixed(v, 8); err != nil {
			return err
		}
		at, has := &s.Start, HasStart
		if code == isbEnd {
			at, has = &s.End, HasEnd
		}
		*at, err = r.stamp(s.Interface, v)
		s.Has |= has
		return err
	}
	for _, o := range s.counts() {
		if o.code == code {
			s.Has |= o.has
			return r.number64(v, o.val)
		}
	}
	return nil
}

// options calls each for every option up to the end marker, which may be
// missing only where the block ends.
func (r *Reader) options(b []byte, each func(code uint16, v []byte) error) error {
	for len(b) > 0 {
		if len(b) < 4 {
			return errShort
		}
		code, n := r.order.Uint16(b), int(r.order.Uint16(b[2:]))
		if code == optEnd {
			if n != 0 || len(b) != 4 {
				return fmt.Errorf("octets behind the end of the options")
			}
			return nil
		}
		if 4+align(n) > len(b) {
			return fmt.Errorf("option %d of %d octets exceeds the block", code, n)
		}
		if err := each(code, b[4:4+n]); err != nil {
			return fmt.Errorf("option %d: %w", code, err)
		}
		b = b[4+align(n):]
	}
	return nil
}

var errShort = fmt.Errorf("shorter than its fixed fields")

func align(n int) int { return (n + 3) &^ 3 }

func fixed(v []byte, n int) error {
	if len(v) != n {
		return fmt.Errorf("%d octets instead of %d", len(v), n)
	}
	return nil
}

func (r *Reader) number32(v []byte, to *uint32) error {
	if err := fixed(v, 4); err != nil {
		return err
	}
	*to = r.order.Uint32(v)
	return nil
}

func (r *Reader) number64(v []byte, to *uint64) error {
	if err := fixed(v, 8); err != nil {
		return err
	}
	*to = r.order.Uint64(v)
	return nil
}

// stamp converts the two words of a time to nanoseconds since the epoch.
func (r *Reader) stamp(iface uint32, b []byte) (int64, error) {
	if int64(iface) >= int64(len(r.ifaces)) {
		return 0, fmt.Errorf("interface %d is not described", iface)
	}
	st := r.ifaces[iface]
	ticks := uint64(r.order.Uint32(b))<<32 | uint64(r.order.Uint32(b[4:]))
	ns, ok := toNanoseconds(ticks, st.resol)
	if !ok || st.offset > maxOffset || st.offset < -maxOffset {
		return 0, errTime
	}
	sum := ns + st.offset*1e9
	if st.offset > 0 && sum < ns || sum < 0 {
		return 0, errTime
	}
	return sum, nil
}

// maxOffset is the largest if_tsoffset, in seconds, that fits nanoseconds.
const maxOffset = math.MaxInt64 / 1_000_000_000

var errTime = fmt.Errorf("time stamp out of range")

// toNanoseconds scales ticks of 10^-resol seconds, or 2^-(resol&127) seconds
// if the top bit is set (section 4.2, if_tsresol).
func toNanoseconds(ticks uint64, resol byte) (int64, bool) {
	var hi, lo uint64
	switch exp := uint(resol & 127); {
	case resol&128 != 0:
		hi, lo = bits.Mul64(ticks, 1e9)
		if exp >= 64 {
			hi, lo = 0, hi>>(exp-64)
		} else {
			hi, lo = hi>>exp, hi<<(64-exp)|lo>>exp
		}
	case exp <= nanoseconds:
		hi, lo = bits.Mul64(ticks, pow10(nanoseconds-exp))
	case exp-nanoseconds < 20:
		lo = ticks / pow10(exp-nanoseconds)
	}
	return int64(lo), hi == 0 && lo <= math.MaxInt64
}

func pow10(n uint) uint64 {
	p := uint64(1)
	for ; n > 0; n-- {
		p *= 10
	}
	return p
}

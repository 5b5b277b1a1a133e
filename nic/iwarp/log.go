package iwarp

import (
	"math/bits"

	"tapir/ddp"
	"tapir/mpa"
	"tapir/rdmap"
)

// kind says how a record's payload is found again.
type kind uint8

const (
	raw    kind = iota // data holds all octets: a start-up frame
	copied             // data holds the payload
	lent               // the payload is read again from the work request
	shared             // data is the payload in the region that the peer reads
)

// record describes a run of FPDUs (or a start-up frame) from when it is cut
// until TCP has acknowledged it, so that any part can be sent again
// identically. The FPDUs of a run are alike: segments of one message that
// follow each other, none of them its last, with payloads of one length.
type record struct {
	off   uint64 // stream offset of its first octet
	size  uint32 // octets of an FPDU in the stream, markers included
	n     uint32 // payload octets of an FPDU
	count uint32 // FPDUs
	kind  kind
	hlen  uint8 // of DDP's header
	op    rdmap.Opcode
	last  bool                                  // of its message
	done  bool                                  // its request completes with it
	seq   uint64                                // send queue position, or rdmap.NoRef
	wr    uint64                                // WR id of that request
	moff  uint64                                // of the first payload within its message
	head  [mpa.LengthLen + ddp.UntaggedLen]byte // of the first FPDU: length field and DDP header
	data  []byte
	chunk *chunk // that data lies in
}

func (r *record) end() uint64 { return r.off + uint64(r.size)*uint64(r.count) }

// pos is the position in the full operation stream of the kth FPDU.
func (r *record) pos(c *conn, k int) uint64 { return r.off - c.base + uint64(k)*uint64(r.size) }

// putHead writes the head of the kth FPDU to dst and returns its length.
func (r *record) putHead(dst []byte, k int) (n int) {
	n = copy(dst, r.head[:mpa.LengthLen+r.hlen])
	if k > 0 {
		ddp.Advance(dst[mpa.LengthLen:], uint64(k)*uint64(r.n))
	}
	return n
}

// split says in which FPDU of the run stream offset off lies, and at which of
// its octets.
func (r *record) split(off uint64) (k, rest int) {
	if r.count == 1 {
		return 0, int(off - r.off)
	}
	at := uint32(off - r.off)
	return int(at / r.size), int(at % r.size)
}

// boundary is the end of the FPDU that holds stream offset off.
func (r *record) boundary(off uint64) uint64 {
	if r.count == 1 {
		return r.end()
	}
	return off + uint64(r.size) - (off-r.off)%uint64(r.size)
}

// sendLog is the ring of records between what is acknowledged and what is
// cut.
type sendLog struct {
	ring       []record
	head, tail uint32
	cursor     uint32 // where find looks first
	end        uint64 // stream offset behind the last record
}

const smallLog = 16 // records that an idle connection may keep

func (l *sendLog) len() int { return int(l.tail - l.head) }

func (l *sendLog) at(i uint32) *record { return &l.ring[i&uint32(len(l.ring)-1)] }

// room returns the place of the next record, to be filled in and pushed.
func (l *sendLog) room(c *conn) *record {
	if l.len() == len(l.ring) {
		l.grow(&c.e.memory)
	}
	r := l.at(l.tail)
	r.off = l.end
	return r
}

// push adds the record in the place that room has returned to the stream.
func (l *sendLog) push(r *record) {
	l.tail++
	l.end = r.end()
}

func (l *sendLog) grow(m *memory) {
	ring := m.getRing(max(4, 2*len(l.ring)))
	for i := l.head; i != l.tail; i++ {
		ring[i&uint32(len(ring)-1)] = *l.at(i)
	}
	m.putRing(l.ring)
	l.ring = ring
}

// find returns the index of the record that holds stream offset off, which
// must lie in the log. Reads mostly go forward, so the last place comes first.
func (l *sendLog) find(off uint64) uint32 {
	for i, tries := l.cursor, 0; tries < 2 && i-l.head < l.tail-l.head; i, tries = i+1, tries+1 {
		if r := l.at(i); r.off <= off && off < r.end() {
			l.cursor = i
			return i
		}
	}
	lo, hi := l.head, l.tail
	for hi-lo > 1 {
		mid := lo + (hi-lo)/2
		if l.at(mid).off <= off {
			lo = mid
		} else {
			hi = mid
		}
	}
	l.cursor = lo
	return lo
}

// pop removes the oldest record; a large ring that runs empty goes back.
func (l *sendLog) pop(c *conn) {
	r := l.at(l.head)
	c.retain.drop(r)
	*r = record{}
	l.head++
	if l.head == l.tail && len(l.ring) > smallLog {
		c.e.memory.putRing(l.ring)
		l.ring = nil
	}
}

// release gives everything back.
func (l *sendLog) release(c *conn) {
	for l.len() > 0 {
		l.pop(c)
	}
	l.ring = nil
}

func class(n int) int { return bits.Len(uint(n)) }

// Package ring is the shared memory between a NIC and a program whose queues
// it serves: send, receive and completion queues in the layout of Linux's rxe
// driver (kernel header rdma/rdma_user_rxe.h), so that the stock librxe is a
// program's half. Both halves are here. The device half pulls requests and
// pushes completions (it implements verbs.SendSource, RecvSource and Sink);
// the program half does the reverse.
//
// A ring is a header and 2^k elements of 2^m octets. Each index is written by
// one side alone, which keeps its own copy: what stands in shared memory is
// for the other side to read. The other side's index is read atomically and
// masked, an element is copied once and checked in the copy: whatever the
// program writes, nothing but its own queues suffers. All numbers have the
// host's byte order.
package ring

import (
	"errors"
	"fmt"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"tapir/nic/verbs"
)

// Offsets of the header, and its length.
const (
	offLog2Size = 0   // of an element
	offMask     = 4   // number of elements - 1
	offProducer = 128 // index of the next element to be filled
	offConsumer = 256 // index of the next element to be emptied
	offArmed    = 260 // of a completion queue: what the program waits for
	headerLen   = 384
)

// What a program waits for. The librxe of others leaves the word as it is, and
// asks by a command. The program's changes and the device's are each one atomic
// step, so that of two that meet one sees the other.
const (
	armedNot = iota
	armedSolicited
	armedNext
	armedAsleep // the next, but sleeps on this word itself
)

// layout is the shape of a ring.
type layout struct {
	log2Size  int // of an element
	log2Elems int
}

// Elements have room for what is asked. Two more stay empty: one tells a full
// ring from an empty one; the other is for the builder functions (ibv_wr_*) of
// older librxe, which take the mask for the number of elements and so stop one
// element early in one place of the ring.
func newLayout(elems, size int) layout {
	return layout{log2Size: bits.Len(uint(size - 1)), log2Elems: bits.Len(uint(elems + 1))}
}

// sendLayout is the ring of a send queue for maxWR requests of maxSGE elements
// or maxInline octets of inline data.
func sendLayout(maxWR, maxSGE, maxInline int) layout {
	return newLayout(maxWR, sendData+max(maxSGE*sgeLen, maxInline))
}

// recvLayout is the ring of a receive queue or SRQ for maxWR requests of
// maxSGE elements.
func recvLayout(maxWR, maxSGE int) layout { return newLayout(maxWR, recvData+maxSGE*sgeLen) }

// cqLayout is the ring of a completion queue for entries completions.
func cqLayout(entries int) layout { return newLayout(entries, cqeLen) }

// size is the ring's length in octets, the header included.
func (l layout) size() int { return headerLen + 1<<(l.log2Elems+l.log2Size) }

// cap is how many elements can be filled.
func (l layout) cap() int { return 1<<l.log2Elems - 1 }

// half is one side's view of a ring: the index that is its own, and where the
// other's is found.
type half struct {
	mem   []byte // nil: closed
	own   *atomic.Uint32
	other *atomic.Uint32
	index uint32
	mask  uint32
	shift int
}

// ErrLayout means that shared memory does not hold a ring of the kind asked
// for.
var ErrLayout = errors.New("no such ring")

func word(mem []byte, off int) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&mem[off]))
}

// format makes an empty ring of mem.
func (l layout) format(mem []byte) {
	word(mem, offLog2Size).Store(uint32(l.log2Size))
	word(mem, offMask).Store(uint32(l.cap()))
	word(mem, offProducer).Store(0)
	word(mem, offConsumer).Store(0)
	word(mem, offArmed).Store(armedNot)
}

// half returns a side of the ring in mem, which has been made with this layout.
func (l layout) half(mem []byte, own, other int) half {
	return half{
		mem: mem[:l.size():l.size()], own: word(mem, own), other: word(mem, other),
		mask: uint32(l.cap()), shift: l.log2Size,
	}
}

// open returns the program's side of the ring in mem, which the device has
// made, if its elements have at least size octets.
func open(mem []byte, size, own, other int) (half, error) {
	if len(mem) < headerLen || uintptr(unsafe.Pointer(&mem[0]))%8 != 0 {
		return half{}, fmt.Errorf("%w: %d octets, unaligned or shorter than a header", ErrLayout, len(mem))
	}
	log2, mask := word(mem, offLog2Size).Load(), word(mem, offMask).Load()
	l := layout{log2Size: int(log2), log2Elems: bits.Len32(mask)}
	if log2 > 20 || mask&(mask+1) != 0 || mask == 0 || 1<<log2 < size || l.size() > len(mem) {
		return half{}, fmt.Errorf("%w: elements of 2^%d octets, mask %#x in %d octets", ErrLayout, log2, mask, len(mem))
	}
	h := l.half(mem, own, other)
	h.index = h.own.Load() & h.mask
	return h, nil
}

func (h *half) elem(i uint32) []byte {
	at, size := headerLen+int(i&h.mask)<<h.shift, 1<<h.shift
	return h.mem[at : at+size : at+size]
}

// cap is how many elements can be filled.
func (h *half) cap() int { return int(h.mask) }

// advance hands the element at index to the other side.
func (h *half) advance() {
	h.index = (h.index + 1) & h.mask
	h.own.Store(h.index)
}

// consumer empties a ring.
type consumer struct{ half }

// filled is how many elements wait.
func (c *consumer) filled() int {
	if c.mem == nil {
		return 0
	}
	return int((c.other.Load() - c.index) & c.mask)
}

// next is the oldest element, nil if none waits.
func (c *consumer) next() []byte {
	if c.filled() == 0 {
		return nil
	}
	return c.elem(c.index)
}

// producer fills a ring.
type producer struct{ half }

// filled is how many elements the other side has not emptied.
func (p *producer) filled() int {
	if p.mem == nil {
		return 0
	}
	return int((p.index - p.other.Load()) & p.mask)
}

// room is the element to be filled next, nil if the ring is full.
func (p *producer) room() []byte {
	if p.mem == nil || p.filled() == p.cap() {
		return nil
	}
	return p.elem(p.index)
}

// moveTo copies the elements that wait from c's ring to the empty one of p.
func (c *consumer) moveTo(p *producer) error {
	n := c.filled()
	if n > p.cap() {
		return fmt.Errorf("%d elements wait, %d would fit: %w", n, p.cap(), verbs.ErrInvalid)
	}
	for ; n > 0; n-- {
		copy(p.room(), c.elem(c.index))
		c.index = (c.index + 1) & c.mask
		p.advance()
	}
	return nil
}

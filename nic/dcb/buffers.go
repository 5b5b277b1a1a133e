package dcb

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Sizes of receive buffers, in octets: what one has by default that PFC keeps from loss, and
// another, and the most of all together.
const (
	LosslessBuffer = 512 << 10
	LossyBuffer    = 48 << 10
	MaxBuffers     = 8 << 20
)

// Buffers are where received frames of each priority wait for a receive queue. The zero value
// gives priority n the buffer n.
type Buffers struct {
	Mapped bool            // Prio counts
	Prio   [Classes]uint8  // the buffer of each priority
	Size   [Classes]uint32 // of each buffer, in octets; 0: the default
}

// Of is the buffer of a priority.
func (b *Buffers) Of(prio uint8) uint8 {
	if b.Mapped {
		return b.Prio[prio]
	}
	return prio
}

// Octets is the size of a buffer where these priorities have PFC.
func (b *Buffers) Octets(buffer, pfc uint8) int {
	if n := b.Size[buffer]; n > 0 {
		return int(n)
	}
	for prio := range uint8(Classes) {
		if b.Of(prio) == buffer && pfc>>prio&1 != 0 {
			return LosslessBuffer
		}
	}
	return LossyBuffer
}

// Total is the size of all buffers that have a priority.
func (b *Buffers) Total(pfc uint8) (octets int) {
	used := uint8(0)
	for prio := range uint8(Classes) {
		used |= 1 << b.Of(prio)
	}
	for i := range uint8(Classes) {
		if used>>i&1 != 0 {
			octets += b.Octets(i, pfc)
		}
	}
	return octets
}

func (b *Buffers) validate(pfc uint8) error {
	if n := b.Total(pfc); n > MaxBuffers {
		return fmt.Errorf("buffer_size: all buffers have %d octets; the NIC has %d", n, MaxBuffers)
	}
	return nil
}

// SetBufferMap reads the buffer of priorities: all:0,3:1.
func (p *Port) SetBufferMap(text string) error {
	return EachPair(text, Classes, func(at int, value string) error {
		n, err := strconv.ParseUint(value, 10, 3)
		if err != nil {
			return ErrWords
		}
		p.Buffers.Prio[at] = uint8(n)
		return nil
	})
}

// BufferMapWords is what SetBufferMap reads.
func (p *Port) BufferMapWords() string {
	b := &p.Buffers
	return words("all:0", func(prio int) string { return word(b.Prio[prio] > 0, strconv.Itoa(int(b.Prio[prio]))) })
}

// SetBufferSizes reads the size of buffers in octets: 3:1M,0:65536; 0 is the default.
func (p *Port) SetBufferSizes(text string) error {
	return EachPair(text, Classes, func(at int, value string) error {
		digits, unit := value, uint64(1)
		for i, factor := range []uint64{1 << 10, 1 << 20} {
			if cut, ok := strings.CutSuffix(value, "KM"[i:i+1]); ok {
				digits, unit = cut, factor
			}
		}
		n, err := strconv.ParseUint(digits, 10, 32)
		if err != nil || n*unit > math.MaxUint32 {
			return ErrWords
		}
		p.Buffers.Size[at] = uint32(n * unit)
		return nil
	})
}

// BufferSizeWords is what SetBufferSizes reads.
func (p *Port) BufferSizeWords() string {
	return words("all:0", func(i int) string {
		switch n := p.Buffers.Size[i]; {
		case n > 0 && n%(1<<20) == 0:
			return fmt.Sprintf("%dM", n>>20)
		case n > 0 && n%(1<<10) == 0:
			return fmt.Sprintf("%dK", n>>10)
		default:
			return word(n > 0, fmt.Sprint(n))
		}
	})
}

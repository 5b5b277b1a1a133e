package irq

import (
	"math/bits"

	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

// Attention bits.
const (
	attnBits     = 0xfff
	attnMaskable = 0x3ff
	AttnDORQ     = 0x80  // the doorbell queue has lost a doorbell
	AttnMFW      = 0x100 // the management firmware has something to say
)

// attention is the attention status block of a hwfn, its line in the IGU, and
// the driver's view of both.
type attention struct {
	line     line
	bits     uint32 // as the host's memory has them
	ack      uint32
	sources  uint32 // what the sources say, whatever the mask
	enable   uint32 // the IGU's mask
	known    uint32 // the driver's: asserted and not yet deasserted
	seen     uint32 // the index that the driver has read
	handlers [12]func(now frame.Time)
	counts   [12]uint64
	unknown  uint32 // masked for good: nobody handles them
}

func (a *attention) init() {
	a.enable = attnBits
	a.line.enabled = true
}

// HandleAttention has fn run when an attention bit is asserted. INVAL: not one
// bit of the twelve; EXISTS: it is handled. An attention that had been masked
// because nobody handled it is enabled again.
func (h *Hwfn) HandleAttention(bit uint32, fn func(now frame.Time)) error {
	if bits.OnesCount32(bit) != 1 || bit&attnBits == 0 {
		return status.Inval.Errorf("attention %#x", bit)
	}
	a := &h.attn
	n := bits.TrailingZeros32(bit)
	if a.handlers[n] != nil {
		return status.Exists.Errorf("handler of attention %#x", bit)
	}
	a.handlers[n] = fn
	a.unknown &^= bit
	h.unmask(bit)
	return nil
}

// AttnAssert says that sources of attentions want it; AttnDeassert that they no
// longer do.
func (h *Hwfn) AttnAssert(which uint32, now frame.Time) {
	a := &h.attn
	h.dev.now = now
	a.sources |= which & attnBits
	h.latch()
}

// AttnDeassert is the end of what AttnAssert began.
func (h *Hwfn) AttnDeassert(which uint32, now frame.Time) {
	a := &h.attn
	h.dev.now = now
	a.sources &^= which
	h.latch()
}

// latch brings the bits of the status block up to date: an assertion needs the
// mask's leave, its end does not.
func (h *Hwfn) latch() {
	a := &h.attn
	next := a.sources & (a.enable | a.bits)
	if next == a.bits {
		return
	}
	a.bits = next
	a.line.prod = (a.line.prod + 1) & indexMask
	h.propagateAttn()
}

func (h *Hwfn) propagateAttn() {
	if h.conf&confAttn != 0 {
		h.propagate(&h.attn.line, 1)
	}
}

func (h *Hwfn) unmask(which uint32) {
	h.attn.enable |= which &^ h.attn.unknown
	h.latch()
}

// attentions is the driver's part: it runs the handlers of new attentions,
// acknowledges them, and enables again those that have ended.
func (h *Hwfn) attentions(now frame.Time) {
	a := &h.attn
	for a.seen != a.line.prod {
		a.seen = a.line.prod
		asserted := a.bits &^ a.ack &^ a.known & attnBits
		deasserted := ^a.bits & a.ack & a.known
		a.enable &^= asserted & attnMaskable
		a.known |= asserted
		for left := asserted; left != 0; left &= left - 1 {
			n := bits.TrailingZeros32(left)
			a.counts[n]++
			if fn := a.handlers[n]; fn != nil {
				fn(now)
				continue
			}
			a.unknown |= 1 << n
			a.enable &^= 1 << n
		}
		a.ack |= asserted
		a.known &^= deasserted
		a.ack &^= deasserted
		h.unmask(deasserted)
	}
	a.line.cons = a.seen
	h.acked(&a.line, Enable, 1)
}

// AttnInfo counts an attention for display.
type AttnInfo struct {
	Bit     uint32
	Count   uint64
	Active  bool // asserted now
	Unknown bool // nobody handles it: it is masked
}

// Attentions describes those that have occurred.
func (h *Hwfn) Attentions() (list []AttnInfo) {
	for n, c := range h.attn.counts {
		if bit := uint32(1) << n; c > 0 {
			list = append(list, AttnInfo{bit, c, h.attn.sources&bit != 0, h.attn.unknown&bit != 0})
		}
	}
	return list
}

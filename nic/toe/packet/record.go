package packet

import (
	"net/netip"

	"tapir/wire/frame"
	"tapir/wire/ip"
)

// Saved is one packet of a connection's beginning, kept so that a capture begun
// later can be understood.
type Saved struct {
	Dir  frame.Direction
	At   frame.Time
	Data []byte // IP packet with complete checksums
}

// Record keeps copies of a connection's first packets while On. The first one
// that does not fit ends it: a hole would mislead whoever reads the packets.
type Record struct {
	On   bool
	list []Saved
	size int
}

// MaxRecord bounds the packets of one Record together, in octets.
const MaxRecord = 4096

const maxSaved = 16

// Packets returns what has been saved (borrowed).
func (r *Record) Packets() []Saved { return r.list }

// Size is how many octets that is.
func (r *Record) Size() int { return r.size }

// Forget drops it.
func (r *Record) Forget() { r.list = nil }

// In keeps a received segment, with its checksum completed.
func (r *Record) In(h *ip.Header, seg []byte, off frame.Offload, now frame.Time) {
	n := h.HeaderLen()
	if !r.fits(n + len(seg)) {
		return
	}
	b := make([]byte, n+len(seg))
	h.Put(b)
	copy(b[n:], seg)
	if off.NeedsCsum {
		PutChecksum(b[n:], h.Src, h.Dst)
	}
	r.add(Saved{frame.Inbound, now, b})
}

// Out keeps a packet about to be sent, its checksum completed.
func (r *Record) Out(f *frame.Frame, src, dst netip.Addr, now frame.Time) {
	if f.GSO != frame.GSONone {
		r.On = false
		return
	}
	if !r.fits(f.Len()) {
		return
	}
	b := append([]byte(nil), f.Bytes()...)
	if f.NeedsCsum {
		PutChecksum(b[f.CsumStart:], src, dst)
	}
	r.add(Saved{frame.Outbound, now, b})
}

func (r *Record) fits(n int) bool {
	r.On = r.On && len(r.list) < maxSaved && r.size+n <= MaxRecord
	return r.On
}

func (r *Record) add(p Saved) {
	r.size += len(p.Data)
	r.list = append(r.list, p)
}

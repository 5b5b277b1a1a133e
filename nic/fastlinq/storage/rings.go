// Package storage is what the storage functions of the device share, iSCSI and FCoE: rings
// in memory that driver and firmware share, and the queues of a function. Each completion
// queue (CQ) has a queue of receive buffers (RQ) and one of commands (CmdQ) beside it. The
// driver tells the firmware the addresses of all in one list: CQ 0, RQ 0, CmdQ 0, CQ 1, ...
package storage

// Kind is what a ring is for.
type Kind uint8

// The kinds. Those of the function come in this order in its list of queues.
const (
	CQ Kind = iota
	RQ
	CmdQ
	PerQueue // of the function, for each completion queue
	SQ       = PerQueue
	UHQ      = PerQueue + 1
)

// Sizes of the rings of connections.
const (
	PageSize  = 4096
	EntrySize = 8                    // octets of an element of SQ and UHQ
	PerPage   = PageSize / EntrySize // elements of a page
)

// Ring is a queue that driver and firmware share: one of them produces elements, the
// other consumes them.
type Ring struct {
	Kind       Kind
	Size       int
	Prod, Cons uint32 // free-running
	Peak       int    // the most elements that there were at a time
	elements   []uint64
}

// NewRing makes an empty ring.
func NewRing(k Kind, size int) *Ring { return &Ring{Kind: k, Size: size} }

// Used is how many elements wait.
func (r *Ring) Used() int { return int(r.Prod - r.Cons) }

// Produce adds an element; false: there is no room.
func (r *Ring) Produce(v uint64) bool {
	if r.Used() >= r.Size {
		return false
	}
	if n := r.Used(); n == len(r.elements) { // memory is taken as it is used
		grown := make([]uint64, min(max(16, 2*n), r.Size))
		for i := range n {
			grown[(r.Cons+uint32(i))%uint32(len(grown))] = *r.at(r.Cons + uint32(i))
		}
		r.elements = grown
	}
	*r.at(r.Prod) = v
	r.Prod++
	r.Peak = max(r.Peak, r.Used())
	return true
}

func (r *Ring) at(i uint32) *uint64 { return &r.elements[i%uint32(len(r.elements))] }

// First is the oldest element; there is one.
func (r *Ring) First() uint64 { return *r.at(r.Cons) }

// Consume takes the oldest element; there is one.
func (r *Ring) Consume() uint64 {
	v := r.First()
	r.Cons++
	return v
}

// Clear takes all elements, and says how many there were.
func (r *Ring) Clear() (n int) {
	n = r.Used()
	r.Cons = r.Prod
	return n
}

// Memory is what the driver shares with the firmware, by address. Pages of a ring are
// behind a list of them (PBL), which the address is that of.
type Memory struct {
	next uint64
	at   map[uint64]any
}

// Put gives something an address.
func (m *Memory) Put(v any) uint64 {
	if m.at == nil {
		m.at, m.next = map[uint64]any{}, PageSize
	}
	addr := m.next
	m.next += PageSize
	m.at[addr] = v
	return addr
}

// At is what is at an address if it is of that type, or zero.
func At[T any](m *Memory, addr uint64) (v T) {
	v, _ = m.at[addr].(T)
	return v
}

// Ring is the ring at an address if it is of that kind and size, or nil.
func (m *Memory) Ring(addr uint64, k Kind, size int) *Ring {
	r := At[*Ring](m, addr)
	if r == nil || r.Kind != k || r.Size != size {
		return nil
	}
	return r
}

// List is the list of addresses at an address, or nil.
func (m *Memory) List(addr uint64) []uint64 {
	return At[[]uint64](m, addr)
}

// Free forgets what is at an address.
func (m *Memory) Free(addr uint64) { delete(m.at, addr) }

package ll2

// Rings are the memory that the two halves of a connection share: descriptors of
// buffers and completions, and the buffers by their addresses, which are their places
// in the driver's table.
type Rings struct {
	Rx          ring[rxBD]
	Completions ring[completion]
	Tx          ring[txBD]

	Posted int    // receive descriptors that the doorbell has told of
	Sent   int    // transmit descriptors likewise
	Done   uint16 // transmit descriptors that the firmware has done with; free-running

	rxBufs, txBufs [][]byte // by address
}

// newRings sizes them. An OOO connection's buffers are not here.
func newRings(p *Params) *Rings {
	n := p.RxDescs
	if p.Type == OOO {
		n = 0
	}
	return &Rings{Rx: newRing[rxBD](n), Completions: newRing[completion](n), Tx: newRing[txBD](p.TxDescs),
		rxBufs: make([][]byte, n), txBufs: make([][]byte, p.TxDescs)}
}

// rxBD is a receive descriptor (core_rx_bd).
type rxBD struct{ addr int32 }

// completion is an element of the completion queue (core_rx_fast_path_cqe).
type completion struct {
	addr   int32 // of the buffer, in the opaque data
	length uint16
	tci    uint16
	tagged bool
	flags  Flags
}

// txBD is a transmit descriptor (core_tx_bd). The first of a packet says how many
// there are, and what becomes of it.
type txBD struct {
	addr   int32
	length uint16
	tci    uint16
	bds    uint8 // 0: not the first
	dest   Dest
	tagged bool
}

// ring is a queue of elements, of which there is room for as many as it was made for.
type ring[T any] struct {
	list    []T
	head, n int
}

func newRing[T any](size int) ring[T] { return ring[T]{list: make([]T, size)} }

// produce adds an element; there is room.
func (r *ring[T]) produce(v T) {
	r.list[(r.head+r.n)%len(r.list)] = v
	r.n++
}

// consume takes the oldest.
func (r *ring[T]) consume() (v T, ok bool) {
	if r.n == 0 {
		return v, false
	}
	at := r.head
	v, r.list[at] = r.list[at], v
	if r.head++; r.head == len(r.list) {
		r.head = 0
	}
	r.n--
	return v, true
}

// last is the newest, to be read.
func (r *ring[T]) last() *T { return &r.list[(r.head+r.n-1)%len(r.list)] }

// reset empties it.
func (r *ring[T]) reset() {
	clear(r.list)
	r.head, r.n = 0, 0
}

package l2

import (
	"slices"

	"tapir/nic/fastlinq/status"
	"tapir/nic/nicdrop"
	"tapir/nic/pacing"
	"tapir/wire/frame"
)

// QueueParams are the parameters of a queue's start.
type QueueParams struct {
	Vport int
	Queue int // relative id: unique among receive queues
	Stats int // the vport that its frames count for
	SB    uint16
	PI    uint8 // the index in the status block
	Size  int   // buffers or frames that it holds: MinRing to MaxRing
}

// identity of a queue, the same for both kinds: what start was given, and the
// connection id.
type identity struct {
	ID    int
	CID   uint32
	SB    uint16
	PI    uint8
	size  int
	fn    *Function // nil: stopped
	vport *vport
	stats *vport
}

// Vport is the relative id of the queue's vport.
func (q *identity) Vport() int { return q.vport.id }

// zone is what queues with the same id share.
type zone struct {
	rx   *RxQueue
	tx   int // how many
	rxUS int // coalescing times
	txUS int
}

// CQE is what the device tells of a received frame.
type CQE struct {
	Hash     uint32
	HashType HashType
	// Tagged: VLAN is the tag control information of a tag that was removed, or
	// of the default VLAN.
	Tagged bool
	VLAN   uint16
	Tunnel Tunnel // that the packet belongs to
	Csum   Csum
	// Segments that were put together; 0 if the frame came as it is.
	Segments int
}

// completion is a frame with what is told of it.
type completion struct {
	f *frame.Frame
	CQE
}

// RxQueue is a receive queue: buffers that the driver has posted, and frames
// that have come.
type RxQueue struct {
	identity
	bufSize int // octets
	posted  int // buffers without a frame
	held    int // buffers with one
	done    ring[completion]
	Stats   RxQueueStats
}

// TxQueue is a transmit queue.
type TxQueue struct {
	identity
	TC    uint8
	ready ring[outgoing]
	rung  int // frames that the doorbell has told of
	Stats TxQueueStats

	pacing *pacing.Node
}

// RxQueueStart starts a receive queue with buffers of bufSize octets. It holds
// none until they are posted. INVAL for an id beyond the share or a size out of range; the firmware
// asserts if its vport is not started or the queue is.
func (fn *Function) RxQueueStart(p QueueParams, bufSize int) (*RxQueue, error) {
	id, err := fn.identify(p)
	if err != nil {
		return nil, err
	}
	z := &fn.zones[p.Queue]
	switch {
	case bufSize < 64 || bufSize > 65536:
		return nil, status.Inval.Errorf("receive queue %d: buffers of %d octets", p.Queue, bufSize)
	case z.rx != nil:
		return nil, fn.assert("receive queue %d is started already", p.Queue)
	}
	q := &RxQueue{identity: id, bufSize: bufSize}
	q.done.init(p.Size)
	z.rx = q
	id.vport.attach(q)
	return q, nil
}

// TxQueueStart starts a transmit queue of traffic class tc. Up to MaxPerZone
// may have the same id; they share its coalescing time. Errors: those of RxQueueStart,
// and NORESOURCES if the id has MaxPerZone queues.
func (fn *Function) TxQueueStart(p QueueParams, tc uint8) (*TxQueue, error) {
	id, err := fn.identify(p)
	if err != nil {
		return nil, err
	}
	z := &fn.zones[p.Queue]
	switch {
	case tc > 7:
		return nil, status.Inval.Errorf("transmit queue %d: traffic class %d", p.Queue, tc)
	case z.tx == MaxPerZone:
		return nil, status.NoResources.Errorf("transmit queue %d: %d share that id already", p.Queue, z.tx)
	}
	z.tx++
	q := &TxQueue{identity: id, TC: tc, pacing: id.vport.pacing.Child(false)}
	q.ready.init(p.Size)
	id.vport.txq = append(id.vport.txq, q)
	fn.txq = append(fn.txq, q)
	return q, nil
}

func (fn *Function) identify(p QueueParams) (identity, error) {
	switch {
	case p.Queue < 0 || p.Queue >= len(fn.zones):
		return identity{}, status.Inval.Errorf("queue %d: the function has %d", p.Queue, len(fn.zones))
	case p.Size < MinRing || p.Size > MaxRing:
		return identity{}, status.Inval.Errorf("queue %d: size %d: want %d to %d", p.Queue, p.Size, MinRing, MaxRing)
	}
	v, err := fn.vport(p.Vport)
	if err != nil {
		return identity{}, err
	}
	s, err := fn.vport(p.Stats)
	if err != nil {
		return identity{}, err
	}
	fn.nextCID++
	return identity{ID: p.Queue, CID: fn.nextCID, SB: p.SB, PI: p.PI, size: p.Size, fn: fn, vport: v, stats: s}, nil
}

// RxQueueStop stops a receive queue. Frames that its driver has not taken are
// lost and counted. The vport receives no more once its last queue is gone.
func (fn *Function) RxQueueStop(q *RxQueue) error {
	if q == nil || q.fn != fn {
		return status.Inval.Errorf("no receive queue of this function")
	}
	fn.flush(q.vport)
	for c, ok := q.done.pop(); ok; c, ok = q.done.pop() {
		q.lose(c.f, nicdrop.Vport, 1)
	}
	q.vport.detach(q)
	fn.zones[q.ID].rx = nil
	q.fn, q.posted, q.held = nil, 0, 0
	return nil
}

// lose counts frames, put together as f (taken), that were received and cannot be
// delivered.
func (q *RxQueue) lose(f *frame.Frame, r frame.DropReason, frames int) {
	q.fn.drops[rx][r] += uint64(frames)
	q.stats.drops[rx][r] += uint64(frames)
	if q.fn.cfg.Drop != nil {
		q.fn.cfg.Drop(Rx, f, r)
	}
	f.Release()
}

// TxQueueStop stops a transmit queue. Frames that it holds are not sent.
func (fn *Function) TxQueueStop(q *TxQueue) error {
	if q == nil || q.fn != fn {
		return status.Inval.Errorf("no transmit queue of this function")
	}
	for o, ok := q.ready.pop(); ok; o, ok = q.ready.pop() {
		fn.dropOut(q, o.f, nicdrop.Vport)
	}
	same := func(r *TxQueue) bool { return r == q }
	q.vport.txq = slices.DeleteFunc(q.vport.txq, same)
	fn.txq = slices.DeleteFunc(fn.txq, same)
	fn.zones[q.ID].tx--
	q.pacing.Remove()
	fn.rung -= q.rung
	q.fn, q.rung, fn.turn = nil, 0, 0
	return nil
}

// Post gives the device n buffers more. INVAL: the queue has fewer places left.
func (q *RxQueue) Post(n int) error {
	if q.fn == nil || n < 0 || q.posted+q.held+n > q.size {
		return status.Inval.Errorf("receive queue %d: %d buffers more than its %d", q.ID, n, q.size)
	}
	q.posted += n
	return nil
}

// Posted is the number of buffers that wait for frames.
func (q *RxQueue) Posted() int { return q.posted }

// Free is the number of buffers that the driver may post.
func (q *RxQueue) Free() int { return q.size - q.posted - q.held }

// Len is the number of frames that wait for the driver.
func (q *RxQueue) Len() int { return q.done.n }

// Next returns the oldest frame that has come, nil if there is none. Its
// buffers are the driver's, to be posted again.
func (q *RxQueue) Next() (f *frame.Frame, cqe CQE) {
	c, ok := q.done.pop()
	if !ok {
		return nil, CQE{}
	}
	q.held -= q.buffers(c.f.Len())
	q.Stats.Received++
	return c.f, c.CQE
}

// buffers is how many a frame of n octets fills.
func (q *RxQueue) buffers(n int) int { return (n + q.bufSize - 1) / q.bufSize }

// SetCoalesce sets the coalescing time of a queue, in microseconds; 0 leaves it
// as it is. INVAL above MaxCoalesce.
func (q *RxQueue) SetCoalesce(us int) error {
	return q.coalesce(us, func(z *zone) *int { return &z.rxUS })
}

// SetCoalesce sets that of all transmit queues with the same id.
func (q *TxQueue) SetCoalesce(us int) error {
	return q.coalesce(us, func(z *zone) *int { return &z.txUS })
}

// Coalesce is the queue's coalescing time, in microseconds; 0 if it was never
// set.
func (q *RxQueue) Coalesce() int {
	if q.fn == nil {
		return 0
	}
	return q.fn.zones[q.ID].rxUS
}

// Coalesce is that of all transmit queues with the same id.
func (q *TxQueue) Coalesce() int {
	if q.fn == nil {
		return 0
	}
	return q.fn.zones[q.ID].txUS
}

func (q *identity) coalesce(us int, of func(*zone) *int) error {
	switch {
	case q.fn == nil:
		return status.Inval.Errorf("queue %d is stopped", q.ID)
	case us < 0 || us > MaxCoalesce:
		return status.Inval.Errorf("queue %d: coalescing of %d µs: want at most %d", q.ID, us, MaxCoalesce)
	case us == 0:
		return nil
	}
	*of(&q.fn.zones[q.ID]) = us
	if q.fn.cfg.Coalesce != nil {
		q.fn.cfg.Coalesce(q.SB, q.PI, us)
	}
	return nil
}

// ring is a bounded first-in-first-out queue.
type ring[T any] struct {
	buf     []T // a power of two
	head, n int
	bound   int
}

func (r *ring[T]) init(bound int) { r.bound = bound }

// push appends v, unless the ring is full.
func (r *ring[T]) push(v T) bool {
	if r.n == r.bound {
		return false
	}
	if r.n == len(r.buf) {
		r.grow()
	}
	r.buf[(r.head+r.n)&(len(r.buf)-1)] = v
	r.n++
	return true
}

// grow doubles the memory: an idle queue has little.
func (r *ring[T]) grow() {
	buf := make([]T, max(16, 2*len(r.buf)))
	n := copy(buf, r.buf[r.head:])
	copy(buf[n:], r.buf[:r.head])
	r.buf, r.head = buf, 0
}

func (r *ring[T]) pop() (v T, ok bool) {
	if r.n == 0 {
		return v, false
	}
	var zero T
	v, r.buf[r.head] = r.buf[r.head], zero
	r.head = (r.head + 1) & (len(r.buf) - 1)
	r.n--
	return v, true
}

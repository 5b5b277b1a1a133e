package iwarp

import (
	"tapir/nic/verbs"
	"tapir/rdmap"
)

const (
	chunkSize = 16 << 10
	// longChunk is for messages that have so much left in another process's memory.
	longChunk = 64 << 10
	// copyLimit is the message size up to which Sends and Writes are copied
	// when cut, so that they complete without waiting for the peer.
	copyLimit = 4 << 10
	// spareChunks bounds the idle memory of an engine: 4 MiB.
	spareChunks = 256
	spareLong   = 16 // 1 MiB
	numClasses  = 33
	spareRings  = 8
	spareFPDUs  = 16
)

// chunk holds the copied payloads of several records.
type chunk struct {
	buf  []byte
	used int
	refs int
}

// memory is what the connections of an engine share and hold only while in
// use.
type memory struct {
	chunks    []*chunk
	long      []*chunk
	rings     [numClasses][][]record
	fpdus     [][]byte
	oooQueues []*oooQueue
}

func (m *memory) getChunk(n int) *chunk {
	spare, size := &m.chunks, max(n, chunkSize)
	if n > chunkSize {
		spare = &m.long
	}
	if k := len(*spare); k > 0 && size <= len((*spare)[k-1].buf) {
		c := (*spare)[k-1]
		*spare = (*spare)[:k-1]
		c.used = 0
		return c
	}
	return &chunk{buf: make([]byte, size)}
}

func (m *memory) putChunk(c *chunk) {
	switch {
	case len(c.buf) == chunkSize && len(m.chunks) < spareChunks:
		m.chunks = append(m.chunks, c)
	case len(c.buf) == longChunk && len(m.long) < spareLong:
		m.long = append(m.long, c)
	}
}

func (m *memory) getRing(n int) []record {
	f := &m.rings[class(n)]
	if k := len(*f); k > 0 {
		r := (*f)[k-1]
		*f = (*f)[:k-1]
		return r
	}
	return make([]record, n)
}

func (m *memory) putRing(r []record) {
	f := &m.rings[class(len(r))]
	if len(r) > 0 && len(*f) < spareRings {
		clear(r)
		*f = append(*f, r)
	}
}

// Get implements mpa.Buffers: memory for an FPDU that arrives in pieces.
func (m *memory) Get(size int) []byte {
	if k := len(m.fpdus); k > 0 {
		b := m.fpdus[k-1]
		m.fpdus = m.fpdus[:k-1]
		if cap(b) >= size {
			return b[:size]
		}
	}
	return make([]byte, max(size, 2<<10))[:size]
}

// Put implements mpa.Buffers.
func (m *memory) Put(b []byte) {
	if len(m.fpdus) < spareFPDUs {
		m.fpdus = append(m.fpdus, b)
	}
}

// retainer holds the copies of one connection: a queue of chunks, of which the
// current one is being filled.
type retainer struct {
	memory *memory
	cur    *chunk
	ahead  ahead
}

// ahead is payload that was read before the FPDUs for it were cut: the octets
// of the current chunk behind those in use. Reading another process's memory
// is a system call; this way one serves all FPDUs that fit into a chunk.
type ahead struct {
	from place
	n    int
}

// place says where payload comes from.
type place struct {
	id   uint64 // position in the send queue, or STag
	turn uint64 // of the STag; 0: it is none
	off  uint64
}

// fetcher reads payload: a verbs.SendWQE or Region.
type fetcher interface {
	Fetch(p []byte, off uint64) error
}

// add gives r a copy buffer of n octets, to be filled by the caller.
func (k *retainer) add(r *record, n int) []byte {
	if n == 0 {
		r.data = nil
		return nil
	}
	k.ahead.n = 0
	k.room(n)
	k.take(r, n)
	return r.data
}

// room returns what the current chunk has left, at least n octets.
func (k *retainer) room(n int) []byte {
	if k.cur == nil || len(k.cur.buf)-k.cur.used < n {
		k.release()
		k.cur = k.memory.getChunk(n)
	}
	return k.cur.buf[k.cur.used:]
}

// take gives r the next n octets of the current chunk, in addition to those
// that it has there.
func (k *retainer) take(r *record, n int) {
	c := k.cur
	if r.chunk == nil {
		r.chunk, r.data = c, nil
		c.refs++
	}
	start := c.used - len(r.data)
	c.used += n
	r.data = c.buf[start:c.used:c.used]
}

// fetch gives r a copy of n octets that src has at from, and reads up to left
// of them already for what follows.
func (k *retainer) fetch(r *record, src fetcher, from place, n int, left uint64) error {
	if n == 0 {
		return nil
	}
	a := &k.ahead
	if a.from != from || a.n < n {
		a.n = 0
		p := k.room(max(n, int(min(left, longChunk))&^(longChunk-1)))
		p = p[:min(left, uint64(len(p)))]
		if err := src.Fetch(p, from.off); err != nil {
			return err
		}
		a.from, a.n = from, len(p)
	}
	k.extend(r, n)
	return nil
}

// extend gives r the next n octets that were read ahead.
func (k *retainer) extend(r *record, n int) {
	k.take(r, n)
	k.ahead.from.off += uint64(n)
	k.ahead.n -= n
}

// drop gives up r's copy.
func (k *retainer) drop(r *record) {
	c := r.chunk
	if c == nil {
		return
	}
	r.chunk, r.data = nil, nil
	if c.refs--; c.refs == 0 {
		if c == k.cur && k.ahead.n > 0 {
			return
		}
		if c == k.cur {
			k.cur = nil
		}
		k.memory.putChunk(c)
	}
}

// releaseIdle lets go of the current chunk unless a message goes on in it.
func (k *retainer) releaseIdle() {
	if k.ahead.n == 0 {
		k.release()
	}
}

// release lets go of the current chunk: it goes back with its last record.
func (k *retainer) release() {
	k.ahead.n = 0
	if k.cur != nil && k.cur.refs == 0 {
		k.memory.putChunk(k.cur)
	}
	k.cur = nil
}

// retainUnacked copies what would have to be read again from mr, or from any
// region if mr is nil.
func (o *outbound) retainUnacked(mr *verbs.MR) {
	if o.c.qp == nil {
		return
	}
	o.endLoans()
	for i := o.log.head; i != o.log.tail; i++ {
		r := o.log.at(i)
		if r.kind == shared {
			data := r.data
			copy(o.retain.add(r, len(data)), data)
			r.kind = copied
		}
		if r.kind != lent {
			continue
		}
		w := o.c.qp.SendWQE(r.seq)
		if w == nil || mr != nil && !w.Uses(mr) {
			continue
		}
		if err := w.Fetch(o.retain.add(r, int(r.n*r.count)), r.moff); err != nil {
			o.c.stream.Fail(&rdmap.Error{Layer: rdmap.LayerRDMA, Type: rdmap.TypeCatastrophic})
		}
		r.kind = copied
		w.EndLoan()
	}
}

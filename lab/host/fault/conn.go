package fault

import (
	"cmp"
	"net/netip"
	"slices"

	"tapir/wire/tcp"
)

// mostConns bounds the TCP connections that are followed at a time; the one
// begun first is forgotten.
const mostConns = 1 << 14

// mostPending bounds the octets that wait for a gap of a stream to be closed,
// mostStrikes the strikes that wait for further transmissions.
const (
	mostPending = 4 << 20
	mostStrikes = 1 << 10
)

type connKey struct{ a, b netip.AddrPort } // a below b

func keyOf(t *thing) connKey {
	if t.src.Compare(t.dst) > 0 {
		return connKey{t.dst, t.src}
	}
	return connKey{t.src, t.dst}
}

// conn is a TCP connection.
type conn struct {
	number int // of the link, by its SYN; 0: the SYN was not seen
	half   [2]*half
	dead   bool // it has been reset
	tell   Side // who is told
	qps    []ownedQP
}

// half is one direction of a connection.
type half struct {
	src     netip.AddrPort
	begun   bool // the SYN was seen
	isn     tcp.Seq
	next    tcp.Seq // behind what was put in order
	off     uint64  // place of next in the stream
	pending []piece // behind a gap, copies
	waiting int     // octets of them
	lost    bool    // not followed any more
	follow  follower
	again   []*strike // that await further transmissions
	tally   tally
}

type piece struct {
	off  uint64
	data []byte
}

// conn finds the connection of a segment and its direction, nil if it is not
// known and t does not begin it.
func (e *Engine) conn(t *thing) (*conn, *half) {
	k := keyOf(t)
	c := e.conns[k]
	if t.is(syn) && !t.is(ack) && (c == nil || c.half[0].src == t.src && c.half[0].isn != t.tcp.Seq || c.half[0].src != t.src) {
		c = e.open(k, t)
	}
	if c == nil {
		return nil, nil
	}
	h := c.half[0]
	if h.src != t.src {
		h = c.half[1]
	}
	if t.is(syn) && !h.begun {
		h.begun, h.isn, h.next = true, t.tcp.Seq, t.tcp.Seq+1
	}
	return c, h
}

func (e *Engine) open(k connKey, t *thing) *conn {
	e.opened++
	c := &conn{number: e.opened, half: [2]*half{{src: t.src}, {src: t.dst}}}
	c.half[0].follow.peer, c.half[1].follow.peer = &c.half[1].follow, &c.half[0].follow
	if e.conns[k] == nil {
		e.order = append(e.order, k)
	}
	e.conns[k] = c
	if len(e.order) > mostConns {
		delete(e.conns, e.order[0])
		e.order = slices.Delete(e.order, 0, 1)
	}
	return c
}

// place is where in the stream the payload of t begins, negative in front of
// its start.
func (h *half) place(t *thing) int64 { return int64(h.off) + int64(t.tcp.Seq.Sub(h.next)) }

// order takes the payload of a segment and calls visit for the items of it
// that are new and in order, and missed for those that had passed behind a gap.
func (h *half) order(t *thing, visit, missed func(i *item, from, to uint64)) {
	at := h.place(t)
	if !h.begun || h.lost || t.is(syn) || at < 0 {
		return
	}
	end := at + int64(len(t.payload))
	switch {
	case at > int64(h.off):
		h.wait(uint64(at), t.payload)
		return
	case end <= int64(h.off):
		return
	}
	h.take(t.payload[int64(h.off)-at:], visit)
	for len(h.pending) > 0 && h.pending[0].off <= h.off {
		p := h.pending[0]
		h.pending = slices.Delete(h.pending, 0, 1)
		h.waiting -= len(p.data)
		if skip := h.off - p.off; skip < uint64(len(p.data)) {
			h.take(p.data[skip:], missed)
		}
	}
}

func (h *half) take(b []byte, visit func(i *item, from, to uint64)) {
	h.off += uint64(len(b))
	h.next = h.next.Add(len(b))
	h.follow.feed(b, visit)
}

// wait keeps octets until the gap in front of them is closed.
func (h *half) wait(off uint64, b []byte) {
	i, dup := slices.BinarySearchFunc(h.pending, off, func(p piece, off uint64) int { return cmp.Compare(p.off, off) })
	if dup && len(h.pending[i].data) >= len(b) || h.follow.state == notMPA {
		return
	}
	if h.waiting += len(b); h.waiting > mostPending {
		h.lost, h.pending = true, nil
		return
	}
	h.pending = slices.Insert(h.pending, i, piece{off, slices.Clone(b)})
}

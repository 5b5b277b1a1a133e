package fault

import (
	"net/netip"
	"slices"

	"tapir/wire/stream"
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
	src    netip.AddrPort
	begun  bool // the SYN was seen
	isn    tcp.Seq
	order  stream.Order[struct{}]
	off    uint64 // place in the stream of what comes next in order
	lost   bool   // not followed any more
	follow follower
	again  []*strike // that await further transmissions
	tally  tally
}

// conn finds the connection of a segment and its direction, nil if it is not
// known and t does not begin it.
func (e *Engine) conn(t *thing) (*conn, *half) {
	k := stream.EndsOf(t.src, t.dst)
	c := e.conns[k]
	if t.is(syn) && !t.is(ack) && (c == nil || c.half[0].src == t.src && c.half[0].isn != t.tcp.Seq ||
		c.half[0].src != t.src) {
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
		h.begun, h.isn, h.order.Next = true, t.tcp.Seq, t.tcp.Seq+1
	}
	return c, h
}

func (e *Engine) open(k stream.Ends, t *thing) *conn {
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
func (h *half) place(t *thing) int64 { return int64(h.off) + int64(t.tcp.Seq.Sub(h.order.Next)) }

// put takes the payload of a segment and calls visit for the items of it that
// are new and in order, and missed for those that had passed behind a gap.
func (h *half) put(t *thing, visit, missed func(i *item, from, to uint64)) {
	at := h.place(t)
	if !h.begun || h.lost || t.is(syn) || at < 0 {
		return
	}
	s := stream.Segment[struct{}]{Seq: t.tcp.Seq, Data: t.payload}
	if at > int64(h.off) {
		h.wait(s)
		return
	}
	for due := true; due; s, due = h.order.Due() {
		b := h.order.Advance(s)
		h.off += uint64(len(b))
		h.follow.feed(b, visit)
		visit = missed
	}
}

// wait keeps a segment until the gap in front of it is closed.
func (h *half) wait(s stream.Segment[struct{}]) {
	known := func(g stream.Segment[struct{}]) bool { return g.Seq == s.Seq && len(g.Data) >= len(s.Data) }
	if h.follow.state == notMPA || slices.ContainsFunc(h.order.Gap, known) {
		return
	}
	if h.order.Waiting+len(s.Data) > mostPending {
		h.lost, h.order.Gap = true, nil
		return
	}
	h.order.Wait(s)
}

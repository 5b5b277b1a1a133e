package main

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"tapir/nic/al"
	"tapir/nic/cm"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// retryAfter is the pause before a connection is tried again.
const retryAfter = 20 * time.Millisecond

// Client puts and gets without end, depth operations at a time, and checks
// every value. It is a client of the access layer: it works whenever its
// device and the server are there. A put that was under way when they went is
// sent again.
type Client struct {
	device string
	server netip.AddrPort
	depth  int
	keys   []key
	mem    []byte // per operation: a put, an answer, a slot

	// All below belongs to the device's thread, but for what mu guards.
	port    *port // nil without the device
	conn    *conn // nil while not connected or trying
	leaving bool
	remote  struct {
		addr uint64
		rkey uint32
	}
	free   []*operation
	next   int
	source uint64 // of chance, seeded

	mu    sync.Mutex
	stats Stats
}

// key is what the client knows of one key.
type key struct {
	sent, acked uint64 // versions
	busy        bool
}

// operation is one of the depth places for work.
type operation struct {
	place int
	key   int
	parts int // completions still to come
}

// Stats is what a client has done.
type Stats struct {
	Puts, Gets  int
	Connections int // established
	Flushed     int // work requests that ended because a connection did
	Again       int // puts sent again
	Fault       error
}

// NewClient makes a client of the store at server, through the device called
// device.
func NewClient(device string, server netip.AddrPort, keys, depth int, seed uint64) *Client {
	c := &Client{device: device, server: server, depth: depth, keys: make([]key, keys), source: seed | 1,
		mem: make([]byte, depth*placeLen)}
	for i := range depth {
		c.free = append(c.free, &operation{place: i})
	}
	return c
}

// Offsets within the place of an operation.
const (
	atAnswer = putLen
	atSlot   = atAnswer + answerLen
	placeLen = atSlot + slotLen
)

// Stats returns what was done so far.
func (c *Client) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

func (c *Client) count(fn func(*Stats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fn(&c.stats)
}

func (c *Client) fail(err error) {
	c.count(func(s *Stats) {
		if s.Fault == nil {
			s.Fault = err
		}
	})
}

// Add implements al.Client.
func (c *Client) Add(d *al.Device, now frame.Time) {
	if d.Name() != c.device {
		return
	}
	p, err := openPort(d, c.mem, verbs.LocalWrite, c.fail)
	if err != nil {
		c.fail(err)
		return
	}
	c.port, c.leaving = p, false
	c.connect(now)
}

// Remove implements al.Client.
func (c *Client) Remove(d *al.Device, now frame.Time) {
	if d.Name() != c.device || c.port == nil {
		return
	}
	c.leaving = true
	if c.conn != nil {
		c.conn.abort(now)
		return // letGo follows when it has ended
	}
	c.letGo()
}

func (c *Client) letGo() {
	c.port.close()
	c.port = nil
}

// connect tries once; event and ended go on from there.
func (c *Client) connect(now frame.Time) {
	n := &conn{id: c.port.dev.CM().NewID(c.event, nil)}
	if err := n.open(c.port, 2*c.depth, c.ended); err != nil {
		c.fail(err)
		return
	}
	c.conn = n
	if err := n.id.Connect(c.server, cm.Params{QP: n.qp, IRD: cm.NoReads, ORD: 16}, now); err != nil {
		n.abort(now) // no way there at the moment
	}
}

// ended follows every connection that was or was not established.
func (c *Client) ended(n *conn, now frame.Time) {
	c.conn = nil
	c.count(func(s *Stats) { s.Flushed += n.flushed })
	if c.leaving {
		c.letGo()
		return
	}
	c.port.dev.Schedule(now.Add(retryAfter), func(now frame.Time) {
		if c.port != nil && c.conn == nil && !c.leaving {
			c.connect(now)
		}
	})
}

func (c *Client) event(ev cm.Event, now frame.Time) {
	switch ev.Type {
	case cm.ActiveComplete:
		if len(ev.PrivateData) < helloLen {
			c.fail(fmt.Errorf("the server said %d octets", len(ev.PrivateData)))
			return
		}
		c.remote.addr = binary.BigEndian.Uint64(ev.PrivateData)
		c.remote.rkey = binary.BigEndian.Uint32(ev.PrivateData[8:])
		if slots := binary.BigEndian.Uint32(ev.PrivateData[12:]); int(slots) < len(c.keys) {
			c.fail(fmt.Errorf("the server has %d slots, %d are needed", slots, len(c.keys)))
			return
		}
		c.count(func(s *Stats) { s.Connections++ })
		c.begin()
	case cm.ClosedEvent:
		c.conn.closed()
	}
}

// begin starts work on a new connection: puts whose outcome is not known are
// sent again, the other places get new work.
func (c *Client) begin() {
	c.conn.up = true
	for i := range c.keys {
		c.keys[i].busy = false
	}
	c.free = c.free[:0]
	for i := range c.depth {
		c.free = append(c.free, &operation{place: i})
	}
	for i := range c.keys {
		if k := &c.keys[i]; k.sent > k.acked && len(c.free) > 0 {
			k.sent--
			c.count(func(s *Stats) { s.Again++ })
			c.start(i, true)
		}
	}
	c.fill()
}

// chance is a seeded source (xorshift).
func (c *Client) chance(n int) int {
	c.source ^= c.source << 13
	c.source ^= c.source >> 7
	c.source ^= c.source << 17
	return int(c.source % uint64(n))
}

// fill gives work to all places that are free.
func (c *Client) fill() {
	for c.conn.up && len(c.free) > 0 {
		for c.keys[c.next].busy {
			c.next = (c.next + 1) % len(c.keys)
		}
		i := c.next
		c.next = (c.next + 1) % len(c.keys)
		c.start(i, c.keys[i].acked == 0 || c.chance(2) == 0)
	}
}

// start begins an operation in the last free place.
func (c *Client) start(i int, put bool) {
	op := c.free[len(c.free)-1]
	c.free = c.free[:len(c.free)-1]
	c.keys[i].busy = true
	op.key = i
	var err error
	if put {
		err = c.put(op)
	} else {
		err = c.get(op)
	}
	if err != nil && c.conn.up {
		c.fail(err)
	}
}

// put sends the next version of a key; it is done when the answer is there
// and the Send has completed, in either order.
func (c *Client) put(op *operation) error {
	k, at := &c.keys[op.key], op.place*placeLen
	k.sent++
	binary.BigEndian.PutUint64(c.mem[at:], uint64(op.key))
	putSlot(c.mem[at+8:], op.key, k.sent)
	op.parts = 2
	err := c.conn.recv(c.port.sge(at+atAnswer, answerLen), func(*verbs.WC, frame.Time) { c.answered(op) })
	if err != nil {
		return err
	}
	return c.conn.send(verbs.SendWR{Opcode: verbs.OpSend, SGEs: c.port.sge(at, putLen)}, func(*verbs.WC, frame.Time) {
		c.part(op)
	})
}

// answered looks at the answer to a put. The server answers in the order of
// the puts, so that each answer meets the receive posted with its put.
func (c *Client) answered(op *operation) {
	b := c.mem[op.place*placeLen+atAnswer:]
	key, version := int(binary.BigEndian.Uint64(b)), binary.BigEndian.Uint64(b[8:])
	k := &c.keys[op.key]
	if key != op.key || version != k.sent {
		c.fail(fmt.Errorf("the answer to version %d of key %d is version %d of key %d", k.sent, op.key, version, key))
		return
	}
	k.acked = version
	c.count(func(s *Stats) { s.Puts++ })
	c.part(op)
}

// part is called for each completion of an operation; after the last one its
// place takes new work.
func (c *Client) part(op *operation) {
	if op.parts--; op.parts > 0 {
		return
	}
	c.keys[op.key].busy = false
	c.free = append(c.free, op)
	c.fill()
}

func (c *Client) get(op *operation) error {
	at := op.place*placeLen + atSlot
	op.parts = 1
	return c.conn.send(verbs.SendWR{Opcode: verbs.OpRead, SGEs: c.port.sge(at, slotLen),
		RemoteAddr: c.remote.addr + uint64(op.key*slotLen), RKey: c.remote.rkey},
		func(*verbs.WC, frame.Time) {
			version, err := checkSlot(c.mem[at:], op.key)
			if err == nil && version != c.keys[op.key].acked {
				err = fmt.Errorf("key %d has version %d, not %d", op.key, version, c.keys[op.key].acked)
			}
			if err != nil {
				c.fail(err)
			}
			c.count(func(s *Stats) { s.Gets++ })
			c.part(op)
		})
}

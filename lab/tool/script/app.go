package script

import (
	"fmt"

	"tapir/nic/toe"
	"tapir/wire/frame"
)

// app is the application of one connection: it sends records, reads all that
// comes and remembers what happened to it.
type app struct {
	conn    *toe.Conn
	pending []chunk // not cut yet
	cuts    []span  // records that were cut, not acknowledged
	end     uint64  // of all that was cut
	acked   uint64

	established, eof, closed bool
	err                      error
	received                 uint64 // octets
	claimed                  uint64 // octets that the script has expected
	broken                   string // what the engine did wrong
}

// chunk is octets to send: one record, or a stream that is cut to segments.
type chunk struct {
	n      uint64
	record bool
}

// span is the stream octets [off, end): a record, or one segment's worth of a
// stream.
type span struct{ off, end uint64 }

// write queues octets.
func (a *app) write(c chunk) {
	a.pending = append(a.pending, c)
	a.conn.Kick()
}

// Next returns as many whole records as fit.
func (a *app) Next(off uint64, limit int) int {
	n := 0
	for _, s := range a.cuts {
		if s.end <= off {
			continue
		}
		k := int(s.end - off)
		if s.off < off {
			return min(k, limit) // the rest of a record that was split
		}
		if k > limit {
			if n == 0 {
				return limit
			}
			return n
		}
		n = k
	}
	for len(a.pending) > 0 && n < limit {
		c := &a.pending[0]
		k := c.n
		if !c.record {
			k = min(k, uint64(limit-n))
		}
		if n > 0 && k > uint64(limit-n) {
			break
		}
		if c.n -= k; c.n == 0 {
			a.pending = a.pending[1:]
		}
		a.cuts = append(a.cuts, span{a.end, a.end + k})
		a.end += k
		n += int(k)
	}
	return min(n, limit)
}

// Render writes the pattern.
func (a *app) Render(off uint64, p []byte) {
	if off < a.acked || off+uint64(len(p)) > a.end {
		a.broken = fmt.Sprintf("rendered octets %d to %d out of %d to %d", off, off+uint64(len(p)), a.acked, a.end)
	}
	pattern(p, nicSalt, int64(off))
}

// Established implements toe.Handler.
func (a *app) Established(c *toe.Conn, _ frame.Time) { a.conn, a.established = c, true }

// Receive compares what comes with the pattern.
func (a *app) Receive(_ *toe.Conn, data []byte, _ frame.Time) {
	for i, b := range data {
		if off := a.received + uint64(i); b != octet(peerSalt, int64(off)) {
			a.broken = fmt.Sprintf("octet %d of the stream was delivered wrong", off)
			break
		}
	}
	a.received += uint64(len(data))
}

// Acked forgets the records below off.
func (a *app) Acked(_ *toe.Conn, off uint64, _ frame.Time) {
	a.acked = off
	for len(a.cuts) > 0 && a.cuts[0].end <= off {
		a.cuts = a.cuts[1:]
	}
}

// PeerClosed implements toe.Handler.
func (a *app) PeerClosed(_ *toe.Conn, _ frame.Time) { a.eof = true }

// Closed implements toe.Handler.
func (a *app) Closed(_ *toe.Conn, err error, _ frame.Time) { a.closed, a.err = true, err }

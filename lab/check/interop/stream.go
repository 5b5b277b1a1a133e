package interop

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"math/rand/v2"
	"sort"
	"sync"

	"tapir/nic/toe"
	"tapir/wire/frame"
)

// patternLen is no multiple of any segment's or buffer's length.
const patternLen = 1<<20 + 7

// pattern is an endless stream of octets that a seed makes.
type pattern []byte

func newPattern(seed uint64) pattern {
	var key [32]byte
	for i := range 8 {
		key[i] = byte(seed >> (8 * i))
	}
	p := make(pattern, patternLen)
	rand.NewChaCha8(key).Read(p)
	return p
}

// render writes the stream's octets from off on to b.
func (p pattern) render(off uint64, b []byte) {
	for len(b) > 0 {
		n := copy(b, p[off%patternLen:])
		off, b = off+uint64(n), b[n:]
	}
}

// sum is the SHA-256 of the first n octets.
func (p pattern) sum(n uint64) string {
	h := sha256.New()
	for ; n > patternLen; n -= patternLen {
		h.Write(p)
	}
	h.Write(p[:n])
	return hex.EncodeToString(h.Sum(nil))
}

// end is how one side saw the connection end.
type end struct {
	received uint64
	sum      string
	err      error
}

// stream is the NIC's end of a connection: it sends total octets of its
// pattern in records as long as FPDUs may be, and sums up what it receives.
type stream struct {
	out     pattern
	total   uint64
	record  *rand.Rand // lengths
	conn    *toe.Conn
	ends    []uint64 // of the records that are not acknowledged; first is at head
	head    int
	acked   uint64
	in      hash.Hash
	got     uint64
	done    chan<- end
	closing bool

	mu   sync.Mutex // guards info, which another goroutine may look at
	info toe.Info
}

func newStream(out pattern, total, seed uint64, done chan<- end) *stream {
	return &stream{out: out, total: total, record: rand.New(rand.NewPCG(seed, 1)), in: sha256.New(), done: done}
}

// last is the end of the last record cut.
func (s *stream) last() uint64 {
	if s.head == len(s.ends) {
		return s.acked
	}
	return s.ends[len(s.ends)-1]
}

// cut makes one more record: mostly a full segment, at times a short one, or
// one longer than a segment, as after a fall of the path MTU or from senders
// that do not care.
func (s *stream) cut() bool {
	end := s.last()
	if end >= s.total {
		return false
	}
	n := uint64(s.conn.MSS())
	switch s.record.IntN(64) {
	case 0, 1:
		n = 20 + s.record.Uint64N(n-20)
	case 2:
		n += s.record.Uint64N(n)
	}
	s.ends = append(s.ends, min(end+n, s.total))
	return true
}

// Next implements toe.Source.
func (s *stream) Next(off uint64, limit int) int {
	live := s.ends[s.head:]
	i := s.head + sort.Search(len(live), func(i int) bool { return live[i] > off })
	for n := 0; ; i++ {
		if i == len(s.ends) && !s.cut() {
			s.finish()
			return n
		}
		k := s.ends[i] - off
		switch {
		case k <= uint64(limit):
			n = int(k)
		case n == 0:
			return limit
		default:
			return n
		}
	}
}

// finish closes once everything is cut.
func (s *stream) finish() {
	if !s.closing {
		s.closing = true
		s.conn.Close()
	}
}

// Render implements toe.Source.
func (s *stream) Render(off uint64, p []byte) { s.out.render(off, p) }

// Established implements toe.Handler.
func (s *stream) Established(c *toe.Conn, _ frame.Time) {
	s.conn = c
	if s.total == 0 {
		s.finish()
	}
	c.Kick()
}

// Receive implements toe.Handler.
func (s *stream) Receive(_ *toe.Conn, data []byte, _ frame.Time) {
	s.got += uint64(len(data))
	s.in.Write(data)
}

// Acked implements toe.Handler.
func (s *stream) Acked(_ *toe.Conn, off uint64, _ frame.Time) {
	s.acked = off
	for s.head < len(s.ends) && s.ends[s.head] <= off {
		s.head++
	}
	if s.head == len(s.ends) {
		s.ends, s.head = s.ends[:0], 0
	} else if s.head > 4096 {
		s.ends = s.ends[:copy(s.ends, s.ends[s.head:])]
		s.head = 0
	}
}

// PeerClosed implements toe.Handler.
func (s *stream) PeerClosed(*toe.Conn, frame.Time) {}

// Closed implements toe.Handler.
func (s *stream) Closed(c *toe.Conn, err error, _ frame.Time) {
	s.mu.Lock()
	s.info = c.Info()
	s.mu.Unlock()
	s.done <- end{s.got, hex.EncodeToString(s.in.Sum(nil)), err}
}

// check compares what one side received with what the other one sent.
func (e end) check(who string, sent pattern, n uint64) error {
	switch {
	case e.err != nil:
		return fmt.Errorf("%s: %w after %d of %d octets", who, e.err, e.received, n)
	case e.received != n:
		return fmt.Errorf("%s received %d of %d octets", who, e.received, n)
	case e.sum != sent.sum(n):
		return fmt.Errorf("%s received %d octets, but not those that were sent", who, n)
	}
	return nil
}

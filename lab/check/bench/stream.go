package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"time"

	"tapir/lab/check/bench/result"
	"tapir/lab/node/nicnode"
	"tapir/nic/toe"
	"tapir/wire/frame"
)

// streamPort is where the server of a stream listens.
const streamPort = 5002

// pattern is what a stream consists of, again and again: numbered words.
const patternOctets = 1 << 20

func newPattern() []byte {
	b := make([]byte, patternOctets)
	for i := 0; i < len(b); i += 8 {
		binary.BigEndian.PutUint64(b[i:], patternWord(uint64(i)))
	}
	return b
}

// patternWord is the word of the stream at off, a multiple of 8.
func patternWord(off uint64) uint64 { return off % patternOctets * 0x9e3779b97f4a7c15 }

// asExpected compares the first octets of data, at most 8, with the stream at
// off.
func asExpected(data []byte, off uint64) bool {
	var words [16]byte
	binary.BigEndian.PutUint64(words[:], patternWord(off&^7))
	binary.BigEndian.PutUint64(words[8:], patternWord(off&^7+8))
	return bytes.HasPrefix(words[off&7:], data[:min(8, len(data))])
}

// stream is one end of a TCP connection of the NIC, with nothing above TCP. It
// sends from a buffer of 1 MiB and copies what it receives to one as long as
// that of the kernel's reader, looking at the beginning of each piece.
type stream struct {
	out, in []byte
	conn    *toe.Conn
	end     uint64 // of what Next has handed out
	limit   uint64 // of what may be sent
	got     uint64
	begun   frame.Time // of the transfer
	wrong   bool
	done    func(result.Result, error)
	// client, if set, decides what is sent; a server only answers.
	client func(s *stream, now frame.Time)
	// answer is the length of a request that is answered in kind; 0: none are.
	answer uint64
	trips  []time.Duration
	sentAt frame.Time
}

func newStream(done func(result.Result, error)) *stream {
	return &stream{out: newPattern(), in: make([]byte, streamRead), done: done}
}

// Next implements toe.Source.
func (s *stream) Next(off uint64, limit int) int {
	n := min(uint64(limit), s.limit-min(s.limit, off))
	s.end = max(s.end, off+n)
	return int(n)
}

// Run implements toe.Runner: all segments are as long as goes.
func (s *stream) Run(off uint64, n, limit, most int) int {
	if n < limit {
		return 0
	}
	most = min(most, int(min(s.limit-min(s.limit, off), patternOctets))/n)
	s.end = max(s.end, off+uint64(most*n))
	return most
}

// Render implements toe.Source.
func (s *stream) Render(off uint64, p []byte) {
	for at := off % patternOctets; len(p) > 0; at = 0 {
		p = p[copy(p, s.out[at:]):]
	}
}

// Established implements toe.Handler.
func (s *stream) Established(c *toe.Conn, now frame.Time) {
	s.conn = c
	if s.client != nil {
		s.client(s, now)
	}
}

// Receive implements toe.Handler.
func (s *stream) Receive(_ *toe.Conn, data []byte, now frame.Time) {
	if s.begun == 0 {
		s.begun = now
	}
	for len(data) > 0 {
		n := copy(s.in[s.got%streamRead:], data)
		s.wrong = s.wrong || !asExpected(data[:n], s.got)
		data, s.got = data[n:], s.got+uint64(n)
	}
	switch {
	case s.answer == 0:
	case s.client != nil:
		s.client(s, now)
	default:
		s.limit = s.got / s.answer * s.answer
		s.conn.Kick()
	}
}

// Acked implements toe.Handler.
func (s *stream) Acked(*toe.Conn, uint64, frame.Time) {}

// PeerClosed implements toe.Handler.
func (s *stream) PeerClosed(c *toe.Conn, now frame.Time) {
	s.finish(now, nil)
	c.Close()
}

// Closed implements toe.Handler.
func (s *stream) Closed(_ *toe.Conn, err error, now frame.Time) { s.finish(now, err) }

// finish reports once.
func (s *stream) finish(now frame.Time, err error) {
	if s.done == nil {
		return
	}
	if s.wrong {
		err = errors.Join(err, errors.New("the stream is not what was sent"))
	}
	r := result.Result{Bytes: int64(s.got), Elapsed: now.Sub(s.begun)}
	if len(s.trips) > 0 {
		r.Latency, r.Messages = half(s.trips), int64(len(s.trips))
	}
	s.done(r, err)
	s.done = nil
}

// pour sends as much as goes until the deadline.
func pour(n *nicnode.Node, d time.Duration) func(*stream, frame.Time) {
	return func(s *stream, now frame.Time) {
		s.begun, s.limit = now, 1<<62
		s.conn.Kick()
		n.Device.Schedule(now.Add(d), func(frame.Time) {
			s.limit = s.end
			s.conn.Close()
		})
	}
}

// pingPong sends requests one by one until the deadline.
func pingPong(d time.Duration) func(*stream, frame.Time) {
	var deadline frame.Time
	return func(s *stream, now frame.Time) {
		switch {
		case s.begun == 0:
			s.begun, deadline = now, now.Add(d)
			s.trips = make([]time.Duration, 0, 1<<20)
		case s.got < s.limit:
			return
		default:
			s.trips = append(s.trips, now.Sub(s.sentAt))
		}
		if now >= deadline {
			s.conn.Close()
			return
		}
		s.sentAt, s.limit = now, s.limit+s.answer
		s.conn.Kick()
	}
}

// streamSpec is one end of a plain TCP stream between two NICs.
type streamSpec struct {
	nicSpec
	Server   bool
	Ping     bool // ping-pong instead of a stream
	Duration time.Duration
}

func streamChild(ctx context.Context, spec *streamSpec) error {
	return spec.measure(ctx, spec.Duration, func(n *nicnode.Node, now frame.Time,
		done func(result.Result, error)) error {
		s := newStream(done)
		if spec.Ping {
			s.answer = pingSize
		}
		if spec.Server {
			return s.listen(n)
		}
		s.client = pour(n, spec.Duration)
		if spec.Ping {
			s.client = pingPong(spec.Duration)
		}
		return s.connect(n, now)
	})
}

func (s *stream) listen(n *nicnode.Node) error {
	local := netip.AddrPortFrom(n.Config().IP[0].Addr(), streamPort)
	_, err := n.Device.TCP().Listen(local, 1, func(*toe.Conn, frame.Time) toe.Handler { return s })
	return err
}

func (s *stream) connect(n *nicnode.Node, now frame.Time) error {
	to := netip.AddrPortFrom(netip.MustParseAddr(nicAddresses[1]), streamPort)
	_, err := n.Device.TCP().Connect(netip.AddrPortFrom(n.Config().IP[0].Addr(), 0), to, s, now)
	return err
}

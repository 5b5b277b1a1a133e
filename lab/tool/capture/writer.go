package capture

import (
	"io"
	"time"
)

const (
	// chunkOctets is what is written at once: much more than a packet, so that
	// a system call is cheap, and little enough to stay in the cache between
	// the two threads.
	chunkOctets = 256 << 10
	// spareChunks are kept for later; the rest is memory of busy times.
	spareChunks = 16
	// flushAfter is how long a block may wait for more.
	flushAfter = 10 * time.Millisecond
)

// queue holds encoded blocks on their way to the writer. But for its channels,
// Session.mu guards it.
type queue struct {
	limit  int    // octets that may wait
	fill   []byte // the chunk that grows
	full   [][]byte
	held   int // octets in full
	spare  [][]byte
	asleep bool          // the writer has nothing to do
	wake   chan struct{} // there is something
	hurry  chan struct{} // there is enough, or the end
}

func newQueue(limit int) queue {
	return queue{limit: limit, asleep: true, wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1)}
}

// reserve makes room for n octets behind fill, if the limit allows.
func (q *queue) reserve(n int) bool {
	if q.held+len(q.fill)+n > q.limit {
		return false
	}
	if len(q.fill)+n <= cap(q.fill) {
		return true
	}
	if len(q.fill) > 0 {
		q.full = append(q.full, q.fill)
		q.held += len(q.fill)
		poke(q.hurry)
	}
	q.fill = q.chunk(n)
	return true
}

// chunk returns an empty chunk for n octets and more.
func (q *queue) chunk(n int) []byte {
	if k := len(q.spare); k > 0 && n <= chunkOctets {
		b := q.spare[k-1]
		q.spare = q.spare[:k-1]
		return b
	}
	return make([]byte, 0, max(n, chunkOctets))
}

// recycle takes a chunk that is written.
func (q *queue) recycle(b []byte) {
	if len(q.spare) < spareChunks && cap(b) == chunkOctets {
		q.spare = append(q.spare, b[:0])
	}
}

// signal wakes the writer if it has something to do again.
func (q *queue) signal() {
	if q.asleep && len(q.fill)+q.held > 0 {
		q.asleep = false
		poke(q.wake)
	}
}

// flush has the writer write all that waits, and look whether it is the end.
func (q *queue) flush() {
	q.asleep = false
	poke(q.wake)
	poke(q.hurry)
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// take returns the oldest chunk; what is not full only if all is wanted.
func (q *queue) take(all bool) (b []byte) {
	switch {
	case len(q.full) > 0:
		b = q.full[0]
		q.full = q.full[:copy(q.full, q.full[1:])]
		q.held -= len(b)
	case all:
		b, q.fill = q.fill, nil
	}
	return b
}

// drain writes until the capture ends or w fails. A block waits until there
// are many, or for flushAfter. The head waits for what wakes it first, so that
// who sees it knows that nothing is missed from then on.
func (s *Session) drain(w io.Writer) {
	defer close(s.done)
	<-s.out.wake
	timer := time.NewTimer(0)
	defer timer.Stop()
	for all := true; ; {
		last, err := s.write(w, all)
		if err != nil {
			s.fail(err)
			return
		}
		if last {
			return
		}
		if s.rest() {
			<-s.out.wake
		}
		timer.Reset(flushAfter)
		select {
		case <-s.out.hurry:
			all = false
		case <-timer.C:
			all = true
		}
	}
}

// write writes what is full, what waits besides if all is wanted, and the
// closing statistics if it is the end.
func (s *Session) write(w io.Writer, all bool) (last bool, err error) {
	var done []byte
	for {
		s.mu.Lock()
		s.out.recycle(done)
		if last = s.ending && len(s.out.full) == 0; last {
			for i := range s.ports {
				s.out.fill = s.ports[i].lossStatistics(uint32(i), s.out.fill, s.lostLines()...)
			}
		}
		partial := len(s.out.full) == 0 // what comes next has time to grow
		b := s.out.take(all || last)
		all = all && !partial
		s.mu.Unlock()
		if len(b) > 0 {
			if _, err := w.Write(b); err != nil {
				return false, err
			}
		}
		if done = b; last || len(b) == 0 {
			return last, nil
		}
	}
}

// rest tells the tracer to wake the writer, unless there is something to do.
func (s *Session) rest() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out.asleep = !s.ending && len(s.out.fill)+s.out.held == 0
	return s.out.asleep
}

func (s *Session) fail(err error) {
	s.mu.Lock()
	s.err, s.ending = err, true
	s.mu.Unlock()
}

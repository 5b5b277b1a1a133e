package verbs

import "tapir/nic/msglog"

const (
	shortRequest  = 256     // octets of a message that is read together with others, at most
	aheadRequests = 64      // how many are looked at
	aheadOctets   = 4 << 10 // that are read at a time
)

// readAhead is what one system call has read in memory of another process for short
// requests of one queue pair that follow each other. All of them had been posted, so
// their octets may not change before they are complete.
type readAhead struct {
	q    *QP
	upto uint64 // the first request that it was not read for
	r    *Region
	turn uint64
	off  uint64 // within the region's memory
	buf  []byte
}

// short tells whether w's message is one piece of memory that readAhead is for.
func (w *SendWQE) short() bool {
	if len(w.spans) != 1 || w.Length > shortRequest || w.Opcode.Reads() {
		return false
	}
	_, here := w.spans[0].r.mem.(Bytes)
	return !here && w.spans[0].alive()
}

// fetch copies len(p) octets of w, which is short, from offset off of its message.
func (a *readAhead) fetch(w *SendWQE, p []byte, off uint64) error {
	s := &w.spans[0]
	at := s.r.base + s.off + off
	if a.q != w.q || w.Seq >= a.upto || a.r != s.r || a.turn != s.turn || at < a.off ||
		at+uint64(len(p)) > a.off+uint64(len(a.buf)) {
		lo, hi := a.plan(w)
		if a.upto == w.Seq+1 {
			a.q = nil
			return copySpans(w.spans, p, off, false)
		}
		if err := w.q.dev.writes.fetch(s.r, a.buf[:hi-lo], lo); err != nil {
			a.q = nil // the others are read when their turn comes
			return copySpans(w.spans, p, off, false)
		}
		a.q, a.r, a.turn, a.off, a.buf = w.q, s.r, s.turn, lo, a.buf[:hi-lo]
	}
	copy(p, a.buf[at-a.off:])
	if w.q.dev.log.On(msglog.Data) {
		s.r.logData(p, s.off+off, false)
	}
	return nil
}

// plan finds the range of the region's memory that w and the requests behind it lie in,
// and up to which of them. What a Read brings, or waits for one, is not there yet.
func (a *readAhead) plan(w *SendWQE) (lo, hi uint64) {
	if a.buf == nil {
		a.buf = make([]byte, aheadOctets)
	}
	a.buf = a.buf[:cap(a.buf)]
	s, sq := &w.spans[0], &w.q.sq
	lo = s.r.base + s.off
	hi = lo + s.n
	for a.upto = w.Seq + 1; a.upto != sq.tail && a.upto-w.Seq < aheadRequests; a.upto++ {
		next := sq.at(a.upto)
		if next.Opcode != w.Opcode || next.Flags&(Fence|Inline) != 0 || next.Length > shortRequest ||
			len(next.SGEs) != 1 {
			break
		}
		e := &next.SGEs[0]
		if e.LKey != s.r.stag || s.r.check(e.Addr, uint64(e.Length), 0) != FaultNone {
			break
		}
		from := s.r.base + e.Addr - s.r.addr
		to := from + uint64(e.Length)
		if max(hi, to)-min(lo, from) > aheadOctets {
			break
		}
		lo, hi = min(lo, from), max(hi, to)
	}
	return lo, hi
}

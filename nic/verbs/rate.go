package verbs

import "fmt"

// MaxRateLimit is the highest rate limit of a queue pair, in kb/s.
const MaxRateLimit = 100_000_000

// rateLimit is the part of a queue pair that paces it.
type rateLimit struct {
	q    *QP
	kbps uint32 // 0: no limit
}

// SetRateLimit limits what the queue pair sends, to a rate in kb/s; 0 ends that. It
// counts at once, and for connections that the queue pair has later. Octets are those
// of frames with data.
func (l *rateLimit) SetRateLimit(kbps uint32) error {
	q := l.q
	paced, ok := q.endpoint.(Pacer)
	switch {
	case q.dead:
		return fmt.Errorf("modify QP %d: %w", q.num, ErrDestroyed)
	case kbps > MaxRateLimit:
		return fmt.Errorf("modify QP %d: rate limit %d kb/s: want 0 to %d: %w", q.num, kbps, MaxRateLimit, ErrInvalid)
	case !ok:
		return fmt.Errorf("modify QP %d: rate limit: %w", q.num, ErrUnsupported)
	}
	l.kbps = kbps
	paced.Paced()
	return nil
}

// RateLimit is what the queue pair may send, in kb/s; 0: no limit.
func (l *rateLimit) RateLimit() uint32 { return l.kbps }

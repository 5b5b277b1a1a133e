package recovery

import "tapir/wire/frame"

// NextLost is the index of the first lost segment. There must be one.
func (b *Scoreboard) NextLost() int {
	i := b.segs.search(max(b.next, b.una))
	for b.segs.at(i).Flags&Lost == 0 {
		i++
	}
	b.next = b.segs.at(i).Off
	return i
}

// MayResend reports whether segment i may go out with a congestion window of
// cwnd octets.
func (b *Scoreboard) MayResend(i, mss int, cwnd uint64) bool {
	return b.force || b.Pipe(mss)+uint64(b.segs.at(i).N) <= cwnd
}

// LostRun is how many lost segments from i on make one super-frame, and how
// many octets: equal ones, only the last of them shorter, at most most of them
// and limit octets, and no more than the congestion window allows. A FIN goes
// alone, and has none.
func (b *Scoreboard) LostRun(i, most, limit, mss int, cwnd uint64) (count, octets int) {
	first := b.segs.at(i)
	if first.Flags&Fin != 0 {
		return 1, 0
	}
	pipe, last := b.Pipe(mss), first.N
	for count, octets = 1, int(first.N); count < most && i+count < b.segs.n && last == first.N; count++ {
		s := b.segs.at(i + count)
		if s.Flags&(Lost|Fin) != Lost || s.N > first.N || octets+int(s.N) > limit ||
			pipe+uint64(octets)+uint64(s.N) > cwnd {
			break
		}
		last = s.N
		octets += int(s.N)
	}
	return count, octets
}

// Retransmitted notes that the count segments from i on have left again.
func (b *Scoreboard) Retransmitted(i, count int, now frame.Time) {
	first, end := b.segs.at(i), uint64(0)
	for j := i; j < i+count; j++ {
		s := b.segs.at(j)
		s.Flags = s.Flags&^Lost | Resent
		s.sent = now
		b.Lost -= uint64(s.N)
		if b.ResentSegs == 0 {
			b.rexOldest = now
		}
		b.ResentSegs++
		end = s.End()
	}
	n := end - first.Off
	if first.Flags&Fin != 0 {
		n = 0
	}
	b.undo.resent(first.Off, n)
	b.force = false
	b.next = end
}

// Cutter finds where a segment at off ends that has at most limit octets.
type Cutter interface {
	Next(off uint64, limit int) int
}

// Recut splits every segment in flight that is longer than mss, at the record
// boundaries of c as far as they allow, to be sent again. Since each ended at a
// boundary, so does the last part of each.
func (b *Scoreboard) Recut(mss int, c Cutter) {
	old := b.segs
	b.segs = segRing{}
	for i := range old.n {
		s := *old.at(i)
		if s.Flags&(Sacked|Fin) != 0 || int(s.N) <= mss {
			b.segs.push(b.Rings, s)
			continue
		}
		if s.Flags&Lost == 0 {
			b.setLost(&s)
		}
		push := s.Flags & Push
		for end := s.End(); s.Off < end; s.Off += uint64(s.N) {
			n := c.Next(s.Off, mss)
			s.N = uint32(min(uint64(max(1, min(n, mss))), end-s.Off))
			if s.Flags &^= Push; s.End() == end {
				s.Flags |= push
			}
			b.segs.push(b.Rings, s)
		}
	}
	old.release(b.Rings)
	b.next, b.force = b.una, true
}

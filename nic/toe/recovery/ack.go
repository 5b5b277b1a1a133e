package recovery

import (
	"tapir/wire/frame"
	"tapir/wire/tcp"
)

// News is what an acknowledgement has told.
type News struct {
	Acked     uint64 // octets acknowledged for the first time
	Duplicate bool   // it only repeats the one before
	// Sent is when a segment left that it acknowledges and that was sent once,
	// frame.Never if it tells of none: a sample of the round trip. Resent is
	// when the last retransmission left that it acknowledges, 0 if none.
	Sent, Resent frame.Time
	Undone       bool // the recovery was needless: the window is to be restored
	Repaired     bool // a tail probe has repaired a loss that nothing else has shown
}

// Acknowledge takes an acknowledgement of everything below ack, which lies
// between SND.UNA and SND.NXT. pure tells that its segment carries nothing but
// it, not even a new window.
func (b *Scoreboard) Acknowledge(h *tcp.Header, ack uint64, pure bool, now frame.Time) (n News) {
	flight, sacked, fack := b.InFlight(), b.Sacked, b.rack.fack
	if b.SACK && h.Opts.NSACK > 0 {
		n.Undone = b.takeSACK(h, ack, fack, now)
	}
	n.Acked = ack - b.una
	switch {
	case n.Acked > 0:
		n.Sent, n.Resent = b.advance(ack, fack, now)
		n.Repaired = b.probeAcked()
	case flight > 0 && pure && (b.counts(h) || b.Sacked > sacked):
		n.Duplicate = true
		b.dupAcks++
	}
	return n
}

// takeSACK marks the segments that the blocks cover wholly. Parts of a block
// that the acknowledgement before held need no second look. It reports whether
// a recovery was needless.
func (b *Scoreboard) takeSACK(h *tcp.Header, ack, fack uint64, now frame.Time) (undone bool) {
	var now4 [4]block
	for i, sb := range h.Opts.SACK[:h.Opts.NSACK] {
		l, r := b.Offset(sb.Left), b.Offset(sb.Right)
		if l < int64(ack) || r <= l || r > int64(b.nxt) {
			if i == 0 && r > 0 && r > l && r <= int64(ack) {
				undone = b.duplicate(uint64(r-l), uint64(r)) || undone
			}
			continue
		}
		if i == 0 && h.Opts.NSACK > 1 && within(sb, h.Opts.SACK[1]) {
			undone = b.duplicate(uint64(r-l), uint64(r)) || undone
		}
		bl := block{uint64(l), uint64(r)}
		now4[i] = bl
		for _, s := range b.seen {
			if s.right > s.left && bl.left <= s.left && s.right <= bl.right {
				b.markSacked(block{bl.left, s.left}, fack, now)
				bl.left = s.right
			}
		}
		b.markSacked(bl, fack, now)
	}
	b.seen = now4
	return undone
}

// within reports whether SACK block a lies in b.
func within(a, b tcp.SACKBlock) bool {
	return b.Left.LessEq(a.Left) && a.Right.LessEq(b.Right)
}

func (b *Scoreboard) markSacked(bl block, fack uint64, now frame.Time) {
	if bl.right <= bl.left {
		return
	}
	for i := b.segs.search(bl.left); i < b.segs.n; i++ {
		s := b.segs.at(i)
		if s.End() > bl.right {
			return
		}
		if s.Off < bl.left || s.Flags&Sacked != 0 {
			continue
		}
		b.delivered(s, fack, now)
		switch {
		case s.Flags&Lost != 0:
			b.Lost -= uint64(s.N)
			s.Flags &^= Lost
		case s.Flags&Resent != 0:
			b.ResentSegs--
		}
		s.Flags |= Sacked
		b.Sacked += uint64(s.N)
		b.SackedSegs++
	}
}

// advance moves SND.UNA to ack and forgets the segments below. fack is the
// highest delivered before.
func (b *Scoreboard) advance(ack, fack uint64, now frame.Time) (sample, resent frame.Time) {
	segs, sample := b.advanceClean(ack, now)
	for b.segs.n > 0 {
		s := b.segs.at(0)
		if s.End() > ack {
			b.trimFirst(s, ack)
			break
		}
		segs++
		if s.Flags&Sacked == 0 {
			b.delivered(s, fack, now)
			sample = s.sent
		}
		if s.Flags&Resent != 0 {
			resent = max(resent, s.sent)
		}
		b.unmark(s)
		b.segs.pop(b.Rings, 1)
	}
	if resent != 0 {
		sample = frame.Never // what a retransmission has let through waited for it
	}
	b.una = ack
	b.dupAcks = max(0, b.dupAcks-segs)
	if b.Sacked == 0 && b.Phase == Open {
		b.dupAcks = 0
	}
	return sample, resent
}

// advanceClean forgets the segments that ack covers while everything in flight
// was sent once and in order: the last of them speaks for all. It returns their
// number and when that one was sent.
func (b *Scoreboard) advanceClean(ack uint64, now frame.Time) (segs int, sample frame.Time) {
	if b.Sacked > 0 || b.Lost > 0 || b.ResentSegs > 0 || b.rack.fack > b.una {
		return 0, frame.Never
	}
	for segs < b.segs.n && b.segs.at(segs).End() <= ack {
		segs++
	}
	if segs == 0 {
		return 0, frame.Never
	}
	last := b.segs.at(segs - 1)
	sample = last.sent
	b.delivered(last, b.una, now)
	b.segs.pop(b.Rings, segs)
	return segs, sample
}

// trimFirst cuts the acknowledged part off a segment that the peer (or a
// middlebox) acknowledged in part.
func (b *Scoreboard) trimFirst(s *Segment, ack uint64) {
	if ack <= s.Off {
		return
	}
	d := ack - s.Off
	switch {
	case s.Flags&Sacked != 0:
		b.Sacked -= d
	case s.Flags&Lost != 0:
		b.Lost -= d
	}
	s.Off, s.N = ack, s.N-uint32(d)
}

// unmark takes a segment that leaves the ring out of the accounts.
func (b *Scoreboard) unmark(s *Segment) {
	switch {
	case s.Flags&Sacked != 0:
		b.Sacked -= uint64(s.N)
		b.SackedSegs--
	case s.Flags&Lost != 0:
		b.Lost -= uint64(s.N)
	case s.Flags&Resent != 0:
		b.ResentSegs--
	}
}

// counts tells whether an acknowledgement can only be counted: without SACK, or
// from a peer that agreed to SACK but reports nothing, as gVisor does once it
// has closed.
func (b *Scoreboard) counts(h *tcp.Header) bool {
	return !b.SACK || h.Opts.NSACK == 0 && b.Sacked == 0
}

// FindLoss judges what is in flight after an acknowledgement of acked octets,
// and reports whether congestion has lost something.
func (b *Scoreboard) FindLoss(acked uint64, now frame.Time) (found bool) {
	b.ReorderAt = frame.Never
	switch {
	case b.segs.n == 0:
	case b.SACK:
		found = b.Overdue(now)
		if !found && b.Sacked == 0 && (b.Phase == Open || b.blind) {
			found = b.loseByDupAcks(acked)
			b.blind = b.blind || found
		}
	default:
		found = b.loseByDupAcks(acked)
	}
	return found
}

// loseByDupAcks is fast retransmit without SACK (RFC 6582): the third
// duplicate acknowledgement, and then every partial one, tells of one loss.
func (b *Scoreboard) loseByDupAcks(acked uint64) bool {
	first := b.segs.at(0)
	if first.Flags&Lost != 0 {
		return false
	}
	switch b.Phase {
	case Open:
		if b.dupAcks < dupThresh || b.una < b.until {
			return false
		}
	case Fast:
		if acked == 0 || b.una >= b.until {
			return false
		}
		b.force = true // whatever the window (RFC 6582 section 3.2 step 5)
	default:
		return false
	}
	return b.setLost(first)
}

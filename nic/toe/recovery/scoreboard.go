// Package recovery is what a TCP sender knows of the segments it has in flight:
// the scoreboard of RFC 6675 section 3, the round trip of RFC 6298, and the
// loss detection of RFC 8985 (RACK-TLP), without SACK of RFC 6582. A Scoreboard says
// what is lost and what may be sent again; the congestion window, the timers
// and the packets are the caller's.
package recovery

import (
	"tapir/nic/toe/pmtu"
	"tapir/wire/frame"
	"tapir/wire/tcp"
)

// Phase is where a connection stands between a loss and its repair.
type Phase uint8

const (
	Open    Phase = iota
	Fast          // fast recovery
	Timeout       // after a retransmission timeout
)

// dupThresh is how many duplicates tell of a loss (RFC 5681 section 3.2, RFC
// 8985 section 6.2).
const dupThresh = 3

// block is a range of stream offsets, [left, right).
type block struct{ left, right uint64 }

// Scoreboard is the scoreboard of one connection. Offsets count stream octets in 64
// bits: 0 is the octet after the SYN, and a FIN takes one offset after the last
// octet. Lost segments are not counted as in flight until they are sent again.
type Scoreboard struct {
	Rings *Rings // of the engine
	ISS   uint32
	SACK  bool // both sides use selective acknowledgements
	Phase Phase
	blind bool // in recovery because of duplicate acknowledgements without SACK
	force bool // the next retransmission need not wait for the window
	// ReorderAt is when Overdue is to be called, frame.Never if it need not.
	ReorderAt frame.Time
	// Search looks for a larger path MTU. The loss of its probe is no sign of
	// congestion (RFC 4821 section 7.6.2).
	Search pmtu.Search
	RTT    RTT
	Sums

	una, nxt  uint64
	segs      segRing
	until     uint64     // the phase is Open again when this is acknowledged
	mark      uint64     // every segment below has been judged
	next      uint64     // no lost segment begins below
	dupAcks   int        // duplicate acknowledgements in a row
	rexOldest frame.Time // not later than the sending of any retransmission in flight
	seen      [4]block   // SACK blocks of the acknowledgement before
	rack      rackState
	undo      undoState
	probe     tailProbe
}

// Sums are running sums over the segments in flight.
type Sums struct {
	Sacked, Lost uint64 // octets so marked
	SackedSegs   int
	ResentSegs   int // retransmissions in flight
}

// Resume begins with a connection that has nothing in flight: seq is the next sequence
// number, off its offset.
func (b *Scoreboard) Resume(seq uint32, off uint64) {
	b.ISS, b.una, b.nxt = seq-1-uint32(off), off, off
}

// Una is SND.UNA, the first offset that is not acknowledged.
func (b *Scoreboard) Una() uint64 { return b.una }

// Nxt is SND.NXT, the next offset to be sent.
func (b *Scoreboard) Nxt() uint64 { return b.nxt }

// InFlight is the number of octets between them.
func (b *Scoreboard) InFlight() uint64 { return b.nxt - b.una }

// Segs is the number of segments in flight.
func (b *Scoreboard) Segs() int { return b.segs.n }

// Seg is the segment i of those in flight, in the order of their offsets.
func (b *Scoreboard) Seg(i int) *Segment { return b.segs.at(i) }

// Seq is the sequence number of an offset.
func (b *Scoreboard) Seq(off uint64) tcp.Seq { return tcp.Seq(b.ISS + 1 + uint32(off)) }

// Offset is the offset of seq, near SND.UNA; the SYN is at -1.
func (b *Scoreboard) Offset(seq tcp.Seq) int64 { return int64(b.una) + int64(seq.Sub(b.Seq(b.una))) }

// Pipe is the number of octets believed to be in flight (RFC 6675 SetPipe).
// Without SACK every duplicate acknowledgement stands for one segment of mss.
func (b *Scoreboard) Pipe(mss int) uint64 {
	p := b.nxt - b.una - b.Sacked - b.Lost
	if !b.SACK {
		p -= min(p, uint64(b.dupAcks)*uint64(mss))
	}
	return p
}

// Sent adds count segments of n octets that leave now, the last of them with
// last octets, and with PSH if push is set.
func (b *Scoreboard) Sent(n, count, last int, push bool, now frame.Time) {
	b.segs.pushRun(b.Rings, Segment{Off: b.nxt, sent: now, N: uint32(n)}, count, uint32(last))
	if push {
		b.segs.at(b.segs.n - 1).Flags = Push
	}
	b.nxt += uint64((count-1)*n + last)
}

// SentFin adds the FIN.
func (b *Scoreboard) SentFin(now frame.Time) {
	b.segs.push(b.Rings, Segment{Off: b.nxt, sent: now, N: 1, Flags: Fin})
	b.nxt++
}

// Release gives the memory of the segments back.
func (b *Scoreboard) Release() { b.segs.release(b.Rings) }

// Enter begins fast recovery (RFC 6675 section 5).
func (b *Scoreboard) Enter() {
	b.Phase, b.until = Fast, b.nxt
	b.undo = undoState{armed: true}
	b.force = true
}

// Repaired reports whether everything that was in flight when the phase began
// is acknowledged.
func (b *Scoreboard) Repaired() bool { return b.Phase != Open && b.una >= b.until }

// Leave ends the phase.
func (b *Scoreboard) Leave() {
	b.Phase = Open
	b.dupAcks, b.blind = 0, false
	b.rack.recovered()
}

// TimedOut begins the phase after a retransmission timeout: everything that was
// not SACKed is lost. A SACKed first segment means that the peer has thrown
// SACKed data away (RFC 2018 section 8): then nothing it said counts.
func (b *Scoreboard) TimedOut() {
	b.Phase, b.until = Timeout, b.nxt
	b.probe, b.undo = tailProbe{}, undoState{}
	reneged := b.segs.at(0).Flags&Sacked != 0
	for i := range b.segs.n {
		s := b.segs.at(i)
		if reneged && s.Flags&Sacked != 0 {
			b.Sacked -= uint64(s.N)
			b.SackedSegs--
			s.Flags = s.Flags&^Sacked | Resent
			b.ResentSegs++
		}
		if s.Flags&(Sacked|Lost) == 0 {
			b.setLost(s)
		}
	}
	if reneged {
		b.seen = [4]block{}
	}
	b.mark, b.next = b.nxt, b.una
	b.dupAcks, b.blind = 0, false
	b.force = true
}

// setLost marks a segment in flight as lost, and reports whether congestion
// may be the reason.
func (b *Scoreboard) setLost(s *Segment) bool {
	if s.Flags&Resent != 0 {
		b.ResentSegs--
	}
	s.Flags |= Lost
	b.Lost += uint64(s.N)
	b.next = min(b.next, s.Off)
	return !b.Search.Lost(s.End())
}

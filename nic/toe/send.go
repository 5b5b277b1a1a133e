package toe

import (
	"time"

	"tapir/nic/toe/congestion"
	"tapir/nic/toe/ecn"
	"tapir/nic/toe/recovery"
	"tapir/wire/frame"
	"tapir/wire/tcp"
)

// sender is the sending half of a connection: the windows, the size of its
// segments, what is in flight and the retransmission timer. What is shared with
// the receiving half and the state machine it reaches through c.
type sender struct {
	c   *Conn
	snd recovery.Scoreboard

	finOff   uint64 // offset of our FIN once finSent
	wnd      uint64 // the peer's window
	maxWnd   uint64
	wl1      int64  // receive offset of the last window update
	wl2      uint64 // acknowledgement of the last window update
	sndScale uint8
	// peerScales says that the peer's SYN had a window scale option.
	peerScales bool
	finSent    bool
	override   bool // the next segment may be smaller than silly-window avoidance wants
	tailProbe  bool // rtoAt is that of a tail loss probe
	mtu        int  // of the path
	hole       hole // why it is smaller
	peerMSS    int
	mss        int
	backoff    int // consecutive timeouts

	cc    congestion.Window
	ecn   ecn.State
	rtoAt frame.Time // retransmission, or window probe when nothing is in flight; Never: not running
	// progressAt is when the peer last acknowledged something new, or when
	// there was first something to acknowledge.
	progressAt frame.Time
}

// SetRate limits what the connection sends to a rate in kb/s: octets of frames that
// hold data, the first time or again. Other segments do not wait. 0 ends that.
func (c *Conn) SetRate(kbps uint32) { c.rate = c.e.sched.SetRate(c.rate, c.par.TOS, kbps) }

// held tells whether data has to wait for the scheduler.
func (c *Conn) held() bool {
	c.e.paced = c.e.sched.Holds(c.rate, c.par.TOS)
	return c.e.paced
}

// maxSegs is how many segments a frame holds at most.
func (c *Conn) maxSegs() int { return c.e.sched.Segments(c.rate, c.par.TOS, c.e.maxSegs) }

// updateMSS recomputes the payload of a full segment: the peer's MSS option
// and the MTU count headers without options (RFC 6691).
func (s *sender) updateMSS() {
	s.mss = min(s.peerMSS, s.mtu-s.c.headerLen())
	if s.c.rcv.TS.On {
		s.mss -= tsLen
	}
}

// rto is the timeout with its backoff.
func (s *sender) rto() time.Duration {
	d := s.snd.RTT.RTO
	for range s.backoff {
		if d *= 2; d >= s.c.e.cfg.MaxRTO {
			return s.c.e.cfg.MaxRTO
		}
	}
	return d
}

// stuck reports whether nothing can be sent in this turn.
func (s *sender) stuck(t *turn) bool {
	return t.frames <= 0 || t.octets <= 0 || s.c.e.starved || s.c.e.out.Room() <= 0 ||
		s.c.held()
}

// sendLost retransmits what is marked lost, segment by segment as it was sent
// first, while the congestion window allows.
func (s *sender) sendLost(t *turn, now frame.Time) (more bool) {
	for s.snd.Lost > 0 {
		i := s.snd.NextLost()
		first := s.snd.Seg(i)
		if int(first.N) > s.mss && first.Flags&recovery.Fin == 0 { // an MTU probe
			s.snd.Recut(s.mss, s.c.h)
			continue
		}
		if !s.snd.MayResend(i, s.mss, s.cc.Cwnd) {
			return false
		}
		if s.stuck(t) || !s.resend(i, t, now) {
			return true
		}
	}
	return false
}

// resend sends the lost segment i again, in super-frames together with equal
// ones behind it.
func (s *sender) resend(i int, t *turn, now frame.Time) bool {
	first := s.snd.Seg(i)
	count, octets := s.snd.LostRun(i, s.c.maxSegs(), s.maxOctets(), s.mss, s.cc.Cwnd)
	flags := tcp.ACK
	if first.Flags&recovery.Fin != 0 {
		flags |= tcp.FIN
	}
	if s.snd.Seg(i+count-1).Flags&recovery.Push != 0 {
		flags |= tcp.PSH
	}
	if s.c.e.notes != nil && s.c.e.notes.On {
		s.c.e.notes.Addf("TCP retransmission of %d segments", count)
	}
	gso := 0
	if count > 1 {
		gso = int(first.N)
	}
	if !s.c.transmit(s.snd.Seq(first.Off), flags, first.Off, octets, gso, now) {
		return false
	}
	if i == 0 || s.rtoAt == frame.Never {
		s.startRTO(now)
	}
	s.snd.Retransmitted(i, count, now)
	s.c.count.retransmits += uint64(count)
	s.c.e.stats.Retransmits += uint64(count)
	t.frames--
	t.octets -= octets
	return true
}

// maxOctets is the payload that one frame can hold.
func (s *sender) maxOctets() int { return maxPacket - s.c.headerLen() - tsLen }

// sendNew sends new segments and, when the Source is drained, the FIN.
func (s *sender) sendNew(t *turn, now frame.Time) (more bool) {
	idle := s.snd.Segs() == 0
	more = s.sendFresh(t, now)
	if idle && s.snd.Segs() > 1 {
		s.startRTO(now) // what is in flight as a whole decides
	}
	return more
}

func (s *sender) sendFresh(t *turn, now frame.Time) (more bool) {
	if s.finSent || (s.c.state != StateEstablished && s.c.state != StateCloseWait) {
		return false
	}
	if s.snd.Segs() == 0 && now.Sub(s.c.lastOut) > s.snd.RTT.RTO {
		s.cc.Restart(s.mss)
	}
	s.cc.Blocked = false
	n := s.firstLen(now)
	for n > 0 {
		if s.nagle(n) || !s.fits(0, n, now) {
			return false
		}
		if s.stuck(t) {
			return true
		}
		var ok bool
		if n, ok = s.sendBurst(n, t, now); !ok {
			return true
		}
	}
	if !s.c.wantClose {
		return false
	}
	if s.stuck(t) {
		return true
	}
	return !s.sendFin(now)
}

// segLimit is the longest segment for this peer.
func (s *sender) segLimit() int {
	if half := int(min(s.maxWnd/2, 1<<20)); half < s.mss {
		return max(half, 1) // RFC 9293 section 3.8.6.2.1: a receiver with a small buffer
	}
	return s.mss
}

// nextLen asks the Source for the segment at off.
func (s *sender) nextLen(off uint64) int {
	limit := s.segLimit()
	if s.override {
		limit = min(limit, int(max(1, int64(s.snd.Una()+s.wnd)-int64(s.snd.Nxt()))))
	}
	return max(0, min(s.c.h.Next(off, limit), limit))
}

// nagle reports whether a segment of n octets waits until everything before
// it is acknowledged.
func (s *sender) nagle(n int) bool { return s.c.par.Nagle && n < s.mss && s.snd.Segs() > 0 }

// fits reports whether n more octets behind the queued ones fit the windows,
// and notes which window it is that blocks.
func (s *sender) fits(queued, n int, now frame.Time) bool {
	end := s.snd.Nxt() + uint64(queued+n)
	idle := s.snd.Segs() == 0 && queued == 0
	switch {
	case end > s.snd.Una()+s.wnd:
		if idle && s.rtoAt == frame.Never {
			if s.backoff == 0 {
				s.progressAt = now
			}
			d := s.rto() // persist: RFC 9293 section 3.8.6.1
			if s.wnd > 0 && s.c.par.Override > 0 {
				d = s.c.par.Override
			}
			s.arm(now, d)
		}
		return false
	case (end-s.snd.Una() > uint64(s.c.e.cfg.SndWnd) || s.snd.Segs() >= s.c.e.cfg.SndWnd/minSegment) && !idle:
		return false
	case s.pipe()+uint64(queued+n) > s.cc.Cwnd && !idle:
		s.cc.Blocked = true
		return false
	}
	return true
}

// sendBurst sends the segment of n octets at SND.NXT, in super-frames
// together with equal ones behind it. It returns the length of the segment
// after them, and false if the pool is exhausted.
func (s *sender) sendBurst(n int, t *turn, now frame.Time) (next int, ok bool) {
	size, octets, count, last := n, n, 1, n
	if more := s.run(n); more > 0 {
		octets, count = octets+more*size, count+more
	}
	for {
		next = s.nextLen(s.snd.Nxt() + uint64(octets))
		if count >= s.c.maxSegs() || s.ecn.MustTell() || size > s.mss || s.c.par.Nagle && next < s.mss || next == 0 ||
			next > size || last < size ||
			octets+next > s.maxOctets() || !s.fits(octets, next, now) {
			break
		}
		octets, count, last = octets+next, count+1, next
	}
	flags, gso := tcp.ACK, 0
	if next == 0 {
		flags |= tcp.PSH
	}
	if count > 1 {
		gso = size
	}
	off, idle := s.snd.Nxt(), s.snd.Segs() == 0
	if !s.c.transmit(s.snd.Seq(off), flags, off, octets, gso, now) {
		return 0, false
	}
	s.snd.Sent(size, count, last, next == 0, now)
	s.c.rcv.Replied(now)
	if n > s.mss {
		s.snd.Search.Sent(s.snd.Nxt(), s.mtu+n-s.mss)
	}
	s.sentNew(idle, now)
	t.frames--
	t.octets -= octets
	return next, true
}

// run is how many segments of n octets the Source has behind the one of n
// octets at SND.NXT, as far as they fit one frame and the windows.
func (s *sender) run(n int) int {
	r, ok := s.c.h.(Runner)
	if !ok || n > s.mss || s.override || s.ecn.MustTell() || s.c.par.Nagle && n < s.mss {
		return 0
	}
	limit := s.segLimit()
	room := min(s.maxOctets()-n, s.windowRoom(n))
	if most := min(s.c.maxSegs()-1, room/n); most > 0 {
		return r.Run(s.snd.Nxt()+uint64(n), n, limit, most)
	}
	return 0
}

// windowRoom is how many octets behind the queued ones fit the windows.
func (s *sender) windowRoom(queued int) int {
	used := int64(s.snd.InFlight()) + int64(queued)
	return int(min(int64(s.wnd)-used, int64(s.c.e.cfg.SndWnd)-used, int64(s.cc.Cwnd)-int64(s.pipe())-int64(queued)))
}

// sentNew starts the retransmission timer. If nothing was in flight before
// (idle) it takes the place of the persist timer.
func (s *sender) sentNew(idle bool, now frame.Time) {
	s.override = false
	if idle {
		s.backoff, s.progressAt = 0, now
	}
	if idle || s.rtoAt == frame.Never {
		s.startRTO(now)
	}
}

// sendFin sends the FIN, which is a segment of its own.
func (s *sender) sendFin(now frame.Time) bool {
	if !s.c.transmit(s.snd.Seq(s.snd.Nxt()), tcp.FIN|tcp.ACK, 0, 0, 0, now) {
		return false
	}
	idle := s.snd.Segs() == 0
	s.finSent, s.finOff = true, s.snd.Nxt()
	s.snd.SentFin(now)
	s.sentNew(idle, now)
	s.c.state = StateFinWait1
	if s.c.rcv.FinTaken() {
		s.c.state = StateLastAck
	}
	return true
}

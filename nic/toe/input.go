package toe

import (
	"net/netip"
	"time"

	"tapir/nic/toe/reassembly"
	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/tcp"
)

// The way of a segment through the engine:
//
//  1. Segment: checksum, header, owner (connection, listener or nobody).
//  2. input: by state; SYN-SENT, SYN-RECEIVED and listeners are in handshake.go.
//  3. acceptable: PAWS and receive window, with an answer to what is refused.
//  4. control: RST and SYN, with challenge ACKs (RFC 5961).
//  5. acknowledge (ack.go): window, scoreboard, SND.UNA and loss detection
//     (recovery), round-trip time and congestion window.
//  6. receive: in-order data to the handler, the rest to reassembly.
//  7. finReceived: the peer's FIN, in order.
//  8. Poll (output.go): retransmissions, new segments, FIN, acknowledgements.

// Segment handles one received segment: seg (borrowed) holds the TCP header
// and payload that followed the IP header h; it may be a super-segment of up
// to 64 KiB. The checksum is verified unless off says that the device has
// done so or the sender left it partial. Segment never transmits; the answers
// leave at the next Poll. It returns false if the segment is sound but no
// connection or listener owns it: the caller counts the drop, or calls Reset.
func (e *Engine) Segment(h *ip.Header, seg []byte, off frame.Offload, now frame.Time) bool {
	e.stats.FramesIn++
	if !off.NeedsCsum && !off.DataValid &&
		ip.Checksum(seg, ip.PseudoSum(h.Src, h.Dst, ip.ProtoTCP, len(seg))) != 0 {
		e.drop(frame.DropL4Checksum)
		return true
	}
	th, data, err := tcp.Parse(seg)
	if err != nil {
		e.drop(frame.DropMalformed)
		return true
	}
	n := 1
	if off.GSO != frame.GSONone && off.GSOSize > 0 {
		n = max(1, (len(data)+int(off.GSOSize)-1)/int(off.GSOSize))
	}
	e.stats.SegsIn += uint64(n)
	e.segTOS = h.TOS
	local, remote := netip.AddrPortFrom(h.Dst, th.DstPort), netip.AddrPortFrom(h.Src, th.SrcPort)
	c := e.find(local, remote)
	if c == nil {
		var owned bool
		if c, owned = e.stranger(&th, local, remote, len(data), now); c == nil {
			return owned
		}
		if th.Flags.Has(tcp.SYN) {
			c.saveIn(h, seg, off, now)
			return true
		}
	}
	c.count.segsIn += uint64(n)
	c.saveIn(h, seg, off, now)
	segSize := len(data)
	if n > 1 {
		segSize = int(off.GSOSize)
	}
	c.input(&th, data, segSize, now)
	e.timers.schedule(c)
	return true
}

// stranger handles a segment with n octets of data that belongs to no
// connection: one of TIME-WAIT, or to a listener, which may make one.
func (e *Engine) stranger(h *tcp.Header, local, remote netip.AddrPort, n int, now frame.Time) (c *Conn, owned bool) {
	if w := e.waits.Find(local, remote); w != nil && !e.inTimeWait(w, local, h, segLen(h, n), now) {
		return nil, true
	}
	l := e.listener(local)
	if l == nil {
		return nil, false
	}
	if !usable(remote.Addr()) || remote.Port() == 0 {
		e.drop(frame.DropSource)
		return nil, true
	}
	return l.segment(h, local, remote, now), true
}

// saveIn keeps a copy of a received packet, with its checksum completed.
func (c *Conn) saveIn(h *ip.Header, seg []byte, off frame.Offload, now frame.Time) {
	if !c.saving || c.gone {
		return
	}
	n := h.HeaderLen()
	if c.savedSize+n+len(seg) > maxSavedOctets {
		c.saving = false
		return
	}
	b := make([]byte, n+len(seg))
	h.Put(b)
	copy(b[n:], seg)
	if off.NeedsCsum {
		putChecksum(b[n:], h.Src, h.Dst)
	}
	c.save(frame.Inbound, now, b)
}

// input handles a segment of connection c. segSize is the payload of each
// true segment in it.
func (c *Conn) input(h *tcp.Header, data []byte, segSize int, now frame.Time) {
	switch {
	case c.wantAbort:
		c.e.drop(frame.DropTCPState)
		return
	case c.state == StateSynSent:
		c.inSynSent(h, now)
		return
	}
	off := c.rcvOffset(h.Seq)
	n := segLen(h, len(data))
	ack := c.snd.Offset(h.Ack)
	if c.crossed(h, off, ack) {
		c.wantAck = true
		c.establish(now)
		c.Kick()
		return
	}
	if !c.acceptable(h, off, n, now) || !c.control(h, off, now) {
		return
	}
	if c.state == StateSynReceived && !c.handshakeDone(h, ack, now) {
		return
	}
	if ack > int64(c.snd.Nxt()) || ack < int64(c.snd.Una())-int64(c.maxWnd) {
		c.challenge(now) // RFC 5961 section 5
		c.e.drop(frame.DropTCPSequence)
		return
	}
	c.lastIn, c.probes = now, 0
	c.takeTimestamp(h, off, now)
	if c.ecn.on {
		c.takeECN(h.Flags, c.e.segTOS, ack, len(data))
	}
	if ack >= int64(c.snd.Una()) {
		c.acknowledge(h, off, uint64(ack), n, now)
	}
	if c.finAcked(now); c.gone {
		return
	}
	c.receive(h, off, data, segSize, now)
	c.Kick()
}

// rcvOffset is the offset of seq in the received stream, near RCV.NXT; the
// SYN is at -1.
func (c *Conn) rcvOffset(seq tcp.Seq) int64 {
	return int64(c.rcvNxt) + int64(seq.Sub(c.rcvSeq(c.rcvNxt)))
}

func (c *Conn) rcvSeq(off uint64) tcp.Seq { return tcp.Seq(c.irs + 1 + uint32(off)) }

// sndOffset is the offset of seq in the sent stream, near SND.UNA.
func (c *Conn) sndOffset(seq tcp.Seq) int64 {
	return int64(c.snd.Una()) + int64(seq.Sub(c.snd.Seq(c.snd.Una())))
}

func (c *Conn) sndSeq(off uint64) tcp.Seq { return tcp.Seq(c.snd.ISS + 1 + uint32(off)) }

// acceptable is the first check of RFC 9293 section 3.10.7.4, after PAWS (RFC
// 7323 section 5.3). n is SEG.LEN.
func (c *Conn) acceptable(h *tcp.Header, off int64, n int, now frame.Time) bool {
	rst := h.Flags.Has(tcp.RST)
	if c.tsOK && !rst {
		if !h.Opts.HasTS {
			c.e.drop(frame.DropTCPState) // RFC 7323 section 3.2
			return false
		}
		if int32(h.Opts.TSVal-c.tsRecent) < 0 && now.Sub(c.tsRecentAt) < pawsIdle {
			c.ackRefused(n, now)
			c.e.drop(frame.DropTCPSequence)
			return false
		}
	}
	next, wnd := int64(c.rcvNxt), int64(c.rcvWindow())
	end := off + int64(n)
	if n == 0 {
		if off >= next && off < next+wnd {
			return true
		}
	} else if off < next+wnd && end > next {
		return true
	}
	if rst {
		c.e.drop(frame.DropTCPSequence)
		return false
	}
	if c.state == StateSynReceived && h.Flags.Has(tcp.SYN) && !h.Flags.Has(tcp.ACK) && off == -1 {
		c.wantSyn = true // our SYN-ACK was lost
		c.Kick()
		return false
	}
	if h.Flags.Has(tcp.SYN) { // RFC 5961 section 4: whatever its number
		c.challenge(now)
		c.e.drop(frame.DropTCPSequence)
		return false
	}
	why := frame.DropTCPSequence
	if n > 0 && end <= next {
		why = frame.DropTCPDuplicate
		if off >= 0 && c.snd.SACK {
			c.ooo.Repeated(reassembly.Block{Left: uint64(off), Right: uint64(end)})
		}
		// Else the answer to a repetition, after acknowledgements were lost,
		// would measure the time since the first sending (RFC 7323 section
		// 4.3).
		if off >= 0 && off >= next-wnd {
			c.takeTimestamp(h, off, now)
		}
	}
	c.ackRefused(n, now)
	c.e.drop(why)
	return false
}

// pawsIdle is how long a timestamp stays comparable (RFC 7323 section 5.5).
const pawsIdle = 24 * 24 * time.Hour

// ackRefused answers an unacceptable segment. Only data is always answered:
// two sides that answer each other's empty segments would never stop.
func (c *Conn) ackRefused(n int, now frame.Time) {
	if n == 0 {
		c.challenge(now)
		return
	}
	c.wantAck = true
	c.Kick()
}

// challenge sends an ACK that makes a true peer prove itself (RFC 5961
// section 7), at most 10 per second.
func (c *Conn) challenge(now frame.Time) {
	if now.Sub(c.chalAt) >= time.Second || c.chalAt == 0 {
		c.chalAt, c.chalLeft = now, challengesPerSecond
	}
	if c.chalLeft == 0 {
		return
	}
	c.chalLeft--
	c.e.stats.ChallengeAcks++
	c.wantAck = true
	c.Kick()
}

// challengesPerSecond bounds challenge ACKs per connection.
const challengesPerSecond = 10

// control handles RST, SYN and a missing ACK; it reports whether the segment
// goes on.
func (c *Conn) control(h *tcp.Header, off int64, now frame.Time) bool {
	switch {
	case h.Flags.Has(tcp.RST):
		c.inReset(off, now)
		return false
	case h.Flags.Has(tcp.SYN):
		c.challenge(now)
	case h.Flags.Has(tcp.ACK):
		return true
	}
	c.e.drop(frame.DropTCPState)
	return false
}

// inReset handles a RST inside the window: only the exact next sequence
// number is believed (RFC 5961 section 3).
func (c *Conn) inReset(off int64, now frame.Time) {
	if off != int64(c.rcvNxt) {
		c.challenge(now)
		c.e.drop(frame.DropTCPSequence)
		return
	}
	c.e.stats.ResetsIn++
	switch {
	case (c.state == StateLastAck || c.state == StateClosing) && c.finSent && c.snd.Una() == c.finOff:
		c.finish(0, now)
	case c.state == StateSynReceived && !c.passive:
		c.finish(Refused, now)
	default:
		c.finish(Reset, now)
	}
}

// takeTimestamp updates TS.Recent (RFC 7323 sections 4.3 and 5.5).
func (c *Conn) takeTimestamp(h *tcp.Header, off int64, now frame.Time) {
	if c.tsOK && h.Opts.HasTS && off <= int64(c.lastAck) &&
		(int32(h.Opts.TSVal-c.tsRecent) >= 0 || now.Sub(c.tsRecentAt) >= pawsIdle) {
		c.tsRecent, c.tsRecentAt = h.Opts.TSVal, now
	}
}

// finAcked moves on once the peer has acknowledged our FIN.
func (c *Conn) finAcked(now frame.Time) {
	if !c.finSent || c.snd.Una() <= c.finOff {
		return
	}
	switch c.state {
	case StateFinWait1:
		c.state = StateFinWait2
		if c.deaf {
			c.stateAt = now.Add(c.par.FinTimeout)
		}
	case StateClosing:
		c.enterTimeWait(now)
	case StateLastAck:
		c.finish(0, now)
	}
}

// receive takes the text and FIN of an acceptable segment at off.
func (c *Conn) receive(h *tcp.Header, off int64, data []byte, segSize int, now frame.Time) {
	switch c.state {
	case StateEstablished, StateFinWait1, StateFinWait2:
	default:
		return
	}
	next := int64(c.rcvNxt)
	right := next + int64(c.rcvWindow())
	if end := off + int64(len(data)); h.Flags.Has(tcp.FIN) && end < right {
		if !c.peerFin {
			c.peerFin, c.peerFinOff = true, uint64(end)
		}
		c.wantAck = true // also of a FIN that came before what it ends, each time
	}
	if c.peerFin {
		right = min(right, int64(c.peerFinOff))
	}
	if off < next {
		data = data[min(next-off, int64(len(data))):]
		off = next
	}
	data = data[:max(0, min(int64(len(data)), right-off))]
	switch {
	case len(data) == 0:
	case c.deaf:
		c.e.drop(frame.DropTCPState)
		c.Abort()
	case off > next:
		c.outOfOrder(uint64(off), data, now)
	default:
		c.rcvMSS = max(c.rcvMSS, min(segSize, c.mtu))
		c.inOrder(h, data, now)
	}
	if c.peerFin && c.rcvNxt == c.peerFinOff && !c.wantAbort && !c.gone {
		c.finReceived(now)
	}
}

// outOfOrder keeps data that does not begin at RCV.NXT; each such segment is
// answered at once (RFC 5681 section 4.2).
func (c *Conn) outOfOrder(off uint64, data []byte, now frame.Time) {
	c.wantAck = true
	c.dupAcksOwed++
	var take reassembly.Taker
	if early, ok := c.h.(EarlyReceiver); ok && !c.wantAbort {
		take = func(off uint64, data []byte) int { return early.ReceiveEarly(c, off, data, now) }
	}
	why := c.ooo.Insert(&c.e.held, take, off, data)
	if why != frame.DropNone {
		c.e.drop(why)
		return
	}
	c.e.stats.OutOfOrder++
}

// inOrder delivers data and whatever it makes contiguous, and decides when to
// acknowledge (RFC 9293 section 3.8.6.3, RFC 5681 section 4.2).
func (c *Conn) inOrder(h *tcp.Header, data []byte, now frame.Time) {
	if c.ooo.Empty() {
		c.deliver(data, now)
	} else {
		c.wantAck = true
		c.join(data, now)
		c.ooo.Trim(c.rcvNxt)
	}
	switch {
	case h.Flags.Has(tcp.PSH) || c.unacked >= c.ackEvery(len(data)):
		c.wantAck = true
	case c.ackAt == frame.Never:
		delay := c.e.cfg.DelayedAck
		if c.unacked >= 2*c.rcvMSS {
			delay = min(delay, stretchDelay)
		}
		c.ackAt = now.Add(delay)
	}
}

// Super-frames follow each other within microseconds, so one acknowledgement
// answers stretchOctets of them, but at least each quarter of the window, or
// what has come within stretchDelay. It costs both sides as much as a
// super-frame without the copies of its data.
const (
	superFrame    = 32 << 10 // octets of data that make a frame one
	stretchOctets = 256 << 10
	stretchDelay  = 50 * time.Microsecond
)

// ackEvery is how many octets may wait for an acknowledgement after a frame
// with n octets of data: two segments (RFC 5681 section 4.2), or some
// super-frames, which a stack that aggregates segments answers as one.
func (c *Conn) ackEvery(n int) int {
	if n < superFrame {
		return 2 * c.rcvMSS
	}
	return max(2*c.rcvMSS, min(stretchOctets, c.e.cfg.RcvWnd/4))
}

// join delivers data and the pieces that it meets. What a piece holds is not
// taken from data again.
func (c *Conn) join(data []byte, now frame.Time) {
	for {
		p := c.ooo.Pop(c.rcvNxt)
		if p == nil {
			n := min(uint64(len(data)), c.ooo.Next()-c.rcvNxt)
			if n == 0 {
				return
			}
			c.deliver(data[:n], now)
			data = data[n:]
			continue
		}
		k := p.End() - min(p.End(), c.rcvNxt)
		if k > 0 {
			if rest := p.Rest(c.rcvNxt); rest != nil {
				c.deliver(rest, now)
			} else {
				c.skip(int(k), now)
			}
		}
		data = data[min(k, uint64(len(data))):]
		c.e.held.Free(p)
	}
}

// skip passes n octets that the handler has taken early.
func (c *Conn) skip(n int, now frame.Time) {
	c.rcvNxt += uint64(n)
	c.unacked += n
	c.e.stats.BytesIn += uint64(n)
	if early, ok := c.h.(EarlyReceiver); ok && !c.wantAbort {
		early.Skip(c, n, now)
	}
}

func (c *Conn) deliver(data []byte, now frame.Time) {
	c.rcvNxt += uint64(len(data))
	c.unacked += len(data)
	c.e.stats.BytesIn += uint64(len(data))
	if c.h != nil && !c.wantAbort {
		c.h.Receive(c, data, now)
	}
}

// finReceived handles the peer's FIN once everything before it is delivered.
func (c *Conn) finReceived(now frame.Time) {
	c.rcvNxt++
	c.wantAck = true
	c.ooo.Release(&c.e.held)
	timeWait := false
	switch c.state {
	case StateEstablished:
		c.state = StateCloseWait
	case StateFinWait1:
		c.state = StateClosing
	case StateFinWait2:
		timeWait = true
	}
	if c.h != nil {
		c.h.PeerClosed(c, now)
	}
	if timeWait {
		c.enterTimeWait(now)
	}
}

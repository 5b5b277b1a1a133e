package toe

import (
	"net/netip"
	"time"

	"tapir/nic/toe/ecn"
	"tapir/nic/toe/packet"
	"tapir/nic/toe/ports"
	"tapir/nic/toe/reassembly"
	"tapir/nic/toe/receive"
	"tapir/nic/toe/recovery"
	"tapir/wire/drop"
	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/tcp"
)

// The way of a segment through the engine:
//
//  1. Segment: checksum, header, owner (connection, listener or nobody).
//  2. input: by state; SYN-SENT, SYN-RECEIVED and listeners are in handshake.go.
//  3. acceptable (receive): PAWS and receive window, with an answer to what is refused.
//  4. control: RST and SYN, with challenge ACKs (RFC 5961).
//  5. acknowledge (ack.go): window, scoreboard, SND.UNA and loss detection
//     (recovery), round-trip time and congestion window.
//  6. receive: in-order data to the handler, the rest aside (receive).
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
		e.drop(drop.L4Checksum)
		return true
	}
	th, data, err := tcp.Parse(seg)
	if err != nil {
		e.drop(drop.Malformed)
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
		if c, owned = e.unmatched(&th, local, remote, len(data), now); c == nil {
			return owned
		}
		if th.Flags.Has(tcp.SYN) {
			c.record.In(h, seg, off, now)
			return true
		}
	}
	c.count.segsIn += uint64(n)
	if c.record.On {
		c.record.In(h, seg, off, now)
	}
	segSize := len(data)
	if n > 1 {
		segSize = int(off.GSOSize)
	}
	c.input(&th, data, segSize, now)
	c.schedule()
	return true
}

// unmatched handles a segment with n octets of data that belongs to no
// connection: one of TIME-WAIT, or to a listener, which may make one.
func (e *Engine) unmatched(h *tcp.Header, local, remote netip.AddrPort, n int, now frame.Time) (c *Conn, owned bool) {
	if w := e.waits.Find(local, remote); w != nil && !e.inTimeWait(w, local, h, packet.SegLen(h, n), now) {
		return nil, true
	}
	l := e.listener(local)
	if l == nil {
		return nil, false
	}
	if !ports.Usable(remote.Addr()) || remote.Port() == 0 {
		e.drop(drop.Source)
		return nil, true
	}
	return l.segment(h, local, remote, now), true
}

// input handles a segment of connection c. segSize is the payload of each
// true segment in it.
func (c *Conn) input(h *tcp.Header, data []byte, segSize int, now frame.Time) {
	switch {
	case c.wantAbort:
		c.e.drop(drop.TCPState)
		return
	case c.state == StateSynSent:
		c.inSynSent(h, now)
		return
	}
	off := c.rcv.Offset(h.Seq)
	n := packet.SegLen(h, len(data))
	ack := c.snd.Offset(h.Ack)
	if c.crossed(h, off, ack) {
		c.rcv.Due = true
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
		c.e.drop(drop.TCPSequence)
		return
	}
	c.lastIn, c.probes = now, 0
	c.rcv.TakeTimestamp(h, off, now)
	if c.ecn.On {
		c.takeECN(h.Flags, ack, len(data) > 0)
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

// takeECN handles the marks and flags of an acceptable segment that
// acknowledges ack.
func (c *Conn) takeECN(f tcp.Flags, ack int64, data bool) {
	marked := data && c.e.segTOS&ecn.Mask == ecn.CE
	if marked {
		c.e.stats.CEMarks++
	}
	if c.par.Congestion == DCTCP {
		c.echo(marked, data)
		if una := int64(c.snd.Una()); ack > una {
			c.cc.Observe(uint64(ack-una), f.Has(tcp.ECE), uint64(ack), c.snd.Nxt())
		}
	} else if c.ecn.Arrived(f, marked) {
		c.rcv.Due = true
	}
	if c.ecn.React(f, ack) && c.snd.Phase == recovery.Open && c.snd.InFlight() > 0 {
		c.react()
	}
}

// echo tells the sender of each data segment whether it was marked: when that changes, it
// acknowledges at once, what came before by a segment of its own (RFC 8257 section 3.2).
func (c *Conn) echo(marked, data bool) {
	if !data || !c.ecn.Turns(marked) {
		return
	}
	if c.rcv.Unacked() {
		before := tcp.Header{Seq: c.snd.Seq(c.snd.Nxt()), Ack: c.rcv.Seq(c.rcv.Next()), Flags: tcp.ACK,
			Window: c.windowField()}
		if !marked {
			before.Flags |= tcp.ECE
		}
		before.Opts.HasTS, before.Opts.TSVal, before.Opts.TSEcr = c.rcv.TS.On, c.tsNow(c.lastIn), c.rcv.TS.Recent
		c.e.answers.Add(c.local, c.remote, before, c.par.TOS&^ecn.Mask)
		c.rcv.Acked()
	}
	c.rcv.Due = true
}

// acceptable is the first check of RFC 9293 section 3.10.7.4, after PAWS (RFC
// 7323 section 5.3). n is SEG.LEN.
func (c *Conn) acceptable(h *tcp.Header, off int64, n int, now frame.Time) bool {
	rst := h.Flags.Has(tcp.RST)
	if c.rcv.TS.On && !rst {
		if !h.Opts.HasTS {
			c.e.drop(drop.TCPState) // RFC 7323 section 3.2
			return false
		}
		if c.rcv.TS.Old(h, now) {
			c.ackRefused(n, now)
			c.e.drop(drop.TCPSequence)
			return false
		}
	}
	wnd := c.rcvWindow()
	switch {
	case c.rcv.Fits(off, n, wnd):
		return true
	case rst:
		c.e.drop(drop.TCPSequence)
	case c.state == StateSynReceived && h.Flags&(tcp.SYN|tcp.ACK) == tcp.SYN && off == -1:
		c.wantSyn = true // our SYN-ACK was lost
		c.Kick()
	case h.Flags.Has(tcp.SYN): // RFC 5961 section 4: whatever its number
		again(c, now)
		c.e.drop(drop.TCPSequence)
	default:
		why := c.rcv.Refused(h, off, n, wnd, c.snd.SACK, now)
		c.ackRefused(n, now)
		c.e.drop(why)
	}
	return false
}

// ackRefused answers an unacceptable segment. Only data is always answered:
// two sides that answer each other's empty segments would never stop.
func (c *Conn) ackRefused(n int, now frame.Time) {
	if n == 0 {
		c.challenge(now)
		return
	}
	c.rcv.Due = true
	c.Kick()
}

// challenge sends an ACK that makes a true peer prove itself (RFC 5961
// section 7), at most 10 per second; sent tells whether it does.
func (c *Conn) challenge(now frame.Time) (sent bool) {
	if now.Sub(c.chalAt) >= time.Second || c.chalAt == 0 {
		c.chalAt, c.chalLeft = now, challengesPerSecond
	}
	if c.chalLeft == 0 {
		return false
	}
	c.chalLeft--
	c.e.stats.ChallengeAcks++
	c.rcv.Due = true
	c.Kick()
	return true
}

// again answers a SYN.
func again(c *Conn, now frame.Time) {
	if h, ok := c.h.(SYNHandler); c.challenge(now) && ok {
		h.SYNReceived(c)
	}
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
		again(c, now)
	case h.Flags.Has(tcp.ACK):
		return true
	}
	c.e.drop(drop.TCPState)
	return false
}

// inReset handles a RST inside the window: only the exact next sequence
// number is believed (RFC 5961 section 3).
func (c *Conn) inReset(off int64, now frame.Time) {
	if off != int64(c.rcv.Next()) {
		c.challenge(now)
		c.e.drop(drop.TCPSequence)
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
	at, data := c.rcv.Cut(h.Flags.Has(tcp.FIN), off, data, c.rcvWindow())
	switch {
	case len(data) == 0:
	case c.deaf:
		c.e.drop(drop.TCPState)
		c.Abort()
	case at > c.rcv.Next():
		c.receiveOOO(at, data, now)
	default:
		c.rcv.MSS = max(c.rcv.MSS, min(segSize, c.mtu))
		policy := receive.Policy{Delay: c.e.cfg.DelayedAck, Window: c.e.cfg.RcvWnd}
		c.rcv.InOrder(&c.e.held, (*sink)(c), data, h.Flags.Has(tcp.PSH), policy, now)
		if c.ashore {
			c.ashore = c.e.isles.Reached(c.place.Deadline.ID, c.rcv.Next())
		}
	}
	if c.rcv.AtFin() && !c.wantAbort && !c.gone {
		c.finReceived(now)
	}
}

// receiveOOO handles data that does not begin at RCV.NXT.
func (c *Conn) receiveOOO(off uint64, data []byte, now frame.Time) {
	isles, id, end := c.e.isles, c.place.Deadline.ID, off+uint64(len(data))
	if isles != nil && !isles.Room(id, off, end) {
		c.rcv.Due = true
		c.e.drop(drop.Reassembly)
		return
	}
	before := c.rcv.Held.Octets()
	var take reassembly.Taker
	if h, ok := c.h.(OOOReceiver); ok && !c.wantAbort {
		take = func(off uint64, data []byte) int { return h.ReceiveOOO(c, off, data, now) }
	}
	if why := c.rcv.OutOfOrder(&c.e.held, take, off, data); why != frame.DropNone {
		c.e.drop(why)
		return
	}
	c.e.stats.OutOfOrder++
	if isles != nil {
		isles.Add(id, off, end, c.rcv.Held.Octets() > before)
		c.landed, c.ashore = true, true
	}
}

// sink is a connection as its receiving half sees it.
type sink Conn

// Deliver hands the next octets to the handler.
func (c *sink) Deliver(data []byte, now frame.Time) {
	c.e.stats.BytesIn += uint64(len(data))
	if c.h != nil && !c.wantAbort {
		c.h.Receive((*Conn)(c), data, now)
	}
}

// Skip passes n octets that the handler has taken out of order.
func (c *sink) Skip(n int, now frame.Time) {
	c.e.stats.BytesIn += uint64(n)
	if h, ok := c.h.(OOOReceiver); ok && !c.wantAbort {
		h.Skip((*Conn)(c), n, now)
	}
}

// finReceived handles the peer's FIN once everything before it is delivered.
func (c *Conn) finReceived(now frame.Time) {
	c.rcv.TakeFin(&c.e.held)
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

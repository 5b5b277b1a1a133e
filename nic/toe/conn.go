package toe

import (
	"net/netip"

	"tapir/nic/pacing"
	"tapir/nic/toe/failure"
	"tapir/nic/toe/packet"
	"tapir/nic/toe/ports"
	"tapir/nic/toe/receive"
	"tapir/nic/toe/recovery"
	"tapir/nic/toe/schedule"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// Conn is one TCP connection. Its methods are called on the engine's thread,
// also from inside a Handler; those that cause output take effect at the next
// Poll.
//
// Inside, both directions count stream octets in 64 bits: offset 0 is the
// octet after the SYN, and a FIN takes one offset after the last octet.
type Conn struct {
	e             *Engine
	h             Handler
	listener      *Listener // of a passive open
	place         schedule.Entry[*Conn]
	prev, next    *Conn // engine's list by creation
	local, remote netip.AddrPort
	state         State
	par           *Params      // shared with the engine or listener until set
	rate          *pacing.Node // its own, below that of its class; nil: it has no rate
	port          *ports.Reservation

	gone      bool // no longer the engine's
	wantAbort bool
	wantClose bool
	deaf      bool // the application reads no more
	wantSyn   bool // a SYN or SYN-ACK is due
	wantProbe bool // a window or keep-alive probe is due
	passive   bool
	half      bool          // passive and not established yet: in Listener.pending
	landed    bool          // the engine's Isles know of it
	ashore    bool          // and have some of it
	why       failure.Cause // of a Timeout

	sender
	rcv     receive.Stream
	ipID    uint16
	station ether.Addr // that leads to remote; zero: who sends knows
	synAt   frame.Time // when the SYN or SYN-ACK was sent first
	tsOff   uint32     // of our timestamps

	// Timers; frame.Never when not running.
	stateAt  frame.Time // FIN-WAIT-2 and keep-alive
	probes   int        // unanswered keep-alive probes
	lastIn   frame.Time
	lastOut  frame.Time
	softErr  Kind // what ICMP said meanwhile
	chalLeft int32
	chalAt   frame.Time

	record packet.Record // of its beginning
	count  connCounters
}

type connCounters struct {
	segsOut, segsIn, retransmits, timeouts, recoveries, dupAcks uint64
}

// init sets what does not depend on the role.
func (c *Conn) init(now frame.Time) {
	c.sender.c = c
	c.snd.ISS = c.e.cfg.Secret.Number(c.local, c.remote, now)
	c.tsOff = c.e.cfg.Secret.Hash(c.local, c.remote, "ts")
	c.snd.Rings = &c.e.rings
	c.ipID = uint16(c.snd.ISS >> 16)
	c.par = c.e.par
	c.usePath(now)
	c.peerMSS = defaultMSS(c.local.Addr())
	c.updateMSS()
	c.rcv.MSS = defaultMSS(c.local.Addr())
	c.rcv.Scale = wndScale(c.e.cfg.RcvWnd)
	c.rtoAt, c.snd.ReorderAt, c.rcv.At, c.stateAt = frame.Never, frame.Never, frame.Never, frame.Never
	c.lastIn, c.lastOut, c.progressAt = now, now, now
	c.snd.RTT.RTO = c.e.cfg.InitialRTO
	c.record.On = true
}

// defaultMSS is what a peer that announces nothing accepts (RFC 9293 section
// 3.7.1).
func defaultMSS(a netip.Addr) int {
	if a.Is4() {
		return 536
	}
	return 1220
}

// headerLen is the length of the IP and TCP headers without TCP options.
func (c *Conn) headerLen() int {
	if c.local.Addr().Is4() {
		return 20 + 20
	}
	return 40 + 20
}

const tsLen = 12 // timestamps option with its padding

// Kick says that the Source may have something to send.
func (c *Conn) Kick() {
	if !c.gone {
		c.e.ready.Push(&c.place)
	}
}

// Close sends a FIN once the Source is drained. The peer may go on sending
// until it closes, too, however long that takes.
func (c *Conn) Close() {
	c.wantClose = true
	c.Kick()
}

// CloseBoth is Close for who reads no more, either: data that comes
// nevertheless is lost, which a RST tells the peer, and the peer's silence in
// FIN-WAIT-2 is bounded (RFC 9293 section 3.6.1).
func (c *Conn) CloseBoth() {
	c.deaf = true
	if c.state == StateFinWait2 {
		c.stateAt = c.lastIn.Add(c.par.FinTimeout)
	}
	c.Close()
}

// Abort sends a RST and drops everything; Closed reports Aborted.
func (c *Conn) Abort() {
	if c.state == StateTimeWait {
		if w := c.e.waits.Find(c.local, c.remote); w != nil {
			c.e.waits.Remove(w)
		}
		return
	}
	c.wantAbort = true
	c.Kick()
}

// AckNow acknowledges at the next Poll what has been received, which ends a
// message. Between sides that take turns the reply may do that, a little later.
func (c *Conn) AckNow() {
	if c.rcv.Unacked() {
		c.rcv.Ask()
		c.Kick()
	}
}

// MSS is the payload of a full segment in octets, options deducted. It falls
// when the path MTU does.
func (c *Conn) MSS() int { return c.mss }

// Local is this side's address.
func (c *Conn) Local() netip.AddrPort { return c.local }

// Remote is the peer's address.
func (c *Conn) Remote() netip.AddrPort { return c.remote }

// State is the connection's state.
func (c *Conn) State() State {
	if c.state == StateTimeWait && c.e.waits.Find(c.local, c.remote) == nil {
		return StateClosed
	}
	return c.state
}

// Info returns a snapshot for display.
func (c *Conn) Info() Info {
	return Info{
		State: c.State(), Local: c.local, Remote: c.remote, MSS: c.mss, MTU: c.mtu,
		SndUna: c.snd.Una(), SndNxt: c.snd.Nxt(), SndWnd: c.wnd,
		RcvNxt: c.rcv.Next(), RcvWnd: c.rcvWindow(),
		Cwnd: c.cc.Cwnd, Ssthresh: c.cc.Ssthresh,
		SRTT: c.snd.RTT.Smoothed, RTTVar: c.snd.RTT.Var, RTO: c.rto(),
		Recovering: c.snd.Phase != recovery.Open, SACK: c.snd.SACK, Timestamps: c.rcv.TS.On,
		ECN: c.ecn.On, Congestion: c.par.Congestion.String(), Alpha: c.cc.Alpha(c.par.Congestion),
		SndScale: c.sndScale, RcvScale: c.rcv.Scale, OutOfOrder: c.rcv.Held.Octets(),
		SegsOut: c.count.segsOut, SegsIn: c.count.segsIn,
		Retransmits: c.count.retransmits, Timeouts: c.count.timeouts,
		FastRecovers: c.count.recoveries, DuplicateAcks: c.count.dupAcks,
	}
}

// rcvWindow is the window offered now, in octets.
func (c *Conn) rcvWindow() uint64 { return c.rcv.Window(c.e.cfg.RcvWnd) }

// SaveContext switches keeping copies of the connection's first packets; it
// is on from the SYN. Switching it off keeps what has been saved.
func (c *Conn) SaveContext(on bool) { c.record.On = on }

// Context returns the packets saved so far, borrowed while the connection
// lives.
func (c *Conn) Context() []SavedPacket { return c.record.Packets() }

// releaseBuffers gives back everything that only a live transfer needs.
func (c *Conn) releaseBuffers() {
	c.snd.Release()
	c.rcv.Held.Release(&c.e.held)
	if c.landed {
		c.landed, c.ashore = false, false
		c.e.isles.Gone(c.place.Deadline.ID)
	}
}

// finish ends the connection: the handler's last call, then oblivion.
func (c *Conn) finish(kind Kind, now frame.Time) {
	if c.gone {
		return
	}
	c.e.forget(c)
	c.reportClosed(kind, now)
}

// reportClosed makes the handler's last call; kind 0 means orderly.
func (c *Conn) reportClosed(kind Kind, now frame.Time) {
	h := c.h
	if h == nil {
		return
	}
	c.h = nil
	if kind == 0 {
		h.Closed(c, nil, now)
		return
	}
	c.e.stats.Failures++
	h.Closed(c, &Error{Kind: kind, Local: c.local, Remote: c.remote, Err: c.why.Err()}, now)
}

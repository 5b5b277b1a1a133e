package toe

import (
	"net/netip"

	"tapir/nic/toe/congestion"
	"tapir/nic/toe/ecn"
	"tapir/nic/toe/ports"
	"tapir/nic/toe/receive"
	"tapir/nic/toe/recovery"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// TCB is the whole state of an established connection that has nothing in flight, on its
// way from one owner to another: from software to an offload function, or from the
// operating system to the engine. Sequence numbers are those of the next octets, the
// offsets beside them count octets of the streams, as a Source does.
type TCB struct {
	Local, Remote      netip.AddrPort
	SndNxt, RcvNxt     uint32 // SND.UNA, SND.NXT and SND.MAX are equal
	SndOff, RcvOff     uint64
	SndWnd, MaxWnd     uint64 // octets that the peer offers, and the most that it has
	SndScale, RcvScale uint8
	PeerMSS            int
	SegmentSize        int // of the largest segment received
	SACK               bool
	TS                 receive.Timestamps
	TSOffset           uint32 // of our timestamps from the clock's milliseconds
	RTT                recovery.RTT
	Window             congestion.Window // CWND and SSTHRESH
	ECN                ecn.State
	Params             Params // with TOS, keep-alive and limits of retransmission
	KeepAliveAt        frame.Time
	Probes             int // unanswered keep-alive probes
	LastIn, LastOut    frame.Time
	IPID               uint16
	Station            ether.Addr // that leads to Remote; zero: who sends finds out, each time
	// Release gives the local port back to the operating system, which had the connection; nil:
	// it was an engine's.
	Release func()

	acks  receive.Acks
	port  *ports.Reservation
	count connCounters
}

// Upload takes an established connection out of the engine: no segment tells the peer, and
// the handler hears no more. An error says that the connection is not quiet: data is
// unacknowledged or out of order, or it is closing. It stays then.
func (e *Engine) Upload(c *Conn) (*TCB, error) {
	if c.gone || c.state != StateEstablished || c.snd.Segs() > 0 || !c.rcv.Held.Empty() || c.wantAbort ||
		c.wantClose {
		return nil, &Error{Kind: NotQuiet, Local: c.local, Remote: c.remote}
	}
	t := &TCB{Local: c.local, Remote: c.remote, SndNxt: uint32(c.snd.Seq(c.snd.Nxt())), SndOff: c.snd.Nxt(),
		RcvNxt: uint32(c.rcv.Seq(c.rcv.Next())), RcvOff: c.rcv.Next(), SndWnd: c.wnd, MaxWnd: c.maxWnd,
		SndScale: c.sndScale, RcvScale: c.rcv.Scale, PeerMSS: c.peerMSS, SegmentSize: c.rcv.MSS, SACK: c.snd.SACK,
		TS: c.rcv.TS, TSOffset: c.tsOff, RTT: c.snd.RTT, Window: c.cc, ECN: c.ecn, Params: *c.par,
		KeepAliveAt: c.stateAt, Probes: c.probes, LastIn: c.lastIn, LastOut: c.lastOut, IPID: c.ipID, acks: c.rcv.Acks,
		Station: c.station,
		port:    c.port.Share(),
		count:   c.count}
	c.h = nil
	e.forget(c)
	return t, nil
}

// Stations are those of the engine's link; nil: it has none.
func (e *Engine) Stations() Stations { return e.links }

// SetStation has what a connection sends go to a station; zero: to the one that leads to its peer.
func (e *Engine) SetStation(c *Conn, a ether.Addr) {
	if e.links != nil {
		c.station = a
	}
}

// Offload takes an established connection over, which h goes on with: Established is not
// called. Errors are *Error (AddrInUse, BadAddr).
func (e *Engine) Offload(t *TCB, h Handler, now frame.Time) (*Conn, error) {
	local, remote := ports.Canonical(t.Local), ports.Canonical(t.Remote)
	if !ports.Usable(local.Addr()) || !ports.Usable(remote.Addr()) || local.Port() == 0 || remote.Port() == 0 {
		return nil, &Error{Kind: BadAddr, Local: local, Remote: remote}
	}
	if e.conns[tuple{local, remote}] != nil || e.waits.Find(local, remote) != nil {
		return nil, &Error{Kind: AddrInUse, Local: local, Remote: remote}
	}
	c := e.newConn(local, remote, StateEstablished, now)
	par := t.Params.withDefaults(e.cfg.Retries)
	c.h, c.port, c.par, c.record.On = h, t.port, &par, false
	c.snd.Resume(t.SndNxt, t.SndOff)
	c.rcv.Resume(t.RcvNxt, t.RcvOff)
	c.wnd, c.maxWnd, c.wl1, c.wl2 = t.SndWnd, t.MaxWnd, -1, 0
	c.sndScale, c.rcv.Scale, c.peerMSS, c.rcv.MSS = t.SndScale, t.RcvScale, t.PeerMSS, t.SegmentSize
	c.snd.SACK, c.rcv.TS, c.tsOff, c.snd.RTT, c.cc, c.ecn = t.SACK, t.TS, t.TSOffset, t.RTT, t.Window, t.ECN
	c.lastIn, c.lastOut, c.stateAt, c.probes, c.ipID = t.LastIn, t.LastOut, t.KeepAliveAt, t.Probes, t.IPID
	e.SetStation(c, t.Station)
	if c.count = t.count; t.acks.MSS > 0 {
		c.rcv.Acks = t.acks
	}
	if t.Release != nil { // what the operating system has sent last may have been lost
		c.port, c.rcv.Due = e.ports.Adopt(local, t.Release), true
	}
	c.updateMSS()
	c.Kick()
	c.schedule()
	return c, nil
}

package toe

import (
	"time"

	"tapir/nic/toe/congestion"
	"tapir/nic/toe/ecn"
)

// Params are what each connection may set for itself. Config.Params are those
// of every connection, unless its Listener or the connection has its own. The
// zero value of every field means its default.
type Params struct {
	// Congestion is the congestion control; default Cubic.
	Congestion Congestion
	// ECN says when explicit congestion notification is used; default
	// ECNAccept.
	ECN ECN
	// TOS is DSCP<<2|ECN of every packet, the traffic class of IPv6. While
	// ECN is in use its two low bits are the protocol's.
	TOS uint8
	// Nagle holds back a segment that is not full while data is
	// unacknowledged (RFC 1122 section 4.2.3.4). It is the contrary of
	// tcp_nodelay; by default it is off.
	Nagle bool
	// UserTimeout is how long sent data, a SYN or a closed window may wait for
	// progress before the connection ends with Timeout (RFC 9293 section
	// 3.8.3). It replaces Retries, SynRetries and FinRetries; default 0: they
	// decide.
	UserTimeout time.Duration
	// KeepAlive is the idle time before keep-alive probes (RFC 9293 section
	// 3.8.4); default 0, and below: none are sent. KeepAliveInterval is the time
	// between probes; default KeepAlive/8.
	KeepAlive, KeepAliveInterval time.Duration
	// KeepAliveProbes is how many unanswered probes end the connection with
	// Timeout (ka_max_probe_cnt); default 9.
	KeepAliveProbes int
	// FinRetries is how often a FIN alone is retransmitted before Timeout
	// (max_fin_rt); default Config.Retries.
	FinRetries int
	// FinTimeout is the longest silence of the peer in FIN-WAIT-2 after
	// CloseBoth; default 60 s.
	FinTimeout time.Duration
	// TimeWait is the stay in TIME-WAIT (twice the maximum segment lifetime); default
	// Config.TimeWait.
	TimeWait time.Duration
	// Override is how long a segment waits for a window that holds it whole (RFC 9293
	// section 3.8.6.2.1); default the retransmission timeout.
	Override time.Duration
}

// Congestion names a congestion control.
type Congestion = congestion.Algorithm

const (
	Cubic = congestion.Cubic // RFC 9438
	Reno  = congestion.Reno  // RFC 5681
	DCTCP = congestion.DCTCP // RFC 8257; asks for ECN unless that is ECNOff
)

// ECN says when explicit congestion notification (RFC 3168) is used.
type ECN = ecn.Mode

const (
	ECNAccept = ecn.Accept // when the peer asks for it
	ECNAsk    = ecn.Ask    // asked for in every SYN, too
	ECNOff    = ecn.Off    // never
)

func (p Params) withDefaults(retries int) Params {
	def(&p.KeepAliveInterval, p.KeepAlive/8)
	def(&p.KeepAliveProbes, 9)
	def(&p.FinRetries, retries)
	def(&p.FinTimeout, time.Minute)
	return p
}

// Config returns the engine's settings, defaults filled in.
func (e *Engine) Config() Config {
	cfg := e.cfg
	cfg.Params = *e.par
	return cfg
}

// ecn is how ECN is negotiated: DCTCP asks for it.
func (p *Params) ecn() ECN {
	if p.Congestion == DCTCP && p.ECN == ECNAccept {
		return ECNAsk
	}
	return p.ECN
}

// SetParams changes the parameters of the connections that begin from now on,
// except those of listeners that have their own.
func (e *Engine) SetParams(p Params) {
	p = p.withDefaults(e.cfg.Retries)
	e.par = &p
}

// Params returns the connection's parameters.
func (c *Conn) Params() Params { return *c.par }

// SetParams changes the parameters. What belongs to the handshake (ECN) only
// counts before it. A running timer keeps its deadline.
func (c *Conn) SetParams(p Params) {
	p = p.withDefaults(c.e.cfg.Retries)
	c.par = &p
	c.e.sched.Move(c.rate, p.TOS)
}

// SetParams changes the parameters of connections that the listener accepts
// from now on.
func (l *Listener) SetParams(p Params) {
	p = p.withDefaults(l.e.cfg.Retries)
	l.par = &p
}

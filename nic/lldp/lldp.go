// Package lldp is the LLDP agents of a port (IEEE 802.1AB-2016 clause 9): one for
// each of the three scopes, which send what the port is and remember what its
// neighbors are. It does no input or output.
package lldp

import (
	"bytes"
	"errors"
	"time"

	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/lldp"
)

// Scope is how far the LLDPDUs of an agent go.
type Scope uint8

// The scopes.
const (
	NearestBridge Scope = iota
	NearestNonTPMR
	NearestCustomer
	Scopes
)

// String returns the name of the scope with hyphens.
func (s Scope) String() string {
	return [Scopes]string{"nearest-bridge", "nearest-non-tpmr", "nearest-customer"}[s]
}

var groups = [Scopes]ether.Addr{lldp.NearestBridge, lldp.NearestNonTPMR, lldp.NearestCustomer}

// Params are the settings of an agent.
type Params struct {
	Rx, Tx   bool
	Interval uint8 // seconds between two LLDPDUs (msgTxInterval), 1 to 255
	Hold     uint8 // an LLDPDU is valid for this many intervals and a second (msgTxHold), 1 to 15
	Credit   uint8 // LLDPDUs that may follow each other at once (txCreditMax), 1 to 10
}

// Default are the values that the standard recommends, with the agent off.
var Default = Params{Interval: 30, Hold: 4, Credit: 5}

// TTL is the time to live that follows, in seconds.
func (p Params) TTL() uint16 { return uint16(min(int(p.Interval)*int(p.Hold)+1, 65535)) }

// ErrTooMany: an agent has no room for another neighbor.
var ErrTooMany = errors.New("lldp: too many neighbors")

// Timers of the standard.
const (
	fastStart    = 4           // LLDPDUs after a new neighbor (txFastInit)
	fastInterval = time.Second // between them (msgFastTx), and for each new credit
	reinitDelay  = 2 * time.Second
)

// MaxNeighbors is how many neighbors an agent remembers.
const MaxNeighbors = 8

// Neighbor is what one neighbor has told.
type Neighbor struct {
	Source ether.Addr // of its frames
	PDU    *lldp.PDU
	Raw    []byte // the LLDPDU as it came
	Since  frame.Time
	Until  frame.Time // when it is forgotten
}

// Stats are the counters of an agent, with the standard's names behind.
type Stats struct {
	TxFrames         uint64 // statsFramesOutTotal
	RxFrames         uint64 // statsFramesInTotal
	RxErrors         uint64 // statsFramesInErrorsTotal, and discarded: malformed
	RxTooMany        uint64 // statsFramesDiscardedTotal: of a neighbor for which there is no room
	TLVsUnrecognized uint64 // LLDPDUs with TLVs that the agent has no field for
	Ageouts          uint64 // statsAgeoutsTotal
	NoBuffer         uint64 // LLDPDUs that could not be sent, and are tried again
}

// Env is what the agents need around them.
type Env struct {
	// Local returns what an agent tells about the port; its TTL is ignored.
	Local func(Scope) *lldp.PDU
	// Send sends a frame, borrowed; false: not now.
	Send func(b []byte, now frame.Time) bool
	// Changed is called when what the neighbors of an agent tell has changed.
	Changed func(s Scope, now frame.Time)
}

// Port is the agents of one port.
type Port struct {
	env    Env
	mac    ether.Addr
	up     bool
	agents [Scopes]agent
	buf    []byte
}

type agent struct {
	Params
	neighbors []Neighbor
	stats     Stats

	announced bool // the neighbors know of the port
	shutdown  bool // they are to be told that it is gone
	changed   bool // what to tell has changed
	idleUntil frame.Time
	fast      int
	credit    uint8
	creditAt  frame.Time // of the last credit
	nextTx    frame.Time
}

// New returns agents that are off, for a port with a station address.
func New(mac ether.Addr, env Env) *Port {
	p := &Port{env: env, mac: mac}
	for i := range p.agents {
		p.agents[i].Params = Default
	}
	return p
}

// SetMAC sets another station address, the source of the frames.
func (p *Port) SetMAC(mac ether.Addr) { p.mac = mac }

// Params, Stats and Neighbors are those of an agent. Neighbors are borrowed.
func (p *Port) Params(s Scope) Params        { return p.agents[s].Params }
func (p *Port) Stats(s Scope) Stats          { return p.agents[s].stats }
func (p *Port) Neighbors(s Scope) []Neighbor { return p.agents[s].neighbors }

// SetParams changes the settings of an agent. One that no longer sends says so
// to its neighbors; one that no longer receives forgets them.
func (p *Port) SetParams(s Scope, to Params, now frame.Time) {
	a := &p.agents[s]
	was := a.Params
	a.Params = to
	if was.Tx && !to.Tx {
		a.shutdown, a.announced = a.announced && p.up, false
	}
	if to.Tx && to != was {
		a.start(now)
	}
	if !to.Rx {
		p.forget(s, now)
	}
}

// start sends at once, as at the start of an agent.
func (a *agent) start(now frame.Time) {
	a.changed, a.credit, a.creditAt, a.nextTx = true, a.Credit, now, now
}

// SetLink tells whether frames pass the port. Without, neighbors are forgotten.
func (p *Port) SetLink(up bool, now frame.Time) {
	if p.up == up {
		return
	}
	p.up = up
	for s := range Scopes {
		a := &p.agents[s]
		a.announced, a.shutdown, a.fast, a.idleUntil = false, false, 0, 0
		if up {
			a.start(now)
		} else {
			p.forget(s, now)
		}
	}
}

func (p *Port) forget(s Scope, now frame.Time) {
	if a := &p.agents[s]; len(a.neighbors) > 0 {
		a.neighbors = nil
		p.env.Changed(s, now)
	}
}

// LocalChanged says that Env.Local has something else to tell.
func (p *Port) LocalChanged(s Scope) { p.agents[s].changed = true }

// Hurry has the agents send as after a new neighbor, for a port that cannot know when the other
// end begins to listen.
func (p *Port) Hurry(now frame.Time) {
	for s := range Scopes {
		a := &p.agents[s]
		a.fast, a.nextTx = fastStart, min(a.nextTx, now)
	}
}

// Receive takes a frame with EtherType 0x88CC, borrowed. False: no agent listens
// to its destination. ErrTooMany or an error of wire/lldp: the agent has
// discarded it, and nothing has changed.
func (p *Port) Receive(b []byte, now frame.Time) (taken bool, err error) {
	h, n, err := ether.Parse(b)
	if err != nil || h.Type != ether.TypeLLDP {
		return false, nil
	}
	for s := range Scopes {
		if a := &p.agents[s]; h.Dst == groups[s] && a.Rx && p.up {
			return true, p.receive(s, h.Src, b[n:], now)
		}
	}
	return false, nil
}

func (p *Port) receive(s Scope, src ether.Addr, b []byte, now frame.Time) error {
	a := &p.agents[s]
	a.stats.RxFrames++
	pdu, err := lldp.Parse(b)
	if err != nil {
		a.stats.RxErrors++
		return err
	}
	if len(pdu.Extra) > 0 {
		a.stats.TLVsUnrecognized++
	}
	at := 0
	for at < len(a.neighbors) && (a.neighbors[at].PDU.Chassis != pdu.Chassis || a.neighbors[at].PDU.Port != pdu.Port) {
		at++
	}
	known := at < len(a.neighbors)
	switch {
	case pdu.TTL == 0 && known:
		a.neighbors = append(a.neighbors[:at], a.neighbors[at+1:]...)
		p.env.Changed(s, now)
		return nil
	case pdu.TTL == 0:
		return nil
	case !known && len(a.neighbors) == MaxNeighbors:
		a.stats.RxTooMany++
		return ErrTooMany
	case !known:
		a.neighbors = append(a.neighbors, Neighbor{Since: now})
		if a.fast == 0 {
			a.fast = fastStart
		}
		a.nextTx = min(a.nextTx, now.Add(fastInterval))
	}
	to := &a.neighbors[at]
	to.Until = now.Add(time.Duration(pdu.TTL) * time.Second)
	if known && to.Source == src && bytes.Equal(to.Raw, b) {
		return nil
	}
	to.Source, to.PDU, to.Raw = src, pdu, bytes.Clone(b)
	p.env.Changed(s, now)
	return nil
}

// Poll sends what is due, forgets neighbors whose time is over, and returns when
// it wants to be called again.
func (p *Port) Poll(now frame.Time) (next frame.Time) {
	next = frame.Never
	for s := range Scopes {
		next = min(next, p.age(s, now), p.transmit(s, now))
	}
	return next
}

// age forgets neighbors of an agent.
func (p *Port) age(s Scope, now frame.Time) (next frame.Time) {
	a := &p.agents[s]
	next, gone := frame.Never, false
	keep := a.neighbors[:0]
	for _, n := range a.neighbors {
		if n.Until > now {
			keep, next = append(keep, n), min(next, n.Until)
			continue
		}
		a.stats.Ageouts++
		gone = true
	}
	if gone {
		clear(a.neighbors[len(keep):])
		a.neighbors = keep
		p.env.Changed(s, now)
	}
	return next
}

// transmit is the transmit state machine of an agent (figures 9-1 and 9-2).
func (p *Port) transmit(s Scope, now frame.Time) (next frame.Time) {
	a := &p.agents[s]
	switch {
	case !p.up:
		return frame.Never
	case a.shutdown:
		if !p.send(s, 0, now) {
			return now.Add(fastInterval)
		}
		a.shutdown, a.idleUntil = false, now.Add(reinitDelay)
	}
	switch {
	case !a.Tx:
		return frame.Never
	case now < a.idleUntil:
		return a.idleUntil
	}
	for a.credit < a.Credit && now >= a.creditAt.Add(fastInterval) {
		a.credit, a.creditAt = a.credit+1, a.creditAt.Add(fastInterval)
	}
	if a.credit >= a.Credit {
		a.creditAt = now
	}
	if !a.changed && now < a.nextTx {
		return a.nextTx
	}
	if a.credit == 0 || !p.send(s, a.TTL(), now) {
		return max(a.creditAt, now).Add(fastInterval)
	}
	a.credit--
	a.changed, a.announced = false, true
	a.nextTx = now.Add(time.Duration(a.Interval) * time.Second)
	if a.fast = max(a.fast-1, 0); a.fast > 0 {
		a.nextTx = now.Add(fastInterval)
	}
	return a.nextTx
}

// send sends an LLDPDU; with TTL 0 one that says good-bye.
func (p *Port) send(s Scope, ttl uint16, now frame.Time) bool {
	pdu := *p.env.Local(s)
	if ttl == 0 {
		pdu = lldp.PDU{Chassis: pdu.Chassis, Port: pdu.Port}
	}
	pdu.TTL = ttl
	p.buf = ether.Header{Dst: groups[s], Src: p.mac, Type: ether.TypeLLDP}.AppendTo(p.buf[:0])
	p.buf = pdu.AppendTo(p.buf)
	for len(p.buf) < minFrame {
		p.buf = append(p.buf, 0)
	}
	if !p.env.Send(p.buf, now) {
		p.agents[s].stats.NoBuffer++
		return false
	}
	p.agents[s].stats.TxFrames++
	return true
}

// minFrame is the length of the shortest frame in octets, without FCS.
const minFrame = 60

package unicast

import (
	"tapir/ptp/msg"
	"tapir/ptp/transport"
	"tapir/wire/frame"
)

// Port is the port that a Negotiation serves.
type Port interface {
	Lower
	// Announce and Sync send a message to a client; log is the interval that
	// it was granted, as log2 of seconds.
	Announce(dst transport.Addr, seq uint16, log int8)
	Sync(dst transport.Addr, seq uint16, log int8)
}

// Negotiation is both halves of one port, of which either may be missing.
type Negotiation struct {
	port      Port
	requester *Requester
	grantor   *Grantor
	clients   int                   // at most
	seqs      map[Client]*[2]uint16 // sequenceIds of Announce and Sync
	next      frame.Time
}

// Config describes a port's unicast negotiation (IEEE 1588 section 16.1).
type Config struct {
	// Masters is the unicast master table: these are asked for service.
	Masters  []transport.Addr
	Duration uint32 // asked for, in s; 0 is 300
	LogQuery int8   // between requests that are not answered, log2 of seconds
	// Listen grants what others ask for, within Limits.
	Listen bool
	Limits Limits
}

func (c *Config) requester(log [numServices]int8) RequesterConfig {
	return RequesterConfig{Masters: c.Masters, Duration: c.Duration, LogQuery: c.LogQuery, Log: log}
}

// Validate tells the first thing that is wrong with c.
func (c *Config) Validate() error {
	if c.Listen {
		if err := c.Limits.Validate(); err != nil {
			return err
		}
	}
	r := c.requester([numServices]int8{})
	return r.Validate()
}

// NewNegotiation begins a port's negotiation. log are the intervals asked for,
// in the order of the services' bits.
func NewNegotiation(c *Config, log [4]int8, port Port) (n *Negotiation, err error) {
	n = &Negotiation{port: port, next: frame.Never, seqs: map[Client]*[2]uint16{}, clients: c.Limits.Clients}
	if len(c.Masters) > 0 {
		if n.requester, err = NewRequester(c.requester(log), port); err != nil {
			return nil, err
		}
	}
	if c.Listen {
		n.grantor, err = NewGrantor(c.Limits, 0, port)
	}
	return n, err
}

// Asks reports whether the port has a table of masters.
func (n *Negotiation) Asks() bool { return n.requester != nil }

// Next is when Poll has something to do.
func (n *Negotiation) Next() frame.Time { return n.next }

// Offer changes what is granted.
func (n *Negotiation) Offer(s Services) {
	if n.grantor != nil {
		n.grantor.Offer(s)
	}
}

// Follow asks the parent for the services given, besides Announces, which all
// masters are asked for.
func (n *Negotiation) Follow(parent transport.Addr, s Services) {
	if n.requester == nil {
		return
	}
	at := n.requester.Find(parent)
	for i := range n.requester.Len() {
		want := Announce
		if i == at {
			want |= s
		}
		n.requester.Want(i, want)
	}
}

// Poll sends what is due to clients, and the negotiation's own messages.
func (n *Negotiation) Poll(now frame.Time) {
	n.next = frame.Never
	if n.grantor != nil {
		for to, t, log, ok := n.grantor.Due(now); ok; to, t, log, ok = n.grantor.Due(now) {
			n.serve(to, t, log)
		}
		n.next = n.grantor.Poll(now)
	}
	if n.requester != nil {
		n.next = min(n.next, n.requester.Poll(now))
	}
}

// serve lets the port send a client the Announce or Sync that is due.
func (n *Negotiation) serve(to Client, t msg.Type, log int8) {
	s := n.seqs[to]
	if s == nil {
		if len(n.seqs) > 2*n.clients {
			clear(n.seqs) // of clients long gone, most of them
		}
		s = new([2]uint16)
		n.seqs[to] = s
	}
	if t == msg.Announce {
		s[0]++
		n.port.Announce(to.Addr, s[0], log)
		return
	}
	s[1]++
	n.port.Sync(to.Addr, s[1], log)
}

// Signaling serves the unicast TLVs of a Signaling message (borrowed) that is
// meant for the port; false if it has none, or nobody for them.
func (n *Negotiation) Signaling(src transport.Addr, m *msg.Message, now frame.Time) bool {
	found := false
	for t, rest, ok := m.TLVs.Next(); ok; t, rest, ok = rest.Next() {
		found = found || t.Type >= msg.TLVRequestUnicast && t.Type <= msg.TLVAckCancelUnicast
	}
	switch {
	case !found:
		return false
	case n.requester != nil && n.requester.Find(src) >= 0:
		n.requester.Signaling(src, m.Source, m.TLVs, now)
	case n.grantor != nil:
		n.grantor.Signaling(src, m.Source, m.TLVs, now)
	default:
		return false
	}
	return true
}

// Refuses reports whether a master's unicast message was not granted. Where
// no masters are asked, none is refused.
func (n *Negotiation) Refuses(src transport.Addr, m *msg.Message) bool {
	return n.requester != nil && m.Flags.Has(msg.FlagUnicast) && !n.requester.Accepts(src, m.Type)
}

// Answers reports whether a request by unicast is to be answered with a
// message of type t. Where nothing is granted, all are.
func (n *Negotiation) Answers(src transport.Addr, m *msg.Message, t msg.Type, now frame.Time) bool {
	if n.grantor == nil || !m.Flags.Has(msg.FlagUnicast) {
		return true
	}
	_, ok := n.grantor.Answer(src, m.Source, t, now)
	return ok
}

// Masters lists the table of masters.
func (n *Negotiation) Masters() []MasterStatus {
	if n.requester == nil {
		return nil
	}
	return n.requester.Masters()
}

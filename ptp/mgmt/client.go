package mgmt

import (
	"time"

	"tapir/ptp/msg"
	"tapir/wire/frame"
)

// DefaultTimeout is how long a Client waits for answers.
const DefaultTimeout = 100 * time.Millisecond

// Client asks servers and collects their answers.
type Client struct {
	Identity msg.PortIdentity // of this client; no clock's
	SdoID    uint16
	Domain   uint8
	Hops     uint8         // how many boundary clocks a request may pass
	Timeout  time.Duration // 0: DefaultTimeout

	seq     uint16
	pending []pending
}

// pending is a request whose answers are awaited.
type pending struct {
	seq   uint16
	id    msg.ManagementID
	until frame.Time
	one   bool // there can be but one answer
}

// Request is what a Client can ask for.
type Request struct {
	Action msg.Action // Get, Set or Command
	ID     msg.ManagementID
	Data   any              // of a Set, as msg.ParseData makes it
	Target msg.PortIdentity // zero: msg.AllPorts
}

// Reply is an answer.
type Reply struct {
	From         msg.PortIdentity
	Sequence     uint16
	Action       msg.Action // Response or Acknowledge
	ID           msg.ManagementID
	Data         any                 // nil if there is none, or its layout is not known
	Error        msg.ManagementError // 0: none
	Text         string              // of the error, if the server has sent one
	Notification bool                // nobody has asked: an event
}

// Append appends the message of r to b. Its answers are expected until the
// timeout after now.
func (c *Client) Append(b []byte, r Request, now frame.Time) []byte {
	if r.Target == (msg.PortIdentity{}) {
		r.Target = msg.AllPorts
	}
	m := msg.Message{Header: msg.Header{
		Type: msg.Management, SdoID: c.SdoID, Domain: c.Domain, Source: c.Identity, Sequence: c.seq,
		Control: msg.Management.Control(), LogInterval: msg.IntervalUnspecified,
	}, Port: r.Target, StartingBoundaryHops: c.Hops, BoundaryHops: c.Hops, Action: r.Action}
	m.TLVs = msg.AppendManagement(nil, r.ID, r.Data)
	timeout := c.Timeout
	if timeout == 0 {
		timeout = DefaultTimeout
	}
	one := r.Target.Clock != msg.AllClocks && (!r.ID.OfPort() || r.Target.Port != 0xffff)
	c.pending = append(c.pending, pending{c.seq, r.ID, now.Add(timeout), one})
	c.seq++
	return m.Append(b)
}

// Receive reads an answer (borrowed), false if b is none for this client.
func (c *Client) Receive(b []byte) (r Reply, ok bool) {
	var m msg.Message
	if m.Parse(b) != nil || m.Type != msg.Management || m.Port != c.Identity || m.SdoID != c.SdoID ||
		m.Domain != c.Domain {
		return r, false
	}
	if m.Action != msg.Response && m.Action != msg.Acknowledge || !r.parse(&m) {
		return Reply{}, false
	}
	r.Notification = !c.answered(&r)
	return r, true
}

// parse reads what m says.
func (r *Reply) parse(m *msg.Message) bool {
	*r = Reply{From: m.Source, Sequence: m.Sequence, Action: m.Action}
	tlv, rest, ok := m.TLVs.Next()
	if !ok || len(rest) != 0 {
		return false
	}
	switch tlv.Type {
	case msg.TLVManagement:
		id, raw, err := msg.ParseManagement(tlv.Value)
		if err != nil {
			return false
		}
		r.ID = id
		if len(raw) == 0 {
			return true
		}
		data, err := msg.ParseData(id, raw)
		if err == nil {
			r.Data = data
		}
		return err == nil || err == msg.ErrManagementID
	case msg.TLVManagementErrorStatus:
		var e msg.ErrorStatus
		if e.Parse(tlv.Value) != nil {
			return false
		}
		r.ID, r.Error, r.Text = e.ID, e.Error, e.Text
		return true
	}
	return false
}

// answered reports whether r is awaited. Notifications have sequenceIds of
// their own.
func (c *Client) answered(r *Reply) bool {
	for i, p := range c.pending {
		if p.seq == r.Sequence && p.id == r.ID {
			if p.one {
				c.pending = append(c.pending[:i], c.pending[i+1:]...)
			}
			return true
		}
	}
	return false
}

// Poll forgets the requests whose time is over, and returns when the next one's
// will be: frame.Never if no answer is awaited.
func (c *Client) Poll(now frame.Time) frame.Time {
	next, kept := frame.Never, c.pending[:0]
	for _, p := range c.pending {
		if p.until > now {
			kept, next = append(kept, p), min(next, p.until)
		}
	}
	c.pending = kept
	return next
}

package unicast

import (
	"fmt"

	"tapir/ptp/msg"
	"tapir/ptp/pace"
	"tapir/ptp/transport"
	"tapir/wire/frame"
	"tapir/wire/timer"
)

// Limits bound what a grantor grants. DefaultLimits are good.
type Limits struct {
	Clients     int    // ports served at a time
	MaxDuration uint32 // s; longer requests are granted this long
	MinLog      int8   // log2 of the shortest interval in s; faster requests are granted at this rate
	MaxLog      int8   // log2 of the longest; slower requests are denied
	// Rate is the number of Announce and Sync messages per second that all
	// clients get together; what exceeds it is denied.
	Rate int
}

// DefaultLimits serves 128 clients for at most an hour, up to 128 messages per
// second each and 8192 together.
func DefaultLimits() Limits {
	return Limits{Clients: 128, MaxDuration: 3600, MinLog: -7, MaxLog: 4, Rate: 8192}
}

// Validate tells the first thing that is wrong with l.
func (l Limits) Validate() error {
	switch {
	case l.MaxDuration == 0:
		return fmt.Errorf("unicast duration: 0 s grants nothing")
	case l.Clients < 1 || l.Clients > 1<<16:
		return fmt.Errorf("unicast clients: %d is not in 1..65536", l.Clients)
	case l.MinLog < -10 || l.MaxLog > 10 || l.MinLog > l.MaxLog:
		return fmt.Errorf("unicast intervals: 2^%d..2^%d s is not within 2^-10..2^10 s", l.MinLog, l.MaxLog)
	case l.Rate < 1 || l.Rate > 1<<24:
		return fmt.Errorf("unicast rate: %d is not in 1..%d messages per second", l.Rate, 1<<24)
	}
	return nil
}

// Client is a port that is granted something.
type Client struct {
	Addr transport.Addr
	Port msg.PortIdentity
}

// grant is one service of one client. It waits in the schedule for its next
// transmission or for its end.
type grant struct {
	client  *client
	service int
	log     int8
	at      frame.Time
	expires frame.Time
	timer   timer.Entry[*grant]
	load    int64 // of Limits.Rate, in 2^-10 messages per second
	answers int   // that may still be sent in this interval
	refill  frame.Time
}

type client struct {
	Client
	grants [numServices]*grant
}

func (c *client) empty() bool {
	return c.grants == [numServices]*grant{}
}

// GrantorStats counts what a grantor saw.
type GrantorStats struct {
	Granted, Renewed, Denied, Expired, Cancelled, Unexpected, Malformed, TooFast uint64
	Lost                                                                         uint64 // answers that found no place
}

// reply is a Signaling message that waits for Poll.
type reply struct {
	to   Client
	tlvs []byte
}

// maxReplies bounds the Signaling messages that wait.
const maxReplies = 64

// Grantor answers requests of unicast transmission.
type Grantor struct {
	limits   Limits
	lower    Lower
	offered  Services
	clients  map[Client]*client
	schedule timer.Heap[*grant]
	load     int64 // granted of Limits.Rate, in 2^-10 messages per second
	order    uint64
	replies  []reply
	stats    GrantorStats
}

// NewGrantor returns a grantor of the services offered.
func NewGrantor(limits Limits, offered Services, lower Lower) (*Grantor, error) {
	if err := limits.Validate(); err != nil {
		return nil, err
	}
	return &Grantor{limits: limits, lower: lower, offered: offered, clients: map[Client]*client{}}, nil
}

// Offer changes the services that are granted from now on: a port that is not
// master offers neither Announce nor Sync. Grants of what is no longer offered
// are cancelled; the next Poll tells the clients.
func (g *Grantor) Offer(offered Services) {
	g.offered = offered
	for gr := g.unoffered(); gr != nil; gr = g.unoffered() {
		g.end(gr)
		g.reply(gr.client.Client, (&msg.CancelUnicast{Type: types[gr.service]}).Append(nil, msg.TLVCancelUnicast))
	}
}

// unoffered is a grant of what is no longer offered, nil if there is none.
func (g *Grantor) unoffered() *grant {
	for gr := range g.schedule.All() {
		if g.offered&(1<<gr.service) == 0 {
			return gr
		}
	}
	return nil
}

// Signaling takes in the TLVs (borrowed) of a Signaling message that came from
// src and is meant for this port. The answer leaves at the next Poll.
func (g *Grantor) Signaling(src transport.Addr, from msg.PortIdentity, tlvs msg.TLVs, now frame.Time) {
	who := Client{src, from}
	if from == msg.AllPorts || from == (msg.PortIdentity{}) {
		g.stats.Unexpected++
		return
	}
	var answer []byte
	seen := 0
	for tlv := range tlvs.All() {
		if seen++; seen > 2*numServices {
			g.stats.Unexpected++ // more than there are services
			break
		}
		switch tlv.Type {
		case msg.TLVRequestUnicast:
			answer = g.request(who, tlv.Value, answer, now)
		case msg.TLVCancelUnicast:
			answer = g.cancel(who, tlv.Value, answer)
		case msg.TLVAckCancelUnicast, msg.TLVGrantUnicast: // a port may be both
		}
	}
	if answer != nil {
		g.reply(who, answer)
	}
}

func (g *Grantor) reply(to Client, tlvs []byte) {
	if len(g.replies) == maxReplies {
		g.stats.Lost++
		return
	}
	g.replies = append(g.replies, reply{to, tlvs})
}

func (g *Grantor) request(who Client, value, answer []byte, now frame.Time) []byte {
	var req msg.RequestUnicast
	if req.Parse(value) != nil {
		g.stats.Malformed++
		return answer
	}
	a := msg.GrantUnicast{Type: req.Type, LogInterval: req.LogInterval}
	if s, ok := serviceIndex(req.Type); ok && g.offered&(1<<s) != 0 && req.Duration > 0 &&
		req.LogInterval <= g.limits.MaxLog {
		a.LogInterval = max(req.LogInterval, g.limits.MinLog)
		if d := min(req.Duration, g.limits.MaxDuration); g.grant(who, s, a.LogInterval, d, now) {
			a.Duration, a.Renewal = d, true
		}
	}
	if a.Duration == 0 {
		g.stats.Denied++
	}
	return a.Append(answer)
}

// loadOf is what a service takes of Limits.Rate.
func loadOf(service int, log int8) int64 {
	if s := Services(1) << service; s != Announce && s != Sync {
		return 0 // paid for by the client's own messages
	}
	return int64(1) << (10 - int(log))
}

// grant books a service; false if a limit forbids it.
func (g *Grantor) grant(who Client, s int, log int8, duration uint32, now frame.Time) bool {
	c := g.clients[who]
	var gr *grant
	if c != nil {
		gr = c.grants[s]
	}
	load, before := loadOf(s, log), int64(0)
	if gr != nil {
		before = gr.load
	}
	if g.load-before+load > int64(g.limits.Rate)<<10 || c == nil && len(g.clients) >= g.limits.Clients {
		return false
	}
	g.load += load - before
	if c == nil {
		c = &client{Client: who}
		g.clients[who] = c
	}
	if gr != nil {
		g.stats.Renewed++
		if gr.log != log {
			gr.answers, gr.refill = 0, now
		}
	} else {
		g.stats.Granted++
		g.order++
		gr = &grant{client: c, service: s, at: now, refill: now}
		gr.timer = timer.Entry[*grant]{Owner: gr, ID: g.order}
		c.grants[s] = gr
	}
	gr.log, gr.load, gr.expires = log, load, now.Add(seconds(duration))
	gr.at = min(gr.at, now.Add(pace.Period(log)), gr.expires)
	if !gr.sends() {
		gr.at = gr.expires
	}
	g.schedule.Set(&gr.timer, gr.at)
	return true
}

// sends reports whether the service is one of messages on a schedule.
func (gr *grant) sends() bool { return Services(1)<<gr.service&(Announce|Sync) != 0 }

// end takes a grant back.
func (g *Grantor) end(gr *grant) {
	g.schedule.Remove(&gr.timer)
	g.load -= gr.load
	gr.client.grants[gr.service] = nil
	if gr.client.empty() {
		delete(g.clients, gr.client.Client)
	}
}

func (g *Grantor) cancel(who Client, value, answer []byte) []byte {
	var c msg.CancelUnicast
	if c.Parse(value) != nil {
		g.stats.Malformed++
		return answer
	}
	s, ok := serviceIndex(c.Type)
	if !ok {
		g.stats.Unexpected++
		return answer
	}
	if cl := g.clients[who]; cl != nil && cl.grants[s] != nil {
		g.end(cl.grants[s])
		g.stats.Cancelled++
	}
	// Acknowledged in any case: an acknowledgement may have been lost.
	return (&msg.CancelUnicast{Type: c.Type}).Append(answer, msg.TLVAckCancelUnicast)
}

// Due returns the next Announce or Sync that has to be sent by now, false if
// there is none. A message that is late by more than its interval is not made
// up for.
func (g *Grantor) Due(now frame.Time) (to Client, t msg.Type, log int8, ok bool) {
	for gr, ok := g.schedule.Pop(now); ok; gr, ok = g.schedule.Pop(now) {
		if now >= gr.expires {
			g.stats.Expired++
			g.end(gr)
			continue
		}
		p := pace.Period(gr.log)
		if gr.at = gr.at.Add(p); gr.at <= now {
			gr.at = now.Add(p)
		}
		gr.at = min(gr.at, gr.expires)
		g.schedule.Set(&gr.timer, gr.at)
		return gr.client.Client, types[gr.service], gr.log, true
	}
	return Client{}, 0, 0, false
}

// Answer reports whether a Delay_Req or Pdelay_Req from a port is to be
// answered with t, msg.DelayResp or msg.PdelayResp, and the interval granted,
// as log2 of seconds. Requests at more than twice the granted rate are not.
func (g *Grantor) Answer(src transport.Addr, from msg.PortIdentity, t msg.Type, now frame.Time) (log int8, ok bool) {
	s, known := serviceIndex(t)
	c := g.clients[Client{src, from}]
	if !known || c == nil || c.grants[s] == nil || now >= c.grants[s].expires {
		return 0, false
	}
	const burst, perInterval = 4, 2
	gr := c.grants[s]
	if now >= gr.refill {
		gaps := 1 + int64(now.Sub(gr.refill)/pace.Period(gr.log))
		gr.answers = int(min(burst, int64(gr.answers)+perInterval*gaps))
		gr.refill = now.Add(pace.Period(gr.log))
	}
	if gr.answers == 0 {
		g.stats.TooFast++
		return 0, false
	}
	gr.answers--
	return gr.log, true
}

// Poll sends the answers that wait and returns when Due has the next message.
// Call it after Due has said that there is none.
func (g *Grantor) Poll(now frame.Time) frame.Time {
	for i := range g.replies {
		g.lower.Signal(g.replies[i].to.Addr, g.replies[i].to.Port, g.replies[i].tlvs)
		g.replies[i] = reply{}
	}
	g.replies = g.replies[:0]
	return g.schedule.Next()
}

// Stats are the counters.
func (g *Grantor) Stats() GrantorStats { return g.stats }

// Granted is what a client holds.
func (g *Grantor) Granted(src transport.Addr, from msg.PortIdentity) (s Services) {
	if c := g.clients[Client{src, from}]; c != nil {
		for i, gr := range c.grants {
			if gr != nil {
				s |= 1 << i
			}
		}
	}
	return s
}

// Clients is the number of ports that hold something.
func (g *Grantor) Clients() int { return len(g.clients) }

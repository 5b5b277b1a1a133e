package station

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"tapir/lab/topo/ping"
	"tapir/wire/drop"
	"tapir/wire/frame"
	"tapir/wire/icmp"
	"tapir/wire/ip"
)

// Exit codes of ping.
const (
	pingFound = 0
	pingNone  = 1
	pingError = 2
)

// Ping is a ping that runs, or has ended.
type Ping struct {
	host  *Host
	opt   ping.Options
	say   func(line string)
	id    uint16
	from  netip.Addr
	begun frame.Time
	next  frame.Time // when the next request is due
	last  frame.Time // when one was sent, or answered
	sent  []request  // by sequence number, from 1

	received, twice, errors int
	rtt                     struct{ low, high, sum, squares int64 } // microseconds

	ended bool
	code  int
}

type request struct {
	at       frame.Time
	answered bool
}

// Ping starts a ping, which says what ping(8) does, a line at a time. Poll has
// to be called.
func (h *Host) Ping(o ping.Options, now frame.Time, say func(line string)) *Ping {
	h.pingID++
	p := &Ping{host: h, opt: o, say: say, id: h.pingID, begun: now, next: now, last: now}
	out, from := h.route(o.To)
	if p.from = from; h.mine(o.To) {
		p.from = o.To
	}
	if out == nil {
		say("ping: connect: Network is unreachable")
		p.ended, p.code = true, pingError
		return p
	}
	if o.To.Is4() {
		say(fmt.Sprintf("PING %v (%v) %d(%d) bytes of data.", o.To, o.To, o.Size, o.Size+ip.HeaderLen4+icmp.HeaderLen))
	} else {
		say(fmt.Sprintf("PING %v(%v) %d data bytes", o.To, o.To, o.Size))
	}
	h.pings = append(h.pings, p)
	return p
}

// HasEnded tells whether the ping has ended.
func (p *Ping) HasEnded() bool { return p.ended }

// ExitCode is that of a ping that has ended.
func (p *Ping) ExitCode() int { return p.code }

// Kill ends it without another word.
func (p *Ping) Kill() {
	p.ended, p.code = true, pingNone
	p.host.pings = slices.DeleteFunc(p.host.pings, func(x *Ping) bool { return x == p })
}

// poll sends what is due, or ends; as in iputils a ping with a deadline ends by
// so many replies, and one without by so many requests.
func (p *Ping) poll(now frame.Time) frame.Time {
	o := &p.opt
	deadline := frame.Never
	if o.Deadline > 0 {
		deadline = p.begun.Add(o.Deadline)
	}
	all := o.Count > 0 && p.received+p.errors >= o.Count
	if p.ended || all || now >= deadline || o.Deadline > 0 && p.errors > 0 {
		return p.finish(now)
	}
	if o.Deadline == 0 && len(p.sent) == o.Count {
		if end := p.last.Add(p.linger()); now < end {
			return end
		}
		return p.finish(now)
	}
	if now >= p.next {
		p.next = now.Add(o.Interval)
		p.request(now)
		if p.errors > 0 {
			return now
		}
	}
	return min(p.next, deadline)
}

// linger is how long to wait for the last replies.
func (p *Ping) linger() time.Duration {
	const patience = 10 * time.Second
	switch {
	case p.opt.Linger > 0:
		return p.opt.Linger
	case p.received == 0:
		return patience
	}
	return max(2*time.Duration(p.rtt.high)*time.Microsecond, p.opt.Interval)
}

// request sends the next echo request.
func (p *Ping) request(now frame.Time) {
	p.last = now
	p.sent = append(p.sent, request{at: now})
	version, head := uint8(4), ip.HeaderLen4
	if p.opt.To.Is6() {
		version, head = 6, ip.HeaderLen6
	}
	if out, _ := p.host.route(p.opt.To); out != nil && head+icmp.HeaderLen+p.opt.Size > out.MTU {
		p.errors++
		p.say(fmt.Sprintf("ping: local error: message too long, mtu=%d", out.MTU))
		return
	}
	data := make([]byte, p.opt.Size)
	for i := range data {
		data[i] = byte(i)
	}
	echo, _ := echoTypes(version)
	p.host.send(p.from, p.opt.To, uint8(p.opt.TTL), icmp.Echo(echo, p.id, uint16(len(p.sent)), data), now)
}

// find is the ping of a message, and the request that it answers.
func (h *Host) find(m *icmp.Message) (*Ping, *request) {
	for _, p := range h.pings {
		if n := len(p.sent) - (len(p.sent)-int(m.EchoSeq()))&0xffff; p.id == m.EchoID() && n >= 1 {
			return p, &p.sent[n-1]
		}
	}
	return nil, nil
}

// replied takes an echo reply.
func (h *Host) replied(from *ip.Header, m *icmp.Message, now frame.Time) frame.DropReason {
	p, r := h.find(m)
	if p == nil {
		return drop.Unused
	}
	us := int64(now.Sub(r.at) / time.Microsecond)
	note := ""
	if r.answered {
		p.twice++
		note = " (DUP!)"
	} else {
		p.count(us)
		p.last = now
	}
	r.answered = true
	if !p.opt.Quiet {
		p.say(fmt.Sprintf("%d bytes from %v: icmp_seq=%d ttl=%d time=%s ms%s", icmp.HeaderLen+len(m.Body), from.Src,
			m.EchoSeq(), from.TTL, short(us), note))
	}
	return frame.DropNone
}

func (p *Ping) count(us int64) {
	if p.received++; p.received == 1 {
		p.rtt.low = us
	}
	p.rtt.low, p.rtt.high = min(p.rtt.low, us), max(p.rtt.high, us)
	p.rtt.sum += us
	p.rtt.squares += us * us
}

// unreachable tells of a request whose neighbor does not answer.
func (h *Host) unreachable(from *ip.Header, b []byte) {
	m, err := icmp.Parse(b)
	if echo, _ := echoTypes(from.Version); err != nil || m.Type != echo {
		return
	}
	if p, r := h.find(&m); p != nil && !r.answered {
		r.answered = true
		p.errors++
		p.say(fmt.Sprintf("From %v icmp_seq=%d Destination Host Unreachable", from.Src, m.EchoSeq()))
	}
}

// finish says how it was.
func (p *Ping) finish(now frame.Time) frame.Time {
	if p.ended {
		return frame.Never
	}
	p.ended = true
	if p.received == 0 || p.opt.Deadline > 0 && p.received < p.opt.Count {
		p.code = pingNone
	}
	more := ""
	if p.twice > 0 {
		more += fmt.Sprintf(", +%d duplicates", p.twice)
	}
	if p.errors > 0 {
		more += fmt.Sprintf(", +%d errors", p.errors)
	}
	lost := strconv.FormatFloat(float64(len(p.sent)-p.received)*100/float64(len(p.sent)), 'g', 6, 64)
	p.say("")
	p.say(fmt.Sprintf("--- %v ping statistics ---", p.opt.To))
	p.say(fmt.Sprintf("%d packets transmitted, %d received%s, %s%% packet loss, time %dms", len(p.sent), p.received,
		more, lost, now.Sub(p.begun).Milliseconds()))
	if n := int64(p.received); n > 0 {
		mean := p.rtt.sum / n
		spread := int64(math.Sqrt(float64((p.rtt.squares - p.rtt.sum*p.rtt.sum/n) / n)))
		p.say(fmt.Sprintf("rtt min/avg/max/mdev = %s/%s/%s/%s ms", milli(p.rtt.low), milli(mean), milli(p.rtt.high),
			milli(spread)))
	}
	return frame.Never
}

func milli(us int64) string { return fmt.Sprintf("%d.%03d", us/1000, us%1000) }

// short is a time in milliseconds with three digits or more.
func short(us int64) string {
	digits := 3
	switch {
	case us >= 100_000:
		digits = 0
	case us >= 10_000:
		digits = 1
	case us >= 1000:
		digits = 2
	}
	return strings.TrimSuffix(milli(us)[:len(milli(us))-3+digits], ".")
}

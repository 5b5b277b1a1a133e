package fcoe

import (
	"fmt"
	"time"

	"tapir/wire/ether"
	"tapir/wire/fc"
	"tapir/wire/fip"
	"tapir/wire/frame"
)

// exchange is one that the node has originated.
type exchange struct {
	port    *Port
	to      fc.ID
	oxid    uint16
	timer   alarm
	request *Request // of FCP; nil: done gets the reply
	// done gets the reply; without one in time h is nil.
	done func(h *fc.Header, payload []byte, now frame.Time)
}

// newExchange takes an OX_ID. Those that were used last are the last to be used again, so
// that what comes late belongs to nothing.
func (p *Port) newExchange(to fc.ID) *exchange {
	n := p.n
	for {
		if n.oxid++; n.oxid == fc.NoID {
			n.oxid = 0
		}
		if n.exchanges[n.oxid] == nil {
			break
		}
	}
	x := &exchange{port: p, to: to, oxid: n.oxid}
	n.exchanges[x.oxid] = x
	return x
}

// endExchange forgets an exchange.
func (n *Node) endExchange(x *exchange) {
	n.cancel(&x.timer)
	delete(n.exchanges, x.oxid)
}

// open begins an exchange of one request and its reply, which done gets within a time.
func (p *Port) open(to fc.ID, within time.Duration, now frame.Time,
	done func(h *fc.Header, payload []byte, now frame.Time)) *exchange {
	x := p.newExchange(to)
	x.done = done
	p.n.set(&x.timer, now.Add(within), func(now frame.Time) {
		p.n.stats[Timeouts]++
		p.n.endExchange(x)
		done(nil, nil, now)
	})
	return x
}

// header is that of a request in an exchange.
func (x *exchange) header(r fc.RCtl, y fc.Type) fc.Header {
	return fc.Header{RCtl: r, D: x.to, S: x.port.id, Type: y, FCtl: fc.Request, OXID: x.oxid, RXID: fc.NoID}
}

// request sends an extended link service or a query; done gets the reply.
func (p *Port) request(to fc.ID, r fc.RCtl, y fc.Type, payload []byte, now frame.Time,
	done func(h *fc.Header, payload []byte, now frame.Time)) {
	x := p.open(to, edTOV, now, done)
	p.frame(p.n.macOf(to), x.header(r, y), payload)
}

// els sends an extended link service.
func (p *Port) service(to fc.ID, payload []byte, now frame.Time,
	done func(h *fc.Header, payload []byte, now frame.Time)) {
	p.request(to, fc.ELSRequest, fc.TypeELS, payload, now, done)
}

// login sends FLOGI, FDISC or LOGO by FIP to an address.
func (p *Port) login(kind fip.Kind, dst ether.Addr, to fc.ID, payload []byte, now frame.Time,
	done func(h *fc.Header, payload []byte, now frame.Time)) {
	x := p.open(to, edTOV, now, done)
	h := x.header(fc.ELSRequest, fc.TypeELS)
	if kind == fip.FDISC || !p.n.cfg.VN2VN && kind == fip.FLOGI {
		h.S = 0
	}
	m := fip.Message{Op: fip.Request, Login: kind, MAC: p.mac, Frame: h.AppendFrame(nil, payload)}
	if !p.n.cfg.VN2VN {
		m.Flags = fip.FPMA
	}
	if h.S == 0 {
		m.MAC = ether.Addr{}
	}
	m.Set(fip.MAC)
	p.n.sendFIP(p.n.cfg.MAC, dst, m.AppendTo(nil))
}

// reply answers a link service of a port and ends its exchange.
func (p *Port) reply(h *fc.Header, payload []byte) {
	p.frame(p.n.macOf(h.S), h.ReplyTo(fc.ELSReply), payload)
}

// reject refuses a link service.
func (p *Port) reject(h *fc.Header, r fc.Reason, e fc.Explanation) {
	p.n.stats[RejectsSent]++
	p.reply(h, fc.AppendReject(nil, r, e))
}

// accepted tells that a reply is an acceptance; it counts the others.
func (p *Port) accepted(h *fc.Header, payload []byte) bool {
	if h == nil {
		return false
	}
	if fc.Command(payload) == fc.LSACC {
		return true
	}
	p.n.stats[RejectsReceived]++
	if r, e, err := fc.ParseReject(payload); err == nil {
		p.refused = Refusal{r, e}
	}
	return false
}

// Refusal is why a link service was refused.
type Refusal struct {
	Reason      fc.Reason
	Explanation fc.Explanation
}

// String is both.
func (r Refusal) String() string { return fmt.Sprintf("%v, %v", r.Reason, r.Explanation) }

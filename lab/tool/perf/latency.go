package perf

import (
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// pingPong is the latency test as perftest has it, of Sends, or of Writes, for
// which each side polls the last octet of its buffer for the round's number.
type pingPong struct {
	side
	writes   bool
	round    int64
	sent     frame.Time
	deadline frame.Time
}

func (p *pingPong) prepare(c *conn) error {
	if p.writes {
		return nil
	}
	return c.recvData(2, p.run.job.Size)
}

func (p *pingPong) begin(now frame.Time) error {
	p.deadline = p.run.deadline(now)
	if p.writes {
		p.run.cancelPoller = p.run.dev.AddPoller(p.poll)
	}
	if p.client {
		return p.ping(now)
	}
	return nil
}

// ping sends the next round.
func (p *pingPong) ping(now frame.Time) error {
	p.round++
	p.sent = now
	c, size := p.run.conns[0], p.run.job.Size
	wr := verbs.SendWR{ID: idData, Opcode: verbs.OpSend, Flags: verbs.Solicited,
		SGEs: []verbs.SGE{p.run.sourceSGE(size)}}
	if p.writes {
		p.run.source()[size-1] = byte(p.round)
		wr.Opcode, wr.Flags, wr.RemoteAddr, wr.RKey = verbs.OpWrite, 0, c.remote.Addr, c.remote.STag
	}
	_, err := c.qp.PostSend(wr)
	return err
}

// pong takes what the peer has sent. The client has then finished a round trip,
// after which another may follow; the server sends the same back.
func (p *pingPong) pong(now frame.Time) error {
	r := p.run
	if p.client {
		r.lat.add(now.Sub(p.sent) / 2)
	}
	r.moved(r.job.Size)
	if p.client {
		r.note(now)
		if now >= p.deadline || r.job.Iters > 0 && r.messages >= r.job.Iters {
			r.finish(nil, now)
			return nil
		}
	}
	return p.ping(now)
}

// poll looks for the peer's Write: the client waits for the echo of its own
// round, the server for the next one.
func (p *pingPong) poll(now frame.Time) {
	want := p.round
	if !p.client {
		want++
	}
	if !p.run.ended && want != 0 && p.run.target()[p.run.job.Size-1] == byte(want) {
		p.run.check(p.pong(now), now)
	}
}

func (p *pingPong) complete(c *conn, wc *verbs.WC, now frame.Time) error {
	if p.writes || wc.Opcode != verbs.WCRecv {
		return nil
	}
	if err := c.recvData(1, p.run.job.Size); err != nil {
		return err
	}
	return p.pong(now)
}

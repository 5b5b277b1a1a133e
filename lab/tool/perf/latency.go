package perf

import (
	"errors"

	"tapir/nic/verbs"
	"tapir/wire/frame"
)

var errServerLeft = errors.New("the server closed the connection during the test")

// pace is what both ping-pongs share: the client's count of round trips.
type pace struct {
	round    int64
	sent     frame.Time
	deadline frame.Time
}

func (p *pace) start(r *Run, now frame.Time) {
	p.deadline = frame.Never
	if d := r.job.Duration; d > 0 {
		p.deadline = now.Add(d)
	}
}

// back books a finished round trip and tells whether another follows.
func (p *pace) back(r *Run, now frame.Time) bool {
	r.lat.add(now.Sub(p.sent) / 2)
	r.messages++
	r.bytes += int64(r.job.Size)
	r.note(now)
	return now < p.deadline && (r.job.Iters == 0 || r.messages < r.job.Iters)
}

// writePingPong is the Write latency test as perftest has it: each side
// polls the last octet of its buffer for the round's number.
type writePingPong struct {
	run    *Run
	client bool
	pace
}

func (w *writePingPong) prepare(*conn) error { return nil }

func (w *writePingPong) begin(now frame.Time) error {
	w.start(w.run, now)
	w.run.cancelPoller = w.run.dev.AddPoller(w.poll)
	if w.client {
		return w.write(now)
	}
	return nil
}

// write sends the next round.
func (w *writePingPong) write(now frame.Time) error {
	w.round++
	w.sent = now
	size := w.run.job.Size
	w.run.source()[size-1] = byte(w.round)
	c := w.run.conns[0]
	_, err := c.qp.PostSend(verbs.SendWR{
		ID: idData, Opcode: verbs.OpWrite, SGEs: []verbs.SGE{w.run.sourceSGE(size)},
		RemoteAddr: c.remote.Addr, RKey: c.remote.STag,
	})
	return err
}

// poll looks for the peer's Write: the client waits for the echo of its own
// round, the server for the next one.
func (w *writePingPong) poll(now frame.Time) {
	want := w.round
	if !w.client {
		want++
	}
	if w.run.ended || want == 0 || w.run.target()[w.run.job.Size-1] != byte(want) {
		return
	}
	if w.client && !w.back(w.run, now) {
		w.run.finish(nil, now)
		return
	}
	if !w.client {
		w.run.messages++
		w.run.bytes += int64(w.run.job.Size)
	}
	if err := w.write(now); err != nil {
		w.run.finish(err, now)
	}
}

func (w *writePingPong) complete(*conn, *verbs.WC, frame.Time) error { return nil }

func (w *writePingPong) closed(frame.Time) error {
	if w.client {
		return errServerLeft
	}
	return nil
}

// sendPingPong is the Send latency test.
type sendPingPong struct {
	run    *Run
	client bool
	pace
}

func (s *sendPingPong) prepare(c *conn) error {
	for range 2 {
		if err := s.recv(c); err != nil {
			return err
		}
	}
	return nil
}

func (s *sendPingPong) recv(c *conn) error {
	_, err := c.qp.PostRecv(verbs.RecvWR{ID: idData, SGEs: []verbs.SGE{s.run.targetSGE(s.run.job.Size)}})
	return err
}

func (s *sendPingPong) begin(now frame.Time) error {
	s.start(s.run, now)
	if s.client {
		return s.send(s.run.conns[0], now)
	}
	return nil
}

func (s *sendPingPong) send(c *conn, now frame.Time) error {
	s.sent = now
	_, err := c.qp.PostSend(verbs.SendWR{
		ID: idData, Opcode: verbs.OpSend, Flags: verbs.Solicited, SGEs: []verbs.SGE{s.run.sourceSGE(s.run.job.Size)},
	})
	return err
}

func (s *sendPingPong) complete(c *conn, wc *verbs.WC, now frame.Time) error {
	if wc.Opcode != verbs.WCRecv {
		return nil
	}
	if err := s.recv(c); err != nil {
		return err
	}
	if s.client && !s.back(s.run, now) {
		s.run.finish(nil, now)
		return nil
	}
	if !s.client {
		s.run.messages++
		s.run.bytes += int64(wc.ByteLen)
	}
	return s.send(c, now)
}

func (s *sendPingPong) closed(frame.Time) error {
	if s.client {
		return errServerLeft
	}
	return nil
}

package umad

import (
	"time"

	"tapir/opa/rmpp"
	"tapir/wire/frame"
	"tapir/wire/ib"
)

// segments is the part of an exchange that comes, or leaves, in segments.
type segments struct {
	in   rmpp.Receiver
	last time.Time // a segment came; zero: none has
	acks chan []byte
}

// segmented tells whether a datagram is a segment or its acknowledgement.
func segmented(b []byte) bool {
	whole := b[0] == 1 && len(b) == ib.MADLen || b[0] == ib.BaseVersionOPA && len(b) >= ib.MADLen
	return whole && !subnet(b[offClass]) && ib.ParseRMPP(b).Flags&ib.RMPPActive != 0
}

// segmented tells whether the message of x leaves in segments.
func (x *exchange) segmented() bool {
	return x.agent.rmpp && segmented(x.mad[:ib.MADLen])
}

// segmentTime is how long the next segment of a response may take.
func (f *file) segmentTime() time.Duration { return 2 * time.Second }

// progress tells whether a segment came within d.
func (s *segments) progress(d time.Duration) bool {
	return !s.last.IsZero() && time.Since(s.last) < d
}

// segment takes a segment of the response to x, or an acknowledgement of its own.
func (f *file) segment(x *exchange, from Address, b []byte) bool {
	h := ib.ParseRMPP(b)
	if h.Type != ib.RMPPData {
		if x.segments.acks == nil {
			return false
		}
		select {
		case x.segments.acks <- b:
		default: // the sender repeats
		}
		return true
	}
	if !ib.IsResponse(b) {
		return false
	}
	x.segments.last = time.Now()
	ack, done := x.segments.in.Take(b)
	if ack != nil {
		back := x.to
		back.LID, back.SL = from.LID, from.SL
		go f.link.Send(back, ack) // the file is locked
	}
	if done {
		x.deliver(from, x.segments.in.Message())
	}
	return true
}

// sendSegments sends the message of x until it is acknowledged, or the file is
// released, or nobody answers.
func (f *file) sendSegments(x *exchange) {
	s := rmpp.NewSender(x.mad)
	acks := make(chan []byte, rmpp.Window)
	f.mu.Lock()
	x.segments.acks = acks
	f.mu.Unlock()
	begun := time.Now()
	now := func() frame.Time { return frame.Time(time.Since(begun)) + 1 }
	for !s.Done() {
		next := s.Poll(now(), func(b []byte) { f.link.Send(x.to, b) })
		if s.Done() {
			return
		}
		wait := time.NewTimer(next.Sub(now()))
		select {
		case b := <-acks:
			s.Take(b)
		case <-wait.C:
		case <-f.ctx.Done():
			wait.Stop()
			return
		}
		wait.Stop()
	}
}

package pairing

import (
	"tapir/ptp/msg"
	"tapir/wire/frame"
)

// Requests are the Delay_Req of a slave that wait for their stamp and their
// answer: the last eight.
type Requests struct{ list [8]request }

type request struct {
	seq            uint16
	open           bool
	sent, answered bool
	Exchange
}

// Exchange is a Delay_Req with its answer.
type Exchange struct {
	T3, T4     frame.Stamp
	Correction msg.TimeInterval // of the Delay_Resp
}

func (r *Requests) find(seq uint16) *request {
	if e := &r.list[seq%uint16(len(r.list))]; e.open && e.seq == seq {
		return e
	}
	return nil
}

// Begin notes a request; false if one that it takes the place of was never
// answered.
func (r *Requests) Begin(seq uint16) bool {
	e := &r.list[seq%uint16(len(r.list))]
	answered := !e.open
	*e = request{seq: seq, open: true}
	return answered
}

// Sent takes the stamp of a request. It may come behind the answer.
func (r *Requests) Sent(seq uint16, t3 frame.Stamp) (Exchange, Result) {
	e := r.find(seq)
	if e == nil {
		return Exchange{}, Unknown
	}
	e.T3, e.sent = t3, true
	return e.complete()
}

// Answered takes an answer: when the request came, and its correction.
func (r *Requests) Answered(seq uint16, t4 frame.Stamp, corr msg.TimeInterval) (Exchange, Result) {
	e := r.find(seq)
	switch {
	case e == nil:
		return Exchange{}, Unknown
	case e.answered:
		return Exchange{}, Duplicate
	}
	e.T4, e.Correction, e.answered = t4, corr, true
	return e.complete()
}

func (e *request) complete() (Exchange, Result) {
	if !e.sent || !e.answered {
		return Exchange{}, Waiting
	}
	e.open = false
	return e.Exchange, Done
}

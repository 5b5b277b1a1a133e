// Package pdelay measures the delay and the rate ratio of one link by the peer
// delay mechanism (IEEE 1588-2019 section 11.4): the initiator's half. It sends
// nothing and owns no clock; ports of ordinary, boundary and peer-to-peer
// transparent clocks use it.
package pdelay

import (
	"math"

	"tapir/ptp/msg"
	"tapir/wire/frame"
)

// Result tells what a message or stamp did to an exchange.
type Result uint8

const (
	Waiting   Result = iota // more is to come
	Done                    // the exchange is complete: Measured has a value
	Stale                   // not of the exchange under way
	Repeated                // a duplicate from the same responder
	Ambiguous               // another responder on the same link
	Invalid                 // a time that cannot be
)

// Measured is the outcome of one exchange.
type Measured struct {
	Delay     msg.TimeInterval // mean link delay in the initiator's time
	RateRatio float64          // frequency of the neighbor over ours, 1 if unknown
	RatioOK   bool             // RateRatio has been measured
	Peer      msg.PortIdentity // who answered
}

// Initiator measures one link. The zero value is ready.
type Initiator struct {
	seq     uint16
	open    bool // an exchange is under way
	sent    bool // t1 is known
	got     bool // a Pdelay_Resp came
	twoStep bool
	fup     bool // its Follow_Up came
	t1, t4  frame.Stamp
	t2, t3  frame.Stamp // valid in two steps; in one only their difference is, in turn
	corr    msg.TimeInterval
	peer    msg.PortIdentity
	held    heldFollowUp
	severe  bool // more than one responder in this exchange

	lost     int // exchanges in a row without an answer
	multiple int // exchanges in a row with several
	last     Measured
	ratio    ratio
}

// heldFollowUp is a Pdelay_Resp_Follow_Up that overtook its response.
type heldFollowUp struct {
	valid bool
	from  msg.PortIdentity
	t3    frame.Stamp
	corr  msg.TimeInterval
}

// Begin starts an exchange and returns its sequenceId. One that is still open
// is lost.
func (in *Initiator) Begin() uint16 {
	if in.open {
		in.lost++
	}
	if in.severe {
		in.multiple++
	} else {
		in.multiple = 0
	}
	lost, multiple, last, r, seq := in.lost, in.multiple, in.last, in.ratio, in.seq+1
	*in = Initiator{seq: seq, open: true, lost: lost, multiple: multiple, last: last, ratio: r}
	return seq
}

// Lost is how many exchanges in a row had no answer.
func (in *Initiator) Lost() int { return in.lost }

// Multiple is how many exchanges in a row had several answers.
func (in *Initiator) Multiple() int { return in.multiple }

// Last is the last complete measurement.
func (in *Initiator) Last() Measured { return in.last }

// Reset forgets the exchange under way and the rate ratio, as after a step of
// the clock.
func (in *Initiator) Reset() {
	in.open, in.sent, in.got, in.fup, in.held = false, false, false, false, heldFollowUp{}
	in.ratio = ratio{}
}

// Sent takes the stamp t1 of the Pdelay_Req.
func (in *Initiator) Sent(seq uint16, t1 frame.Stamp) Result {
	if !in.open || seq != in.seq || in.sent {
		return Stale
	}
	in.t1, in.sent = t1, true
	return in.finish()
}

// Response takes a Pdelay_Resp to the request and its stamp t4. asymmetry is
// the port's delayAsymmetry.
func (in *Initiator) Response(m *msg.Message, t4 frame.Stamp, asymmetry msg.TimeInterval) Result {
	if m.Sequence != in.seq || !in.open && !in.got {
		return Stale
	}
	if in.got {
		if m.Source == in.peer {
			return Repeated
		}
		in.severe, in.open = true, false
		return Ambiguous
	}
	t2, ok := m.Timestamp.Stamp()
	if !ok {
		return Invalid
	}
	in.got, in.peer, in.t4, in.t2, in.t3 = true, m.Source, t4, t2, t2
	in.twoStep = m.Flags.Has(msg.FlagTwoStep)
	in.corr = m.Correction.Add(asymmetry)
	if in.held.valid && in.held.from == in.peer {
		in.take(in.held.t3, in.held.corr)
	}
	return in.finish()
}

// FollowUp takes a Pdelay_Resp_Follow_Up, which may overtake its response.
func (in *Initiator) FollowUp(m *msg.Message) Result {
	if m.Sequence != in.seq || !in.open {
		return Stale
	}
	t3, ok := m.Timestamp.Stamp()
	switch {
	case !ok:
		return Invalid
	case !in.got:
		in.held = heldFollowUp{true, m.Source, t3, m.Correction}
		return Waiting
	case m.Source != in.peer:
		return Ambiguous
	case !in.twoStep:
		return Stale
	case in.fup:
		return Repeated
	}
	in.take(t3, m.Correction)
	return in.finish()
}

func (in *Initiator) take(t3 frame.Stamp, corr msg.TimeInterval) {
	in.t3, in.fup, in.corr = t3, true, in.corr.Add(corr)
}

// finish computes the delay once everything is there:
// ((t4-t1) - ratio*(t3-t2) - corrections) / 2.
func (in *Initiator) finish() Result {
	if !in.sent || !in.got || in.twoStep && !in.fup {
		return Waiting
	}
	in.open, in.lost = false, 0
	round, ok1 := msg.Between(in.t4, in.t1)
	turn, ok2 := msg.Between(in.t3, in.t2)
	if !ok1 || !ok2 || round < 0 || in.corr == msg.MaxInterval || in.corr == msg.MinInterval {
		return Invalid
	}
	if in.fup {
		in.ratio.sample(in.t3, in.t4)
	}
	turn = turn.Add(in.corr)
	if in.ratio.ok {
		turn = turn.Add(msg.TimeInterval(math.Floor(float64(float64(turn) * (1/in.ratio.value - 1)))))
	}
	d := round.Add(-turn)
	if d == msg.MaxInterval || d == msg.MinInterval {
		return Invalid
	}
	in.last = Measured{Delay: d / 2, RateRatio: 1, RatioOK: in.ratio.ok, Peer: in.peer}
	if in.ratio.ok {
		in.last.RateRatio = in.ratio.value
	}
	return Done
}

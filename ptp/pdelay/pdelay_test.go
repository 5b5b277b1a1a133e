package pdelay

import (
	"math"
	"testing"

	"tapir/ptp/msg"
	"tapir/wire/frame"

	"pgregory.net/rapid"
)

func port(n byte) msg.PortIdentity { return msg.PortIdentity{Clock: msg.ClockIdentity{7: n}, Port: 1} }

func resp(seq uint16, from byte, twoStep bool, t2 frame.Stamp, corr msg.TimeInterval) *msg.Message {
	m := &msg.Message{Header: msg.Header{Type: msg.PdelayResp, Sequence: seq, Source: port(from), Correction: corr}, Timestamp: msg.TimestampOf(t2)}
	if twoStep {
		m.Flags = msg.FlagTwoStep
	}
	return m
}

func fup(seq uint16, from byte, t3 frame.Stamp, corr msg.TimeInterval) *msg.Message {
	return &msg.Message{Header: msg.Header{Type: msg.PdelayRespFollowUp, Sequence: seq, Source: port(from), Correction: corr}, Timestamp: msg.TimestampOf(t3)}
}

const ns = msg.TimeInterval(1 << 16)

// TestOrders: stamp, response and follow-up in every order give the same.
func TestOrders(t *testing.T) {
	for _, order := range []string{"srf", "sfr", "rsf", "rfs", "fsr", "frs"} {
		var in Initiator
		seq := in.Begin()
		last := Waiting
		for i, step := range order {
			if last != Waiting {
				t.Fatalf("%s: done after %d steps", order, i)
			}
			switch step {
			case 's':
				last = in.Sent(seq, 1000)
			case 'r': // the neighbor's clock is 1 s ahead; ways of 500 ns, 200 ns at the neighbor
				last = in.Response(resp(seq, 2, true, 1_000_001_500, 3*ns), 2207, 0)
			case 'f':
				last = in.FollowUp(fup(seq, 2, 1_000_001_700, 4*ns))
			}
		}
		if got := in.Last(); last != Done || got.Delay != 500*ns || got.Peer != port(2) {
			t.Errorf("%s: %v, %+v", order, last, got)
		}
	}
}

// TestOneStep: the response brings the turnaround in its correction.
func TestOneStep(t *testing.T) {
	var in Initiator
	in.Sent(in.Begin(), 1000)
	if r := in.Response(resp(1, 2, false, 0, 200*ns), 2200, 0); r != Done || in.Last().Delay != 500*ns || in.Last().RatioOK {
		t.Errorf("%v, %+v", r, in.Last())
	}
}

// TestRefused: what is of no use is told apart.
func TestRefused(t *testing.T) {
	var in Initiator
	if r := in.Response(resp(0, 2, false, 0, 0), 0, 0); r != Stale {
		t.Errorf("a response without a request: %v", r)
	}
	seq := in.Begin()
	for _, tc := range []struct {
		name string
		do   func() Result
		want Result
	}{
		{"stamp of another request", func() Result { return in.Sent(seq+1, 0) }, Stale},
		{"response to another request", func() Result { return in.Response(resp(seq-1, 2, true, 0, 0), 0, 0) }, Stale},
		{"follow-up to another request", func() Result { return in.FollowUp(fup(seq+1, 2, 0, 0)) }, Stale},
		{"response", func() Result { return in.Response(resp(seq, 2, true, 100, 0), 1200, 0) }, Waiting},
		{"response again", func() Result { return in.Response(resp(seq, 2, true, 100, 0), 1201, 0) }, Repeated},
		{"follow-up of another", func() Result { return in.FollowUp(fup(seq, 3, 300, 0)) }, Ambiguous},
		{"stamp", func() Result { return in.Sent(seq, 0) }, Waiting},
		{"stamp again", func() Result { return in.Sent(seq, 7) }, Stale},
		{"follow-up", func() Result { return in.FollowUp(fup(seq, 2, 300, 0)) }, Done},
		{"follow-up again", func() Result { return in.FollowUp(fup(seq, 2, 300, 0)) }, Stale},
		{"response of another, late", func() Result { return in.Response(resp(seq, 3, true, 0, 0), 0, 0) }, Ambiguous},
	} {
		if got := tc.do(); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
	if in.Last().Delay != 500*ns {
		t.Errorf("delay %v", in.Last().Delay)
	}
	if in.Begin(); in.Multiple() != 1 || in.Lost() != 0 {
		t.Errorf("several answers %d times, lost %d", in.Multiple(), in.Lost())
	}
	if in.Begin(); in.Multiple() != 0 || in.Lost() != 1 {
		t.Errorf("several answers %d times, lost %d", in.Multiple(), in.Lost())
	}
	seq = in.Begin()
	in.Sent(seq, 1<<60)
	if r := in.Response(resp(seq, 2, false, 0, 0), 0, 0); r != Invalid {
		t.Errorf("an answer before the request, and years of it: %v", r)
	}
	seq = in.Begin()
	in.Response(resp(seq, 2, true, 0, 0), 10, 0)
	if in.Reset(); in.Sent(seq, 0) != Stale {
		t.Error("a reset exchange goes on")
	}
}

// run makes n exchanges over a link of 500 ns with a neighbor whose clock runs
// by ratio, 1 ms at the neighbor, one every 125 ms.
func run(in *Initiator, n int, ratio, offset float64) {
	for k := range n {
		at := 1e12 + float64(k)*125e6
		theirs := func(x float64) frame.Stamp { return frame.Stamp(1e12 + (x-1e12)*ratio + offset) }
		seq := in.Begin()
		in.Sent(seq, frame.Stamp(at))
		in.Response(resp(seq, 2, true, theirs(at+500), 0), frame.Stamp(at+1001000), 0)
		in.FollowUp(fup(seq, 2, theirs(at+1000500), 0))
	}
}

// TestRatio: the rate ratio is found within 1 ppb, and corrects the turnaround
// at a neighbor 100 ppm off, which would be 50 ns.
func TestRatio(t *testing.T) {
	for _, ratio := range []float64{1, 1.0001, 0.9999, 1.2} {
		var in Initiator
		run(&in, 20, ratio, 0)
		got := in.Last()
		if !got.RatioOK || math.Abs(got.RateRatio-ratio) > 1e-8 {
			t.Errorf("ratio %.9f, want %v", got.RateRatio, ratio)
		}
		if d := got.Delay - 500*ns; d > 5*ns || d < -5*ns {
			t.Errorf("ratio %v: delay %v", ratio, got.Delay)
		}
	}
}

// TestRatioAfterStep: a step of the neighbor's clock is forgotten after one
// exchange.
func TestRatioAfterStep(t *testing.T) {
	var in Initiator
	run(&in, 10, 1.00001, 0)
	run2 := in
	run(&run2, 3, 1.00001, 1e9) // and back in time by 1.25 s, a second ahead
	run(&in, 12, 1.00001, 0)
	for _, got := range []Measured{in.Last()} {
		if !got.RatioOK || math.Abs(got.RateRatio-1.00001) > 1e-7 {
			t.Errorf("%+v", got)
		}
	}
	if got := run2.Last(); math.Abs(got.RateRatio-1.00001) > 1e-7 {
		t.Errorf("after a step: %+v", got)
	}
}

// TestNeverPanics: any messages in any order.
func TestNeverPanics(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var in Initiator
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			seq := uint16(rapid.IntRange(0, 3).Draw(t, "seq"))
			from := rapid.ByteRange(1, 2).Draw(t, "from")
			stamp := frame.Stamp(rapid.Int64().Draw(t, "stamp"))
			corr := msg.TimeInterval(rapid.Int64().Draw(t, "corr"))
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				in.Begin()
			case 1:
				in.Sent(seq, stamp)
			case 2:
				in.Response(resp(seq, from, rapid.Bool().Draw(t, "twoStep"), stamp, corr), frame.Stamp(corr), corr)
			case 3:
				in.FollowUp(fup(seq, from, stamp, corr))
			case 4:
				in.Reset()
			}
			if r := in.Last().RateRatio; r != 0 && (math.IsNaN(r) || r < 0.5 || r > 1.5) {
				t.Fatalf("ratio %v", r)
			}
		}
	})
}

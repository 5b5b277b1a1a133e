package bmca

import (
	"testing"

	"pgregory.net/rapid"
	"tapir/ptp/msg"
)

func clockID(n byte) msg.ClockIdentity { return msg.ClockIdentity{7: n} }

func portID(clock byte, port uint16) msg.PortIdentity {
	return msg.PortIdentity{Clock: clockID(clock), Port: port}
}

// base is a data set of grandmaster 10, sent by 20-1 and received on 30-1.
func base() Dataset {
	return Dataset{
		Priority1: 128, Identity: clockID(10), Quality: msg.ClockQuality{Class: 248, Accuracy: 0x30, Variance: 100},
		Priority2: 128, LocalPriority: 128, StepsRemoved: 2, Sender: portID(20, 1), Receiver: portID(30, 1),
	}
}

// TestCompare walks every branch of IEEE 1588-2019 figures 34 and 35 and of
// the telecom algorithm: A is base, changed by a; B by b.
func TestCompare(t *testing.T) {
	for _, tc := range []struct {
		name string
		alg  Algorithm
		a, b func(d *Dataset)
		want Order
	}{
		{"priority1", Default, func(d *Dataset) { d.Priority1, d.Quality.Class = 1, 255 }, func(d *Dataset) { d.Identity = clockID(1) }, ABetter},
		{"clockClass", Default, func(d *Dataset) { d.Quality = msg.ClockQuality{Class: 6, Accuracy: 255, Variance: 65535} }, func(d *Dataset) { d.Identity = clockID(1) }, ABetter},
		{"clockAccuracy", Default, func(d *Dataset) { d.Quality.Accuracy, d.Quality.Variance = 0x20, 65535 }, func(d *Dataset) { d.Identity = clockID(1) }, ABetter},
		{"variance", Default, func(d *Dataset) { d.Quality.Variance, d.Priority2 = 99, 255 }, func(d *Dataset) { d.Identity = clockID(1) }, ABetter},
		{"priority2", Default, func(d *Dataset) { d.Priority2 = 127 }, func(d *Dataset) { d.Identity = clockID(1) }, ABetter},
		{"identity", Default, func(d *Dataset) { d.StepsRemoved = 200 }, func(d *Dataset) { d.Identity = clockID(11) }, ABetter},
		{"localPriority is telecom's", Default, func(d *Dataset) { d.LocalPriority = 255 }, func(d *Dataset) { d.Identity = clockID(11) }, ABetter},

		{"same grandmaster: values do not count", Default, func(d *Dataset) { d.Priority1 = 1; d.StepsRemoved = 4 }, nil, BBetter},
		{"2 steps nearer", Default, func(d *Dataset) { d.StepsRemoved = 0 }, nil, ABetter},
		{"1 step nearer, receiver below sender", Default, nil, func(d *Dataset) { d.StepsRemoved, d.Receiver = 3, portID(19, 1) }, ABetter},
		{"1 step nearer, receiver above sender", Default, nil, func(d *Dataset) { d.StepsRemoved = 3 }, ABetterByTopology},
		{"1 step nearer, own message (error-1)", Default, nil, func(d *Dataset) { d.StepsRemoved, d.Receiver = 3, d.Sender }, Same},
		{"sender", Default, func(d *Dataset) { d.Sender = portID(19, 1) }, nil, ABetterByTopology},
		{"sender's port", Default, nil, func(d *Dataset) { d.Sender.Port = 2 }, ABetterByTopology},
		{"receiver's port", Default, nil, func(d *Dataset) { d.Receiver.Port = 2 }, ABetterByTopology},
		{"the same (error-2)", Default, nil, nil, Same},

		{"telecom: class", Telecom, func(d *Dataset) { d.Quality.Class, d.Priority1 = 6, 255 }, func(d *Dataset) { d.Identity = clockID(1) }, ABetter},
		{"telecom: accuracy", Telecom, func(d *Dataset) { d.Quality.Accuracy = 0x20 }, func(d *Dataset) { d.Priority1 = 1 }, ABetter},
		{"telecom: variance", Telecom, func(d *Dataset) { d.Quality.Variance = 1 }, func(d *Dataset) { d.Priority1 = 1 }, ABetter},
		{"telecom: priority2", Telecom, func(d *Dataset) { d.Priority2 = 1 }, func(d *Dataset) { d.Priority1 = 1 }, ABetter},
		{"telecom: localPriority", Telecom, func(d *Dataset) { d.LocalPriority = 1 }, func(d *Dataset) { d.Identity = clockID(1) }, ABetter},
		{"telecom: priority1 is ignored", Telecom, func(d *Dataset) { d.Priority1 = 255 }, func(d *Dataset) { d.Identity = clockID(11) }, ABetter},
		{"telecom: identity", Telecom, func(d *Dataset) { d.StepsRemoved = 9 }, func(d *Dataset) { d.Identity = clockID(11) }, ABetter},
		{"telecom: steps decide among primary clocks", Telecom, func(d *Dataset) { d.Quality.Class = 6 },
			func(d *Dataset) { d.Quality.Class, d.Identity, d.StepsRemoved = 6, clockID(1), 4 }, ABetter},
		{"telecom: same grandmaster", Telecom, func(d *Dataset) { d.StepsRemoved = 0 }, nil, ABetter},
		{"telecom: the same", Telecom, nil, nil, Same},
	} {
		a, b := base(), base()
		if tc.a != nil {
			tc.a(&a)
		}
		if tc.b != nil {
			tc.b(&b)
		}
		if got := tc.alg.Compare(&a, &b); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
		if got := tc.alg.Compare(&b, &a); got != -tc.want {
			t.Errorf("%s, the other way round: %v, want %v", tc.name, got, -tc.want)
		}
	}
	d := base()
	for _, alg := range []Algorithm{Default, Telecom} {
		if alg.Compare(&d, nil) != ABetter || alg.Compare(nil, &d) != BBetter || alg.Compare(nil, nil) != Same {
			t.Errorf("algorithm %v: a data set is not better than none", alg)
		}
	}
}

// TestDecide walks every branch of IEEE 1588-2019 figure 33.
func TestDecide(t *testing.T) {
	own := func(class uint8) *Dataset {
		return &Dataset{Priority1: 128, Identity: clockID(30), Quality: msg.ClockQuality{Class: class}, Sender: portID(30, 0), Receiver: portID(30, 0)}
	}
	heard := func(class uint8, steps uint16, sender byte, port uint16) *Dataset {
		return &Dataset{
			Priority1: 128, Identity: clockID(10), Quality: msg.ClockQuality{Class: class}, StepsRemoved: steps,
			Sender: portID(sender, 1), Receiver: portID(30, port),
		}
	}
	good, poor := heard(6, 1, 20, 1), heard(255, 1, 20, 1)
	for _, tc := range []struct {
		name                string
		own, best, portBest *Dataset
		listening           bool
		want                Decision
	}{
		{"nothing heard, listening", own(248), nil, nil, true, Listen},
		{"nothing heard, listening, another port has heard", own(248), good, nil, true, Listen},
		{"nothing heard, not listening", own(248), nil, nil, false, M2},
		{"class 6, nothing heard", own(6), nil, nil, false, M1},
		{"class 127 is better", own(127), poor, poor, false, M1},
		{"class 127 is worse", own(127), good, good, false, P1},
		{"class 128 is worse", own(128), good, good, false, S1},
		{"class 0 is reserved and may be slave", own(0), poor, poor, false, M2},
		{"better than all", own(248), poor, poor, false, M2},
		{"best is here", own(248), good, good, false, S1},
		{"best is elsewhere, nothing here", own(248), good, nil, false, M3},
		{"best is elsewhere, better by topology", own(248), good, heard(6, 1, 21, 2), false, P2},
		{"best is elsewhere, better by steps", own(248), good, heard(6, 5, 21, 2), false, M3},
		{"best is elsewhere, of another grandmaster", own(248), good, poor, false, M3},
	} {
		if got := Default.Decide(tc.own, tc.best, tc.portBest, tc.listening); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

func drawDataset(t *rapid.T, name string) Dataset {
	b := func(what string) byte { return rapid.ByteRange(1, 3).Draw(t, name+what) }
	return Dataset{
		Priority1: b("p1"), Identity: clockID(b("id")), Quality: msg.ClockQuality{Class: b("class") * 100, Accuracy: b("acc"), Variance: uint16(b("var"))},
		Priority2: b("p2"), LocalPriority: b("lp"), StepsRemoved: uint16(b("steps")),
		Sender: portID(b("sender"), uint16(b("sp"))), Receiver: portID(4, uint16(b("rp"))),
	}
}

// TestCompareIsAnOrder: comparison is antisymmetric, and transitive between
// grandmasters.
func TestCompareIsAnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := drawDataset(t, "a"), drawDataset(t, "b"), drawDataset(t, "c")
		for _, alg := range []Algorithm{Default, Telecom} {
			if alg.Compare(&a, &b) != -alg.Compare(&b, &a) {
				t.Fatalf("%+v and %+v: %v, and %v the other way round", a, b, alg.Compare(&a, &b), alg.Compare(&b, &a))
			}
		}
		if a.Identity == b.Identity || b.Identity == c.Identity || a.Identity == c.Identity {
			return
		}
		if Default.Compare(&a, &b) > 0 && Default.Compare(&b, &c) > 0 && Default.Compare(&a, &c) <= 0 {
			t.Fatalf("%+v > %+v > %+v, but not > the last", a, b, c)
		}
	})
}

package toe

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"tapir/nic/toe/ecn"
	"tapir/nic/toe/recovery"
	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/tcp"
)

// TestCongestionControls lets a window of each kind fall at one loss and
// checks by how much, and that Cubic regains it sooner on a long path.
func TestCongestionControls(t *testing.T) {
	regained := map[Congestion]frame.Time{}
	for _, kind := range []Congestion{Reno, Cubic} {
		cfg := Config{Params: Params{Congestion: kind}, RcvWnd: 4 << 20}
		w := newWorld(t, 1, cfg, cfg, faults{delay: 50 * time.Millisecond}, false)
		a, b := newApp(1<<40, 1), newApp(0, 2)
		w.connect(a, b)
		w.run(time.Minute, func() bool { return a.established && a.conn.cc.Cwnd > 400_000 })
		a.conn.cc.Ssthresh = a.conn.cc.Cwnd
		lose := true
		w.block = func(from *node, th *tcp.Header, data []byte) bool {
			hit := lose && from == w.a && len(data) > 0
			lose = lose && !hit
			return hit
		}
		before := uint64(0)
		w.run(time.Minute, func() bool {
			if a.conn.snd.Phase == recovery.Fast {
				return true
			}
			before = a.conn.cc.Cwnd
			return false
		})
		flight := float64(a.conn.snd.InFlight())
		if kind == Reno {
			before = a.conn.cc.Ssthresh * 2
		}
		want := map[Congestion]float64{Reno: 0.5, Cubic: 0.7}[kind]
		if got := float64(a.conn.cc.Ssthresh) / flight; math.Abs(got-want) > 0.05 {
			t.Errorf("%v: the window fell to %.2f of the flight", kind, got)
		}
		start := w.now
		if !w.run(5*time.Minute, func() bool { return a.conn.snd.Phase == recovery.Open && a.conn.cc.Cwnd >= before }) {
			t.Fatalf("%v: not regained: %+v", kind, a.conn.Info())
		}
		regained[kind] = w.now - start
		if a.conn.Info().Congestion != kind.String() {
			t.Error(a.conn.Info().Congestion)
		}
	}
	if regained[Cubic] >= regained[Reno] {
		t.Errorf("regained after %v", regained)
	}
}

// TestCongestionIsPerConnection changes the control of one connection.
func TestCongestionIsPerConnection(t *testing.T) {
	p := newRawPeer(t, Config{Params: Params{Congestion: Reno}})
	a := quietApp(0)
	p.listen(a).SetParams(Params{TOS: 46 << 2})
	p.in(tcp.SYN, 0, 0, "")
	p.expect("SYN,ACK 0 ack 1")
	if p.lastTOS != 46<<2 || p.e.par.Congestion != Reno || p.e.head.Params().Congestion != Cubic {
		t.Fatalf("TOS %#x, %+v", p.lastTOS, p.e.head.Params())
	}
	p.in(tcp.ACK, 1, 1, "")
	p.conn.SetParams(Params{TOS: 10 << 2})
	p.in(pa, 1, 1, "x")
	p.expect("ACK 1 ack 2")
	if p.lastTOS != 10<<2 || p.conn.Params().KeepAliveProbes != 9 {
		t.Fatalf("TOS %#x", p.lastTOS)
	}
}

// TestECNHandshake has every pair of settings negotiate (RFC 3168 section
// 6.1.1).
func TestECNHandshake(t *testing.T) {
	for _, r := range []struct {
		a, b ECN
		on   bool
	}{
		{ECNAccept, ECNAccept, false}, {ECNAsk, ECNAccept, true}, {ECNAsk, ECNAsk, true},
		{ECNAsk, ECNOff, false}, {ECNOff, ECNAsk, false}, {ECNAccept, ECNAsk, false},
	} {
		w := newWorld(t, 1, Config{Params: Params{ECN: r.a}}, Config{Params: Params{ECN: r.b}}, faults{}, false)
		a, b := newApp(10_000, 1), newApp(10_000, 2)
		ect := 0
		w.tap = func(_ *node, h *ip.Header, th *tcp.Header, data []byte) {
			capable := h.TOS&ecn.Mask != 0
			if capable {
				ect++
			}
			if capable != (r.on && len(data) > 0) {
				t.Errorf("%+v: TOS %d with flags %v and %d octets", r, h.TOS, th.Flags, len(data))
			}
		}
		w.connect(a, b)
		w.run(time.Second, func() bool { return a.received == b.total && b.received == a.total })
		if a.conn.Info().ECN != r.on || b.conn.Info().ECN != r.on || (ect > 0) != r.on {
			t.Errorf("%+v: %v and %v, %d capable packets", r, a.conn.Info().ECN, b.conn.Info().ECN, ect)
		}
	}
}

func TestECNSynIsRetriedWithout(t *testing.T) {
	p := newRawPeer(t, Config{Params: Params{ECN: ECNAsk}})
	a := quietApp(0)
	p.app = a
	p.conn, _ = p.e.Connect(p.local, p.remote, a, p.now)
	p.expect("SYN,ECE,CWR 0")
	if got := p.wait(2 * time.Second); got != "SYN 0" {
		t.Fatalf("sent %q", got)
	}
	p.in(tcp.SYN|tcp.ACK|tcp.ECE, 0, 1, "")
	if p.conn.ecn.On {
		t.Fatal("on without having asked")
	}
}

// ecnPeer is an established connection that uses ECN, with total octets to
// send in segments of 500.
func ecnPeer(t *testing.T, total uint64) *rawPeer {
	p := newRawPeer(t, Config{})
	p.listen(quietApp(total))
	p.opts = tcp.Options{MSS: 500}
	p.in(tcp.SYN|tcp.ECE|tcp.CWR, 0, 0, "")
	p.expect("SYN,ACK,ECE 0 ack 1")
	p.opts = tcp.Options{}
	p.in(tcp.ACK, 1, 1, "")
	return p
}

func TestECNEcho(t *testing.T) {
	p := ecnPeer(t, 0)
	p.tos = ecn.CE
	p.in(pa, 1, 1, "a")
	p.expect("ACK,ECE 1 ack 2")
	p.tos = ecn.ECT0
	p.in(pa, 2, 1, "b") // the echo goes on until CWR
	p.expect("ACK,ECE 1 ack 3")
	p.in(pa|tcp.CWR, 3, 1, "c")
	p.expect("ACK 1 ack 4")
	p.tos = ecn.CE
	p.in(pa|tcp.CWR, 4, 1, "d") // marked itself
	p.expect("ACK,ECE 1 ack 5")
	p.tos = ecn.CE
	if p.in(tcp.ACK, 5, 1, ""); p.e.Stats().CEMarks != 2 {
		t.Fatalf("%d marks", p.e.Stats().CEMarks)
	}
}

func TestECNReaction(t *testing.T) {
	p := ecnPeer(t, 8000)
	if got := p.poll(); strings.Count(got, "len 500") != 10 || p.lastTOS != ecn.ECT0 {
		t.Fatalf("sent %q with TOS %d", got, p.lastTOS)
	}
	p.in(tcp.ACK|tcp.ECE, 1, 501, "")
	p.expect("")
	if i := p.conn.Info(); i.Cwnd != 3500 || i.Ssthresh != 3500 {
		t.Fatalf("cwnd %d", i.Cwnd)
	}
	p.in(tcp.ACK|tcp.ECE, 1, 1001, "") // the same window: no further reaction
	p.in(tcp.ACK|tcp.ECE, 1, 2001, "")
	p.expect("ACK,CWR 5001 ack 1 len 500")
	p.in(tcp.ACK, 1, 3001, "")
	p.expect("ACK 5501 ack 1 len 500; ACK 6001 ack 1 len 500")
	if n := p.e.Stats().ECNReductions; n != 1 || p.conn.cc.Cwnd < 3500 {
		t.Fatalf("%d reductions, cwnd %d", n, p.conn.cc.Cwnd)
	}
	p.in(tcp.ACK|tcp.ECE, 1, 5501, "") // the next window
	if p.poll(); p.e.Stats().ECNReductions != 2 {
		t.Fatalf("%d reductions", p.e.Stats().ECNReductions)
	}
}

// TestECNRetransmission asserts that what is sent again is not ECN-capable
// (RFC 3168 section 6.1.5).
func TestECNRetransmission(t *testing.T) {
	p := ecnPeer(t, 500)
	p.expect("PSH,ACK 1 ack 1 len 500")
	if got := p.wait(time.Second); !strings.HasPrefix(got, "PSH,ACK 1 ack 1 len 500") || p.lastTOS != 0 {
		t.Fatalf("sent %q with TOS %d", got, p.lastTOS)
	}
}

func TestNagle(t *testing.T) {
	p := newRawPeer(t, Config{})
	a := quietApp(10)
	p.establish(a)
	p.conn.SetParams(Params{Nagle: true})
	p.expect("PSH,ACK 1 ack 1 len 10")
	a.total = 20
	p.conn.Kick()
	p.expect("") // not full, and data is unacknowledged
	p.in(tcp.ACK, 1, 11, "")
	p.expect("PSH,ACK 11 ack 1 len 10")
	a.total = 20 + 536 + 5
	p.conn.Kick()
	p.expect("ACK 21 ack 1 len 536") // a full one goes at once
	p.conn.SetParams(Params{})
	p.conn.Kick()
	p.expect("PSH,ACK 557 ack 1 len 5")
}

func TestUserTimeout(t *testing.T) {
	for _, r := range []struct {
		name  string
		wnd   int
		total uint64
	}{{"silent", peerWnd, 100}, {"window closed", 0, 100}} {
		t.Run(r.name, func(t *testing.T) {
			p := newRawPeer(t, Config{Params: Params{UserTimeout: 5 * time.Second}, Retries: 1})
			a := quietApp(0)
			p.establish(a)
			p.wait(time.Minute) // idle time does not count
			p.segment(tcp.ACK, 1, 1, r.wnd, "")
			a.total = r.total
			p.conn.Kick()
			p.wait(4900 * time.Millisecond)
			if a.closed {
				t.Fatalf("too early: %v", a.err)
			}
			p.wait(200 * time.Millisecond)
			if !errors.Is(a.err, &Error{Kind: Timeout}) {
				t.Fatalf("error %v", a.err)
			}
		})
	}
}

func TestFinRetries(t *testing.T) {
	p := newRawPeer(t, Config{Params: Params{FinRetries: 2}})
	a := quietApp(0)
	p.establish(a)
	p.conn.Close()
	if got := p.wait(time.Minute); strings.Count(got, "FIN,ACK 1") != 3 || !errors.Is(a.err, &Error{Kind: Timeout}) {
		t.Fatalf("sent %q: %v", got, a.err)
	}
}

func TestKeepAliveInterval(t *testing.T) {
	p := newRawPeer(t, Config{Params: Params{KeepAlive: 10 * time.Second, KeepAliveInterval: 3 * time.Second, KeepAliveProbes: 2}})
	a := quietApp(0)
	p.establish(a)
	if got := p.wait(15900 * time.Millisecond); got != "ACK 0 ack 1; ACK 0 ack 1" || a.closed {
		t.Fatalf("sent %q: %v", got, a.err)
	}
	p.wait(200 * time.Millisecond)
	if !errors.Is(a.err, &Error{Kind: Timeout}) {
		t.Fatalf("error %v", a.err)
	}
}

// TestUrgentDataIsOrdinaryData: the urgent pointer is ignored, its octets stay
// in the stream (RFC 6093 section 4).
func TestUrgentDataIsOrdinaryData(t *testing.T) {
	p := newRawPeer(t, Config{})
	a := quietApp(0)
	p.establish(a)
	a.onReceive = func(b []byte) { a.stream = append(a.stream, b...) }
	p.in(pa|tcp.URG, 1, 1, "abc")
	p.expect("ACK 1 ack 4")
	p.in(tcp.ACK|tcp.URG, 4, 1, "")
	p.expect("")
	p.in(pa, 4, 1, "def")
	p.expect("ACK 1 ack 7")
	if string(a.stream) != "abcdef" {
		t.Fatalf("received %q", a.stream)
	}
}

// TestSynFloodIntoConnectionIsThrottled: a SYN is answered by a limited
// challenge wherever its sequence number lies (RFC 5961 section 4).
func TestSynFloodIntoConnectionIsThrottled(t *testing.T) {
	p := newRawPeer(t, Config{})
	p.establish(quietApp(0))
	answers := 0
	for i := range 200 {
		p.in(tcp.SYN, -1000+i*1<<20, 0, "")
		answers += strings.Count(p.poll(), "ACK 1 ack 1")
	}
	if answers != 10 {
		t.Fatalf("%d answers", answers)
	}
	p.state(StateEstablished)
}

// TestRoundTripWithLostAcks loses every acknowledgement of the first sending
// of a segment: what its retransmission brings back is no round trip.
func TestRoundTripWithLostAcks(t *testing.T) {
	w := newWorld(t, 1, Config{}, Config{}, faults{delay: 100 * time.Microsecond}, false)
	a, b := newApp(1000, 1), newApp(0, 2)
	w.connect(a, b)
	w.run(time.Second, func() bool { return b.received == 1000 })
	w.runFor(time.Second)
	for i := range 20 {
		lost := false
		w.block = func(from *node, th *tcp.Header, data []byte) bool {
			hit := !lost && from == w.b
			lost = lost || hit
			return hit
		}
		a.total += 1000
		a.conn.Kick()
		w.run(10*time.Second, func() bool { return a.acked == a.total })
		if srtt := a.conn.Info().SRTT; !lost || srtt > time.Millisecond {
			t.Fatalf("after %d: SRTT %v", i, srtt)
		}
	}
}

// TestHeavyLoss moves 64 KiB through a loss of a fifth both ways.
func TestHeavyLoss(t *testing.T) {
	for seed := range uint64(20) {
		w := newWorld(t, seed, Config{}, Config{}, faults{loss: 200, delay: 100 * time.Microsecond}, false)
		a, b := newApp(64<<10, 1), newApp(0, 2)
		w.connect(a, b)
		if !w.run(2*time.Minute, func() bool { return a.acked == a.total }) {
			t.Fatalf("seed %d: %+v", seed, a.conn.Info())
		}
		b.check(t, a)
	}
}

// At 1 % loss the window is what the equations of RFC 5681 and RFC 9438 allow:
// about 12 segments on average, if no recovery takes more than a few round
// trips and none ends in silence.
func TestRandomLossLeavesAWindow(t *testing.T) {
	for _, cg := range []Congestion{Cubic, Reno} {
		w, a, b := newPair(t, Config{Params: Params{Congestion: cg}})
		a.limit = 1 << 62
		a.conn.Kick()
		rng := rand.New(rand.NewPCG(1, 2))
		w.ends[0].lose = func() bool { return rng.IntN(100) == 0 }
		const roundTrips = 40_000
		begin := w.now
		for range roundTrips {
			w.step()
		}
		window := float64(b.received) / float64(a.conn.MSS()) / roundTrips
		t.Logf("%v: %.1f segments in a round trip, %v", cg, window, time.Duration(w.now-begin))
		if window < 8 || window > 16 {
			t.Errorf("%v: %.1f segments in a round trip: %+v", cg, window, a.conn.Info())
		}
	}
}

package tc

import (
	"bytes"
	"testing"
	"time"

	"tapir/ptp/msg"
	"tapir/ptp/transport"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

func peerClock(c *Config) { c.PeerDelay = true }

// neighbor answers Pdelay_Reqs at the other end of a port's link. Its clock is
// engine time.
type neighbor struct {
	delay, turn time.Duration
	oneStep     bool
	who         msg.PortIdentity
}

// answer plays one exchange on port: its requests go out at b.now.
func (b *bed) answer(port int, n neighbor) (requests int) {
	b.t.Helper()
	for _, s := range b.take() {
		m := message(b.t, s.b)
		if s.port != port || m.Type != msg.PdelayReq {
			continue
		}
		requests++
		t2 := b.now.Add(n.delay)
		t3 := t2.Add(n.turn)
		resp := make1588(msg.PdelayResp, n.who, m.Sequence, func(r *msg.Message) {
			r.Port, r.Correction, r.Timestamp = m.Source, m.Correction, msg.TimestampOf(frame.Stamp(t2))
			if n.oneStep {
				r.Flags, r.Timestamp, r.Correction = 0, msg.Timestamp{}, m.Correction+ns(int64(n.turn))
			} else {
				r.Correction = 0
			}
		})
		t4 := t3.Add(n.delay)
		b.receive(port, encode("L2", resp), t4)
		if !n.oneStep {
			b.receive(port, encode("L2", make1588(msg.PdelayRespFollowUp, n.who, m.Sequence, func(r *msg.Message) {
				r.Port, r.Correction, r.Timestamp = m.Source, m.Correction, msg.TimestampOf(frame.Stamp(t3))
			})), t4)
		}
	}
	return requests
}

// receive lets a frame in that the clock keeps.
func (b *bed) receive(port int, bytes []byte, now frame.Time) {
	b.t.Helper()
	if _, v := b.c.Receive(port, bytes, b.clock.At(now), true, now); v != Consumed {
		b.t.Errorf("%v is not kept: verdict %v", message(b.t, bytes).Type, v)
	}
}

// measure runs exchanges on port 0 until its delay is known and settled.
func (b *bed) measure(n neighbor) {
	b.t.Helper()
	for range 12 {
		b.now = b.c.Poll(b.now)
		b.c.Poll(b.now)
		b.answer(0, n)
	}
}

func TestPeerToPeer(t *testing.T) {
	for _, oneStep := range []bool{false, true} {
		b := newBed(t, peerClock)
		sync, up := encode("L2", make1588(msg.Sync, masterPort, 1)), encode("L2", make1588(msg.FollowUp, masterPort, 1))
		if s := b.cross(0, 1, bytes.Clone(sync), 0); len(s) != 0 || b.c.Counts().NoDelay != 1 {
			t.Error("a Sync passes while the delay of its link is not known")
		}
		b.measure(neighbor{delay: 450, turn: 30 * time.Microsecond, oneStep: oneStep, who: masterPort})
		if d, ok := b.c.LinkDelay(0); !ok || d != ns(450) {
			t.Fatalf("one step %v: link delay %v, %v, %+v", oneStep, d, ok, b.c.Counts())
		}
		if _, ok := b.c.LinkDelay(1); ok {
			t.Error("port 1 has nobody to measure with")
		}
		b.cross(0, 1, bytes.Clone(sync), time.Millisecond)
		got := b.cross(0, 1, bytes.Clone(up), 0)
		if len(got) != 1 || message(t, got[0].b).Correction != ns(1e6+450) {
			t.Errorf("Follow_Up %+v", got)
		}
		for _, typ := range []msg.Type{msg.DelayReq, msg.DelayResp} {
			if _, v := b.c.Receive(0, encode("L2", make1588(typ, slavePort, 1)), 0, false, 0); v != Discard {
				t.Errorf("%v: verdict %v", typ, v)
			}
		}
		// A neighbor that falls silent is not trusted for long.
		polls := 0
		for ok := true; ok && polls < 20; polls++ {
			b.now = b.c.Poll(b.now)
			_, ok = b.c.LinkDelay(0)
		}
		if polls < lostPdelays || polls > lostPdelays+3 {
			t.Errorf("the delay is trusted for %d polls, %+v", polls, b.c.Counts())
		}
	}
}

// The own Pdelay_Reqs are those of the port, and the asymmetry of a link does
// not spoil its mean delay.
func TestPdelayRequests(t *testing.T) {
	b := newBed(t, func(c *Config) {
		c.PeerDelay, c.LogPdelayInterval, c.Domain, c.SdoID = true, -1, 7, 0x123
		c.Ports[0].DelayAsymmetry = ns(100)
	})
	if next := b.c.Poll(0); next != at(500*time.Millisecond) {
		t.Errorf("next request at %v", next)
	}
	s := b.take()
	if len(s) != 3 {
		t.Fatalf("%d requests", len(s))
	}
	for i := range s {
		m := message(t, s[i].b)
		p, _ := transport.Find(s[i].b)
		if m.Type != msg.PdelayReq || m.Domain != 7 || m.SdoID != 0x123 || m.LogInterval != -1 || m.Source.Port != uint16(s[i].port+1) ||
			p.Dst.MAC != transport.NonForwardable || p.Src.MAC != (ether.Addr{2, 0, 0, 0, 9, byte(s[i].port)}) {
			t.Errorf("request %+v", m)
		}
	}
	// 100 ns more than the mean towards us, 100 less away from us.
	b.measure(neighbor{delay: 1000, turn: 10, who: masterPort})
	if d, _ := b.c.LinkDelay(0); d != ns(1000) {
		t.Errorf("link delay %v", d)
	}
}

func at(d time.Duration) frame.Time { return frame.Time(d) }

// Two answers to one request are one too many.
func TestAmbiguousLink(t *testing.T) {
	b := newBed(t, peerClock)
	b.c.Poll(0)
	s := b.take()
	for _, who := range []msg.PortIdentity{masterPort, slavePort} {
		m := message(t, s[0].b)
		b.receive(0, encode("L2", make1588(msg.PdelayResp, who, m.Sequence, func(r *msg.Message) { r.Port = m.Source })), 5)
	}
	b.receive(0, encode("L2", make1588(msg.PdelayResp, masterPort, 99, func(r *msg.Message) { r.Port = message(t, s[0].b).Source })), 5)
	b.receive(0, encode("L2", make1588(msg.PdelayResp, masterPort, 1, func(r *msg.Message) { r.Port = slavePort })), 5)
	b.receive(0, encode("UDPv4", make1588(msg.PdelayReq, masterPort, 1)), 5)
	if _, ok := b.c.LinkDelay(0); ok || b.c.Counts().Pdelay.Strange != 3 || len(b.c.links[0].answers) != 0 {
		t.Errorf("%+v", b.c.Counts())
	}
}

// Pdelay_Reqs of neighbors are answered on their port, in one or two steps.
func TestPdelayResponses(t *testing.T) {
	for _, oneStep := range []bool{false, true} {
		for _, unicast := range []bool{false, true} {
			b := newBed(t, func(c *Config) { c.PeerDelay, c.OneStep = true, oneStep })
			b.c.Poll(0)
			b.take()
			req := make1588(msg.PdelayReq, slavePort, 77, func(m *msg.Message) {
				m.Domain, m.Correction = 3, ns(5)
				if unicast {
					m.Flags = msg.FlagUnicast
				}
			})
			b.receive(2, encode("L2", req), 100)
			if len(b.take()) != 0 {
				t.Error("Receive transmits")
			}
			b.now = 400
			b.c.Poll(b.now)
			b.c.Poll(b.now)
			s := b.take()
			t2, t3 := msg.TimestampOf(b.clock.At(100)), msg.TimestampOf(b.clock.At(400))
			resp := message(t, s[0].b)
			p, _ := transport.Find(s[0].b)
			if dst := (ether.Addr{2, 0, 0, 0, 0, 1}); unicast != (p.Dst.MAC == dst) || !unicast && p.Dst.MAC != transport.NonForwardable {
				t.Errorf("response to %v", p.Dst)
			}
			if s[0].port != 2 || resp.Type != msg.PdelayResp || resp.Port != slavePort || resp.Sequence != 77 || resp.Domain != 3 || resp.Flags.Has(msg.FlagUnicast) != unicast {
				t.Errorf("response %+v", resp)
			}
			if oneStep {
				if len(s) != 1 || resp.Flags.Has(msg.FlagTwoStep) || resp.Correction != ns(305) || resp.Timestamp != (msg.Timestamp{}) {
					t.Errorf("%d messages, %+v", len(s), resp)
				}
				continue
			}
			if len(s) != 2 || !resp.Flags.Has(msg.FlagTwoStep) || resp.Timestamp != t2 || resp.Correction != 0 {
				t.Fatalf("%d messages, %+v", len(s), resp)
			}
			if up := message(t, s[1].b); up.Type != msg.PdelayRespFollowUp || up.Timestamp != t3 || up.Correction != ns(5) || up.Port != slavePort || up.Sequence != 77 {
				t.Errorf("%+v", up)
			}
		}
	}
}

// A flood of requests is bounded, and answers whose stamps never come make
// room.
func TestPdelayFlood(t *testing.T) {
	b := newBed(t, peerClock)
	b.late = true
	for seq := range uint16(100) {
		b.receive(0, encode("L2", make1588(msg.PdelayReq, slavePort, seq)), 0)
	}
	b.c.Poll(0)
	if n := len(b.take()); n != maxAnswers+3 || b.c.Counts().Pdelay.Overrun != 100-maxAnswers {
		t.Errorf("%d messages, %+v", n, b.c.Counts())
	}
	b.receive(0, encode("L2", make1588(msg.PdelayReq, slavePort, 200)), 0)
	b.c.Poll(0)
	s := b.take()
	if len(s) != 1 || message(t, s[0].b).Sequence != 200 {
		t.Fatalf("%+v", s)
	}
	b.c.TxStamp(s[0].id, 0, false)
	b.c.Poll(0)
	if len(b.take()) != 0 || len(b.c.links[0].answers) != maxAnswers-1 {
		t.Errorf("%d answers are under way", len(b.c.links[0].answers))
	}
}

// syncs lets n Syncs of a clock pass whose rate is that of engine time, each
// staying for stay, and returns the last correction.
func (b *bed) syncs(n int, stay time.Duration, oneStep bool, source msg.PortIdentity) (last msg.TimeInterval) {
	for range n {
		b.now = b.now.Add(125 * time.Millisecond)
		seq := uint16(b.now / 1000)
		origin := func(m *msg.Message) { m.Timestamp = msg.TimestampOf(frame.Stamp(b.now)) }
		if oneStep {
			s := b.cross(0, 1, encode("L2", make1588(msg.Sync, source, seq, origin, func(m *msg.Message) { m.Flags = 0 })), stay)
			last = message(b.t, s[1].b).Correction
			b.now = b.now.Add(-stay)
			continue
		}
		up := encode("L2", make1588(msg.FollowUp, source, seq, origin))
		b.cross(0, 1, encode("L2", make1588(msg.Sync, source, seq)), stay)
		last = message(b.t, b.cross(0, 1, up, 0)[0].b).Correction
		b.now = b.now.Add(-stay)
	}
	return last
}

// A clock that is 100 ppm fast makes 10 ms of residence 1 us too long, unless
// it is syntonised.
func TestSyntonize(t *testing.T) {
	for _, oneStep := range []bool{false, true} {
		for _, syntonize := range []bool{false, true} {
			b := newBed(t, func(c *Config) { c.Syntonize = syntonize })
			b.clock.ppm = 100
			off := (b.syncs(20, 10*time.Millisecond, oneStep, masterPort) - ns(10e6)).Duration()
			ppb, ok := b.c.RateOffset()
			if !syntonize {
				if off < 990 || off > 1010 || ok {
					t.Errorf("free running: %v too long, rate %d, %v", off, ppb, ok)
				}
				continue
			}
			if off < -1 || off > 1 || !ok || ppb < -100_015 || ppb > -99_985 {
				t.Errorf("one step %v, syntonised: %v too long, rate %d, %v", oneStep, off, ppb, ok)
			}
			// Another clock counts only when this one falls silent.
			b.syncs(1, 0, oneStep, slavePort)
			if b.c.follow.source != masterPort {
				t.Error("two clocks are followed at a time")
			}
			b.now = b.now.Add(4 * time.Second)
			b.syncs(1, 0, oneStep, slavePort)
			if b.c.follow.source != slavePort || b.c.follow.rate.valid {
				t.Error("nobody follows the new clock")
			}
			// A clock that is set makes no rate.
			b.syncs(20, 0, oneStep, slavePort)
			b.clock.ppm = 5000
			b.syncs(1, 0, oneStep, slavePort)
			if b.c.follow.rate.valid {
				t.Error("a step is taken for a rate")
			}
		}
	}
}

func TestRateOffset(t *testing.T) {
	for _, c := range []struct {
		remote, local frame.Stamp
		want          int64
	}{
		{1_000_000_000, 1_000_000_000, 0},
		{1_000_100_000, 1_000_000_000, 429496},
		{999_900_000, 1_000_000_000, -429496},
		{4_000_000_000, 1_000_000_000, rateUnit / 1000},
		{-4_000_000_000, 1_000_000_000, -rateUnit / 1000},
	} {
		if got := offset(c.remote, c.local); got != c.want {
			t.Errorf("offset(%d, %d) = %d, want %d", c.remote, c.local, got, c.want)
		}
	}
}

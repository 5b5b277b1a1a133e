package dcqcn

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"tapir/wire/frame"
)

// paper is the reaction point in floating point, as the equations of the paper have it. Its
// times are in nanoseconds.
type paper struct {
	p                     Params
	line, rc, rt, alpha   float64 // Mb/s
	alphaAt, timer        float64
	octets, times, counts float64
	began                 bool
}

func (m *paper) advance(now float64) {
	for m.began {
		k, t := m.alphaAt+float64(m.p.K)*1e3, m.timer+float64(m.p.Timeout)*1e3
		switch {
		case min(k, t) > now:
			return
		case k <= t:
			m.alphaAt = k
			m.alpha *= 1 - float64(m.p.G)/65536
		default:
			m.timer = t
			m.times++
			m.increase()
		}
	}
}

func (m *paper) increase() {
	const f = 5
	switch {
	case max(m.times, m.counts) <= f:
	case min(m.times, m.counts) > f:
		m.rt += float64(m.p.RHAI) * (min(m.times, m.counts) - f)
	default:
		m.rt += float64(m.p.RAI)
	}
	m.rt = min(m.rt, m.line)
	m.rc = min((m.rt+m.rc)/2, m.line)
}

func (m *paper) cnp(now float64) {
	m.advance(now)
	m.began = true
	m.rt = m.rc
	m.rc = max(m.rc*(1-m.alpha/2), float64(MinRate)/1e6)
	g := float64(m.p.G) / 65536
	m.alpha = (1-g)*m.alpha + g
	m.alphaAt, m.timer, m.octets, m.times, m.counts = now, now, 0, 0, 0
}

func (m *paper) sent(octets, now float64) {
	m.advance(now)
	if !m.began {
		return
	}
	for m.octets += octets; m.octets >= float64(m.p.ByteCount); m.octets -= float64(m.p.ByteCount) {
		m.counts++
		m.increase()
	}
}

// The reaction point is within 0.1% of the paper's equations, over 10,000 events: CNPs that
// come at random or in rows, octets sent, and timers. Parameters are those of the paper and
// others.
//
// RD-23
func TestPaper(t *testing.T) {
	for seed, p := range []Params{{}, {G: 1024, K: 20, Timeout: 300, ByteCount: 2_000_000, RAI: 5, RHAI: 50}, {ByteCount: 150_000}} {
		p = p.WithDefaults()
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		const line = 40_000
		m := &paper{p: p, line: line, rc: line, rt: line, alpha: 1}
		c := Algorithms[DCQCN].New(&p)
		c.Start(line * mega)
		now := frame.Time(0)
		least, worst, full := float64(line), 0.0, 0
		for event := range 10_000 {
			now = now.Add(time.Duration(rng.IntN(40_000)))
			if event/1000%2 == 0 && rng.IntN(20) == 0 || event%5000 > 4990 {
				c.CNP(now)
				m.cnp(float64(now))
			} else {
				n := rng.IntN(400_000)
				c.Sent(n, now)
				m.sent(float64(n), float64(now))
			}
			s := c.State()
			for what, pair := range map[string][2]float64{"rate": {float64(s.Rate) / mega, m.rc}, "target": {float64(s.Target) / mega, m.rt}} {
				off := math.Abs(pair[0]-pair[1]) / pair[1]
				if worst = max(worst, off); off > 0.001 {
					t.Fatalf("seed %d, event %d: %s %v, the paper's %v", seed, event, what, pair[0], pair[1])
				}
			}
			least = min(least, m.rc)
			if !s.Limited {
				full++
			}
		}
		if least > line/2 || full == 0 {
			t.Errorf("seed %d: the least rate is %v, %d events at full rate: nothing to compare", seed, least, full)
		}
		t.Logf("seed %d: at worst %.2g off, least rate %.0f Mb/s", seed, worst, least)
	}
}

// Alpha is 1 before the first CNP, and falls while none comes.
func TestAlpha(t *testing.T) {
	p := Params{}.WithDefaults()
	r := &reaction{p: &p}
	r.Start(40e9)
	r.begun = true
	for i := range 200 {
		want := math.Pow(1-1./256, float64(i*1000))
		r.decay(frame.Time(i) * frame.Time(55*time.Millisecond))
		if got := float64(r.State().Alpha) / mega; math.Abs(got-want) > 2e-6 {
			t.Fatalf("after %d updates: %v, want %v", i*1000, got, want)
		}
	}
}

// AIMD halves at a CNP, never falls below MinRate, and recovers by rl_r_ai each timeout.
func TestAIMD(t *testing.T) {
	p := Params{Algorithm: AIMD}.WithDefaults()
	c := Algorithms[AIMD].New(&p)
	c.Start(1e9)
	if c.Next() != frame.Never || c.State().Limited {
		t.Error("limited at the start")
	}
	c.CNP(0)
	if s := c.State(); s.Rate != 5e8 || !s.Limited || c.Next() != frame.Time(55*time.Microsecond) {
		t.Errorf("%+v", s)
	}
	c.Expire(frame.Time(110 * time.Microsecond))
	if s := c.State(); s.Rate != 58e7 {
		t.Errorf("%+v", s)
	}
	for range 20 {
		c.CNP(frame.Time(110 * time.Microsecond))
	}
	if s := c.State(); s.Rate != MinRate {
		t.Errorf("%+v", s)
	}
	c.Expire(frame.Time(time.Second))
	if s := c.State(); s.Rate != 1e9 || c.Next() != frame.Never {
		t.Errorf("%+v", s)
	}
}

// A limiter's frames leave at the rate of its controller, a change counts for what waits
// already, one that comes late makes up for it, and none waits at full rate. It allocates
// nothing.
func TestLimiter(t *testing.T) {
	p := Params{}.WithDefaults()
	l := NewLimiters(&p)[0]
	l.Start(8e9)
	now := frame.Time(time.Second)
	for range 3 {
		if l.Holds(now) || l.Deadline() != frame.Never || l.Burst() != math.MaxInt {
			t.Fatal("held without a CNP")
		}
		l.Spend(60_000, now)
	}
	l.CNP(now) // alpha is 1: 4 Gb/s, 2 ns an octet
	if l.Holds(now) {
		t.Fatal("what was sent before counts")
	}
	l.Spend(10_000, now)
	if !l.Holds(now) || l.Deadline() != now.Add(20*time.Microsecond) || l.Burst() != 25_000 {
		t.Fatalf("%+v", l)
	}
	l.CNP(now) // a half of that
	if half := l.State().Rate; !l.Holds(now) || l.Deadline() != now.Add(40*time.Microsecond) || half > 21e8 || half < 2e9 {
		t.Fatalf("%v, deadline %v", half, l.Deadline().Sub(now))
	}
	l.Woken()
	if l.Deadline() != frame.Never {
		t.Error("woken, and waits")
	}
	late := now.Add(45 * time.Microsecond) // for frames of 20 us
	began, octets := late, 0
	for range 15 {
		for !l.Holds(late) && octets < 1<<20 {
			l.Spend(1000, late)
			octets += 1000
		}
		late = l.free.Add(3 * time.Microsecond)
	}
	least := int(late.Sub(began).Seconds() * 2e9 / 8) // the rate was 2 Gb/s and has grown
	if octets < least || octets > least+10_000 {
		t.Errorf("%d octets in %v at %+v, expected %d", octets, late.Sub(began), l.State(), least)
	}
	if allocs := testing.AllocsPerRun(100, func() {
		late = late.Add(10 * time.Microsecond)
		l.CNP(late)
		if !l.Holds(late) {
			l.Spend(1000, late)
		}
	}); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
	p.MaxRate = 1000
	l = NewLimiters(&p)[0]
	l.Start(1e9)
	l.Holds(now)
	if l.Spend(1000, now); !l.Holds(now) || l.Deadline() != now.Add(8*time.Microsecond) {
		t.Error("rl_max_rate does not hold without a CNP")
	}
}

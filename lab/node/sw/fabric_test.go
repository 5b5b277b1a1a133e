package sw

import (
	"math/rand/v2"
	"testing"
	"time"

	"tapir/lab/conf/swconf"
	"tapir/nic/linkmode"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/pause"
)

// source is a station that sends frames of a priority to the last port of a switch as fast
// as its link takes them, and obeys PFC: not before a cable's delay has passed, and never in
// the middle of a frame.
type source struct {
	port, prio, octets int
	next               frame.Time // when the link is free
	held               frame.Time // until when PFC holds the priority
	deaf               bool       // it does not obey
	told               int        // frames of its port that it has looked at
	sent               int
	flying             []left
	coming             []left // PFC frames on their way to it
}

// fabric is a switch with sources at its ports.
type fabric struct {
	*bed
	sources []*source
	mbps    int
	cable   time.Duration
	rng     *rand.Rand // nil: all frames are of one length
}

func newFabric(t *testing.T, ports int, speed linkmode.Speeds, cfg swconf.Config) *fabric {
	cfg.Speed = speed
	b := newBed(t, ports, cfg)
	f := &fabric{bed: b, mbps: int(speed.Mbps()), cable: time.Microsecond}
	for _, w := range b.wires {
		w.room = 1 << 30
	}
	for i := range b.s.ports {
		b.s.ports[i].flow.Speed = f.mbps // as both ends know it
	}
	b.send(ports-1, tagged(host(99), host(byte(ports-1)), 0, 100)) // is learned
	b.run(time.Millisecond)
	for _, w := range b.wires {
		w.take()
	}
	return f
}

// tagged is a frame of a priority.
func tagged(dst, src ether.Addr, prio, octets int) string {
	h := ether.Header{Dst: dst, Src: src, Type: 0x88b5, NTags: 1}
	h.Tags[0] = ether.Tag{TPID: ether.TypeVLAN, TCI: uint16(prio) << 13}
	b := h.AppendTo(nil)
	return string(append(b, make([]byte, octets-len(b))...))
}

func (f *fabric) add(port, prio, octets int) *source {
	s := &source{port: port, prio: prio, octets: octets, next: f.now}
	f.sources = append(f.sources, s)
	return s
}

// step takes in what has arrived, and sends what may be sent; next is when the next of that
// happens.
func (f *fabric) step(s *source) (next frame.Time) {
	for len(s.flying) > 0 && s.flying[0].at <= f.now {
		f.send(s.port, s.flying[0].b)
		s.flying = s.flying[1:]
	}
	for w := f.wires[s.port]; s.told < len(w.got); s.told++ {
		l := w.got[s.told]
		s.coming = append(s.coming, left{l.at.Add(f.cable), l.b})
	}
	for len(s.coming) > 0 && s.coming[0].at <= f.now {
		c, err := pause.Parse([]byte(s.coming[0].b))
		if err != nil || !c.PFC {
			f.t.Fatalf("%v: not a PFC frame", err)
		}
		if c.Enabled>>s.prio&1 != 0 && !s.deaf {
			s.held = s.coming[0].at.Add(pause.Duration(c.Timers[s.prio], f.mbps))
		}
		s.coming = s.coming[1:]
	}
	if max(s.next, s.held) <= f.now {
		n := s.octets
		if f.rng != nil {
			n = 64 + f.rng.IntN(s.octets-63)
		}
		s.next = f.now.Add(time.Duration((n + gap) * 8000 / f.mbps))
		s.flying = append(s.flying, left{s.next.Add(f.cable), tagged(host(byte(len(f.wires)-1)), host(byte(s.port+100)), s.prio, n)})
		s.sent++
	}
	next = max(s.next, s.held)
	if len(s.flying) > 0 {
		next = min(next, s.flying[0].at)
	}
	if len(s.coming) > 0 {
		next = min(next, s.coming[0].at)
	}
	return next
}

// pass lets d pass.
func (f *fabric) pass(d time.Duration) {
	for end := f.now.Add(d); f.now < end; {
		next := end
		for _, s := range f.sources {
			next = min(next, f.step(s))
		}
		next = min(next, f.s.Poll(f.now))
		for _, s := range f.sources {
			next = min(next, f.step(s))
		}
		f.now = max(next, f.now+1)
	}
}

// drops are those of all ports.
func (f *fabric) drops() (n uint64) {
	for i := range f.wires {
		c := f.s.Counts(i)
		n += c.RxDrops.Total() + c.TxDrops.Total()
	}
	return n
}

// octetsOf are those of each priority among frames.
func octetsOf(frames []left) (of [8]float64) {
	for _, l := range frames {
		of[l.b[14]>>5] += float64(len(l.b) + gap)
	}
	return of
}

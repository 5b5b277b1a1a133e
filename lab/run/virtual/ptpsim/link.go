package ptpsim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"time"

	"tapir/lab/conf/swconf"
	"tapir/lab/run/virtual/vtime"
	"tapir/wire/frame"
	"tapir/wire/pcapng"
)

// LinkConfig describes a cable, or a network that is looked at as one.
type LinkConfig struct {
	Ends      [2]string // the nodes
	Delay     time.Duration
	Asymmetry time.Duration // by which the way from the first end takes longer than the way back
	PDV       swconf.Delay  // packet delay variation, drawn for each frame and direction
	Loss      float64       // probabilities, from 0 to 1
	Duplicate float64
	Reorder   float64       // of a frame to be overtaken by what follows
	ReorderBy time.Duration // how much later such a frame comes
	Corrupt   float64       // of a frame to arrive with a bit turned
	Down      bool
}

// LinkCounts counts what happened to the frames of one direction.
type LinkCounts struct {
	Sent, Lost, Duplicated, Reordered, Corrupted uint64
}

func (c *LinkConfig) validate() (err error) {
	for _, p := range []float64{c.Loss, c.Duplicate, c.Reorder, c.Corrupt} {
		err = cmp.Or(err, expect(p >= 0 && p <= 1, "a probability of %v", p))
	}
	return cmp.Or(err,
		expect(c.Delay >= max(c.Asymmetry, -c.Asymmetry)/2,
			"a delay of %v is less than half of the asymmetry of %v", c.Delay, c.Asymmetry),
		expect(c.ReorderBy >= 0, "a frame that comes %v late", c.ReorderBy))
}

// expect is an error unless ok.
func expect(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// wire is a link of a world. It shares the event queue (package vtime) with the
// cables of labs in virtual time, but not their model (link.Virtual), which takes
// other decisions: it strikes TCP segments alone, with probabilities in ppm, lets a
// frame be overtaken by a number of others and copies what enters. Here every PTP
// message counts: probabilities are exact to 2^-53, delays have distributions and an
// asymmetry, a frame is late by a time, and its buffer goes through uncopied. What
// is left in common is a queue, and the world has that.
type wire struct {
	cfg  LinkConfig
	ends [2]*end
}

// end is one end of a link: what its node transmits there goes to the other.
type end struct {
	w      *vtime.World
	wire   *wire
	node   *Node
	port   frame.Port
	peer   *end
	rng    *rand.Rand
	delay  time.Duration
	last   frame.Time // no frame arrives earlier than the one before it
	counts LinkCounts
	iface  uint32 // of the capture
}

// join makes the links.
func (s *Sim) join() error {
	for i := range s.cfg.Links {
		c := s.cfg.Links[i]
		w := &wire{cfg: c}
		if err := c.validate(); err != nil {
			return fmt.Errorf("link %s - %s: %w", c.Ends[0], c.Ends[1], err)
		}
		for k, name := range c.Ends {
			n := s.Node(name)
			if n == nil {
				return fmt.Errorf("link %d: there is no node %q", i+1, name)
			}
			e := &end{w: s.world, wire: w, node: n, port: frame.Port(len(n.ends)),
				rng: rand.New(rand.NewPCG(s.cfg.Seed, uint64(2*i+k)))}
			if len(n.ends) > maxLinks {
				return fmt.Errorf("node %s has more than %d links", name, maxLinks)
			}
			label := fmt.Sprintf("%s/%d", name, e.port+1)
			n.ends = append(n.ends, e)
			n.ports = append(n.ports, portState{label: label})
			if s.capture != nil {
				e.iface = s.capture.add(label, n.mac(int(e.port)))
			}
			w.ends[k] = e
		}
		w.ends[0].peer, w.ends[1].peer = w.ends[1], w.ends[0]
		w.delays()
		s.links = append(s.links, w)
	}
	return nil
}

// maxLinks bounds the links of a node.
const maxLinks = 255

// delays computes what each direction takes.
func (w *wire) delays() {
	half := w.cfg.Asymmetry / 2
	w.ends[0].delay = w.cfg.Delay + half
	w.ends[1].delay = w.cfg.Delay - (w.cfg.Asymmetry - half)
}

// link returns the first link between two nodes, nil if there is none.
func (s *Sim) link(a, b string) *wire {
	for _, w := range s.links {
		if w.cfg.Ends == [2]string{a, b} || w.cfg.Ends == [2]string{b, a} {
			return w
		}
	}
	return nil
}

// Room implements frame.Link.
func (*end) Room() int { return 1 << 16 }

// Transmit implements frame.Link: the frame is on the line now.
func (e *end) Transmit(f *frame.Frame) {
	now, id := e.w.Now(), f.ID
	e.counts.Sent++
	e.node.tap(e, f.Bytes(), pcapng.Outbound, now)
	if e.lost() {
		e.counts.Lost++
		f.Release()
	} else {
		e.carry(f, now)
	}
	if id != 0 && e.node.TxDone(id, now, now) {
		e.w.Touch(e.node.place)
	}
}

func (e *end) lost() bool {
	c := &e.wire.cfg
	return e.chance(c.Loss) || c.Down || e.node.down
}

// chance is true with the given probability. Nothing is drawn for what cannot
// happen, so that switching one fault on leaves the others as they were.
func (e *end) chance(p float64) bool { return p > 0 && e.rng.Float64() < p }

func (e *end) carry(f *frame.Frame, now frame.Time) {
	c := &e.wire.cfg
	if e.chance(c.Corrupt) {
		b := f.Bytes()
		bit := e.rng.IntN(8 * len(b))
		b[bit/8] ^= 1 << (bit % 8)
		e.counts.Corrupted++
	}
	if e.chance(c.Duplicate) {
		twin := e.w.Pool.Get(f.Len())
		twin.Append(f.Bytes())
		e.counts.Duplicated++
		e.deliver(twin, now)
	}
	e.deliver(f, now)
}

func (e *end) deliver(f *frame.Frame, now frame.Time) {
	c := &e.wire.cfg
	at := now.Add(max(0, e.delay+c.PDV.Draw(e.rng)))
	at = max(at, e.last)
	if e.chance(c.Reorder) {
		at = at.Add(c.ReorderBy)
		e.counts.Reordered++
	} else {
		e.last = at
	}
	f.ID, f.Stamp, f.Seen, f.Queue = 0, 0, 0, 0
	e.w.Arrive(e.peer.node.place, e.peer.port, f, at)
}

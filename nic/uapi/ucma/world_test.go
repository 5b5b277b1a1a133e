package ucma

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"tapir/nic"
	"tapir/nic/buf"
	"tapir/nic/ideal"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// world is a cable in virtual time with NICs on it, which one server or
// several serve. With rng every NIC has a thread of its own, of which chance
// says which one runs next; else there is one.
type world struct {
	t      testing.TB
	now    frame.Time
	pool   *buf.Pool
	nodes  []*node
	flying []flying
	rng    *rand.Rand
	roce   bool                  // the NICs speak RoCE instead of iWARP
	mute   func(from *node) bool // its frames are lost
}

type flying struct {
	at   frame.Time
	from *node
	data []byte
}

type node struct {
	w    *world
	dev  *nic.Device
	mail []func(now frame.Time)
	d    *Device
	more []*Device // that programs have besides
	sent []byte    // the frame that leaves
}

const delay = 10 * time.Microsecond

func newWorld(t testing.TB, rng *rand.Rand) *world {
	return &world{t: t, now: frame.Time(time.Hour), pool: buf.NewPool(4096, 0), rng: rng}
}

// nic adds a NIC with these addresses to s.
func (w *world) nic(s *Server, name string, addrs ...string) *node {
	n := &node{w: w}
	cfg := nic.Config{Name: name, Hardware: &ideal.Config{}}
	if w.roce {
		cfg.RDMA.Personality = verbs.RoCE
	}
	for _, a := range addrs {
		cfg.Addrs = append(cfg.Addrs, netip.MustParsePrefix(a))
	}
	var err error
	if n.dev, err = nic.New(cfg, nic.Env{Pool: w.pool, Wire: n, Now: func() frame.Time { return w.now }}); err != nil {
		w.t.Fatal(err)
	}
	w.nodes = append(w.nodes, n)
	n.dev.LinkUp(w.now)
	face := NIC{
		Verbs: n.dev.Verbs, CM: n.dev.CM, Network: n.dev.IP, Schedule: n.dev.Schedule,
		Now: func() frame.Time { return w.now }, QP: n.qp,
	}
	if w.rng != nil {
		face.Do = func(fn func(now frame.Time)) { n.mail = append(n.mail, fn) }
	}
	n.d = s.Attach(face)
	return n
}

func (n *node) qp(_ int, num uint32) *verbs.QP {
	for _, q := range n.dev.Verbs.QPs() {
		if q.QPN() == num {
			return q
		}
	}
	return nil
}

// Transmit implements frame.Link.
func (n *node) Transmit(f *frame.Frame) {
	data, id := bytes.Clone(f.Bytes()), f.ID
	f.Release()
	n.sent = data
	if n.w.mute == nil || !n.w.mute(n) {
		n.w.flying = append(n.w.flying, flying{n.w.now.Add(delay), n, data})
	}
	n.dev.TxDone(id, n.w.now, n.w.now)
}

// Room implements frame.Link.
func (n *node) Room() int { return 64 }

// turn runs the NIC once and returns when it wants to run again.
func (n *node) turn() frame.Time {
	mail := n.mail
	n.mail = nil
	for _, fn := range mail {
		fn(n.w.now)
	}
	again := n.dev.Dispatch(n.w.now)
	at := n.dev.Poll(n.w.now)
	if again || len(n.mail) > 0 {
		return n.w.now
	}
	return at
}

// rest runs the NICs until none has anything to do now.
func (w *world) forgetIfIdle() frame.Time {
	for range 10000 {
		if w.rng != nil { // one after the other, as their threads may
			w.nodes[w.rng.IntN(len(w.nodes))].turn()
		}
		next := frame.Never
		for _, n := range w.nodes {
			next = min(next, n.turn())
		}
		if next > w.now && !w.mailed() {
			return next
		}
	}
	w.t.Fatal("the NICs do not come to rest")
	return 0
}

func (w *world) mailed() bool {
	for _, n := range w.nodes {
		if len(n.mail) > 0 {
			return true
		}
	}
	return false
}

// advance goes to the next moment at which something happens: at next, if no
// frame comes before.
func (w *world) advance(next frame.Time) {
	if len(w.flying) > 0 {
		next = min(next, w.flying[0].at)
	}
	w.now = next
	for len(w.flying) > 0 && w.flying[0].at <= w.now {
		fl := w.flying[0]
		w.flying = w.flying[1:]
		for _, n := range w.nodes {
			if n != fl.from {
				f := w.pool.Get(len(fl.data))
				f.Append(fl.data)
				n.dev.Receive(frame.Wire, []*frame.Frame{f}, w.now)
			}
		}
	}
}

// run lets d pass.
func (w *world) run(d time.Duration) {
	for end := w.now.Add(d); w.now < end; {
		w.advance(min(w.forgetIfIdle(), end))
	}
}

// until lets time pass until done, and tells whether that came within five
// minutes.
func (w *world) until(done func() bool) bool {
	for end := w.now.Add(5 * time.Minute); w.now < end; {
		next := w.forgetIfIdle()
		if done() {
			return true
		}
		w.advance(min(next, end))
	}
	return false
}

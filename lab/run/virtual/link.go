package virtual

import (
	"cmp"
	"math"
	"time"

	"tapir/lab/host/fault"
	lablink "tapir/lab/host/link"
	"tapir/lab/run/steps"
	"tapir/lab/tool/inspect"
	"tapir/lab/topo"
	"tapir/nic/fastlinq"
	"tapir/nic/linkmode"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/virtio"
)

// Rate and delay of a link for which the file gives none, since time has to pass
// somewhere, and the time after which senders wait.
const (
	defaultRate  = 100e9 // bits per second
	defaultDelay = time.Microsecond
	backlog      = 20 * time.Microsecond
)

// link is a link of the lab.
type link struct {
	*topo.Link
	lab     *lab
	wire    *lablink.Virtual
	ends    [2]*end
	most    int                   // octets of a frame without offloads
	fault   [2]lablink.Impairment // of frames from either end
	rules   *fault.Engine
	down    bool
	tooLong uint64
	split   virtio.Splitter
	rec     *recording // nil: the link is not captured
	place   int        // in the file's order
	ifaces  [2]uint32
	reader  *inspect.Inspector // tells the stepper what frames carry; nil: nobody asks
	parts   virtio.Splitter
	message string // of the current frame
}

// end is one end of a link: what its node transmits there goes to the other.
type end struct {
	link *link
	side int
	node *node
	port frame.Port
	look func()     // takes in what has arrived
	wake frame.Time // when the next look is
	// batch is what a look takes in, one frame at a time.
	batch [1]*frame.Frame
	// offered is what the node has told the other end of the link: offerer did, when
	// it had managed the port so often.
	offered linkmode.Ability
	offerer *fastlinq.Device
	managed uint64
}

// addLink makes the ends of a link, which the nodes need.
func (l *lab) addLink(t *topo.Link) *link {
	k := &link{Link: t, lab: l, place: len(l.links)}
	for i, name := range t.Ends {
		n := l.node(name)
		e := &end{link: k, side: i, node: n, port: frame.Port(len(n.ends)), wake: frame.Never}
		e.look = e.arrivals
		n.ends = append(n.ends, e)
		k.ends[i] = e
	}
	return k
}

// join makes the cable, once the nodes are known.
func (k *link) join() error {
	const tags = 2 * ether.TagLen
	mtu := k.mtu()
	k.most = mtu + ether.HeaderLen + tags
	k.fault = k.Fault
	var err error
	if k.rules, err = steps.Rules(k.lab.topo, k.Link, k.lab.findQP); err != nil {
		return err
	}
	cfg := lablink.VirtualConfig{ToB: k.impairment(0), ToA: k.impairment(1), Seed: k.lab.topo.SeedOf(k.Link),
		Pool: k.lab.world.Pool, Clock: k.lab.world,
		Rules: k.rules, Struck: func(s fault.Strike) { k.lab.log.Printf("%s: %v", k.Name, s) }}
	if k.lab.opt.Wanted(k.lab.topo, k.Link) {
		err = k.record(mtu)
		cfg.Tracer = k
	}
	if k.lab.steps != nil {
		k.watch()
		cfg.Tracer = k
	}
	k.wire = lablink.NewVirtual(cfg)
	k.lab.undo.Add(k.wire.Close)
	return err
}

// mtu is what the link carries, in octets of IP.
func (k *link) mtu() int {
	return cmp.Or(k.MTU, max(1500, k.ends[0].node.mtu(), k.ends[1].node.mtu()))
}

// impairment is what happens to frames from an end now.
func (k *link) impairment(from int) lablink.Impairment {
	f := k.fault[from]
	f.Down = k.down
	f.Delay = cmp.Or(f.Delay, defaultDelay)
	if f.Rate == 0 {
		f.Rate, f.Queue = defaultRate, math.MaxInt32
	}
	return f
}

// set makes f happen to frames from now on.
func (k *link) set(f [2]lablink.Impairment) {
	k.fault = f
	k.wire.Set(k.impairment(0), k.impairment(1))
	for _, e := range k.ends {
		k.lab.world.Touch(e.node.place)
	}
}

// plug takes the link down or up.
func (k *link) plug(down bool) {
	k.down = down
	k.set(k.fault)
	for _, e := range k.ends {
		e.carrier(!down)
	}
}

// counts are the link's counters.
func (k *link) counts() topo.LinkCounts {
	a, b := k.wire.Faults()
	return topo.LinkCounts{Frames: a.Frames + b.Frames, Lost: a.Lost + b.Lost, Duplicated: a.Duplicated + b.Duplicated,
		Corrupted: a.Corrupted + b.Corrupted, Reordered: a.Reordered + b.Reordered,
		Refused: a.Refused + b.Refused + k.tooLong, Rules: k.rules.Counts()}
}

// waits reports whether nodes wait while the link is busy: without a rate in the
// file, no frame is lost to a full queue.
func (k *link) waits(from int) bool { return k.fault[from].Rate == 0 }

// freeAt is when the link takes frames from this end; in the past if it does now.
func (e *end) freeAt() frame.Time {
	if !e.link.waits(e.side) {
		return 0
	}
	return e.link.wire.Busy(e.side).Add(-backlog)
}

// Room implements frame.Link. While the lab is built, nothing leaves.
func (e *end) Room() int {
	if e.link.wire == nil {
		return 0
	}
	if e.freeAt() > e.link.lab.world.Now() {
		e.node.blocked = true
		return 0
	}
	return 64
}

// Transmit implements frame.Link: the frame is on the line now.
func (e *end) Transmit(f *frame.Frame) {
	now, id := e.link.lab.world.Now(), f.ID
	e.send(f)
	f.Release()
	if id != 0 && e.node.TxDone(id, now, now) {
		e.node.again = true
	}
}

// send puts f (borrowed) on the line: its true segments, if the other end does
// not take super-frames.
func (e *end) send(f *frame.Frame) {
	far := e.link.ends[1-e.side]
	if f.Offload.GSO == frame.GSONone && !f.Offload.NeedsCsum || far.node.vnet() && e.node.vnet() {
		e.enter(f)
		return
	}
	err := e.link.split.Split(f.Offload, f.Bytes(), func(seg []byte) {
		g := e.link.lab.world.Pool.Get(len(seg))
		g.Append(seg)
		e.enter(g)
		g.Release()
	})
	if err != nil {
		e.link.tooLong++
	}
}

func (e *end) enter(f *frame.Frame) {
	k := e.link
	if f.Len() > k.most && f.Offload.GSO == frame.GSONone {
		k.tooLong++
		return
	}
	k.wire.Enter(e.side, f, k.lab.world.Now())
	k.ends[1-e.side].await()
	if k.rules != nil { // they may answer
		e.await()
	}
}

// await schedules the arrival of the next frame.
func (e *end) await() {
	if at := e.link.wire.Next(1 - e.side); at < e.wake {
		e.wake = at
		e.link.lab.world.Turn(e.node.place, at, e.look)
	}
}

// arrivals takes in what has arrived.
func (e *end) arrivals() {
	now := e.link.lab.world.Now()
	if now >= e.wake {
		e.wake = frame.Never
	}
	for f := e.link.wire.Due(1-e.side, now); f != nil; f = e.link.wire.Due(1-e.side, now) {
		f.ID = 0
		e.batch[0] = f
		e.node.Receive(e.port, e.batch[:], now)
	}
	e.await()
}

package fastlinq

import (
	"sync/atomic"

	"tapir/nic/fastlinq/cmt"
	"tapir/nic/fastlinq/irq"
	"tapir/nic/fastlinq/l2"
	"tapir/nic/fastlinq/qede"
	"tapir/nic/fastlinq/settings"
	"tapir/nic/nicdrop"
	"tapir/wire/drop"
	"tapir/wire/frame"
)

// SecondEngine is the second engine of a NIC that has two (settings.CMT): the Ethernet side of
// hwfn 1, with a vport, queues, filters and interrupts of its own. It shares
// nothing with the first but a ring each way, so that an event loop of its own
// may drive it: the NIC's reads the wire and passes on what is for it.
//
//	wire -> first loop: steering -> ring -> vport -> receive queue -> host TAP
//	wire <- first loop             <- ring <- vport <- transmit queue <- host TAP
type SecondEngine struct {
	pool    frame.Pool
	system  frame.Clock
	netdev  *qede.Netdev
	irq     interrupts
	host    frame.Link
	in, out *cmt.Ring
	logs    atomic.Bool // the first engine logs what is dropped
	failed  bool
	tracer  frame.Tracer
	record  frame.Record
	drops   frame.Drops
	now     frame.Time

	rxFrames, rxBytes, txFrames, txBytes uint64 // of the host
}

// enginePart is what is read from the ring at a time.
const enginePart = 64

// What a frame in a ring is, where it does not say the queue of the host TAP that
// it came by, and that it has to be sent in another engine's stead.
const (
	fromVport   = 0xffff
	fromDrop    = 0x8000 // or'ed with the port and the reason: it was dropped, and is logged
	dropPortBit = 8
)

// dropped is where a frame in the ring was dropped, and why; DropNone: it was not.
func dropped(f *frame.Frame) (p frame.Port, r frame.DropReason) {
	if f.Queue == fromVport || f.Queue&fromDrop == 0 {
		return 0, frame.DropNone
	}
	return frame.Port(f.Queue >> dropPortBit & 1), frame.DropReason(f.Queue)
}

// engineIDs are the numbers of frames that the second engine numbers.
const engineIDs = 1 << 48

// compose makes the netdev with status blocks of the second hwfn.
func (e *SecondEngine) compose(c *settings.NIC, blocks irq.Config, sp *slowpath, s qede.Settings) (err error) {
	if err = e.irq.init(blocks, 1, c.Queues, 0); err != nil {
		return err
	}
	for id := range e.irq.blocks {
		b := &e.irq.blocks[id]
		b.Handle(func(*irq.SB, frame.Time) {
			for _, q := range b.queues {
				e.netdev.Schedule(q)
			}
		})
	}
	e.netdev, err = qede.New(l2.Config{Pool: e.pool, Engines: c.Engines, Superframes: c.Superframes,
		Drop: e.dropFromVport, Fire: e.irq.fired, Assert: sp.fwAssert},
		sp.post, e.irq.queueBlocks(), s)
	return err
}

// Receive takes frames of the host TAP's queues that are this engine's.
func (e *SecondEngine) Receive(_ frame.Port, frames []*frame.Frame, now frame.Time) {
	e.now = now
	for _, f := range frames {
		e.fromHost(f)
	}
	e.out.Flush()
}

// fromHost takes a frame of the operating system: it waits in a transmit queue.
// That of an engine that has failed is sent by the other.
func (e *SecondEngine) fromHost(f *frame.Frame) {
	e.rxFrames++
	e.rxBytes += uint64(f.Len())
	f.ID, f.Stamp = engineIDs+e.rxFrames, e.system.At(e.now)
	e.trace(frame.Host, frame.Inbound, f, frame.DropNone)
	if e.failed {
		if !e.out.Push(f) {
			e.drop(frame.Wire, f, nicdrop.EngineRing)
		}
		return
	}
	e.queue(f)
}

func (e *SecondEngine) queue(f *frame.Frame) {
	f.Queue = uint16(cmt.Local(int(f.Queue)))
	if r := e.netdev.Queue(f); r != frame.DropNone {
		e.drop(frame.Wire, f, r)
	}
}

// Dispatch has nothing to do.
func (e *SecondEngine) Dispatch(frame.Time) bool { return false }

// TxDone is of no interest.
func (e *SecondEngine) TxDone(_ uint64, _, _ frame.Time) bool { return false }

// Poll lets the engine work: what has come by the ring goes to the host TAP, what
// waits in the transmit queues into the other ring. It returns when it wants to be
// called again.
func (e *SecondEngine) Poll(now frame.Time) frame.Time {
	e.now = now
	more := e.drain()
	e.netdev.Flush()
	e.irq.report(now)
	next := e.irq.poll(now)
	e.netdev.Transmit(engineOutput{e})
	e.netdev.Deliver(engineInput{e})
	e.irq.report(now)
	next = min(next, e.irq.poll(now))
	e.out.Flush()
	if more || e.host.Room() > 0 && e.netdev.Due() {
		return now
	}
	return next
}

// drain takes a part of what has come by the ring, and tells whether there is
// more.
func (e *SecondEngine) drain() (more bool) {
	for range enginePart {
		f, some := e.in.Take(e.pool)
		switch {
		case f == nil && !some:
			e.in.Taken()
			e.netdev.Relieve()
			return false
		case f == nil:
			e.drops.Count(drop.NoBuffer)
		case e.failed:
			e.drop(frame.Host, f, nicdrop.Engine)
		case f.Queue != fromVport:
			e.queue(f)
		default:
			f.Queue = 0
			if r := e.netdev.Receive(f); r != frame.DropNone {
				e.drop(frame.Host, f, r)
			}
		}
	}
	e.in.Taken()
	e.netdev.Relieve()
	return e.in.Len() > 0
}

// engineOutput is the way out for frames of the vport, engineInput that for those
// that it has received.
type (
	engineOutput struct{ e *SecondEngine }
	engineInput  struct{ e *SecondEngine }
)

// Transmit implements frame.Link.
func (o engineOutput) Transmit(f *frame.Frame) {
	f.Queue = fromVport
	o.e.out.Transmit(f)
}

// Room implements frame.Link.
func (o engineOutput) Room() int { return o.e.out.Room() }

// Transmit implements frame.Link.
func (i engineInput) Transmit(f *frame.Frame) {
	e := i.e
	e.txFrames++
	e.txBytes += uint64(f.Len())
	f.Queue = uint16(cmt.Queue(1, int(f.Queue)))
	f.ID, f.Stamp = engineIDs+e.txFrames, e.system.At(e.now)
	e.trace(frame.Host, frame.Outbound, f, frame.DropNone)
	e.host.Transmit(f)
}

// Room implements frame.Link.
func (i engineInput) Room() int { return i.e.host.Room() }

// drop counts, records and releases a frame that cannot leave by a port.
func (e *SecondEngine) drop(p frame.Port, f *frame.Frame, r frame.DropReason) {
	e.drops.Count(r)
	e.trace(p, frame.Outbound, f, r)
	if !e.logs.Load() {
		f.Release()
		return
	}
	e.tell(p, f, r)
}

// tell has the first engine log a frame (taken) that was dropped, if its ring has room.
func (e *SecondEngine) tell(p frame.Port, f *frame.Frame, r frame.DropReason) {
	f.Queue = fromDrop | uint16(p)<<dropPortBit | uint16(r)
	if !e.out.Push(f) {
		f.Release()
	}
}

// dropFromVport hears of a frame that the vport has taken and does not pass on.
func (e *SecondEngine) dropFromVport(side l2.Sides, f *frame.Frame, r frame.DropReason) {
	e.drops.Count(r)
	p := frame.Wire
	if side == l2.Rx {
		p = frame.Host
	}
	e.trace(p, frame.Outbound, f, r)
	if !e.logs.Load() {
		return
	}
	if c := e.pool.Get(f.Len()); c != nil {
		c.Append(f.Bytes())
		e.tell(p, c, r)
	}
}

func (e *SecondEngine) trace(p frame.Port, dir frame.Direction, f *frame.Frame, r frame.DropReason) {
	if e.tracer == nil {
		return
	}
	e.record = frame.Record{Port: p, Dir: dir, Data: f.Bytes(), Offload: f.Offload, Stamp: f.Stamp,
		System: e.system.At(e.now), ID: f.ID, Queue: f.Queue, Drop: r}
	e.tracer.Trace(&e.record)
	e.record.Data = nil
}

// applyState brings the netdev of an engine to settings, open or closed. That of an engine
// that has failed stays closed; without filters is the fault that those of the
// station are missing.
func applyState(s settings.EngineState, n *qede.Netdev, to qede.Settings, open bool) error {
	open = open && s != settings.EngineFailed
	if err := n.Apply(to, open); err != nil || !open || s != settings.EngineUnfiltered {
		return err
	}
	return n.Function().FilterUcast(l2.UcastParams{Op: l2.FilterFlush, Type: l2.FilterMAC, Sides: l2.Both})
}

// IRQ are the interrupts of the engine.
func (e *SecondEngine) IRQ() *irq.Device { return e.irq.dev }

// SetHost replaces its queues of the host TAP.
func (e *SecondEngine) SetHost(l frame.Link) { e.host = l }

package loop

import (
	"errors"

	"tapir/nic/tap"
	"tapir/wire/drop"
	"tapir/wire/frame"
)

const (
	// superFrame is room for the longest frame that a TAP with segmentation
	// offload delivers: 64 KiB of IP packet behind its Ethernet header.
	superFrame = 64<<10 + 64
	// copyBelow is the length up to which a frame read into a large buffer
	// moves into a small one, so that large ones stay few and hot.
	copyBelow = 2 << 10
	// backlog bounds the frames that wait for a queue that is not ready.
	backlog = txFrames
)

// Port is one queue and the link by which the engine sends on it.
type Port struct {
	loop       *Loop
	port       frame.Port
	queue      tap.Queue
	holder     tap.Buffered // the queue, if it is one; nil: it is not
	ring       tap.Ring     // nil: the queue is not in memory
	sleeper    tap.Sleeper  // the queue, if it is one; nil: it is not
	batcher    tap.Batcher  // nil: each frame leaves at once
	batched    bool         // sendBatch runs at the end of the iteration
	stuck      bool         // it has to wait for room
	flushing   func()       // sendBatch
	readSize   int
	batch      [rxFrames]*frame.Frame
	budget     int                   // frames the engine may still send in the round
	round      uint32                // the loop's round that the budget is of
	waiting    [backlog]*frame.Frame // a ring: accepted, but the queue was not ready
	first, n   int
	ahead      *frame.Frame // read by peek, first of the next batch
	at         int          // among the loop's ports
	single     bool         // the last batch was one frame: they come one at a time
	unbuffered bool         // the pool had nothing to read into
	held       bool         // the engine takes no frames
	err        error
	lost       func(error) // may be nil
	observer   Observer    // nil: none
	reports    bool        // the engine is told when frames left
	drops      frame.Drops
	index      uint16 // among the queues of a TAP
}

func newPort(l *Loop, port frame.Port, q tap.Queue) *Port {
	p := &Port{loop: l, port: port, queue: q, budget: txFrames, readSize: superFrame, reports: port == frame.Wire}
	p.holder, _ = q.(tap.Buffered)
	p.ring, _ = q.(tap.Ring)
	p.sleeper, _ = q.(tap.Sleeper)
	if p.batcher, _ = q.(tap.Batcher); p.batcher != nil {
		p.batcher.Batch()
		p.flushing = p.sendBatch
	}
	return p
}

// SetIndex says which of a TAP's queues this is: frames read from it carry the
// number in Queue.
func (p *Port) SetIndex(i int) { p.index = uint16(i) }

// Hold keeps the loop from reading the queue, so that whoever sends into it has to wait, or
// ends that. It belongs to the loop's thread.
func (p *Port) Hold(on bool) {
	if p.held == on {
		return
	}
	p.held, p.loop.unread[p.at], p.single = on, !on, false
	p.loop.uneven, p.loop.more = true, p.loop.more || !on
}

// OnLoss lets the loop go on without this queue once it fails for good: it is
// removed, and lost (kept) is called with the reason on the loop's thread.
func (p *Port) OnLoss(lost func(err error)) { p.lost = lost }

// Report has the engine told when frames left by this port, or that they were
// lost, as it is of the wire. IDs are then common to all such ports.
func (p *Port) Report() { p.reports = true }

// SetMaxFrame changes the length in octets of the longest frame that is read.
// It belongs to the loop's thread.
func (p *Port) SetMaxFrame(octets int) {
	if !p.queue.Vnet() {
		p.readSize = octets + 8
	}
}

// Room is how many frames the link takes now: 0 while the queue is not ready.
func (p *Port) Room() int {
	if p.n > 0 || p.stuck {
		return 0
	}
	return p.left()
}

// left is the budget in this round.
func (p *Port) left() int {
	if p.round != p.loop.round {
		p.round, p.budget = p.loop.round, txFrames
	}
	return p.budget
}

// Transmit takes f and writes it to the queue at once; the buffer is then
// free, and still hot, for the next frame. A tap.Batcher sends at the end of the
// iteration. A frame beyond Room is dropped.
func (p *Port) Transmit(f *frame.Frame) {
	if p.n > 0 || p.left() == 0 {
		p.keep(f)
		return
	}
	if p.budget--; p.budget == 0 {
		p.loop.spent = true
	}
	p.send(f)
	if p.budget == txFrames-endAfter {
		p.loop.end()
	}
}

func (p *Port) send(f *frame.Frame) {
	p.loop.lingerer.moved += f.Len()
	at := p.loop.clock.now()
	if err := p.queue.Write(f); err == tap.ErrAgain {
		p.keep(f)
	} else {
		p.wrote(f, at, err)
	}
}

// wrote is done with a frame that the queue took or refused.
func (p *Port) wrote(f *frame.Frame, at frame.Time, err error) {
	switch err {
	case nil:
		if p.batcher != nil && !p.batched {
			p.batched = true
			p.loop.AtEnd(p.flushing)
		}
		if p.observer != nil && p.observer.Event(f.Bytes()) {
			at = p.seen(p.observer.Sent(f.Bytes()))
		}
		p.finish(f, at)
	case tap.ErrRefused:
		p.drop(f, drop.Link)
	default:
		p.drop(f, drop.Link)
		p.fail(err)
	}
}

// sendBatch sends what the queue has held back.
func (p *Port) sendBatch() {
	err := p.batcher.Flush()
	p.batched, p.stuck = false, err == tap.ErrAgain
	switch err {
	case nil:
	case tap.ErrAgain:
		p.loop.uneven = true
	case tap.ErrRefused:
		p.drops.Count(drop.Link)
	default:
		p.fail(err)
	}
}

// fail notes why the queue is of no use any more.
func (p *Port) fail(err error) { p.err, p.loop.broken = err, true }

// drop loses a frame that was to be sent.
func (p *Port) drop(f *frame.Frame, why frame.DropReason) {
	p.drops.Count(why)
	p.finish(f, frame.Never)
}

// finish releases a frame that left at a time, Never if that is not known or
// it was lost, and has the engine told.
func (p *Port) finish(f *frame.Frame, at frame.Time) {
	if p.reports && f.ID != 0 {
		p.loop.done = append(p.loop.done, sent{f.ID, at})
	}
	f.Release()
}

func (p *Port) keep(f *frame.Frame) {
	if p.n == backlog {
		p.drop(f, drop.TxQueue)
		return
	}
	p.waiting[(p.first+p.n)%backlog] = f
	p.n++
	p.loop.uneven = true
}

// flush sends what waited for the queue, oldest first.
func (p *Port) flush() {
	if p.stuck {
		p.sendBatch()
	}
	for range p.n {
		f := p.waiting[p.first]
		at := p.loop.clock.now()
		err := p.queue.Write(f)
		if err == tap.ErrAgain {
			return
		}
		p.waiting[p.first] = nil
		p.first, p.n = (p.first+1)%backlog, p.n-1
		p.wrote(f, at, err)
	}
}

// discard releases what still waits, in both directions.
func (p *Port) discard() {
	if p.ahead != nil {
		p.ahead.Release()
		p.ahead = nil
	}
	for ; p.n > 0; p.n-- {
		p.waiting[p.first].Release()
		p.waiting[p.first] = nil
		p.first = (p.first + 1) % backlog
	}
}

// Drops counts the frames that this port lost itself: refused by the TAP,
// sent beyond Room, longer than the buffer, or without a buffer.
func (p *Port) Drops() frame.Drops { return p.drops }

// receive reads one batch and hands it to the engine, in parts that stay in
// the cache, and notes in loop.unread whether the queue holds more. Where frames come
// one at a time it reads one: a look for the next costs more than to be told of it.
func (p *Port) receive() error {
	n, part, octets := 0, 0, 0
	if p.ahead != nil {
		p.batch[0], p.ahead = p.ahead, nil
		n, part = 1, p.batch[0].Len()
	}
	more := true
	total := n
	for tries := n; tries < rxFrames && octets+part < rxOctets; tries++ {
		if p.single && total == 1 && !p.buffered() {
			more = false
			break
		}
		if part >= rxPart {
			p.deliver(n)
			n, octets, part = 0, octets+part, 0
		}
		f, err := p.read()
		if err == tap.ErrAgain {
			more = false
			break
		}
		if err != nil {
			p.release(n)
			return err
		}
		if f != nil {
			p.batch[n] = f
			part += f.Len()
			n++
			total++
		}
	}
	p.loop.lingerer.moved += octets + part
	p.single, p.loop.unread[p.at] = total == 1 && !more, more
	p.deliver(n)
	return nil
}

// buffered tells whether the queue itself holds frames: its descriptor does not tell.
func (p *Port) buffered() bool { return p.holder != nil && p.holder.Buffered() }

// deliver hands the first n frames of the batch to the engine.
func (p *Port) deliver(n int) {
	if n > 0 {
		p.loop.engine.Receive(p.port, p.batch[:n], p.loop.clock.now())
		clear(p.batch[:n])
	}
}

// peek tries to read a frame ahead and tells whether receive has work: that
// frame, or an error to find.
func (p *Port) peek() bool {
	if p.held {
		return false
	}
	f, err := p.read()
	p.ahead, p.single = f, false
	more := f != nil || err != nil && err != tap.ErrAgain
	p.loop.unread[p.at], p.loop.more = more, p.loop.more || more
	return more
}

func (p *Port) release(n int) {
	for _, f := range p.batch[:n] {
		f.Release()
	}
	clear(p.batch[:n])
}

// read returns one frame, nil for one that had to be dropped, or the queue's
// error. Without a free buffer the kernel's queue is left to fill.
func (p *Port) read() (*frame.Frame, error) {
	f := p.loop.pool.Get(p.readSize)
	if f == nil {
		p.drops.Count(drop.NoBuffer)
		p.unbuffered, p.loop.uneven = true, true
		return nil, tap.ErrAgain
	}
	err := p.queue.Read(f)
	if err == nil {
		f = p.compact(f)
		f.Queue = p.index
		if p.observer != nil && p.observer.Event(f.Bytes()) {
			f.Seen = p.seen(p.observer.Received(f.Bytes()))
		}
		return f, nil
	}
	f.Release()
	switch {
	case errors.Is(err, tap.ErrOversize):
		p.drops.Count(drop.Oversize)
		return nil, nil
	case errors.Is(err, tap.ErrRefused):
		p.drops.Count(drop.Malformed)
		return nil, nil
	}
	return nil, err
}

// compact moves a short frame out of a large buffer.
func (p *Port) compact(f *frame.Frame) *frame.Frame {
	if p.readSize <= copyBelow || f.Len() > copyBelow {
		return f
	}
	small := p.loop.pool.Get(f.Len())
	if small == nil {
		return f
	}
	small.Append(f.Bytes())
	small.Offload = f.Offload
	f.Release()
	return small
}

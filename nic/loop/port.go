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
	readSize   int
	batch      [rxFrames]*frame.Frame
	budget     int                   // frames the engine may still send in this iteration
	waiting    [backlog]*frame.Frame // a ring: accepted, but the queue was not ready
	first, n   int
	ahead      *frame.Frame // read by peek, first of the next batch
	more       bool         // the last batch did not empty the queue
	single     bool         // the last batch was one frame: they come one at a time
	unbuffered bool         // the pool had nothing to read into
	err        error
	lost       func(error) // may be nil
	observer   Observer    // nil: none
	reports    bool        // the engine is told when frames left
	drops      frame.Drops
	index      uint16 // among the queues of a TAP
}

// SetIndex says which of a TAP's queues this is: frames read from it carry the
// number in Queue.
func (p *Port) SetIndex(i int) { p.index = uint16(i) }

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
	if p.n > 0 {
		return 0
	}
	return p.budget
}

// Transmit takes f and writes it to the queue at once; the buffer is then
// free, and still hot, for the next frame. A frame beyond Room is dropped.
func (p *Port) Transmit(f *frame.Frame) {
	if p.n > 0 || p.budget == 0 {
		p.keep(f)
		return
	}
	p.budget--
	p.send(f)
	if p.budget == txFrames-endAfter {
		p.loop.end()
	}
}

func (p *Port) send(f *frame.Frame) {
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
		if p.observer != nil && p.observer.Event(f.Bytes()) {
			at = p.seen(p.observer.Sent(f.Bytes()))
		}
		p.finish(f, at)
	case tap.ErrRefused:
		p.drop(f, drop.Link)
	default:
		p.drop(f, drop.Link)
		p.err = err
	}
}

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
}

// flush sends what waited for the queue, oldest first.
func (p *Port) flush() {
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
// the cache, and notes in p.more whether the queue holds more. Where frames come
// one at a time it reads one: a look for the next costs more than to be told of it.
func (p *Port) receive() error {
	n, part, octets := 0, 0, 0
	if p.ahead != nil {
		p.batch[0], p.ahead = p.ahead, nil
		n, part = 1, p.batch[0].Len()
	}
	p.more = true
	total := n
	for tries := n; tries < rxFrames && octets+part < rxOctets; tries++ {
		if p.single && total == 1 && !p.buffered() {
			p.more = false
			break
		}
		if part >= rxPart {
			p.deliver(n)
			n, octets, part = 0, octets+part, 0
		}
		f, err := p.read()
		if err == tap.ErrAgain {
			p.more = false
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
	p.single = total == 1 && !p.more
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
	f, err := p.read()
	p.ahead, p.single = f, false
	p.more = f != nil || err != nil && err != tap.ErrAgain
	return p.more
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
		p.unbuffered = true
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

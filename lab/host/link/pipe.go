package link

import (
	"math/rand/v2"
	"slices"
	"time"

	"tapir/wire/drop"
	"tapir/wire/frame"
)

// Faults are what a Pipe does to frames, each with a probability in parts per
// million, decided by a seeded source.
type Faults struct {
	Loss      int           // the frame vanishes
	Duplicate int           // it arrives twice
	Corrupt   int           // one bit is flipped behind the Ethernet header
	Reorder   int           // it arrives Late after its turn
	Late      time.Duration // default 1 ms
}

// PipeConfig describes a Pipe.
type PipeConfig struct {
	Delay  time.Duration // of each frame, one way
	Queue  int           // frames in flight one way, beyond which Room is 0 (default 256)
	Seed   uint64
	Faults [2]Faults // of the frames that end 0, end 1 sends
}

// Pipe is a cable in virtual time between two engines: no clock, no
// goroutine; the same seed and calls give the same frames. Frames move from
// one end to the other without a copy, so both engines must share one world
// and pool.
type Pipe struct {
	end [2]*PipeEnd
	now frame.Time
}

// PipeEnd is one end: the frame.Link of an engine.
type PipeEnd struct {
	pipe   *Pipe
	peer   *PipeEnd
	cfg    PipeConfig
	faults Faults
	pool   frame.Pool
	rng    *rand.Rand
	queue  []inFlight // towards this end, ordered by arrival, then by sending
	drops  frame.Drops
}

type inFlight struct {
	at frame.Time
	f  *frame.Frame
}

// NewPipe makes a pipe; pool lends the frames of duplicates.
func NewPipe(cfg PipeConfig, pool frame.Pool) *Pipe {
	if cfg.Queue == 0 {
		cfg.Queue = 256
	}
	p := &Pipe{}
	for i := range p.end {
		f := cfg.Faults[i]
		if f.Late == 0 {
			f.Late = time.Millisecond
		}
		p.end[i] = &PipeEnd{pipe: p, cfg: cfg, faults: f, pool: pool, rng: rand.New(rand.NewPCG(cfg.Seed, uint64(i)))}
	}
	p.end[0].peer, p.end[1].peer = p.end[1], p.end[0]
	return p
}

// End is one of the two ends, 0 or 1.
func (p *Pipe) End(i int) *PipeEnd { return p.end[i] }

// Advance sets the time at which frames are sent from here on.
func (p *Pipe) Advance(now frame.Time) { p.now = now }

// Next is when the next frame arrives at either end, or frame.Never.
func (p *Pipe) Next() frame.Time { return min(p.end[0].next(), p.end[1].next()) }

func (e *PipeEnd) next() frame.Time {
	if len(e.queue) == 0 {
		return frame.Never
	}
	return e.queue[0].at
}

// Arrived appends to batch the frames that have reached this end by the
// pipe's time, and returns it. The caller takes the frames.
func (e *PipeEnd) Arrived(batch []*frame.Frame) []*frame.Frame {
	n := 0
	for n < len(e.queue) && e.queue[n].at <= e.pipe.now {
		batch = append(batch, e.queue[n].f)
		n++
	}
	e.queue = slices.Delete(e.queue, 0, n)
	return batch
}

// Room is how many frames the pipe takes from this end now.
func (e *PipeEnd) Room() int { return max(0, e.cfg.Queue-len(e.peer.queue)) }

// Drops counts the frames that faults took from this end's traffic, and
// those sent beyond Room.
func (e *PipeEnd) Drops() frame.Drops { return e.drops }

// Transmit takes f and sends it to the other end.
func (e *PipeEnd) Transmit(f *frame.Frame) {
	if e.Room() == 0 {
		e.lose(f, drop.TxQueue)
		return
	}
	at := e.pipe.now.Add(e.cfg.Delay)
	if e.chance(e.faults.Loss) {
		e.lose(f, drop.Fault)
		return
	}
	if e.chance(e.faults.Corrupt) {
		e.corrupt(f)
	}
	if e.chance(e.faults.Duplicate) {
		if twin := e.copyOf(f); twin != nil {
			e.peer.insert(at, twin)
		}
	}
	if e.chance(e.faults.Reorder) {
		at = at.Add(e.faults.Late)
	}
	e.peer.insert(at, f)
}

func (e *PipeEnd) lose(f *frame.Frame, why frame.DropReason) {
	e.drops.Count(why)
	f.Release()
}

// chance draws only for faults that are on.
func (e *PipeEnd) chance(ppm int) bool { return ppm > 0 && e.rng.IntN(1_000_000) < ppm }

func (e *PipeEnd) corrupt(f *frame.Frame) {
	const ethernet = 14
	b := f.Bytes()
	if len(b) <= ethernet {
		return
	}
	bit := e.rng.IntN((len(b) - ethernet) * 8)
	b[ethernet+bit/8] ^= 1 << (bit % 8)
}

func (e *PipeEnd) copyOf(f *frame.Frame) *frame.Frame {
	twin := e.pool.Get(f.Len())
	if twin == nil {
		return nil
	}
	twin.Append(f.Bytes())
	twin.Offload = f.Offload
	return twin
}

func (e *PipeEnd) insert(at frame.Time, f *frame.Frame) {
	i := len(e.queue)
	for i > 0 && e.queue[i-1].at > at {
		i--
	}
	e.queue = slices.Insert(e.queue, i, inFlight{at, f})
}

// Close releases what is still in flight.
func (p *Pipe) Close() {
	for _, e := range p.end {
		for _, q := range e.queue {
			q.f.Release()
		}
		e.queue = nil
	}
}

package rt

import (
	"time"

	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

// Chip is what the init tool works on.
type Chip interface {
	Read(addr uint32) uint32
	Write(addr, v uint32)
	// Copy writes many words by DMA, which is how those of the runtime array
	// and of arrays leave, once that is ready.
	Copy(addr uint32, words []uint32) error
}

// Steps of a poll: 100 tries, 500 µs apart.
const (
	pollTries = 100
	pollEvery = 500 * time.Microsecond
)

// Inflate unpacks the octets of a zipped array; nil where the build has no
// such hook.
type Inflate func(packed []byte) ([]byte, error)

// Run is a phase of the init tool in progress.
type Run struct {
	Phase Phase
	ID    int // of the port, PF or VF
	Modes Modes

	p       *Program
	rt      *Array
	chip    Chip
	inflate Inflate
	at      int
	tries   int
	dmae    bool
	err     error
	words   int
}

// Start begins a phase. In the ENGINE phase nothing is copied by DMA before
// the program's own callback says that this works.
func (p *Program) Start(phase Phase, id int, modes Modes, rt *Array, chip Chip, inflate Inflate) *Run {
	return &Run{Phase: phase, ID: id, Modes: modes, p: p, rt: rt, chip: chip, inflate: inflate, dmae: phase != Engine}
}

// Written is the number of words that the run has written.
func (r *Run) Written() int { return r.words }

// Step goes on until the run ends, which Done tells then, or has to wait until
// the time that it returns. TIMEOUT: a register did not get its value in
// 50 ms. INVAL: a zipped array and no way to unpack it, or a runtime slot that
// does not fit.
func (r *Run) Step(now frame.Time) (until frame.Time, err error) {
	for r.err == nil && r.at < len(r.p.Ops) {
		wait := r.step(r.p.Ops[r.at])
		if wait > 0 {
			return now.Add(wait), nil
		}
	}
	return now, r.err
}

// Done reports whether the run is over.
func (r *Run) Done() bool { return r.err != nil || r.at >= len(r.p.Ops) }

// step does one operation; it says how long to wait, before it is done again
// or the next one is.
func (r *Run) step(op Op) (wait time.Duration) {
	addr := op[0] >> addrShift << 2
	switch op[0] & 15 {
	case opRead:
		return r.read(op, addr)
	case opWrite:
		r.err = r.write(op, addr)
	case opIfMode:
		if holds, _ := r.p.tree(int(op[1]), r.Modes, 0); !holds {
			r.at += int(op[0] >> 16)
		}
	case opIfPhase:
		if id := op[1] >> 16; Phase(op[1]&0xff) != r.Phase || id != AnyID && int(id) != r.ID {
			r.at += int(op[0] >> 16)
		}
	case opDelay:
		wait = time.Duration(op[1]) * time.Microsecond
	case opCallback:
		r.dmae = r.dmae || op[1] == DMAEReady
	}
	r.at++
	return wait
}

func (r *Run) read(op Op, addr uint32) (wait time.Duration) {
	v, want := r.chip.Read(addr), op[1]
	ok := true
	switch op[0] >> 4 & 15 {
	case pollEQ:
		ok = v == want
	case pollOR:
		ok = v|want > 0
	case pollAND:
		ok = v&want == want
	}
	if ok {
		r.at, r.tries = r.at+1, 0
		return 0
	}
	if r.tries++; r.tries == pollTries {
		r.err = status.Timeout.Errorf("phase %v: register %#x is %#x after %d tries, not %#x", r.Phase, addr, v,
			pollTries, want)
		return 0
	}
	return r.Modes.pollEvery()
}

func (r *Run) write(op Op, addr uint32) error {
	switch op[0] >> 4 & 7 {
	case srcInline:
		r.chip.Write(addr, op[1])
		r.words++
	case srcZeros:
		return r.copy(addr, make([]uint32, op[1]))
	case srcArray:
		return r.writeArray(int(op[1]), addr)
	case srcRuntime:
		return r.writeRuntime(int(op[1]&0xffff), int(op[1]>>16), addr)
	}
	return nil
}

func (r *Run) writeArray(off int, addr uint32) error {
	words, times, err := r.p.array(off)
	if err != nil {
		return err
	}
	if times == 0 {
		if words, err = unzip(words, r.inflate); err != nil {
			return status.Inval.Errorf("phase %v: %v", r.Phase, err)
		}
		times = 1
	}
	for i := range times {
		if err := r.copy(addr+uint32(4*i*len(words)), words); err != nil {
			return err
		}
	}
	return nil
}

// writeRuntime writes those of the runtime slots that are valid, neighbors
// together.
func (r *Run) writeRuntime(n, slot int, addr uint32) error {
	var run []uint32
	for i := r.rt.from(slot) - slot; i < n; i++ {
		v, ok := r.rt.Load(slot + i)
		if ok {
			run = append(run, v)
		}
		if len(run) > 0 && (!ok || i == n-1) {
			end := i
			if ok {
				end++
			}
			if err := r.copy(addr+uint32(4*(end-len(run))), run); err != nil {
				return err
			}
			run = run[:0]
		}
		if !ok {
			i = r.rt.from(slot+i+1) - slot - 1
		}
	}
	return nil
}

// smallCopy is the number of words below which DMA is not worth it.
const smallCopy = 16

// copy writes words, by DMA if that is ready and there are many.
func (r *Run) copy(addr uint32, words []uint32) error {
	r.words += len(words)
	if r.dmae && len(words) >= smallCopy {
		return r.chip.Copy(addr, words)
	}
	for i, w := range words {
		r.chip.Write(addr+uint32(4*i), w)
	}
	return nil
}

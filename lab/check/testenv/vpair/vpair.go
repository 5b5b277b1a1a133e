// Package vpair is two NICs on a cable in virtual time, for tests.
package vpair

import (
	"testing"
	"time"

	"tapir/lab/host/link"
	"tapir/nic"
	"tapir/nic/buf"
	"tapir/nic/fastlinq"
	"tapir/wire/frame"
)

// Pair is the two NICs and the time.
type Pair struct {
	NICs  [2]*nic.Device
	Now   frame.Time
	cable *link.Virtual
	// Killed NICs take and send nothing any more.
	Killed [2]bool
}

// New makes NICs of fastlinq hardware on a cable 20 microseconds long.
func New(t testing.TB, cfg [2]nic.Config, faults link.Impairment) *Pair {
	t.Helper()
	pool := buf.NewPool(8192, 0)
	faults.Delay = 20 * time.Microsecond
	p := &Pair{cable: link.NewVirtual(link.VirtualConfig{ToB: faults, ToA: faults, Seed: 1, Pool: pool})}
	for i, c := range cfg {
		c.Hardware = &fastlinq.Config{}
		d, err := nic.New(c, nic.Env{Pool: pool, Wire: end{p, i}})
		if err != nil {
			t.Fatal(err)
		}
		d.LinkUp(0)
		p.NICs[i] = d
	}
	return p
}

// end is the cable as the link of a NIC.
type end struct {
	*Pair
	side int
}

// Room implements frame.Link.
func (end) Room() int { return 256 }

// Transmit implements frame.Link.
func (e end) Transmit(f *frame.Frame) {
	e.cable.Enter(e.side, f, e.Now)
	f.Release()
}

// Step has both NICs take what has arrived and send. It returns when something
// happens next.
func (p *Pair) Step() frame.Time {
	next := frame.Never
	for i, d := range p.NICs {
		for f := p.cable.Due(1-i, p.Now); f != nil; f = p.cable.Due(1-i, p.Now) {
			if p.Killed[i] {
				f.Release()
				continue
			}
			f.ID = 0
			d.Receive(frame.Wire, []*frame.Frame{f}, p.Now)
		}
		if p.Killed[i] {
			continue
		}
		more := d.Dispatch(p.Now)
		next = min(next, d.Poll(p.Now))
		if more || d.Verbs.Pending() {
			next = p.Now
		}
	}
	return min(next, p.cable.Next(0), p.cable.Next(1))
}

// Until lets the time pass until stop says so.
func (p *Pair) Until(t testing.TB, stop func() bool) {
	t.Helper()
	for range 20_000_000 {
		next := p.Step()
		switch {
		case stop():
			return
		case next == frame.Never:
			t.Fatal("nothing will ever happen any more")
		}
		p.Now = max(next, p.Now+1)
	}
	t.Fatalf("not done at %v", time.Duration(p.Now))
}

//go:build !asic_only

package ecore

import (
	"tapir/nic/fastlinq/ecore/rt"
	"tapir/nic/fastlinq/status"
)

// Emulation tells that chips may be emulated ones, and may have faults. Builds
// with the tag asic_only leave that out.
const Emulation = true

// Platform is what a chip is made of.
type Platform uint8

// The platforms.
const (
	ASIC Platform = iota
	EmulReduced
	EmulFull
	FPGA
	ChipSim
	numPlatforms
)

var platformModes = [numPlatforms]rt.Mode{ASIC: rt.ASIC, EmulReduced: rt.EmulReduced, EmulFull: rt.EmulFull,
	FPGA: rt.FPGA, ChipSim: rt.ChipSim}

// emulation is what of a chip is emulated. Polls on one that is take 100 times
// as long.
type emulation struct{ Platform Platform }

func (e emulation) mode() rt.Mode { return platformModes[e.Platform] }

func (e emulation) validate() error {
	if e.Platform >= numPlatforms {
		return status.Inval.Errorf("platform %d", e.Platform)
	}
	return nil
}

// PFFaults are what can be wrong with the firmware of one function.
type PFFaults struct {
	Stuck     bool // it reads no ramrod
	NoCleanup bool // it does not acknowledge a final clean-up
	DropBells bool // doorbells get lost
	LoseBells bool // as DropBells, but for those that are rung again
}

// Inject sets faults of a function. NOTIMPL: the build has none.
func (e *Engine) Inject(pf int, f PFFaults) error {
	e.storms[pf].PFFaults = f
	return nil
}

// Faults are those of a function, to be set.
func (e *Engine) Faults(pf int) *PFFaults { return &e.storms[pf].PFFaults }

// faults of a storm.
type faults struct {
	PFFaults
	lost uint64 // the doorbell that was lost last, and 1
}

func (f *faults) stuck() bool     { return f.Stuck }
func (f *faults) noCleanup() bool { return f.NoCleanup }

// loses tells whether a doorbell gets lost.
func (f *faults) loses(data uint64) bool {
	if f.LoseBells && f.lost != data+1 {
		f.lost = data + 1
		return true
	}
	return f.DropBells
}

// fault is the error with which a step is to fail.
func (d *Dev) fault(hwfn int, step string) error {
	if d.cfg.Fault == nil {
		return nil
	}
	return d.cfg.Fault(hwfn, step)
}

//go:build asic_only

package ecore

import (
	"tapir/nic/fastlinq/ecore/rt"
	"tapir/nic/fastlinq/status"
)

// Emulation tells that chips may be emulated ones, and may have faults.
const Emulation = false

type emulation struct{}

func (emulation) mode() rt.Mode   { return rt.ASIC }
func (emulation) validate() error { return nil }

type faults struct{}

// PFFaults are what can be wrong with the firmware of one function: not in this build.
type PFFaults struct{ Stuck, LoseBells bool }

// Inject sets faults of a function. NOTIMPL: the build has none.
func (*Engine) Inject(_ int, f PFFaults) error {
	if f == (PFFaults{}) {
		return nil
	}
	return status.NotImpl.Errorf("faults of the firmware: this build is asic_only")
}

func (*faults) stuck() bool       { return false }
func (*faults) noCleanup() bool   { return false }
func (*faults) loses(uint64) bool { return false }

func (*Dev) fault(int, string) error { return nil }

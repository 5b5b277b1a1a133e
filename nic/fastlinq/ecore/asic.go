//go:build asic_only

package ecore

import "tapir/nic/fastlinq/ecore/rt"

// Emulation tells that chips may be emulated ones, and may have faults.
const Emulation = false

type emulation struct{}

func (emulation) mode() rt.Mode   { return rt.ASIC }
func (emulation) validate() error { return nil }

type faults struct{}

func (*faults) stuck() bool     { return false }
func (*faults) noCleanup() bool { return false }
func (*faults) dropBells() bool { return false }

func (*Dev) fault(int, string) error { return nil }

//go:build asic_only

package ecore

import (
	"reflect"
	"testing"

	"tapir/nic/fastlinq/ecore/rt"
)

type noFaults struct{ Stuck, NoCleanup, DropBells bool }

// pfFaults ends a test of faults, which a real chip does not have on demand.
func pfFaults(t testing.TB, _ *Engine, _ int) *noFaults {
	t.Skip("faults need emulation")
	return nil
}

// A build for real chips has neither platforms nor faults.
//
// OV-11
func TestASICOnly(t *testing.T) {
	if _, ok := reflect.TypeFor[*Engine]().MethodByName("Faults"); ok || Emulation || reflect.TypeFor[emulation]().Size() != 0 || reflect.TypeFor[faults]().Size() != 0 {
		t.Error("emulation is there")
	}
	if m := single(t).chip.modes(); !m.Has(rt.ASIC) || m.Has(rt.EmulFull) || m.Has(rt.FPGA) {
		t.Errorf("modes %v", m)
	}
	x := single(t)
	x.fault = func(int, string) error { t.Error("a step asks for faults"); return nil }
	x.to("hw_remove")
}

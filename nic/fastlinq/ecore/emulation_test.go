//go:build !asic_only

package ecore

import (
	"testing"
	"time"

	"tapir/nic/fastlinq/ecore/rt"
	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

// pfFaults are the faults of a function.
func pfFaults(_ testing.TB, e *Engine, pf int) *PFFaults { return e.Faults(pf) }

// An emulated chip runs the phases by its own mode, and is waited for 100 times
// as long.
//
// OV-11
func TestEmulatedChip(t *testing.T) {
	for platform, wait := range map[Platform]time.Duration{ASIC: 49500 * time.Microsecond, EmulFull: 4950 * time.Millisecond, FPGA: 49500 * time.Microsecond} {
		x := single(t)
		x.chip.Platform = platform
		if m := x.chip.modes(); !m.Has(platformModes[platform]) || m.Has(rt.ASIC) != (platform == ASIC) {
			t.Errorf("platform %d: modes %v", platform, m)
		}
		x.to("resc_setup")
		x.chip.Engines[0].Regs.Write(rt.RegReady, 0)
		before := x.now
		err := x.init(InitParams{Tunnels: DefaultTunnels(), IntMode: MSIX})
		if status.Of(err) != status.Timeout || x.now.Sub(before) != wait {
			t.Errorf("platform %d: %v after %v", platform, err, x.now.Sub(before))
		}
		x.chip.Engines[0].Regs.Write(rt.RegReady, 1)
		if err := x.init(InitParams{Tunnels: DefaultTunnels(), IntMode: MSIX}); err != nil {
			t.Errorf("platform %d: %v", platform, err)
		}
		x.down()
	}
	x := single(t)
	x.chip.Platform = numPlatforms
	x.to("resc_setup")
	x.d.HWInit(InitParams{}, x.now, func(_ frame.Time, err error) {
		if status.Of(err) != status.Inval {
			t.Errorf("no such platform: %v", err)
		}
	})
}

package irq

import (
	"tapir/nic/fastlinq/status"
	"tapir/wire/enum"
)

// Mode says how interrupts reach the operating system. The values are those of
// Linux' qed_int_mode.
type Mode uint8

// The modes.
const (
	INTA Mode = iota // one line; the ISR asks SISR whom it means
	MSIX             // a vector for each status block
	MSI              // one message; else as INTA. Not in CMT
	Poll             // none: who wants to know looks
)

var modeNames = [...]string{"inta", "msix", "msi", "poll"}

// String is the mode as ParseMode reads it.
func (m Mode) String() string {
	return enum.Name(modeNames[:], m, "Mode(%d)")
}

// ParseMode reads inta, msix, msi or poll; INVAL for anything else.
func ParseMode(s string) (Mode, error) {
	for i, name := range modeNames {
		if s == name {
			return Mode(i), nil
		}
	}
	return 0, status.Inval.Errorf("interrupt mode %q: use msix, msi, inta or poll", s)
}

// Platform is what the machine offers a device.
type Platform struct {
	Vectors int  // MSI-X vectors that it grants; 0: it has no MSI-X
	NoMSI   bool // it has no MSI
	VF      bool // the device is a VF: MSI-X with all vectors, or nothing
}

// minVectors is what a hwfn needs: the slowpath and one status block.
const minVectors = 2

// Select chooses the mode and the number of vectors: MSI-X with what is
// granted, in whole status blocks for every hwfn; below the minimum MSI, which
// a device of two hwfns does not have; then INTA.
func Select(c *Config) (Mode, int, error) {
	hwfns := max(1, c.Hwfns)
	want := (c.SBs + 1) * hwfns
	least := minVectors * hwfns
	if c.Crash {
		want = least
	}
	granted := min(c.Platform.Vectors, want, MaxVectors)
	granted -= granted % hwfns
	switch {
	case c.Mode > Poll:
		return 0, 0, status.Inval.Errorf("interrupt mode %v", c.Mode)
	case c.Platform.VF && c.Mode != MSIX:
		return 0, 0, status.Inval.Errorf("interrupt mode %v: a VF has MSI-X only", c.Mode)
	case c.Platform.VF && granted < want:
		return 0, 0, status.NoResources.Errorf("MSI-X of a VF: %d vectors, %d are needed", granted, want)
	case c.Mode == MSI && hwfns > 1:
		return 0, 0, status.Inval.Errorf("MSI with %d hwfns: use msix or inta", hwfns)
	case c.Mode == Poll:
		return Poll, 0, nil
	case c.Mode == MSIX && granted >= least:
		return MSIX, granted, nil
	case c.Mode == MSIX && c.Force:
		return 0, 0, status.NoResources.Errorf("MSI-X: %d vectors, at least %d are needed", c.Platform.Vectors, least)
	case c.Mode != INTA && hwfns == 1 && !c.Platform.NoMSI:
		return MSI, 1, nil
	case c.Mode == MSI && c.Force:
		return 0, 0, status.NoResources.Errorf("MSI: the platform has none")
	}
	return INTA, 1, nil
}

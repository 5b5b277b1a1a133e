package fastlinq

import (
	"fmt"
	"slices"
	"strings"

	"tapir/nic/fastlinq/ecore"
	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/status"
	"tapir/nic/linkmode"
)

// PortMode is how an adapter uses its chip, as its NVM says: ports, and which engine each
// belongs to.
type PortMode struct {
	Name           string
	Kind           ecore.Kind // the first chip has two engines, the second one
	Engines, Ports int
	CMT            bool       // both engines serve the one port
	Speeds         mfw.Speeds // that the ports have; 0: all
	Functions      int        // at most
}

// portModes are those of the chips. The number of ports of an engine of the first
// chip follows from the mode; the second has one engine.
var portModes = []PortMode{
	{"2x40G", ecore.BB, 2, 2, false, upTo(linkmode.Speed40G), 16},
	{"2x50G", ecore.BB, 2, 2, false, upTo(linkmode.Speed50G), 16},
	{"1x100G", ecore.BB, 2, 1, true, upTo(linkmode.Speed100G), 8},
	{"4x10G_F", ecore.BB, 2, 4, false, upTo(linkmode.Speed10G), 16},
	{"4x10G_E", ecore.BB, 2, 4, false, upTo(linkmode.Speed10G), 16},
	{"4x20G", ecore.BB, 2, 4, false, upTo(linkmode.Speed20G), 16},
	{"1x40G", ecore.AH, 1, 1, false, upTo(linkmode.Speed40G), 16},
	{"2x25G", ecore.AH, 1, 2, false, upTo(linkmode.Speed25G), 16},
	{"1x25G", ecore.AH, 1, 1, false, upTo(linkmode.Speed25G), 16},
	{"4x25G", ecore.AH, 1, 4, false, upTo(linkmode.Speed25G), 16},
	{"2x10G", ecore.AH, 1, 2, false, upTo(linkmode.Speed10G), 16},
}

// upTo are the speeds up to one.
func upTo(most mfw.Speeds) (set mfw.Speeds) {
	for s := linkmode.Speeds(1); s <= linkmode.AllSpeeds; s <<= 1 {
		if s.Mbps() <= most.Mbps() {
			set |= s
		}
	}
	return set
}

// ParsePortMode reads the name of a mode.
func ParsePortMode(name string) (PortMode, error) {
	for _, m := range portModes {
		if m.Name == name {
			return m, nil
		}
	}
	return PortMode{}, status.Inval.Errorf("port mode %q: want one of %s", name, strings.Join(PortModes(), ", "))
}

// PortModes are the names of the modes.
func PortModes() (names []string) {
	for _, m := range portModes {
		names = append(names, m.Name)
	}
	return names
}

// paths is how many parts of the chip work for themselves: engines, but with CMT one.
func (m *PortMode) paths() int {
	if m.CMT {
		return 1
	}
	return m.Engines
}

// engine is that of a port: of two engines the ports belong to either in turn.
func (m *PortMode) engine(port int) int { return port % m.paths() }

// Validate says which functions the adapter cannot have.
func (c *AdapterConfig) Validate() error {
	m := &c.Mode
	switch {
	case m.Ports == 0:
		return status.Inval.Errorf("an adapter needs a port mode: one of %s", strings.Join(PortModes(), ", "))
	case len(c.Functions) < 1 || len(c.Functions) > m.Functions:
		return status.Inval.Errorf("%d functions: an adapter with port mode %s has 1 to %d", len(c.Functions), m.Name,
			m.Functions)
	}
	for engine := range m.paths() {
		n, most := 0, m.Functions/m.paths()
		for _, port := range c.Functions {
			if m.engine(port) == engine {
				n++
			}
		}
		if n > most {
			return status.Inval.Errorf("%d functions on engine %d: there are %d", n, engine, most)
		}
	}
	for fn, port := range c.Functions {
		switch {
		case port < 0 || port >= m.Ports:
			return fmt.Errorf("function %d: port %d: port mode %s has ports 0 to %d", fn, port, m.Name, m.Ports-1)
		case c.MF == SingleFunction && slices.Index(c.Functions, port) != fn:
			return fmt.Errorf("function %d: port %d has a function: several need mf_mode npar, ovlan or ufp", fn, port)
		}
	}
	return nil
}

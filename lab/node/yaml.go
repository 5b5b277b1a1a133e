package node

import (
	"fmt"
	"net/netip"
	"os"

	"tapir/lab/conf"
	"tapir/wire/ether"
)

// Load reads the NICs that a nics.yaml describes:
//
//	nics:
//	  - name: nic0
//	    tap: tap0
//	    ip: 10.0.0.1/24
//	    tap_ip: [10.0.0.254/24, fd00::fe/64]
//
// Unknown keys, wrong values and conflicts between NICs are errors of the
// form file:line:column: key: what was expected.
func Load(path string) ([]Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// Parse is Load of a file already read; path is for messages only.
func Parse(path string, data []byte) ([]Config, error) {
	body, err := conf.Read(path, data, "`nics:` with a list")
	if err != nil {
		return nil, err
	}
	top, err := body.Map("`nics:` with a list of NICs")
	if err != nil {
		return nil, err
	}
	var list []conf.Node
	for _, e := range top {
		if e.Name != "nics" {
			return nil, e.Key.Errorf("%s: unknown key; expected nics", e.Name)
		}
		if list, _ = e.Value.List(); len(list) == 0 {
			return nil, e.Key.Errorf("nics: expected a list with at least one NIC")
		}
	}
	if list == nil {
		return nil, body.Errorf("expected `nics:` with a list of NICs")
	}
	return decodeNICs(list)
}

func decodeNICs(list []conf.Node) ([]Config, error) {
	fields := Fields()
	var all []Config
	for i, n := range list {
		var c Config
		if err := conf.Decode(n, &c, "the settings of a NIC", fields); err != nil {
			return nil, err
		}
		if c.Name == "" {
			c.Name = fmt.Sprint("nic", i)
		}
		if err := c.Validate(); err != nil {
			return nil, n.Errorf("%v", err)
		}
		all = append(all, c)
	}
	if c := FindConflict(all); c != nil {
		return nil, list[c.B].Errorf("%s (the other one is at line %d)", c.Reason, list[c.A].Line())
	}
	return all, nil
}

// Conflict is a pair of NICs that cannot run in one process and namespace.
type Conflict struct {
	A, B   int // their places in the list, A before B
	Reason string
}

// FindConflict returns the first pair of NICs that exclude each other, or nil.
func FindConflict(all []Config) *Conflict {
	for b := range all {
		for a := range b {
			if why := exclude(&all[a], &all[b]); why != "" {
				return &Conflict{a, b, why}
			}
		}
	}
	return nil
}

func exclude(a, b *Config) string {
	if a.Name == b.Name {
		return fmt.Sprintf("name: two NICs are called %s", a.Name)
	}
	if a.MAC == b.MAC && a.MAC != (ether.Addr{}) {
		return fmt.Sprintf("mac: %s and %s both have %v", a.Name, b.Name, a.MAC)
	}
	if a.TAPFD != 0 && a.TAPFD == b.TAPFD {
		return fmt.Sprintf("tap_fd: %s and %s both have %d", a.Name, b.Name, a.TAPFD)
	}
	for _, s := range []string{a.TAP, a.HostTAP} {
		if s != "" && (s == b.TAP || s == b.HostTAP) {
			return fmt.Sprintf("tap: %s and %s both use %s", a.Name, b.Name, s)
		}
	}
	for _, p := range addresses(a) {
		for _, q := range addresses(b) {
			if p == q {
				return fmt.Sprintf("ip: %s and %s both use %v", a.Name, b.Name, p)
			}
		}
	}
	return ""
}

func addresses(c *Config) (all []netip.Addr) {
	for _, p := range append(c.Addrs(), c.TAPIP...) {
		all = append(all, p.Addr())
	}
	return all
}

package nicconf

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"tapir/lab/conf"
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
func Load(path string) ([]Config, error) { return conf.Load(path, Parse) }

// Parse is Load of a file already read; path is for messages only.
func Parse(path string, data []byte) ([]Config, error) {
	list := conf.List[Config]{Key: "nics", One: "NIC", Many: "NICs", Exclude: Exclude,
		Decode: func(n conf.Node, i int) (Config, error) {
			var c Config
			if err := conf.Decode(n, "the settings of a NIC", c.Fields()); err != nil {
				return c, err
			}
			c.Name = cmp.Or(c.Name, fmt.Sprint("nic", i))
			return c, c.Validate()
		}}
	return list.Parse(path, data)
}

// Exclude says why two NICs cannot run in one process and namespace; empty:
// they can.
func Exclude(a, b *Config) string {
	problem := cmp.Or(
		conf.Problem(a.Name == b.Name, "name: two NICs are called %s", a.Name),
		conf.Problem(a.MAC == b.MAC && !a.MAC.IsZero(), "mac: %s and %s both have %v", a.Name, b.Name, a.MAC),
		conf.Problem(a.TAPFD != 0 && a.TAPFD == b.TAPFD, "tap_fd: %s and %s both have %d", a.Name, b.Name, a.TAPFD))
	for _, s := range []string{a.TAP, a.HostTAP} {
		problem = cmp.Or(problem, conf.Problem(s != "" && (s == b.TAP || s == b.HostTAP), "tap: %s and %s both use %s",
			a.Name, b.Name, s))
	}
	for _, p := range addresses(a) {
		problem = cmp.Or(problem, conf.Problem(slices.Contains(addresses(b), p), "ip: %s and %s both use %v", a.Name,
			b.Name, p))
	}
	return problem
}

func addresses(c *Config) (all []netip.Addr) {
	for _, p := range append(c.Addrs(), c.TAPIP...) {
		all = append(all, p.Addr())
	}
	return all
}

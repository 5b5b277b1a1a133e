package nicconf

import (
	"cmp"
	"fmt"

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
	list := conf.List[Config]{Key: "nics", One: "NIC", Many: "NICs", Claims: claims,
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

// claims are what two NICs cannot share in one process and namespace.
func claims(c *Config) (name string, all []conf.Claim) {
	all = []conf.Claim{conf.Has("mac", c.MAC), conf.Has("tap_fd", c.TAPFD), conf.Uses("tap", c.TAP),
		conf.Uses("tap", c.HostTAP)}
	for _, p := range append(c.Addrs(), c.TAPIP...) {
		all = append(all, conf.Uses("ip", p.Addr()))
	}
	return c.Name, all
}

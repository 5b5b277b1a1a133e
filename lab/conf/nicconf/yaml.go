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
//	  - name: card
//	    port_mode: 2x25G
//	    mf_mode: npar
//	    ports: [wire0, wire1]
//	    functions:
//	      - {name: f0, port: 0, host_tap: eth1, ip: 10.0.0.2/24}
//	      - {name: f1, port: 0, host_tap: eth2, ip: 10.0.0.3/24}
//
// A card is as many NICs as it has functions.
//
// Unknown keys, wrong values and conflicts between NICs are errors of the
// form file:line:column: key: what was expected.
func Load(path string) ([]Config, error) { return conf.Load(path, Parse) }

// Parse is Load of a file already read; path is for messages only.
func Parse(path string, data []byte) ([]Config, error) {
	list := conf.List[Config]{Key: "nics", One: "NIC", Many: "NICs", Claims: claims,
		Decode: func(n conf.Node, i int, add func(conf.Node, Config) error) error {
			var d Draft
			if err := conf.Decode(n, "the settings of a NIC", d.Fields()); err != nil {
				return err
			}
			d.Name = cmp.Or(d.Name, fmt.Sprint("nic", i))
			all, err := d.Finish()
			for i, c := range all {
				at := n
				if c.Card != nil {
					at = d.nodes[i]
				}
				if err == nil {
					err = add(at, c)
				}
			}
			return err
		}}
	return list.Parse(path, data)
}

// claims are what two NICs cannot share in one process and namespace.
func claims(c *Config) (name string, all []conf.Claim) {
	all = []conf.Claim{conf.Has("mac", c.MAC), conf.Has("tap_fd", c.TAPFD), conf.Uses("tap", c.HostTAP)}
	if c.FirstOnPort() {
		all = append(all, conf.Uses("tap", c.TAP))
	}
	for _, p := range append(c.Addrs(), c.TAPIP...) {
		all = append(all, conf.Uses("ip", p.Addr()))
	}
	return c.Name, all
}

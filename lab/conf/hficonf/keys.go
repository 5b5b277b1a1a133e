package hficonf

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"tapir/lab/conf"
	"tapir/nic/tap"
	"tapir/opa"
	"tapir/opa/hfi"
	"tapir/vnic"
)

// hfiKeys are the settings of an HFI; scalar ones are flags of `tapir vnic`
// too.
var hfiKeys = []conf.Field[Config]{
	{Name: "name", Expect: "1 to 32 letters, digits, `-`, `_` and `.`", Set: func(c *Config, s string) error {
		return conf.Name(&c.Name, s)
	}},
	{Name: "fabric_tap", Expect: "an interface name such as fab0, at most 15 characters",
		Set: func(c *Config, s string) error {
			c.TAP = s
			return tap.CheckName(s)
		}},
	{Name: "fabric_tap_fd", Expect: "the number of an open TAP file descriptor, 3 or more",
		Set: func(c *Config, s string) error {
			return conf.Number(&c.TAPFD, s, 3, 1<<20)
		}},
	{Name: "guid", Expect: "a GUID that is not 0, such as 0x0011750101000001", Set: func(c *Config, s string) error {
		return setGUID(&c.GUID, s)
	}},
	{Name: "lid", Expect: "a unicast LID from 1 to 0xefffff", Set: func(c *Config, s string) error {
		return setLID(&c.LID, s, opa.LID.IsUnicast)
	}},
	{Name: "managed", Expect: "true or false", Set: func(c *Config, s string) error {
		return conf.Bool(&c.Managed, s)
	}},
	{Name: "framing", Expect: "nsh, 88b5 or geneve", Set: func(c *Config, s string) error {
		return conf.Parsed(&c.Framing, s, opa.ParseFraming)
	}},
	{Name: "icrc", Expect: "v1, none or bad", Set: func(c *Config, s string) error {
		return conf.Parsed(&c.ICRC, s, opa.ParseICRC)
	}},
	{Name: "fabric_mtu", Expect: "2048, 4096, 8192 or 10240", Set: func(c *Config, s string) error {
		if err := conf.Number(&c.MTU, s, 2048, hfi.MaxMTU); err != nil ||
			!slices.Contains([]int{2048, 4096, 8192, hfi.MaxMTU}, c.MTU) {
			return conf.ErrValue
		}
		return nil
	}},
	{Name: "pkeys", Expect: "P_Keys such as 0x8001, 0x7fff", Many: true, Set: func(c *Config, s string) error {
		c.PKeys = append(c.PKeys, 0)
		return setPKey(&c.PKeys[len(c.PKeys)-1], s)
	}},
	{Name: "bridge", Expect: "the name of a bridge, such as fabric", Set: func(c *Config, s string) error {
		c.Bridge = s
		return tap.CheckName(s)
	}},
	{Name: "netns", Expect: "a name that `ip netns add` made, or the path of a network namespace",
		Set: func(c *Config, s string) error {
			return conf.Text(&c.Netns, s)
		}},
	{Name: "netdev", Expect: "a name with %d for the vESW id, such as opa-vesw%d", Set: setNetdev},
	{Name: "queues", Expect: "a number of queues from 1 to 8", Set: func(c *Config, s string) error {
		return conf.Number(&c.Queues, s, 1, MaxQueues)
	}},
	{Name: "policy", Schema: conf.Object(policyKeys), Node: func(c *Config, n conf.Node) error {
		c.policySet, c.Policy = true, vnic.DefaultPolicy()
		return conf.Decode(n, &c.Policy, "the treatment of frames", policyKeys)
	}},
	{Name: "vnics", Schema: conf.ListOf(conf.Object(vnicKeys, "vesw")), Node: addVNICs},
}

// vnicKeys are the settings of a VNIC.
var vnicKeys = []conf.Field[VNIC]{
	{Name: "vesw", Expect: "a vESW id from 1 to 4095", Set: func(v *VNIC, s string) error {
		return conf.Number(&v.VESW, s, 1, opa.MaxVESW)
	}},
	{Name: "tap", Expect: "an interface name such as opa-vesw2, at most 15 characters",
		Set: func(v *VNIC, s string) error {
			v.TAP = s
			return tap.CheckName(s)
		}},
	{Name: "ip", Expect: "an address with prefix length, such as 10.0.0.1/24 or fd00::1/64", Many: true,
		Set: func(v *VNIC, s string) error {
			p, err := netip.ParsePrefix(s)
			v.IP = append(v.IP, p)
			return err
		}},
	{Name: "fabric", Expect: "a fabric id from 1 to 1023", Set: static("fabric", func(v *VNIC, s string) error {
		return conf.Number(&v.Fabric, s, 1, opa.MaxFabric)
	})},
	{Name: "pkey", Expect: "a P_Key such as 0x8001", Set: static("pkey", func(v *VNIC, s string) error {
		return setPKey(&v.PKey, s)
	})},
	{Name: "mtu", Expect: "a number of octets from 68 to 10240", Set: static("mtu", func(v *VNIC, s string) error {
		return conf.Number(&v.MTU, s, vnic.MinMTU, vnic.MaxMTU)
	})},
	{Name: "mac", Expect: "a MAC address of one station", Set: static("mac", func(v *VNIC, s string) error {
		return conf.StationMAC(&v.MAC, s)
	})},
	{Name: "default_ports", Expect: "up to 16 unicast LIDs", Many: true,
		Set: static("default_ports", func(v *VNIC, s string) error {
			v.Ports = append(v.Ports, 0)
			if len(v.Ports) > vnic.DefaultPorts {
				return conf.ErrValue
			}
			return setLID(&v.Ports[len(v.Ports)-1], s, opa.LID.IsUnicast)
		})},
	{Name: "mcast_dlid", Expect: "a multicast LID from 0xf00000 to 0xf7ffff",
		Set: static("mcast_dlid", func(v *VNIC, s string) error {
			return setLID(&v.Mcast, s, opa.LID.IsMulticast)
		})},
	{Name: "policy", Schema: conf.Object(policyKeys), Node: func(v *VNIC, n conf.Node) error {
		v.policySet, v.Policy = true, vnic.DefaultPolicy()
		return conf.Decode(n, &v.Policy, "the treatment of frames", policyKeys)
	}},
	{Name: "gateway", Schema: conf.Object(gatewayKeys, "bridge"), Node: func(v *VNIC, n conf.Node) error {
		v.Gateway = &Gateway{}
		if err := conf.Decode(n, v.Gateway, "bridge and vlan of a gateway", gatewayKeys); err != nil {
			return err
		}
		if v.Gateway.Bridge == "" {
			return n.Errorf("gateway: expected `bridge:` with the name of a bridge")
		}
		return nil
	}},
}

// static notes that a setting is none that an Ethernet Manager leaves to the
// HFI.
func static(name string, set func(*VNIC, string) error) func(*VNIC, string) error {
	return func(v *VNIC, s string) error {
		v.given = append(v.given, name)
		return set(v, s)
	}
}

var gatewayKeys = []conf.Field[Gateway]{
	{Name: "bridge", Expect: "the name of a bridge, such as br0", Set: func(g *Gateway, s string) error {
		g.Bridge = s
		return tap.CheckName(s)
	}},
	{Name: "vlan", Expect: "a VLAN id from 0 (untagged) to 4094", Set: func(g *Gateway, s string) error {
		return conf.Number(&g.VLAN, s, 0, 4094)
	}},
}

// policyKeys are the fields of vnic.Policy.
var policyKeys = []conf.Field[vnic.Policy]{
	{Name: "unknown", Expect: "proxy, default-port, flood or drop", Set: func(p *vnic.Policy, s string) (err error) {
		p.Unknown, err = vnic.ParseUnknown(s)
		return err
	}},
	{Name: "learn", Expect: "true or false", Set: func(p *vnic.Policy, s string) error {
		return conf.Bool(&p.Learn, s)
	}},
	{Name: "age", Expect: "a time such as 300s", Set: func(p *vnic.Policy, s string) error {
		return conf.Time(&p.Age, s, 1, 0)
	}},
	{Name: "max_stations", Expect: "a number from 1 to 65536", Set: func(p *vnic.Policy, s string) error {
		return conf.Number(&p.MaxStations, s, 1, 1<<16)
	}},
	{Name: "max_stations_per_lid", Expect: "a number from 1 to 65536", Set: func(p *vnic.Policy, s string) error {
		return conf.Number(&p.MaxPerLID, s, 1, 1<<16)
	}},
	{Name: "report", Expect: "true or false", Set: func(p *vnic.Policy, s string) error {
		return conf.Bool(&p.Report, s)
	}},
	{Name: "relay", Expect: "true or false", Set: func(p *vnic.Policy, s string) error {
		return conf.Bool(&p.Relay, s)
	}},
	{Name: "filter", Expect: "true or false", Set: func(p *vnic.Policy, s string) error {
		return conf.Bool(&p.Filter, s)
	}},
	{Name: "snoop", Expect: "true or false", Set: func(p *vnic.Policy, s string) error {
		return conf.Bool(&p.Snoop, s)
	}},
	{Name: "all_groups", Expect: "true or false", Set: func(p *vnic.Policy, s string) error {
		return conf.Bool(&p.AllGroups, s)
	}},
	{Name: "suppress", Expect: "true or false", Set: func(p *vnic.Policy, s string) error {
		return conf.Bool(&p.Suppress, s)
	}},
	{Name: "tx_storm", Expect: "frames per second, such as 1000, or 1000/200 with a burst",
		Set: func(p *vnic.Policy, s string) error {
			return setRate(&p.TxStorm, s)
		}},
	{Name: "rx_storm", Expect: "frames per second, such as 1000, or 1000/200 with a burst",
		Set: func(p *vnic.Policy, s string) error {
			return setRate(&p.RxStorm, s)
		}},
	{Name: "host_queue", Expect: "a number of frames from 1 to 65536", Set: func(p *vnic.Policy, s string) error {
		return conf.Number(&p.HostQueue, s, 1, 1<<16)
	}},
}

// setGUID reads a number, or four or eight groups with colons as InfiniBand's
// tools print it.
func setGUID(p *uint64, s string) (err error) {
	if strings.Count(s, ":") > 0 {
		s = "0x" + strings.ReplaceAll(strings.TrimPrefix(s, "0x"), ":", "")
	}
	if *p, err = strconv.ParseUint(s, 0, 64); err == nil && *p == 0 {
		return conf.ErrValue
	}
	return err
}

func setLID(p *opa.LID, s string, ok func(opa.LID) bool) error {
	n, err := strconv.ParseUint(s, 0, 24)
	if *p = opa.LID(n); err == nil && !ok(*p) {
		return conf.ErrValue
	}
	return err
}

func setPKey(p *uint16, s string) error {
	if err := conf.Number(p, s, 1, 0xffff); err != nil || *p&^opa.PKeyFull == 0 {
		return conf.ErrValue
	}
	return nil
}

func setRate(p *vnic.Rate, s string) error {
	rate, burst, both := strings.Cut(s, "/")
	n, err := strconv.ParseUint(rate, 10, 32)
	if err != nil || n == 0 {
		return conf.ErrValue
	}
	*p = vnic.Rate{PerSecond: uint32(n), Burst: uint32(max(1, n/10))}
	if both {
		b, err := strconv.ParseUint(burst, 10, 32)
		if err != nil || b == 0 {
			return conf.ErrValue
		}
		p.Burst = uint32(b)
	}
	return nil
}

func setListen(p *string, s string) error {
	if _, _, err := net.SplitHostPort(s); err != nil {
		return err
	}
	*p = s
	return nil
}

func setNetdev(c *Config, s string) error {
	if strings.Count(s, "%") != 1 || !strings.Contains(s, "%d") || tap.CheckName(strings.Replace(s, "%d", "4095", 1)) !=
		nil {
		return conf.ErrValue
	}
	c.Netdev = s
	return nil
}

func addVNICs(c *Config, n conf.Node) error {
	list, ok := n.List()
	if !ok {
		return n.Errorf("vnics: expected a list of VNICs")
	}
	for _, n := range list {
		var v VNIC
		if err := conf.Decode(n, &v, "the settings of a VNIC", vnicKeys); err != nil {
			return err
		}
		if v.VESW == 0 {
			return n.Errorf("vesw: expected the id of the VNIC's vESW, from 1 to 4095")
		}
		c.VNICs = append(c.VNICs, v)
	}
	return nil
}

// Set sets a scalar setting of an HFI from a flag of the command line.
func (c *Config) Set(name, text string) error { return conf.Set(c, hfiKeys, name, text) }

// AddVESW takes `ID` or `ID:TAP`: a VNIC in that vESW.
func (c *Config) AddVESW(text string) error {
	id, name, _ := strings.Cut(text, ":")
	var v VNIC
	if err := conf.Set(&v, vnicKeys, "vesw", id); err != nil {
		return err
	}
	if name != "" {
		if err := conf.Set(&v, vnicKeys, "tap", name); err != nil {
			return err
		}
	}
	c.VNICs = append(c.VNICs, v)
	return nil
}

// SetVNICs sets a scalar setting of every VNIC.
func (c *Config) SetVNICs(name, text string) error {
	for i := range c.VNICs {
		if err := conf.Set(&c.VNICs[i], vnicKeys, name, text); err != nil {
			return err
		}
	}
	return nil
}

// Load reads the HFIs that an hfi.yaml describes:
//
//	hfis:
//	  - name: hfi0
//	    fabric_tap: fab0
//	    guid: 0x0011750101000001
//	    lid: 1
//	    vnics:
//	      - vesw: 2
//	        tap: opa-vesw2
//
// A mistake is a *conf.Error.
func Load(path string) ([]Config, error) { return conf.Load(path, Parse) }

// Parse is Load of a file already read; path is for messages only.
func Parse(path string, data []byte) ([]Config, error) {
	list := conf.List[Config]{Key: "hfis", One: "HFI", Many: "HFIs", Exclude: exclude,
		Decode: func(n conf.Node, i int) (Config, error) {
			var c Config
			if err := conf.Decode(n, &c, "the settings of an HFI", hfiKeys); err != nil {
				return c, err
			}
			c.Name = cmp.Or(c.Name, fmt.Sprint("hfi", i))
			return c, c.Validate()
		}}
	return list.Parse(path, data)
}

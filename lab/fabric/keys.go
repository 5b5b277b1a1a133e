package fabric

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"tapir/lab/conf"
	"tapir/lab/tool/ctl"
	"tapir/nic/tap"
	"tapir/opa"
	"tapir/opa/hfi"
	"tapir/vnic"
	"tapir/wire/ether"
)

// hfiKeys are the settings of an HFI; scalar ones are flags of `tapir vnic`
// too.
var hfiKeys = []conf.Field[Config]{
	{Name: "name", Expect: "1 to 32 letters, digits, `-`, `_` and `.`", Set: func(c *Config, s string) error { c.Name = s; return ctl.CheckName(s) }},
	{Name: "fabric_tap", Expect: "an interface name such as fab0, at most 15 characters", Set: func(c *Config, s string) error { c.TAP = s; return tap.CheckName(s) }},
	{Name: "fabric_tap_fd", Expect: "the number of an open TAP file descriptor, 3 or more", Set: func(c *Config, s string) error { return setInt(&c.TAPFD, s, 3, 1<<20) }},
	{Name: "guid", Expect: "a GUID that is not 0, such as 0x0011750101000001", Set: func(c *Config, s string) error { return setGUID(&c.GUID, s) }},
	{Name: "lid", Expect: "a unicast LID from 1 to 0xefffff", Set: func(c *Config, s string) error { return setLID(&c.LID, s, opa.LID.IsUnicast) }},
	{Name: "managed", Expect: "true or false", Set: func(c *Config, s string) error { return setBool(&c.Managed, s) }},
	{Name: "framing", Expect: "nsh, 88b5 or geneve", Set: func(c *Config, s string) (err error) { c.Framing, err = opa.ParseFraming(s); return err }},
	{Name: "icrc", Expect: "v1, none or bad", Set: func(c *Config, s string) (err error) { c.ICRC, err = opa.ParseICRC(s); return err }},
	{Name: "fabric_mtu", Expect: "2048, 4096, 8192 or 10240", Set: func(c *Config, s string) error {
		if err := setInt(&c.MTU, s, 2048, hfi.MaxMTU); err != nil || !slices.Contains([]int{2048, 4096, 8192, hfi.MaxMTU}, c.MTU) {
			return errValue
		}
		return nil
	}},
	{Name: "pkeys", Expect: "P_Keys such as 0x8001, 0x7fff", Many: true, Set: func(c *Config, s string) error {
		c.PKeys = append(c.PKeys, 0)
		return setPKey(&c.PKeys[len(c.PKeys)-1], s)
	}},
	{Name: "bridge", Expect: "the name of a bridge, such as fabric", Set: func(c *Config, s string) error { c.Bridge = s; return tap.CheckName(s) }},
	{Name: "netns", Expect: "a name that `ip netns add` made, or the path of a network namespace", Set: func(c *Config, s string) error { return setText(&c.Netns, s) }},
	{Name: "netdev", Expect: "a name with %d for the vESW id, such as opa-vesw%d", Set: setNetdev},
	{Name: "queues", Expect: "a number of queues from 1 to 8", Set: func(c *Config, s string) error { return setInt(&c.Queues, s, 1, maxQueues) }},
	{Name: "policy", Schema: conf.Object(policyKeys), Node: func(c *Config, n conf.Node) error {
		c.policySet, c.Policy = true, vnic.DefaultPolicy()
		return conf.Decode(n, &c.Policy, "the treatment of frames", policyKeys)
	}},
	{Name: "vnics", Schema: conf.ListOf(conf.Object(vnicKeys, "vesw")), Node: addVNICs},
}

// vnicKeys are the settings of a VNIC.
var vnicKeys = []conf.Field[VNIC]{
	{Name: "vesw", Expect: "a vESW id from 1 to 4095", Set: func(v *VNIC, s string) error { return setUint16(&v.VESW, s, 1, opa.MaxVESW) }},
	{Name: "tap", Expect: "an interface name such as opa-vesw2, at most 15 characters", Set: func(v *VNIC, s string) error { v.TAP = s; return tap.CheckName(s) }},
	{Name: "ip", Expect: "an address with prefix length, such as 10.0.0.1/24 or fd00::1/64", Many: true, Set: func(v *VNIC, s string) error {
		p, err := netip.ParsePrefix(s)
		v.IP = append(v.IP, p)
		return err
	}},
	{Name: "fabric", Expect: "a fabric id from 1 to 1023", Set: static("fabric", func(v *VNIC, s string) error { return setUint16(&v.Fabric, s, 1, opa.MaxFabric) })},
	{Name: "pkey", Expect: "a P_Key such as 0x8001", Set: static("pkey", func(v *VNIC, s string) error { return setPKey(&v.PKey, s) })},
	{Name: "mtu", Expect: "a number of octets from 68 to 10240", Set: static("mtu", func(v *VNIC, s string) error { return setInt(&v.MTU, s, vnic.MinMTU, vnic.MaxMTU) })},
	{Name: "mac", Expect: "a MAC address of one station", Set: static("mac", func(v *VNIC, s string) (err error) {
		if v.MAC, err = ether.ParseAddr(s); err == nil && (v.MAC.IsMulticast() || v.MAC.IsZero()) {
			return errValue
		}
		return err
	})},
	{Name: "default_ports", Expect: "up to 16 unicast LIDs", Many: true, Set: static("default_ports", func(v *VNIC, s string) error {
		v.Ports = append(v.Ports, 0)
		if len(v.Ports) > vnic.DefaultPorts {
			return errValue
		}
		return setLID(&v.Ports[len(v.Ports)-1], s, opa.LID.IsUnicast)
	})},
	{Name: "mcast_dlid", Expect: "a multicast LID from 0xf00000 to 0xf7ffff", Set: static("mcast_dlid", func(v *VNIC, s string) error { return setLID(&v.Mcast, s, opa.LID.IsMulticast) })},
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
	{Name: "bridge", Expect: "the name of a bridge, such as br0", Set: func(g *Gateway, s string) error { g.Bridge = s; return tap.CheckName(s) }},
	{Name: "vlan", Expect: "a VLAN id from 0 (untagged) to 4094", Set: func(g *Gateway, s string) error { return setUint16(&g.VLAN, s, 0, 4094) }},
}

// policyKeys are the fields of vnic.Policy.
var policyKeys = []conf.Field[vnic.Policy]{
	{Name: "unknown", Expect: "proxy, default-port, flood or drop", Set: func(p *vnic.Policy, s string) (err error) { p.Unknown, err = vnic.ParseUnknown(s); return err }},
	{Name: "learn", Expect: "true or false", Set: func(p *vnic.Policy, s string) error { return setBool(&p.Learn, s) }},
	{Name: "age", Expect: "a time such as 300s", Set: func(p *vnic.Policy, s string) error { return setTime(&p.Age, s) }},
	{Name: "max_stations", Expect: "a number from 1 to 65536", Set: func(p *vnic.Policy, s string) error { return setInt(&p.MaxStations, s, 1, 1<<16) }},
	{Name: "max_stations_per_lid", Expect: "a number from 1 to 65536", Set: func(p *vnic.Policy, s string) error { return setInt(&p.MaxPerLID, s, 1, 1<<16) }},
	{Name: "report", Expect: "true or false", Set: func(p *vnic.Policy, s string) error { return setBool(&p.Report, s) }},
	{Name: "relay", Expect: "true or false", Set: func(p *vnic.Policy, s string) error { return setBool(&p.Relay, s) }},
	{Name: "filter", Expect: "true or false", Set: func(p *vnic.Policy, s string) error { return setBool(&p.Filter, s) }},
	{Name: "snoop", Expect: "true or false", Set: func(p *vnic.Policy, s string) error { return setBool(&p.Snoop, s) }},
	{Name: "all_groups", Expect: "true or false", Set: func(p *vnic.Policy, s string) error { return setBool(&p.AllGroups, s) }},
	{Name: "suppress", Expect: "true or false", Set: func(p *vnic.Policy, s string) error { return setBool(&p.Suppress, s) }},
	{Name: "tx_storm", Expect: "frames per second, such as 1000, or 1000/200 with a burst", Set: func(p *vnic.Policy, s string) error { return setRate(&p.TxStorm, s) }},
	{Name: "rx_storm", Expect: "frames per second, such as 1000, or 1000/200 with a burst", Set: func(p *vnic.Policy, s string) error { return setRate(&p.RxStorm, s) }},
	{Name: "host_queue", Expect: "a number of frames from 1 to 65536", Set: func(p *vnic.Policy, s string) error { return setInt(&p.HostQueue, s, 1, 1<<16) }},
}

func setInt(p *int, s string, low, high int) error {
	n, err := strconv.ParseInt(s, 0, 32)
	if err != nil || int(n) < low || int(n) > high {
		return errValue
	}
	*p = int(n)
	return nil
}

func setUint16(p *uint16, s string, low, high int) error {
	n := 0
	err := setInt(&n, s, low, high)
	*p = uint16(n)
	return err
}

func setBool(p *bool, s string) (err error) {
	*p, err = strconv.ParseBool(s)
	return err
}

func setTime(p *time.Duration, s string) (err error) {
	if *p, err = time.ParseDuration(s); err == nil && *p <= 0 {
		return errValue
	}
	return err
}

// setGUID reads a number, or four or eight groups with colons as InfiniBand's
// tools print it.
func setGUID(p *uint64, s string) (err error) {
	if strings.Count(s, ":") > 0 {
		s = "0x" + strings.ReplaceAll(strings.TrimPrefix(s, "0x"), ":", "")
	}
	if *p, err = strconv.ParseUint(s, 0, 64); err == nil && *p == 0 {
		return errValue
	}
	return err
}

func setLID(p *opa.LID, s string, ok func(opa.LID) bool) error {
	n, err := strconv.ParseUint(s, 0, 24)
	if *p = opa.LID(n); err == nil && !ok(*p) {
		return errValue
	}
	return err
}

func setPKey(p *uint16, s string) error {
	if err := setUint16(p, s, 1, 0xffff); err != nil || *p&^opa.PKeyFull == 0 {
		return errValue
	}
	return nil
}

func setRate(p *vnic.Rate, s string) error {
	rate, burst, both := strings.Cut(s, "/")
	n, err := strconv.ParseUint(rate, 10, 32)
	if err != nil || n == 0 {
		return errValue
	}
	*p = vnic.Rate{PerSecond: uint32(n), Burst: uint32(max(1, n/10))}
	if both {
		b, err := strconv.ParseUint(burst, 10, 32)
		if err != nil || b == 0 {
			return errValue
		}
		p.Burst = uint32(b)
	}
	return nil
}

func setText(p *string, s string) error {
	if *p = s; s == "" {
		return errValue
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
	if strings.Count(s, "%") != 1 || !strings.Contains(s, "%d") || tap.CheckName(strings.Replace(s, "%d", "4095", 1)) != nil {
		return errValue
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
func Load(path string) ([]Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// Parse is Load of a file already read; path is for messages only.
func Parse(path string, data []byte) ([]Config, error) {
	body, err := conf.Read(path, data, "`hfis:` with a list")
	if err != nil {
		return nil, err
	}
	var all []Config
	err = conf.Decode(body, &all, "`hfis:` with a list of HFIs", []conf.Field[[]Config]{{Name: "hfis", Node: addHFIs}})
	if err == nil && len(all) == 0 {
		err = body.Errorf("expected `hfis:` with a list of HFIs")
	}
	return all, err
}

func addHFIs(all *[]Config, n conf.Node) error {
	list, _ := n.List()
	if len(list) == 0 {
		return n.Errorf("hfis: expected a list with at least one HFI")
	}
	for i, n := range list {
		var c Config
		if err := conf.Decode(n, &c, "the settings of an HFI", hfiKeys); err != nil {
			return err
		}
		if c.Name == "" {
			c.Name = "hfi" + strconv.Itoa(i)
		}
		if err := c.Validate(); err != nil {
			return n.Errorf("%v", err)
		}
		for k := range *all {
			if why := exclude(&(*all)[k], &c); why != "" {
				return n.Errorf("%s (the other one is at line %d)", why, list[k].Line())
			}
		}
		*all = append(*all, c)
	}
	return nil
}

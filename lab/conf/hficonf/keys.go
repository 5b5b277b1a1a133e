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
	"tapir/nic/tap/wires"
	"tapir/opa"
	"tapir/opa/hfi"
	"tapir/vnic"
)

// Fields are the settings of an HFI, bound to c; scalar ones are flags of `tapir
// vnic` too.
func (c *Config) Fields() []conf.Field {
	return append([]conf.Field{
		{Name: "name", Expect: "1 to 32 letters, digits, `-`, `_` and `.`", Set: conf.Name(&c.Name)},
		{Name: "fabric_tap", Expect: "an interface name such as fab0, at most 15 characters",
			Set: conf.Checked(&c.TAP, tap.CheckName)},
		{Name: "wire", Expect: wires.Expect, Set: conf.Checked(&c.Wire, wires.Check)},
		{Name: "fabric_tap_fd", Expect: "the number of an open TAP file descriptor, 3 or more",
			Set: conf.Number(&c.TAPFD, 3, 1<<20)},
		{Name: "guid", Expect: "a GUID that is not 0, such as 0x0011750101000001",
			Set: conf.Parsed(&c.GUID, parseGUID)},
		{Name: "lid", Expect: "a unicast LID from 1 to 0xefffff", Set: conf.Parsed(&c.LID, parseUnicast)},
		{Name: "managed", Expect: "true or false", Set: conf.Bool(&c.Managed)},
		{Name: "framing", Expect: "nsh, 88b5 or geneve", Set: conf.Parsed(&c.Framing, opa.ParseFraming)},
		{Name: "icrc", Expect: "v1, none or bad", Set: conf.Parsed(&c.ICRC, opa.ParseICRC)},
		{Name: "fabric_mtu", Expect: "2048, 4096, 8192 or 10240", Set: conf.Parsed(&c.MTU, parseMTU)},
		{Name: "pkeys", Expect: "P_Keys such as 0x8001, 0x7fff", Many: true, Set: conf.Append(&c.PKeys, parsePKey)},
		{Name: "bridge", Expect: "the name of a bridge, such as fabric", Set: conf.Checked(&c.Bridge, tap.CheckName)},
		{Name: "netns", Expect: "a name that `ip netns add` made, or the path of a network namespace",
			Set: conf.Text(&c.Netns)},
		{Name: "netdev", Expect: "a name with %d for the vESW id, such as opa-vesw%d",
			Set: conf.Checked(&c.Netdev, checkNetdev)},
		{Name: "queues", Expect: "a number of queues from 1 to 8", Set: conf.Number(&c.Queues, 1, MaxQueues)},
		policyField(&c.Policy, &c.policySet),
		{Name: "vnics", Schema: conf.ListOf(conf.Object(new(VNIC).Fields(), "vesw")),
			Node: func(n conf.Node) (err error) {
				c.VNICs, err = DecodeVNICs(n, func() (v VNIC) { return v }, (*VNIC).Fields)
				return err
			}},
	}, c.clockFields()...)
}

// clockFields are the settings of the hardware clock and its PTP unit.
func (c *Config) clockFields() (list []conf.Field) {
	for _, p := range c.Clock.Params() {
		list = append(list, conf.Field{Name: p.Name, Expect: p.Expect, Set: p.Set})
	}
	return list
}

// Fields are the settings of a VNIC, bound to v.
func (v *VNIC) Fields() []conf.Field {
	fields := []conf.Field{
		{Name: "vesw", Expect: "a vESW id from 1 to 4095", Set: conf.Number(&v.VESW, 1, opa.MaxVESW)},
		{Name: "tap", Expect: "an interface name such as opa-vesw2, at most 15 characters",
			Set: conf.Checked(&v.TAP, tap.CheckName)},
		{Name: "ip", Expect: "an address with prefix length, such as 10.0.0.1/24 or fd00::1/64", Many: true,
			Set: conf.Append(&v.IP, netip.ParsePrefix)},
		{Name: "fabric", Expect: "a fabric id from 1 to 1023", Set: conf.Number(&v.Fabric, 1, opa.MaxFabric)},
		{Name: "pkey", Expect: "a P_Key such as 0x8001", Set: conf.Parsed(&v.PKey, parsePKey)},
		{Name: "mtu", Expect: "a number of octets from 68 to 10240",
			Set: conf.Number(&v.MTU, vnic.MinMTU, vnic.MaxMTU)},
		{Name: "mac", Expect: "a MAC address of one station", Set: conf.StationMAC(&v.MAC)},
		{Name: "default_ports", Expect: "up to 16 unicast LIDs", Many: true, Set: v.addPort},
		{Name: "mcast_dlid", Expect: "a multicast LID from 0xf00000 to 0xf7ffff",
			Set: conf.Parsed(&v.Mcast, parseMulticast)},
		policyField(&v.Policy, &v.policySet),
		{Name: "gateway", Schema: conf.Object(new(Gateway).fields(), "bridge"), Node: func(n conf.Node) error {
			v.Gateway = &Gateway{}
			if err := conf.Decode(n, "bridge and vlan of a gateway", v.Gateway.fields()); err != nil {
				return err
			}
			if v.Gateway.Bridge == "" {
				return n.Errorf("gateway: expected `bridge:` with the name of a bridge")
			}
			return nil
		}},
	}
	for i := range fields {
		if f := &fields[i]; slices.Contains(ofManager, f.Name) {
			set := f.Set
			f.Set = func(s string) error {
				v.given = append(v.given, f.Name)
				return set(s)
			}
		}
	}
	return fields
}

// ofManager are the settings of a VNIC that an Ethernet Manager gives to the
// HFI, if there is one.
var ofManager = []string{"fabric", "pkey", "mtu", "mac", "default_ports", "mcast_dlid"}

func (v *VNIC) addPort(s string) error {
	if len(v.Ports) == vnic.DefaultPorts {
		return conf.ErrValue
	}
	return conf.Append(&v.Ports, parseUnicast)(s)
}

func (g *Gateway) fields() []conf.Field {
	return []conf.Field{
		{Name: "bridge", Expect: "the name of a bridge, such as br0", Set: conf.Checked(&g.Bridge, tap.CheckName)},
		{Name: "vlan", Expect: "a VLAN id from 0 (untagged) to 4094", Set: conf.Number(&g.VLAN, 0, 4094)},
	}
}

// policyField are the settings of a vnic.Policy, and whether there are any.
func policyField(p *vnic.Policy, given *bool) conf.Field {
	return conf.Field{Name: "policy", Schema: conf.Object(policyFields(p)), Node: func(n conf.Node) error {
		*given, *p = true, vnic.DefaultPolicy()
		return conf.Decode(n, "the treatment of frames", policyFields(p))
	}}
}

func policyFields(p *vnic.Policy) []conf.Field {
	const truth, stations = "true or false", "a number from 1 to 65536"
	return []conf.Field{
		{Name: "unknown", Expect: "proxy, default-port, flood or drop",
			Set: conf.Parsed(&p.Unknown, vnic.ParseUnknown)},
		{Name: "learn", Expect: truth, Set: conf.Bool(&p.Learn)},
		{Name: "age", Expect: "a time such as 300s", Set: conf.Time(&p.Age, 1, 0)},
		{Name: "max_stations", Expect: stations, Set: conf.Number(&p.MaxStations, 1, 1<<16)},
		{Name: "max_stations_per_lid", Expect: stations, Set: conf.Number(&p.MaxPerLID, 1, 1<<16)},
		{Name: "report", Expect: truth, Set: conf.Bool(&p.Report)},
		{Name: "relay", Expect: truth, Set: conf.Bool(&p.Relay)},
		{Name: "filter", Expect: truth, Set: conf.Bool(&p.Filter)},
		{Name: "snoop", Expect: truth, Set: conf.Bool(&p.Snoop)},
		{Name: "all_groups", Expect: truth, Set: conf.Bool(&p.AllGroups)},
		{Name: "suppress", Expect: truth, Set: conf.Bool(&p.Suppress)},
		{Name: "tx_storm", Expect: conf.Frames, Set: conf.FrameRate(&p.TxStorm)},
		{Name: "rx_storm", Expect: conf.Frames, Set: conf.FrameRate(&p.RxStorm)},
		{Name: "host_queue", Expect: "a number of frames from 1 to 65536", Set: conf.Number(&p.HostQueue, 1, 1<<16)},
	}
}

// parseGUID reads a number, or four or eight groups with colons as InfiniBand's
// tools print it.
func parseGUID(s string) (guid uint64, err error) {
	if strings.Contains(s, ":") {
		s = "0x" + strings.ReplaceAll(strings.TrimPrefix(s, "0x"), ":", "")
	}
	if guid, err = strconv.ParseUint(s, 0, 64); err == nil && guid == 0 {
		err = conf.ErrValue
	}
	return guid, err
}

func parseUnicast(s string) (opa.LID, error)   { return parseLID(s, opa.LID.IsUnicast) }
func parseMulticast(s string) (opa.LID, error) { return parseLID(s, opa.LID.IsMulticast) }

func parseLID(s string, ok func(opa.LID) bool) (opa.LID, error) {
	n, err := strconv.ParseUint(s, 0, 24)
	if lid := opa.LID(n); err == nil && !ok(lid) {
		err = conf.ErrValue
	}
	return opa.LID(n), err
}

func parsePKey(s string) (p uint16, err error) {
	if err = conf.Number(&p, 1, 0xffff)(s); err == nil && p&^opa.PKeyFull == 0 {
		err = conf.ErrValue
	}
	return p, err
}

func parseMTU(s string) (int, error) {
	n, err := strconv.ParseInt(s, 0, 64)
	if !slices.Contains([]int64{2048, 4096, 8192, hfi.MaxMTU}, n) {
		err = conf.ErrValue
	}
	return int(n), err
}

func checkListen(s string) error {
	_, _, err := net.SplitHostPort(s)
	return err
}

func checkNetdev(s string) error {
	if strings.Count(s, "%") != 1 || !strings.Contains(s, "%d") {
		return conf.ErrValue
	}
	return tap.CheckName(strings.Replace(s, "%d", "4095", 1))
}

// DecodeVNICs reads a list of VNICs by their fields; each begins as empty makes
// it.
func DecodeVNICs(n conf.Node, empty func() VNIC, fields func(*VNIC) []conf.Field) (all []VNIC, err error) {
	err = n.Each(0, "vnics: expected a list of VNICs", func(n conf.Node, _ int) error {
		v := empty()
		if err := conf.Decode(n, "the settings of a VNIC", fields(&v)); err != nil {
			return err
		}
		if v.VESW == 0 {
			return n.Errorf("vesw: expected the id of the VNIC's vESW, from 1 to 4095")
		}
		all = append(all, v)
		return nil
	})
	return all, err
}

// Set sets a scalar setting of an HFI from a flag of the command line.
func (c *Config) Set(name, text string) error { return conf.Set(c.Fields(), name, text) }

// AddVESW takes `ID` or `ID:TAP`: a VNIC in that vESW.
func (c *Config) AddVESW(text string) error {
	id, name, _ := strings.Cut(text, ":")
	var v VNIC
	err := conf.Set(v.Fields(), "vesw", id)
	if err == nil && name != "" {
		err = conf.Set(v.Fields(), "tap", name)
	}
	if err == nil {
		c.VNICs = append(c.VNICs, v)
	}
	return err
}

// SetVNICs sets a scalar setting of every VNIC.
func (c *Config) SetVNICs(name, text string) error {
	for i := range c.VNICs {
		if err := conf.Set(c.VNICs[i].Fields(), name, text); err != nil {
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
	list := conf.List[Config]{Key: "hfis", One: "HFI", Many: "HFIs", Claims: claims,
		Decode: func(n conf.Node, i int, add func(conf.Node, Config) error) error {
			var c Config
			if err := conf.Decode(n, "the settings of an HFI", c.Fields()); err != nil {
				return err
			}
			c.Name = cmp.Or(c.Name, fmt.Sprint("hfi", i))
			if err := c.Validate(); err != nil {
				return err
			}
			return add(n, c)
		}}
	return list.Parse(path, data)
}

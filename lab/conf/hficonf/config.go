// Package hficonf is the configuration of Omni-Path: that of HFIs with virtual
// NICs, the flags of `tapir vnic` and the entries of an hfi.yaml, and that of an
// Ethernet Manager, a vesw.yaml.
package hficonf

import (
	"cmp"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"

	"tapir/lab/conf"
	"tapir/nic/settings"
	"tapir/nic/tap"
	"tapir/opa"
	"tapir/opa/hfi"
	"tapir/vnic"
	"tapir/wire/ether"
)

// Config describes one HFI, as the flags of `tapir vnic` and the entries of an
// hfi.yaml do. The zero value of every field means its default.
type Config struct {
	Name  string // default hfi0
	TAP   string // fabric TAP, made or found; empty: the kernel chooses
	Wire  string // takes its place: a text that wires.Check accepts
	TAPFD int    // a ready descriptor, taken over
	GUID  uint64 // of the HFI's port
	LID   opa.LID
	// by a fabric manager and an Ethernet Manager; else LID and VNICs are as given here, and it answers neither
	Managed bool
	Framing opa.Framing // of packets on the fabric TAP
	ICRC    opa.ICRC    // of 16B packets
	MTU     int         // octets of payload that the fabric carries: 2048, 4096, 8192 or 10240 (default)
	PKeys   []uint16    // of the port; default those of the VNICs and that of management
	Bridge  string      // that the fabric TAP joins, made if it does not exist; empty: none
	Netns   string      // of the host TAPs: a name of `ip netns`, or a path; empty: that of the caller
	Netdev  string      // name of a host TAP, %d is the vESW id; default opa-vesw%d
	Queues  int         // of each host TAP, at most 8; default 1
	Policy  vnic.Policy // of vports that VNICs does not name
	VNICs   []VNIC
	// Clock are the settings of the hardware clock and its PTP unit.
	Clock settings.Clock

	policySet bool
}

// VNIC describes one vport and its host TAP. In a managed HFI only VESW, TAP,
// Policy and Gateway count.
type VNIC struct {
	VESW    uint16
	TAP     string // default by Config.Netdev
	Fabric  uint16 // id of the fabric; default 1
	PKey    uint16 // default 0x8001
	MTU     int    // of Ethernet payload, in octets; default 1500
	MAC     ether.Addr
	Ports   []opa.LID // default ports, for unknown unicast
	Mcast   opa.LID   // for multicast and broadcast; default 0xf00000 and the vESW id
	Policy  vnic.Policy
	Gateway *Gateway
	IP      []netip.Prefix // addresses of the host TAP

	policySet bool
	given     []string // keys that only make sense without an Ethernet Manager
}

// Gateway joins a vport to an ordinary network: its host TAP becomes a port of
// a bridge.
type Gateway struct {
	Bridge string
	VLAN   uint16 // 802.1Q id of the vESW's frames on the bridge; 0: untagged
}

// MaxQueues is the number of receive contexts of an HFI.
const MaxQueues = 8

// Defaults of a VNIC.
const (
	defaultNetdev = "opa-vesw%d"
	defaultFabric = 1
	defaultPKey   = opa.PKeyDefault | opa.PKeyFull
)

func (c Config) WithDefaults() Config {
	c.Name, c.Netdev = cmp.Or(c.Name, "hfi0"), cmp.Or(c.Netdev, defaultNetdev)
	c.Queues, c.MTU = cmp.Or(c.Queues, 1), cmp.Or(c.MTU, hfi.MaxMTU)
	if !c.policySet && c.Policy == (vnic.Policy{}) {
		c.Policy = vnic.DefaultPolicy()
	}
	c.VNICs = slices.Clone(c.VNICs)
	for i := range c.VNICs {
		c.VNICs[i] = c.VNICs[i].WithDefaults(&c)
	}
	if !c.Managed && len(c.PKeys) == 0 {
		c.PKeys = []uint16{opa.PKeyManagement}
		for _, v := range c.VNICs {
			if !slices.Contains(c.PKeys, v.PKey) {
				c.PKeys = append(c.PKeys, v.PKey)
			}
		}
	}
	return c
}

func (v VNIC) WithDefaults(c *Config) VNIC {
	v.TAP = cmp.Or(v.TAP, fmt.Sprintf(c.Netdev, v.VESW))
	v.Fabric, v.PKey = cmp.Or(v.Fabric, defaultFabric), cmp.Or(v.PKey, defaultPKey)
	v.MTU = cmp.Or(v.MTU, min(vnic.DefaultMTU, c.MTU))
	v.Mcast = cmp.Or(v.Mcast, opa.FirstMulticast+opa.LID(v.VESW))
	v.MAC = cmp.Or(v.MAC, opa.LMAC{Fabric: v.Fabric, VESW: v.VESW, LID: c.LID}.Addr())
	if !v.policySet && v.Policy == (vnic.Policy{}) {
		v.Policy = c.Policy
	}
	if v.Gateway != nil {
		v.Policy.Gateway, v.Policy.Learn, v.Policy.AllGroups = true, true, true
		v.Policy.Filter = false // what lies behind the bridge is not ours
	}
	return v
}

// ControlName is the name of the HFI's control socket.
func (c *Config) ControlName() string { return c.WithDefaults().Name }

// VNIC returns what is configured of a vESW, with the defaults filled in.
func (c *Config) VNIC(vesw uint16) VNIC {
	for _, v := range c.VNICs {
		if v.VESW == vesw {
			return v
		}
	}
	return VNIC{VESW: vesw}.WithDefaults(c)
}

// VPort is what the Ethernet Manager would set, in an HFI without one.
func (v *VNIC) VPort(num uint8) vnic.Config {
	p := vnic.PowerOn()
	p.FabricID, p.VESWID, p.PKey = v.Fabric, v.VESW, v.PKey
	p.McastDLID, p.EthMTU = v.Mcast, uint16(v.MTU)
	p.PortNum, p.BaseMAC, p.ConfigState = uint32(num), v.MAC, vnic.Forwarding
	copy(p.UcastDLID[:], v.Ports)
	p.DefPortMask = 1<<len(v.Ports) - 1
	return p
}

// Validate finds settings that do not go together. The error is one line.
func (c Config) Validate() error {
	full := c.WithDefaults()
	problem := c.conflict()
	if problem == "" { // there are not too many VNICs
		problem = full.vnicConflict()
	}
	if problem != "" {
		return fmt.Errorf("%s: %s", full.Name, problem)
	}
	return nil
}

func (c *Config) conflict() string {
	given := func(v VNIC) bool { return len(v.given) > 0 }
	var static VNIC
	if i := slices.IndexFunc(c.VNICs, given); c.Managed && i >= 0 {
		static = c.VNICs[i]
	}
	return cmp.Or(
		conf.Problem(c.Wire != "" && (c.TAP != "" || c.TAPFD != 0 || c.Bridge != ""),
			"wire takes the place of the fabric TAP: leave out fabric_tap, fabric_tap_fd and bridge"),
		conf.Problem(c.GUID == 0, "no guid: give the port's GUID, such as 0x0011750101000001"),
		conf.Problem(!c.Managed && c.LID == 0, "no lid: give the port's LID, or `managed: true` and run `tapir em`"),
		conf.Problem(!c.Managed && len(c.VNICs) == 0,
			"no vnics: give one, such as --vesw 2:opa-vesw2, or `managed: true` and run `tapir em`"),
		conf.Problem(c.Managed && len(c.PKeys) > 0,
			"pkeys and managed exclude each other: the fabric manager says which P_Keys the port has"),
		conf.Problem(len(c.VNICs) > vnic.MaxNetdevs, "%d vnics: a port has at most %d", len(c.VNICs), vnic.MaxNetdevs),
		conf.Problem(given(static), "vesw %d: %s: that is for the Ethernet Manager to say: give it to `tapir em`",
			static.VESW, strings.Join(static.given, ", ")),
	)
}

// vnicConflict looks at VNICs whose defaults are filled in.
func (c *Config) vnicConflict() string {
	for i, v := range c.VNICs {
		bad := tap.CheckName(v.TAP)
		if problem := cmp.Or(
			conf.Problem(v.VESW == 0, "a vnic without vesw: give the vESW's id, from 1 to 4095"),
			conf.Problem(bad != nil, "vesw %d: %v", v.VESW, bad),
			conf.Problem(v.MTU > c.MTU, "vesw %d: mtu %d is more than the %d of the fabric", v.VESW, v.MTU, c.MTU),
			conf.Problem(v.TAP == c.TAP, "vesw %d: tap and fabric_tap are both %s: they need two interfaces", v.VESW,
				v.TAP)); problem != "" {
			return problem
		}
		for _, w := range c.VNICs[:i] {
			switch {
			case v.VESW == w.VESW:
				return fmt.Sprintf("two vnics have vesw %d: a port has one vport in each", v.VESW)
			case v.TAP == w.TAP:
				return fmt.Sprintf("vesw %d and vesw %d both use %s", w.VESW, v.VESW, v.TAP)
			}
		}
	}
	return ""
}

// claims are what two HFIs cannot share in one process and namespace.
func claims(c *Config) (name string, all []conf.Claim) {
	all = []conf.Claim{conf.Has("guid", GUIDText(c.GUID)), conf.Has("lid", c.LID), conf.Uses("tap", c.TAP)}
	for _, v := range c.WithDefaults().VNICs {
		all = append(all, conf.Uses("tap", path.Join(c.Netns, v.TAP)))
	}
	return c.Name, all
}

// Ready is the line that says that the HFI runs on that fabric TAP.
func (c *Config) Ready(tap string) string {
	lid, vnics := "-", "-"
	if c.LID != 0 {
		lid = c.LID.String()
	}
	var list []string
	for _, v := range c.VNICs {
		list = append(list, fmt.Sprintf("%d:%s", v.VESW, v.TAP))
	}
	if list != nil {
		vnics = strings.Join(list, ",")
	}
	return fmt.Sprintf("ready %s guid=%s lid=%s tap=%s framing=%v vesw=%s", c.Name, GUIDText(c.GUID), lid, tap,
		c.Framing, vnics)
}

// GUIDText is a GUID as configuration and tables show it.
func GUIDText(g uint64) string { return fmt.Sprintf("%#016x", g) }

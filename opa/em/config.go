package em

import (
	"cmp"
	"fmt"
	"slices"

	"tapir/opa"
)

// Node names an HFI port: by its GUID, or by a name, which is one of
// Config.Nodes or else the port's node description.
type Node struct {
	GUID uint64 // 0: by name
	Name string
}

func (n Node) String() string {
	if n.GUID != 0 {
		return GUID(n.GUID).String()
	}
	return n.Name
}

// GUID is a port GUID, for messages.
type GUID uint64

func (g GUID) String() string { return fmt.Sprintf("%#016x", uint64(g)) }

// MarshalText writes the GUID as String does: JSON's numbers are too short.
func (g GUID) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// NodeEntry gives a port a name and a LID of its own.
type NodeEntry struct {
	Name string  // may be empty
	GUID uint64  // 0: the port with the node description Name
	LID  opa.LID // 0: any
}

func (n *NodeEntry) node() Node { return Node{n.GUID, n.Name} }

// Member is a port of a vESW.
type Member struct {
	Node
	// Limited members of the partition can talk to full ones only.
	Limited bool
}

// VESW is a virtual Ethernet switch as it is to be.
type VESW struct {
	Name   string
	ID     uint16 // 1 to 4095
	Fabric uint16 // fabric id, 10 bits
	PKey   uint16 // without membership bit, 1 to 0x7ffe
	MTU    uint16 // octets of Ethernet payload, 68 to 10240
	// Members are its ports; DefaultPorts and Gateways are among them.
	Members []Member
	// DefaultPorts get unicast frames for stations that nobody knows; the
	// senders spread them by flow. Gateways, which lead out of the vESW, are
	// default ports too.
	DefaultPorts []Node
	Gateways     []Node
	QoS          opa.QoS
	RC           opa.RCWord
}

// LIDRange are the LIDs that a manager gives out.
type LIDRange struct{ First, Last opa.LID }

// DefaultLIDs are those that 9B packets can reach.
var DefaultLIDs = LIDRange{opa.FirstUnicast, 0xbfff}

// Contains reports whether l is one of them.
func (r LIDRange) Contains(l opa.LID) bool { return l >= r.First && l <= r.Last }

func (r LIDRange) String() string { return fmt.Sprintf("%#x-%#x", uint32(r.First), uint32(r.Last)) }

// Config is the fabric as it is to be.
type Config struct {
	LIDs       LIDRange // zero: DefaultLIDs
	Nodes      []NodeEntry
	VESWs      []VESW
	Congestion *Congestion // nil: ports do not react to congestion
}

func (c *Config) lids() LIDRange { return cmp.Or(c.LIDs, DefaultLIDs) }

// Bounds of a configuration.
const (
	minMTU  = 68
	maxMTU  = 10240
	maxRC   = 0x07777777 // three bits of every four
	maxPKey = opa.PKeyManagement - 1
)

// ConfigError is a mistake in a Config. Path is its place as a file would have
// it, such as vesws[1].members[0].
type ConfigError struct {
	Path string
	What string // was found, and what was expected
}

func (e *ConfigError) Error() string { return e.Path + ": " + e.What }

// expect returns a mistake at path unless ok.
func expect(ok bool, path, format string, args ...any) error {
	if ok {
		return nil
	}
	return wrong(path, format, args...)
}

func wrong(path, format string, args ...any) error {
	return &ConfigError{path, fmt.Sprintf(format, args...)}
}

// Validate returns a *ConfigError for the first mistake.
func (c *Config) Validate() error {
	if r := c.lids(); !r.First.IsUnicast() || !r.Last.IsUnicast() || r.First > r.Last {
		return wrong("lids", "%v: expected a range such as 0x10000-0x1ffff, from 1 to 0xefffff", r)
	}
	if c.Congestion != nil {
		if err := c.Congestion.validate(); err != nil {
			return err
		}
	}
	for i := range c.Nodes {
		if err := c.validateNode(i); err != nil {
			return err
		}
	}
	for i := range c.VESWs {
		if err := c.validateVESW(i); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) validateNode(i int) error {
	n, path := &c.Nodes[i], fmt.Sprintf("nodes[%d]", i)
	if err := cmp.Or(
		expect(n.GUID != 0 || n.Name != "", path, "expected a name or a guid"),
		expect(n.LID == 0 || c.lids().Contains(n.LID), path+".lid", "%#x: expected one of the range of lids, %v",
			uint32(n.LID), c.lids())); err != nil {
		return err
	}
	for k := range i {
		switch o := &c.Nodes[k]; {
		case n.GUID != 0 && n.GUID == o.GUID:
			return wrong(path+".guid", "%v: another node has it too", GUID(n.GUID))
		case n.Name != "" && n.Name == o.Name:
			return wrong(path+".name", "%s: another node has it too", n.Name)
		case n.LID != 0 && n.LID == o.LID:
			return wrong(path+".lid", "%#x: another node has it too", uint32(n.LID))
		}
	}
	return nil
}

func (c *Config) validateVESW(i int) error {
	v, path := &c.VESWs[i], fmt.Sprintf("vesws[%d]", i)
	if err := v.validate(path); err != nil {
		return err
	}
	for k := range i {
		switch o := &c.VESWs[k]; {
		case v.ID == o.ID:
			return wrong(path+".id", "%d: vESW %s has it too", v.ID, o.Name)
		case v.Name == o.Name:
			return wrong(path+".name", "%s: another vESW has it too", v.Name)
		}
	}
	return c.aliases(path, v)
}

func (v *VESW) validate(path string) error {
	const lanes = "expected SCs and VLs of at most 31"
	return cmp.Or(
		expect(v.Name != "", path+".name", "expected a name"),
		expect(v.ID >= 1 && v.ID <= opa.MaxVESW, path+".id", "%d: expected 1 to 4095", v.ID),
		expect(v.Fabric <= opa.MaxFabric, path+".fabric", "%#x: expected at most 0x3ff", v.Fabric),
		expect(v.PKey >= 1 && v.PKey <= maxPKey, path+".pkey", "%#x: expected 1 to 0x7ffe", v.PKey),
		expect(v.MTU >= minMTU && v.MTU <= maxMTU, path+".mtu", "%d: expected 68 to 10240", v.MTU),
		expect(v.RC&^maxRC == 0, path+".rc", "%#x: expected 0 to 7 for each protocol", uint32(v.RC)),
		expect(v.QoS.Unicast.Valid(), path+".qos.unicast", lanes),
		expect(v.QoS.Multicast.Valid(), path+".qos.multicast", lanes),
		v.validateMembers(path))
}

func (v *VESW) validateMembers(path string) error {
	for i, m := range v.Members {
		switch at := fmt.Sprintf("%s.members[%d]", path, i); {
		case m.Node == (Node{}):
			return wrong(at, "expected a node's name or guid")
		case slices.ContainsFunc(v.Members[:i], func(o Member) bool { return o.Node == m.Node }):
			return wrong(at, "%v is a member twice", m.Node)
		}
	}
	seen := 0
	for _, l := range []struct {
		key  string
		list []Node
	}{{"default_ports", v.DefaultPorts}, {"gateways", v.Gateways}} {
		for i, n := range l.list {
			seen++
			at := fmt.Sprintf("%s.%s[%d]", path, l.key, i)
			member := slices.ContainsFunc(v.Members, func(m Member) bool { return m.Node == n })
			if err := cmp.Or(expect(member, at, "%v is not a member of %s", n, v.Name),
				expect(!slices.Contains(l.list[:i], n), at, "%v is listed twice", n),
				expect(seen <= len(defPorts{}), at, "expected at most 16 default ports and gateways")); err != nil {
				return err
			}
		}
	}
	return nil
}

// aliases refuses a port that is a member by name and by GUID.
func (c *Config) aliases(path string, v *VESW) error {
	seen := map[uint64]Node{}
	for i, m := range v.Members {
		g := c.guid(m.Node)
		if o, ok := seen[g]; g != 0 && ok {
			return wrong(fmt.Sprintf("%s.members[%d]", path, i), "%v and %v are the same node", m.Node, o)
		}
		seen[g] = m.Node
	}
	return nil
}

// guid is the GUID of a node as far as the configuration tells it, else 0.
func (c *Config) guid(n Node) uint64 {
	if n.GUID != 0 {
		return n.GUID
	}
	if i := slices.IndexFunc(c.Nodes, func(e NodeEntry) bool { return e.Name == n.Name }); i >= 0 {
		return c.Nodes[i].GUID
	}
	return 0
}

type defPorts = [16]opa.LID

package em

import (
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

// Config is the fabric as it is to be.
type Config struct {
	Nodes []NodeEntry
	VESWs []VESW
}

// Bounds of a configuration.
const (
	MaxLID  opa.LID = 0xbfff // the last that a 9B packet, and so a MAD, can reach
	minMTU          = 68
	maxMTU          = 10240
	maxSC           = 31
	maxVL           = 31
	maxRC           = 0x07777777 // three bits of every four
	maxPKey         = opa.PKeyManagement - 1
)

// ConfigError is a mistake in a Config. Path is its place as a file would have
// it, such as vesws[1].members[0].
type ConfigError struct {
	Path string
	What string // was found, and what was expected
}

func (e *ConfigError) Error() string { return e.Path + ": " + e.What }

func wrong(path, format string, args ...any) error {
	return &ConfigError{path, fmt.Sprintf(format, args...)}
}

// Validate returns a *ConfigError for the first mistake.
func (c *Config) Validate() error {
	if err := c.validateNodes(); err != nil {
		return err
	}
	for i := range c.VESWs {
		path := fmt.Sprintf("vesws[%d]", i)
		if err := c.VESWs[i].validate(path); err != nil {
			return err
		}
		for _, other := range c.VESWs[:i] {
			switch v := &c.VESWs[i]; {
			case v.ID == other.ID:
				return wrong(path+".id", "%d: vESW %s has it too", v.ID, other.Name)
			case v.Name == other.Name:
				return wrong(path+".name", "%s: another vESW has it too", v.Name)
			}
		}
		if err := c.aliases(path, &c.VESWs[i]); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) validateNodes() error {
	for i, n := range c.Nodes {
		path := fmt.Sprintf("nodes[%d]", i)
		switch {
		case n.GUID == 0 && n.Name == "":
			return wrong(path, "expected a name or a guid")
		case n.LID > MaxLID:
			return wrong(path+".lid", "%#x: expected 1 to 0xbfff", uint32(n.LID))
		}
		for _, other := range c.Nodes[:i] {
			switch {
			case n.GUID != 0 && n.GUID == other.GUID:
				return wrong(path+".guid", "%v: another node has it too", GUID(n.GUID))
			case n.Name != "" && n.Name == other.Name:
				return wrong(path+".name", "%s: another node has it too", n.Name)
			case n.LID != 0 && n.LID == other.LID:
				return wrong(path+".lid", "%#x: another node has it too", uint32(n.LID))
			}
		}
	}
	return nil
}

func (v *VESW) validate(path string) error {
	switch {
	case v.Name == "":
		return wrong(path+".name", "expected a name")
	case v.ID < 1 || v.ID > opa.MaxVESW:
		return wrong(path+".id", "%d: expected 1 to 4095", v.ID)
	case v.Fabric > opa.MaxFabric:
		return wrong(path+".fabric", "%#x: expected at most 0x3ff", v.Fabric)
	case v.PKey < 1 || v.PKey > maxPKey:
		return wrong(path+".pkey", "%#x: expected 1 to 0x7ffe", v.PKey)
	case v.MTU < minMTU || v.MTU > maxMTU:
		return wrong(path+".mtu", "%d: expected 68 to 10240", v.MTU)
	case v.RC&^maxRC != 0:
		return wrong(path+".rc", "%#x: expected 0 to 7 for each protocol", uint32(v.RC))
	}
	for _, l := range []struct {
		key   string
		lanes *opa.Lanes
	}{{".qos.unicast", &v.QoS.Unicast}, {".qos.multicast", &v.QoS.Multicast}} {
		if slices.Max(l.lanes.SC[:]) > maxSC || l.lanes.UntaggedSC > maxSC || slices.Max(l.lanes.VL[:]) > maxVL ||
			l.lanes.UntaggedVL > maxVL {
			return wrong(path+l.key, "expected SCs and VLs of at most 31")
		}
	}
	return v.validateMembers(path)
}

func (v *VESW) validateMembers(path string) error {
	for i, m := range v.Members {
		at := fmt.Sprintf("%s.members[%d]", path, i)
		if m.Node == (Node{}) {
			return wrong(at, "expected a node's name or guid")
		}
		if slices.ContainsFunc(v.Members[:i], func(o Member) bool { return o.Node == m.Node }) {
			return wrong(at, "%v is a member twice", m.Node)
		}
	}
	seen := 0
	for _, l := range []struct {
		key  string
		list []Node
	}{{"default_ports", v.DefaultPorts}, {"gateways", v.Gateways}} {
		for i, n := range l.list {
			at := fmt.Sprintf("%s.%s[%d]", path, l.key, i)
			if !slices.ContainsFunc(v.Members, func(m Member) bool { return m.Node == n }) {
				return wrong(at, "%v is not a member of %s", n, v.Name)
			}
			if slices.Contains(l.list[:i], n) {
				return wrong(at, "%v is listed twice", n)
			}
			if seen++; seen > len(defPorts{}) {
				return wrong(at, "expected at most 16 default ports and gateways")
			}
		}
	}
	return nil
}

// aliases refuses a port that is a member by name and by GUID.
func (c *Config) aliases(path string, v *VESW) error {
	for i, m := range v.Members {
		for _, o := range v.Members[:i] {
			if g := c.guid(m.Node); g != 0 && g == c.guid(o.Node) {
				return wrong(fmt.Sprintf("%s.members[%d]", path, i), "%v and %v are the same node", m.Node, o.Node)
			}
		}
	}
	return nil
}

// guid is the GUID of a node as far as the configuration tells it, else 0.
func (c *Config) guid(n Node) uint64 {
	if n.GUID != 0 {
		return n.GUID
	}
	for _, e := range c.Nodes {
		if e.Name == n.Name {
			return e.GUID
		}
	}
	return 0
}

type defPorts = [16]opa.LID

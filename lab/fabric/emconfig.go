package fabric

import (
	"errors"
	"os"
	"strconv"
	"strings"

	"tapir/lab/conf"
	"tapir/lab/ctl"
	"tapir/nic/tap"
	"tapir/opa"
	"tapir/opa/em"
	"tapir/opa/hfi"
)

// EMConfig is a vesw.yaml: the fabric as it is to be, and where its manager
// runs.
type EMConfig struct {
	Port     Config // the HFI of the manager itself
	Priority uint8  // among managers
	Standby  bool   // the lowest priority
	Audit    string // file that the audit log is appended to; empty: none
	FE       string // address on which the front end listens, such as 127.0.0.1:3245; empty: none
	Timing   em.Timing
	Fabric   em.Config

	places map[string]conf.Node // where in the file a path of Fabric is
}

// emKeys are the settings of a manager.
var emKeys = []conf.Field[EMConfig]{
	{Name: "name", Expect: "1 to 32 letters, digits, `-`, `_` and `.`", Set: func(c *EMConfig, s string) error { c.Port.Name = s; return ctl.CheckName(s) }},
	{Name: "fabric_tap", Expect: "an interface name such as fabem, at most 15 characters", Set: func(c *EMConfig, s string) error { c.Port.TAP = s; return tap.CheckName(s) }},
	{Name: "guid", Expect: "a GUID that is not 0, such as 0x00117501010000ff", Set: func(c *EMConfig, s string) error { return setGUID(&c.Port.GUID, s) }},
	{Name: "framing", Expect: "nsh, 88b5 or geneve", Set: func(c *EMConfig, s string) (err error) { c.Port.Framing, err = opa.ParseFraming(s); return err }},
	{Name: "icrc", Expect: "v1, none or bad", Set: func(c *EMConfig, s string) (err error) { c.Port.ICRC, err = opa.ParseICRC(s); return err }},
	{Name: "priority", Expect: "a number from 0 to 15", Set: func(c *EMConfig, s string) error { return setUint8(&c.Priority, s, 15) }},
	{Name: "audit", Expect: "the name of a file", Set: func(c *EMConfig, s string) error { c.Audit = s; return nil }},
	{Name: "fe", Expect: "an address to listen on, such as 127.0.0.1:3245", Set: func(c *EMConfig, s string) error { return setListen(&c.FE, s) }},
	{Name: "poll", Expect: "a time such as 2s", Set: func(c *EMConfig, s string) error { return setTime(&c.Timing.Poll, s) }},
	{Name: "sweep", Expect: "a time such as 500ms", Set: func(c *EMConfig, s string) error { return setTime(&c.Timing.Sweep, s) }},
	{Name: "takeover", Expect: "a time such as 1s", Set: func(c *EMConfig, s string) error { return setTime(&c.Timing.Takeover, s) }},
	{Name: "nodes", Node: func(c *EMConfig, n conf.Node) error {
		return eachOf(n, "nodes", "a list of nodes", func(at string, n conf.Node) error {
			c.places[at] = n
			c.Fabric.Nodes = append(c.Fabric.Nodes, em.NodeEntry{})
			return conf.Decode(n, &c.Fabric.Nodes[len(c.Fabric.Nodes)-1], "name, guid and lid of a node", nodeKeys)
		})
	}},
	{Name: "vesws", Node: func(c *EMConfig, n conf.Node) error {
		return eachOf(n, "vesws", "a list of virtual Ethernet switches", c.addVESW)
	}},
}

var nodeKeys = []conf.Field[em.NodeEntry]{
	{Name: "name", Expect: "a name", Set: func(e *em.NodeEntry, s string) error { return setText(&e.Name, s) }},
	{Name: "guid", Expect: "a GUID that is not 0", Set: func(e *em.NodeEntry, s string) error { return setGUID(&e.GUID, s) }},
	{Name: "lid", Expect: "a LID from 1 to 0xbfff", Set: func(e *em.NodeEntry, s string) error {
		return setLID(&e.LID, s, func(l opa.LID) bool { return l.IsUnicast() && l <= em.MaxLID })
	}},
}

// veswFile is a vESW of the file with the places of its parts.
type veswFile struct {
	em.VESW
	c  *EMConfig
	at string
}

var veswKeys = []conf.Field[veswFile]{
	{Name: "name", Expect: "a name", Set: func(v *veswFile, s string) error { return setText(&v.Name, s) }},
	{Name: "id", Expect: "a vESW id from 1 to 4095", Set: func(v *veswFile, s string) error { return setUint16(&v.ID, s, 1, opa.MaxVESW) }},
	{Name: "fabric", Expect: "a fabric id from 1 to 1023", Set: func(v *veswFile, s string) error { return setUint16(&v.Fabric, s, 1, opa.MaxFabric) }},
	{Name: "pkey", Expect: "a P_Key without membership bit, from 1 to 0x7ffe", Set: func(v *veswFile, s string) error { return setUint16(&v.PKey, s, 1, 0x7ffe) }},
	{Name: "mtu", Expect: "a number of octets from 68 to 10240", Set: func(v *veswFile, s string) error { return setUint16(&v.MTU, s, 68, hfi.MaxMTU) }},
	{Name: "members", Node: func(v *veswFile, n conf.Node) error {
		return eachOf(n, "members", "a list of nodes", func(at string, n conf.Node) error {
			m, err := member(n)
			v.place(at, n)
			v.Members = append(v.Members, m)
			return err
		})
	}},
	{Name: "default_ports", Node: func(v *veswFile, n conf.Node) error { return v.nodes(&v.DefaultPorts, "default_ports", n) }},
	{Name: "gateways", Node: func(v *veswFile, n conf.Node) error { return v.nodes(&v.Gateways, "gateways", n) }},
	{Name: "qos", Node: func(v *veswFile, n conf.Node) error { return conf.Decode(n, &v.QoS, "unicast and multicast", qosKeys) }},
	{Name: "rc", Node: func(v *veswFile, n conf.Node) error {
		return conf.Decode(n, &v.RC, "routing control by protocol", rcKeys)
	}},
}

var memberKeys = []conf.Field[em.Member]{
	{Name: "node", Expect: "a node's name or GUID", Set: func(m *em.Member, s string) error { return setNode(&m.Node, s) }},
	{Name: "limited", Expect: "true or false", Set: func(m *em.Member, s string) error { return setBool(&m.Limited, s) }},
}

var qosKeys = []conf.Field[opa.QoS]{
	{Name: "unicast", Node: func(q *opa.QoS, n conf.Node) error { return conf.Decode(n, &q.Unicast, "SCs and VLs", laneKeys) }},
	{Name: "multicast", Node: func(q *opa.QoS, n conf.Node) error { return conf.Decode(n, &q.Multicast, "SCs and VLs", laneKeys) }},
}

var laneKeys = []conf.Field[opa.Lanes]{
	{Name: "sc", Node: func(l *opa.Lanes, n conf.Node) error { return setLanes(&l.SC, n) }},
	{Name: "vl", Node: func(l *opa.Lanes, n conf.Node) error { return setLanes(&l.VL, n) }},
	{Name: "untagged_sc", Expect: "a number from 0 to 31", Set: func(l *opa.Lanes, s string) error { return setUint8(&l.UntaggedSC, s, 31) }},
	{Name: "untagged_vl", Expect: "a number from 0 to 31", Set: func(l *opa.Lanes, s string) error { return setUint8(&l.UntaggedVL, s, 31) }},
}

// rcKeys are the protocols by their place in the word.
var rcKeys = func() (fields []conf.Field[opa.RCWord]) {
	for i, name := range []string{"default", "ipv4", "ipv4_udp", "ipv4_tcp", "ipv6", "ipv6_tcp", "ipv6_udp"} {
		fields = append(fields, conf.Field[opa.RCWord]{Name: name, Expect: "a number from 0 to 7", Set: func(w *opa.RCWord, s string) error {
			n := 0
			err := setInt(&n, s, 0, 7)
			*w |= opa.RCWord(n) << (4 * i)
			return err
		}})
	}
	return fields
}()

// eachOf calls add with the place and node of each element of a list.
func eachOf(n conf.Node, key, what string, add func(at string, n conf.Node) error) error {
	list, ok := n.List()
	if !ok {
		return n.Errorf("%s: expected %s", key, what)
	}
	for i, n := range list {
		if err := add(key+"["+strconv.Itoa(i)+"]", n); err != nil {
			return err
		}
	}
	return nil
}

func (c *EMConfig) addVESW(at string, n conf.Node) error {
	v := veswFile{c: c, at: at}
	v.Fabric, v.MTU, v.PKey = defaultFabric, 1500, opa.PKeyDefault
	c.places[at] = n
	if err := conf.Decode(n, &v, "the settings of a vESW", veswKeys); err != nil {
		return err
	}
	if v.Name == "" {
		v.Name = "vesw" + strconv.Itoa(int(v.ID))
	}
	c.Fabric.VESWs = append(c.Fabric.VESWs, v.VESW)
	return nil
}

func (v *veswFile) place(at string, n conf.Node) { v.c.places[v.at+"."+at] = n }

func (v *veswFile) nodes(list *[]em.Node, key string, n conf.Node) error {
	return eachOf(n, key, "a list of nodes", func(at string, n conf.Node) error {
		text, ok := n.Text()
		var node em.Node
		if !ok || setNode(&node, text) != nil {
			return n.Errorf("%s: expected a node's name or GUID", key)
		}
		v.place(at, n)
		*list = append(*list, node)
		return nil
	})
}

// member is a node's name or GUID, or a mapping.
func member(n conf.Node) (m em.Member, err error) {
	if text, ok := n.Text(); ok {
		return m, setNode(&m.Node, text)
	}
	return m, conf.Decode(n, &m, "a node's name or GUID, or `node:` and `limited:`", memberKeys)
}

func setNode(p *em.Node, s string) error {
	if setGUID(&p.GUID, s) == nil {
		return nil
	}
	p.GUID = 0
	return setText(&p.Name, s)
}

func setText(p *string, s string) error {
	if *p = s; s == "" {
		return errValue
	}
	return nil
}

func setUint8(p *uint8, s string, high int) error {
	n := 0
	err := setInt(&n, s, 0, high)
	*p = uint8(n)
	return err
}

func setLanes(p *[8]uint8, n conf.Node) error {
	list, _ := n.List()
	if len(list) != len(p) {
		return n.Errorf("expected eight numbers from 0 to 31, by PCP")
	}
	for i, n := range list {
		text, ok := n.Text()
		if !ok || setUint8(&p[i], text, 31) != nil {
			return n.Errorf("expected a number from 0 to 31")
		}
	}
	return nil
}

// LoadEM reads the vesw.yaml of a manager. A mistake is a *conf.Error.
func LoadEM(path string) (EMConfig, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return EMConfig{}, err
	}
	return ParseEM(path, data)
}

// ParseEM is LoadEM of a file already read; path is for messages only.
func ParseEM(path string, data []byte) (c EMConfig, err error) {
	body, err := conf.Read(path, data, "`vesws:` with a list")
	if err != nil {
		return c, err
	}
	c.places, c.Timing = map[string]conf.Node{}, em.DefaultTiming()
	if err := conf.Decode(body, &c, "the settings of an Ethernet Manager", emKeys); err != nil {
		return c, err
	}
	c.Port.Managed = true
	if c.Port.Name == "" {
		c.Port.Name = "em0"
	}
	if err := c.Port.Validate(); err != nil {
		return c, body.Errorf("%v", err)
	}
	return c, c.place(body, c.Fabric.Validate())
}

// place finds the line of a mistake that the manager found.
func (c *EMConfig) place(body conf.Node, err error) error {
	mistake := (*em.ConfigError)(nil)
	if !errors.As(err, &mistake) {
		return err
	}
	path := mistake.Path
	for path != "" {
		if n, ok := c.places[path]; ok {
			return n.Errorf("%v", mistake)
		}
		path = path[:max(strings.LastIndexByte(path, '.'), 0)]
	}
	return body.Errorf("%v", mistake)
}

package hficonf

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"tapir/lab/conf"
	"tapir/opa"
	"tapir/opa/em"
)

// parseVESWFile reads what an Ethernet Manager is to make of a fabric:
//
//	nodes:
//	  - {name: h1, guid: 0x0011750101000001, lid: 1}
//	  - {name: h2, guid: 0x0011750101000002}
//	vesws:
//	  - name: blue
//	    id: 2
//	    members: [h1, h2, {node: h3, membership: limited}]
//	    gateways: [h1]
//
// Names that nodes does not have are node descriptions of HFIs. path is for
// messages only; mistakes are *conf.Error with file, line and column.
func parseVESWFile(path string, data []byte) (f *veswFile, root conf.Node, err error) {
	const expect = "`vesws:` with a list of vESWs"
	if root, err = conf.Read(path, data, expect); err != nil {
		return nil, root, err
	}
	f = &veswFile{places: map[string]conf.Node{}}
	f.manager.Timing = em.DefaultTiming()
	if err := conf.Decode(root, f, expect, veswFileKeys); err != nil {
		return nil, root, err
	}
	if err := f.cfg.Validate(); err != nil {
		return nil, root, f.place(root, err)
	}
	return f, root, nil
}

// veswFile is the configuration with the places of its parts, for mistakes
// that only the whole shows.
type veswFile struct {
	cfg     em.Config
	manager EMConfig
	places  map[string]conf.Node
}

// place finds where a mistake is: at its path, or at what encloses it.
func (f *veswFile) place(root conf.Node, err error) error {
	var c *em.ConfigError
	if !errors.As(err, &c) {
		return root.Errorf("%v", err)
	}
	key := c.Path[strings.LastIndexByte(c.Path, '.')+1:]
	key, _, _ = strings.Cut(key, "[")
	for path := c.Path; path != ""; path = path[:max(0, strings.LastIndexAny(path, ".["))] {
		if n, ok := f.places[path]; ok {
			return n.Errorf("%s: %s", key, c.What)
		}
	}
	return root.Errorf("%s: %s", key, c.What)
}

var veswFileKeys = []conf.Field[veswFile]{
	{Name: "nodes", Schema: conf.ListOf(conf.Object(nodeKeys)), Node: func(f *veswFile, n conf.Node) error {
		return f.list(n, "nodes", "a list of nodes", func(n conf.Node, at string) error {
			d := &nodeDecoder{places: f.places, at: at}
			err := conf.Decode(n, d, "name, guid and lid of a node", nodeKeys)
			f.cfg.Nodes = append(f.cfg.Nodes, d.NodeEntry)
			return err
		})
	}},
	{Name: "vesws", Schema: conf.ListOf(conf.Object(veswKeys)), Node: func(f *veswFile, n conf.Node) error {
		return f.list(n, "vesws", "a list of vESWs", func(n conf.Node, at string) error {
			d := &veswDecoder{file: f, at: at, VESW: em.VESW{Fabric: defaultFabric, PKey: opa.PKeyDefault, MTU: 1500}}
			err := conf.Decode(n, d, "the settings of a vESW", veswKeys)
			f.cfg.VESWs = append(f.cfg.VESWs, d.VESW)
			return err
		})
	}},
	{Name: managerKey, Node: func(f *veswFile, n conf.Node) error {
		f.places[managerKey] = n
		return conf.Decode(n, &f.manager, "where and how the Ethernet Manager runs", managerKeys)
	}},
}

// list calls each with every element of a list and its path.
func (f *veswFile) list(n conf.Node, path, what string, each func(n conf.Node, at string) error) error {
	all, ok := n.List()
	if !ok {
		return fmt.Errorf("expected %s", what)
	}
	for i, n := range all {
		at := fmt.Sprintf("%s[%d]", path, i)
		f.places[at] = n
		if err := each(n, at); err != nil {
			return err
		}
	}
	return nil
}

type nodeDecoder struct {
	em.NodeEntry
	places map[string]conf.Node
	at     string
}

var nodeKeys = []conf.Field[nodeDecoder]{
	{Name: "name", Node: func(d *nodeDecoder, n conf.Node) error {
		return d.text(n, "name", "a name", func(s string) error { d.Name = s; return nameError(s) })
	}},
	{Name: "guid", Node: func(d *nodeDecoder, n conf.Node) error {
		return d.text(n, "guid", "a GUID that is not 0, such as 0x0011750101000001", func(s string) error {
			return setGUID(&d.GUID, s)
		})
	}},
	{Name: "lid", Node: func(d *nodeDecoder, n conf.Node) error {
		return d.text(n, "lid", "a LID from 1 to 0xbfff", func(s string) error {
			return setLID(&d.LID, s, opa.LID.IsUnicast)
		})
	}},
}

func (d *nodeDecoder) text(n conf.Node, key, expect string, set func(string) error) error {
	return takeText(d.places, d.at+"."+key, n, expect, set)
}

// takeText sets a scalar and remembers its place.
func takeText(places map[string]conf.Node, path string, n conf.Node, expect string, set func(string) error) error {
	places[path] = n
	text, ok := n.Text()
	if !ok || set(text) != nil {
		return fmt.Errorf("expected %s", expect)
	}
	return nil
}

// nameError refuses names that could be taken for GUIDs.
func nameError(s string) error {
	if n, ok := nodeOf(s); !ok || n.GUID != 0 {
		return conf.ErrValue
	}
	return nil
}

// nodeOf reads a node's GUID or name.
func nodeOf(s string) (n em.Node, ok bool) {
	if s == "" || strings.TrimSpace(s) != s {
		return n, false
	}
	if s[0] >= '0' && s[0] <= '9' {
		return n, setGUID(&n.GUID, s) == nil
	}
	return em.Node{Name: s}, true
}

type veswDecoder struct {
	em.VESW
	file *veswFile
	at   string
}

var veswKeys = []conf.Field[veswDecoder]{
	{Name: "name", Node: veswText("name", "a name", func(d *veswDecoder, s string) error {
		d.Name = s
		return nameError(s)
	})},
	{Name: "id", Node: veswText("id", "a vESW id from 1 to 4095", func(d *veswDecoder, s string) error {
		return conf.Number(&d.ID, s, 1, opa.MaxVESW)
	})},
	{Name: "fabric", Node: veswText("fabric", "a fabric id from 0 to 0x3ff", func(d *veswDecoder, s string) error {
		return conf.Number(&d.Fabric, s, 0, opa.MaxFabric)
	})},
	{Name: "pkey", Node: veswText("pkey", "a P_Key from 1 to 0x7ffe, without the membership bit",
		func(d *veswDecoder, s string) error {
			return conf.Number(&d.PKey, s, 1, int64(opa.PKeyManagement)-1)
		})},
	{Name: "mtu", Node: veswText("mtu", "a number of octets from 68 to 10240", func(d *veswDecoder, s string) error {
		return conf.Number(&d.MTU, s, 68, 10240)
	})},
	{Name: "members",
		Schema: conf.ListOf(conf.Schema{"anyOf": []conf.Schema{nodeSchema, conf.Object(memberKeys, "node")}}),
		Node: func(d *veswDecoder, n conf.Node) error {
			return d.file.list(n, d.at+".members", "a list of nodes", d.addMember)
		}},
	{Name: "default_ports", Schema: conf.ListOf(nodeSchema), Node: func(d *veswDecoder, n conf.Node) error {
		return d.nodes(n, "default_ports", &d.DefaultPorts)
	}},
	{Name: "gateways", Schema: conf.ListOf(nodeSchema), Node: func(d *veswDecoder, n conf.Node) error {
		return d.nodes(n, "gateways", &d.Gateways)
	}},
	{Name: "rc", Schema: conf.Object(rcKeys), Node: func(d *veswDecoder, n conf.Node) error {
		d.file.places[d.at+".rc"] = n
		return conf.Decode(n, &d.RC, "the routing control of each protocol", rcKeys)
	}},
	{Name: "qos", Schema: conf.Object(qosKeys), Node: func(d *veswDecoder, n conf.Node) error {
		d.file.places[d.at+".qos"] = n
		return conf.Decode(n, &d.QoS, "service channels and virtual lanes", qosKeys)
	}},
}

// veswText is a scalar setting of a vESW.
func veswText(key, expect string, set func(*veswDecoder, string) error) func(*veswDecoder, conf.Node) error {
	return func(d *veswDecoder, n conf.Node) error {
		return takeText(d.file.places, d.at+"."+key, n, expect, func(s string) error { return set(d, s) })
	}
}

const expectNode = "a node's name or GUID"

func (d *veswDecoder) nodes(n conf.Node, key string, list *[]em.Node) error {
	return d.file.list(n, d.at+"."+key, "a list of nodes", func(n conf.Node, _ string) error {
		node, ok := textNode(n)
		if !ok {
			return n.Errorf("%s: expected %s", key, expectNode)
		}
		*list = append(*list, node)
		return nil
	})
}

func textNode(n conf.Node) (em.Node, bool) {
	text, ok := n.Text()
	if !ok {
		return em.Node{}, false
	}
	return nodeOf(text)
}

// addMember takes a node, or a mapping of node and membership.
func (d *veswDecoder) addMember(n conf.Node, _ string) error {
	var m em.Member
	if node, ok := textNode(n); ok {
		m.Node = node
	} else if _, scalar := n.Text(); scalar {
		return n.Errorf("members: expected %s", expectNode)
	} else if err := conf.Decode(n, &m, expectNode+", or `node:` and `membership:`", memberKeys); err != nil {
		return err
	}
	d.Members = append(d.Members, m)
	return nil
}

var memberKeys = []conf.Field[em.Member]{
	{Name: "node", Expect: expectNode, Set: func(m *em.Member, s string) (err error) {
		var ok bool
		if m.Node, ok = nodeOf(s); !ok {
			err = conf.ErrValue
		}
		return err
	}},
	{Name: "membership", Expect: "full or limited", Set: func(m *em.Member, s string) error {
		if m.Limited = s == "limited"; !m.Limited && s != "full" {
			return conf.ErrValue
		}
		return nil
	}},
}

// rcKeys are the protocols by their place in the routing control word.
var rcKeys = func() (keys []conf.Field[opa.RCWord]) {
	for i, name := range []string{"other", "ipv4", "ipv4_udp", "ipv4_tcp", "ipv6", "ipv6_tcp", "ipv6_udp"} {
		keys = append(keys, conf.Field[opa.RCWord]{Name: name, Expect: "a routing control from 0 to 7",
			Set: func(w *opa.RCWord, s string) error {
				n := 0
				err := conf.Number(&n, s, 0, 7)
				*w |= opa.RCWord(n) << (4 * i)
				return err
			}})
	}
	return keys
}()

var qosKeys = []conf.Field[opa.QoS]{
	{Name: "unicast", Schema: conf.Object(laneKeys), Node: func(q *opa.QoS, n conf.Node) error {
		return conf.Decode(n, &q.Unicast, "channels and lanes", laneKeys)
	}},
	{Name: "multicast", Schema: conf.Object(laneKeys), Node: func(q *opa.QoS, n conf.Node) error {
		return conf.Decode(n, &q.Multicast, "channels and lanes", laneKeys)
	}},
}

const expectLane = "a number from 0 to 31"

var laneKeys = []conf.Field[opa.Lanes]{
	{Name: "sc", Schema: lanesSchema, Node: func(l *opa.Lanes, n conf.Node) error { return setLanes(&l.SC, n) }},
	{Name: "vl", Schema: lanesSchema, Node: func(l *opa.Lanes, n conf.Node) error { return setLanes(&l.VL, n) }},
	{Name: "untagged_sc", Expect: expectLane, Set: func(l *opa.Lanes, s string) error {
		return setLane(&l.UntaggedSC, s)
	}},
	{Name: "untagged_vl", Expect: expectLane, Set: func(l *opa.Lanes, s string) error {
		return setLane(&l.UntaggedVL, s)
	}},
}

func setLane(p *uint8, s string) error {
	n, err := strconv.ParseUint(s, 0, 5)
	*p = uint8(n)
	return err
}

// setLanes takes a lane for each priority code point, or one for all.
func setLanes(p *[8]uint8, n conf.Node) error {
	expect := fmt.Errorf("expected eight numbers from 0 to 31, for priorities 0 to 7, or one for all")
	all, ok := n.List()
	if !ok {
		all = []conf.Node{n, n, n, n, n, n, n, n}
	}
	if len(all) != len(p) {
		return expect
	}
	for i, n := range all {
		if text, ok := n.Text(); !ok || setLane(&p[i], text) != nil {
			return expect
		}
	}
	return nil
}

package hficonf

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tapir/lab/conf"
	"tapir/opa"
	"tapir/opa/em"
	"tapir/opa/mad"
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
	f = newVESWFile()
	if err := conf.Decode(root, expect, f.fields()); err != nil {
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

func newVESWFile() *veswFile {
	f := &veswFile{places: map[string]conf.Node{}}
	f.manager.Timing = em.DefaultTiming()
	return f
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

func (f *veswFile) fields() []conf.Field {
	return []conf.Field{
		{Name: "lids", Expect: "a range of unicast LIDs such as 0x10000-0x1ffff, from 1 to 0xefffff",
			Set: conf.Parsed(&f.cfg.LIDs, parseLIDRange)},
		{Name: "congestion", Schema: conf.Object(f.congestionFields(new(em.Congestion))),
			Node: func(n conf.Node) error {
				c := em.DefaultCongestion()
				f.cfg.Congestion, f.places["congestion"] = &c, n
				return conf.Decode(n, "the reaction to congestion", f.placed("congestion", f.congestionFields(&c)))
			}},
		{Name: "nodes", Schema: conf.ListOf(conf.Object(nodeFields(new(em.NodeEntry)))), Node: func(n conf.Node) error {
			return f.list(n, "nodes", "a list of nodes", func(n conf.Node, at string) error {
				var node em.NodeEntry
				err := conf.Decode(n, "name, guid and lid of a node", f.placed(at, nodeFields(&node)))
				f.cfg.Nodes = append(f.cfg.Nodes, node)
				return err
			})
		}},
		{Name: "vesws", Schema: conf.ListOf(conf.Object(f.veswFields(new(em.VESW), ""))),
			Node: func(n conf.Node) error {
				return f.list(n, "vesws", "a list of vESWs", func(n conf.Node, at string) error {
					v := em.VESW{Fabric: defaultFabric, PKey: opa.PKeyDefault, MTU: 1500}
					err := conf.Decode(n, "the settings of a vESW", f.veswFields(&v, at))
					f.cfg.VESWs = append(f.cfg.VESWs, v)
					return err
				})
			}},
		{Name: managerKey, Node: func(n conf.Node) error {
			f.places[managerKey] = n
			return conf.Decode(n, "where and how the Ethernet Manager runs", f.manager.fields())
		}},
	}
}

// list calls each with every element of a list and its path.
func (f *veswFile) list(n conf.Node, path, what string, each func(n conf.Node, at string) error) error {
	key := path[strings.LastIndexByte(path, '.')+1:]
	return n.Each(0, key+": expected "+what, func(n conf.Node, i int) error {
		at := fmt.Sprintf("%s[%d]", path, i)
		f.places[at] = n
		return each(n, at)
	})
}

// placed lets fields note where in the file the settings below at are.
func (f *veswFile) placed(at string, fields []conf.Field) []conf.Field {
	for i, field := range fields {
		fields[i] = conf.Field{Name: field.Name, Schema: field.Schema, Node: func(n conf.Node) error {
			f.places[at+"."+field.Name] = n
			return field.Take(n)
		}}
	}
	return fields
}

// parseLIDRange reads a first and a last LID.
func parseLIDRange(s string) (r em.LIDRange, err error) {
	first, last, both := strings.Cut(s, "-")
	if r.First, err = parseUnicast(strings.TrimSpace(first)); err == nil {
		r.Last, err = parseUnicast(strings.TrimSpace(last))
	}
	if err == nil && (!both || r.First > r.Last) {
		err = conf.ErrValue
	}
	return r, err
}

func (f *veswFile) congestionFields(c *em.Congestion) []conf.Field {
	return []conf.Field{
		{Name: "increase", Expect: "a number from 1 to 255", Set: conf.Number(&c.Increase, 1, 255)},
		{Name: "timer", Expect: "a time from 1.024us to 67ms",
			Set: conf.Time(&c.Timer, mad.CongestionTick, em.MaxTimer)},
		{Name: "threshold", Expect: "a number from 0 to 255", Set: conf.Number(&c.Threshold, 0, 255)},
		{Name: "min", Expect: "a number from 0 to 255", Set: conf.Number(&c.Min, 0, 255)},
		{Name: "limit", Expect: fmt.Sprintf("a number from 1 to %d", em.MaxCCTI),
			Set: conf.Number(&c.Limit, 1, em.MaxCCTI)},
		{Name: "max_delay", Expect: fmt.Sprintf("a time up to %v", em.MostDelay),
			Set: conf.Time(&c.MaxDelay, 1, em.MostDelay)},
		{Name: "sls", Expect: "service levels from 0 to 31", Many: true, Set: conf.Append(&c.SLs, parseLane)},
		{Name: "switches", Schema: conf.ListOf(conf.Object(switchFields(new(em.SwitchCongestion)))),
			Node: func(n conf.Node) error {
				return f.list(n, "congestion.switches", "a list of settings for switches",
					func(n conf.Node, _ string) error {
						var s em.SwitchCongestion
						err := conf.Decode(n, "when a switch marks congestion", switchFields(&s))
						c.Switches = append(c.Switches, s)
						return err
					})
			}},
	}
}

func switchFields(s *em.SwitchCongestion) []conf.Field {
	return []conf.Field{
		{Name: "name", Expect: "the name of a switch", Set: conf.Checked(&s.Name, nameError)},
		{Name: "port", Expect: "the number of a port from 1 to 255", Set: conf.Number(&s.Port, 1, 255)},
		{Name: "threshold", Expect: "a number from 0 (never) to 15 (early)", Set: conf.Number(&s.Threshold, 0, 15)},
		{Name: "packet_size", Expect: fmt.Sprintf("a number of octets from 0 to %d", em.MaxMarkedSize),
			Set: conf.Number(&s.PacketSize, 0, em.MaxMarkedSize)},
		{Name: "marking_rate", Expect: "a number of packets from 0 to 255", Set: conf.Number(&s.MarkingRate, 0, 255)},
	}
}

func nodeFields(n *em.NodeEntry) []conf.Field {
	return []conf.Field{
		{Name: "name", Expect: "a name", Set: conf.Checked(&n.Name, nameError)},
		{Name: "guid", Expect: "a GUID that is not 0, such as 0x0011750101000001",
			Set: conf.Parsed(&n.GUID, parseGUID)},
		{Name: "lid", Expect: "a unicast LID from 1 to 0xefffff", Set: conf.Parsed(&n.LID, parseUnicast)},
	}
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
		guid, err := parseGUID(s)
		return em.Node{GUID: guid}, err == nil
	}
	return em.Node{Name: s}, true
}

func (f *veswFile) veswFields(v *em.VESW, at string) []conf.Field {
	nodes := func(key string, list *[]em.Node) conf.Field {
		return conf.Field{Name: key, Schema: conf.ListOf(nodeSchema), Node: func(n conf.Node) error {
			return f.list(n, at+"."+key, "a list of nodes", func(n conf.Node, _ string) error {
				node, ok := textNode(n)
				if !ok {
					return n.Errorf("%s: expected %s", key, expectNode)
				}
				*list = append(*list, node)
				return nil
			})
		}}
	}
	part := func(key, what string, fields []conf.Field) conf.Field {
		return conf.Field{Name: key, Schema: conf.Object(fields), Node: func(n conf.Node) error {
			return conf.Decode(n, what, fields)
		}}
	}
	return f.placed(at, []conf.Field{
		{Name: "name", Expect: "a name", Set: conf.Checked(&v.Name, nameError)},
		{Name: "id", Expect: "a vESW id from 1 to 4095", Set: conf.Number(&v.ID, 1, opa.MaxVESW)},
		{Name: "fabric", Expect: "a fabric id from 0 to 0x3ff", Set: conf.Number(&v.Fabric, 0, opa.MaxFabric)},
		{Name: "pkey", Expect: "a P_Key from 1 to 0x7ffe, without the membership bit",
			Set: conf.Number(&v.PKey, 1, int64(opa.PKeyManagement)-1)},
		{Name: "mtu", Expect: "a number of octets from 68 to 10240", Set: conf.Number(&v.MTU, 68, 10240)},
		{Name: "members",
			Schema: conf.ListOf(conf.Schema{"anyOf": []conf.Schema{nodeSchema,
				conf.Object(memberFields(new(em.Member)), "node")}}),
			Node: func(n conf.Node) error {
				return f.list(n, at+".members", "a list of nodes", func(n conf.Node, _ string) error {
					m, err := decodeMember(n)
					v.Members = append(v.Members, m)
					return err
				})
			}},
		nodes("default_ports", &v.DefaultPorts),
		nodes("gateways", &v.Gateways),
		part("rc", "the routing control of each protocol", rcFields(&v.RC)),
		part("qos", "service channels and virtual lanes", []conf.Field{
			part("unicast", "channels and lanes", laneFields(&v.QoS.Unicast)),
			part("multicast", "channels and lanes", laneFields(&v.QoS.Multicast)),
		}),
	})
}

const expectNode = "a node's name or GUID"

func textNode(n conf.Node) (em.Node, bool) {
	text, ok := n.Text()
	if !ok {
		return em.Node{}, false
	}
	return nodeOf(text)
}

// decodeMember reads a node, or a mapping of node and membership.
func decodeMember(n conf.Node) (m em.Member, err error) {
	if node, ok := textNode(n); ok {
		return em.Member{Node: node}, nil
	}
	if _, scalar := n.Text(); scalar {
		return m, n.Errorf("members: expected %s", expectNode)
	}
	err = conf.Decode(n, expectNode+", or `node:` and `membership:`", memberFields(&m))
	return m, err
}

func memberFields(m *em.Member) []conf.Field {
	return []conf.Field{
		{Name: "node", Expect: expectNode, Set: func(s string) (err error) {
			var ok bool
			if m.Node, ok = nodeOf(s); !ok {
				err = conf.ErrValue
			}
			return err
		}},
		{Name: "membership", Expect: "full or limited",
			Set: conf.Choose(&m.Limited, map[string]bool{"full": false, "limited": true})},
	}
}

// rcFields are the protocols by their place in the routing control word.
func rcFields(w *opa.RCWord) (fields []conf.Field) {
	for i, name := range []string{"other", "ipv4", "ipv4_udp", "ipv4_tcp", "ipv6", "ipv6_tcp", "ipv6_udp"} {
		fields = append(fields, conf.Field{Name: name, Expect: "a routing control from 0 to 7",
			Set: func(s string) error {
				n := 0
				err := conf.Number(&n, 0, 7)(s)
				*w |= opa.RCWord(n) << (4 * i)
				return err
			}})
	}
	return fields
}

func laneFields(l *opa.Lanes) []conf.Field {
	const expect = "a number from 0 to 31"
	return []conf.Field{
		{Name: "sc", Schema: lanesSchema, Node: func(n conf.Node) error { return setLanes(&l.SC, n) }},
		{Name: "vl", Schema: lanesSchema, Node: func(n conf.Node) error { return setLanes(&l.VL, n) }},
		{Name: "untagged_sc", Expect: expect, Set: conf.Parsed(&l.UntaggedSC, parseLane)},
		{Name: "untagged_vl", Expect: expect, Set: conf.Parsed(&l.UntaggedVL, parseLane)},
	}
}

func parseLane(s string) (uint8, error) {
	n, err := strconv.ParseUint(s, 0, 5)
	return uint8(n), err
}

// setLanes takes a lane for each priority code point, or one for all.
func setLanes(p *[8]uint8, n conf.Node) error {
	texts, ok := n.Texts()
	if len(texts) == 1 {
		if _, list := n.List(); !list {
			texts = slices.Repeat(texts, len(p))
		}
	}
	ok = ok && len(texts) == len(p)
	for i := 0; ok && i < len(p); i++ {
		ok = conf.Parsed(&p[i], parseLane)(texts[i]) == nil
	}
	if !ok {
		return fmt.Errorf("expected eight numbers from 0 to 31, for priorities 0 to 7, or one for all")
	}
	return nil
}

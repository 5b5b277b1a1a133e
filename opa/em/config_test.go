package em

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"tapir/opa"
)

// Validate stops at the first mistake, and comparing what is right allocates nothing.
func TestValidateCost(t *testing.T) {
	const many = 1000
	good := Config{VESWs: []VESW{twoVESWs().VESWs[0]}}
	for i := range many {
		good.Nodes = append(good.Nodes, NodeEntry{GUID: guidBase + uint64(i), Name: fmt.Sprint("node", i)})
	}
	broken := good.VESWs[0]
	broken.Members = make([]Member, many)
	foreign := good.VESWs[0]
	foreign.DefaultPorts = make([]Node, many)
	for name, tt := range map[string]struct {
		c    Config
		most float64 // allocations
	}{
		"nodes":         {Config{Nodes: make([]NodeEntry, many)}, 30},
		"vesws":         {Config{VESWs: make([]VESW, many)}, 100},
		"members":       {Config{VESWs: []VESW{broken}}, 100},
		"default ports": {Config{VESWs: []VESW{foreign}}, 100},
		"none":          {good, 20 * many},
	} {
		if n := testing.AllocsPerRun(1, func() { _ = tt.c.Validate() }); n > tt.most {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func TestValidate(t *testing.T) {
	if c := twoVESWs(); c.Validate() != nil {
		t.Fatal(c.Validate())
	}
	for _, tt := range []struct {
		path   string
		change func(*Config)
	}{
		{"nodes[0]", func(c *Config) { c.Nodes[0] = NodeEntry{LID: 3} }},
		{"nodes[0].lid", func(c *Config) { c.Nodes[0].LID = 0xc000 }},
		{"lids", func(c *Config) { c.LIDs = LIDRange{2, 1} }},
		{"lids", func(c *Config) { c.LIDs = LIDRange{1, opa.FirstMulticast} }},
		{"congestion.limit", func(c *Config) { c.Congestion = &Congestion{Increase: 1, Timer: 2000, MaxDelay: 1, Limit: 1984} }},
		{"congestion.min", func(c *Config) { c.Congestion = &Congestion{Increase: 1, Timer: 2000, MaxDelay: 1, Limit: 3, Min: 4} }},
		{"congestion.sls", func(c *Config) { d := DefaultCongestion(); d.SLs = []uint8{3, 3}; c.Congestion = &d }},
		{"congestion.max_delay", func(c *Config) { d := DefaultCongestion(); d.MaxDelay = MostDelay + 1; c.Congestion = &d }},
		{"congestion.timer", func(c *Config) { d := DefaultCongestion(); d.Timer = 1000; c.Congestion = &d }},
		{"nodes[1].guid", func(c *Config) { c.Nodes = append(c.Nodes, NodeEntry{GUID: guidBase + 4}) }},
		{"nodes[1].name", func(c *Config) { c.Nodes = append(c.Nodes, NodeEntry{Name: "h4"}) }},
		{"nodes[1].lid", func(c *Config) { c.Nodes = append(c.Nodes, NodeEntry{Name: "h5", LID: 0x44}) }},
		{"vesws[0].name", func(c *Config) { c.VESWs[0].Name = "" }},
		{"vesws[1].name", func(c *Config) { c.VESWs[1].Name = "red" }},
		{"vesws[0].id", func(c *Config) { c.VESWs[0].ID = 0 }},
		{"vesws[0].id", func(c *Config) { c.VESWs[0].ID = 4096 }},
		{"vesws[1].id", func(c *Config) { c.VESWs[1].ID = 258 }},
		{"vesws[0].fabric", func(c *Config) { c.VESWs[0].Fabric = 1024 }},
		{"vesws[0].pkey", func(c *Config) { c.VESWs[0].PKey = 0 }},
		{"vesws[0].pkey", func(c *Config) { c.VESWs[0].PKey = 0x7fff }},
		{"vesws[0].mtu", func(c *Config) { c.VESWs[0].MTU = 67 }},
		{"vesws[0].mtu", func(c *Config) { c.VESWs[0].MTU = 10241 }},
		{"vesws[0].rc", func(c *Config) { c.VESWs[0].RC = 8 }},
		{"vesws[0].qos.unicast", func(c *Config) { c.VESWs[0].QoS.Unicast.SC[3] = 32 }},
		{"vesws[0].qos.multicast", func(c *Config) { c.VESWs[0].QoS.Multicast.UntaggedVL = 32 }},
		{"vesws[1].members[3]", func(c *Config) { c.VESWs[1].Members = append(c.VESWs[1].Members, Member{}) }},
		{"vesws[1].members[3]", func(c *Config) { c.VESWs[1].Members = append(c.VESWs[1].Members, members("h1")...) }},
		{"vesws[0].members[2]", func(c *Config) {
			c.VESWs[0].Members = append(c.VESWs[0].Members, Member{Node: Node{GUID: guidBase + 4}})
		}},
		{"vesws[1].gateways[0]", func(c *Config) { c.VESWs[1].Gateways[0].Name = "h9" }},
		{"vesws[1].default_ports[1]", func(c *Config) { c.VESWs[1].DefaultPorts = slices.Repeat([]Node{{Name: "h2"}}, 2) }},
		{"vesws[0].gateways[1]", func(c *Config) {
			v := &c.VESWs[0]
			for i := range 17 {
				n := Node{GUID: uint64(100 + i)}
				v.Members = append(v.Members, Member{Node: n})
				if i < 15 {
					v.DefaultPorts = append(v.DefaultPorts, n)
				} else {
					v.Gateways = append(v.Gateways, n)
				}
			}
		}},
	} {
		c := twoVESWs()
		tt.change(&c)
		var e *ConfigError
		if err := c.Validate(); !errors.As(err, &e) || e.Path != tt.path {
			t.Errorf("%v, want it at %s", err, tt.path)
		}
		if _, err := New(c, Options{}); err == nil {
			t.Errorf("%s: a manager took it", tt.path)
		}
	}
	m, err := New(Config{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Reconfigure(Config{VESWs: []VESW{{}}}); err == nil || len(m.cfg.VESWs) != 0 {
		t.Error("a wrong configuration was put in force")
	}
	if _, err := New(Config{}, Options{Priority: 16}); err == nil {
		t.Error("priority 16")
	}
}

func TestDiff(t *testing.T) {
	a, b := twoVESWs(), twoVESWs()
	if got := diff(&a, &b); got != nil {
		t.Errorf("of equals: %q", got)
	}
	b.Nodes = nil
	b.VESWs[0] = VESW{Name: "green", ID: 3, PKey: 1, MTU: 1500, Members: members("h1")}
	v := &b.VESWs[1]
	v.Name, v.Fabric, v.PKey, v.MTU, v.RC, v.Gateways = "azure", 1, 9, 1500, opa.RCWord(4), nil
	v.Members = members("h1", "h3")
	want := []string{
		"nodes changed", "- vESW 258 red",
		"~ vESW 2 azure: name blue -> azure, fabric 0x301 -> 0x1, P_Key 0x0002 -> 0x0009, MTU 9000 -> 1500, -h2, -h3 (limited), +h3, default ports, routing control or lanes",
		"+ vESW 3 green: 1 member",
	}
	if got := diff(&a, &b); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

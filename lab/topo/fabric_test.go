package topo

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"tapir/lab/conf"
	"tapir/lab/conf/hficonf"
)

const onFabric = `
nodes:
  h1:
    kind: hfi
    framing: 88b5
    policy: {unknown: flood, tx_storm: 1000/200}
    vnics: [{vesw: 2, ip: [10.0.0.1/24, "fd00::1/64"]}, {vesw: 3, ip: 10.0.0.1/24, tap: red0}]
  h2: {kind: hfi, guid: 0x42, vnics: [{vesw: 3, ip: 10.0.0.2/24, policy: {learn: false}}]}
  g: {kind: gateway, vnics: [{vesw: 2, vlan: 5}, {vesw: 3}]}
  em:
    kind: manager
    priority: 3
    standby: true
    nodes: [{name: other, guid: 0x99, lid: 7}]
    vesws:
      - {name: blue, id: 2, members: [h1, g, other, {node: "0x42", membership: limited}], gateways: [g]}
      - {name: red, id: 3, pkey: 0x3, members: [h1, h2], qos: {unicast: {sc: 1}}}
  h: {kind: host, ip: 10.0.0.1/24}
  s: {kind: switch}
  lan: {kind: switch}
links: [[h1, s], [s, h2], [em, s], [g, s], [g, lan], {between: [h, lan], mtu: 1400}]
steps:
  - {run: tapir em show, on: em}
  - wait: {node: em, in_sync: true}
  - wait: {node: em, role: standby}
  - expect: {node: h1, vesw: 2, counter: tx_unicast, max: 3}
  - expect: {node: s, counter: p0_rx_frames}
`

// The files that the programs get say what the lab's file says.
func TestConfigFiles(t *testing.T) {
	l, err := Parse("lab.yaml", []byte(onFabric))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"h1", "h2", "g"} {
		n := l.Node(name)
		text, err := n.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		all, err := hficonf.Parse("hfi.yaml", text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		want := n.HFI
		want.TAP = FabricTAP
		if len(all) != 1 || !reflect.DeepEqual(all[0], want) || !want.Managed {
			t.Errorf("%+v\n%+v\n%s", all, want, text)
		}
	}
	em := l.Node("em")
	text, err := em.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	got, err := hficonf.ParseEM("vesw.yaml", text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	want := em.EM
	want.Port.TAP, want.Standby = FabricTAP, false // which is a flag
	if !reflect.DeepEqual(got, want) || !em.EM.Standby || got.Priority != 3 || got.Port.GUID != firstGUID+3 {
		t.Errorf("%+v\n%+v\n%s", got, want, text)
	}
	if g := l.Node("g").HFI.VNICs; g[0].Gateway.VLAN != 5 || g[1].Gateway.Bridge != GatewayBridge {
		t.Errorf("%+v", g)
	}
	for i, want := range []bool{true, true, true, true, false, false} {
		if l.Links[i].Fabric != want {
			t.Errorf("%s: %v", l.Links[i].Name, l.Links[i].Fabric)
		}
	}
	for i, want := range []string{"wait: em is in sync", "wait: em is standby", "expect: h1: vESW 2: tx_unicast: at most 3"} {
		if l.Steps[1+i].Text != want {
			t.Errorf("%q", l.Steps[1+i].Text)
		}
	}
}

// Without a manager HFIs have LIDs of their own.
func TestWithoutManager(t *testing.T) {
	l, err := Parse("lab.yaml", []byte(`
nodes:
  a: {kind: hfi, vnics: [{vesw: 2}]}
  b: {kind: hfi, lid: 1, vnics: [{vesw: 2, pkey: 0x8003}]}
  c: {kind: hfi, vnics: [{vesw: 2}]}
  s: {kind: switch}
links: [[a, s], [b, s], [c, s]]
`))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []uint32{2, 1, 3} {
		if n := l.Nodes[i]; uint32(n.HFI.LID) != want || n.HFI.Managed {
			t.Errorf("%+v", n.HFI)
		}
	}
}

func TestFabricMistakes(t *testing.T) {
	const two = "nodes:\n  a: {kind: hfi, vnics: [{vesw: 2}]}\n  b: {kind: hfi, vnics: [{vesw: 2}]}\n  m: {kind: manager, vesws: [{id: 2, name: x, members: [a, b]}]}\n  s: {kind: switch}\n" +
		"links: [[a, s], [b, s], [m, s]]\n"
	for _, tt := range []struct{ in, want string }{
		{strings.Replace(two, "vesw: 2", "vesw: 0", 1), "2:33: vesw: expected a vESW id"},
		{strings.Replace(two, "vesw: 2", "vesw: 2, pkey: 3", 1), "2:3: a: vesw 2: pkey: that is for the Ethernet Manager to say"},
		{strings.Replace(two, "kind: hfi", "kind: hfi, netns: x", 1), "2:18: netns: unknown key"},
		{strings.Replace(two, "kind: hfi", "kind: hfi, guid: 0x0011750101000002", 1), "3:3: b: a has the GUID 0x0011750101000002, too"},
		{strings.Replace(two, "kind: manager", "kind: manager, guid: 0x0011750101000002", 1), "4:3: m: b has the GUID"},
		{strings.Replace(two, "members: [a, b]", "members: [a, c]", 1), "4:60: members: there is no HFI c"},
		{strings.Replace(two, "members: [a, b]", "members: [a, s]", 1), "4:60: members: there is no HFI s"},
		{strings.Replace(two, "id: 2, ", "", 1), "4:30: id: 0"},
		{strings.Replace(two, "[b, s]", "{between: [b, s], mtu: 1500}", 1), "3:3: b: link b-s carries 1500 octets, it needs"},
		{strings.Replace(two, "[b, s]", "[b, s], [b, a]", 1), "2:3: a: a hfi has one port, not 2"},
		{strings.Replace(two, "  s: {", "  h: {kind: host}\n  s: {", 1) + "  \n", ""},
		{strings.Replace(strings.Replace(two, "  s: {", "  h: {kind: host}\n  s: {", 1), "[m, s]", "[m, s], [h, s]", 1), "5:3: h: a host on a link with HFIs, h-s: put a gateway between"},
		{strings.Replace(strings.Replace(two, "  s: {", "  g: {kind: gateway, vnics: [{vesw: 2, ip: 10.0.0.1/24}]}\n  s: {", 1), "[m, s]", "[m, s], [g, s]", 1), "5:40: ip: unknown key"},
		{strings.Replace(strings.Replace(two, "  s: {", "  g: {kind: gateway, vnics: [{vesw: 2}]}\n  s: {", 1), "[m, s]", "[m, s], [g, s]", 1), "5:3: g: a gateway has one link that leads to HFIs, not 1, and another one"},
		{two + "steps:\n  - wait: {node: a, in_sync: true}\n", "8:5: a: in_sync and role: a hfi is no manager"},
		{two + "steps:\n  - wait: {node: m, in_sync: false}\n", "8:30: in_sync: expected true"},
		{two + "steps:\n  - wait: {node: m, role: slave}\n", "8:27: role: expected that of the manager"},
		{two + "steps:\n  - wait: {node: m, vesw: 2, counter: tx_unicast}\n", "8:5: m: vesw: a manager is no HFI"},
		{two + "steps:\n  - wait: {node: a, vesw: 2}\n", "8:5: vesw 2: say which counter"},
		{two + "steps:\n  - wait: {link: a-s, in_sync: true}\n", "8:5: vesw, in_sync, role, ptp and offsets: are of a node"},
		{two + "steps:\n  - wait: {node: a, listening: 1}\n", "8:5: a: listening: a hfi has no RDMA"},
		{two + "steps:\n  - {run: rping, on: a, rdma: true}\n", "8:6: a: a hfi has no RDMA: a NIC is needed"},
	} {
		_, err := Parse("lab.yaml", []byte(tt.in))
		if tt.want == "" && err == nil {
			continue
		}
		bad := (*conf.Error)(nil)
		if !errors.As(err, &bad) || !strings.HasPrefix(err.Error(), "lab.yaml:"+tt.want) || !strings.HasSuffix(bad.Excerpt(), "^\n") {
			t.Errorf("%s\n  %v\n  want %s", tt.in, err, tt.want)
		}
	}
}

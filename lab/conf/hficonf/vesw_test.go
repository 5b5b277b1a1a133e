package hficonf

import (
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"tapir/lab/conf"
	"tapir/opa"
	"tapir/opa/em"
)

const goodVESWs = `nodes:
  - {name: h1, guid: 0011:7501:0100:0001, lid: 5}
  - {name: h2, lid: 0x20}
vesws:
  - name: blue
    id: 2
    fabric: 0x301
    pkey: 0x12
    mtu: 9000
    members: [h1, h2, {node: h3, membership: limited}, 0x0011750101000004]
    default_ports: [0x0011750101000004]
    gateways: [h1, h2]
    rc: {other: 1, ipv4_tcp: 4, ipv6_udp: 7}
    qos:
      unicast: {sc: [0, 1, 2, 3, 4, 5, 6, 7], vl: 3, untagged_sc: 9}
      multicast: {untagged_vl: 31}
  - {name: red, id: 258}
`

func parseVESWs(path string, data []byte) (em.Config, error) {
	f, _, err := parseVESWFile(path, data)
	if err != nil {
		return em.Config{}, err
	}
	return f.cfg, nil
}

func TestParseVESWs(t *testing.T) {
	got, err := parseVESWs("v.yaml", []byte(goodVESWs))
	must(t, err)
	h1, h2, h3, h4 := em.Node{Name: "h1"}, em.Node{Name: "h2"}, em.Node{Name: "h3"}, em.Node{GUID: 0x0011750101000004}
	want := em.Config{
		Nodes: []em.NodeEntry{{Name: "h1", GUID: 0x0011750101000001, LID: 5}, {Name: "h2", LID: 0x20}},
		VESWs: []em.VESW{
			{
				Name: "blue", ID: 2, Fabric: 0x301, PKey: 0x12, MTU: 9000,
				Members:      []em.Member{{Node: h1}, {Node: h2}, {Node: h3, Limited: true}, {Node: h4}},
				DefaultPorts: []em.Node{h4}, Gateways: []em.Node{h1, h2}, RC: 0x07004001,
				QoS: opa.QoS{
					Unicast:   opa.Lanes{SC: [8]uint8{0, 1, 2, 3, 4, 5, 6, 7}, VL: [8]uint8{3, 3, 3, 3, 3, 3, 3, 3}, UntaggedSC: 9},
					Multicast: opa.Lanes{UntaggedVL: 31},
				},
			},
			{Name: "red", ID: 258, Fabric: 1, PKey: 1, MTU: 1500},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestVESWMistakesHaveAPlace(t *testing.T) {
	vesw := func(lines string) string {
		return "vesws:\n  - name: blue\n    id: 2\n    members: [h1, h2]\n    " + lines
	}
	two := func(lines string) string { return vesw("mtu: 1500\n  - ") + lines }
	for _, tt := range []struct{ in, want string }{
		{"", "v.yaml:1:1: the file is empty"},
		{"vesws: 3", "v.yaml:1:8: vesws: expected a list"},
		{"hfis: []", "v.yaml:1:1: hfis: unknown key; expected one of lids, congestion, nodes, vesws"},
		{"vesws:\n  - {id: 2}", "v.yaml:2:5: name: expected a name"},
		{"vesws:\n  - {name: 2x, id: 2}", "v.yaml:2:12: name: expected a name"},
		{"vesws:\n  - {name: x}", "v.yaml:2:5: id: 0: expected 1 to 4095"},
		{"vesws:\n  - {name: x, id: 4096}", "v.yaml:2:19: id: expected a vESW id from 1 to 4095"},
		{vesw("color: 7"), "v.yaml:5:5: color: unknown key; expected one of name, id,"},
		{vesw("fabric: 1024"), "v.yaml:5:13: fabric: expected"},
		{vesw("pkey: 0x8002"), "v.yaml:5:11: pkey: expected"},
		{vesw("pkey: 0x7fff"), "v.yaml:5:11: pkey: expected"},
		{vesw("mtu: 67"), "v.yaml:5:10: mtu: expected"},
		{vesw("gateways: [h1, h3]"), "v.yaml:5:20: gateways: h3 is not a member of blue"},
		{vesw("gateways: h1"), "v.yaml:5:15: gateways: expected a list of nodes"},
		{vesw("default_ports: [h1, h1]"), "v.yaml:5:25: default_ports: h1 is listed twice"},
		{vesw("default_ports: [[h1]]"), "v.yaml:5:21: default_ports: expected a node's name or GUID"},
		{vesw("rc: {ipv4: 8}"), "v.yaml:5:16: ipv4: expected a routing control from 0 to 7"},
		{vesw("qos: {unicast: {sc: [1, 2]}}"), "v.yaml:5:25: sc: expected eight numbers"},
		{vesw("qos: {unicast: {untagged_vl: 32}}"), "v.yaml:5:34: untagged_vl: expected a number from 0 to 31"},
		{vesw("qos: {anycast: {}}"), "v.yaml:5:11: anycast: unknown key; expected one of unicast, multicast"},
		{vesw("id: 3"), "v.yaml:5:5: mapping key \"id\" already defined"},
		{two("{name: blue, id: 3}"), "v.yaml:6:12: name: blue: another vESW has it too"},
		{two("{name: red, id: 2}"), "v.yaml:6:21: id: 2: vESW blue has it too"},
		{two("{name: red, id: 3, members: [h1, h1]}"), "v.yaml:6:38: members: h1 is a member twice"},
		{two("{name: red, id: 3, members: [0x0]}"), "v.yaml:6:34: members: expected a node's name or GUID"},
		{two("{name: red, id: 3, members: [{membership: half}]}"), "v.yaml:6:47: membership: expected full or limited"},
		{two("{name: red, id: 3, members: [{membership: full}]}"), "members: expected a node's name or guid"},
		{two("{name: red, id: 3, members: [{node: h1, lid: 3}]}"), "v.yaml:6:45: lid: unknown key; expected one of node, membership"},
		{"nodes:\n  - {lid: 3}", "v.yaml:2:5: nodes: expected a name or a guid"},
		{"nodes:\n  - {guid: 0}", "v.yaml:2:12: guid: expected a GUID that is not 0"},
		{"nodes:\n  - {guid: 1, lid: 0xc000}", "v.yaml:2:20: lid: 0xc000: expected one of the range of lids, 0x1-0xbfff"},
		{"lids: 1-0x10000\nnodes:\n  - {guid: 1, lid: 0x10001}", "v.yaml:3:20: lid: 0x10001: expected one of the range of lids, 0x1-0x10000"},
		{"nodes:\n  - {guid: 1, lid: 0xf00000}", "v.yaml:2:20: lid: expected a unicast LID from 1 to 0xefffff"},
		{"nodes:\n  - {guid: 1, lid: 0x1000000}", "v.yaml:2:20: lid: expected a unicast LID"},
		{"lids: 0x100", "v.yaml:1:7: lids: expected a range of unicast LIDs such as 0x10000-0x1ffff, from 1 to 0xefffff"},
		{"lids: 0x200-0x100", "v.yaml:1:7: lids: expected a range"},
		{"lids: 0-9", "v.yaml:1:7: lids: expected a range"},
		{"lids: 1-0xf00000", "v.yaml:1:7: lids: expected a range"},
		{"congestion: 3", "v.yaml:1:13: expected the reaction to congestion"},
		{"congestion:\n  limit: 1984", "v.yaml:2:10: limit: expected a number from 1 to 1983"},
		{"congestion:\n  limit: 4\n  min: 5", "v.yaml:3:8: min: 5: expected at most the limit, 4"},
		{"congestion:\n  increase: 0", "v.yaml:2:13: increase: expected a number from 1 to 255"},
		{"congestion:\n  timer: 1us", "v.yaml:2:10: timer: expected a time from 1.024us to 67ms"},
		{"congestion:\n  timer: 68ms", "v.yaml:2:10: timer: expected a time from 1.024us to 67ms"},
		{"congestion:\n  max_delay: 14ms", "v.yaml:2:14: max_delay: expected a time up to 13.420953ms"},
		{"congestion:\n  sls: [3, 32]", "v.yaml:2:12: sls: expected service levels from 0 to 31"},
		{"congestion:\n  sls: [3, 3]", "v.yaml:2:8: sls: 3: expected different service levels from 0 to 31"},
		{"congestion:\n  speed: 3", "v.yaml:2:3: speed: unknown key; expected one of increase, timer, threshold, min, limit, max_delay, sls, switches"},
		{"congestion:\n  switches:\n  - {threshold: 16}", "v.yaml:3:17: threshold: expected a number from 0 (never) to 15 (early)"},
		{"nodes:\n  - {guid: 1, lid: 7}\n  - {guid: 2, lid: 7}", "v.yaml:3:20: lid: 0x7: another node has it too"},
		{"nodes:\n  - {guid: 1}\n  - {guid: 0x1}", "v.yaml:3:12: guid: 0x0000000000000001: another node has it too"},
		{"nodes:\n  - {name: a}\n  - {name: a}", "v.yaml:3:12: name: a: another node has it too"},
		{"nodes:\n  - {name: a, guid: 1}\nvesws:\n  - {name: x, id: 1, members: [a, 0x1]}", "v.yaml:4:35: members: 0x0000000000000001 and a are the same node"},
		{"vesws:\n  - {name: x, id: 1", "v.yaml:"},
	} {
		_, err := parseVESWs("v.yaml", []byte(tt.in))
		var placed *conf.Error
		if err == nil || !strings.Contains(err.Error(), tt.want) || !errors.As(err, &placed) {
			t.Errorf("%q:\ngot  %v\nwant %s", tt.in, err, tt.want)
		}
	}
}

// The file that the manual shows is a good one.
func TestManualsFile(t *testing.T) {
	text, err := os.ReadFile("../../../docs/concepts/ethernet-manager.md")
	must(t, err)
	_, rest, _ := strings.Cut(string(text), "```yaml\n")
	file, _, _ := strings.Cut(rest, "```")
	cfg, err := ParseEM("manual", []byte(file))
	must(t, err)
	if cfg.Priority != 8 || len(cfg.Fabric.VESWs) != 2 || len(cfg.Fabric.VESWs[0].Members) != 3 {
		t.Errorf("%+v", cfg)
	}
}

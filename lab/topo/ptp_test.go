package topo

import (
	"errors"
	"strings"
	"testing"

	"tapir/lab/conf"
	"tapir/lab/conf/swconf"
	"tapir/ptp"
)

const withClocks = `
nodes:
  gm: {kind: nic, ip: 10.0.0.1/24, ptp: {priority1: 1, unicast_masters: [10.0.0.9]}}
  bc: {kind: switch, mode: bc, profile: gptp, clock: {oscillator: {preset: xo, ppb: 30000}}, ptp: {priority1: 7}}
  x: {kind: nic, ip: 10.0.0.2/24}
  p: {kind: peer, ip: 10.0.0.3/24, siw: [peer_to_peer=1, rtr_type=64], memory: 300, kvm: false}
links: [[gm, bc], [bc, x], [p, bc]]
steps:
  - wait: {node: gm, ptp: MASTER}
  - wait: {node: bc, ptp: SLAVE, offset: 10us, true_offset: 1ms}
`

func TestPTP(t *testing.T) {
	l, err := Parse("lab.yaml", []byte(withClocks))
	if err != nil {
		t.Fatal(err)
	}
	bc := l.Node("bc")
	if got := string(l.Node("gm").PTP); got != "priority1: \"1\"\nunicast_masters:\n- 10.0.0.9\n" || strings.Contains(strings.Join(l.Node("gm").Flags, " "), "ptp") {
		t.Errorf("%q", got)
	}
	if c := bc.Switch; c.PTP == nil || c.PTP.Profile != ptp.GPTP || c.PTP.Priority1 != 7 || len(c.PTP.Ports) != 3 || c.Hardware.Oscillator.PPB != 30000 || c.Ports != nil {
		t.Errorf("%+v", c)
	}
	text, err := bc.ConfigFile("p0", "p1", "p2")
	if err != nil {
		t.Fatal(err)
	}
	all, err := swconf.Parse("sw.yaml", text)
	if err != nil || len(all) != 1 || all[0].Name != "bc" || len(all[0].Ports) != 3 || all[0].PTP.Priority1 != 7 || all[0].Hardware.Oscillator.PPB != 30000 {
		t.Errorf("%v %+v\n%s", err, all, text)
	}
	if got := l.Steps[1].Text; got != "wait: bc: SLAVE offset within 10µs true offset within 1ms" {
		t.Error(got)
	}
}

func TestPTPMistakes(t *testing.T) {
	for _, tt := range []struct{ edit, by, want string }{
		{"priority1: 1,", "priority1: 256,", "3:53: priority1: expected a priority"},
		{"priority1: 1,", "profile: x,", "3:51: unknown PTP profile"},
		{"priority1: 1,", "dscp: 46,", "3:41: ptp: dscp: frames of transport L2 have none"},
		{"profile: gptp", "profile: x", "4:41: profile: expected"},
		{"priority1: 7", "colour: 7", "4:100: colour: unknown key"},
		{"mode: bc", "mode: plain", "4:3: bc: profile and ptp are of boundary clocks"},
		{"ptp: SLAVE", "ptp: OBEDIENT", "10:27: ptp: expected the state"},
		{"offset: 10us", "offset: 0", "10:42: offset: expected a time"},
		{"rtr_type=64", "rtr_type", "6:58: siw: expected parameters of the siw driver"},
		{"ip: 10.0.0.3/24, ", "", "6:3: p: no address"},
		{"node: gm, ptp: MASTER", "node: p, counter: x", "9:18: p: a peer has no counters of its own"},
		{"  - wait: {node: gm, ptp: MASTER}", "  - {run: rping, on: p, rdma: true}", "9:6: p: a peer has no NIC of ours: programs there find its siw device"},
		{"node: gm", "node: x", "9:5: x: it has no PTP instance"},
	} {
		text := strings.Replace(withClocks, tt.edit, tt.by, 1)
		if text == withClocks {
			t.Fatalf("%q is not there", tt.edit)
		}
		_, err := Parse("lab.yaml", []byte(text))
		bad := (*conf.Error)(nil)
		if !errors.As(err, &bad) || !strings.HasPrefix(err.Error(), "lab.yaml:"+tt.want) {
			t.Errorf("%q: %v\nwant %s", tt.by, err, tt.want)
		}
	}
}

// An HFI takes `ptp:`, too, and its own file does not have it.
func TestPTPOfHFI(t *testing.T) {
	l, err := Parse("lab.yaml", []byte("nodes:\n  h1: {kind: hfi, vnics: [{vesw: 2}], ptp: {priority1: 1}}\n"+
		"  h2: {kind: hfi, vnics: [{vesw: 2}]}\nlinks: [[h1, h2]]\nsteps:\n  - wait: {node: h1, ptp: MASTER}\n  - {phc: h2, step: 1s}\n"))
	if err != nil {
		t.Fatal(err)
	}
	h := l.Node("h1")
	if string(h.PTP) != "priority1: \"1\"\n" || strings.Contains(strings.Join(h.Flags, " "), "ptp") {
		t.Errorf("%q %v", h.PTP, h.Flags)
	}
}

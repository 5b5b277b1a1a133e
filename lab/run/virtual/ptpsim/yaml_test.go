package ptpsim

import (
	"bytes"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"tapir/lab/conf"
	"tapir/lab/conf/ptpconf"
	"tapir/lab/conf/swconf"
	"tapir/ptp"
	"tapir/ptp/clock"
	"tapir/ptp/msg"
	"tapir/ptp/transport"
)

const everything = `
seed: 9
duration: 3m
skip: 1m
sample: 500ms
within: 50ns
reference: gm
transport: UDPv6
profile: default-p2p
nodes:
  - name: gm
    priority1: 100
    clock_class: 6
    vlan: 7
  - name: bc
    oscillator: tcxo
    vlan: 7
    ports:
      - {delay_asymmetry: 50ns}
      - {master_only: true, sync_interval: -3}
  - name: slave
    profile: default-e2e
    transport: L2
    local: true
    oscillator: {preset: xo, ppb: -20}
    offset: -1.23ms
    quantum: 8ns
    tx_stamp_delay: 50us
    servo: linreg
    slave_only: true
links:
  - {ends: [bc, gm], delay: 1us, asymmetry: 100ns, pdv: exp:10us, loss: 1%, duplicate: 0.5, reorder: 0.25, reorder_by: 20us, corrupt: 2%}
  - ends: bc, slave
    delay: 300ns
events:
  - {at: 1m, node: slave, step: 1ms, frequency: 100}
  - {at: 70s, node: gm, priority1: 200, clock_class: 7, leap: 61}
  - {at: 80s, link: [gm, bc], down: true}
  - {at: 90s, link: [gm, bc], down: false, delay: 5us, pdv: 0-1us}
  - {at: 100s, node: slave, tx_stamps: lost}
  - {at: 101s, node: slave, tx_stamps: ok, tx_stamp_delay: 1ms}
  - {at: 110s, node: gm, down: true}
`

func TestParse(t *testing.T) {
	c, err := Parse("all.yaml", []byte(everything))
	if err != nil {
		t.Fatal(err)
	}
	gm, bc, slave := c.Nodes[0], c.Nodes[1], c.Nodes[2]
	if c.Seed != 9 || c.Duration != 3*time.Minute || c.Skip != time.Minute || c.Sample != 500*time.Millisecond || c.Within != 50 || c.Reference != "gm" {
		t.Errorf("%+v", c)
	}
	if gm.PTP.Priority1 != 100 || gm.PTP.Quality.Class != 6 || gm.PTP.Profile != ptp.DefaultP2P || gm.Transport != transport.UDPv6 || len(gm.PTP.Ports) != 1 {
		t.Errorf("gm %+v", gm)
	}
	if p := bc.PTP.Ports; len(p) != 2 || p[0].DelayAsymmetry != msg.IntervalOf(50) || !p[1].MasterOnly || p[1].LogSyncInterval != -3 || p[0].LogSyncInterval != 0 || bc.VLAN != 7 || bc.Clock.Oscillator.PPB != 1200 {
		t.Errorf("bc %+v", bc)
	}
	if slave.PTP.Profile != ptp.DefaultE2E || slave.Transport != transport.Ethernet || !slave.Local || slave.Clock.Oscillator.PPB != -20 || slave.Clock.Oscillator.WhiteFM != 0.5 ||
		slave.Offset != -1230*time.Microsecond || slave.Clock.Quantum != 8 || slave.TxStampDelay != 50*time.Microsecond || !slave.PTP.SlaveOnly ||
		len(slave.Clock.Oscillator.Steps) != 1 {
		t.Errorf("slave %+v", slave)
	}
	want := LinkConfig{Ends: [2]string{"bc", "gm"}, Delay: 1000, Asymmetry: 100, PDV: swconf.Delay{Dist: swconf.Exponential, Max: 10_000}, Loss: 0.01, Duplicate: 0.5, Reorder: 0.25, ReorderBy: 20_000, Corrupt: 0.02}
	if c.Links[0] != want || c.Links[1].Ends != [2]string{"bc", "slave"} {
		t.Errorf("links %+v", c.Links)
	}
	var log bytes.Buffer
	c.Log = &log
	run(t, c)
	for _, want := range []string{
		"60.000000000 scenario slave: clock stepped by 1ms\n", "60.000000000 scenario slave: frequency +100 ppb\n",
		"70.000000000 scenario gm: PRIORITY1 200\n", "70.000000000 scenario gm: clockClass 7\n", "70.000000000 scenario gm: leap61\n",
		"80.000000000 scenario gm - bc: down\n", "90.000000000 scenario gm - bc: up\n", "90.000000000 scenario gm - bc: delay 5us, pdv 0-1us\n",
		"100.000000000 scenario slave: tx stamps lost\n", "101.000000000 scenario slave: tx stamps ok, 1ms late\n", "110.000000000 scenario gm: down\n",
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %q in the log\n%s", want, log.String())
		}
	}
}

func TestParseErrors(t *testing.T) {
	const head = "nodes:\n  - {name: a}\n  - {name: b}\nlinks:\n  - {ends: [a, b]}\n"
	const sws = "nodes:\n  - {name: a}\n  - {name: b}\n  - {name: s, switch: {mode: e2e-tc}}\nlinks:\n  - {ends: [a, s]}\n  - {ends: [b, s]}\n\n\n"
	for text, want := range map[string]string{
		"seed: 1\n":                                    "f.yaml:1:5: nodes: expected a list with at least one node",
		"nodes: 7\n":                                   "f.yaml:1:8: expected a list of nodes",
		"speed: 1\n":                                   "f.yaml:1:1: speed: unknown key; did you mean seed?",
		"duration: -1s\n":                              "f.yaml:1:11: duration: expected a duration such as 30m",
		"nodes: [{name: a b}]":                         "f.yaml:1:16: name: expected a name",
		"nodes: [{name: a}]":                           "node a has no link",
		"nodes: [{priority1: 256, name: a}]":           "f.yaml:1:21: priority1: expected a priority from 0 to 255",
		"nodes: [{name: a, oscilator: xo}]":            "f.yaml:1:19: oscilator: unknown key",
		head + "  - {ends: [a, c]}\n":                  "f.yaml:6:5: ends: there is no node c",
		head + "  - {ends: [a]}\n":                     "f.yaml:6:5: ends: expected the names of two nodes",
		head + "  - {ends: [a, b], loss: 2}\n":         "f.yaml:6:26: loss: expected a probability",
		head + "  - {ends: [a, b], asymmetry: 10ns}\n": "half of the asymmetry",
		head + "  - {ends: [a, b], pdv: some}\n":       "f.yaml:6:25: pdv: expected a delay variation",
		"nodes:\n  - {name: a}\n  - {name: a}\nlinks: [{ends: [a, a]}]":  "f.yaml:3:5: name: two nodes are called a",
		head + "profile: telecom\n":                                      "f.yaml:6:10: profile: expected a profile",
		head + "transport: UDP\n":                                        "f.yaml:6:12: transport: expected L2, UDPv4 or UDPv6",
		head + "events: [{at: 1s}]\n":                                    "expected `node:` or `link:`",
		head + "events: [{at: 1s, node: a}]\n":                           "nothing happens: expected one of step, frequency",
		head + "events: [{at: 1s, node: a, link: [a, b], down: true}]\n": "expected `node:` or `link:`",
		head + "events: [{at: 1s, node: c, down: true}]\n":               "there is no node c",
		head + "events: [{at: 1s, link: [a, c], down: true}]\n":          "there is no link a - c",
		head + "events: [{at: 1s, link: [a, b], step: 1s}]\n":            "of nodes, not of links",
		sws + "events: [{at: 1s, node: s, priority1: 1}]\n":              "f.yaml:10:10: node s is a switch",
		sws + "events: [{at: 1s, node: s, tx_stamps: lost}]\n":           "node s is a switch",
		sws + "events: [{at: 1s, node: s, leap: 61}]\n":                  "node s is a switch",
		"nodes: [{name: s, switch: {mode: tc}}]":                         "mode: expected plain, e2e-tc, p2p-tc or bc",
		"nodes:\n  - {name: s, priority1: 3, switch: {mode: plain}}\n  - {name: a}\nlinks: [{ends: [a, s]}, {ends: [a, s]}]\n": "f.yaml:2:5: node s: what a switch does is set below",
		"nodes:\n  - {name: s, switch: {mode: plain}}\n  - {name: a}\nlinks: [{ends: [a, s]}]\n":                               "f.yaml:2:5: node s: 1 ports",
		head + "events: [{at: 1s, node: a, loss: 1%}]\n":                                                                       "of links, not of nodes",
		head + "events: [{at: 1s, node: a, leap: 60}]\n":                                                                       "f.yaml:6:34: leap: expected 61, 59 or none",
		head + "events: [{at: 1s, node: a, tx_stamps: gone}]\n":                                                                "f.yaml:6:39: tx_stamps: expected ok, lost, refused, twice",
		head + "reference: c\n": "there is no node c",
		"nodes:\n  - {name: a, ports: [{role: boss}]}\nlinks: []\n":                                            "f.yaml:2:30: role: expected dynamic, master or slave",
		"nodes:\n  - {name: a, slave_only: true, master_only: true}\n  - {name: b}\nlinks: [{ends: [a, b]}]\n": "node a: port 1: a port of a slave-only clock cannot be master only",
		"nodes:\n  - {name: a, ports: [{}, {}]}\n  - {name: b}\nlinks: [{ends: [a, b]}]\n":                     "ports: node a has 1 links only",
	} {
		_, err := Parse("f.yaml", []byte(text))
		if e := (*conf.Error)(nil); !errors.As(err, &e) || e.Line == 0 || !strings.Contains(err.Error(), want) {
			t.Errorf("%q:\n%v, want\n%s", text, err, want)
		}
	}
	if _, err := Load("none.yaml"); err == nil {
		t.Error("a file that there is not")
	}
}

// TestEveryKeyIsDocumented holds docs/howto/ptp-sim.md against the keys.
func TestEveryKeyIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/howto/ptp-sim.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	own := slices.Concat(names(new(scenario).fields()), names(new(nodeFile).fields()), names(new(linkFile).fields()), names(new(eventFile).fields()))
	for _, list := range [][]string{own, names(switchFields(new(swconf.Config))), names(portFields(new(swconf.PortConfig))), names(ptpconf.Oscillator(new(clock.Oscillator)))} {
		for _, name := range list {
			if !strings.Contains(page, "`"+name+"`") {
				t.Errorf("docs/howto/ptp-sim.md does not mention %s", name)
			}
		}
	}
	for _, v := range regexp.MustCompile("(?m)^\\| (`.*?) \\|").FindAllStringSubmatch(page, -1) {
		for _, key := range regexp.MustCompile("`([a-z_0-9]+)`").FindAllStringSubmatch(v[1], -1) {
			all := append(own, "xo", "tcxo", "ocxo")
			if !slices.Contains(all, key[1]) {
				t.Errorf("docs/howto/ptp-sim.md mentions %s, which is no key", key[1])
			}
		}
	}
}

func names(keys []conf.Field) (all []string) {
	for _, k := range keys {
		all = append(all, k.Name)
	}
	return all
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(everything))
	f.Add([]byte("nodes: [{name: a}, {name: b}]\nlinks: [a-b]\nevents: [{at: 1s, kill: a}]"))
	f.Fuzz(func(t *testing.T, in []byte) {
		_, err := Parse("f.yaml", in)
		if e := (*conf.Error)(nil); err != nil && !errors.As(err, &e) {
			t.Fatalf("a mistake without a place: %v", err)
		}
	})
}

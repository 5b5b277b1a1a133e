package virtual_test

import (
	"fmt"
	"strings"
	"testing"
)

// incast is a lab in which two HFIs send three packets for every two that fit the link
// of a third, while a fourth sends little.
func incast(manager, checks string) string {
	return fmt.Sprintf(`
nodes:
  a: {kind: hfi, vnics: [{vesw: 2, ip: 10.0.0.1/24}]}
  b: {kind: hfi, vnics: [{vesw: 2, ip: 10.0.0.2/24}]}
  victim: {kind: hfi, vnics: [{vesw: 2, ip: 10.0.0.3/24}]}
  target: {kind: hfi, vnics: [{vesw: 2, ip: 10.0.0.4/24}]}
  em:
    kind: manager
    vesws: [{name: blue, id: 2, mtu: 9000, members: [a, b, victim, target]}]
    %s
  s: {kind: switch, speed: 100M, queue: 64, fecn_threshold: 12}
links: [[a, s], [b, s], [victim, s], [target, s], [em, s]]
steps:
  - wait: {node: em, in_sync: true}
  - {run: ping -c 1 10.0.0.4, on: a}
  - {run: ping -c 1 10.0.0.4, on: b}
  - {run: ping -c 1 10.0.0.4, on: victim}
  - {run: ping -q -c 400 -i 0.001 -s 8900 -W 5 10.0.0.4, on: a, name: first, background: true}
  - {run: ping -q -c 400 -i 0.001 -s 8900 -W 5 10.0.0.4, on: b, name: second, background: true}
  - {run: ping -q -c 40 -i 0.01 -W 5 10.0.0.4, on: victim, name: little, background: true}
%s`, manager, checks)
}

// With congestion control two senders share a slow link without loss, and a third that
// sends little loses nothing either; the marks and notifications count on their way.
// Without it frames of all three are lost in the same lab.
func TestCongestionControl(t *testing.T) {
	said := passes(t, incast(`congestion: {increase: 5, timer: 20ms, limit: 15, max_delay: 4ms, threshold: 10}`, `
  - {wait: first}
  - {wait: second}
  - {wait: little}
  - {run: ping -c 1 10.0.0.1, on: target}
  - expect: {node: s, counter: p3_tx_fecn, min: 1}
  - expect: {node: target, counter: rx_fecn, min: 1}
  - expect: {node: target, counter: tx_cnp, min: 1}
  - expect: {node: a, counter: rx_cnp, min: 1}
  - expect: {node: a, counter: cca_becn, min: 1}
  - expect: {node: a, counter: cca_delayed, min: 100}
  - expect: {node: b, counter: cca_delayed, min: 100}
`))
	if n := strings.Count(said, " 0% packet loss"); n != 7 {
		t.Errorf("%d of 7 pings lost nothing\n%s", n, said)
	}
	said = passes(t, incast("", `
  - {wait: first}
  - {wait: second}
  - {wait: little}
  - expect: {node: s, counter: p3_tx_fecn, min: 1}
  - expect: {node: s, counter: p3_tx_drop_transmit_queue_full, min: 50}
  - expect: {node: a, counter: rx_cnp, min: 1}
  - expect: {node: a, counter: cca_delayed, max: 0}
`))
	if n := strings.Count(said, " 0% packet loss"); n != 3 {
		t.Errorf("without congestion control %d pings lost nothing\n%s", n, said)
	}
}

// The manager decides when a switch marks congestion: from which fill of a queue on, which
// packets, how many of them, and for a port of its own. In a lab in which the switch is set
// up to mark nothing, two senders then share a slow link without loss.
func TestSwitchCongestionSetting(t *testing.T) {
	for _, c := range []struct {
		switches    string
		least, most int // marked packets
	}{
		{"", 0, 0},
		{"{threshold: 12}", 1, 1_000_000},
		{"{name: s, threshold: 12}", 1, 1_000_000},
		{"{name: another, threshold: 12}", 0, 0},
		{"{threshold: 12, packet_size: 10000}", 0, 0},
		{"{threshold: 12, marking_rate: 255}", 1, 10},
		{"{threshold: 12}, {name: s, port: 4, threshold: 0}", 0, 0},
		{"{threshold: 12}, {name: s, port: 3, threshold: 0}", 1, 1_000_000},
	} {
		lab := incast(`congestion: {increase: 5, timer: 20ms, limit: 15, max_delay: 4ms, switches: [`+c.switches+`]}`, fmt.Sprintf(`
  - {wait: first}
  - {wait: second}
  - {wait: little}
  - expect: {node: target, counter: rx_fecn, min: %d, max: %d}
`, c.least, c.most))
		lab = strings.Replace(lab, "fecn_threshold: 12", "fecn_threshold: 0", 1)
		said := passes(t, lab)
		if n := strings.Count(said, " 0% packet loss"); n != 6 && c.most > 10 {
			t.Errorf("%s: %d of 6 pings lost nothing\n%s", c.switches, n, said)
		}
	}
}

// HFIs whose LIDs lie beyond those of 9B packets are found, set up and kept by their
// manager, whose MADs then travel in 16B packets: in each framing, with traps, a port
// that comes back, and the highest LID there is.
func TestExtendedLIDs(t *testing.T) {
	for _, framing := range []string{"nsh", "88b5", "geneve"} {
		said := passes(t, strings.ReplaceAll(`
nodes:
  a: {kind: hfi, framing: FRAMING, vnics: [{vesw: 2, ip: [10.0.0.1/24, "fd00::1/64"]}]}
  b: {kind: hfi, framing: FRAMING, vnics: [{vesw: 2, ip: [10.0.0.2/24, "fd00::2/64"]}]}
  em:
    kind: manager
    framing: FRAMING
    lids: 0x10000-0xefffff
    nodes: [{name: b, lid: 0xefffff}]
    congestion: {switches: [{threshold: 3}]}
    vesws: [{name: blue, id: 2, members: [a, b]}]
  s: {kind: switch}
links: [[a, s], [b, s], [em, s]]
steps:
  - wait: {node: em, in_sync: true}
  - {run: ping -c 2 -i 0.1 10.0.0.2, on: a}
  - {run: "ping -c 2 -i 0.1 fd00::1", on: b}
  - {link: b-s, state: down}
  - wait: 3s
  - expect: {node: em, counter: ports_down, min: 1}
  - {link: b-s, state: up}
  - wait: 2s
  - wait: {node: em, in_sync: true}
  - {run: ping -c 2 -i 0.1 10.0.0.2, on: a}
  - expect: {node: em, counter: traps, min: 1}
  - expect: {node: em, counter: unknown_traps, max: 0}
  - expect: {node: em, counter: malformed, max: 0}
  - expect: {node: a, counter: vema_sets, min: 3}
`, "FRAMING", framing))
		for _, want := range []string{"port a: LID 0x010000, active", "port b: LID 0xefffff, active", "SLID 0x000000 -> 0xefffff",
			"switch s: threshold 3"} {
			if !strings.Contains(said, want) {
				t.Errorf("%s: no %q in\n%s", framing, want, said)
			}
		}
	}
}

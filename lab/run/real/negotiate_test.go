package real

import (
	"testing"

	"tapir/lab/run/result"
)

// until waits until a command on a node says what.
func until(node, command, what string) string {
	return `  - {run: [sh, -c, "until tapir ` + command + ` | grep -q '` + what + `'; do sleep 0.05; done"], on: ` + node + "}\n"
}

// NICs at one link, the ports of cards, and NICs and switches, agree on the fastest speed of both and on
// PAUSE, again whenever one offers something else, and after a restart. Without a
// common speed there is no link, nor with a transmitter that is off.
//
// MF-10 MF-14
func TestNegotiation(t *testing.T) {
	const perf = "  - {perf: write-bw, server: a, client: b, duration: 200ms, size: 4096, depth: 4}\n"
	r, said := run(t, `
nodes:
  a: {kind: nic, ip: 10.0.0.1/24, media: base-t, link_advertise: 100M}
  b: {kind: nic, ip: 10.0.0.2/24, media: base-t}
  c: {kind: nic, ip: 10.0.0.3/24, hardware: ideal}
  d: {kind: nic, ip: 10.0.0.4/24, media: base-t}
  s: {kind: switch, speed: 10M}
  card:
    kind: card
    port_mode: 2x10G
    mf_mode: npar
    media: base-t
    functions: [{name: f0, ip: 10.0.1.1/24, port: 0}, {name: f1, ip: 10.0.1.2/24, port: 0}, {name: f2, ip: 10.0.0.5/24, port: 1}]
  e: {kind: nic, ip: 10.0.1.9/24, media: base-t, link_advertise: 100M}
links: [[a, b], [d, s], [c, s], [card, e], [card, s]]
steps:
`+perf+
		until("d", "ethtool d", "Speed: 10Mb/s")+
		until("f1", "ethtool f1", "Speed: 100Mb/s")+until("f2", "ethtool f2", "Speed: 10Mb/s")+
		"  - {run: tapir set e link_advertise=10M, on: e}\n"+until("f1", "ethtool f1", "Speed: 10Mb/s")+
		"  - {run: tapir set f0 link_advertise=1G, on: f0}\n"+until("e", "ethtool e", "Link detected: no")+
		"  - {run: tapir set a link_advertise=10M, on: a}\n"+until("b", "ethtool b", "Speed: 10Mb/s")+perf+
		"  - {run: tapir ethtool -s b speed 100 autoneg off, on: b}\n"+
		until("a", "ethtool a", "Link detected: no")+until("b", "ethtool b", "Link detected: no")+
		"  - {run: tapir ethtool -s b autoneg on, on: b}\n"+until("a", "ethtool a", "Link detected: yes")+
		"  - {run: tapir ethtool -A b autoneg off rx off tx off, on: b}\n"+until("a", "ethtool -a a", "RX negotiated: off")+
		"  - {run: tapir set a link=down, on: a}\n"+until("b", "ethtool b", "Link detected: no")+
		"  - {run: tapir set a link=up, on: a}\n"+until("b", "ethtool b", "Link detected: yes")+
		"  - {kill: a}\n  - {start: a}\n"+until("b", "ethtool b", "Speed: 100Mb/s"), "")
	if r.Verdict != result.Passed {
		t.Fatal(said)
	}
	for i, most := range map[int]float64{0: 100, 10: 10} {
		if p := r.Steps[i].Perf; p.Gbps*1000 > most {
			t.Errorf("%.2f Mb/s through a link of %.0f", p.Gbps*1000, most)
		}
	}
}

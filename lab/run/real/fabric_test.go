package real

import (
	"testing"

	"tapir/lab/run/result"
)

// A gateway joins vESWs with Ethernet, one of them as a VLAN, and both sides
// can lose their links.
func TestGateway(t *testing.T) {
	r, said := run(t, `
nodes:
  a: {kind: hfi, vnics: [{vesw: 2, ip: 10.0.0.1/24, policy: {unknown: flood}}]}
  b: {kind: hfi, vnics: [{vesw: 3, ip: 10.0.3.1/24}]}
  g: {kind: gateway, vnics: [{vesw: 2}, {vesw: 3, vlan: 5}]}
  s: {kind: switch}
  h: {kind: host, ip: 10.0.0.2/24}
  n: {kind: nic, ip: 10.0.0.3/24}
links: [[a, s], [b, s], [g, s], [g, h], [n, g]]
steps:
  - {run: ping -c 2 -i 0.01 -w 10 10.0.0.2, on: a}
  - {run: ping -c 2 -i 0.01 -w 10 10.0.0.3, on: a}
  - {run: ping -c 1 -w 1 10.0.3.2, on: b, exit: 1}
  - expect: {node: a, vesw: 2, counter: tx_unicast, min: 4}
  - expect: {node: g, vesw: 3, counter: rx_mcastbcast, min: 1}
  - expect: {node: s, counter: p0_rx_frames, min: 4}
  - expect: {link: a-s, filter: "nsh && icmp", min: 8}
  - expect: {link: g-h, filter: "vlan.id == 5 && arp.dst.proto_ipv4 == 10.0.3.2"}
  - {link: g-h, state: down}
  - {run: ping -c 1 -W 0.2 -w 1 10.0.0.2, on: a, exit: 1}
  - {link: g-h, state: up}
  - {run: ping -c 1 -i 0.1 -w 10 10.0.0.2, on: a}
  - {link: g-s, state: down}
  - {run: ping -c 1 -W 0.2 -w 1 10.0.0.2, on: a, exit: 1}
  - {link: g-s, state: up}
  - {run: ping -c 1 -i 0.1 -w 10 10.0.0.2, on: a}
`, "")
	if r.Verdict != result.Passed {
		t.Error(said)
	}
}

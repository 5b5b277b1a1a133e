package real

import (
	"testing"

	"tapir/lab/run/result"
)

// NICs follow the switch that administers classes, PFC and applications, in real time too,
// and each end shows its neighbor. A NIC that says good-bye is forgotten, and its values
// with it.
func TestDCBX(t *testing.T) {
	r, said := run(t, `
nodes:
  a: {kind: nic, count: 2, ip: 10.0.0.1/24, personality: roce, lldp: nearest-bridge, dcbx: ieee, dcb_willing: all}
  s: {kind: switch, dcbx: ieee, dcb_app: udp:4791:3, prio_tc: 'all:0,3:1', tc_tsa: '0:ets,1:ets', tc_bw: '0:30,1:70', prio_pfc: '3:on'}
links: [[a, s]]
steps:
`+until("a1", "show a1 dcb", "oper_app.*udp:4791:3")+until("a2", "show a2 lldp", " p1 ")+
		until("a1", "show s dcb", "p0 .*remote_prio_pfc *3:on")+until("a1", "show s lldp", "p1 .*a2")+`
  - {perf: write-bw, client: a1, server: a2, size: 4096, iters: 100}
  - expect: {node: s, counter: p1_tx_prio3_packets, min: 100}
  - {run: tapir set a1 lldp=none, on: a1}
  - wait: {node: s, counter: p0_lldp_neighbors, max: 0}
  - expect: {node: s, counter: p1_lldp_neighbors, min: 1}
`, "")
	if r.Verdict != result.Passed {
		t.Fatal(said)
	}
}

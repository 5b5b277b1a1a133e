package wires

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"tapir/lab/run/real"
	"tapir/lab/run/result"
	"tapir/lab/run/steps"
	"tapir/lab/topo"
)

// table is a lab of everything that a wire carries: iWARP and RoCE, PTP, and Omni-Path with a
// manager. A card and a host, which keeps its TAP, are among the ends. %s are a kind of wires and
// a frame mode.
const table = `
wire: %s
nodes:
  a: {kind: nic, ip: 10.0.0.1/24, frames: %[2]s, ptp: {priority1: 1, sync_interval: -4, announce_interval: -3}}
  b: {kind: nic, ip: 10.0.0.2/24, frames: %[2]s, ptp: {slave_only: true, clock_class: 255, announce_interval: -3}}
  q: {kind: nic, ip: 10.0.0.3/24, frames: %[2]s, personality: roce}
  r: {kind: nic, ip: 10.0.0.4/24, frames: %[2]s, personality: roce}
  c: {kind: card, port_mode: 2x25G, frames: %[2]s,
    functions: [{name: f0, ip: 10.0.0.5/24}, {name: f1, port: 1, ip: 10.0.1.5/24}]}
  h: {kind: host, ip: 10.0.1.6/24}
  s: {kind: switch}
  h1: {kind: hfi, vnics: [{vesw: 2, ip: 10.2.0.1/24}]}
  h2: {kind: hfi, vnics: [{vesw: 2, ip: 10.2.0.2/24}]}
  em: {kind: manager, vesws: [{name: blue, id: 2, members: [h1, h2]}]}
  o: {kind: switch}
links:
  - [a, b]
  - [q, s]
  - [r, s]
  - [c, s]
  - [c, h]
  - [h1, o]
  - [h2, o]
  - [em, o]
steps:
  - {perf: verify, server: a, client: b, size: [8, 65536]}
  - {perf: verify, server: q, client: r, size: [8, 65536]}
  - {run: rping -s -C 3, on: a, rdma: true, name: server, background: true}
  - wait: {node: a, listening: 7174}
  - {run: rping -c -v -a 10.0.0.1 -C 3, on: b, rdma: true, output: rdma-ping-2}
  - wait: server
  - {run: ping -c 1 -w 10 10.0.1.5, on: h}
  - wait: {node: em, in_sync: true}
  - {run: ping -c 3 -i 0.1 -w 10 10.2.0.2, on: h1}
  - wait: {node: b, ptp: SLAVE}
`

// judged are steps that take long.
const judged = `
  - expect: {link: a-b, filter: _ws.malformed, max: 0}
  - expect: {link: q-s, filter: "infiniband.bth.opcode && !_ws.malformed", min: 10}
  - expect: {link: h1-o, filter: "nsh && icmp", min: 6}
`

// Protocols by frame modes by kinds of wires: each kind carries each protocol in each mode. In
// make test each kind has one mode; make interop has them all, and tshark judges the captures.
func TestTable(t *testing.T) {
	modes := []string{"wire", "gso", "jumbo"}
	for i, kind := range kinds {
		for _, mode := range modes {
			if !*interop && mode != modes[i%len(modes)] {
				continue
			}
			t.Run(kind+" "+mode, func(t *testing.T) {
				text, all := fmt.Appendf(nil, table, kind, mode), "10 of 10 steps"
				if *interop {
					text, all = append(text, judged...), "13 of 13 steps"
				}
				lab, err := topo.Parse("table.yaml", text)
				must(t, err)
				var said bytes.Buffer
				r, err := real.Run(t.Context(), lab, real.Options{Options: steps.Options{Print: &said}, Tapir: tapir})
				must(t, err)
				if r.Verdict != result.Passed || !strings.Contains(said.String(), all) {
					t.Error(said.String())
				}
			})
		}
	}
}

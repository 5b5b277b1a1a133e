package virtual_test

import (
	"strings"
	"testing"

	"tapir/lab/run/result"
	"tapir/lab/run/virtual"
	"tapir/lab/topo"
)

// functionsLab has two functions on one port and one on another, and their peers.
const functionsLab = `
clock: virtual
nodes:
  card:
    kind: card
    port_mode: 2x25G
    mf_mode: npar
    functions:
      - {name: f0, port: 0, ip: 10.0.0.1/24}
      - {name: f1, port: 0, ip: 10.0.0.2/24}
      - {name: f2, port: 1, ip: 10.0.1.1/24}
  b: {kind: nic, ip: 10.0.0.9/24}
  c: {kind: nic, ip: 10.0.1.9/24}
links: [[card, b], [card, c]]
steps:
`

func runFunctions(t *testing.T, text string) (*result.Result, map[string]uint64) {
	t.Helper()
	lab, err := topo.Parse("lab.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	r, _ := run(t, lab, virtual.Options{})
	count := map[string]uint64{}
	for _, n := range r.Nodes {
		for _, c := range n.Counters {
			count[n.Name+" "+c.Name] = c.Value
		}
	}
	return r, count
}

// idealCard has the card of a lab be of ideal hardware.
var idealCard = strings.NewReplacer("    port_mode: 2x25G\n    mf_mode: npar\n", "    hardware: ideal\n")

// Functions of one device have RDMA with peers at their ports, and two of one port with
// each other inside of the device, on either hardware.
//
// OV-01 XX-07
func TestFunctions(t *testing.T) {
	for _, lab := range []string{functionsLab, idealCard.Replace(functionsLab)} {
		_, count := runFunctions(t, lab+`
  - {perf: verify, server: b, client: f0, size: [8, 65536]}
  - {perf: verify, server: f1, client: b, size: [8, 65536]}
  - {perf: verify, server: c, client: f2, size: [65536]}
  - {perf: verify, server: f1, client: f0, size: [8, 65536]}
  - {perf: write-bw, server: f0, client: f1, size: 65536, duration: 5ms}
`)
		if inside, out := count["f0 rx_packets"], count["b rx_packets"]; inside < 5000 || out > 1000 {
			t.Errorf("%d frames between functions, %d on the wire", inside, out)
		}
	}
}

// When a function is killed and starts again, the connections of its neighbors lose
// nothing.
//
// IN-16 MF-07
func TestKilledFunction(t *testing.T) {
	for _, lab := range []string{functionsLab, idealCard.Replace(functionsLab)} {
		_, count := runFunctions(t, lab+`
  - {kill: f1, after: 2ms}
  - {start: f1, after: 4ms}
  - {perf: write-bw, server: b, client: f0, size: 65536, duration: 10ms}
  - {perf: verify, server: f1, client: b, size: 4096}
`)
		if n := count["f0 tcp_retransmits"] + count["b tcp_retransmits"]; n > 0 {
			t.Errorf("%d retransmissions", n)
		}
	}
}

// Functions of one port share it by their least parts (bw_min), and no function sends
// more than its largest (bw_max), nor gets more: the peer's TCP comes to that.
//
// XX-07
func TestFunctionBandwidth(t *testing.T) {
	lab := func(f0, f1, op string) map[string]uint64 {
		_, count := runFunctions(t, `
clock: virtual
nodes:
  card:
    kind: card
    port_mode: 2x10G
    mf_mode: npar
    functions: [{name: f0, port: 0, ip: 10.0.0.1/24, `+f0+`}, {name: f1, port: 0, ip: 10.0.0.2/24, `+f1+`}]
  b: {kind: nic, ip: 10.0.0.9/24}
links: [[card, b]]
steps:
  - {perf: `+op+`, server: b, client: card, size: 65536, depth: 4, duration: 40ms}
`)
		return count
	}
	c := lab("bw_min: 60", "bw_min: 20", "write-bw")
	if part := float64(c["f0 tx_bytes"]) / float64(c["f1 tx_bytes"]); part < 2.8 || part > 3.2 {
		t.Errorf("60 and 20 percent: 1 to %.2f", part)
	}
	c = lab("bw_max: 10", "bw_max: 100", "write-bw")
	// 40 ms of 1 Gb/s, and of what it leaves of 10, with 24 octets a frame less
	if a, b := float64(c["f0 tx_bytes"])/5e6, float64(c["f1 tx_bytes"])/45e6; a < 0.93 || a > 1.08 || b < 0.93 || b > 1.02 {
		t.Errorf("10 percent at most: %.3f of its part, the other has %.3f", a, b)
	}
	c = lab("bw_max: 10", "bw_max: 100", "read-bw")
	if a, b := float64(c["f0 rx_bytes"])/5e6, float64(c["f1 rx_bytes"])/45e6; a < 0.93 || a > 1.12 || b < 0.93 || b > 1.02 {
		t.Errorf("10 percent at most: %.3f of its part is received, the other has %.3f", a, b)
	}
}

// Functions with outer VLANs reach those of another card that have the same, also with
// super-frames, and nobody else.
//
// XX-07
func TestOuterVLANs(t *testing.T) {
	for _, c := range []struct{ mode, frames string }{{"ovlan", "wire"}, {"ovlan", "gso"}, {"ufp", "gso"}} {
		lab := `
clock: virtual
nodes:
  c:
    kind: card
    port_mode: 1x25G
    mf_mode: ` + c.mode + `
    frames: ` + c.frames + `
    functions: [{ip: 10.0.0.1/24, ovlan: 100}, {ip: 10.0.1.1/24, ovlan: 101}]
  d:
    kind: card
    port_mode: 1x25G
    mf_mode: ` + c.mode + `
    frames: ` + c.frames + `
    functions: [{ip: 10.0.1.2/24, ovlan: 101}, {ip: 10.0.0.2/24, ovlan: 100}, {ip: 10.0.0.3/24, ovlan: 102}]
links: [[c, d]]
steps:
  - {perf: verify, client: cf0, server: df1, size: [8, 65536]}
  - {perf: verify, client: cf1, server: df0, size: [8, 65536]}
  - {perf: write-bw, client: cf0, server: df1, size: 65536, iters: 100}
  - {perf: verify, client: cf0, server: df2, size: [8], error: unreachable}
`
		_, count := runFunctions(t, lab)
		if n := count["cf0 tcp_retransmits"] + count["cf1 tcp_retransmits"]; n > 0 {
			t.Errorf("%s %s: %d retransmissions", c.mode, c.frames, n)
		}
	}
}

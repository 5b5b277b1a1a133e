package virtual_test

import (
	"strings"
	"testing"

	"tapir/lab/run/result"
	"tapir/lab/run/steps"
	"tapir/lab/run/virtual"
	"tapir/lab/topo"
)

// passes runs a lab of the virtual clock, which has to pass, and returns its
// log.
func passes(t *testing.T, text string) string {
	t.Helper()
	lab, err := topo.Parse("lab.yaml", []byte("clock: virtual\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	r, err := virtual.Run(t.Context(), lab, virtual.Options{Options: steps.Options{Print: &said}})
	if err != nil || r.Verdict != result.Passed {
		t.Fatalf("%v, %v\n%s", r.Verdict, err, said.String())
	}
	return said.String()
}

// An HFI without manager has its VNICs at once. A pulled cable is a carrier
// that is gone, and what its hosts send then is lost.
func TestStaticHFIs(t *testing.T) {
	passes(t, `
nodes:
  a: {kind: hfi, vnics: [{vesw: 2, ip: [10.0.0.1/24, "fd00::1/64"]}]}
  b: {kind: hfi, vnics: [{vesw: 2, ip: [10.0.0.2/24, "fd00::2/64"]}, {vesw: 3, ip: 10.3.0.2/24}]}
links: [[a, b]]
steps:
  - {run: ping -c 2 -i 0.1 10.0.0.2, on: a, output: "2 received, 0% packet loss"}
  - {run: "ping -c 2 -i 0.1 fd00::2", on: a}
  - {run: ping -c 1 -w 1 10.3.0.1, on: b, exit: 1}
  - {link: a-b, state: down}
  - {run: ping -c 1 -w 1 10.0.0.2, on: a, exit: 1}
  - {link: a-b, state: up}
  - {run: ping -c 1 -w 1 10.0.0.2, on: a}
  - expect: {node: b, vesw: 2, counter: rx_unicast, min: 5, max: 5}
  - expect: {node: b, counter: rx_packets, min: 7}
  - {run: ping -c 1 10.0.0.9, on: a, exit: 1}
  - expect: {node: a, counter: host_drop_neighbor_unreachable, min: 1, max: 1}
  - expect: {node: b, vesw: 3, counter: tx_mcastbcast, min: 1}
`)
}

// Hosts answer NICs and each other.
func TestHosts(t *testing.T) {
	said := passes(t, `
nodes:
  n: {kind: nic, ip: 10.0.0.1/24, ip6: "fd00::1/64"}
  h: {kind: host, at: {h-s: 10.0.0.2/24, h-g: [10.1.0.2/24, "fd01::2/64"]}}
  g: {kind: host, ip: 10.1.0.3/24, ip6: "fd01::3/64"}
  s: {kind: switch}
links: [[n, s], [h, s], {between: [h, g], delay: 10ms, duplicate: 100%}]
steps:
  - {run: ping -c 3 -i 0.1 10.0.0.1, on: h, output: "3 received, 0% packet loss"}
  - {run: "ping -c 1 fd01::3", on: h, output: "time=40"}
  - {run: ping -i 0.1 -w 1 10.1.0.3, on: h, name: long, background: true, output: "duplicates"}
  - wait: {step: long, output: icmp_seq=3}
  - wait: long
  - {run: ping -c 1 10.0.0.1, on: g, exit: 2, output: unreachable}
`)
	if !strings.Contains(said, "h/ping | 64 bytes from 10.0.0.1: icmp_seq=3 ttl=64") {
		t.Error(said)
	}
}

// A program in the background that ends as it should not fails what waits, and
// the lab.
func TestBackgroundPingFails(t *testing.T) {
	const head = `
clock: virtual
nodes: {a: {kind: host, ip: 10.0.0.1/24}, b: {kind: host, ip: 10.0.0.2/24}}
links: [[a, b]]
steps:
  - {run: ping -c 1 -w 1 10.0.0.9, on: a, name: lonely, background: true}
`
	for _, c := range []struct{ steps, want string }{
		{"  - wait: lonely\n", "exit code 1, expected exit code 0"},
		{"  - wait: {step: lonely, output: bytes from}\n", "exit code 1, expected exit code 0"},
		{"  - wait: 2s\n", "exit code 1, expected exit code 0"},
	} {
		lab, err := topo.Parse("lab.yaml", []byte(head+c.steps))
		if err != nil {
			t.Fatal(err)
		}
		r, err := virtual.Run(t.Context(), lab, virtual.Options{})
		if err != nil || r.Verdict != result.Failed {
			t.Errorf("%s: %v %v", c.steps, r.Verdict, err)
		}
		why := ""
		for _, s := range r.Steps {
			why += s.Error
		}
		if !strings.Contains(why, c.want) {
			t.Errorf("%s: %s", c.steps, why)
		}
	}
}

// A ping can be killed as any program, and nobody asks for its exit code.
func TestPingKilled(t *testing.T) {
	passes(t, `
nodes: {a: {kind: host, ip: 10.0.0.1/24}, b: {kind: host, ip: 10.0.0.2/24}}
links: [[a, b]]
steps:
  - {run: ping -w 1000 10.0.0.2, on: a, name: long, background: true}
  - {kill: long, after: {step: long, output: icmp_seq=3}}
  - wait: long
`)
}

// An HFI port has a hardware clock and a PTP instance: one that is 20 ppm fast and
// begins 10 ms off is within nanoseconds of the other's, over the fabric port.
func TestPTPBetweenHFIs(t *testing.T) {
	passes(t, `
nodes:
  h1: {kind: hfi, vnics: [{vesw: 2, ip: 10.2.0.1/24}], ptp: {priority1: 1}}
  h2: {kind: hfi, vnics: [{vesw: 2, ip: 10.2.0.2/24}], phc_ppb: 20000, phc_drift_register: 0, ptp: {slave_only: true}}
links: [{between: [h1, h2], delay: 5us}]
steps:
  - {phc: h2, step: 10ms}
  - wait: {node: h2, ptp: SLAVE, true_offset: 100ns}
    timeout: 60s
  - {run: ping -c 1 10.2.0.2, on: h1}
  - expect: {node: h2, counter: rx_drop_unknown_ethertype, max: 0}
`)
}

package virtual_test

import (
	"fmt"
	"testing"

	"tapir/lab/run/virtual"
	"tapir/lab/topo"
)

// A NIC sends at the speed of its link: what tapir perf has it send takes, with 24
// octets a frame for preamble, FCS and gap, 0.97 to 1.00 of the speed.
func TestLinkSpeed(t *testing.T) {
	for _, c := range []struct {
		speed, frames, duration string
		mtu                     int
		mbps                    float64
	}{
		{"10M", "wire", "1s", 1500, 10}, {"100M", "wire", "1s", 1500, 100}, {"1G", "wire", "300ms", 1500, 1000},
		{"10G", "gso", "50ms", 1500, 10_000}, {"1G", "gso", "100ms", 1500, 1000}, {"1G", "jumbo", "100ms", 9000, 1000},
	} {
		t.Run(c.speed+" "+c.frames, func(t *testing.T) {
			lab, err := topo.Parse("lab.yaml", fmt.Appendf(nil, `
clock: virtual
nodes:
  a: {kind: nic, ip: 10.0.0.1/24, media: base-t, link_speed: %s, frames: %s}
  b: {kind: nic, ip: 10.0.0.2/24, mtu: %d} # which counts true frames
links: [[a, b]]
steps:
  - {perf: write-bw, server: b, client: a, duration: %s, depth: 16}
`, c.speed, c.frames, c.mtu, c.duration))
			if err != nil {
				t.Fatal(err)
			}
			r, _ := run(t, lab, virtual.Options{})
			octets := 0.0
			for _, n := range r.Nodes[1].Counters {
				switch n.Name {
				case "rx_bytes":
					octets += float64(n.Value)
				case "rx_packets":
					octets += 24 * float64(n.Value)
				}
			}
			took := r.Steps[0].Perf.Elapsed.Seconds()
			if part := octets * 8 / took / (c.mbps * 1e6); part < 0.97 || part > 1.001 {
				t.Errorf("%.3f of the speed: %.0f octets in %v s", part, octets, took)
			}
		})
	}
}

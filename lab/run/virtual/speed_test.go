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
  b: {kind: nic, ip: 10.0.0.2/24, media: base-t, mtu: %d} # which counts true frames
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

// pauseLab is a fast NIC that sends to a slow one through a switch.
const pauseLab = `
clock: virtual
nodes:
  a: {kind: nic, ip: 10.0.0.1/24, media: base-t, pause: %s}
  b: {kind: nic, ip: 10.0.0.2/24, media: base-t, link_speed: auto, link_advertise: "100M", frames: wire}
  s: {kind: switch, queue: 64}
links: [[a, s], [b, s]]
steps:
  - {perf: write-bw, server: b, client: a, duration: 50ms, depth: 16}
`

// Between a fast and a slow NIC a switch that negotiates PAUSE loses no frame, and
// one that does not loses some.
func TestPauseThroughSwitch(t *testing.T) {
	for pause, lossless := range map[string]bool{"auto": true, "none": false} {
		lab, err := topo.Parse("lab.yaml", fmt.Appendf(nil, pauseLab, pause))
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
		lost, sent, got := count["s p1_tx_drop_transmit_queue_full"], count["s p0_tx_pause_frames"], count["a rx_pause_frames"]
		if lossless != (lost == 0) || lossless != (sent > 10) || sent != got || lossless != (count["a tcp_retransmits"] == 0) {
			t.Errorf("pause %s: %d frames lost, %d PAUSE frames, %d obeyed", pause, lost, sent, got)
		}
	}
}

// The two ends of a link agree on the fastest speed of both, and on PAUSE as both
// want it; without a common speed there is no link, as between two that are set to
// different ones.
//
// MF-10 MF-14
func TestNegotiation(t *testing.T) {
	for _, c := range []struct {
		a, b string
		mbps float64 // 0: no link
	}{
		{"link_advertise: '10M,100M'", "link_advertise: '100M,1G'", 100},
		{"link_speed: auto", "link_speed: 10M", 10}, // parallel detection
		{"link_speed: 100M", "link_speed: 100M", 100},
		{"link_speed: 10M", "link_speed: 100M", 0},
		{"link_advertise: 1G", "link_advertise: '10M,100M'", 0},
	} {
		step := "{perf: write-bw, server: b, client: a, duration: 300ms, depth: 4}"
		if c.mbps == 0 {
			step = "{perf: write-bw, server: b, client: a, duration: 300ms, error: .}"
		}
		lab, err := topo.Parse("lab.yaml", fmt.Appendf(nil, `
clock: virtual
nodes:
  a: {kind: nic, ip: 10.0.0.1/24, media: base-t, %s}
  b: {kind: nic, ip: 10.0.0.2/24, media: base-t, %s}
links: [[a, b]]
steps:
  - %s
`, c.a, c.b, step))
		if err != nil {
			t.Fatal(err)
		}
		r, _ := run(t, lab, virtual.Options{})
		if p := r.Steps[0].Perf; c.mbps > 0 && (p.Gbps*1000 < 0.85*c.mbps || p.Gbps*1000 > c.mbps) {
			t.Errorf("%s, %s: %.2f Mb/s", c.a, c.b, p.Gbps*1000)
		}
	}
}

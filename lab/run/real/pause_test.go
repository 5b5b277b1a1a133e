package real

import (
	"fmt"
	"testing"

	"tapir/lab/run/result"
)

// Between a fast and a slow NIC a switch loses no frame where it agrees on PAUSE with the
// fast one, and some where it does not. Above XOFF its queue has room for what the fast
// one sends in 60 ms, until it has heard that it has to wait. On a busy machine a process
// may get no processor for longer, or a sender may be too slow to fill a queue; then it is
// tried again.
func TestPauseThroughSwitch(t *testing.T) {
	for try := range 5 {
		said := pauseOnOneSide(t)
		if said == "" {
			return
		}
		t.Logf("try %d: %s", try+1, said)
	}
	t.Error("not once as expected")
}

// pauseOnOneSide has two senders of which one agrees on PAUSE, and says what was not as
// expected.
func pauseOnOneSide(t *testing.T) string {
	t.Helper()
	r, said := run(t, `
nodes:
  a: {kind: nic, count: 2, ip: 10.0.0.1/24, media: base-t, link_advertise: 100M}
  b: {kind: nic, count: 2, ip: 10.0.0.11/24, media: base-t, link_advertise: 10M}
  s: {kind: switch, queue: 1024}
links: [[a, s], [b, s]]
steps:
  - {run: tapir set a2 pause=none, on: a2}
  - {run: iperf3 --forceflush -s -1, on: b1, background: true, name: serve1}
  - {run: iperf3 --forceflush -s -1, on: b2, background: true, name: serve2}
  - {wait: {step: serve1, output: listening}}
  - {wait: {step: serve2, output: listening}}
  - {run: iperf3 -u -c 10.0.0.11 -b 90M -l 1400 -n 3000K, on: a1, background: true, name: with}
  - {run: iperf3 -u -c 10.0.0.12 -b 90M -l 1400 -n 3000K, on: a2}
  - wait: with
`, "")
	if r.Verdict != result.Passed {
		t.Fatal(said)
	}
	count := map[string]uint64{}
	for _, n := range r.Nodes {
		for _, c := range n.Counters {
			count[n.Name+" "+c.Name] = c.Value
		}
	}
	if count["s p0_tx_pause_frames"] > 0 && count["a1 rx_pause_frames"] == 0 {
		t.Skip("a kernel without sch_ingress, cls_u32 and act_mirred lets no PAUSE frames pass the links")
	}
	with, without := count["s p2_tx_drop_transmit_queue_full"], count["s p3_tx_drop_transmit_queue_full"]
	if with > 0 || without == 0 || count["a1 tx_pause_duration"] == 0 || count["a2 rx_pause_frames"] != 0 {
		return fmt.Sprintf("lost with PAUSE: %d, without: %d\n%v", with, without, count)
	}
	return ""
}

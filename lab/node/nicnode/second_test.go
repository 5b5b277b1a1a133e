package nicnode

import (
	"fmt"
	"strings"
	"testing"

	"tapir/nic"
	"tapir/nic/fastlinq"
	"tapir/wire/frame"
)

// A NIC of two engines on two threads passes pings of every length and iperf3
// both ways, with one, three and four queues, under every interrupt mode; both
// engines work, and what they count is what the wire has seen. One that fails
// leaves the other its flows.
//
// CM-04 CM-05 CM-10
func TestTwoEngines(t *testing.T) {
	for _, c := range []struct {
		queues int
		mode   string
		frames string
	}{{1, "msix", "wire"}, {3, "inta", "gso"}, {4, "poll", "wire"}} {
		t.Run(fmt.Sprintf("%d queues, %s, %s", c.queues, c.mode, c.frames), func(t *testing.T) {
			w := newHostWorldOf(t, c.queues, Config{Frames: c.frames, NIC: nic.Config{Hardware: &fastlinq.Config{Engines: 2, Interrupts: fastlinq.Interrupts{Mode: c.mode}}}})
			w.pings()
			w.iperf("4M", "-P", "4")
			w.connections(32)
			n := w.counters()
			for e := range 2 {
				for _, way := range []string{"rx", "tx"} {
					if name := fmt.Sprintf("engine%d_%s_packets", e, way); n[name] == 0 {
						t.Errorf("%s is 0", name)
					}
				}
			}
			if n["engine_ring_batches"] == 0 {
				t.Error("nothing has passed between the threads")
			}
			w.set("engine1", "failed")
			before := w.counters()["engine1_rx_packets"]
			w.connections(32)
			w.do(w.pair.B.NS, "ping", "-q", "-c", "2", "-i", "0.002", "-W", "10", hostAddr)
			if n := w.counters(); n["engine1_rx_packets"] != before || n["engine_resteered"] == 0 {
				t.Errorf("engine 1 has failed: it got %d frames, %d were resteered", n["engine1_rx_packets"]-before, n["engine_resteered"])
			}
			w.set("engine1", "working")
			w.connections(32)
			if n := w.counters(); n["engine1_rx_packets"] == before {
				t.Error("engine 1 works again, and gets nothing")
			}
			w.conserved()
		})
	}
}

func (w *hostWorld) set(name, value string) {
	w.t.Helper()
	var err error
	must(w.t, w.a.DoWait(func(frame.Time) { err = w.a.Device.Set(nic.Setting{Name: name, Value: value}) }))
	must(w.t, err)
}

// conserved: what the engines were given of the wire, the host TAP has got or
// there is a reason.
func (w *hostWorld) conserved() {
	w.t.Helper()
	await(w.t, "all frames have arrived", func() bool {
		n := w.counters()
		drops := uint64(0)
		for name, c := range n {
			if strings.HasPrefix(name, "rx_drop_") {
				drops += c
			}
		}
		given := n["engine0_rx_packets"] + n["engine1_rx_packets"]
		return given >= n["host_tx_packets"] && given <= n["host_tx_packets"]+drops &&
			n["engine0_tx_packets"]+n["engine1_tx_packets"] <= n["host_rx_packets"]
	})
}

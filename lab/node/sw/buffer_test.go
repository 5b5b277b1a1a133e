package sw

import (
	"testing"
	"time"

	"tapir/lab/conf/swconf"
	"tapir/nic/linkmode"
)

// Of a shared buffer with a factor alpha each of n queues that are full has alpha/(1+n*alpha),
// and a frame beyond that is dropped with a reason. A queue that was full takes nothing while
// others grow, and all comes back.
func TestSharedBuffer(t *testing.T) {
	const frames, octets = 200, 1000
	for _, c := range []struct {
		alpha  float64
		queues int
		each   int // frames
	}{{1, 1, 60}, {1, 2, 40}, {1, 3, 30}, {2, 1, 80}, {2, 2, 48}, {0.5, 1, 40}, {0.5, 4, 20}, {100, 1, 119}} {
		b := newBed(t, c.queues+1, swconf.Config{Queues: swconf.Queues{Buffer: 120 * octets, Alpha: c.alpha}})
		for i := range c.queues {
			b.send(i+1, eth(anyone, host(byte(i+1)), ""))
		}
		b.run(time.Millisecond)
		for i := range c.queues {
			b.wires[i+1].room = 0
		}
		for range frames {
			for i := range c.queues {
				b.send(0, tagged(host(byte(i+1)), host(99), 0, octets))
			}
		}
		for i := range c.queues {
			n := b.s.Counts(i + 1)
			// The last to be served may find a frame less.
			if n.Queued > c.each || n.Queued < c.each-1 || n.TxDrops[DropBuffer] != uint64(frames-n.Queued) {
				t.Errorf("alpha %v, %d queues: %d frames wait, want %d; %d were dropped", c.alpha, c.queues, n.Queued, c.each, n.TxDrops[DropBuffer])
			}
			b.wires[i+1].room = 1000
		}
		b.run(time.Second)
		if used, most, ok := b.s.SharedBuffer(); !ok || used != 0 || most < c.queues*(c.each-1)*octets || most > 120*octets {
			t.Errorf("alpha %v, %d queues: %d octets are left, %d at most", c.alpha, c.queues, used, most)
		}
	}
}

// With PFC senders stop as the pool fills, before pfc_xoff; what comes nevertheless has
// headroom of its own, and nothing is lost, while another class fills the pool.
func TestSharedBufferPFC(t *testing.T) {
	cfg := lossless()
	cfg.Buffer, cfg.XOFF, cfg.XON, cfg.Headroom = 200_000, 150_000, 75_000, 20_000
	f := newFabric(t, 5, linkmode.Speed10G, cfg)
	for port := range 2 {
		f.add(port, 3, 1500)
	}
	f.add(2, 0, 1500)
	f.add(3, 0, 1500)
	f.pass(20 * time.Millisecond)
	var drops, buffered uint64
	for i := range f.wires {
		c := f.s.Counts(i)
		drops += c.RxDrops[DropHeadroom]
		buffered = max(buffered, uint64(f.s.PriorityCounts(i)[3].Most))
	}
	lossy := f.s.Counts(4).TxDrops[DropBuffer]
	if drops > 0 || lossy == 0 || buffered >= 110_000 || f.s.PriorityCounts(0)[3].TxPause == 0 {
		t.Errorf("%d lossless frames and %d others were dropped; at most %d octets of a port", drops, lossy, buffered)
	}
	if _, most, _ := f.s.SharedBuffer(); most > 200_000 || most < 150_000 {
		t.Errorf("%d octets of the pool at most", most)
	}
}

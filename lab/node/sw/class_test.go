package sw

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"tapir/lab/conf/swconf"
	"tapir/nic/dcb"
	"tapir/nic/linkmode"
	"tapir/wire/ip"
)

// classes is a configuration with the shares of ETS classes from 0 on, in percent; 0 is
// strict.
func classes(weights ...uint8) swconf.Config {
	c := swconf.Config{Queue: 64}
	for tc := range c.DCB.PrioTC {
		c.DCB.PrioTC[tc] = uint8(tc)
	}
	for tc, w := range weights {
		if w > 0 {
			c.DCB.TSA[tc], c.DCB.Weight[tc] = dcb.ETS, w
		}
	}
	c.Mapped = true
	return c
}

// Backlogged ETS classes share the line by weight, within a point, whatever the lengths of
// their frames; what a class leaves is the others'; strict classes go first, and no class
// passes its most.
func TestShares(t *testing.T) {
	for _, c := range []struct {
		weights [3]uint8
		octets  [3]int // of frames; 0: nothing is sent
		maxRate [8]int
		want    [3]float64 // percent
	}{
		{[3]uint8{30, 70}, [3]int{1500, 1500}, [8]int{}, [3]float64{30, 70}},
		{[3]uint8{1, 99}, [3]int{1500, 1500}, [8]int{}, [3]float64{1, 99}},
		{[3]uint8{30, 70}, [3]int{1500, 100}, [8]int{}, [3]float64{30, 70}},
		{[3]uint8{20, 30, 50}, [3]int{100, 1500, 700}, [8]int{}, [3]float64{20, 30, 50}},
		{[3]uint8{20, 30, 50}, [3]int{1500, 1500, 0}, [8]int{}, [3]float64{40, 60, 0}},
		{[3]uint8{50, 50, 0}, [3]int{1500, 1500, 1500}, [8]int{2: 4000}, [3]float64{30, 30, 40}},
		{[3]uint8{50, 50}, [3]int{1500, 1500}, [8]int{0: 1000}, [3]float64{10, 90}},
		{[3]uint8{0, 0, 0}, [3]int{1500, 1500, 1500}, [8]int{}, [3]float64{0, 0, 100}},
		{[3]uint8{0, 0, 0}, [3]int{1500, 1500, 1500}, [8]int{0: 500, 1: 2500, 2: 3000}, [3]float64{5, 25, 30}},
	} {
		cfg := classes(c.weights[:]...)
		cfg.MaxRate = c.maxRate
		f := newFabric(t, 5, linkmode.Speed10G, cfg)
		for prio, octets := range c.octets {
			if octets > 0 {
				f.add(prio, prio, octets)
			}
		}
		f.pass(time.Millisecond)
		f.wires[4].take()
		const measured = 4 * time.Millisecond
		f.pass(measured)
		got := octetsOf(f.wires[4].take())
		line := measured.Seconds() * 10e9 / 8
		for prio, want := range c.want {
			share := got[prio] / line * 100
			if math.Abs(share-want) > 1 {
				t.Errorf("%+v: class %d has %.2f %%, want %v", c, prio, share, want)
			}
			if most := float64(c.maxRate[prio]) / 100; most > 0 && share > most+100*burst/line {
				t.Errorf("%+v: class %d has %.3f %%, more than its rate", c, prio, share)
			}
		}
	}
}

// Frames go to the class of their VLAN priority, or of their DSCP if the switch trusts that,
// and CE marks count the octets of their class alone.
func TestPriorities(t *testing.T) {
	for _, c := range []struct {
		trust bool
		frame string
		want  uint8
	}{
		{false, tagged(host(2), host(1), 5, 64), 5},
		{false, eth(host(2), host(1), "untagged"), 0},
		{false, datagram("10.0.0.1", 26<<2, 0, 100), 0},
		{false, datagram("10.0.0.1", 26<<2, 1, 100), 0},
		{true, datagram("10.0.0.1", 26<<2, 0, 100), 4}, // as dscp_prio says
		{true, datagram("fd00::1", 26<<2, 1, 100), 4},
		{true, datagram("fd00::1", 46<<2|1, 0, 100), 5},
		{true, tagged(host(2), host(1), 6, 64), 6},
		{true, eth(host(2), host(1), ""), 0},
	} {
		cfg := classes()
		cfg.TrustDSCP, cfg.DSCPPrio = c.trust, [64]uint8{26: 5}
		b := newBed(t, 2, cfg)
		b.wires[1].room = 0
		b.send(0, c.frame)
		for tc, q := range b.s.ClassCounts(1) {
			if want := uint8(tc) == c.want; want != (q.Queued == 1) {
				t.Errorf("trust %v, %x: class %d has %d", c.trust, c.frame[12:20], tc, q.Queued)
			}
		}
		if p := b.s.PriorityCounts(0)[c.want]; p.RxFrames != 1 || p.RxOctets != uint64(len(c.frame)) {
			t.Errorf("%+v", p)
		}
	}
	cfg := classes()
	cfg.TrustDSCP, cfg.ECN = true, swconf.ECN{Kmin: 2500, Kmax: 2500}
	b := newBed(t, 2, cfg)
	b.wires[1].room = 0
	for i := range 8 {
		b.send(0, datagram("10.0.0.1", uint8(i%2)<<5|ip.ECT0, 0, 1000))
	}
	if c := b.s.Counts(1); c.CE != 2 || c.QueuedOctets != 8000 { // the fourth of each class
		t.Errorf("%+v", c)
	}
	names := ""
	for _, c := range b.s.Counters() {
		names += fmt.Sprint(c.Name, "=", c.Value, "\n")
	}
	for _, want := range []string{"port0_rx_prio1_packets=4", "port0_rx_prio1_bytes=4000", "port1_tx_tc1_queue_most_bytes=4000"} {
		if !strings.Contains(names, want+"\n") {
			t.Errorf("no %s in\n%s", want, names)
		}
	}
}

// The histogram of a queue counts each frame by the octets in front of it.
func TestDepths(t *testing.T) {
	b := newBed(t, 2, swconf.Config{})
	b.send(1, eth(anyone, host(2), ""))
	b.run(time.Millisecond)
	b.wires[1].room = 0
	for range 5 {
		b.send(0, eth(host(2), host(1), strings.Repeat("x", 86))) // 100 octets
	}
	b.send(0, eth(host(2), host(1), strings.Repeat("x", 998))) // finds 500
	b.send(0, eth(host(2), host(1), "x"))                      // finds 1512
	want := map[int]uint64{0: 1, 128: 1, 256: 1, 512: 3, 2048: 1}
	d := b.s.ClassCounts(1)[0].Depths
	for bin, n := range d.Bins {
		if want[d.Bound(bin)] != n {
			t.Errorf("%d frames found up to %d octets, want %d", n, d.Bound(bin), want[d.Bound(bin)])
		}
	}
	if d.Sum != 100+200+300+400+500+1512 {
		t.Errorf("sum %d", d.Sum)
	}
	d.add(1 << 40)
	if d.Bins[len(d.Bins)-1] != 1 {
		t.Error("an endless queue has no bin")
	}
	if n := testing.AllocsPerRun(100, func() { d.add(77) }); n != 0 {
		t.Errorf("%v allocations a sample", n)
	}
}

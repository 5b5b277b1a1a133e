package nic

import (
	"net/netip"
	"testing"
	"time"

	"tapir/nic/fastlinq"
	"tapir/nic/nicdrop"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/tcp"
)

// arrive has frames of 1000 octets come from the wire for the operating system, one each
// time, for d, and returns how many it gets.
func (e *ethernetHost) arrive(d, each time.Duration) (got int) {
	b := append(e.frame(e.n.dev.cfg.MAC, 0, 80), make([]byte, 1000)...)[:1000]
	e.h.got = nil
	for end := e.w.now.Add(d); e.w.now < end; e.w.run(each) {
		f := e.w.pool.Get(len(b))
		f.Append(b)
		e.n.dev.Receive(frame.Wire, []*frame.Frame{f}, e.w.now)
	}
	return len(e.h.got)
}

// What a function receives is limited to its largest share of the port (bw_max): frames
// beyond it wait in a queue with a bound, in their order and with exact gaps, and are
// dropped with their reason when it is full. What comes within the share does not wait.
//
// XX-07 XX-08
func TestReceiveRate(t *testing.T) {
	e := newEthernetHost(t, Config{})
	e.set("link_speed", "1G")
	e.set("bw_max", "10") // a frame of 1000 octets in 80 us
	e.w.run(10 * time.Millisecond)
	if got := e.arrive(10*time.Millisecond, 100*time.Microsecond); got != 100 || e.n.dev.Drops()[nicdrop.Rate] != 0 {
		t.Errorf("within the share %d of 100 frames arrive", got)
	}
	if got := e.arrive(10*time.Millisecond, 40*time.Microsecond); got < 124 || got > 126 {
		t.Errorf("10 ms of 100 Mb/s: %d frames, want 125", got)
	}
	if n := e.n.dev.Drops()[nicdrop.Rate]; n != 0 {
		t.Errorf("%d frames dropped that the queue had room for", n)
	}
	if got := e.arrive(40*time.Millisecond, 20*time.Microsecond); got < 499 || got > 501 {
		t.Errorf("40 ms of 100 Mb/s: %d frames, want 500", got)
	}
	if n := e.n.counter("rx_drop_function_rate"); n < 1200 || n > 1400 { // of 2000 and 125 that waited, less 500 and 256
		t.Errorf("%d frames dropped", n)
	}
	before := len(e.h.got)
	e.w.run(100 * time.Millisecond)
	if n := len(e.h.got) - before; n < 250 || n > 257 {
		t.Errorf("%d frames waited", n)
	}
	e.set("bw_max", "100")
	e.w.run(10 * time.Millisecond)
	if got := e.arrive(10*time.Millisecond, 10*time.Microsecond); got < 990 {
		t.Errorf("without a limit %d of 1000 frames arrive", got)
	}
}

// Where more comes for the functions of a port than it carries, from the wire and from
// neighbors, they share it by their least parts (bw_min), and what one leaves is the
// other's.
//
// XX-07
func TestReceiveShares(t *testing.T) {
	x, cfgs := prepareFunctions(t, "2x10G", fastlinq.NPAR, []int{0, 0}, func(i int, c *Config) {
		c.Hardware.(*fastlinq.Config).Link.BandwidthMin = []uint8{60, 20}[i]
	})
	var hosts [2]*hostSide
	for i, cfg := range cfgs {
		hosts[i] = &hostSide{room: 64, held: map[netip.AddrPort]bool{}}
		x.host = hosts[i]
		if err := x.attach(i, 0, cfg); err != nil {
			t.Fatal(err)
		}
	}
	const octets = 1000
	offer := func(to ...int) (got [2]int) {
		before := [2]int{len(hosts[0].got), len(hosts[1].got)}
		for range 10_000 { // each takes as long as a frame at 10 Gb/s
			for _, i := range to {
				h := ether.Header{Dst: x.devs[i].cfg.MAC, Src: ether.Addr{2, 0, 0, 0, 9, 9}, Type: ether.TypeIPv4}
				b := append(h.AppendTo(nil), segment(peer4, cfgs[i].Addrs[0].Addr(), tcp.Header{SrcPort: 5, DstPort: 80, Flags: tcp.ACK}, nil)...)
				f := x.pool.Get(octets)
				f.Append(append(b, make([]byte, octets)...)[:octets])
				x.card.Receive(0, []*frame.Frame{f}, x.now)
			}
			x.rest()
			x.now = x.now.Add((octets + 24) * 8 / 10)
		}
		return [2]int{len(hosts[0].got) - before[0], len(hosts[1].got) - before[1]}
	}
	got := offer(0, 1)
	if all := got[0] + got[1]; all < 9_990 || all > 10_010 || got[0] < all*74/100 || got[0] > all*76/100 {
		t.Errorf("60 and 20 percent at least: %v of 10000 frames", got)
	}
	offer() // what waits
	if got = offer(1); got[1] < 9_990 {
		t.Errorf("alone: %v", got)
	}
	if n := x.devs[1].Drops()[nicdrop.Rate]; n < 7_000 {
		t.Errorf("%d frames dropped", n)
	}
}

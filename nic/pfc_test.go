package nic

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tapir/nic/buf"
	"tapir/nic/dcb"
	"tapir/nic/fastlinq"
	"tapir/nic/fastlinq/mfw"
	"tapir/nic/ideal"
	"tapir/nic/nicdrop"
	"tapir/nic/port"
	"tapir/nic/settings"
	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
	wirepause "tapir/wire/pause"
)

// ranked is a frame of 1000 octets that the operating system sends, with a VLAN tag of a
// priority, or without one and with a DSCP.
func (e *ethernetHost) ranked(pcp uint8, dscp uint8) {
	h := ether.Header{Dst: e.s.mac, Src: e.n.dev.cfg.MAC, Type: ether.TypeIPv4}
	if pcp > 0 {
		h.NTags, h.Tags[0] = 1, ether.Tag{TPID: ether.TypeVLAN, TCI: uint16(pcp)<<13 | 5}
	}
	b := h.AppendTo(nil)
	b = append(b, make([]byte, 1000-len(b))...)
	p := ip.Header{Version: 4, TOS: dscp << 2, TTL: 64, Proto: ip.ProtoUDP, Src: nic4, Dst: peer4,
		PayloadLen: len(b) - h.Len() - ip.HeaderLen4}
	p.Put(b[h.Len():])
	f := e.w.pool.Get(len(b))
	f.Append(b)
	e.n.dev.Receive(frame.Host, []*frame.Frame{f}, e.w.now)
}

// pfc has a PFC frame come in.
func (e *ethernetHost) pfc(timers [8]uint16, enabled uint8) {
	b := make([]byte, wirepause.Len)
	(&wirepause.Frame{Src: e.s.mac, PFC: true, Enabled: enabled, Timers: timers}).Put(b)
	f := e.w.pool.Get(len(b))
	f.Append(b)
	e.n.dev.Receive(frame.Wire, []*frame.Frame{f}, e.w.now)
}

func newDCB(t *testing.T, change func(*settings.DCB)) *ethernetHost {
	var d settings.DCB
	change(&d)
	e := newEthernetHost(t, Config{DCB: d, Hardware: &fastlinq.Config{Link: fastlinq.Link{Media: mfw.MediaBaseT}}})
	e.set("link_speed", "1G")
	e.w.run(time.Millisecond)
	e.n.leaving()
	return e
}

// With prio_pfc a PFC frame holds frames of its priorities back for its quanta, and no
// others, until timer 0; without it, and for other priorities, PFC frames are counted drops.
// With trust the priority is that of the DSCP.
func TestPFCHoldsItsPriority(t *testing.T) {
	on := func(d *settings.DCB) { d.PFC = 1 << 3 }
	for _, c := range []struct {
		name      string
		change    func(*settings.DCB)
		pcp, dscp uint8
		enabled   uint8
		held      bool
		refused   uint64
	}{
		{"prio_pfc=3:on", on, 3, 0, 1 << 3, true, 0},
		{"prio_pfc=3:on", on, 2, 0, 1 << 3, false, 0},
		{"prio_pfc=3:on", on, 0, 24, 1 << 3, false, 0},
		{"prio_pfc=3:on", on, 3, 0, 1 << 2, false, 1},
		{"prio_pfc=all:off", func(*settings.DCB) {}, 3, 0, 1 << 3, false, 1},
		{"trust=dscp", func(d *settings.DCB) { d.PFC, d.TrustDSCP = 1<<3, true }, 0, 24, 1 << 3, true, 0},
		{"trust=dscp", func(d *settings.DCB) { d.PFC, d.TrustDSCP = 1<<3, true }, 3, 0, 1 << 3, false, 0},
	} {
		e := newDCB(t, c.change)
		refused := e.n.dev.Drops()[nicdrop.PauseOff]
		const quanta = 1000
		e.pfc([8]uint16{quanta, quanta, quanta, quanta}, c.enabled)
		at := e.w.now
		for range 3 {
			e.ranked(c.pcp, c.dscp)
		}
		e.w.run(100 * time.Millisecond)
		all := e.n.leaving()
		if len(all) != 3 {
			t.Fatalf("%s: %d frames left", c.name, len(all))
		}
		want := time.Duration(0)
		if c.held {
			want = quanta * 512
		}
		if got := time.Duration(all[0].System - frame.Stamp(at)); got != want || e.n.dev.Drops()[nicdrop.PauseOff] != refused+c.refused {
			t.Errorf("%s, %+v: the first frame left after %v, want %v", c.name, c, got, want)
		}
		if c.held {
			e.pfc([8]uint16{3: 0xffff}, c.enabled)
			e.pfc([8]uint16{}, c.enabled)
			at := e.w.now
			e.ranked(c.pcp, c.dscp)
			e.w.run(time.Millisecond)
			if all := e.n.leaving(); len(all) != 1 || all[0].System != frame.Stamp(at) {
				t.Errorf("%s: held after timer 0", c.name)
			}
			if n, us := e.n.counter("rx_prio3_pause"), e.n.counter("rx_prio3_pause_duration"); n != 3 || us != quanta*512/1000 {
				t.Errorf("%s: %d frames, %d us", c.name, n, us)
			}
		}
	}
}

// Strict classes send before others. Those with a share in tc_bw send by it.
func TestSharesOfClasses(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*settings.DCB)
		want   int // of the first 20 frames, how many are of class 1
	}{
		{"prio_pfc", func(d *settings.DCB) { d.PFC = 1 }, 20}, // all are strict
		{"tc_bw=1:25,0:75", func(d *settings.DCB) {
			d.Weight, d.TSA = [8]uint8{75, 25}, [8]dcb.TSA{dcb.ETS, dcb.ETS}
		}, 5},
		{"tc_bw=1:75,0:25", func(d *settings.DCB) {
			d.Weight, d.TSA = [8]uint8{25, 75}, [8]dcb.TSA{dcb.ETS, dcb.ETS}
		}, 15},
	} {
		e := newDCB(t, c.change)
		for range 25 {
			e.ranked(0, 0)
		}
		for range 25 {
			e.ranked(1, 0)
		}
		e.w.run(10 * time.Millisecond)
		all := e.n.leaving()
		if len(all) != 50 {
			t.Fatalf("%s: %d frames left", c.name, len(all))
		}
		got := 0
		for _, r := range all[:20] {
			if r.Data[12] == 0x81 {
				got++
			}
		}
		if got < c.want-1 || got > c.want+1 {
			t.Errorf("%s: %d of the first 20 frames are of class 1, want %d", c.name, got, c.want)
		}
	}
}

// The operating system floods one class, whose frames beyond its queue are lost: a strict class beside it waits for
// one frame, ETS classes have their shares, and a paused class holds up no other. A class that is alone loses nothing.
func TestFloodOfOneClass(t *testing.T) {
	flood := func(e *ethernetHost, frames int, pcp ...uint8) {
		for i := range frames {
			for _, p := range pcp {
				e.ranked(p, 0)
			}
			if i%50 == 49 {
				e.w.run(0)
			}
		}
	}
	count := func(e *ethernetHost, d time.Duration) (n [8]int) {
		e.w.run(d)
		for _, r := range e.n.leaving() {
			n[r.Data[14]>>5]++
		}
		return n
	}
	strict := newDCB(t, func(d *settings.DCB) { d.PFC = 1 << 3 })
	flood(strict, 1, 7, 1)
	strict.w.run(time.Millisecond)
	strict.n.leaving()
	lost := strict.n.dev.Drops()[drop.TxQueue]
	flood(strict, 400, 1)
	flood(strict, 5, 7)
	if n := count(strict, 7*8192*time.Nanosecond); n[7] != 5 || n[1] > 3 {
		t.Errorf("strict: %v", n)
	}
	if n := count(strict, 100*time.Millisecond); n[1] < 120 || n[1] > 140 || uint64(n[1])+strict.n.dev.Drops()[drop.TxQueue]-lost < 395 {
		t.Errorf("strict: %v, %d lost", n, strict.n.dev.Drops()[drop.TxQueue]-lost)
	}
	strict.pfc([8]uint16{3: 0xffff}, 1<<3)
	flood(strict, 400, 3)
	flood(strict, 20, 1)
	if n := count(strict, 20*8192*time.Nanosecond); n[1] != 20 || n[3] != 0 {
		t.Errorf("paused: %v", n)
	}
	shares := newDCB(t, func(d *settings.DCB) {
		d.Weight, d.TSA = [8]uint8{1: 30, 2: 70}, [8]dcb.TSA{1: dcb.ETS, 2: dcb.ETS}
	})
	flood(shares, 1, 1, 2)
	var all [8]int
	for range 100 {
		flood(shares, 60, 1)
		flood(shares, 60, 2)
		n := count(shares, 50*8192*time.Nanosecond)
		all[1], all[2] = all[1]+n[1], all[2]+n[2]
	}
	if share := float64(all[1]) / float64(all[1]+all[2]); share < 0.29 || share > 0.31 {
		t.Errorf("ETS: %v", all)
	}
	alone := newDCB(t, func(d *settings.DCB) { d.PFC = 1 << 3 })
	flood(alone, 200, 1)
	if n := count(alone, 100*time.Millisecond); n[1] != 200 {
		t.Errorf("alone: %v", n)
	}
}

// A class sends no more than its rate in tc_maxrate, to the nanosecond: a frame of 1000 octets and 24 of
// preamble, FCS and gap takes 81920 ns at 100 Mb/s. Other classes send meanwhile, and after the limit has gone
// so does this one.
func TestMaxRateOfClass(t *testing.T) {
	e := newDCB(t, func(d *settings.DCB) { d.MaxRate[1] = 100_000 })
	took := func(frames int) (all [2][]time.Duration) {
		at := e.w.now
		for range frames {
			e.ranked(1, 0)
			e.ranked(0, 0)
		}
		e.w.run(10 * time.Millisecond)
		for _, r := range e.n.leaving() {
			class := 0
			if r.Data[12] == 0x81 {
				class = 1
			}
			all[class] = append(all[class], time.Duration(r.System-frame.Stamp(at)))
		}
		return all
	}
	all := took(10)
	if len(all[0]) != 10 || len(all[1]) != 10 || all[0][9] > 100*time.Microsecond {
		t.Fatalf("frames left at %v", all)
	}
	for i, at := range all[1] {
		if at != time.Duration(i)*81_920 {
			t.Errorf("frame %d of the class left at %v", i, at)
		}
	}
	configure(t, e.n, "tc_maxrate=all:0 prio_pfc=7:on")
	if all := took(10); len(all[1]) != 10 || all[1][9] > 200*time.Microsecond {
		t.Errorf("without a limit frames left at %v", all)
	}
}

// Whatever the rates, shares and classes, and whatever is sent when: from any frame of a class to any later one no more
// leaves than its rate allows, a class in order, and in the end everything has left.
func TestNoClassExceedsItsRate(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		e := newDCB(t, func(d *settings.DCB) {
			d.Mapped, d.Selected = true, true
			for i := range d.PrioTC {
				d.PrioTC[i] = uint8(r.IntN(4))
				d.MaxRate[i] = []uint32{0, 5_000, 64_000, 333_333}[r.IntN(4)]
			}
			d.TSA[0], d.TSA[2], d.Weight[0] = dcb.ETS, dcb.ETS, uint8(r.IntN(101))
			d.Weight[2] = 100 - d.Weight[0]
		})
		cfg := e.n.dev.Config()
		c := cfg.DCB.Values()
		sent := 0
		for range 20 {
			for range r.IntN(4) {
				e.ranked(uint8(1+r.IntN(7)), 0)
				sent++
			}
			e.w.run(time.Duration(r.IntN(300)) * time.Microsecond)
		}
		e.w.run(500 * time.Millisecond)
		all := e.n.leaving()
		if len(all) != sent {
			t.Fatalf("seed %d: %d of %d frames left", seed, len(all), sent)
		}
		var times [dcb.Classes][]frame.Stamp
		for _, f := range all {
			tc := c.PrioTC[f.Data[14]>>5]
			times[tc] = append(times[tc], f.System)
		}
		for tc, rate := range c.MaxRate {
			for i := range times[tc] {
				for j := i + 1; rate > 0 && j < len(times[tc]); j++ {
					least := frame.Stamp(int64(j-i) * (1000 + 24) * 8_000_000 / int64(rate))
					if times[tc][j]-times[tc][i] < least-1 { // a nanosecond by rounding
						t.Fatalf("seed %d: class %d of %d kb/s: %d frames in %v, at least %v", seed, tc, rate, j-i, times[tc][j]-times[tc][i], least)
					}
				}
			}
		}
	}
}

// Priorities that prio_tc puts into one class share it, and with tc_tsa a class with a share may be one of two
// that are selected alike.
func TestMapOfPriorities(t *testing.T) {
	e := newDCB(t, func(d *settings.DCB) { d.PFC = 1 << 7 })
	configure(t, e.n, "prio_tc=all:2,5:1 tc_tsa=1:ets,2:ets tc_bw=1:20,2:80")
	for range 25 {
		e.ranked(5, 0)
	}
	for range 25 {
		e.ranked(0, 0)
	}
	e.w.run(10 * time.Millisecond)
	tagged := 0
	for _, r := range e.n.leaving()[:20] {
		if r.Data[12] == 0x81 {
			tagged++
		}
	}
	if tagged < 3 || tagged > 5 {
		t.Errorf("%d of the first 20 frames are of class 1, want 4", tagged)
	}
	for set, want := range map[string]string{
		"tc_tsa=1:strict":      "tc_bw: class 1 is strict, and has no share: set tc_tsa 1:ets",
		"tc_bw=1:20":           "tc_bw: the weights of the ETS classes have the sum 20, not 100",
		"prio_tc=0:8":          `prio_tc: "0:8": expected PRIORITY:CLASS`,
		"dscp_prio=10:1":       "dscp_prio: set trust=dscp too: with trust=pcp DSCPs do not count",
		"tc_maxrate=1:100Mbit": `tc_maxrate: "1:100Mbit": expected CLASS:RATE`,
	} {
		name, v, _ := strings.Cut(set, "=")
		before := e.n.dev.Config().DCB
		if err := e.n.dev.Set(Setting{name, v}); err == nil || !strings.HasPrefix(err.Error(), want) || e.n.dev.Config().DCB != before {
			t.Errorf("%s: %v", set, err)
		}
	}
}

// Between a fast sender and a NIC whose operating system is slow no frame is lost if both have
// PFC: what fills a receive queue stops the sender's priority, and what drains it lets it go on.
func TestPFCLosesNothing(t *testing.T) {
	for _, on := range []bool{true, false} {
		d := settings.DCB{}
		if on {
			d.PFC = 1 << 0
		}
		e := newEthernetHost(t, Config{DCB: d})
		n, slow := e.slowNIC(d)
		if err := n.dev.Set(Setting{"partner_pause", "none"}); err != nil {
			t.Fatal(err)
		}
		const frames = 1200
		sent := 0
		for turns := 0; turns < 100_000 && (sent < frames || len(slow.got) < frames); turns++ {
			if k := min(frames-sent, 20, 100-e.n.dev.Netdev(0).Waiting()); k > 0 && e.n.dev.Wire.Waiting() < 32 {
				e.flood(k)
				sent += k
			}
			slow.room = 1
			e.w.run(20 * time.Microsecond)
			slow.room = 0
		}
		lost := n.dev.Drops()[drop.HostQueue]
		if on != (lost == 0) || on && len(slow.got) != frames {
			t.Errorf("PFC %v: %d frames lost, %d of %d arrived", on, lost, len(slow.got), frames)
		}
		if !on {
			continue
		}
		if told, held := n.counter("tx_prio0_pause_duration"), e.n.counter("rx_prio0_pause_duration"); told == 0 ||
			max(told, held)-min(told, held) > told/10 || n.counter("tx_pfc_frames") != e.n.counter("rx_pfc_frames") {
			t.Errorf("told to wait for %d us, waited for %d; %d PFC frames", told, held, n.counter("tx_pfc_frames"))
		}
		if n.counter("tx_prio0_pause") < 3 || n.counter("tx_prio0_pause") != e.n.counter("rx_prio0_pause") {
			t.Errorf("%d PFC frames, %d received", n.counter("tx_prio0_pause"), e.n.counter("rx_prio0_pause"))
		}
	}
}

// A NIC whose operating system is slow keeps the frames of a PFC priority apart from those of
// others: a flood of priority 0 is lost and pauses nobody, and of priority 3 nothing is lost
// beside it. The two take turns.
func TestReceiveBuffers(t *testing.T) {
	d := settings.DCB{}
	d.PFC = 1 << 3
	e := newEthernetHost(t, Config{DCB: d})
	n, slow := e.slowNIC(d)
	turn := func() {
		slow.room = 1
		e.w.run(20 * time.Microsecond)
		slow.room = 0
	}
	// arrived counts the frames of priority 3 among those from at on, and the others.
	arrived := func(at int) (ranked, others int) {
		for _, b := range slow.got[at:] {
			if b[12] == 0x81 && b[14]>>5 == 3 {
				ranked++
			} else {
				others++
			}
		}
		return ranked, others
	}
	lost := func() uint64 { return n.dev.Drops()[drop.HostQueue] }

	for range 100 {
		e.flood(6)
		turn()
	}
	if lost() == 0 || n.counter("tx_prio3_pause") != 0 {
		t.Errorf("a flood of priority 0: %d frames lost, %d PFC frames", lost(), n.counter("tx_prio3_pause"))
	}
	at, sent := len(slow.got), 0
	for turns := 0; turns < 20_000; turns++ {
		if sent < 800 && e.n.dev.Wire.Waiting() < 24 {
			e.flood(2)
			e.ranked(3, 0)
			e.ranked(3, 0)
			sent += 2
		}
		turn()
		if ranked, _ := arrived(at); ranked == 800 {
			break
		}
	}
	ranked, others := arrived(at)
	if ranked != sent || sent != 800 || n.counter("rx_prio3_discards") != 0 {
		t.Errorf("%d of %d frames of priority 3 arrived, %d discards", ranked, sent, n.counter("rx_prio3_discards"))
	}
	if others < ranked/2 {
		t.Errorf("%d frames of priority 0 beside %d of priority 3", others, ranked)
	}
	if sent, got := n.counter("tx_prio3_pause"), e.n.counter("rx_prio3_pause"); sent < 3 || sent != got {
		t.Errorf("%d PFC frames, %d received", sent, got)
	}
}

// Priorities may share a receive buffer, and then their fate; a buffer that is too small for what
// is on the way loses frames.
func TestSizesOfBuffers(t *testing.T) {
	for _, c := range []struct {
		name, value     string
		pauses, discard bool
	}{{"buffer_size", "all:0", false, false}, {"prio_buffer", "3:0", true, false}, {"buffer_size", "3:4K", false, true}} {
		d := settings.DCB{}
		d.PFC = 1 << 3
		e := newEthernetHost(t, Config{DCB: d})
		n, _ := e.slowNIC(d)
		if err := n.dev.Set(Setting{c.name, c.value}); err != nil {
			t.Fatal(err)
		}
		for range 40 { // 600 frames of priority 0: more than the receive queue and half a buffer have room for
			e.flood(15)
			e.w.run(20 * time.Microsecond)
		}
		if got := n.counter("tx_prio3_pause") > 0; got != c.pauses {
			t.Errorf("%s=%s: priority 3 paused by priority 0: %v", c.name, c.value, got)
		}
		for range 20 {
			e.ranked(3, 0)
		}
		e.w.run(time.Millisecond)
		if got := n.counter("rx_prio3_discards") > 0; got != c.discard {
			t.Errorf("%s=%s: frames of priority 3 lost: %v", c.name, c.value, got)
		}
	}
}

// Settings of classes change while the NIC runs: they act with static DCBX and without any.
func TestDCBXBeforeSettings(t *testing.T) {
	e := newDCB(t, func(d *settings.DCB) { d.PFC = 1 << 2 })
	for _, c := range []struct {
		set  string
		held [8]bool
	}{
		{"dcbx=off", [8]bool{2: true}},
		{"dcbx=ieee dcbx_static=1 prio_pfc=3:on", [8]bool{3: true}},
		{"prio_pfc=3:on,5:on", [8]bool{3: true, 5: true}},
		{"trust=dscp dscp_prio=8:3", [8]bool{0: true, 3: true, 5: true}}, // below: DSCP 8 of packets without a tag
		{"dcbx=off", [8]bool{0: true, 3: true, 5: true}},                 // they are administered, and act by themselves
		{"prio_pfc=2:on trust=pcp dscp_prio=none", [8]bool{2: true}},
	} {
		configure(t, e.n, c.set)
		e.w.run(time.Second)
		e.pfc([8]uint16{9, 9, 9, 9, 9, 9, 9, 9}, 0xff)
		for prio := range uint8(8) {
			if got := e.n.dev.Wire.Holds(prio != 0, prio, prio == 0, 8<<2); got != c.held[prio] {
				t.Errorf("after %s priority %d: held %v", c.set, prio, got)
			}
		}
	}
	if n := e.n.counter("rx_prio2_pause"); n != 2 {
		t.Errorf("%d PFC frames of priority 2 are counted, not 2", n)
	}
	// What is held is free when the link goes, and that is no PFC frame.
	e.n.dev.LinkDown(e.w.now)
	if n := e.n.counter("rx_prio2_pause"); n != 2 || e.n.dev.Wire.Holds(true, 2, false, 0) {
		t.Errorf("%d PFC frames after the link has gone, or still held", n)
	}
}

// Shares that are not 100 percent together are refused, and so are classes of functions that
// share a port.
func TestDCBErrors(t *testing.T) {
	c := Config{Hardware: &fastlinq.Config{}, DCB: settings.DCB{Admin: dcb.Admin{Port: dcb.Port{Config: dcb.Config{Weight: [8]uint8{30}}}}}}
	c = c.withDefaults()
	if err := c.validate(); err == nil || err.Error() != "tc_bw: the weights of the ETS classes have the sum 30, not 100" {
		t.Errorf("%v", err)
	}
	_, err := New(Config{Name: "n", Hardware: &fastlinq.Config{}, DCB: settings.DCB{Admin: dcb.Admin{Port: dcb.Port{TrustDSCP: true}}}},
		Env{Pool: buf.NewPool(64, 0), Wire: sink{}, Line: port.NewLine(), Tagged: func(ether.Tag, bool) {}})
	const shared = "are not for functions that share a port without dcbx: remove them"
	if err == nil || !strings.HasSuffix(err.Error(), shared) {
		t.Errorf("%v", err)
	}
	d, err := New(Config{Name: "n", Hardware: &ideal.Config{}},
		Env{Pool: buf.NewPool(64, 0), Wire: sink{}, Line: port.NewLine(), Tagged: func(ether.Tag, bool) {}})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Set(Setting{"tc_maxrate", "0:1G"}); err == nil || !strings.HasSuffix(err.Error(), shared) {
		t.Errorf("%v", err)
	}
}

// PFC of a priority stops the queue pairs that have it, requests and responses alike, and no
// others: what they have to send leaves when the time is over, or at once with timer 0.
func TestPFCStopsQueuePairs(t *testing.T) {
	w, a, b := twoRoCE(t, func(c *Config) {
		c.VLAN = 7
		c.DCB.PFC = 1<<3 | 1<<4
	})
	pair := func(priority uint8) (x, y *roceEnd) {
		x, y = roceEndOn(t, a, qpattr.RC, 3), roceEndOn(t, b, qpattr.RC, 3)
		x.sl, y.sl = priority, priority
		x.move(t, y)
		y.move(t, x)
		return x, y
	}
	x3, y3 := pair(3)
	x4, y4 := pair(4)
	post := func(from, to *roceEnd, op verbs.Opcode) {
		_, err := from.qp.PostSend(verbs.SendWR{Opcode: op, SGEs: from.sge(0, 4096), RemoteAddr: to.mr.Addr(), RKey: to.mr.RKey(),
			Flags: verbs.Signaled})
		must(t, err)
	}
	// left is how long after a time the first frame of each priority left the NIC.
	left := func(after frame.Time) (first [8]time.Duration) {
		for _, r := range slices.Backward(a.all) {
			if h, _, err := ether.Parse(r.Data); r.Dir == frame.Outbound && err == nil && h.NTags > 0 {
				first[h.Tags[0].PCP()] = time.Duration(r.System - frame.Stamp(after))
			}
		}
		return first
	}
	pfc := func(quanta uint16) {
		f := w.pool.Get(wirepause.Len)
		(&wirepause.Frame{Src: b.dev.cfg.MAC, PFC: true, Enabled: 1 << 3, Timers: [8]uint16{3: quanta}}).Put(f.Extend(wirepause.Len))
		a.dev.Receive(frame.Wire, []*frame.Frame{f}, w.now)
	}
	post(x4, y4, verbs.OpWrite) // neighbors are found
	x4.take(t, w)
	const quanta, hold = 60_000, 60_000 * 512 / 100 * time.Nanosecond
	for what, c := range map[string]struct {
		op               verbs.Opcode
		x3, y3, x4, y4   *roceEnd
		begins, released time.Duration
	}{
		"requests":                  {verbs.OpWrite, x3, y3, x4, y4, 0, hold},
		"requests, then timer 0":    {verbs.OpWrite, x3, y3, x4, y4, 0, 50 * time.Microsecond},
		"responses":                 {verbs.OpRead, y3, x3, y4, x4, time.Duration(delay), hold},
		"responses, before timer 0": {verbs.OpRead, y3, x3, y4, x4, time.Duration(delay), 250 * time.Microsecond},
	} {
		pfc(quanta)
		a.all = nil
		at := w.now
		post(c.x4, c.y4, c.op)
		post(c.x3, c.y3, c.op)
		if c.released < hold {
			w.run(c.released)
			pfc(0)
		}
		c.x4.take(t, w)
		c.x3.take(t, w)
		if got := left(at); got[4] != c.begins || got[3] != c.released {
			t.Errorf("%s: frames of priorities 3 and 4 left after %v and %v, want %v and %v", what, got[3], got[4], c.released, c.begins)
		}
	}
	if n, us := a.counter("rx_prio3_pause"), a.counter("rx_prio3_pause_duration"); n != 6 || us != uint64((2*hold+300*time.Microsecond).Microseconds()) {
		t.Errorf("%d PFC frames, %d us", n, us)
	}
}

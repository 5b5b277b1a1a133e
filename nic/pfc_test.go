package nic

import (
	"testing"
	"time"

	"tapir/nic/buf"
	"tapir/nic/dcb"
	"tapir/nic/fastlinq"
	"tapir/nic/fastlinq/mfw"
	"tapir/nic/nicdrop"
	"tapir/nic/port"
	"tapir/nic/settings"
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

// Between a fast sender and a NIC whose operating system is slow no frame is lost if both have
// PFC: what fills a receive queue stops the sender's priority, and what drains it lets it go on.
func TestPFCLosesNothing(t *testing.T) {
	for _, on := range []bool{true, false} {
		d := settings.DCB{}
		if on {
			d.PFC = 1 << 0
		}
		e := newEthernetHost(t, Config{DCB: d})
		slow := &hostSide{w: e.w, held: e.h.held}
		n := &node{w: e.w, room: 64}
		e.w.attach(n, Config{Name: "nic1", Addrs: prefixes("10.0.0.3/24"), DCB: d,
			Hardware: &fastlinq.Config{Ethernet: fastlinq.Ethernet{RxRing: 128}}}, Env{Pool: e.w.pool, Wire: n, Host: slowHost{slow}, Reserver: slow})
		n.dev.LinkUp(e.w.now)
		if err := n.dev.Set(Setting{"partner_pause", "none"}); err != nil {
			t.Fatal(err)
		}
		e.s.mac = n.dev.cfg.MAC // to whom flood sends
		e.w.run(time.Millisecond)
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
		if on && (n.counter("tx_prio0_pause") < 3 || n.counter("tx_prio0_pause") != e.n.counter("rx_prio0_pause")) {
			t.Errorf("%d PFC frames, %d received", n.counter("tx_prio0_pause"), e.n.counter("rx_prio0_pause"))
		}
	}
}

// With DCBX in use its outcome takes the place of prio_pfc; without, prio_pfc is back.
func TestDCBXBeforeSettings(t *testing.T) {
	e := newDCB(t, func(d *settings.DCB) { d.PFC = 1 << 2 })
	for _, c := range []struct {
		set  string
		held [8]bool
	}{
		{"dcbx=off", [8]bool{2: true}},
		{"dcbx=ieee dcbx_static=1 pfc_prio=3", [8]bool{3: true}},
		{"pfc_prio=3,5", [8]bool{3: true, 5: true}},
		{"dscp_prio=8:3", [8]bool{0: true, 3: true, 5: true}}, // below: DSCP 8 of packets without a tag
		{"dcbx=off", [8]bool{2: true}},
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
	c := Config{Hardware: &fastlinq.Config{}, DCB: settings.DCB{Config: dcb.Config{Weight: [8]uint8{30}, TSA: [8]dcb.TSA{dcb.ETS}}}}
	c = c.withDefaults()
	if err := c.validate(); err == nil || err.Error() != "tc_bw: the weights of the ETS classes have the sum 30, not 100" {
		t.Errorf("%v", err)
	}
	_, err := New(Config{Name: "n", Hardware: &fastlinq.Config{}, DCB: settings.DCB{TrustDSCP: true}},
		Env{Pool: buf.NewPool(64, 0), Wire: sink{}, Line: new(port.Line)})
	if err == nil || err.Error() != "NIC n: prio_pfc, tc_bw and trust are not for functions that share a port" {
		t.Errorf("%v", err)
	}
}

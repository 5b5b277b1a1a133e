package nic

import (
	"testing"
	"time"

	"tapir/nic/fastlinq"
	"tapir/nic/fastlinq/mfw"
	"tapir/nic/nicdrop"
	"tapir/nic/settings"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
	wirepause "tapir/wire/pause"
)

// flood has the operating system send n frames of 1000 octets.
func (e *ethernetHost) flood(n int) {
	b := append(e.frame(e.s.mac, 0, 9), make([]byte, 1000)...)[:1000]
	for range n {
		f := e.w.pool.Get(len(b))
		f.Append(b)
		e.n.dev.Receive(frame.Host, []*frame.Frame{f}, e.w.now)
	}
}

// PAUSE frames are obeyed for their quanta of 512 bit times, and 0 ends a pause.
// Those for other stations, those that nobody agreed on, and other frames for the
// MAC are counted drops that change nothing.
//
// MF-10
func TestPauseIsObeyed(t *testing.T) {
	e := newEthernetHost(t, Config{Hardware: &fastlinq.Config{Link: fastlinq.Link{Media: mfw.MediaBaseT}}})
	e.set("link_speed", "1G")
	e.set("pause", "rx")
	e.w.run(time.Millisecond)
	pause := func(quanta uint16, change func(b []byte)) {
		b := make([]byte, wirepause.Len)
		(&wirepause.Frame{Src: e.s.mac, Quanta: quanta}).Put(b)
		if change != nil {
			change(b)
		}
		f := e.w.pool.Get(len(b))
		f.Append(b)
		e.n.dev.Receive(frame.Wire, []*frame.Frame{f}, e.w.now)
	}
	delayed := func() time.Duration {
		t.Helper()
		e.n.leaving()
		at := e.w.now
		e.flood(3)
		e.w.run(time.Second / 10)
		all := e.n.leaving()
		if len(all) != 3 || all[2].System-all[0].System != 2*8192 {
			t.Fatalf("%d frames", len(all))
		}
		return time.Duration(all[0].System - frame.Stamp(at))
	}
	for _, quanta := range []uint16{1, 100, 0xffff} {
		pause(quanta, nil)
		if got, want := delayed(), time.Duration(quanta)*512; got != want {
			t.Errorf("%d quanta at 1 Gb/s: %v, want %v", quanta, got, want)
		}
	}
	own := e.n.dev.cfg.MAC
	pause(1000, func(b []byte) { copy(b, own[:]) })
	pause(2000, nil) // takes the place of the first
	if got := delayed(); got != 2000*512*time.Nanosecond {
		t.Errorf("a second pause: %v", got)
	}
	pause(2000, nil)
	pause(0, nil)
	if got := delayed(); got != 0 {
		t.Errorf("after 0 quanta: %v", got)
	}
	if got, paused := e.n.counter("rx_pause_frames"), e.n.counter("tx_pause_duration"); got != 7 || paused < 34_000 {
		t.Errorf("%d frames, %d us", got, paused)
	}
	for _, c := range []struct {
		reason frame.DropReason
		change func(b []byte)
	}{
		{nicdrop.Pause, func(b []byte) { copy(b, ether.Broadcast[:]) }},
		{nicdrop.Pause, func(b []byte) { b[5] = 2 }},
		{nicdrop.MACControl, func(b []byte) { b[15] = 7 }},
	} {
		before := e.n.dev.Drops()
		if pause(0xffff, c.change); delayed() != 0 {
			t.Errorf("%v: obeyed", c.reason)
		}
		if after := e.n.dev.Drops(); after[c.reason] != before[c.reason]+1 {
			t.Errorf("%v: not counted", c.reason)
		}
	}
	e.set("pause", "tx")
	e.w.run(time.Millisecond)
	if pause(0xffff, nil); delayed() != 0 || e.n.dev.Drops()[nicdrop.PauseOff] != 1 {
		t.Error("obeyed without agreement")
	}
}

// slowHost takes as many frames as it has room for.
type slowHost struct{ *hostSide }

func (h slowHost) Transmit(f *frame.Frame) {
	h.room--
	h.hostSide.Transmit(f)
}

// slowNIC is a NIC with a short receive queue, to which e sends from now on. Its operating system
// takes a frame for each of the slow side's room.
func (e *ethernetHost) slowNIC(d settings.DCB) (n *node, slow *hostSide) {
	slow = &hostSide{w: e.w, held: e.h.held}
	n = &node{w: e.w, room: 64}
	e.w.attach(n, Config{Name: "nic1", Addrs: prefixes("10.0.0.3/24"), DCB: d,
		Hardware: &fastlinq.Config{Ethernet: fastlinq.Ethernet{RxRing: 128}}},
		Env{Pool: e.w.pool, Wire: n, Host: slowHost{slow}, Reserver: slow})
	n.dev.LinkUp(e.w.now)
	e.s.mac = n.dev.cfg.MAC
	e.w.run(time.Millisecond)
	return n, slow
}

// Between a fast sender and a NIC whose operating system is slow no frame is lost
// where the two agree on PAUSE, and some are where they do not: what fills a
// receive queue stops the sender, and what drains it lets it go on.
//
// MF-10
func TestPauseLosesNothing(t *testing.T) {
	for _, c := range []struct {
		set      []string
		lossless bool
	}{{[]string{"pause", "auto"}, true}, {[]string{"pause", "none"}, false}, {[]string{"pause", "rx"}, false},
		{[]string{"partner_pause", "none"}, false}} {
		pause, lossless := c.set[1], c.lossless
		e := newEthernetHost(t, Config{})
		n, slow := e.slowNIC(settings.DCB{})
		if err := n.dev.Set(Setting{c.set[0], pause}); err != nil {
			t.Fatal(err)
		}
		const frames = 1200
		for left := frames; left > 0 || len(slow.got) < frames && e.w.now < frame.Time(time.Hour+time.Second); {
			k := min(left, 200-e.n.dev.Netdev(0).Waiting(), 20)
			e.flood(k)
			left -= k
			slow.room = 1
			e.w.run(20 * time.Microsecond)
			slow.room = 0
		}
		lost := n.dev.Drops()[drop.HostQueue]
		if lossless != (lost == 0) || lossless && len(slow.got) != frames {
			t.Errorf("%s: %d frames lost, %d of %d arrived", pause, lost, len(slow.got), frames)
		}
		if sent, got := n.counter("tx_pause_frames"), e.n.counter("rx_pause_frames"); lossless != (sent > 2) || sent != got {
			t.Errorf("%s: %d PAUSE frames, %d received", pause, sent, got)
		}
	}
}

// A NIC whose operating system reads nothing pauses the other end for pfc_prevention_tout at
// most, by PAUSE or PFC: it warns after 85 % of that, and then drops what it has no room for.
// Once its queues are empty it may pause again. Without the setting the pause does not end.
func TestPauseStorm(t *testing.T) {
	const limit = 100 * time.Millisecond
	for _, pfc := range []bool{false, true} {
		for _, on := range []bool{true, false} {
			d := settings.DCB{}
			if pfc {
				d.PFC = 1 << 0
			}
			e := newEthernetHost(t, Config{DCB: d})
			if on {
				d.PauseLimit = limit
			}
			n, dead := e.slowNIC(d)
			fill := func() {
				for range 40 {
					e.flood(20)
					e.w.run(100 * time.Microsecond)
				}
			}
			events := func(name string) uint64 {
				if !on {
					return 0
				}
				return n.counter("tx_pause_storm_" + name + "_events")
			}
			lost := func() uint64 { return n.dev.Drops()[drop.HostQueue] }

			fill()
			e.w.run(80 * time.Millisecond)
			if lost() != 0 || events("warning") != 0 {
				t.Errorf("pfc %v, limit %v: %d frames lost, %d warnings after 80 ms", pfc, on, lost(), events("warning"))
			}
			e.w.run(10 * time.Millisecond)
			warned := uint64(0)
			if on {
				warned = 1
			}
			if events("warning") != warned || events("error") != 0 {
				t.Errorf("pfc %v, limit %v: %d warnings, %d storms after 90 ms", pfc, on, events("warning"), events("error"))
			}
			e.w.run(20 * time.Millisecond)
			fill()
			if events("error") != warned || on != (lost() > 0) {
				t.Errorf("pfc %v, limit %v: %d storms, %d frames lost", pfc, on, events("error"), lost())
			}
			dead.room = 1 << 20
			e.w.run(10 * time.Millisecond)
			dead.room = 0
			before := lost()
			for range 5 {
				e.flood(20)
				e.w.run(100 * time.Microsecond)
			}
			e.w.run(80 * time.Millisecond)
			if lost() != before || events("error") != warned {
				t.Errorf("pfc %v, limit %v: %d frames lost in the next pause", pfc, on, lost()-before)
			}
		}
	}
}

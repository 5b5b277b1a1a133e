package nic

import (
	"testing"
	"time"

	"tapir/nic/fastlinq"
	"tapir/nic/fastlinq/mfw"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/tcp"
)

// leaving are the frames of more than 500 octets that left by the wire, each with
// its time, since the last call.
func (n *node) leaving() (list []frame.Record) {
	for _, r := range n.all {
		if r.Port == frame.Wire && r.Dir == frame.Outbound && r.Drop == frame.DropNone && len(r.Data) > 500 {
			list = append(list, r)
		}
	}
	n.all = nil
	return list
}

// What the operating system sends leaves at the speed of the link: one frame at a
// time, with exact gaps. What the queue has no room for is dropped with a reason.
// At the default speed nothing waits. The rate of a vport gives exact gaps, too.
//
// MF-14 L2-25 XX-08
func TestLinkSpeedPaces(t *testing.T) {
	const octets = 1000
	for _, c := range []struct {
		name, set  string
		mbps, more int // octets of a frame beside its own
	}{{"link_speed", "10M", 10, 24}, {"link_speed", "100M", 100, 24}, {"link_speed", "1G", 1000, 24},
		{"link_speed", "10G", 10_000, 24}, {"partner_speeds", "1G", 1000, 24}, {"tx_maxrate", "80", 80, 0}} {
		set, mbps := c.set, c.mbps
		e := newEthernetHost(t, Config{Hardware: &fastlinq.Config{Link: fastlinq.Link{Media: mfw.MediaBaseT}}})
		e.set(c.name, set)
		e.w.run(time.Millisecond)
		e.n.leaving()
		frames := min(mbps, 200)
		b := append(e.frame(e.s.mac, 0, 9), make([]byte, octets)...)[:octets]
		for range frames {
			f := e.w.pool.Get(octets)
			f.Append(b)
			e.n.dev.Receive(frame.Host, []*frame.Frame{f}, e.w.now)
		}
		e.w.run(20 * time.Millisecond)
		all := e.n.leaving()
		if len(all) != frames {
			t.Errorf("%s: %d frames of %d", set, len(all), frames)
		}
		gap := frame.Stamp((octets + c.more) * 8000 / mbps)
		for i := range all[1:] {
			if got := all[i+1].System - all[i].System; got < gap || got > gap+1 {
				t.Fatalf("%s: %d ns after frame %d, want %d", set, got, i, gap)
			}
		}
		for range 20_000 { // more than the queue holds
			f := e.w.pool.Get(octets)
			if f == nil {
				break
			}
			f.Append(b)
			e.n.dev.Receive(frame.Host, []*frame.Frame{f}, e.w.now)
		}
		if n := e.n.dev.Drops(); n[drop.TxQueue] == 0 {
			t.Errorf("%s: a queue without a bound", set)
		}
	}
	e := newEthernetHost(t, Config{})
	for range 50 {
		e.out(append(e.frame(e.s.mac, 0, 9), make([]byte, octets)...))
		if all := e.n.leaving(); len(all) != 1 || e.n.dev.Poll(e.w.now) == e.w.now {
			t.Fatalf("%d frames at the default speed", len(all))
		}
	}
}

// Below 10 Gb/s a super-frame of the operating system is cut, and its segments are
// paced; from there on it leaves when the turn of its last segment has come.
func TestLinkSpeedSuperframes(t *testing.T) {
	e := newEthernetHost(t, Config{Frames: GSO})
	h := ether.Header{Dst: e.s.mac, Src: e.n.dev.cfg.MAC, Type: ether.TypeIPv4}
	b := append(h.AppendTo(nil), segment(nic4, peer4, tcp.Header{SrcPort: 9, DstPort: 9, Flags: tcp.ACK}, make([]byte, 8000))...)
	for set, want := range map[string]struct {
		frames int
		took   time.Duration
	}{"1G": {8, 7 * 1078 * 8}, "10G": {1, 7 * 1078 * 8 / 10}} {
		e.set("link_speed", set)
		e.w.run(time.Millisecond)
		e.n.leaving()
		at := e.w.now
		f := e.w.pool.Get(len(b))
		f.Append(b)
		f.Offload = frame.Offload{GSO: frame.GSOTCPv4, GSOSize: 1000, NeedsCsum: true, CsumStart: 34, CsumOffset: 16, HdrLen: 54}
		e.n.dev.Receive(frame.Host, []*frame.Frame{f}, at)
		e.w.run(time.Millisecond)
		all := e.n.leaving()
		if len(all) != want.frames {
			t.Fatalf("%s: %d frames, want %d", set, len(all), want.frames)
		}
		if took := time.Duration(all[len(all)-1].System - frame.Stamp(at)); took < want.took || took > want.took+8 {
			t.Errorf("%s: the last segment leaves after %v, want %v", set, took, want.took)
		}
	}
}

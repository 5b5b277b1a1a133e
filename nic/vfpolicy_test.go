package nic

import (
	"encoding/binary"
	"runtime"
	"testing"
	"time"

	"tapir/nic/fastlinq"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// set changes a VF as tapir vf set does.
func (r *vfRig) set(vf int, words ...string) {
	r.t.Helper()
	s, err := fastlinq.ParseVFSet(words)
	if err == nil {
		err = s.Apply(r.b.IOV(), vf)
	}
	if err != nil {
		r.t.Errorf("vf %d %v: %v", vf, words, err)
	}
	r.run(0)
}

// What a VF sends with the address of another station is dropped and counted, and no
// frame leaks; what it sends as itself passes.
//
// IO-29
func TestVFSpoofing(t *testing.T) {
	r := newVFs(t, Config{}, fastlinq.SRIOV{}, 2)
	forged := vfFrame(r.mac[1], ether.Addr{2, 6, 6, 6, 6, 6}, 0)
	if r.send(0, forged); r.where() != 1<<1 {
		t.Error("without a check a frame does not pass")
	}
	r.set(0, "spoofchk", "on")
	for range 100_000 {
		r.send(0, forged)
	}
	if got := r.where(); got != 0 || r.counter("vf0_tx_spoofed") != 100_000 || r.counter("vf1_tx_spoofed") != 0 {
		t.Errorf("leaks to %#x; %d are counted", got, r.counter("vf0_tx_spoofed"))
	}
	if r.send(0, vfFrame(r.mac[1], r.mac[0], 0)); r.where() != 1<<1 {
		t.Error("its own frame does not pass")
	}
	r.send(0, vfFrame(ether.Broadcast, ether.Addr{2, 6, 6, 6, 6, 6}, 0))
	r.set(0, "spoofchk", "off")
	if r.send(0, forged); r.where() != 1<<1 {
		t.Error("the check goes on")
	}
}

// The address that the PF sets is the VF's, which a driver cannot change unless it is
// trusted.
//
// IO-27 IO-28
func TestVFForcedMAC(t *testing.T) {
	r := newVFs(t, Config{}, fastlinq.SRIOV{}, 2)
	v, old := r.b.VFs()[0], r.mac[0]
	own, set := ether.Addr{2, 0, 0, 0, 0, 7}, ether.Addr{2, 0, 0, 0, 0, 5}
	to := func(a ether.Addr) bool { r.send(1, vfFrame(a, r.mac[1], 0)); return r.where()&1 != 0 }
	if err := v.SetMAC(own); err != nil || !to(own) || to(old) {
		t.Errorf("a free VF does not choose its address: %v", err)
	}
	r.set(0, "mac", set.String())
	if r.mac[0] != set || v.MAC() != set || !to(set) || to(own) {
		t.Errorf("the PF's address is not the VF's: %v", r.mac[0])
	}
	if err := v.SetMAC(own); err == nil || to(own) || !to(set) {
		t.Errorf("another address than that of the PF: %v", err)
	}
	r.set(0, "trust", "on")
	if err := v.SetMAC(own); err != nil || !to(own) {
		t.Errorf("a trusted VF does not choose: %v", err)
	}
	if row := r.b.Show()[0]; row.Address != own {
		t.Errorf("shown: %+v", row)
	}
}

// Frames of a VF with a VLAN have its tag on the wire and none at the VF, and stay among
// those of that VLAN.
//
// IO-27
func TestVFForcedVLAN(t *testing.T) {
	r := newVFs(t, Config{}, fastlinq.SRIOV{}, 3)
	peer := ether.Addr{2, 9, 9, 9, 9, 9}
	r.set(0, "vlan", "100", "qos", "3")
	r.set(1, "vlan", "100")
	r.set(2, "vlan", "200")
	r.send(0, vfFrame(peer, r.mac[0], 0))
	if got := r.wire.take(); len(got) != 1 || binary.BigEndian.Uint32(got[0][12:]) != 0x8100_6064 {
		t.Errorf("on the wire: % x", got)
	}
	r.send(0, vfFrame(r.mac[1], r.mac[0], 0))
	if got := r.vfs[1].take(); len(got) != 1 || string(got[0]) != string(vfFrame(r.mac[1], r.mac[0], 0)) {
		t.Errorf("at a VF of the VLAN: % x", got)
	}
	r.clear()
	for _, c := range []struct {
		name string
		from int
		b    []byte
		want uint32
	}{
		{"a VF of another VLAN", 0, vfFrame(r.mac[2], r.mac[0], 0), 1 << 31},
		{"a broadcast", 0, vfFrame(ether.Broadcast, r.mac[0], 0), 1<<1 | 1<<30 | 1<<31},
		{"a frame with a tag", 0, vfFrame(peer, r.mac[0], 5), 0},
		{"the wire, with the VLAN", -1, vfFrame(r.mac[2], peer, 200), 1 << 2},
		{"the wire, with another", -1, vfFrame(r.mac[2], peer, 100), 0},
		{"the wire, without", -1, vfFrame(r.mac[2], peer, 0), 0},
	} {
		r.send(c.from, c.b)
		if got := r.where() &^ (1 << 30); got != c.want&^(1<<30) {
			t.Errorf("%s: %#x, want %#x", c.name, got, c.want)
		}
	}
	r.set(2, "vlan", "0")
	if r.send(-1, vfFrame(r.mac[2], peer, 0)); r.where() != 1<<2 {
		t.Error("without a VLAN again a frame is not received")
	}
}

// Promiscuous is who asks for it and is trusted.
//
// IO-28
func TestVFTrust(t *testing.T) {
	r := newVFs(t, Config{}, fastlinq.SRIOV{}, 2)
	stranger := vfFrame(ether.Addr{2, 3, 3, 3, 3, 3}, ether.Addr{2, 9, 9, 9, 9, 9}, 0)
	hears := func() bool { r.send(-1, stranger); return r.where()&1 != 0 }
	if err := r.b.VFs()[0].SetMode(true, true); err != nil || hears() {
		t.Errorf("a VF that is not trusted hears all: %v", err)
	}
	if r.set(0, "trust", "on"); !hears() {
		t.Error("a trusted VF does not")
	}
	if r.set(0, "trust", "off"); hears() {
		t.Error("one that is trusted no more does")
	}
}

// The link of VFs follows the cable or is forced; with the cable out those whose link is
// forced up reach each other.
//
// IO-22 IO-26
func TestVFLinkState(t *testing.T) {
	r := newVFs(t, Config{}, fastlinq.SRIOV{}, 3)
	if !r.vfs[0].up || !r.vfs[1].up {
		t.Fatal("the link is down")
	}
	r.set(2, "state", "disable")
	if r.vfs[2].up {
		t.Error("a link that is disabled is up")
	}
	r.dev.LinkDown(r.w.now)
	r.run(time.Millisecond)
	if r.vfs[0].up || r.vfs[1].up {
		t.Error("the cable is out, and the link up")
	}
	r.set(0, "state", "enable")
	r.set(1, "state", "enable")
	if !r.vfs[0].up || !r.vfs[1].up {
		t.Error("a link that is enabled is down")
	}
	r.clear()
	r.send(0, vfFrame(r.mac[1], r.mac[0], 0))
	r.send(1, vfFrame(ether.Addr{2, 9, 9, 9, 9, 9}, r.mac[1], 0))
	if got := r.where(); got != 1<<1 {
		t.Errorf("with the cable out: %#x", got)
	}
	r.dev.LinkUp(r.w.now)
	r.set(0, "state", "auto")
	if r.run(time.Millisecond); !r.vfs[0].up || r.vfs[2].up {
		t.Error("after the cable is in again")
	}
}

// A reset VF has nothing of its life before, comes back by itself, and others lose no
// frame.
//
// IO-24
func TestVFReset(t *testing.T) {
	r := newVFs(t, Config{}, fastlinq.SRIOV{}, 3)
	queue := func(from int, b []byte) {
		f := r.w.pool.Get(len(b))
		f.Append(b)
		r.b.Receive(fastlinq.VFHostPort+frame.Port(from), []*frame.Frame{f}, r.w.now)
	}
	for range 50 { // of the old life, in the queues both ways
		queue(0, vfFrame(r.mac[1], r.mac[0], 0))
		queue(2, vfFrame(r.mac[1], r.mac[2], 0))
	}
	r.vfs[0].room = 0
	for range 20 {
		queue(1, vfFrame(r.mac[0], r.mac[1], 0))
	}
	if err := r.b.FLR(0, r.w.now); err != nil {
		t.Fatal(err)
	}
	r.vfs[0].room = 64
	r.run(50 * time.Millisecond)
	if got := len(r.vfs[1].take()); got != 50 || len(r.vfs[0].take()) != 0 || r.vfs[0].up {
		t.Errorf("%d frames arrive of the 50 of another VF", got)
	}
	r.clear()
	r.send(0, vfFrame(r.mac[1], r.mac[0], 0))
	if got := r.where(); got != 0 {
		t.Errorf("a VF that is being reset sends to %#x", got)
	}
	r.run(100 * time.Millisecond)
	if r.send(0, vfFrame(r.mac[1], r.mac[0], 0)); r.where() != 1<<1 || !r.vfs[0].up {
		t.Error("the VF does not come back")
	}
	if r.send(1, vfFrame(r.mac[0], r.mac[1], 0)); r.where() != 1<<0 {
		t.Error("the VF receives nothing")
	}
}

// saturate has VFs, and the PF if -2 is among them, send to the cable as fast as they can, and
// returns the octets of each.
func (r *vfRig) saturate(d time.Duration, vfs ...int) (octets map[ether.Addr]int) {
	octets = map[ether.Addr]int{}
	peer, end := ether.Addr{2, 9, 9, 9, 9, 9}, r.w.now.Add(d)
	for r.w.now < end {
		for _, vf := range vfs {
			port, src := frame.Host, r.dev.cfg.MAC
			more := func(n int) bool { return n < 20 }
			if vf >= 0 {
				port, src = fastlinq.VFHostPort+frame.Port(vf), r.mac[vf]
				more = func(int) bool { return r.b.VFs()[vf].Waiting() < 20 }
			}
			for n := 0; more(n); n++ {
				b := append(vfFrame(peer, src, 0), make([]byte, 1454)...)
				f := r.w.pool.Get(len(b))
				f.Append(b)
				r.b.Receive(port, []*frame.Frame{f}, r.w.now)
			}
		}
		r.run(100 * time.Microsecond)
		for _, b := range r.wire.take() {
			octets[ether.Addr(b[6:12])] += len(b)
		}
	}
	return octets
}

// A VF sends no more than its rate, and no less than what it is promised when others
// want the port.
//
// IO-30
func TestVFRates(t *testing.T) {
	r := newVFs(t, Config{}, fastlinq.SRIOV{}, 3)
	if err := r.dev.Set(Setting{"link_speed", "1G"}); err != nil {
		t.Fatal(err)
	}
	r.run(5 * time.Millisecond)
	r.clear()
	r.set(0, "max_tx_rate", "200")
	if got := r.saturate(100*time.Millisecond, 0)[r.mac[0]] * 8 / 100_000; got < 194 || got > 206 {
		t.Errorf("200 Mb/s: %d", got)
	}
	r.set(0, "max_tx_rate", "0")
	got := r.saturate(100*time.Millisecond, 0, 1, 2)
	all := got[r.mac[0]] + got[r.mac[1]] + got[r.mac[2]]
	if all*8/100_000 < 940 || got[r.mac[0]]*100/all < 30 || got[r.mac[0]]*100/all > 37 {
		t.Errorf("three VFs share %d octets: %v", all, got)
	}
	r.set(0, "min_tx_rate", "600")
	got = r.saturate(100*time.Millisecond, 0, 1, 2)
	all = got[r.mac[0]] + got[r.mac[1]] + got[r.mac[2]]
	if share := got[r.mac[0]] * 100 / all; share < 60 || share > 72 { // of what the PF leaves, too
		t.Errorf("with 600 of 1000 Mb/s a VF gets %d percent", share)
	}
	if one, other := got[r.mac[1]], got[r.mac[2]]; one < other*9/10 || one > other*11/10 {
		t.Errorf("others do not share alike: %d and %d", one, other)
	}
	own := r.dev.cfg.MAC
	got = r.saturate(100*time.Millisecond, 0, 1, 2, -2) // the PF, too, wants the port
	all = got[own] + got[r.mac[0]] + got[r.mac[1]] + got[r.mac[2]]
	for _, c := range []struct {
		of   ether.Addr
		want int
	}{{r.mac[0], 60}, {r.mac[1], 13}, {r.mac[2], 13}, {own, 13}} {
		if share := got[c.of] * 100 / all; share < c.want-5 || share > c.want+5 {
			t.Errorf("of a port that all want %v gets %d percent, want %d", c.of, share, c.want)
		}
	}
	r.set(0, "min_tx_rate", "0")
	got = r.saturate(100*time.Millisecond, 0, 1, 2)
	if share := got[r.mac[0]] * 100 / (got[r.mac[0]] + got[r.mac[1]] + got[r.mac[2]]); share < 30 || share > 37 {
		t.Errorf("without a promise %d percent", share)
	}
}

// With VEPA a frame between VFs leaves by the port, and what a switch there sends back
// comes in, but for groups at their sender.
//
// IO-26
func TestVEPA(t *testing.T) {
	r := newVFs(t, Config{}, fastlinq.SRIOV{VEPA: true}, 2)
	b := vfFrame(r.mac[1], r.mac[0], 0)
	if r.send(0, b); r.where() != 1<<31 {
		t.Error("a frame between VFs stays inside")
	}
	if r.send(-1, b); r.where() != 1<<1 {
		t.Error("a frame that comes back is not received")
	}
	r.send(-1, vfFrame(ether.Broadcast, r.mac[0], 0))
	if got := r.where(); got&1 != 0 {
		t.Errorf("a VF hears its own broadcast: %#x", got)
	}
}

// An idle VF takes at most 64 KiB, whatever the number.
//
// IO-05
func TestVFMemory(t *testing.T) {
	const vfs = 120
	r := newVFs(t, Config{}, fastlinq.SRIOV{Total: vfs}, 0)
	used := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := used()
	r.numVFs(vfs)
	r.run(time.Second)
	if each := (int64(used()) - int64(before)) / vfs; each > 64<<10 {
		t.Errorf("%d octets for each VF", each)
	} else {
		t.Logf("%d octets for each VF", each)
	}
	r.clear()
	if r.send(0, vfFrame(r.mac[119], r.mac[0], 0)); len(r.vfs[119].take()) != 1 {
		t.Error("the last VF is not reached")
	}
	runtime.KeepAlive(r)
}

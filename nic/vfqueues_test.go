package nic

import (
	"slices"
	"testing"
	"time"

	"tapir/nic/fastlinq"
	"tapir/nic/fastlinq/iov"
	"tapir/nic/fastlinq/iov/tlv"
	"tapir/nic/fastlinq/iov/vfdrv"
	"tapir/nic/fastlinq/l2"
	"tapir/wire/ether"
	"tapir/wire/tcp"
)

// flow is a segment of TCP for a station, of a connection that has this port.
func flow(dst ether.Addr, port uint16, octets int) []byte {
	h := ether.Header{Dst: dst, Src: vfPeer, Type: ether.TypeIPv4}
	return append(h.AppendTo(nil), segment(peer4, nic4, tcp.Header{SrcPort: port, DstPort: 80, Flags: tcp.ACK},
		make([]byte, octets))...)
}

// queuesOf sends 64 flows to a VF and tells how many came by each of its queues.
func (r *vfRig) queuesOf(vf int, mac ether.Addr, queues int) (n []int) {
	n = make([]int, queues)
	r.clear()
	for port := range uint16(64) {
		r.send(-1, flow(mac, 1000+port, 0))
	}
	r.run(time.Millisecond)
	for _, q := range r.vfs[vf].queues {
		n[q]++
	}
	return n
}

// The driver of a VF spreads flows over its queues by RSS, with the table, hashes and state that
// it asks for; query_rss shows the table with the VF's own numbers.
//
// IO-32
func TestVFRSS(t *testing.T) {
	r := newVFs(t, Config{}, fastlinq.SRIOV{Queues: 4}, 2)
	d := r.hand(1, vfdrv.Config{Want: tlv.Resources{RxQueues: 4, TxQueues: 4, Blocks: 4, MACs: 1}})
	r.ok(d.Acquire())
	mac := ether.Addr{2, 0, 0, 0, 0, 0x51}
	d.up(mac, 4)
	rss := &iov.RSS{RSSParams: l2.RSSParams{UpdateConfig: true, UpdateCaps: true, UpdateTable: true, UpdateKey: true,
		Enable: true, Hashes: l2.DefaultHash, TableLog: 7}}
	for i := range rss.Queues {
		rss.Queues[i] = i % 4
	}
	for i := range rss.Key {
		rss.Key[i] = byte(7*i + 1)
	}
	r.ok(d.VportUpdate(l2.UpdateParams{}, rss))
	if n := r.queuesOf(1, mac, 4); slices.Min(n) == 0 || n[0]+n[1]+n[2]+n[3] != 64 {
		t.Errorf("over four queues: %v", n)
	}
	for i := range rss.Queues {
		rss.Queues[i] = 2
	}
	r.ok(d.VportUpdate(l2.UpdateParams{}, rss))
	if n := r.queuesOf(1, mac, 4); n[2] != 64 {
		t.Errorf("all to queue 2: %v", n)
	}
	if _, _, err := r.b.IOV().RSSConfig(1); fastlinq.VFErrno(err) != "EPERM" {
		t.Errorf("query_rss off: %v", err)
	}
	r.set(1, "query_rss", "on")
	table, key, err := r.b.IOV().RSSConfig(1)
	if err != nil || len(table) != 128 || slices.Max(table) != 2 || slices.Min(table) != 2 || key != rss.Key {
		t.Errorf("%v: %v %x", err, table, key)
	}
	r.ok(d.VportUpdate(l2.UpdateParams{}, &iov.RSS{RSSParams: l2.RSSParams{UpdateConfig: true}}))
	if n := r.queuesOf(1, mac, 4); n[0] != 64 {
		t.Errorf("without RSS: %v", n)
	}
	r.ok(d.RxQueueStop(vfdrv.Queue{ID: 3}))
	if n := r.queuesOf(1, mac, 4); n[0] != 64 {
		t.Errorf("with a queue less: %v", n)
	}
}

// A VF receives no packet longer than its MTU, whoever sends it, and interrupts as rarely as its
// coalescing says.
//
// IO-31
func TestVFMTUAndCoalescing(t *testing.T) {
	r := newVFs(t, Config{}, fastlinq.SRIOV{}, 2)
	d := r.hand(0, vfdrv.Config{})
	r.ok(d.Acquire())
	mac := ether.Addr{2, 0, 0, 0, 0, 0x52}
	d.up(mac, 1)
	for _, c := range []struct{ mtu, octets, got int }{{1500, 1460, 1}, {1500, 1469, 0}, {9000, 8960, 1}, {1000, 1460, 0},
		{1000, 960, 1}} {
		r.ok(d.SetMTU(c.mtu))
		r.clear()
		r.send(-1, flow(mac, 1, c.octets))
		if got := len(r.vfs[0].take()); got != c.got {
			t.Errorf("MTU %d: %d frames of %d octets", c.mtu, got, c.octets)
		}
	}
	r.refused(tlv.Failure, d.SetMTU(9601))
	r.refused(tlv.Failure, d.SetCoalesce(0, 512, 0))
	r.refused(tlv.Failure, d.SetCoalesce(3, 20, 0)) // another's queue
	r.clear()
	bursts := func(us int) (n int) {
		r.ok(d.SetCoalesce(0, us, 0))
		r.run(time.Millisecond)
		for range 100 { // a frame each 10 µs
			r.send(-1, flow(mac, 1, 0))
			r.run(10 * time.Microsecond)
			if len(r.vfs[0].take()) > 0 {
				n++
			}
		}
		r.run(time.Millisecond)
		r.clear()
		return n
	}
	if often, rarely := bursts(10), bursts(400); often < 40 || rarely > 5 || rarely == 0 {
		t.Errorf("for 100 frames %d interrupts each 10 µs at most, %d each 400 µs", often, rarely)
	}
}

// What the driver of a VF learns of the PF's link follows that: speed, what was asked of it, what
// the board can do, and pause.
//
// IO-21
func TestVFGetters(t *testing.T) {
	r := newVFs(t, Config{}, fastlinq.SRIOV{}, 2)
	d := r.hand(0, vfdrv.Config{})
	r.ok(d.Acquire())
	read := func() (tlv.LinkState, int) {
		_, err := d.ReadBulletin()
		r.ok(err)
		return d.LinkState()
	}
	l, speed := read()
	p := d.LinkParams()
	if d.LinkCaps() == 0 || l.Up != 1 || l.FullDuplex != 1 || p.Autoneg != 1 || p.AdvSpeeds == 0 {
		t.Errorf("%+v at %d Mb/s, %+v, caps %#x", l, speed, p, d.LinkCaps())
	}
	version := d.Bulletin().Version
	r.setting("link_speed", "1G")
	r.run(10 * time.Millisecond)
	l, speed = read()
	now := d.LinkParams()
	if l.Up != 1 || speed != 1000 || now == p || now.Autoneg == 1 && now.AdvSpeeds == p.AdvSpeeds || d.Bulletin().Version == version {
		t.Errorf("with 1 Gb/s: %+v at %d Mb/s, %+v", l, speed, now)
	}
	r.setting("pause", "tx")
	r.run(10 * time.Millisecond)
	if read(); d.LinkParams() == now {
		t.Errorf("pause tx: %+v", d.LinkParams())
	}
	fw := d.Device()
	if fw.FWMajor == 0 || fw.PortMAC != r.dev.cfg.MAC || d.Resources().RxQueues != 1 {
		t.Errorf("%+v %+v", fw, d.Resources())
	}
}

// A VF driver from before the negotiation of versions, and one that is newer than the PF and says
// what that does not know, work; what the PF does not know is skipped.
//
// IO-15 IO-16
func TestVFDriverVersions(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  vfdrv.Config
		min  uint8
	}{
		{"old", vfdrv.Config{HSIMajor: 2, HSIMinor: 1, Capabilities: tlv.VFPreFPHSI, BulletinSize: 64}, 5},
		{"older minor", vfdrv.Config{HSIMajor: 3, HSIMinor: 7}, 7},
		{"new", vfdrv.Config{HSIMajor: 3, HSIMinor: 40, Capabilities: 0xffff_0000_0000_0000, BulletinSize: 200}, 11},
	} {
		r := newVFs(t, Config{}, fastlinq.SRIOV{}, 2)
		d := r.hand(0, c.cfg)
		r.ok(d.Acquire())
		if p := d.Device(); p.HSIMajor != 3 || p.HSIMinor != c.min {
			t.Errorf("%s: fastpath %d.%d", c.name, p.HSIMajor, p.HSIMinor)
		}
		mac := ether.Addr{2, 0, 0, 0, 0, 0x53}
		d.up(mac, 1)
		_, err := d.ReadBulletin()
		r.ok(err)
		if l, speed := d.LinkState(); c.cfg.BulletinSize != 64 && (l.Up != 1 || speed == 0) {
			t.Errorf("%s: %+v at %d Mb/s", c.name, l, speed)
		}
		r.passes(0, r.mac[1], mac, 1<<1)
		r.passes(1, mac, r.mac[1], 1<<0)
		future := []byte{0x99, 0x99, 12, 0, 1, 2, 3, 4, 5, 6, 7, 8}
		accept := &tlv.AcceptParam{Header: tlv.Header{Type: tlv.UpdateAcceptParam, Length: 8}, UpdateRx: 1}
		r.ok(d.Send(tlv.Request(tlv.VportUpdate, 0x10000, &tlv.First{}, future, accept)))
		r.run(0)
		r.passes(-1, mac, vfPeer, 1<<30) // the VF accepts nothing of the wire any more
		r.passes(0, r.mac[1], mac, 1<<1)
	}
}

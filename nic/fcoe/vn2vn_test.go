package fcoe

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"tapir/nic/scsi"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/fcoe"
	"tapir/wire/fip"
	"tapir/wire/frame"
)

// pair are an initiator and a target with VN2VN.
func pair(t *testing.T, size int64) (w *world, i, d *station) {
	w = newWorld(t)
	d = w.node(1, Config{VN2VN: true, Ports: []PortConfig{{Units: []*scsi.Unit{disk(t, size)}}}})
	i = w.node(2, Config{VN2VN: true, Ports: []PortConfig{{Initiator: true}}})
	d.Start(w.now)
	i.Start(w.now)
	w.run(3*time.Second, func() bool { return i.target() != nil })
	for range 5 { // the unit tells that it is new
		q := &Request{} // TEST UNIT READY
		if i.command(q).Status == scsi.Good {
			return w, i, d
		}
	}
	t.Fatal("the unit is not ready")
	return w, i, d
}

func TestVN2VNJoinsAsTheStandardSays(t *testing.T) {
	w := newWorld(t)
	s := w.node(1, Config{VN2VN: true, Ports: []PortConfig{{Initiator: true}}})
	begun := w.now
	type sent struct {
		op fip.Op
		at time.Duration
	}
	var got []sent
	w.hear = func(h ether.Header, body []byte) {
		m, err := fip.Parse(body)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, sent{m.Op, w.now.Sub(begun) - delay})
	}
	s.Start(w.now)
	w.pass(8 * time.Second)
	want := []sent{{fip.ProbeRequest, 0}, {fip.ProbeRequest, probeWait}, {fip.ClaimNotify, probeWait + announceWait},
		{fip.Beacon, probeWait + 2*announceWait}}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Whichever node comes first, and however much later the other one, they are logged in as soon as the standard's
// waits are over: none begins with a neighbor that has not joined.
func TestFirstLogin(t *testing.T) {
	for after := time.Duration(0); after < 2*time.Second; after += 137 * time.Millisecond {
		for _, first := range []byte{1, 2} {
			w := newWorld(t)
			a := w.node(first, Config{VN2VN: true, Ports: []PortConfig{{Initiator: true}}})
			b := w.node(3-first, Config{VN2VN: true, Ports: []PortConfig{{Initiator: true}}})
			a.Start(w.now)
			w.pass(after)
			from := w.now
			b.Start(w.now)
			ready := func(s *station) bool {
				r := s.Node.ports[0].remotes
				return len(r) > 0 && r[0].State() >= loggedIn
			}
			w.run(time.Minute, func() bool { return ready(a) && ready(b) })
			failed := a.stats[LoginFailures] + b.stats[LoginFailures]
			if d := w.now.Sub(from); d > probeWait+2*announceWait+time.Millisecond || failed > 0 {
				t.Errorf("node %d first, the other %v later: %v, %d failures", first, after, d, failed)
			}
		}
	}
}

func TestReadsAndWrites(t *testing.T) {
	w, i, d := pair(t, 16<<20)
	for lba := uint32(0); lba < 4096; lba += 512 {
		if q := i.command(rw(0x8a, lba, 256<<10)); q.Err != nil || q.Status != scsi.Good {
			t.Fatal(q.Err, q.Status, q.Sense)
		}
	}
	for lba := uint32(0); lba < 4096; lba += 512 {
		q := i.command(rw(0x88, lba, 256<<10))
		if q.Err != nil || q.Status != scsi.Good || !bytes.Equal(q.In, rw(0x8a, lba, 256<<10).Out) {
			t.Fatal(lba, q.Err, q.Status)
		}
	}
	if n := i.stats[Retries] + i.stats[Timeouts] + i.stats[Dropped] + d.stats[Dropped]; n > 0 {
		t.Errorf("%v %v", i.stats, d.stats)
	}
	i.Stop(w.now)
	w.run(time.Second, func() bool { return d.stats[LogoutsReceived] > 0 })
	if d.tasks != 0 || d.held != 0 {
		t.Errorf("%d tasks, %d octets are left", d.tasks, d.held)
	}
}

// One frame in a hundred has a wrong CRC: that is counted, commands are repeated, and no
// octet is wrong.
func TestCRCErrors(t *testing.T) {
	w, i, d := pair(t, 4<<20)
	n := 0
	w.spoil = func(h ether.Header, body []byte) bool {
		if h.Type == fcoe.EtherType {
			if n++; n%100 == 0 {
				body[len(body)/2] ^= 1
			}
		}
		return false
	}
	for lba := uint32(0); lba < 4096; lba += 64 {
		if q := i.command(rw(0x8a, lba, 32<<10)); q.Err != nil || q.Status != scsi.Good {
			t.Fatal(q.Err, q.Status, q.Sense)
		}
	}
	for lba := uint32(0); lba < 4096; lba += 64 {
		if q := i.command(rw(0x88, lba, 32<<10)); q.Err != nil || !bytes.Equal(q.In, rw(0x8a, lba, 32<<10).Out) {
			t.Fatal(lba, q.Err, q.Status)
		}
	}
	bad := i.stats[CRCErrors] + d.stats[CRCErrors]
	if bad != uint64(n/100) || i.stats[Retries] == 0 || i.drops[drop.FCCRC]+d.drops[drop.FCCRC] != int(bad) {
		t.Errorf("%d frames, %d wrong, %d retries, drops %v %v", n, bad, i.stats[Retries], i.drops, d.drops)
	}
	t.Logf("%d frames, %d wrong, %d retries, %d aborts", n, bad, i.stats[Retries], i.stats[AbortsSent])
}

// A neighbor whose beacons stop is gone 2.5 beacon periods after the last one.
func TestBeaconsStop(t *testing.T) {
	w, i, d := pair(t, 1<<20)
	last := w.now
	w.spoil = func(h ether.Header, body []byte) bool {
		if m, err := fip.Parse(body); err == nil && m.Op == fip.Beacon && h.Src == d.Node.ports[0].mac {
			last = w.now
		}
		return false
	}
	w.pass(20 * time.Second)
	d.cut = true
	gone := len(i.changed)
	w.run(time.Minute, func() bool { return len(i.changed) > gone })
	if got := w.now.Sub(last); got != beaconLost || i.stats[NeighborsLost] != 1 {
		t.Errorf("lost after %v, want %v", got, beaconLost)
	}
	d.cut = false
	w.run(20*time.Second, func() bool { return i.target() != nil })
}

// Two nodes that want the same identifier get different ones.
func TestCollision(t *testing.T) {
	w := newWorld(t)
	a := w.node(1, Config{VN2VN: true, Ports: []PortConfig{{Initiator: true}}})
	b := w.node(2, Config{VN2VN: true, Ports: []PortConfig{{Units: []*scsi.Unit{disk(t, 1<<20)}}}})
	b.cfg.MAC[4], b.cfg.MAC[5] = a.mac[4], a.mac[5] // the identifier follows from these
	b.cfg.MAC[0], b.mac = 6, ether.Addr{6, 0, 0, 0, 0, 1}
	a.Start(w.now)
	b.Start(w.now)
	w.run(5*time.Second, func() bool { return a.target() != nil })
	if a.ports[0].id == b.ports[0].id || a.stats[Collisions]+b.stats[Collisions] != 1 {
		t.Errorf("%v and %v, %d and %d collisions", a.ports[0].id, b.ports[0].id, a.stats[Collisions], b.stats[Collisions])
	}
}

func FuzzReceive(f *testing.F) {
	for _, vn := range []bool{true, false} {
		m := fip.Message{Op: fip.ClaimNotify}
		m.Set(fip.MAC, fip.Name, fip.VNPort, fip.Features, fip.MaxSize)
		f.Add(vn, true, m.AppendTo(nil))
		f.Add(vn, false, make([]byte, 100))
	}
	f.Fuzz(func(t *testing.T, vn, isFIP bool, body []byte) {
		w := newWorld(t)
		s := w.node(1, Config{VN2VN: vn, Ports: []PortConfig{{Units: []*scsi.Unit{disk(t, 1<<20)}, Initiator: true}}})
		s.Start(w.now)
		w.pass(2 * time.Second)
		h := ether.Header{Src: ether.Addr{2, 9}, Dst: s.mac, Type: fcoe.EtherType}
		if isFIP {
			h.Type = fip.EtherType
		} else if len(s.groups) > 1 {
			h.Dst = s.groups[1]
		}
		s.Receive(h, body, w.now)
		w.pass(2 * time.Second)
		s.Stop(w.now)
		s.Poll(w.now)
		_ = frame.Never
	})
}

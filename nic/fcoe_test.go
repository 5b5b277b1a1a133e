package nic

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"tapir/nic/dcb"
	"tapir/nic/fcoe"
	"tapir/nic/hardware"
	"tapir/nic/ideal"
	"tapir/nic/scsi"
	"tapir/wire/ether"
	"tapir/wire/fip"
	"tapir/wire/frame"

	wire "tapir/wire/fcoe"
)

// storage makes a NIC of personality fcoe.
func (w *world) storage(name string, hw hardware.Config, mtu int) *node {
	cfg := Config{Name: name, MTU: mtu, Hardware: hw}
	if err := cfg.Param("personality").Set("fcoe"); err != nil {
		w.t.Fatal(err)
	}
	n := w.nic(cfg)
	n.dev.LinkUp(w.now)
	return n
}

// memoryUnit is a disk in memory.
func memoryUnit(t *testing.T, size int64) *scsi.Unit {
	u, err := scsi.New(scsi.Config{Size: size, Block: 512, Physical: 512, Serial: "disk", Store: scsi.NewMemory(size)})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// target is the target that a node is logged in to.
func target(n *fcoe.Node) (r *fcoe.Remote) {
	for _, o := range n.Port(0).Remotes() {
		if o.State() == fcoe.Ready && o.Target() {
			r = o
		}
	}
	return r
}

// blocks is a READ(16) or WRITE(16) from the first block on.
func (w *world) blocks(r *fcoe.Remote, out, in []byte) *fcoe.Request {
	w.t.Helper()
	done := false
	q := &fcoe.Request{Out: out, In: in, Done: func(*fcoe.Request, frame.Time) { done = true }}
	q.CDB[0] = 0x88
	if out != nil {
		q.CDB[0] = 0x8a
	}
	binary.BigEndian.PutUint32(q.CDB[10:], uint32(len(out)+len(in))/512)
	r.Submit(q, w.now)
	for range 100 {
		if w.run(100 * time.Millisecond); done {
			return q
		}
	}
	w.t.Fatal("the command does not end")
	return nil
}

// A NIC of either hardware writes and reads the disk of another by VN2VN: in frames that its
// MTU allows, of which the longest are full. Link down ends sessions, link up begins them, and
// the end of a node logs out.
func TestFCoE(t *testing.T) {
	for _, c := range []struct {
		name    string
		hw      func() hardware.Config
		mtu     int
		payload int
	}{
		{"fastlinq", func() hardware.Config { return usual.Clone() }, 1500, 1452},
		{"fastlinq baby jumbo", func() hardware.Config { return usual.Clone() }, 2500, 2112},
		{"ideal", func() hardware.Config { return &ideal.Config{} }, 1500, 1452},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			a, b := w.storage("a", c.hw(), c.mtu), w.storage("b", c.hw(), c.mtu)
			a.dev.FCoE.Start(fcoe.Config{VN2VN: true, Ports: []fcoe.PortConfig{{Units: []*scsi.Unit{memoryUnit(t, 1<<20)}}}},
				fcoe.Env{}, w.now)
			n := b.dev.FCoE.Start(fcoe.Config{VN2VN: true, Ports: []fcoe.PortConfig{{Initiator: true}}}, fcoe.Env{}, w.now)
			w.run(3 * time.Second)
			r := target(n)
			if r == nil {
				t.Fatalf("no session: %+v", n.Info())
			}
			want := bytes.Repeat([]byte("0123456789abcdef"), 4096)
			w.blocks(r, nil, make([]byte, 512)) // the unit tells that it is new
			if q := w.blocks(r, want, nil); q.Err != nil || q.Status != scsi.Good {
				t.Fatalf("%v, status %v", q.Err, q.Status)
			}
			if q := w.blocks(r, nil, make([]byte, len(want))); !bytes.Equal(q.In, want) {
				t.Errorf("%v, status %v: the octets differ", q.Err, q.Status)
			}
			longest := 0
			for _, r := range append(a.all, b.all...) {
				if h, n, err := ether.Parse(r.Data); err == nil && h.Type == wire.EtherType {
					longest = max(longest, len(r.Data)-n-wire.Overhead)
				}
			}
			if longest != c.payload {
				t.Errorf("%d octets in the longest frame, want %d", longest, c.payload)
			}
			b.dev.LinkDown(w.now)
			if w.run(time.Second); target(n) != nil {
				t.Error("a session without a link")
			}
			b.dev.LinkUp(w.now)
			w.run(10 * time.Second)
			if target(n) == nil {
				t.Error("no session after the link came back")
			}
			b.dev.Shutdown(w.now)
			w.run(time.Second)
			if !b.dev.Idle() || a.counter("fcoe_logouts_received") == 0 || b.dev.FCoE.Node() != nil {
				t.Errorf("%d logouts were received", a.counter("fcoe_logouts_received"))
			}
			if w.pool.Lent() != 0 {
				t.Errorf("%d frames leaked", w.pool.Lent())
			}
			if a.dev.under.Device == nil {
				return
			}
			if n := a.dev.failures() + b.dev.failures(); n > 0 {
				t.Errorf("%d failures: %v, %v", n, a.dev.lastErr(), b.dev.lastErr())
			}
			if l := a.dev.ShowLL2(); len(l) != 1 || l[0].RxPackets < 5 || l[0].TxPackets < 5 {
				t.Errorf("light L2: %+v", l)
			}
		})
	}
}

// Frames of FIP and FCoE have the priority that DCBX has given to FCoE, in a tag with VLAN 0.
func TestFCoEPriority(t *testing.T) {
	w := newWorld(t)
	n := w.storage("a", usual.Clone(), 1500)
	n.dev.Wire.SetDCB(dcb.State{FCoE: dcb.Priority{On: true, PCP: 3}}, w.now)
	n.dev.FCoE.Start(fcoe.Config{VN2VN: true, Ports: []fcoe.PortConfig{{Initiator: true}}}, fcoe.Env{}, w.now)
	w.run(time.Second)
	seen := 0
	for _, r := range n.all {
		h, _, err := ether.Parse(r.Data)
		if err != nil || h.Type != fip.EtherType {
			continue
		}
		if seen++; h.NTags != 1 || h.Tags[0].TCI != 3<<13 {
			t.Errorf("%+v", h)
		}
	}
	if seen < 3 {
		t.Errorf("%d frames of FIP", seen)
	}
}

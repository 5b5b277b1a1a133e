package nic

import (
	"encoding/binary"
	"errors"
	"syscall"
	"testing"
	"time"

	"tapir/nic/fastlinq"
	"tapir/nic/fastlinq/settings"
	"tapir/nic/npar"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/tcp"
)

// A function with two engines has VFs on its leading one. They promise no rate, and a link
// that is forced up shows 100 Gb/s.
//
// IO-07 IO-22 IO-30
func TestVFsOfTwoEngines(t *testing.T) {
	r := newVFs(t, Config{Hardware: &fastlinq.Config{Engines: 2}, Queues: 2}, fastlinq.SRIOV{}, 3)
	r.veb()
	if err := r.b.IOV().SetVFRate(0, 100, 0); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("min_tx_rate: %v", err)
	}
	r.set(0, "state", "enable")
	if i, err := r.b.IOV().VFInfo(0); err != nil || i.Link.Speed != 100_000 {
		t.Errorf("forced up: %+v %v", i.Link, err)
	}
	r.set(0, "max_tx_rate", "200")
	if got := r.saturate(100*time.Millisecond, 0)[r.mac[0]] * 8 / 100_000; got < 194 || got > 206 {
		t.Errorf("200 Mb/s: %d", got)
	}
}

// cardVFs are two functions on one port, with two VFs each.
type cardVFs struct {
	*functions
	b   [2]*fastlinq.VFBridge
	vfs [2][2]*vfEnd
}

func newCardVFs(t *testing.T, mf fastlinq.MFMode, tags [2]uint16) *cardVFs {
	x, cfgs := prepareFunctions(t, "1x25G", mf, []int{0, 0}, func(i int, c *Config) {
		c.Hardware.(*fastlinq.Config).Link = settings.Link{OVLAN: tags[i]}
	})
	c := &cardVFs{functions: x}
	for i, cfg := range cfgs {
		s := x.card.Slot(i)
		b := fastlinq.NewVFBridge(x.pool, s)
		d, err := New(cfg, Env{Pool: x.pool, Wire: b, Device: x.chip, Function: i, Line: s.Line(), Tagged: s.SetTag})
		if err == nil {
			err = fastlinq.Of(d.Hardware).OpenVFs(b, fastlinq.VFEngine{Engine: d, Wire: d.Wire}, fastlinq.SRIOV{Total: 2, Queues: 1})
		}
		if err != nil {
			t.Fatal(err)
		}
		s.Enter(b, npar.Parts{Station: &d.IP.MAC, Wire: d.Wire, Owns: b.Owns})
		x.devs = append(x.devs, d)
		d.LinkUp(x.now)
		x.rest()
		if err := b.IOV().SetNumVFs(2); err != nil {
			t.Fatal(err)
		}
		for n, v := range b.VFs() {
			c.vfs[i][n] = &vfEnd{room: 64}
			if err := v.Open(fastlinq.VFNetdev{Host: c.vfs[i][n], MTU: 1500}); err != nil {
				t.Fatal(err)
			}
		}
		c.b[i] = b
	}
	x.rest()
	return c
}

func (c *cardVFs) mac(fn, vf int) ether.Addr { return c.b[fn].VFs()[vf].MAC() }

// send sends a frame into a port of the card, and says by bit who gets it: VFs of function 0,
// those of function 1, and the cable, whose first frame it returns.
func (c *cardVFs) send(p frame.Port, b []byte) (set uint32, out []byte) {
	f := c.pool.Get(len(b))
	f.Append(b)
	c.now += frame.Time(time.Millisecond)
	c.rest()
	for i := range c.vfs {
		for _, e := range c.vfs[i] {
			e.take()
		}
	}
	c.wires[0].sent = nil
	c.card.Receive(p, []*frame.Frame{f}, c.now)
	for range 10 {
		c.rest()
		c.now += frame.Time(time.Microsecond)
	}
	for i := range c.vfs {
		for n, e := range c.vfs[i] {
			if len(e.take()) > 0 {
				set |= 1 << (2*i + n)
			}
		}
	}
	if len(c.wires[0].sent) > 0 {
		set, out = set|1<<31, c.wires[0].sent[0]
	}
	return set, out
}

// VFs of functions that share a port: of those told apart by address all reach each other
// inside; of those with an outer tag each function's reach each other, and what leaves has the
// tag.
//
// IO-07 IO-26
func TestVFsOfCards(t *testing.T) {
	for _, mode := range []struct {
		name string
		mf   fastlinq.MFMode
		tags [2]uint16
		tpid uint16
	}{{"NPAR", fastlinq.NPAR, [2]uint16{}, 0}, {"OVLAN", fastlinq.OVLAN, [2]uint16{101, 102}, ether.TypeQinQ},
		{"UFP", fastlinq.UFP, [2]uint16{101, 102}, ether.TypeVLAN}} {
		t.Run(mode.name, func(t *testing.T) {
			c := newCardVFs(t, mode.mf, mode.tags)
			tagged := mode.tags[0] != 0
			from := npar.VFPort(0)
			want := func(what string, p frame.Port, b []byte, want uint32) (out []byte) {
				t.Helper()
				got, out := c.send(p, b)
				if got != want {
					t.Errorf("%s: %#x, want %#x", what, got, want)
				}
				return out
			}
			own, other, wire := uint32(1<<1), uint32(1<<2), uint32(1<<31)
			want("VF of the function", from, vfFrame(c.mac(0, 1), c.mac(0, 0), 0), own)
			if tagged {
				other = wire
			}
			want("VF of the other", from, vfFrame(c.mac(1, 0), c.mac(0, 0), 0), other)
			all := own | wire
			if !tagged {
				all |= 1<<2 | 1<<3
			}
			out := want("all", from, vfFrame(ether.Broadcast, c.mac(0, 0), 0), all)
			if tagged && (len(out) < 16 || binary.BigEndian.Uint16(out[12:]) != mode.tpid || binary.BigEndian.Uint16(out[14:])&0xfff != 101) {
				t.Errorf("on the wire: % x", out)
			}
			in := func(dst ether.Addr) []byte {
				b := vfFrame(dst, vfPeer, 0)
				if tagged {
					b = append(binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b[:12:12], mode.tpid), 102), b[12:]...)
				}
				return b
			}
			want("from the cable", frame.Wire, in(c.mac(1, 1)), 1<<3)
			all = 1<<2 | 1<<3
			if !tagged {
				all |= 1<<0 | 1<<1
			}
			want("from the cable to all", frame.Wire, in(ether.Broadcast), all)
		})
	}
}

// flow has the cable send a segment of a connection to a VF, and returns when it is at the
// host TAP, by which queue.
func (r *vfRig) flow(vf, n int) (after time.Duration, queue int) {
	r.t.Helper()
	b := ether.Header{Dst: r.mac[vf], Src: vfPeer, Type: ether.TypeIPv4}.AppendTo(nil)
	b = append(b, segment(peer4, nic4, tcp.Header{SrcPort: uint16(1000 + n), DstPort: 8, Flags: tcp.ACK}, nil)...)
	begun, e := r.w.now, r.vfs[vf]
	r.send(-1, b)
	for len(e.got) == 0 {
		if r.run(10 * time.Microsecond); r.w.now.Sub(begun) > time.Second {
			r.t.Fatal("a frame does not come")
		}
	}
	queue = int(e.queues[0])
	e.take()
	return r.w.now.Sub(begun), queue
}

// A VF has queue pairs with status blocks of their own: connections are spread over them, each
// by one, and one that coalesces makes no other wait. It has no more than the PF gives it,
// whatever its driver asks for. What passes is counted.
//
// IO-06 IO-07 IO-32
func TestVFQueues(t *testing.T) {
	const flows, slow = 200, 2
	for _, has := range []int{1, 2, 4} {
		r := newVFs(t, Config{}, fastlinq.SRIOV{Total: 2, Queues: has}, 0)
		r.queues = 4
		r.numVFs(2)
		by := make([]int, 4)
		queues := map[int]int{}
		for n := range flows {
			_, q := r.flow(0, n)
			queues[n] = q
			by[q]++
		}
		for q, n := range by {
			if q < has && n < flows/has/2 || q >= has && n > 0 {
				t.Errorf("%d queues: %v frames", has, by)
			}
		}
		if n := r.counter("vf0_rx_packets"); n != flows || r.counter("vf1_rx_packets") != 0 {
			t.Errorf("%d are counted", n)
		}
		if has <= slow {
			continue
		}
		r.ok(r.b.VFs()[0].Driver().SetCoalesce(slow, 100, 0))
		for n := range flows {
			after, q := r.flow(0, n)
			if q != queues[n] || (q == slow) != (after >= 100*time.Microsecond) {
				t.Fatalf("connection %d: queue %d then %d, after %v", n, queues[n], q, after)
			}
		}
	}
}

// Without the capability there are no VFs; with it as many as it says, which are stations of
// the NIC while they are there and strangers before and afterwards.
//
// IO-01
func TestVFTotal(t *testing.T) {
	r := newVFs(t, Config{}, fastlinq.SRIOV{Total: 3}, 0)
	reached := func() (n int) {
		for i, mac := range r.mac {
			r.send(-1, vfFrame(mac, vfPeer, 0))
			if i < len(r.vfs) && len(r.vfs[i].take()) > 0 {
				n++
			}
			for from := range r.vfs {
				r.send(from, vfFrame(mac, vfPeer, 0))
			}
			r.clear()
		}
		return n
	}
	for _, n := range []int{3, 1, 2} {
		if err := r.b.IOV().SetNumVFs(4); !errors.Is(err, syscall.ERANGE) {
			t.Errorf("4 VFs of 3: %v", err)
		}
		r.numVFs(n)
		if got := reached(); got != n {
			t.Errorf("%d of %d VFs are reached", got, n)
		}
		if err := r.b.IOV().SetNumVFs(n%3 + 1); !errors.Is(err, syscall.EBUSY) {
			t.Errorf("another number: %v", err)
		}
		r.ok(r.b.IOV().SetNumVFs(0))
		if got := reached(); got != 0 {
			t.Errorf("%d VFs are reached that are gone", got)
		}
	}
	none := newVFs(t, Config{}, fastlinq.SRIOV{}, 0)
	if err := none.b.IOV().SetNumVFs(1); !errors.Is(err, syscall.ERANGE) || none.b.IOV().Capable() {
		t.Errorf("a VF without the capability: %v", err)
	}
}

// The PF serves no messages of a VF that is about to go: what it has goes on, and nothing
// changes until the PF takes that back.
//
// IO-08
func TestVFToDisable(t *testing.T) {
	r := newVFs(t, Config{}, fastlinq.SRIOV{}, 2)
	v, old, mac := r.b.VFs()[0], r.mac[0], ether.Addr{2, 0, 0, 0, 0, 7}
	reaches := func(a ether.Addr) bool { r.send(1, vfFrame(a, r.mac[1], 0)); return r.where()&1 != 0 }
	r.ok(r.b.IOV().SetToDisable(0, true))
	if err := v.SetMAC(mac); err == nil || !reaches(old) || reaches(mac) {
		t.Errorf("a VF that is about to go changes its address: %v", err)
	}
	r.ok(r.b.IOV().SetToDisable(0, false))
	if err := v.SetMAC(mac); err != nil || reaches(old) || !reaches(mac) {
		t.Errorf("one that stays does not: %v", err)
	}
}

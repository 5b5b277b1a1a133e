package nic

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"tapir/nic/fastlinq"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// vfEnd is what is at the other end of a port, or a host TAP: it keeps what it gets.
type vfEnd struct {
	got    [][]byte
	queues []uint16 // by which they came
	up     bool
	room   int
}

// Transmit implements frame.Link.
func (e *vfEnd) Transmit(f *frame.Frame) {
	e.got, e.queues = append(e.got, bytes.Clone(f.Bytes())), append(e.queues, f.Queue)
	f.Release()
}

// Room implements frame.Link.
func (e *vfEnd) Room() int { return e.room }

// take returns what has come, and forgets it.
func (e *vfEnd) take() (got [][]byte) {
	got, e.got, e.queues = e.got, nil, nil
	return got
}

// vfRig is a NIC with VFs, whose host TAPs, and whose cable, are in the test's hands.
type vfRig struct {
	*node
	t    *testing.T
	b    *fastlinq.VFBridge
	wire *vfEnd
	pf   *hostSide
	vfs  []*vfEnd
	mac  []ether.Addr
	// queues are the pairs that a VF's driver asks for.
	queues int
}

func newVFs(t *testing.T, cfg Config, s fastlinq.SRIOV, n int) *vfRig {
	w := newWorld(t)
	r := &vfRig{node: &node{w: w}, t: t, wire: &vfEnd{room: 64}, pf: &hostSide{w: w, room: 64}, queues: 1}
	r.b = fastlinq.NewVFBridge(w.pool, r.wire)
	cfg.Name, cfg.Addrs = "nic0", prefixes("10.0.0.1/24")
	dev, err := newNIC(cfg, Env{Pool: w.pool, Wire: r.b, Host: r.pf, Reserver: r.pf})
	if err != nil {
		t.Fatal(err)
	}
	r.dev = dev
	dev.SetTracer(r.node)
	s.Total, s.Queues = max(s.Total, n), max(1, s.Queues)
	if err := fastlinq.Of(dev.Hardware).OpenVFs(r.b, fastlinq.VFEngine{Engine: dev, Wire: dev.Wire}, s); err != nil {
		t.Fatal(err)
	}
	dev.LinkUp(w.now)
	r.run(0)
	r.numVFs(n)
	r.clear()
	return r
}

// numVFs makes so many VFs, with a netdev each.
func (r *vfRig) numVFs(n int) {
	r.t.Helper()
	if err := r.b.IOV().SetNumVFs(n); err != nil {
		r.t.Fatal(err)
	}
	r.vfs, r.mac = nil, make([]ether.Addr, n)
	for i, v := range r.b.VFs() {
		e := &vfEnd{room: 64}
		if err := v.Open(fastlinq.VFNetdev{Host: e, MTU: 1500, Queues: r.queues,
			Carrier: func(up bool) { e.up = up }, Address: func(a ether.Addr) { r.mac[i] = a }}); err != nil {
			r.t.Fatal(err)
		}
		r.vfs = append(r.vfs, e)
	}
	r.run(0)
}

// run lets time pass.
func (r *vfRig) run(d time.Duration) {
	for end := r.w.now.Add(d); ; {
		again := r.b.Dispatch(r.w.now)
		next := r.b.Poll(r.w.now)
		if again || next <= r.w.now {
			continue
		}
		if r.w.now = min(next, end); next > end {
			return
		}
	}
}

func (r *vfRig) clear() {
	r.wire.take()
	r.pf.got = nil
	for _, e := range r.vfs {
		e.take()
	}
}

// send has a VF send a frame, -1: the cable, -2: the PF's operating system.
func (r *vfRig) send(from int, b []byte) {
	f := r.w.pool.Get(len(b))
	f.Append(b)
	p := frame.Wire
	if from == -2 {
		p = frame.Host
	} else if from >= 0 {
		p = fastlinq.VFHostPort + frame.Port(from)
	}
	r.b.Receive(p, []*frame.Frame{f}, r.w.now)
	r.run(0)
}

// vfFrame is a frame between stations, with a tag unless vlan is 0.
func vfFrame(dst, src ether.Addr, vlan uint16) []byte {
	h := ether.Header{Dst: dst, Src: src, Type: 0x88b5}
	if vlan != 0 {
		h.NTags, h.Tags[0] = 1, ether.Tag{TPID: ether.TypeVLAN, TCI: vlan}
	}
	return append(h.AppendTo(nil), make([]byte, 46)...)
}

// count tells how many frames each has received since, VFs first, then the PF's operating
// system and the cable.
func (r *vfRig) count() (n []int) {
	for _, e := range r.vfs {
		n = append(n, len(e.take()))
	}
	n = append(n, len(r.pf.got), len(r.wire.take()))
	r.pf.got = nil
	return n
}

// where tells who has received anything since: VFs by bit, bit 30 the PF's operating
// system, bit 31 the cable.
func (r *vfRig) where() (set uint32) {
	for i, e := range r.vfs {
		if len(e.take()) > 0 {
			set |= 1 << i
		}
	}
	if len(r.pf.got) > 0 {
		set |= 1 << 30
	}
	if len(r.wire.take()) > 0 {
		set |= 1 << 31
	}
	r.pf.got = nil
	return set
}

// Frames between VFs and the PF stay inside, groups are copied, what is for nobody leaves by the
// port, and the bridge learns nothing.
//
// IO-07 IO-26
func TestVEB(t *testing.T) { newVFs(t, Config{}, fastlinq.SRIOV{}, 3).veb() }

// veb sends a frame from everyone to everyone.
func (r *vfRig) veb() {
	r.t.Helper()
	own, peer := r.dev.cfg.MAC, ether.Addr{2, 9, 9, 9, 9, 9}
	const pf, wire = 1 << 30, 1 << 31
	for _, c := range []struct {
		name string
		from int
		b    []byte
		want uint32
	}{
		{"VF to VF", 0, vfFrame(r.mac[1], r.mac[0], 0), 1 << 1},
		{"VF to PF", 0, vfFrame(own, r.mac[0], 0), pf},
		{"PF to VF", -2, vfFrame(r.mac[2], own, 0), 1 << 2},
		{"VF to the cable", 1, vfFrame(peer, r.mac[1], 0), wire},
		{"the cable to a VF", -1, vfFrame(r.mac[1], peer, 0), 1 << 1},
		{"the cable to the PF", -1, vfFrame(own, peer, 0), pf},
		{"broadcast of a VF", 0, vfFrame(ether.Broadcast, r.mac[0], 0), 1<<1 | 1<<2 | pf | wire},
		{"broadcast of the PF", -2, vfFrame(ether.Broadcast, own, 0), 1<<0 | 1<<1 | 1<<2 | wire},
		{"broadcast of the cable", -1, vfFrame(ether.Broadcast, peer, 0), 1<<0 | 1<<1 | 1<<2 | pf},
	} {
		r.send(c.from, c.b)
		if got := r.where(); got != c.want {
			r.t.Errorf("%s: %#x, want %#x", c.name, got, c.want)
		}
	}
}

// Again and again a VF is reset while all VFs send and receive: no frame of its life before
// comes out afterwards, either way, and the others lose none and keep their order.
//
// IO-24
func TestVFResetUnderLoad(t *testing.T) {
	r := newVFs(t, Config{}, fastlinq.SRIOV{}, 4)
	var seq, resetAt uint32 // numbers of frames
	sent, got := map[uint32]bool{}, 0
	load := func() {
		for from := range r.vfs {
			for to := range r.vfs {
				b := vfFrame(r.mac[to], r.mac[from], 0)
				if to == from {
					b = vfFrame(vfPeer, r.mac[from], 0)
				}
				seq++
				binary.BigEndian.PutUint32(b[len(b)-4:], seq)
				f := r.w.pool.Get(len(b))
				f.Append(b)
				r.b.Receive(fastlinq.VFHostPort+frame.Port(from), []*frame.Frame{f}, r.w.now)
				if from != 0 && to != 0 {
					sent[seq] = true
				}
			}
		}
	}
	type way struct {
		from ether.Addr
		to   int
	}
	last := map[way]uint32{}
	check := func() {
		for i, e := range append(r.vfs[:4:4], r.wire) {
			for _, b := range e.take() {
				n, w := binary.BigEndian.Uint32(b[len(b)-4:]), way{ether.Addr(b[6:12]), i}
				if (i == 0 || w.from == r.mac[0]) && n <= resetAt {
					t.Fatalf("frame %d comes out at %d after reset %d", n, i, resetAt)
				}
				if n <= last[w] {
					t.Fatalf("at %d frame %d comes after %d", i, n, last[w])
				}
				delete(sent, n)
				last[w] = n
				got++
			}
		}
	}
	for range 10 {
		for range 5 {
			load()
			r.run(time.Millisecond)
		}
		check()
		load() // on its way
		if err := r.b.FLR(0, r.w.now); err != nil {
			t.Fatal(err)
		}
		resetAt = seq
		for range 150 {
			load()
			r.run(time.Millisecond)
			check()
		}
		if last[way{r.mac[0], 1}] <= resetAt || last[way{r.mac[1], 0}] <= resetAt || !r.vfs[0].up {
			t.Fatal("the VF does not come back")
		}
	}
	if len(sent) > 0 || got < 10*155*12 {
		t.Errorf("others have lost %d frames of %d", len(sent), seq)
	}
}

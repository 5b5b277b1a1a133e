package nic

import (
	"net/netip"
	"testing"

	"tapir/nic/buf"
	"tapir/nic/fastlinq"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/tcp"
)

// countingSink is a link that swallows everything, and counts it.
type countingSink int

func (c *countingSink) Transmit(f *frame.Frame) { *c++; f.Release() }
func (c *countingSink) Room() int               { return 64 }

// vfPaths are ways through a NIC with so many VFs: pass sends 32 frames of 1514 octets from
// a port to a station, a VF, or -1 the cable, -2 the PF, -3 all, and returns how many
// frames have come out.
func vfPaths(t testing.TB, vfs int) (pass func(p frame.Port, to int) int) {
	out := new(countingSink)
	h := &hostSide{room: 64, held: map[netip.AddrPort]bool{}}
	pool := buf.NewPool(1024, 0)
	br := fastlinq.NewVFBridge(pool, out)
	d, err := newNIC(Config{Name: "nic0", Addrs: prefixes("10.0.0.1/24")}, Env{Pool: pool, Wire: br, Host: out, Reserver: h})
	if err == nil {
		err = fastlinq.Of(d.Hardware).OpenVFs(br, fastlinq.VFEngine{Engine: d, Wire: d.Wire}, fastlinq.SRIOV{Total: max(1, vfs), Queues: 1})
	}
	if err == nil {
		err = br.IOV().SetNumVFs(vfs)
	}
	if err != nil {
		t.Fatal(err)
	}
	d.LinkUp(0)
	br.Poll(0)
	stations := map[int]ether.Addr{-1: vfPeer, -2: d.cfg.MAC, -3: ether.Broadcast}
	for i, v := range br.VFs() {
		if err := v.Open(fastlinq.VFNetdev{Host: out, MTU: 1500}); err != nil {
			t.Fatal(err)
		}
		stations[i] = v.MAC()
	}
	br.Poll(1)
	data := segment(peer4, nic4, tcp.Header{SrcPort: 5, DstPort: 8, Flags: tcp.ACK}, make([]byte, 1460))
	batch := make([]*frame.Frame, 32)
	var now frame.Time
	return func(p frame.Port, to int) int {
		src := vfPeer
		switch {
		case p == frame.Host:
			src = d.cfg.MAC
		case p >= fastlinq.VFHostPort:
			src = stations[int(p-fastlinq.VFHostPort)]
		}
		var head [ether.HeaderLen]byte
		header := ether.Header{Dst: stations[to], Src: src, Type: ether.TypeIPv4}.AppendTo(head[:0])
		for i := range batch {
			batch[i] = pool.Get(len(header) + len(data))
			batch[i].Append(header)
			batch[i].Append(data)
		}
		now++
		br.Receive(p, batch, now)
		*out = 0
		for br.Poll(now) <= now {
		}
		return int(*out)
	}
}

// vfWays are the ways that frames take in a NIC with VFs.
var vfWays = []struct {
	name string
	vfs  int
	from frame.Port
	to   int
}{
	{"VF to VF", 2, fastlinq.VFHostPort, 1}, {"VF to cable", 2, fastlinq.VFHostPort, -1},
	{"VF to PF", 2, fastlinq.VFHostPort, -2}, {"VF to all", 4, fastlinq.VFHostPort, -3},
	{"cable to VF", 2, frame.Wire, 1}, {"PF to VF", 2, frame.Host, 1}, {"cable to all", 4, frame.Wire, -3},
	{"PF to cable", 0, frame.Host, -1}, {"PF to cable, 16 VFs idle", 16, frame.Host, -1},
	{"cable to PF", 0, frame.Wire, -2}, {"cable to PF, 16 VFs idle", 16, frame.Wire, -2},
}

// Frames of VFs, for VFs and past idle ones pass the NIC without an allocation.
func TestVFPathsAllocateNothing(t *testing.T) {
	for _, w := range vfWays {
		pass := vfPaths(t, w.vfs)
		want := 32
		if w.to == -3 {
			want *= 4 + 1 // stations but the sender: VFs, the PF and the cable
		}
		for range 20 {
			if n := pass(w.from, w.to); n != want {
				t.Fatalf("%s: %d frames come out, want %d", w.name, n, want)
			}
		}
		if n := testing.AllocsPerRun(100, func() { pass(w.from, w.to) }); n != 0 {
			t.Errorf("%s: %v allocations", w.name, n)
		}
	}
}

// BenchmarkVF is a frame of 1514 octets that passes a NIC with VFs, without the TAPs.
func BenchmarkVF(b *testing.B) {
	for _, w := range vfWays {
		b.Run(w.name, func(b *testing.B) {
			pass := vfPaths(b, w.vfs)
			b.SetBytes(1514)
			for i := 0; i < b.N; i += 32 {
				pass(w.from, w.to)
			}
		})
	}
}

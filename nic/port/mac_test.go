package port

import (
	"testing"

	"tapir/nic/buf"
	"tapir/wire/frame"
)

// Frames are counted by destination, and by size with the FCS; a super-frame
// is as many as the cable would carry.
func TestMACStats(t *testing.T) {
	const tcpOffset = 12 // of the octet with the header's length
	pool := buf.NewPool(64, 0)
	one := func(dst byte, n int, off frame.Offload) *frame.Frame {
		f := pool.Get(n)
		b := make([]byte, n)
		for i := range 6 {
			b[i] = dst
		}
		if int(off.CsumStart)+tcpOffset < n {
			b[int(off.CsumStart)+tcpOffset] = 5 << 4
		}
		f.Append(b)
		f.Offload = off
		return f
	}
	super := frame.Offload{GSO: frame.GSOTCPv4, GSOSize: 1000, CsumStart: 34}
	for _, c := range []struct {
		name  string
		f     *frame.Frame
		cast  int
		sizes map[int]uint64 // bin: frames
		bytes uint64
	}{
		{"smallest", one(2, 60, frame.Offload{}), toOne, map[int]uint64{0: 1}, 60},
		{"one more", one(2, 61, frame.Offload{}), toOne, map[int]uint64{1: 1}, 61},
		{"group", one(3, 252, frame.Offload{}), toGroup, map[int]uint64{3: 1}, 252},
		{"all", one(0xff, 1514, frame.Offload{}), toAll, map[int]uint64{5: 1}, 1514},
		{"tagged", one(2, 1518, frame.Offload{}), toOne, map[int]uint64{6: 1}, 1518},
		{"super-frame", one(2, 54+2500, super), toOne, map[int]uint64{5: 2, 4: 1}, 3*54 + 2500},
		{"even super-frame", one(2, 54+3000, super), toOne, map[int]uint64{5: 3}, 3*54 + 3000},
		{"one segment", one(2, 54+1000, super), toOne, map[int]uint64{5: 1}, 1054},
		{"truncated super-frame", one(2, 40, super), toOne, map[int]uint64{0: 1}, 40},
		{"no header", one(2, 13, frame.Offload{}), toOne, nil, 0},
	} {
		var m, want MACStats
		m.count(c.f)
		want.bytes[c.cast] = c.bytes
		for bin, n := range c.sizes {
			want.sizes[bin] = n
			want.packets[c.cast] += n
		}
		if m != want {
			t.Errorf("%s: %+v, want %+v", c.name, m, want)
		}
		c.f.Release()
	}
}

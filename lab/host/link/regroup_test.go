package link

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	rules "tapir/lab/host/fault"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/tcp"
	"tapir/wire/virtio"
)

// superFrame is n octets of TCP payload in segments of size, its checksum
// partial.
func superFrame(r *rand.Rand, v6 bool, n, size int) *frame.Frame {
	h := ip.Header{Version: 4, TTL: 64, Proto: ip.ProtoTCP, DF: true, ID: uint16(r.Uint32()),
		Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2")}
	eth := ether.Header{Type: ether.TypeIPv4}
	gso := frame.GSOTCPv4
	if v6 {
		h.Version, h.Src, h.Dst = 6, netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")
		eth.Type, gso = ether.TypeIPv6, frame.GSOTCPv6
	}
	th := tcp.Header{SrcPort: 1, DstPort: 2, Seq: tcp.Seq(r.Uint32()), Ack: 3, Flags: tcp.Flags(r.IntN(256))&^tcp.SYN | tcp.ACK, Window: 9}
	seg := make([]byte, th.Len()+n)
	th.Put(seg)
	for i := th.Len(); i < len(seg); i++ {
		seg[i] = byte(r.Uint32())
	}
	binary.BigEndian.PutUint16(seg[tcp.ChecksumOffset:], ip.Fold(ip.PseudoSum(h.Src, h.Dst, ip.ProtoTCP, len(seg))))
	h.PayloadLen = len(seg)
	f := frame.New(make([]byte, frame.DefaultHeadroom+mostRoom), nil)
	f.Append(eth.AppendTo(nil))
	start := f.Len()
	h.Put(f.Extend(h.HeaderLen()))
	f.Offload = frame.Offload{NeedsCsum: true, CsumStart: uint16(start + h.HeaderLen()), CsumOffset: tcp.ChecksumOffset}
	if n > size {
		f.GSO, f.GSOSize = gso, uint16(size)
	}
	f.Append(seg)
	return f
}

// trueSegments are the frames that a wire would carry for f.
func trueSegments(t *testing.T, f *frame.Frame) (segs [][]byte) {
	t.Helper()
	if err := virtio.Split(f.Offload, f.Bytes(), func(seg []byte) { segs = append(segs, bytes.Clone(seg)) }); err != nil {
		t.Fatal(err)
	}
	return segs
}

// singly are the same, each a frame.
func singly(t *testing.T, f *frame.Frame) (fs []*frame.Frame) {
	for _, seg := range trueSegments(t, f) {
		one := frame.New(append(make([]byte, frame.DefaultHeadroom), seg...), nil)
		one.Extend(len(seg))
		fs = append(fs, one)
	}
	return fs
}

// cable is one direction of a cable in time of its own.
type cable struct {
	t      *testing.T
	c      Impaired
	frames int
	segs   [][]byte
}

func newCable(t *testing.T, i Impairment, seed uint64) *cable {
	return &cable{t: t, c: Impaired{in: newLane(i, seed, 0)}}
}

// carry puts frames into the cable and takes out what has arrived by now.
func (c *cable) carry(now time.Duration, fs ...*frame.Frame) {
	for _, f := range fs {
		if err := c.c.enter(&c.c.in, f, now); err != nil {
			c.t.Fatal(err)
		}
	}
	for g := c.c.in.due(now); g != nil; g = c.c.in.due(now) {
		c.frames++
		c.segs = append(c.segs, trueSegments(c.t, g)...)
		c.c.in.free(g)
	}
}

// TestSuperFramesAreSegments sends super-frames through one cable and the
// segments that they stand for through another with the same seed: the same
// octets arrive in the same order.
func TestSuperFramesAreSegments(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 2))
		some := func(ppm int) int { return ppm * r.IntN(2) }
		i := Impairment{Loss: some(20_000), Duplicate: some(10_000), Corrupt: some(10_000), Reorder: some(10_000), Depth: 1 + r.IntN(60), Delay: time.Duration(some(300_000))}
		if seed%5 == 0 {
			i.Jitter = time.Millisecond
		}
		super, single := newCable(t, i, seed), newCable(t, i, seed)
		now := time.Duration(0)
		for range 40 {
			now += time.Duration(r.IntN(1_000_000))
			f := superFrame(r, r.IntN(2) == 0, 1+r.IntN(60_000), 500+r.IntN(2000))
			super.carry(now, f)
			single.carry(now, singly(t, f)...)
		}
		for range 2 { // what waits to be overtaken enters late
			now += time.Second
			super.carry(now)
			single.carry(now)
		}
		if super.c.in.count != single.c.in.count {
			t.Fatalf("seed %d: counted %+v and %+v", seed, super.c.in.count, single.c.in.count)
		}
		if !slices.EqualFunc(super.segs, single.segs, bytes.Equal) {
			t.Fatalf("seed %d, %+v: %d segments arrived, %d or others without super-frames", seed, i, len(super.segs), len(single.segs))
		}
		if super.c.in.segs != 0 {
			t.Fatalf("seed %d: %d segments are still inside", seed, super.c.in.segs)
		}
		if i.Jitter == 0 && super.frames*3 > single.frames {
			t.Fatalf("seed %d, %+v: %d segments arrived in %d frames", seed, i, single.frames, super.frames)
		}
	}
}

// TestRulesStrikeSegments has rules strike segments of super-frames and the
// segments that these stand for: the same octets arrive in the same order.
func TestRulesStrikeSegments(t *testing.T) {
	rule := func(e rules.Effect, every int) rules.Rule {
		r := rules.NewRule(e, "data")
		r.Every, r.By, r.Behind = every, 0, 0
		if e == rules.Delay {
			r.By = 700 * time.Microsecond
		}
		return r
	}
	all := []rules.Rule{rule(rules.Drop, 17), rule(rules.Duplicate, 23), rule(rules.Delay, 31), rule(rules.Flip, 13), rule(rules.Reorder, 29)}
	r := rand.New(rand.NewPCG(5, 2))
	i := Impairment{Delay: 100 * time.Microsecond}
	super, single := newCable(t, i, 1), newCable(t, i, 1)
	for _, c := range []*cable{super, single} {
		c.c.rules = rules.New(1, [2]string{"a", "b"})
		if err := c.c.rules.SetRules(all); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Duration(0)
	for range 40 {
		now += time.Duration(r.IntN(1_000_000))
		f := superFrame(r, r.IntN(2) == 0, 1+r.IntN(60_000), 500+r.IntN(2000))
		super.carry(now, f)
		single.carry(now, singly(t, f)...)
	}
	for range 2 { // what waits enters late
		now += 2 * time.Second
		super.carry(now)
		single.carry(now)
	}
	if !slices.EqualFunc(super.segs, single.segs, bytes.Equal) {
		t.Fatalf("%d segments arrived, %d or others without super-frames", len(super.segs), len(single.segs))
	}
	for i, c := range super.c.rules.Counts() {
		if c.Struck < 20 || c != single.c.rules.Counts()[i] {
			t.Errorf("%+v, %+v without super-frames", c, single.c.rules.Counts()[i])
		}
	}
}

// TestFullCable sends more segments than fit: what fits arrives, whichever way
// it came.
func TestFullCable(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	i := Impairment{Delay: time.Second}
	super, single := newCable(t, i, 1), newCable(t, i, 1)
	for range 200 {
		f := superFrame(r, false, 60_000, 1000)
		super.carry(0, f)
		single.carry(0, singly(t, f)...)
	}
	super.carry(2 * time.Second)
	single.carry(2 * time.Second)
	if len(super.segs) != cableFrames || !slices.EqualFunc(super.segs, single.segs, bytes.Equal) {
		t.Fatalf("%d and %d segments arrived", len(super.segs), len(single.segs))
	}
}

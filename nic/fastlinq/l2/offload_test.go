package l2

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"tapir/nic/fastlinq/status"
	"tapir/nic/nicdrop"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/tcp"
	"tapir/wire/virtio"
)

// super is a TCP super-frame with n octets of payload in segments of size, and
// what is left to do on it.
func super(v6 bool, n, size int, push bool) ([]byte, frame.Offload) {
	b := packet4(addr(1), ip.ProtoTCP, 7, 1000, 80, n)
	off := frame.Offload{NeedsCsum: true, GSO: frame.GSOTCPv4, GSOSize: uint16(size), CsumStart: 34, CsumOffset: 16, HdrLen: 54}
	if v6 {
		t := append([]byte(nil), b[34:]...)
		h := make([]byte, 40)
		h[0], h[6], h[7] = 0x60, ip.ProtoTCP, 64
		binary.BigEndian.PutUint16(h[4:], uint16(len(t)))
		h[23], h[39] = 1, 2
		b = append(append(ether.Header{Dst: addr(1), Src: outside, Type: ether.TypeIPv6}.AppendTo(nil), h...), t...)
		off.GSO, off.CsumStart, off.HdrLen = frame.GSOTCPv6, 54, 74
	}
	p := b[off.HdrLen:]
	for i := range p {
		p[i] = byte(i * 7)
	}
	t := b[off.CsumStart:]
	t[13] = byte(tcp.ACK)
	if push {
		t[13] |= byte(tcp.PSH)
	}
	binary.BigEndian.PutUint16(t[16:], pseudo(b, off))
	return b, off
}

// pseudo is the folded sum of a TCP packet's pseudo-header.
func pseudo(b []byte, off frame.Offload) uint16 {
	addrs := b[26:34]
	if off.GSO == frame.GSOTCPv6 {
		addrs = b[22:54]
	}
	return ip.Fold(ip.Sum(addrs, uint32(ip.ProtoTCP)+uint32(len(b)-int(off.CsumStart))))
}

// cut are the true frames of a super-frame.
func cut(t interface{ Fatal(...any) }, off frame.Offload, b []byte) (list [][]byte) {
	if err := virtio.Split(off, b, func(seg []byte) { list = append(list, bytes.Clone(seg)) }); err != nil {
		t.Fatal(err)
	}
	return list
}

func (w *world) tpa(mode TPAMode) *RxQueue {
	q := w.start(StartParams{TPA: mode}, 0)[0]
	w.run(0, Promisc)
	p := DefaultTPA(1500)
	w.ok(w.VportUpdate(UpdateParams{TPA: &p}))
	return q
}

// What was cut and is put together again is the same super-frame, whatever else
// comes between its segments.
//
// L2-17
func TestAggregate(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, Config{Superframes: true})
		w.t = rt
		q := w.tpa(TPAGRO)
		n := rapid.IntRange(2, 40).Draw(rt, "segments")
		size := rapid.IntRange(800, 1400).Draw(rt, "size")
		last := rapid.IntRange(750, size).Draw(rt, "last")
		b, off := super(rapid.Bool().Draw(rt, "IPv6"), (n-1)*size+last, size, rapid.Bool().Draw(rt, "push"))
		between := rapid.SliceOfN(rapid.Bool(), n, n).Draw(rt, "between")
		others := 0
		segs := cut(rt, off, b)
		for i, seg := range segs {
			w.receive(seg)
			if between[i] {
				others++
				w.receive(packet4(addr(1), ip.ProtoUDP, 9, 7, 7, 20))
			}
		}
		w.Flush()
		var got *frame.Frame
		for f, cqe := q.Next(); f != nil; f, cqe = q.Next() {
			if f.GSO == frame.GSONone {
				others--
				f.Release()
				continue
			}
			if got != nil || cqe.Segments != n {
				rt.Fatalf("%d segments of %d", cqe.Segments, n)
			}
			got = f
		}
		if got == nil || others != 0 {
			rt.Fatalf("no super-frame, %d others are missing", others)
		}
		if again := cut(rt, got.Offload, got.Bytes()); !slices.EqualFunc(again, segs, bytes.Equal) || got.GSOSize != uint16(size) {
			rt.Fatalf("cut again, it is %d segments of %d", len(again), got.GSOSize)
		}
		got.Release()
		s, err := w.Stats(0)
		if err != nil || s.CoalescedPkts != uint64(n) || s.CoalescedEvents != 1 || s.CoalescedAborts != 0 || s.CoalescedBytes != uint64((n-1)*size+last) {
			rt.Fatalf("%+v", s)
		}
		w.idle()
	})
}

// Whatever is done to the segments on their way, each octet arrives once, in
// the order of its flow, and what is put together is what was sent.
//
// L2-17
func TestAggregateDamaged(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, Config{Superframes: true})
		w.t = rt
		q := w.tpa([]TPAMode{TPAGRO, TPARSC}[rapid.IntRange(0, 1).Draw(rt, "mode")])
		b, off := super(false, 9*1000, 1000, true)
		segs := cut(rt, off, b)
		for range rapid.IntRange(1, 4).Draw(rt, "damages") {
			i := rapid.IntRange(0, len(segs)-1).Draw(rt, "segment")
			switch rapid.IntRange(0, 4).Draw(rt, "what") {
			case 0:
				segs = slices.Delete(segs, i, i+1)
			case 1:
				segs = slices.Insert(segs, i, segs[0])
			case 2:
				segs[i] = bytes.Clone(segs[i])
				segs[i][rapid.IntRange(14, len(segs[i])-1).Draw(rt, "octet")] ^= 1 << rapid.IntRange(0, 7).Draw(rt, "bit")
			case 3:
				segs[0], segs[i] = segs[i], segs[0]
			case 4:
				segs[i] = segs[i][:rapid.IntRange(15, len(segs[i])).Draw(rt, "length")]
			}
		}
		for i, seg := range segs {
			w.receive(seg)
			if i == 4 {
				w.Flush()
			}
		}
		w.Flush()
		var out [][]byte
		for f, cqe := q.Next(); f != nil; f, cqe = q.Next() {
			switch {
			case f.GSO == frame.GSONone:
				out = append(out, bytes.Clone(f.Bytes()))
			case cqe.Segments > 1:
				out = append(out, cut(rt, f.Offload, f.Bytes())...)
			default:
				rt.Fatalf("%+v", cqe)
			}
			f.Release()
		}
		// Different identifications and other flows' places aside, the same frames.
		a, z := canonical(segs), canonical(out)
		if !slices.EqualFunc(a, z, bytes.Equal) {
			rt.Fatalf("%d frames went in, %d came out, not the same", len(a), len(z))
		}
		w.idle()
	})
}

// canonical sorts frames and clears what cutting a super-frame numbers anew.
func canonical(list [][]byte) (out [][]byte) {
	for _, b := range list {
		b = bytes.Clone(b)
		if len(b) >= 34 {
			clear(b[18:20])
			clear(b[24:26])
		}
		out = append(out, b)
	}
	slices.SortFunc(out, bytes.Compare)
	return out
}

// L2-17
func TestTPAOff(t *testing.T) {
	b, off := super(false, 5000, 1000, false)
	for name, set := range map[string]func(*world, *TPAParams){
		"mode none": nil,
		"IPv4 off":  func(_ *world, p *TPAParams) { p.IPv4 = false },
		"none":      func(_ *world, p *TPAParams) { p.MaxAggregations = 0 },
		"too short": func(_ *world, p *TPAParams) { p.MinStart = 1001 },
		"one":       func(_ *world, p *TPAParams) { p.MinContinue = 1001 },
		"size":      func(_ *world, p *TPAParams) { p.MaxSize = 1500 },
		"buffers":   func(_ *world, p *TPAParams) { p.MaxBuffersPerCQE = 1 },
	} {
		w := newWorld(t, Config{})
		mode := TPAGRO
		if set == nil {
			mode = TPANone
		}
		q := w.tpa(mode)
		if set != nil {
			p := DefaultTPA(1500)
			set(w, &p)
			w.ok(w.VportUpdate(UpdateParams{TPA: &p}))
		}
		for _, seg := range cut(t, off, b) {
			w.receive(seg)
		}
		w.Flush()
		if list, _ := take(q); len(list) != 5 {
			t.Errorf("%s: %d frames of 5", name, len(list))
		}
		w.want(status.Inval, w.VportUpdate(UpdateParams{TPA: &TPAParams{MaxAggregations: 65}}))
		w.idle()
	}
}

// L2-24
func TestRxChecksum(t *testing.T) {
	w := newWorld(t, Config{})
	q := w.start(StartParams{}, 0)[0]
	w.run(0, Promisc)
	on := true
	b, off := super(false, 100, 1000, true)
	good := cut(t, off, b)[0]
	bad := bytes.Clone(good)
	bad[60]++
	part := bytes.Clone(good)
	part[20] = 0x20 // more fragments
	first, _ := super(false, 100, 1000, true)
	for _, c := range []struct {
		b    []byte
		want Csum
	}{{good, CsumGood}, {bad, CsumBad}, {part, CsumNone}, {eth(addr(1), outside, 60), CsumNone}, {packet4(addr(1), ip.ProtoUDP, 1, 2, 3, 5), CsumNone}, {first, CsumBad}} {
		w.receive(c.b)
		f, cqe := q.Next()
		if cqe.Csum != CsumNone || f.DataValid {
			t.Error("looked at though nobody asks")
		}
		f.Release()
		w.ok(w.VportUpdate(UpdateParams{RxChecksum: &on}))
		w.receive(c.b)
		f, cqe = q.Next()
		if cqe.Csum != c.want || f.DataValid != (c.want == CsumGood) {
			t.Errorf("%x: %v, %+v, want %v", c.b, cqe.Csum, f.Offload, c.want)
		}
		f.Release()
		off := false
		w.ok(w.VportUpdate(UpdateParams{RxChecksum: &off}))
	}
	if q.Stats.HWErrors != 2 || q.Stats.IPFragments != 1 {
		t.Errorf("%+v", q.Stats)
	}
	w.idle()
}

// Super-frames leave whole, or as true frames if the port wants those; one that
// cannot be cut is dropped.
//
// L2-24
func TestSegmentation(t *testing.T) {
	for _, whole := range []bool{true, false} {
		w := newWorld(t, Config{Superframes: whole})
		w.start(StartParams{}, 0)
		q := w.txq(0, 0)
		w.run(0, Promisc)
		send := func(b []byte, off frame.Offload, room int) *link {
			port := &link{room: room}
			f := w.frame(b)
			f.Offload = off
			q.Post(f, TxBD{})
			q.Doorbell()
			w.Transmit(port)
			return port
		}
		for _, v6 := range []bool{false, true} {
			b, off := super(v6, 5500, 1000, true)
			port := send(b, off, 4)
			if whole {
				if len(port.frames) != 1 || port.frames[0].Offload != off {
					t.Fatalf("%d frames", len(port.frames))
				}
				port.release()
				continue
			}
			if len(port.frames) != 4 {
				t.Fatalf("%d frames into room for 4", len(port.frames))
			}
			port.room = 9
			if w.Transmit(port) || len(port.frames) != 6 {
				t.Fatalf("%d frames of 6", len(port.frames))
			}
			for i, seg := range cut(t, off, b) {
				if !bytes.Equal(port.frames[i].Bytes(), seg) || port.frames[i].Offload != (frame.Offload{}) {
					t.Errorf("segment %d differs", i)
				}
			}
			port.release()
		}
		// A checksum alone.
		b, off := super(false, 100, 1000, true)
		alone := frame.Offload{NeedsCsum: true, CsumStart: off.CsumStart, CsumOffset: off.CsumOffset}
		port := send(b, alone, 1)
		if got := port.frames[0]; !whole && !bytes.Equal(got.Bytes(), cut(t, alone, b)[0]) || whole != got.NeedsCsum {
			t.Errorf("a checksum: %+v", got.Offload)
		}
		port.release()
		// What does not fit.
		big, boff := super(false, 5000, 2000, true) // segments beyond the MTU
		for _, c := range []struct {
			b    []byte
			off  frame.Offload
			want frame.DropReason
		}{
			{big, boff, drop.Oversize},
			{b, frame.Offload{NeedsCsum: true, CsumStart: 200}, nicdrop.Offload},
			{b, frame.Offload{NeedsCsum: true, CsumStart: 65535, CsumOffset: 65535}, nicdrop.Offload},
			{b, frame.Offload{NeedsCsum: true, GSO: frame.GSOTCPv4, CsumStart: 34}, nicdrop.Offload},
			{b, frame.Offload{NeedsCsum: true, GSO: frame.GSOTCPv6, GSOSize: 100, CsumStart: 34}, nicdrop.Offload},
			{b[:40], off, nicdrop.Offload},
			{eth(outside, addr(1), 3000), off, nicdrop.Offload},
		} {
			before := w.TxDrops()[c.want]
			if p := send(c.b, c.off, 9); len(p.frames) != 0 || w.TxDrops()[c.want] != before+1 {
				t.Errorf("%d octets, %+v: %d sent, %v", len(c.b), c.off, len(p.frames), w.dropped)
			}
		}
		w.idle()
	}
}

// Statistics begin anew at a reset, which takes nothing from those who have
// read them.
//
// L2-21
func TestStats(t *testing.T) {
	w := newWorld(t, Config{})
	q := w.start(StartParams{}, 0)[0]
	out := w.txq(0, 0)
	w.run(0, Regular)
	w.ok(w.FilterUcast(UcastParams{Sides: Both, MAC: addr(1)}))
	exercise := func() {
		w.receive(eth(addr(1), outside, 60))
		w.receive(eth(ether.Broadcast, outside, 70))
		w.receive(eth(addr(2), outside, 80))
		w.receive(eth(addr(1), outside, 2000))
		w.receive(nil)
		w.sent(out, eth(ether.Addr{1, 0, 0, 0, 0, 1}, addr(1), 90), TxBD{})
		take(q)
	}
	want := Statistics{MACFilterDiscards: 1, Undersize: 1}
	want.RxUcastPkts, want.RxUcastBytes, want.RxBcastPkts, want.RxBcastBytes = 1, 74, 1, 84
	want.TxMcastPkts, want.TxMcastBytes, want.PacketTooBigDiscard = 1, 104, 1
	for range 2 {
		exercise()
		if s, err := w.Stats(0); err != nil || s != want {
			t.Fatalf("%+v %v, want %+v", s, err, want)
		}
		w.ok(w.ResetStats(0))
		if s, err := w.Stats(0); err != nil || s != (Statistics{}) {
			t.Fatalf("after a reset %+v %v", s, err)
		}
	}
	_, err := w.Stats(1)
	w.want(status.Inval, err)
	w.want(status.Inval, w.ResetStats(20))
	in, away, err := w.VportDrops(0)
	if err != nil || in[drop.Oversize] != 2 || away.Total() != 0 {
		t.Errorf("%v %v %v", in, away, err)
	}
	// Every counter is among those that a reset concerns.
	var s Statistics
	for i, c := range s.counters() {
		*c = uint64(i) + 1
	}
	if n := len(s.counters()); n != 24 || s.Undersize != 24 || s.RxUcastBytes != 1 {
		t.Errorf("%d counters, %+v", n, s)
	}
}

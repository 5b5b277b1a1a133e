package hfi

import (
	"testing"

	"tapir/opa"
	"tapir/wire/frame"
)

// FuzzReceive gives a port with a netdev and an agent any octets, in every
// framing, and any datagram.
func FuzzReceive(f *testing.F) {
	h := header()
	f.Add(h.AppendTo(nil, make([]byte, 60), opa.ICRCv1), uint16(6), uint16(5), uint16(0xffff), uint8(0), uint8(1))
	f.Add(make([]byte, 24), uint16(0xffff), uint16(0xffff), uint16(0), uint8(15), uint8(0))
	f.Add([]byte{1}, uint16(5), uint16(0xc001), uint16(0x7fff), uint8(3), uint8(2))
	f.Fuzz(func(t *testing.T, b []byte, slid, dlid, pkey uint16, sc, qp uint8) {
		if len(b) > 4000 {
			return
		}
		bed := newBed(t, Config{})
		bed.Attach(&echo{})
		for _, typ := range []uint16{0, opa.EtherType16B, opa.EtherType9B} {
			g := bed.frameFor(b)
			if typ != 0 {
				g.Prepend(14)
				copy(g.Bytes()[12:], []byte{byte(typ >> 8), byte(typ)})
			}
			bed.gets(g)
		}
		m := opa.Header9B{SLID: opa.From9B(slid), DLID: opa.From9B(dlid), PKey: pkey, SC: sc, DestQP: uint32(qp), SrcQP: uint32(qp)}
		if qp == 1 {
			m.QKey = opa.QKeyGSI
		}
		g := bed.frameFor(m.AppendTo(nil, append(b[:min(len(b), opa.MaxMAD):min(len(b), opa.MaxMAD)], 0, 0, 0, 0), opa.ICRCv1))
		if opa.FramingNSH.Wrap9B(g) != frame.DropNone {
			t.Fatal("no room for the framing")
		}
		bed.gets(g)
		for bed.Poll(0) == 0 {
		}
		c := bed.Counts()
		// What the echo says to everybody or to itself is received, too.
		if in := c.RxDrops.Total() + c.MADs + uint64(len(bed.up.got)); in != c.RxPackets || in < 4 {
			t.Fatalf("%d frames in, %d accounted for", c.RxPackets, in)
		}
		for _, s := range bed.wire.sent {
			s.Release()
		}
		if bed.pool.Lent() != 0 {
			t.Fatalf("%d frames lost", bed.pool.Lent())
		}
	})
}

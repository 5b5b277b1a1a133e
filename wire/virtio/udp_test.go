package virtio

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/udp"
)

// TestSplitUDP cuts super-frames of UDP datagrams: each has a length, a checksum and, with IPv4, an
// identification of its own. In runs the result is the same.
func TestSplitUDP(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		h := ip.Header{Version: 4, ID: 0xfffe, DF: true, TTL: 64, Proto: ip.ProtoUDP,
			Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2")}
		eth := ether.Header{Type: ether.TypeIPv4}
		if v6 {
			h.Version, h.Src, h.Dst = 6, netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")
			eth.Type = ether.TypeIPv6
		}
		data := make([]byte, 2500)
		for i := range data {
			data[i] = byte(i * 7)
		}
		h.PayloadLen = udp.HeaderLen + len(data)
		b := eth.AppendTo(nil)
		b = append(b, make([]byte, h.HeaderLen()+udp.HeaderLen)...)
		h.Put(b[14:])
		l4 := 14 + h.HeaderLen()
		u := udp.Header{Src: 50000, Dst: 4791, Checksum: ip.Fold(ip.PseudoSum(h.Src, h.Dst, ip.ProtoUDP, h.PayloadLen))}
		u.Put(b[l4:], len(data))
		b = append(b, data...)
		off := frame.Offload{NeedsCsum: true, GSO: frame.GSOUDP, GSOSize: 1000, CsumStart: uint16(l4), CsumOffset: 6}
		var got []byte
		n := 0
		check := func(seg []byte) {
			g, body, err := ip.Parse(seg[14:])
			if err != nil {
				t.Fatal(err)
			}
			v, p, err := udp.Parse(body)
			if err != nil || v.Src != 50000 || len(p) != len(body)-udp.HeaderLen || v.Checksum == 0 {
				t.Errorf("datagram %d: %+v %v", n, v, err)
			}
			if ip.Checksum(body, ip.PseudoSum(g.Src, g.Dst, ip.ProtoUDP, len(body))) != 0 {
				t.Errorf("datagram %d: wrong checksum", n)
			}
			if !v6 && g.ID != uint16(0xfffe+n) {
				t.Errorf("datagram %d: identification %#x", n, g.ID)
			}
			got = append(got, p...)
			n++
		}
		if err := Split(off, b, check); err != nil || n != 3 || !bytes.Equal(got, data) {
			t.Errorf("IPv6 %v: %v, %d datagrams", v6, err, n)
		}
		var s Splitter
		count, err := s.Begin(off, b)
		if err != nil || count != 3 {
			t.Fatal(count, err)
		}
		run := make([]byte, s.RunLen(1, 2))
		left := s.PutRun(run, 1, 2)
		if left.GSO != frame.GSOUDP || left.CsumOffset != 6 || binary.BigEndian.Uint16(run[l4+4:]) != 1508 {
			t.Errorf("run: %+v", left)
		}
		got, n = got[:1000], 1
		if err := Split(left, run, check); err != nil || !bytes.Equal(got, data) {
			t.Errorf("run: %v", err)
		}
		seg, next := make([]byte, s.Len(0)), make([]byte, s.Len(1))
		s.Put(seg, 0)
		s.Put(next, 1)
		shape := s.Shape()
		shape.Step(seg, 1, 0)
		if !bytes.Equal(seg[:l4+6], next[:l4+6]) {
			t.Error("Step: headers differ")
		}
	}
}

package fault

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"

	"tapir/opa"
	"tapir/wire/ether"
	"tapir/wire/ip"
	"tapir/wire/tcp"
)

// flipped is what a rule that flips the least significant bit of a field makes of a frame.
func flipped(t *testing.T, w What, field string, b []byte) []byte {
	t.Helper()
	e := New(1, [2]string{"a", "b"})
	r := NewRule(Flip, w)
	r.Field, r.Bit = field, 0
	if err := e.SetRules([]Rule{r}); err != nil {
		t.Fatal(err)
	}
	got := bytes.Clone(b)
	if v := e.Judge(A, got, 0); v != nil {
		v.Apply(got)
	}
	return got
}

// Each named field of a 16B packet is the one that its decoder reads.
func TestFlipFields16B(t *testing.T) {
	h := opa.Header{SLID: 5, DLID: 6, SC: 7, RC: 1, PKey: 0x8001, Entropy: 0x1234, Age: 9, VESW: 3}
	eth := ether.Header{Type: opa.EtherType16B}
	b := h.AppendTo(eth.AppendTo(nil), bytes.Repeat([]byte{0x5a}, 60), opa.ICRCv1)
	n := len(b) - opa.Size(60)
	for field, get := range map[string]func(p opa.Packet) uint64{
		"slid":    func(p opa.Packet) uint64 { return uint64(p.SLID()) },
		"dlid":    func(p opa.Packet) uint64 { return uint64(p.DLID()) },
		"length":  func(p opa.Packet) uint64 { return uint64(p.Length() / 8) },
		"sc":      func(p opa.Packet) uint64 { return uint64(p.SC()) },
		"rc":      func(p opa.Packet) uint64 { return uint64(p.RC()) },
		"l2":      func(p opa.Packet) uint64 { return uint64(p.L2()) },
		"l4":      func(p opa.Packet) uint64 { return uint64(p.L4()) },
		"p-key":   func(p opa.Packet) uint64 { return uint64(p.PKey()) },
		"entropy": func(p opa.Packet) uint64 { return uint64(p.Entropy()) },
		"age":     func(p opa.Packet) uint64 { return uint64(p.Age()) },
		"vesw":    func(p opa.Packet) uint64 { return uint64(p.VESW()) },
		"icrc":    func(p opa.Packet) uint64 { return uint64(p.ICRC()) },
		"fecn":    func(p opa.Packet) uint64 { return uint64(map[bool]int{true: 1}[p.FECN()]) },
		"becn":    func(p opa.Packet) uint64 { return uint64(map[bool]int{true: 1}[p.BECN()]) },
	} {
		got := flipped(t, "16b", field, b)
		if was, is := get(opa.Packet(b[n:])), get(opa.Packet(got[n:])); was^is != 1 {
			t.Errorf("%s: %#x became %#x", field, was, is)
		}
	}
}

// Those of TCP, PTP and 9B lie where their standards have them: octet and bit from the header's beginning.
func TestFlipFields(t *testing.T) {
	th := tcp.Header{SrcPort: 1, DstPort: 2, Seq: 3, Ack: 4, Flags: tcp.ACK, Window: 5}
	i := ip.Header{Version: 4, TTL: 64, Proto: ip.ProtoTCP, PayloadLen: th.Len() + 4}
	i.Src, i.Dst = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	eth := ether.Header{Type: ether.TypeIPv4}
	segment := eth.AppendTo(nil)
	l3 := len(segment)
	segment = append(segment, make([]byte, i.HeaderLen()+th.Len()+4)...)
	i.Put(segment[l3:])
	l4 := l3 + i.HeaderLen()
	th.Put(segment[l4:])
	binary.BigEndian.PutUint16(segment[l4+tcp.ChecksumOffset:], ip.Checksum(segment[l4:], ip.PseudoSum(i.Src, i.Dst, ip.ProtoTCP, th.Len()+4)))
	eth.Type = ether.TypePTP
	sync := append(eth.AppendTo(nil), 0, 2, 0, 44)
	sync = append(sync, make([]byte, 60)...)
	eth.Type = opa.EtherType9B
	ib := append(eth.AppendTo(nil), make([]byte, 80)...)
	ib[len(eth.AppendTo(nil))+1] = 2 // link next header
	for _, tt := range []struct {
		what  What
		frame []byte
		at    int
		field string
		octet int
		mask  byte
	}{
		{"tcp", segment, l4, "src-port", 1, 1}, {"tcp", segment, l4, "seq", 7, 1}, {"tcp", segment, l4, "ack", 11, 1},
		{"tcp", segment, l4, "data-offset", 12, 0x10}, {"tcp", segment, l4, "flags", 13, 1}, {"tcp", segment, l4, "window", 15, 1},
		{"sync", sync, 14, "domain", 4, 1}, {"sync", sync, 14, "correction", 15, 1}, {"sync", sync, 14, "sequence", 31, 1},
		{"sync", sync, 14, "nanoseconds", 43, 1}, {"ptp", sync, 14, "seconds", 39, 1}, {"ptp", sync, 14, "clock-identity", 27, 1},
		{"9b", ib, 14, "dlid", 3, 1}, {"9b", ib, 14, "dest-qp", 15, 1}, {"9b", ib, 14, "src-qp", 27, 1}, {"9b", ib, 14, "sc", 0, 0x10},
	} {
		got := flipped(t, tt.what, tt.field, tt.frame)
		if x := got[tt.at+tt.octet] ^ tt.frame[tt.at+tt.octet]; x != tt.mask {
			t.Errorf("%s %s: octet %d is xored with %#02x, want %#02x", tt.what, tt.field, tt.octet, x, tt.mask)
		}
	}
	r := NewRule(Flip, "sync")
	r.Field, r.Bit = "domain", 8
	if key, err := r.Check(); key != "bit" || err == nil {
		t.Error(key, err)
	}
	r.Field = "stag"
	if key, err := r.Check(); key != "field" || fmt.Sprint(err)[:35] != "a PTP Sync has no field stag: choose"[:35] {
		t.Error(key, err)
	}
}

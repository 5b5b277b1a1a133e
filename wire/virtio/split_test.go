package virtio

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"testing"

	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/tcp"
)

// super describes a TCP super-frame for a test.
type super struct {
	v6       bool
	tags     int
	ipOpts   int  // octets of IPv4 options
	ext      bool // an IPv6 destination options header
	flags    tcp.Flags
	payload  int
	size     uint16
	trailing int // octets behind the IP packet
}

const (
	testID  = 0xfffe
	testSeq = tcp.Seq(0xfffffc00)
)

func (s super) ends() (src, dst netip.Addr) {
	if s.v6 {
		return netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")
	}
	return netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
}

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}

// frame builds the bytes with their checksum left partial.
func (s super) frame() (frame.Offload, []byte) {
	src, dst := s.ends()
	th := tcp.Header{SrcPort: 4000, DstPort: 5000, Seq: testSeq, Ack: 77, Flags: s.flags, Window: 1000,
		Opts: tcp.Options{HasTS: true, TSVal: 5, TSEcr: 6}}
	seg := make([]byte, th.Len(), th.Len()+s.payload)
	th.Put(seg)
	seg = append(seg, pattern(s.payload)...)
	binary.BigEndian.PutUint16(seg[tcp.ChecksumOffset:], ip.Fold(ip.PseudoSum(src, dst, ip.ProtoTCP, len(seg))))

	eth := ether.Header{Dst: ether.Addr{2, 0, 0, 0, 0, 2}, Src: ether.Addr{2, 0, 0, 0, 0, 1}, Type: ether.TypeIPv4, NTags: s.tags}
	for i := range s.tags {
		eth.Tags[i] = ether.Tag{TPID: ether.TypeVLAN, TCI: uint16(5 + i)}
	}
	if s.v6 {
		eth.Type = ether.TypeIPv6
	}
	b := eth.AppendTo(nil)
	if s.v6 {
		b = append(b, s.header6(len(seg))...)
	} else {
		ih := ip.Header{Version: 4, TOS: 2, ID: testID, DF: true, TTL: 64, Proto: ip.ProtoTCP, Src: src, Dst: dst,
			PayloadLen: len(seg), Options: bytes.Repeat([]byte{1}, s.ipOpts)}
		h := make([]byte, ih.HeaderLen())
		ih.Put(h)
		b = append(b, h...)
	}
	start := len(b)
	b = append(b, seg...)
	b = append(b, bytes.Repeat([]byte{0xee}, s.trailing)...)
	off := frame.Offload{NeedsCsum: true, GSO: frame.GSOTCPv4, HdrLen: 1, GSOSize: s.size, CsumStart: uint16(start), CsumOffset: 16}
	if s.v6 {
		off.GSO = frame.GSOTCPv6
	}
	return off, b
}

// header6 is written by hand, because ip.Header.Put writes no extension
// headers.
func (s super) header6(payload int) []byte {
	src, dst := s.ends()
	h := make([]byte, ip.HeaderLen6)
	h[0], h[6], h[7] = 6<<4, ip.ProtoTCP, 64
	copy(h[8:], src.AsSlice())
	copy(h[24:], dst.AsSlice())
	if s.ext {
		h[6] = ip.ProtoDestOpts
		h = append(h, ip.ProtoTCP, 0, 1, 4, 0, 0, 0, 0) // one PadN of 4
		payload += 8
	}
	binary.BigEndian.PutUint16(h[4:], uint16(payload))
	return h
}

var supers = []struct {
	name string
	super
	segments int
}{
	{"44 segments", super{payload: 44 * 1448, size: 1448, flags: tcp.ACK | tcp.PSH}, 44},
	{"short last", super{payload: 3000, size: 1448, flags: tcp.ACK | tcp.PSH | tcp.FIN | tcp.CWR}, 3},
	{"odd size", super{payload: 1000, size: 333, flags: tcp.ACK}, 4},
	{"one octet more", super{payload: 1449, size: 1448, flags: tcp.ACK | tcp.CWR | tcp.PSH}, 2},
	{"just one", super{payload: 1448, size: 1448, flags: tcp.ACK | tcp.PSH | tcp.CWR}, 1},
	{"no payload", super{payload: 0, size: 1448, flags: tcp.ACK | tcp.FIN}, 1},
	{"options", super{payload: 5000, size: 1400, ipOpts: 8, flags: tcp.ACK}, 4},
	{"tagged", super{payload: 5000, size: 1448, tags: 1, flags: tcp.ACK}, 4},
	{"twice tagged", super{payload: 5000, size: 1448, tags: 2, flags: tcp.ACK}, 4},
	{"padding behind", super{payload: 100, size: 60, trailing: 9, flags: tcp.ACK}, 2},
	{"IPv6", super{v6: true, payload: 44 * 1428, size: 1428, flags: tcp.ACK | tcp.PSH}, 44},
	{"IPv6 extension", super{v6: true, ext: true, payload: 5000, size: 1420, flags: tcp.ACK | tcp.FIN}, 4},
	{"IPv6 tagged", super{v6: true, tags: 1, payload: 2000, size: 999, flags: tcp.ACK}, 3},
}

func TestSplit(t *testing.T) {
	for _, tt := range supers {
		t.Run(tt.name, func(t *testing.T) {
			off, data := tt.frame()
			given := bytes.Clone(data)
			var segs [][]byte
			if err := Split(off, data, func(seg []byte) { segs = append(segs, bytes.Clone(seg)) }); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(given, data) {
				t.Error("the super-frame was changed")
			}
			if len(segs) != tt.segments {
				t.Fatalf("%d segments, want %d", len(segs), tt.segments)
			}
			var stream []byte
			for i, seg := range segs {
				stream = append(stream, tt.check(t, i, len(segs), seg, len(stream))...)
			}
			if !bytes.Equal(stream, pattern(tt.payload)) {
				t.Error("the payload is not the original's")
			}
		})
	}
}

// check examines segment i of n with the strict decoders of wire and
// returns its payload; at octets came before.
func (s super) check(t *testing.T, i, n int, seg []byte, at int) []byte {
	t.Helper()
	_, l2, err := ether.Parse(seg)
	if err != nil {
		t.Fatal(err)
	}
	h, body, err := ip.Parse(seg[l2:])
	if err != nil {
		t.Fatalf("segment %d: %v", i, err)
	}
	if len(body) > len(seg)-l2-h.HeaderLen() || !s.v6 && h.ID != uint16(testID+i&0xffff) || !s.v6 && h.TOS != 2 {
		t.Errorf("segment %d: IP header %+v, body %d", i, h, len(body))
	}
	if ip.Checksum(body, ip.PseudoSum(h.Src, h.Dst, h.Proto, len(body))) != 0 {
		t.Errorf("segment %d: TCP checksum", i)
	}
	th, payload, err := tcp.Parse(body)
	if err != nil {
		t.Fatal(err)
	}
	want := s.flags
	if i > 0 {
		want &^= tcp.CWR
	}
	if i < n-1 {
		want &^= tcp.FIN | tcp.PSH
	}
	if th.Flags != want || th.Seq != testSeq.Add(at) || th.Ack != 77 || th.Opts.TSVal != 5 || len(payload) > int(s.size) {
		t.Errorf("segment %d of %d: %+v with %d octets, want flags %v", i, n, th, len(payload), want)
	}
	if i < n-1 && len(payload) != int(s.size) {
		t.Errorf("segment %d of %d has only %d octets", i, n, len(payload))
	}
	return payload
}

func TestPartialChecksum(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		s := super{v6: v6, payload: 500, flags: tcp.ACK, size: 500}
		off, data := s.frame()
		off.GSO, off.GSOSize = frame.GSONone, 0
		emitted := 0
		err := Split(off, data, func(seg []byte) {
			emitted++
			s.check(t, 0, 1, seg, 0)
		})
		if err != nil || emitted != 1 {
			t.Errorf("%d frames, %v", emitted, err)
		}
	}
}

func TestZeroChecksumIsSentAsOnes(t *testing.T) {
	b := []byte{0xff, 0xff, 0, 0} // the sum is ffff, so its complement 0
	off := frame.Offload{NeedsCsum: true, CsumOffset: 2}
	if err := Split(off, b, func(seg []byte) {
		if !bytes.Equal(seg, []byte{0xff, 0xff, 0xff, 0xff}) {
			t.Errorf("% x", seg)
		}
	}); err != nil {
		t.Fatal(err)
	}
}

func TestNothingToDoPassesThrough(t *testing.T) {
	data := []byte("any frame")
	Split(frame.Offload{DataValid: true}, data, func(seg []byte) {
		if &seg[0] != &data[0] || len(seg) != len(data) {
			t.Error("the frame was copied")
		}
	})
}

func TestSplitErrors(t *testing.T) {
	spoil := func(s super, fn func(off *frame.Offload, b []byte) []byte) (frame.Offload, []byte) {
		off, b := s.frame()
		b = fn(&off, b)
		return off, b
	}
	v4 := super{payload: 3000, size: 1448, flags: tcp.ACK}
	v6 := super{v6: true, payload: 3000, size: 1428, flags: tcp.ACK}
	tests := []struct {
		name string
		s    super
		fn   func(off *frame.Offload, b []byte) []byte
		want error
	}{
		{"size 0", v4, func(off *frame.Offload, b []byte) []byte { off.GSOSize = 0; return b }, ErrMalformed},
		{"other family", v4, func(off *frame.Offload, b []byte) []byte { off.GSO = frame.GSOTCPv6; return b }, ErrMalformed},
		{"unknown kind", v4, func(off *frame.Offload, b []byte) []byte { off.GSO = 3; return b }, ErrGSOType},
		{"TCP as UDP", v4, func(off *frame.Offload, b []byte) []byte { off.GSO = frame.GSOUDP; return b }, ErrMalformed},
		{"cut", v4, func(off *frame.Offload, b []byte) []byte { return b[:len(b)-1] }, ErrTruncated},
		{"cut in Ethernet", v4, func(off *frame.Offload, b []byte) []byte { return b[:13] }, ErrTruncated},
		{"cut in IP", v4, func(off *frame.Offload, b []byte) []byte { return b[:30] }, ErrTruncated},
		{"not TCP", v4, func(off *frame.Offload, b []byte) []byte { b[14+9] = 17; return b }, ErrMalformed},
		{"fragment", v4, func(off *frame.Offload, b []byte) []byte { b[14+6] |= 0x20; return b }, ErrMalformed},
		{"header length 16", v4, func(off *frame.Offload, b []byte) []byte { b[14] = 0x44; return b }, ErrMalformed},
		{"data offset 4", v4, func(off *frame.Offload, b []byte) []byte { b[34+12] = 0x40; return b }, ErrMalformed},
		{"TCP header beyond the packet", v4, func(off *frame.Offload, b []byte) []byte {
			binary.BigEndian.PutUint16(b[14+2:], 20+25)
			return b
		}, ErrTruncated},
		{"version", v6, func(off *frame.Offload, b []byte) []byte { b[14] = 0x40; return b }, ErrMalformed},
		{"v6 not TCP", v6, func(off *frame.Offload, b []byte) []byte { b[14+6] = 59; return b }, ErrMalformed},
		{"v6 fragment", v6, func(off *frame.Offload, b []byte) []byte { b[14+6] = 44; return b }, ErrMalformed},
		{"v6 cut", v6, func(off *frame.Offload, b []byte) []byte { return b[:len(b)-1] }, ErrTruncated},
		{"v6 extension beyond", v6, func(off *frame.Offload, b []byte) []byte {
			b[14+6] = 0
			b[14+40], b[14+41] = 0, 255
			for i := 14 + 40; i+1 < len(b); i += 2 {
				b[i], b[i+1] = 0, 255
			}
			return b
		}, ErrTruncated},
		{"checksum beyond", v4, func(off *frame.Offload, b []byte) []byte {
			off.GSO, off.CsumStart = frame.GSONone, 65535
			return b
		}, ErrTruncated},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			off, b := spoil(tt.s, tt.fn)
			err := Split(off, b, func([]byte) { t.Error("emitted a segment") })
			if !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

func FuzzSplit(f *testing.F) {
	for _, tt := range supers {
		off, data := tt.frame()
		f.Add(byte(off.GSO), true, off.GSOSize, off.CsumStart, off.CsumOffset, data[:min(len(data), 4000)])
	}
	f.Fuzz(func(t *testing.T, gso byte, csum bool, size, start, offset uint16, data []byte) {
		given := bytes.Clone(data)
		n, octets := 0, 0
		err := Split(frame.Offload{GSO: frame.GSO(gso & 5), NeedsCsum: csum, GSOSize: size, CsumStart: start, CsumOffset: offset},
			data, func(seg []byte) { n++; octets += len(seg) })
		if !bytes.Equal(given, data) {
			t.Fatal("the frame was changed")
		}
		if (err == nil) != (n > 0) {
			t.Fatalf("%d frames and %v", n, err)
		}
		if gso&5 == 0 && err == nil && octets != len(data) {
			t.Fatalf("%d octets became %d", len(data), octets)
		}
	})
}

func TestSplitAllocatesNothing(t *testing.T) {
	off, data := super{payload: 44 * 1448, size: 1448, flags: tcp.ACK}.frame()
	var s Splitter
	octets := 0
	emit := func(seg []byte) { octets += len(seg) }
	s.Split(off, data, emit)
	if n := testing.AllocsPerRun(100, func() { s.Split(off, data, emit) }); n != 0 {
		t.Fatalf("%v allocations per super-frame", n)
	}
}

func BenchmarkSplit(b *testing.B) {
	off, data := super{payload: 44 * 1448, size: 1448, flags: tcp.ACK}.frame()
	var s Splitter
	octets := 0
	emit := func(seg []byte) { octets += len(seg) }
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		s.Split(off, data, emit)
	}
}

// What is cut differs from the true segment in the checksum alone, which holds
// the sum of the pseudo-header.
func TestBeginningsOfSegments(t *testing.T) {
	for _, tt := range supers {
		off, data := tt.frame()
		var whole [][]byte
		if err := Split(off, data, func(seg []byte) { whole = append(whole, bytes.Clone(seg)) }); err != nil {
			t.Fatal(err)
		}
		var s Splitter
		for _, keep := range []int{20, 60, 100, 200} {
			n, err := s.Begin(off, data)
			if err != nil || n != len(whole) {
				t.Fatalf("%s: %d segments, %v", tt.name, n, err)
			}
			for i, w := range whole {
				if s.Len(i) != len(w) {
					t.Fatalf("%s: segment %d has %d octets, want %d", tt.name, i, s.Len(i), len(w))
				}
				got := make([]byte, min(keep, len(w)))
				s.Put(got, i)
				if at := int(off.CsumStart) + 16; len(got) < len(w) && len(got) > at {
					h, body, err := ip.Parse(w[int(off.CsumStart)-tt.ipLen():])
					if err != nil {
						t.Fatal(err)
					}
					if sum := binary.BigEndian.Uint16(got[at:]); sum != ip.Fold(ip.PseudoSum(h.Src, h.Dst, h.Proto, len(body))) {
						t.Errorf("%s: segment %d: checksum %#x", tt.name, i, sum)
					}
					copy(got[at:at+2], w[at:])
				}
				if !bytes.Equal(got, w[:len(got)]) {
					t.Errorf("%s: the first %d octets of segment %d", tt.name, keep, i)
				}
			}
			s.End()
		}
	}
}

// TestRuns puts runs of segments together again: split in turn, they are the
// segments that they were made of.
func TestRuns(t *testing.T) {
	for _, tt := range supers {
		off, data := tt.frame()
		var whole, again [][]byte
		if err := Split(off, data, func(seg []byte) { whole = append(whole, bytes.Clone(seg)) }); err != nil {
			t.Fatal(err)
		}
		for _, most := range []int{1, 2, 3, 44} {
			var s Splitter
			n, err := s.Begin(off, data)
			if err != nil {
				t.Fatal(err)
			}
			again = again[:0]
			for i := 0; i < n; i += most {
				run := min(most, n-i)
				b := make([]byte, s.RunLen(i, run))
				if err := Split(s.PutRun(b, i, run), b, func(seg []byte) { again = append(again, bytes.Clone(seg)) }); err != nil {
					t.Fatalf("%s: %d segments from %d on: %v", tt.name, run, i, err)
				}
			}
			s.End()
			if !slices.EqualFunc(again, whole, bytes.Equal) {
				t.Errorf("%s: runs of %d are other segments", tt.name, most)
			}
		}
	}
}

// ipLen is the length of the IP header with its options and extensions.
func (s super) ipLen() int {
	switch {
	case s.ext:
		return ip.HeaderLen6 + 8
	case s.v6:
		return ip.HeaderLen6
	}
	return ip.HeaderLen4 + s.ipOpts
}

package packet

import (
	"bytes"
	"net/netip"
	"testing"

	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/tcp"
)

type heap struct{}

func (heap) Get(n int) *frame.Frame { return frame.New(make([]byte, frame.DefaultHeadroom+n), heap{}) }
func (heap) Put(*frame.Frame)       {}

var (
	four = [2]netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")}
	six  = [2]netip.Addr{netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")}
)

func write(t *testing.T, w *Writer, a [2]netip.Addr, gso int) (*frame.Frame, ip.Header, []byte) {
	t.Helper()
	f := w.New(a[0], a[1], &tcp.Header{SrcPort: 1, DstPort: 2, Flags: tcp.ACK}, 7, 99, 8)
	f.Append([]byte("payload"))
	w.Seal(f, a[0], a[1], gso)
	h, seg, err := ip.Parse(f.Bytes())
	if err != nil || h.Src != a[0] || h.Dst != a[1] || h.TOS != 8 || h.TTL != 64 || h.HeaderLen() != HeaderLen(a[0]) {
		t.Fatalf("%+v, %v", h, err)
	}
	return f, h, seg
}

// TestChecksums: complete where a frame is a segment, and what the device
// completes where it may be many.
func TestChecksums(t *testing.T) {
	for _, a := range [][2]netip.Addr{four, six} {
		_, h, seg := write(t, &Writer{Pool: heap{}, TTL: 64}, a, 0)
		if ip.Checksum(seg, ip.PseudoSum(h.Src, h.Dst, ip.ProtoTCP, len(seg))) != 0 {
			t.Errorf("%v: the checksum is wrong", a[0])
		}
		f, _, seg := write(t, &Writer{Pool: heap{}, TTL: 64, Partial: true}, a, 3)
		hl := HeaderLen(a[0])
		if !f.NeedsCsum || int(f.CsumStart) != hl || f.GSOSize != 3 || int(f.HdrLen) != hl+tcp.HeaderLen {
			t.Errorf("%v: %+v", a[0], f.Offload)
		}
		// What the device does: the sum over everything, the pseudo-header's in it.
		if sum := ip.Checksum(seg, 0); sum == 0 {
			t.Errorf("%v: the checksum is not partial", a[0])
		} else if PutChecksum(seg, a[0], a[1]); ip.Checksum(seg, ip.PseudoSum(a[0], a[1], ip.ProtoTCP, len(seg))) != 0 {
			t.Errorf("%v: it cannot be completed", a[0])
		}
	}
}

// TestRecordEnds keeps no packet behind one that it could not keep.
func TestRecordEnds(t *testing.T) {
	r := Record{On: true}
	f, h, seg := write(t, &Writer{Pool: heap{}, TTL: 64, Partial: true}, four, 0)
	r.Out(f, four[0], four[1], 1)
	complete := append([]byte(nil), seg...)
	PutChecksum(complete, four[0], four[1])
	if p := r.Packets(); len(p) != 1 || !bytes.Equal(p[0].Data[20:], complete) || r.Size() != len(p[0].Data) {
		t.Fatalf("%d octets in %d packets", r.Size(), len(p))
	}
	r.In(&h, make([]byte, MaxRecord), frame.Offload{}, 2)
	if r.In(&h, seg, frame.Offload{}, 3); r.On || len(r.Packets()) != 1 {
		t.Fatal("there is a hole in the record")
	}
	for r = (Record{On: true}); r.On; {
		r.In(&h, seg, frame.Offload{NeedsCsum: true}, 4)
	}
	if n := len(r.Packets()); n != maxSaved {
		t.Fatalf("%d packets", n)
	}
}

// TestAnswers are bounded, and the RST to a segment is that of RFC 9293
// section 3.10.7.1.
func TestAnswers(t *testing.T) {
	var a Answers
	local, remote := netip.AddrPortFrom(four[0], 7), netip.AddrPortFrom(four[1], 8)
	a.Reset(local, remote, &tcp.Header{Seq: 100, Flags: tcp.SYN | tcp.FIN}, 5, 0)
	a.Reset(local, remote, &tcp.Header{Seq: 100, Ack: 50, Flags: tcp.ACK}, 5, 8)
	if h := a.At(0).H; h.Flags != tcp.RST|tcp.ACK || h.Ack != 107 || h.Seq != 0 || h.SrcPort != 7 || h.DstPort != 8 {
		t.Errorf("%+v", h)
	}
	if h := a.At(1).H; h.Flags != tcp.RST || h.Seq != 50 || h.Ack != 0 || a.At(1).TOS != 8 {
		t.Errorf("%+v", h)
	}
	for range 2 * MaxAnswers {
		a.Add(local, remote, tcp.Header{}, 0)
	}
	if a.Len() != MaxAnswers {
		t.Errorf("%d answers", a.Len())
	}
	if a.Sent(1); a.Len() != MaxAnswers-1 || a.At(0).H.Seq != 50 {
		t.Errorf("%d answers, the first %+v", a.Len(), a.At(0).H)
	}
}

package rdmap

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"testing"

	"pgregory.net/rapid"

	"tapir/ddp"

	"tapir/wire/wiretest"
)

func TestOpcodeTable(t *testing.T) {
	for _, c := range []struct {
		op                    Opcode
		octet                 uint8
		tagged                bool
		queue                 uint32
		invalidate, solicited bool
		header                int
	}{
		{Write, 0x40, true, 0, false, false, 0},
		{ReadRequestOp, 0x41, false, 1, false, false, 28},
		{ReadResponse, 0x42, true, 0, false, false, 0},
		{Send, 0x43, false, 0, false, false, 0},
		{SendInvalidate, 0x44, false, 0, true, false, 0},
		{SendSE, 0x45, false, 0, false, true, 0},
		{SendSEInvalidate, 0x46, false, 0, true, true, 0},
		{TerminateOp, 0x47, false, 2, false, false, 4},
		{ImmediateOp, 0x48, false, 0, false, false, 8},
		{ImmediateSE, 0x49, false, 0, false, true, 8},
		{AtomicRequestOp, 0x4a, false, 1, false, false, 52},
		{AtomicResponseOp, 0x4b, false, 3, false, false, 12},
	} {
		if c.op.Control() != c.octet || ParseControl(c.octet) != (Control{Version: 1, Opcode: c.op}) {
			t.Errorf("%v: octet %#x", c.op, c.op.Control())
		}
		if c.op.Tagged() != c.tagged || c.op.Queue() != c.queue || c.op.Invalidates() != c.invalidate ||
			c.op.Solicited() != c.solicited || c.op.HeaderLen() != c.header || !c.op.Valid() {
			t.Errorf("%v: wrong properties", c.op)
		}
	}
	if o := Opcode(12); o.Valid() || o.Tagged() || o.Queue() != 0 || o.HeaderLen() != 0 || o.String() != "reserved opcode" {
		t.Errorf("opcode 12 is %v", o)
	}
	for i, want := range []Opcode{Send, SendInvalidate, SendSE, SendSEInvalidate} {
		if got := SendOpcode(i&2 != 0, i&1 != 0); got != want || !got.IsSend() {
			t.Errorf("send %d is %v", i, got)
		}
	}
	for b := range 256 {
		if got := ParseControl(uint8(b)).Byte(); got != uint8(b) {
			t.Errorf("octet %#x encodes as %#x", b, got)
		}
	}
}

func TestSegmentHeaders(t *testing.T) {
	for _, c := range []struct {
		h    ddp.Header
		want string
	}{
		{TaggedHeader(Write, true, 0x10, 0x20), "c140" + "00000010" + "0000000000000020"},
		{TaggedHeader(ReadResponse, false, 1, 2), "8142" + "00000001" + "0000000000000002"},
		{UntaggedHeader(SendSEInvalidate, true, 0xabcd, 3, 4), "4146" + "0000abcd" + "00000000" + "00000003" + "00000004"},
		{UntaggedHeader(ReadRequestOp, true, 0, 1, 0), "4141" + "00000000" + "00000001" + "00000001" + "00000000"},
		{UntaggedHeader(AtomicResponseOp, true, 0, 1, 0), "414b" + "00000000" + "00000003" + "00000001" + "00000000"},
	} {
		if got := hex.EncodeToString(c.h.AppendTo(nil)); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

func TestHeaderTable(t *testing.T) {
	read := ReadRequest{SinkSTag: 1, SinkTO: 2, Size: 3, SourceSTag: 4, SourceTO: 5}
	atomic := AtomicRequest{Reserved: 1, Op: CmpSwap, ID: 2, STag: 3, TO: 4, Data: 5, Mask: 6, Compare: 7, CompareMask: 8}
	response := AtomicResponse{ID: 1, Original: 2}
	imm := Immediate{1, 2, 3, 4, 5, 6, 7, 8}
	q := func(v int) string { return fmt.Sprintf("%016x", v) }
	for _, c := range []struct {
		name, want string
		encode     func([]byte) []byte
		decode     func([]byte) (any, error)
		value      any
	}{
		{"read request", "00000001" + q(2) + "00000003" + "00000004" + q(5), read.AppendTo,
			func(b []byte) (any, error) { v, err := ParseReadRequest(b); return v, err }, read},
		{"atomic request", "00000012" + "00000002" + "00000003" + q(4) + q(5) + q(6) + q(7) + q(8), atomic.AppendTo,
			func(b []byte) (any, error) { v, err := ParseAtomicRequest(b); return v, err }, atomic},
		{"atomic response", "00000001" + q(2), response.AppendTo,
			func(b []byte) (any, error) { v, err := ParseAtomicResponse(b); return v, err }, response},
		{"immediate", "0102030405060708", imm.AppendTo,
			func(b []byte) (any, error) { v, err := ParseImmediate(b); return v, err }, imm},
	} {
		b := c.encode([]byte{0xff})[1:]
		if got := hex.EncodeToString(b); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		if v, err := c.decode(b); err != nil || v != c.value {
			t.Errorf("%s: decoded %+v, %v", c.name, v, err)
		}
		for i := range b {
			if _, err := c.decode(b[:i]); err != ErrTruncated {
				t.Errorf("%s cut to %d: %v", c.name, i, err)
			}
		}
	}
	if _, err := ParseImmediate(make([]byte, 9)); err == nil {
		t.Error("immediate data of 9 octets accepted")
	}
}

// rfcMaskedAdd is the pseudocode of RFC 7306 section 5.1.1.
func rfcMaskedAdd(original, data, mask uint64) (result uint64) {
	carry := uint64(0)
	for bit := range 64 {
		loc := uint64(1) << bit
		sum := carry + original>>bit&1 + data>>bit&1
		carry = sum >> 1
		if sum&1 != 0 {
			result |= loc
		}
		if mask&loc != 0 {
			carry = 0
		}
	}
	return result
}

func TestAtomicApply(t *testing.T) {
	for _, c := range []struct {
		name           string
		r              AtomicRequest
		original, want uint64
	}{
		{"add", AtomicRequest{Op: FetchAdd, Data: 5}, 7, 12},
		{"add wraps", AtomicRequest{Op: FetchAdd, Data: 2}, 1<<64 - 1, 1},
		{"add in two fields", AtomicRequest{Op: FetchAdd, Data: 1<<32 | 1, Mask: 1 << 31}, 1<<32 - 1, 1 << 32},
		{"swap", AtomicRequest{Op: Swap, Data: 9}, 7, 9},
		{"compare equal", AtomicRequest{Op: CmpSwap, Compare: 7, CompareMask: 0xff, Data: 0x1234, Mask: 0xff}, 0x5507, 0x5534},
		{"compare unequal", AtomicRequest{Op: CmpSwap, Compare: 8, CompareMask: 0xff, Data: 1, Mask: 0xff}, 7, 7},
	} {
		if got, ok := c.r.Apply(c.original); !ok || got != c.want {
			t.Errorf("%s: %#x, want %#x", c.name, got, c.want)
		}
	}
	if _, ok := (&AtomicRequest{Op: 3}).Apply(0); ok {
		t.Error("operation 3 applied")
	}
	rapid.Check(t, func(t *rapid.T) {
		u := rapid.Uint64()
		a, b, mask := u.Draw(t, "original"), u.Draw(t, "data"), u.Draw(t, "mask")
		if got, want := maskedAdd(a, b, mask), rfcMaskedAdd(a, b, mask); got != want {
			t.Fatalf("%#x, RFC %#x", got, want)
		}
	})
}

func TestTerminateTable(t *testing.T) {
	untagged := UntaggedHeader(ReadRequestOp, true, 0, 1, 0)
	read := ReadRequest{Size: 16}
	ddpHex := hex.EncodeToString(untagged.AppendTo(nil))
	readHex := hex.EncodeToString(read.AppendTo(nil))
	protection := Terminate{Layer: LayerRDMA, Type: TypeProtection, Code: Bounds}
	siw := protection
	siw.Order = OrderSiw
	for _, c := range []struct {
		name string
		t    Terminate
		want string
	}{
		{"CRC error", Terminate{Layer: LayerLLP, Code: 2}, "20020000"},
		{"CRC error, siw", Terminate{Layer: LayerLLP, Code: 2, Order: OrderSiw}, "02020000"},
		{"DDP version", Terminate{Layer: LayerDDP, Type: 2, Code: 6}, "12060000"},
		{"Read out of bounds", protection.WithSegment(untagged, 46).WithRead(read), "0101e000" + "002e" + ddpHex + readHex},
		{"the same, siw", siw.WithSegment(untagged, 46).WithRead(read), "10010700" + "002e" + ddpHex + readHex},
		{"length only", Terminate{HasLength: true, SegmentLength: 9}, "00008000" + "0009"},
		{"reserved bits", Terminate{Layer: 1, Type: 1, Reserved: 0x1fff, HasLength: true}, "11009fff" + "0000"},
		{"reserved bits, siw", Terminate{Layer: 1, Type: 1, Reserved: 0x1f, HasLength: true, Order: OrderSiw}, "1100011f" + "0000"},
	} {
		b := c.t.AppendTo(nil)
		if got := hex.EncodeToString(b); got != c.want || len(b) > MaxTerminateLen {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		got, rest, err := ParseTerminate(append(b, 'x'))
		if err != nil || got != c.t || string(rest) != "x" {
			t.Errorf("%s: parsed %+v, %q, %v", c.name, got, rest, err)
		}
		for i := range b {
			if _, _, err := ParseTerminate(b[:i]); err != ErrTruncated {
				t.Errorf("%s cut to %d: %v", c.name, i, err)
			}
		}
	}
}

func TestRecognizeTerminate(t *testing.T) {
	for _, c := range []struct {
		b    []byte
		want Order
		sure bool
	}{
		{[]byte{0x01, 0x01, 0xe0}, OrderRFC, true},
		{[]byte{0x10, 0x01, 0x07}, OrderSiw, true},
		{[]byte{0x11, 0x00, 0x03}, OrderSiw, true},
		{[]byte{0x21, 0x06, 0x00}, OrderSiw, true},
		{[]byte{0x12, 0x06, 0x00}, OrderRFC, true},
		{[]byte{0x02, 0x02, 0x00}, OrderSiw, true},
		{[]byte{0x20, 0x02, 0x00}, OrderRFC, true},
		{[]byte{0x11, 0x04, 0x00}, OrderRFC, true}, // both orders read alike
		{[]byte{0x00, 0xff, 0x00}, OrderRFC, true},
		{[]byte{0x02, 0x05, 0x00}, OrderRFC, false},
		{[]byte{0x20, 0x06, 0x00}, OrderRFC, false},
	} {
		if got, sure := RecognizeTerminate(c.b); got != c.want || sure != c.sure {
			t.Errorf("% x: %v, %v", c.b, got, sure)
		}
	}
}

// errorNumbers are all assigned ones: RFC 5040 section 4.8, RFC 5041 section
// 7.2, RFC 5044 section 8 and RFC 6581 section 8.
var errorNumbers = []Error{
	{Layer: 0, Type: 0, Code: 0}, {Layer: 0, Type: 1, Code: 0}, {Layer: 0, Type: 1, Code: 1},
	{Layer: 0, Type: 1, Code: 2}, {Layer: 0, Type: 1, Code: 3}, {Layer: 0, Type: 1, Code: 4},
	{Layer: 0, Type: 1, Code: 9}, {Layer: 0, Type: 1, Code: 0xff}, {Layer: 0, Type: 2, Code: 5},
	{Layer: 0, Type: 2, Code: 6}, {Layer: 0, Type: 2, Code: 7}, {Layer: 0, Type: 2, Code: 8},
	{Layer: 0, Type: 2, Code: 9}, {Layer: 0, Type: 2, Code: 0xff},
	{Layer: 1, Type: 0, Code: 0}, {Layer: 1, Type: 1, Code: 0}, {Layer: 1, Type: 1, Code: 4},
	{Layer: 1, Type: 2, Code: 1}, {Layer: 1, Type: 2, Code: 6},
	{Layer: 2, Type: 0, Code: 1}, {Layer: 2, Type: 0, Code: 4}, {Layer: 2, Type: 0, Code: 7},
}

func TestErrorMapsToTerminateAndBack(t *testing.T) {
	for _, e := range errorNumbers {
		term := e.Terminate().WithSegment(ddp.Header{}, 18)
		parsed, _, err := ParseTerminate(term.AppendTo(nil))
		if err != nil {
			t.Fatal(err)
		}
		back := parsed.Error()
		if !errors.Is(back, &e) || !back.Remote {
			t.Errorf("%v came back as %v", &e, back)
		}
		if Name(e.Layer, e.Type, e.Code) == "" {
			t.Errorf("%+v has no name", e)
		}
	}
	for _, e := range []Error{{Layer: 0, Type: 3}, {Layer: 2, Code: 8}, {Layer: 9}} {
		if n := Name(e.Layer, e.Type, e.Code); n != "" {
			t.Errorf("%+v is %q", e, n)
		}
	}
	wrapped := fmt.Errorf("QP 3: %w", FromDDP(&ddp.Error{Type: 1, Code: ddp.Bounds}))
	if !errors.Is(wrapped, &Error{Layer: LayerDDP, Type: 1, Code: 1}) || errors.Is(wrapped, &Error{Layer: LayerDDP, Type: 1, Code: 0}) {
		t.Errorf("%v", wrapped)
	}
	if got := wrapped.Error(); got != "QP 3: base or bounds violation (DDP type 1 code 0x01, here)" {
		t.Errorf("%q", got)
	}
}

func TestHeadersAllocateNothing(t *testing.T) {
	var b [MaxTerminateLen]byte
	read := ReadRequest{Size: 1}
	atomic := AtomicRequest{Op: FetchAdd}
	if n := testing.AllocsPerRun(100, func() {
		read.Put(b[:])
		r, err := ParseReadRequest(b[:])
		if err != nil || r != read {
			t.Fatal(err)
		}
		atomic.Put(b[:])
		if _, err := ParseAtomicRequest(b[:]); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func BenchmarkReadRequest(b *testing.B) {
	var buf [ReadRequestLen]byte
	r := ReadRequest{Size: 1}
	b.ReportAllocs()
	for b.Loop() {
		r.Put(buf[:])
		if _, err := ParseReadRequest(buf[:]); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzTerminate(f *testing.F) {
	for _, s := range wiretest.Seeds(os.DirFS("testdata"), "terminate.hex") {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		term, rest, err := ParseTerminate(b)
		if err != nil {
			return
		}
		if again := append(term.AppendTo(nil), rest...); !bytes.Equal(again, b) {
			t.Fatalf("%x encodes as %x", b, again)
		}
		if term.Error().Error() == "" {
			t.Fatal("no text")
		}
	})
}

func FuzzHeaders(f *testing.F) {
	for _, s := range wiretest.Seeds(os.DirFS("testdata"), "read.hex") {
		f.Add(s)
	}
	f.Add(make([]byte, AtomicRequestLen))
	f.Fuzz(func(t *testing.T, b []byte) {
		same := func(again []byte, err error) {
			if err == nil && !bytes.Equal(again, b[:len(again)]) {
				t.Fatalf("%x encodes as %x", b, again)
			}
		}
		r, err := ParseReadRequest(b)
		same(r.AppendTo(nil), err)
		a, err := ParseAtomicRequest(b)
		same(a.AppendTo(nil), err)
		p, err := ParseAtomicResponse(b)
		same(p.AppendTo(nil), err)
		i, err := ParseImmediate(b)
		same(i.AppendTo(nil), err)
		a.Apply(p.Original)
	})
}

package ddp

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"testing"

	"pgregory.net/rapid"

	"tapir/wire/wiretest"
)

func TestHeaderTable(t *testing.T) {
	for _, c := range []struct {
		name string
		h    Header
		want string
	}{
		{"tagged", Header{Tagged: true, Version: 1, ULP: 0x40, STag: 0x01020304, TO: 0x1122334455667788},
			"8140" + "01020304" + "1122334455667788"},
		{"tagged last", Header{Tagged: true, Last: true, Version: 1, ULP: 0x42}, "c142" + "00000000" + "0000000000000000"},
		{"untagged last", Header{Last: true, Version: 1, ULP: 0x44, ULPWord: 0xdeadbeef, QN: 1, MSN: 2, MO: 3},
			"4144" + "deadbeef" + "00000001" + "00000002" + "00000003"},
		{"reserved bits, version 2", Header{Reserved: 15, Version: 2}, "3e00" + "00000000" + "00000000" + "00000000" + "00000000"},
	} {
		b := c.h.AppendTo(nil)
		if got := hex.EncodeToString(b); got != c.want || len(b) != c.h.Len() {
			t.Errorf("%s: encoded %s, want %s", c.name, got, c.want)
		}
		if IsLast(b) != c.h.Last || IsLast(nil) {
			t.Errorf("%s: last %v", c.name, IsLast(b))
		}
		for i := range b {
			if _, _, err := Parse(b[:i]); err != ErrTruncated {
				t.Errorf("%s cut to %d: %v", c.name, i, err)
			}
		}
		h, payload, err := Parse(append(b, "data"...))
		if err != nil || h != c.h || string(payload) != "data" {
			t.Errorf("%s: parsed %+v, %q, %v", c.name, h, payload, err)
		}
	}
}

// TestSegmentExamples are those of RFC 5041 section 5.2.
func TestSegmentExamples(t *testing.T) {
	untagged := Message{Header: Header{Version: 1, QN: 0, MSN: 7}, Length: 2048}
	tagged := Message{Header: Header{Tagged: true, Version: 1, STag: 5, TO: 16384}, Length: 2048}
	for _, c := range []struct {
		m    Message
		off  uint64
		n    int
		last bool
		at   uint64
	}{
		{untagged, 0, 1482, false, 0},
		{untagged, 1482, 566, true, 1482},
		{tagged, 0, 1486, false, 16384},
		{tagged, 1486, 562, true, 17870},
		{Message{Header: Header{Tagged: true}}, 0, 0, true, 0},
	} {
		var h Header
		n := c.m.Segment(&h, c.off, 1500)
		if at := h.TO + uint64(h.MO); n != c.n || h.Last != c.last || at != c.at {
			t.Errorf("offset %d: %d octets at %d, last %v", c.off, n, at, h.Last)
		}
	}
}

// A header that was advanced is that of the segment cut there.
func TestAdvance(t *testing.T) {
	for _, m := range []Message{
		{Header: Header{Version: 1, ULP: 0x43, MSN: 7}, Length: 1 << 20},
		{Header: Header{Tagged: true, Version: 1, STag: 5, TO: 1<<32 - 100}, Length: 1 << 20},
	} {
		var first, later Header
		n := m.Segment(&first, 0, 1500)
		m.Segment(&later, uint64(3*n), 1500)
		b := first.AppendTo(nil)
		if Advance(b, uint64(3*n)); !bytes.Equal(b, later.AppendTo(nil)) {
			t.Errorf("%x, want %x", b, later.AppendTo(nil))
		}
	}
}

// memory is a Placer with one tagged buffer and receive buffers of a fixed
// size; it records what was delivered.
type memory struct {
	stag      uint32
	base      uint64
	data      []byte
	recv      []byte
	delivered []uint64
	fail      error
}

func (m *memory) PlaceTagged(h *Header, p []byte) error {
	if m.fail != nil {
		return m.fail
	}
	if len(p) == 0 {
		return nil
	}
	if h.STag != m.stag {
		return &Error{Type: TypeTagged, Code: InvalidSTag}
	}
	if h.TO < m.base || h.TO-m.base > uint64(len(m.data)) || uint64(len(p)) > uint64(len(m.data))-(h.TO-m.base) {
		return &Error{Type: TypeTagged, Code: Bounds}
	}
	copy(m.data[h.TO-m.base:], p)
	return nil
}

func (m *memory) PlaceUntagged(h *Header, p []byte) error {
	if uint64(h.MO)+uint64(len(p)) > uint64(len(m.recv)) {
		return &Error{Type: TypeUntagged, Code: TooLong}
	}
	copy(m.recv[h.MO:], p)
	return nil
}

func (m *memory) Deliver(h *Header, length uint64) error {
	m.delivered = append(m.delivered, length)
	return nil
}

func seg(h Header, payload string) []byte { return append(h.AppendTo(nil), payload...) }

func TestReceiverErrors(t *testing.T) {
	tagged := func(stag uint32, to uint64, last bool) Header {
		return Header{Tagged: true, Version: 1, STag: stag, TO: to, Last: last}
	}
	untagged := func(qn, msn, mo uint32, last bool) Header {
		return Header{Version: 1, QN: qn, MSN: msn, MO: mo, Last: last}
	}
	refused := errors.New("refused by the layer above")
	for _, c := range []struct {
		name string
		in   [][]byte
		want error
	}{
		{"truncated", [][]byte{{0x81}}, ErrTruncated},
		{"tagged version", [][]byte{seg(Header{Tagged: true, Version: 2}, "")}, &Error{Type: TypeTagged, Code: TaggedVersion}},
		{"unknown STag", [][]byte{seg(tagged(8, 1000, true), "x")}, &Error{Type: TypeTagged, Code: InvalidSTag}},
		{"out of bounds", [][]byte{seg(tagged(7, 1000+63, true), "xx")}, &Error{Type: TypeTagged, Code: Bounds}},
		{"TO wrap", [][]byte{seg(tagged(7, 1<<64-1, true), "xx")}, &Error{Type: TypeTagged, Code: TOWrap}},
		{"STag changes in the message", [][]byte{seg(tagged(7, 1000, false), "x"), seg(tagged(9, 1001, true), "x")}, &Error{Type: TypeTagged, Code: InvalidSTag}},
		{"TO jumps in the message", [][]byte{seg(tagged(7, 1000, false), "x"), seg(tagged(7, 1002, true), "x")}, &Error{Type: TypeTagged, Code: Bounds}},
		{"untagged version", [][]byte{seg(Header{Version: 0, MSN: 1}, "")}, &Error{Type: TypeUntagged, Code: UntaggedVersion}},
		{"queue", [][]byte{seg(untagged(3, 1, 0, true), "")}, &Error{Type: TypeUntagged, Code: InvalidQN}},
		{"last queue number", [][]byte{seg(untagged(1<<32-1, 1, 0, true), "")}, &Error{Type: TypeUntagged, Code: InvalidQN}},
		{"MSN 0", [][]byte{seg(untagged(0, 0, 0, true), "")}, &Error{Type: TypeUntagged, Code: InvalidMSN}},
		{"MSN again", [][]byte{seg(untagged(0, 1, 0, true), ""), seg(untagged(0, 1, 0, true), "")}, &Error{Type: TypeUntagged, Code: InvalidMSN}},
		{"MO of a first segment", [][]byte{seg(untagged(0, 1, 1, true), "x")}, &Error{Type: TypeUntagged, Code: InvalidMO}},
		{"MO gap", [][]byte{seg(untagged(0, 1, 0, false), "xx"), seg(untagged(0, 1, 3, true), "x")}, &Error{Type: TypeUntagged, Code: InvalidMO}},
		{"too long", [][]byte{seg(untagged(0, 1, 0, true), string(make([]byte, 65)))}, &Error{Type: TypeUntagged, Code: TooLong}},
		{"refused", [][]byte{seg(Header{Tagged: true, Version: 1, ULP: 0xff}, "")}, refused},
	} {
		m := &memory{stag: 7, base: 1000, data: make([]byte, 64), recv: make([]byte, 64)}
		if c.want == refused {
			m.fail = refused
		}
		r := NewReceiver(m, 3)
		var err error
		for i, b := range c.in {
			if err != nil {
				t.Errorf("%s: segment %d already failed: %v", c.name, i, err)
			}
			err = r.Segment(b)
		}
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		var e *Error
		if last := c.in[len(c.in)-1]; errors.As(err, &e) && (e.Length != len(last) || !bytes.Equal(e.Header.AppendTo(nil), last[:e.Header.Len()])) {
			t.Errorf("%s: reports %+v", c.name, e)
		}
		before := len(m.delivered)
		if again := r.Segment(seg(untagged(1, 1, 0, true), "")); again != err || r.Err() != err || len(m.delivered) != before {
			t.Errorf("%s: a segment after the error gives %v", c.name, again)
		}
	}
}

func TestZeroLengthTaggedIsNotChecked(t *testing.T) {
	m := &memory{stag: 7}
	r := NewReceiver(m, 3)
	if err := r.Segment(seg(Header{Tagged: true, Last: true, Version: 1, STag: 99, TO: 1<<64 - 1}, "")); err != nil || len(m.delivered) != 1 {
		t.Fatalf("%v, %v", err, m.delivered)
	}
}

func TestMSNWraps(t *testing.T) {
	m := &memory{recv: make([]byte, 4)}
	r := NewReceiver(m, 1)
	r.queues[0].MSN = 1<<32 - 1
	for _, msn := range []uint32{1<<32 - 1, 0, 1} {
		if err := r.Segment(seg(Header{Last: true, Version: 1, MSN: msn}, "ab")); err != nil {
			t.Fatalf("MSN %d: %v", msn, err)
		}
	}
}

func TestSegmentedMessagesArriveWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SliceOfN(rapid.Byte(), 0, 5000).Draw(t, "data")
		mulpdu := rapid.IntRange(19, 2000).Draw(t, "mulpdu")
		m := &memory{stag: 7, base: 1 << 40, data: make([]byte, len(data)), recv: make([]byte, len(data))}
		r := NewReceiver(m, 1)
		for _, h := range []Header{{Tagged: true, Version: 1, STag: 7, TO: 1 << 40}, {Version: 1, MSN: 1}} {
			msg := Message{Header: h, Length: uint64(len(data))}
			for off, last := 0, false; !last; {
				var sh Header
				n := msg.Segment(&sh, uint64(off), mulpdu)
				b := append(sh.AppendTo(nil), data[off:off+n]...)
				if len(b) > mulpdu {
					t.Fatalf("segment of %d octets, MULPDU %d", len(b), mulpdu)
				}
				if err := r.Segment(b); err != nil {
					t.Fatal(err)
				}
				if last = sh.Last; r.Open() == last {
					t.Fatalf("open %v after last %v", r.Open(), last)
				}
				off += n
			}
		}
		if !bytes.Equal(m.data, data) || !bytes.Equal(m.recv, data) {
			t.Fatal("data differ")
		}
		if len(m.delivered) != 2 || m.delivered[0] != uint64(len(data)) || m.delivered[1] != uint64(len(data)) {
			t.Fatalf("delivered %v", m.delivered)
		}
	})
}

func TestEveryErrorNumberHasAName(t *testing.T) {
	for typ, codes := range [][]uint8{{0}, {0, 1, 2, 3, 4}, {1, 2, 3, 4, 5, 6}} {
		for _, c := range codes {
			if Name(uint8(typ), c) == "" {
				t.Errorf("type %d code %d has no name", typ, c)
			}
		}
	}
	if got := (&Error{Type: 9, Code: 9}).Error(); got != "ddp: error type 9 code 0x09" {
		t.Errorf("unknown: %q", got)
	}
}

func TestSegmentPathAllocatesNothing(t *testing.T) {
	m := &memory{stag: 7, data: make([]byte, 1500), delivered: make([]uint64, 0, 10)}
	r := NewReceiver(m, 3)
	b := make([]byte, 1442)
	h := Header{Tagged: true, Last: true, Version: 1, STag: 7}
	if n := testing.AllocsPerRun(100, func() {
		m.delivered = m.delivered[:0]
		h.Put(b)
		if err := r.Segment(b); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Fatalf("%v allocations per segment", n)
	}
}

func BenchmarkHeaderPut(b *testing.B) {
	h := Header{Tagged: true, Last: true, Version: 1, STag: 7, TO: 1 << 40}
	var buf [UntaggedLen]byte
	b.ReportAllocs()
	for b.Loop() {
		h.Put(buf[:])
	}
}

func BenchmarkHeaderParse(b *testing.B) {
	h := Header{Last: true, Version: 1, MSN: 7}
	buf := h.AppendTo(nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := Parse(buf); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range wiretest.Seeds(os.DirFS("testdata"), "segment.hex") {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, payload, err := Parse(b)
		if err != nil {
			return
		}
		if again := append(h.AppendTo(nil), payload...); !bytes.Equal(again, b) {
			t.Fatalf("%x encodes as %x", b, again)
		}
	})
}

// FuzzReceiver gives the receiver any two segments: nothing may be placed
// outside the registered memory, nothing delivered after an error.
func FuzzReceiver(f *testing.F) {
	s := wiretest.Seeds(os.DirFS("testdata"), "segment.hex")
	for i := range s {
		f.Add(s[i], s[(i+1)%len(s)])
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		h, _, _ := Parse(a)
		m := &memory{stag: h.STag, base: h.TO, data: make([]byte, 256), recv: make([]byte, 256)}
		r := NewReceiver(m, 3)
		err := r.Segment(a)
		before := len(m.delivered)
		if err2 := r.Segment(b); err != nil && (err2 != err || len(m.delivered) != before) {
			t.Fatalf("after %v: %v, delivered %v", err, err2, m.delivered)
		}
	})
}

package ddp

import (
	"bytes"
	"errors"
	"slices"
	"testing"
)

// Tests of RFC 5041 sections 4, 5 and 7, clause by clause.

// cutAll cuts m into segments of at most mulpdu octets.
func cutAll(m *Message, data []byte, mulpdu int) (segs [][]byte, headers []Header) {
	for off, last := 0, false; !last; {
		var h Header
		n := m.Segment(&h, uint64(off), mulpdu)
		segs = append(segs, append(h.AppendTo(nil), data[off:off+n]...))
		headers = append(headers, h)
		off, last = off+n, h.Last
	}
	return segs, headers
}

func payloadOf(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 13)
	}
	return b
}

var messages = []Header{
	{Tagged: true, Version: 1, ULP: 0x40, STag: 0xabcdef01, TO: 0xfffffff0},
	{Version: 1, ULP: 0x44, ULPWord: 0x01020304, QN: 0, MSN: 9},
}

// Sections 4.1 to 4.4 and 5.2 (5041-4.1-3, 5041-4.1-4, 5041-4.1-5, 5041-4.1-6,
// 5041-4.2-2, 5041-4.2-5, 5041-4.2-7, 5041-4.2-10, 5041-4.3-2, 5041-4.3-7,
// 5041-4.3-12, 5041-4.3-13, 5041-4.4-1, 5041-5.2-1, 5041-5.2-3, 5041-5.2-5,
// 5041-5.2-7, 5041-5.3-3): what the data source makes of a message.
func TestSegmentsOfAMessage(t *testing.T) {
	for _, first := range messages {
		for _, n := range []int{1, 2, 100, 1424, 1428, 1429, 5000} {
			for _, mulpdu := range []int{19, 128, 1442} {
				data := payloadOf(n)
				segs, headers := cutAll(&Message{Header: first, Length: uint64(n)}, data, mulpdu)
				var whole []byte
				for i, h := range headers {
					want := first
					want.Last = i == len(headers)-1
					if h.Tagged {
						want.TO += uint64(len(whole))
					} else {
						want.MO = uint32(len(whole))
					}
					if h != want {
						t.Fatalf("segment %d: %+v, want %+v", i, h, want)
					}
					parsed, payload, err := Parse(segs[i])
					if err != nil || parsed != h || len(segs[i]) > mulpdu || len(payload) == 0 {
						t.Fatalf("segment %d of %d octets, MULPDU %d: %+v, %v", i, len(segs[i]), mulpdu, parsed, err)
					}
					whole = append(whole, payload...)
				}
				if !bytes.Equal(whole, data) {
					t.Fatalf("%d octets sent, %d given", len(whole), n)
				}
			}
		}
	}
}

// Section 5.2 (5041-5.2-8).
func TestZeroLengthMessageIsOneSegment(t *testing.T) {
	for _, first := range messages {
		segs, headers := cutAll(&Message{Header: first}, nil, 1442)
		if len(segs) != 1 || !headers[0].Last || len(segs[0]) != headers[0].Len() {
			t.Errorf("%d segments, %+v", len(segs), headers)
		}
	}
}

// Section 4.1 (5041-4.1-8): the reserved bits are zero when sent by header
// makers that leave them alone, and not checked.
func TestReservedBitsAreNotChecked(t *testing.T) {
	for _, first := range messages {
		h := first
		h.Last = true
		if b := h.AppendTo(nil); b[0]&0x3c != 0 {
			t.Errorf("sent %#x", b[0])
		}
		h.Reserved, h.MSN = 0xf, 1
		m := &memory{stag: h.STag, base: h.TO, data: make([]byte, 4), recv: make([]byte, 4)}
		if err := NewReceiver(m, 1).Segment(seg(h, "ab")); err != nil || len(m.delivered) != 1 {
			t.Errorf("%+v: %v", h, err)
		}
	}
}

// Section 4.1 (5041-4.1-9, 5041-4.1-10): every version but 1 is refused.
func TestVersion(t *testing.T) {
	for v := range uint8(4) {
		for _, h := range messages {
			h.Version, h.MSN, h.Last = v, 1, true
			m := &memory{stag: h.STag, base: h.TO, data: make([]byte, 4), recv: make([]byte, 4)}
			err := NewReceiver(m, 1).Segment(seg(h, "ab"))
			want := &Error{Type: TypeUntagged, Code: UntaggedVersion}
			if h.Tagged {
				want = &Error{Type: TypeTagged, Code: TaggedVersion}
			}
			if v == 1 && err != nil || v != 1 && (!errors.Is(err, want) || len(m.delivered) != 0) {
				t.Errorf("version %d, tagged %v: %v", v, h.Tagged, err)
			}
		}
	}
}

// witness notes in which order a Placer was called, and with what.
type witness struct {
	memory
	log []string
	ulp []uint8
	tag []uint32
}

func (w *witness) PlaceTagged(h *Header, p []byte) error {
	w.log = append(w.log, "tagged "+string(p))
	return w.memory.PlaceTagged(h, p)
}

func (w *witness) PlaceUntagged(h *Header, p []byte) error {
	w.log = append(w.log, "untagged "+string(p))
	return w.memory.PlaceUntagged(h, p)
}

func (w *witness) Deliver(h *Header, n uint64) error {
	w.log = append(w.log, "deliver")
	w.ulp, w.tag = append(w.ulp, h.ULP), append(w.tag, h.STag|h.ULPWord)
	return w.memory.Deliver(h, n)
}

// Sections 4.1 to 4.3, 5.3 and 5.4 (5041-4.1-1, 5041-4.1-2, 5041-4.1-7,
// 5041-4.2-3, 5041-4.2-8, 5041-4.3-3, 5041-5.2-4, 5041-5.3-4, 5041-5.3-5,
// 5041-5.4-1, 5041-5.4-2, 5041-5.4-3): delivery comes once, after placement,
// in order, with RsvdULP, STag and length.
func TestDelivery(t *testing.T) {
	w := &witness{memory: memory{stag: 7, base: 100, data: make([]byte, 8), recv: make([]byte, 8)}}
	r := NewReceiver(w, 2)
	for _, b := range [][]byte{
		seg(Header{Version: 1, ULP: 0x44, ULPWord: 0x55, MSN: 1}, "ab"),
		seg(Header{Tagged: true, Version: 1, ULP: 0x40, STag: 7, TO: 100}, "cd"), // between the segments of another
		seg(Header{Version: 1, ULP: 0x44, ULPWord: 0x55, MSN: 1, MO: 2, Last: true}, "e"),
		seg(Header{Tagged: true, Version: 1, ULP: 0x40, STag: 7, TO: 102, Last: true}, "fgh"),
		seg(Header{Version: 1, ULP: 0x43, QN: 1, MSN: 1, Last: true}, ""),
	} {
		if err := r.Segment(b); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"untagged ab", "tagged cd", "untagged e", "deliver", "tagged fgh", "deliver", "untagged ", "deliver"}; !slices.Equal(w.log, want) {
		t.Errorf("%q", w.log)
	}
	if !slices.Equal(w.delivered, []uint64{3, 5, 0}) || !slices.Equal(w.ulp, []uint8{0x44, 0x40, 0x43}) || !slices.Equal(w.tag, []uint32{0x55, 7, 0}) {
		t.Errorf("delivered %v with %x of %x", w.delivered, w.ulp, w.tag)
	}
	if string(w.data[:5]) != "cdfgh" || string(w.recv[:3]) != "abe" {
		t.Errorf("placed %q %q", w.data, w.recv)
	}
}

// Section 4.2 (5041-4.2-4, 5041-4.2-6, 5041-4.2-9): one tagged message, one
// STag and one RsvdULP.
func TestTaggedMessageKeepsItsFields(t *testing.T) {
	for _, c := range []struct {
		second Header
		code   uint8
		ok     bool
	}{
		{Header{ULP: 0x40, STag: 7, TO: 101}, 0, true},
		{Header{ULP: 0x42, STag: 7, TO: 101}, InvalidSTag, false},
		{Header{ULP: 0x40, STag: 8, TO: 101}, InvalidSTag, false},
		{Header{ULP: 0x40, STag: 7, TO: 102}, Bounds, false},
	} {
		m := &memory{stag: 7, base: 100, data: make([]byte, 8)}
		r := NewReceiver(m, 1)
		if err := r.Segment(seg(Header{Tagged: true, Version: 1, ULP: 0x40, STag: 7, TO: 100}, "x")); err != nil {
			t.Fatal(err)
		}
		c.second.Tagged, c.second.Version, c.second.Last = true, 1, true
		err := r.Segment(seg(c.second, "y"))
		if c.ok != (err == nil) || !c.ok && !errors.Is(err, &Error{Type: TypeTagged, Code: c.code}) {
			t.Errorf("%+v: %v", c.second, err)
		}
	}
}

// Section 4.3 (5041-4.3-5): RsvdULP of untagged segments need not agree.
func TestUntaggedRsvdULPMayDiffer(t *testing.T) {
	w := &witness{memory: memory{recv: make([]byte, 4)}}
	r := NewReceiver(w, 1)
	for _, b := range [][]byte{seg(Header{Version: 1, ULP: 0x43, MSN: 1}, "a"), seg(Header{Version: 1, ULP: 0x44, ULPWord: 9, MSN: 1, MO: 1, Last: true}, "b")} {
		if err := r.Segment(b); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(w.ulp, []uint8{0x44}) {
		t.Errorf("delivered with %x", w.ulp)
	}
}

// Section 4.3 (5041-4.3-4, 5041-4.3-6, 5041-4.3-8, 5041-4.3-9, 5041-4.3-10,
// 5041-4.3-11): each queue counts its messages from 1, in steps of 1 and
// through 0.
func TestMessageSequenceNumbers(t *testing.T) {
	m := &memory{recv: make([]byte, 4)}
	r := NewReceiver(m, 2)
	take := func(qn, msn, mo uint32, last bool) error {
		return r.Segment(seg(Header{Version: 1, QN: qn, MSN: msn, MO: mo, Last: last}, "a"))
	}
	if err := errors.Join(take(0, 1, 0, true), take(0, 2, 0, false), take(1, 1, 0, true), take(0, 2, 1, true), take(0, 3, 0, true)); err != nil {
		t.Fatal(err)
	}
	if r.Queue(0).MSN != 4 || r.Queue(1).MSN != 2 {
		t.Errorf("next are %d and %d", r.Queue(0).MSN, r.Queue(1).MSN)
	}
	for _, msn := range []uint32{0, 2} {
		if err := NewReceiver(m, 1).Segment(seg(Header{Version: 1, MSN: msn, Last: true}, "a")); !errors.Is(err, &Error{Type: TypeUntagged, Code: InvalidMSN}) {
			t.Errorf("first MSN %d: %v", msn, err)
		}
	}
	r.queues[0].MSN = 1<<32 - 1
	if err := errors.Join(take(0, 1<<32-1, 0, true), take(0, 0, 0, true), take(0, 1, 0, true)); err != nil {
		t.Error(err)
	}
	if err := take(0, 3, 0, true); !errors.Is(err, &Error{Type: TypeUntagged, Code: InvalidMSN}) {
		t.Errorf("a message left out: %v", err)
	}
}

// Section 5.2 (5041-5.2-2): no message of 2^32 octets.
func TestMessageLengthIsBelow4GiB(t *testing.T) {
	if MaxMessage != 1<<32-1 {
		t.Errorf("limit %d", uint64(MaxMessage))
	}
	m := &memory{recv: make([]byte, 4)}
	r := NewReceiver(m, 1)
	r.queues[0].MO = 1<<32 - 2
	err := r.Segment(seg(Header{Version: 1, MSN: 1, MO: 1<<32 - 2, Last: true}, "ab"))
	if !errors.Is(err, &Error{Type: TypeUntagged, Code: TooLong}) || len(m.delivered) != 0 {
		t.Errorf("%v, delivered %v", err, m.delivered)
	}
}

// Section 5.2 (5041-5.2-9, 5041-5.2-10).
func TestZeroLengthTaggedSegmentCarriesOnlyControl(t *testing.T) {
	for _, h := range []Header{{STag: 99, TO: 5}, {STag: 7, TO: 1<<64 - 1}, {STag: 7, TO: 1}, {}} {
		m := &memory{stag: 7, base: 100, data: make([]byte, 8)}
		r := NewReceiver(m, 1)
		h.Tagged, h.Version, h.Last = true, 1, true
		if err := r.Segment(seg(h, "")); err != nil || !slices.Equal(m.delivered, []uint64{0}) {
			t.Errorf("%+v: %v, delivered %v", h, err, m.delivered)
		}
	}
}

// Section 7.1 (5041-7.1-1, 5041-7.1-4, 5041-7.1-5, 5041-7.1-6, 5041-7.1-7,
// 5041-6.2.2-1, 5041-7.2-1): the list of checks; nothing of a bad segment is
// placed, and nothing behind it.
func TestErrorsAtTheDataSink(t *testing.T) {
	for _, c := range []struct {
		name      string
		h         Header
		payload   string
		typ, code uint8
	}{
		{"QN", Header{QN: 2, MSN: 1}, "x", 2, 1},
		{"MSN above", Header{MSN: 2}, "x", 2, 3},
		{"MSN below", Header{MSN: 0}, "x", 2, 3},
		{"MO", Header{MSN: 1, MO: 1}, "x", 2, 4},
		{"MO and length", Header{MSN: 1}, "too long for it", 2, 5},
		{"untagged version", Header{Version: 3, MSN: 1}, "x", 2, 6},
		{"STag", Header{Tagged: true, STag: 8, TO: 100}, "x", 1, 0},
		{"TO below", Header{Tagged: true, STag: 7, TO: 99}, "x", 1, 1},
		{"TO above", Header{Tagged: true, STag: 7, TO: 109}, "x", 1, 1},
		{"TO and length", Header{Tagged: true, STag: 7, TO: 101}, "12345678", 1, 1},
		{"wrap", Header{Tagged: true, STag: 7, TO: 1<<64 - 2}, "123", 1, 3},
		{"tagged version", Header{Tagged: true, Version: 2, STag: 7, TO: 100}, "x", 1, 4},
	} {
		m := &memory{stag: 7, base: 100, data: make([]byte, 8), recv: make([]byte, 8)}
		r := NewReceiver(m, 2)
		c.h.Last = true
		if c.h.Version == 0 {
			c.h.Version = 1
		}
		b := seg(c.h, c.payload)
		err := r.Segment(b)
		var e *Error
		if !errors.As(err, &e) || e.Type != c.typ || e.Code != c.code || e.Header != c.h || e.Length != len(b) {
			t.Errorf("%s: %+v", c.name, err)
		}
		good := seg(Header{Tagged: true, Version: 1, STag: 7, TO: 100, Last: true}, "good")
		if again := r.Segment(good); again != err {
			t.Errorf("%s: then %v", c.name, again)
		}
		if len(m.delivered) != 0 || !bytes.Equal(m.data, make([]byte, 8)) || !bytes.Equal(m.recv, make([]byte, 8)) {
			t.Errorf("%s: placed %q %q, delivered %v", c.name, m.data, m.recv, m.delivered)
		}
	}
}

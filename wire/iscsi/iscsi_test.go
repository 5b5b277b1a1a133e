package iscsi

import (
	"bytes"
	"errors"
	"slices"
	"testing"
)

// pdu is a whole PDU with additional header segments.
func pdu(d Digests, op Opcode, ahs, data []byte) []byte {
	var h BHS
	h[0], h[1], h[4] = byte(op), Final, byte(len(ahs)/4)
	h.SetDataLen(len(data))
	h.Put(ITT, 7)
	b := d.Head(nil, &h)
	if len(ahs) > 0 {
		b = append(slices.Clone(h[:]), ahs...)
		if d.Header {
			b = Digests{Data: true}.Tail(b, b)
		}
	}
	return d.Tail(append(b, data...), data)
}

// read reads all PDUs of a stream that comes in pieces of some octets.
func read(r *Reader, stream []byte, piece int) (found [][]byte, err error) {
	for len(stream) > 0 {
		p := stream[:min(piece, len(stream))]
		stream = stream[len(p):]
		for ev := Head; ev != More; {
			var n int
			if n, ev, err = r.Next(p); err != nil {
				return found, err
			}
			if p = p[n:]; ev == Whole {
				found = append(found, slices.Concat(r.BHS[:], r.AHS, r.Data))
			}
		}
	}
	return found, nil
}

// TestReader: PDUs come out as they were, however the stream is cut, with each choice of
// digests.
func TestReader(t *testing.T) {
	for _, d := range []Digests{{}, {Header: true}, {Data: true}, {true, true}} {
		var stream []byte
		var want [][]byte
		for i, data := range [][]byte{nil, []byte("a"), []byte("abcd"), bytes.Repeat([]byte("xyz"), 1001)} {
			ahs := make([]byte, 8*(i%2))
			b := pdu(d, NopOut, ahs, data)
			stream = append(stream, b...)
			want = append(want, slices.Concat(b[:HeaderLen], ahs, data))
		}
		for _, piece := range []int{1, 3, 48, 100, len(stream)} {
			r := Reader{Digests: d, Max: 8192}
			got, err := read(&r, stream, piece)
			if err != nil || !slices.EqualFunc(got, want, bytes.Equal) {
				t.Fatalf("%+v in pieces of %d: %d PDUs, %v", d, piece, len(got), err)
			}
			if r.Middle() || r.DataBad {
				t.Errorf("%+v: the Reader is in the middle of a PDU, or its digest is wrong", d)
			}
		}
	}
}

// TestDigestErrors: a wrong octet in the header ends the stream, one in the data does not.
func TestDigestErrors(t *testing.T) {
	good := pdu(Digests{true, true}, DataOut, nil, []byte("hello"))
	for at := range good {
		b := slices.Clone(good)
		b[at] ^= 4
		r := Reader{Digests: Digests{true, true}, Max: 1 << 24}
		_, err := read(&r, b, len(b))
		if header := at < HeaderLen+digestLen; header && err == nil && !r.Middle() || !header && (err != nil || !r.DataBad) {
			t.Errorf("octet %d changed: error %v, DataBad %v", at, err, r.DataBad)
		}
	}
	r := Reader{Max: 4}
	if _, err := read(&r, good, len(good)); !errors.Is(err, ErrTooLong) {
		t.Errorf("a data segment of 5 octets where 4 are allowed: %v", err)
	}
}

// TestDigestExamples are those of RFC 7143 appendix A.4.
func TestDigestExamples(t *testing.T) {
	read10 := []byte{0x01, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x14, 0, 0, 0, 0, 0, 0x04, 0, 0, 0, 0, 0x14, 0, 0, 0, 0x18,
		0x28, 0, 0, 0, 0, 0, 0, 0, 0x02, 0, 0, 0, 0, 0, 0, 0}
	h := BHS(read10)
	got := Digests{Header: true}.Head(nil, &h)[HeaderLen:]
	if want := []byte{0x56, 0x3a, 0x96, 0xd9}; !bytes.Equal(got, want) {
		t.Errorf("digest of the READ(10) command: % x, want % x", got, want)
	}
	if h.Opcode() != Command || h.U32(Expected) != 0x400 || h.U32(CmdSN) != 0x14 || h.CDB()[0] != 0x28 {
		t.Errorf("fields: %v", h)
	}
}

// TestText: what AppendText writes, ParseText reads; it refuses what is no list of pairs.
func TestText(t *testing.T) {
	var b []byte
	want := []Pair{{"InitiatorName", "iqn.x"}, {"Empty", ""}, {"Eq", "a=b"}}
	for _, p := range want {
		b = AppendText(b, p.Key, p.Value)
	}
	if got, err := ParseText(b); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"a", "a=b", "=b\x00", "ab\x00", string(bytes.Repeat([]byte("k"), 64)) + "=1\x00"} {
		if got, err := ParseText([]byte(bad)); !errors.Is(err, ErrText) {
			t.Errorf("%q: %v, %v", bad, got, err)
		}
	}
}

// FuzzReader: whatever comes, in pieces or as a whole, gives the same PDUs.
func FuzzReader(f *testing.F) {
	f.Add(pdu(Digests{}, NopOut, nil, []byte("ping")), byte(0))
	f.Add(pdu(Digests{true, true}, Command, make([]byte, 4), []byte("data")), byte(3))
	f.Fuzz(func(t *testing.T, b []byte, flags byte) {
		d := Digests{flags&1 != 0, flags&2 != 0}
		one, all := Reader{Digests: d, Max: 1 << 16}, Reader{Digests: d, Max: 1 << 16}
		x, errX := read(&one, b, 1)
		y, errY := read(&all, b, len(b))
		if !slices.EqualFunc(x, y, bytes.Equal) || !errors.Is(errX, errY) {
			t.Fatalf("%d PDUs and %v octet by octet, %d and %v at once", len(x), errX, len(y), errY)
		}
		for _, p := range y {
			_, _ = ParseText(p[HeaderLen:])
		}
	})
}

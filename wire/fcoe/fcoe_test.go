package fcoe

import (
	"bytes"
	"errors"
	"testing"

	"tapir/wire/fc"
)

func frame(fctl fc.FCtl, count uint16, payload []byte) []byte {
	return Append(nil, fc.Header{RCtl: fc.SolicitedData, D: 1, S: 2, Type: fc.TypeFCP, FCtl: fctl, SeqCnt: count}, payload)
}

func TestFrameComesBack(t *testing.T) {
	for _, c := range []struct {
		fctl  fc.FCtl
		count uint16
		s     SOF
		e     EOF
	}{{0, 0, SOFi3, EOFn}, {0, 1, SOFn3, EOFn}, {fc.End, 2, SOFn3, EOFt}, {fc.End, 0, SOFi3, EOFt}} {
		b := frame(c.fctl, c.count, []byte{1, 2, 3, 4})
		s, e, f, err := Parse(b)
		h, p, err2 := fc.Parse(f)
		if err != nil || err2 != nil || s != c.s || e != c.e || h.SeqCnt != c.count || !bytes.Equal(p, []byte{1, 2, 3, 4}) {
			t.Errorf("%+v: %x %x %v %v", c, s, e, err, err2)
		}
		if len(b) != Overhead+4 {
			t.Error(len(b))
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		at   int
		flip byte
		want error
	}{
		"version": {0, 0x10, ErrVersion}, "start": {13, 3, ErrDelimiter}, "end": {len(frame(0, 0, nil)) - 4, 8, ErrDelimiter},
		"header": {14, 1, ErrCRC}, "CRC": {14 + fc.HeaderLen, 1, ErrCRC},
	} {
		b := frame(0, 0, nil)
		b[c.at] ^= c.flip
		if _, _, _, err := Parse(b); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, _, err := Parse(make([]byte, Overhead-1)); !errors.Is(err, ErrShort) {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(frame(fc.End, 0, []byte("abcd")))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, _, frame, err := Parse(b); err == nil && len(frame) != len(b)-headLen-tailLen {
			t.Error(len(frame))
		}
	})
}

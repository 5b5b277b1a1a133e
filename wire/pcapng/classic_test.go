package pcapng

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/google/gopacket/pcapgo"
)

// classic is a file of two packets, the second cut by a snap length of 4.
func classic(order binary.AppendByteOrder, magic uint32) (b []byte) {
	for _, v := range []uint32{magic, 0, 0, 0, 4, 0x3400_0001} {
		b = order.AppendUint32(b, v)
	}
	order.AppendUint16(order.AppendUint16(b[:4], 2), 4)
	for _, v := range []uint32{1_700_000_000, 999_999, 3, 3} {
		b = order.AppendUint32(b, v)
	}
	b = append(b, 1, 2, 3)
	for _, v := range []uint32{1_700_000_001, 1, 4, 1500} {
		b = order.AppendUint32(b, v)
	}
	return append(b, 4, 5, 6, 7)
}

func TestClassic(t *testing.T) {
	for _, c := range []struct {
		order binary.AppendByteOrder
		magic uint32
		tick  int64
	}{
		{binary.LittleEndian, 0xa1b2c3d4, 1000}, {binary.LittleEndian, 0xa1b23c4d, 1},
		{binary.BigEndian, 0xa1b2c3d4, 1000}, {binary.BigEndian, 0xa1b23c4d, 1},
	} {
		file := classic(c.order, c.magic)
		r, err := NewClassic(bytes.NewReader(file))
		if err != nil {
			t.Fatalf("%x: %v", file[:4], err)
		}
		if i := r.Interface(); i.LinkType != LinkEthernet || i.SnapLen != 4 {
			t.Errorf("%x: %+v", file[:4], i)
		}
		for _, want := range []Packet{
			{Stamp: 1_700_000_000e9 + 999_999*c.tick, Data: []byte{1, 2, 3}, OrigLen: 3},
			{Stamp: 1_700_000_001e9 + c.tick, Data: []byte{4, 5, 6, 7}, OrigLen: 1500},
		} {
			p, err := r.Next()
			if err != nil || p.Stamp != want.Stamp || !bytes.Equal(p.Data, want.Data) || p.OrigLen != want.OrigLen {
				t.Errorf("%x: %+v %v, want %+v", file[:4], p, err, want)
			}
		}
		if _, err := r.Next(); err != io.EOF {
			t.Errorf("%x: %v at the end", file[:4], err)
		}
	}
}

func TestClassicRefuses(t *testing.T) {
	le, good := binary.LittleEndian, classic(binary.LittleEndian, 0xa1b2c3d4)
	for name, spoil := range map[string]func([]byte) []byte{
		"empty":      func(b []byte) []byte { return nil },
		"short head": func(b []byte) []byte { return b[:23] },
		"magic":      func(b []byte) []byte { b[0]++; return b },
		"version":    func(b []byte) []byte { b[4]++; return b },
	} {
		if _, err := NewClassic(bytes.NewReader(spoil(bytes.Clone(good)))); err != ErrNotClassic {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, c := range map[string]struct {
		spoil func([]byte) []byte
		want  error
	}{
		"in a head":           {func(b []byte) []byte { return b[:30] }, ErrTruncated},
		"behind a head":       {func(b []byte) []byte { return b[:40] }, ErrTruncated},
		"in data":             {func(b []byte) []byte { return b[:42] }, ErrTruncated},
		"more than there was": {func(b []byte) []byte { le.PutUint32(b[36:], 2); return b }, ErrMalformed},
		"huge":                {func(b []byte) []byte { le.PutUint64(b[32:], 1<<63|1<<31); return b }, ErrMalformed},
	} {
		r, err := NewClassic(bytes.NewReader(c.spoil(bytes.Clone(good))))
		if err == nil {
			_, err = r.Next()
		}
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// FuzzClassic reads what gopacket reads as gopacket does.
func FuzzClassic(f *testing.F) {
	f.Add(classic(binary.LittleEndian, 0xa1b2c3d4))
	f.Add(classic(binary.BigEndian, 0xa1b23c4d))
	f.Fuzz(func(t *testing.T, in []byte) {
		ours, err := NewClassic(bytes.NewReader(in))
		if err != nil {
			return
		}
		theirs, err := pcapgo.NewReader(bytes.NewReader(in))
		if err != nil {
			t.Fatalf("gopacket: %v", err)
		}
		for {
			p, err := ours.Next()
			if err != nil {
				return
			}
			if len(p.Data) > int(ours.Interface().SnapLen) {
				return // gopacket refuses, libpcap does not
			}
			data, ci, err := theirs.ReadPacketData()
			if err != nil || !bytes.Equal(data, p.Data) || ci.Length != int(p.OrigLen) || ci.Timestamp.Unix() > p.Stamp/1e9 {
				t.Fatalf("gopacket: % x %+v %v; we: %+v", data, ci, err, p)
			}
		}
	})
}

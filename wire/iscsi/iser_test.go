package iscsi

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"
)

// TestISER: messages come out as they went in; the header is that of RFC 7145 section 9.2.
func TestISER(t *testing.T) {
	var h BHS
	h[0] = byte(Command)
	h.Put(ITT, 7)
	read := Advert{Read: true, ReadSTag: 0x11223344, ReadBase: 0x5566778899aabbcc}
	write := Advert{Write: true, WriteSTag: 0x11223344, WriteBase: 0x5566778899aabbcc}
	for _, c := range []struct {
		a      Advert
		data   string
		header string
	}{
		{Advert{}, "", "10000000" + "00000000" + "0000000000000000" + "00000000" + "0000000000000000"},
		{read, "", "14000000" + "00000000" + "0000000000000000" + "11223344" + "5566778899aabbcc"},
		{write, "hello", "18000000" + "11223344" + "5566778899aabbcc" + "00000000" + "0000000000000000"},
	} {
		b := AppendISER(nil, &c.a, &h, []byte(c.data))
		if got := hex.EncodeToString(b[:ISERLen]); got != c.header {
			t.Errorf("header %s, want %s", got, c.header)
		}
		m, err := ParseISER(b)
		if err != nil || m.Kind != ISERControl || m.Advert != c.a || m.BHS != h || string(m.Data) != c.data ||
			len(b)%4 != 0 {
			t.Errorf("%+v: %v", m, err)
		}
		for n := range ISERLen + HeaderLen + len(c.data) {
			if _, err := ParseISER(b[:n]); !errors.Is(err, ErrISER) {
				t.Errorf("%d octets of %d: %v", n, len(b), err)
			}
		}
	}
	hello, reply := AppendHello(nil, 5), AppendHelloReply(nil, 6)
	if !bytes.Equal(hello[:4], []byte{0x20, 0xaa, 0, 5}) || !bytes.Equal(reply[:4], []byte{0x30, 0xaa, 0, 6}) {
		t.Errorf("hello % x, reply % x", hello, reply)
	}
	for b, ok := range map[string]bool{string(hello): true, string(reply): true, "\x31" + string(reply[1:]): false,
		"\x20\xbb" + string(hello[2:]): false, "\x40" + string(hello[1:]): false} {
		if m, err := ParseISER([]byte(b)); (err == nil) != ok || ok && m.Reads != uint16(b[3]) {
			t.Errorf("% x: %+v, %v", b[:4], m, err)
		}
	}
}

// FuzzISER: what is read and written again is the same message.
func FuzzISER(f *testing.F) {
	f.Add(AppendHello(nil, 1))
	f.Add(AppendISER(nil, &Advert{Write: true, WriteSTag: 1}, &BHS{1}, []byte("data")))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseISER(b)
		if err != nil || m.Kind != ISERControl || m.BHS[4] != 0 {
			return
		}
		again, err := ParseISER(AppendISER(nil, &m.Advert, &m.BHS, m.Data))
		if err != nil || again.Advert != m.Advert || again.BHS != m.BHS || !bytes.Equal(again.Data, m.Data) {
			t.Fatalf("%+v became %+v: %v", m, again, err)
		}
	})
}

// TestDescribeISER: whatever a peer sends has a text.
func TestDescribeISER(t *testing.T) {
	b := make([]byte, ISERLen+HeaderLen)
	for first := range 256 {
		for n := range len(b) + 1 {
			if b[0] = byte(first); len(DescribeISER(nil, b[:n])) == 0 {
				t.Fatalf("%d octets, the first %#x: no text", n, first)
			}
		}
	}
}

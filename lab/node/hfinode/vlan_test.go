package hfinode

import (
	"slices"
	"testing"

	"tapir/wire/ether"
	"tapir/wire/frame"
)

func TestTagsOfAGateway(t *testing.T) {
	f := frame.New(make([]byte, 256), nil)
	inner := append(ether.Header{Dst: ether.Addr{2, 1}, Src: ether.Addr{2, 2}, Type: ether.TypeARP}.AppendTo(nil), 1, 2, 3, 4)
	f.Append(inner)
	if !pushTag(f, 5) {
		t.Fatal("no room")
	}
	h, n, err := ether.Parse(f.Bytes())
	if err != nil || h.NTags != 1 || h.Tags[0].VID() != 5 || h.Type != ether.TypeARP || h.Dst != (ether.Addr{2, 1}) || !slices.Equal(f.Bytes()[n:], inner[14:]) {
		t.Errorf("%+v %x", h, f.Bytes())
	}
	if popTag(f, 6) || !popTag(f, 5) || !slices.Equal(f.Bytes(), inner) || popTag(f, 5) {
		t.Errorf("%x", f.Bytes())
	}
	full := frame.New(make([]byte, 32), nil)
	full.Prepend(full.Headroom())
	if pushTag(full, 5) {
		t.Error("a tag without room for it")
	}
}

package vnic

import (
	"errors"
	"math/bits"
	"testing"

	"pgregory.net/rapid"

	"tapir/opa"
	"tapir/wire/ether"
)

func TestMACTableSet(t *testing.T) {
	var empty *MACTable
	list := make([]Entry, 125)
	for i := range list {
		list[i] = Entry{MAC: ether.Addr{2, 0, 0, 0, 1, byte(i)}, DLID: opa.LID(i + 1)}
	}
	one, err := empty.Set(0, list, 0xd1)
	must(t, err)
	two, err := one.Set(MaxEntries-125, list, 0xd2) // twice the same: the first place counts
	must(t, err)
	three, err := two.Set(0, []Entry{{}, {MAC: list[0].MAC, DLID: 77}}, 0xd3)
	must(t, err)
	for _, c := range []struct {
		t        *MACTable
		length   int
		digest   uint32
		mac      ether.Addr
		want     opa.LID
		expected bool
	}{
		{empty, 0, 0, list[0].MAC, 0, false},
		{one, 125, 0xd1, list[124].MAC, 125, true},
		{one, 125, 0xd1, ether.Addr{2, 0, 0, 0, 1, 200}, 0, false},
		{two, 2048, 0xd2, list[3].MAC, 4, true},
		{three, 2048, 0xd3, list[0].MAC, 77, true},
		{three, 2048, 0xd3, list[1].MAC, 2, true},
	} {
		if lid, ok := c.t.Lookup(c.mac); lid != c.want || ok != c.expected || c.t.Len() != c.length || c.t.Digest() != c.digest {
			t.Errorf("%v: %v %v, %d places, digest %#x", c.mac, lid, ok, c.t.Len(), c.t.Digest())
		}
	}
	if three.At(0) != (Entry{}) || three.At(1).DLID != 77 || three.At(2048) != (Entry{}) || three.At(-1) != (Entry{}) {
		t.Error("places are not those that were set")
	}
	many := make([]Entry, MaxSources+1)
	for i := range many {
		many[i] = Entry{MAC: ether.Addr{2, 0, 0, 0, byte(i >> 8), byte(i)}, Flags: SourceMAC}
	}
	for name, set := range map[string]func() (*MACTable, error){
		"beyond the end":   func() (*MACTable, error) { return one.Set(MaxEntries-124, list, 0) },
		"before the begin": func() (*MACTable, error) { return one.Set(-1, list, 0) },
		"25-bit DLID":      func() (*MACTable, error) { return one.Set(0, []Entry{{MAC: list[0].MAC, DLID: 1 << 24}}, 0) },
		"257 sources":      func() (*MACTable, error) { return one.Set(0, many, 0) },
	} {
		var te *TableError
		if _, err := set(); !errors.As(err, &te) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := one.Set(0, many[:MaxSources], 0); err != nil {
		t.Error(err)
	}
}

// lookupModel is Lookup as one says it.
func lookupModel(list []Entry, a ether.Addr, source bool) (best Entry, found bool) {
	for _, e := range list {
		if !e.MAC.IsZero() && e.Source() == source && (macBits(e.MAC)^macBits(a))&e.mask() == 0 &&
			(!found || bits.OnesCount64(e.mask()) > bits.OnesCount64(best.mask())) {
			best, found = e, true
		}
	}
	return best, found
}

// anAddr draws from few addresses, so that they meet.
func anAddr(rt *rapid.T, label string) ether.Addr {
	return ether.Addr{byte(rapid.IntRange(0, 3).Draw(rt, label)), 0, 0, 0,
		byte(rapid.IntRange(0, 2).Draw(rt, label)), byte(rapid.IntRange(0, 3).Draw(rt, label))}
}

func anEntry(rt *rapid.T) Entry {
	masks := []ether.Addr{{}, ether.Broadcast, {0xff, 0xff, 0xff}, {1}, {0xff, 0xff, 0xff, 0xff, 0xff}}
	return Entry{
		MAC: anAddr(rt, "MAC"), Mask: rapid.SampledFrom(masks).Draw(rt, "mask"),
		DLID:  opa.LID(rapid.IntRange(0, 9).Draw(rt, "DLID")),
		Flags: rapid.SampledFrom([]uint8{0, 0, 0, SourceMAC, 1}).Draw(rt, "flags"),
	}
}

func TestMACTableAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var table *MACTable
		model := make([]Entry, 64)
		for range rapid.IntRange(1, 4).Draw(rt, "sets") {
			at := rapid.IntRange(0, 50).Draw(rt, "offset")
			list := rapid.SliceOfN(rapid.Custom(anEntry), 0, 14).Draw(rt, "entries")
			next, err := table.Set(at, list, 1)
			if err != nil {
				rt.Fatal(err)
			}
			table = next
			copy(model[at:], list)
		}
		for range 30 {
			a := anAddr(rt, "station")
			want, ok := lookupModel(model, a, false)
			lid, found := table.Lookup(a)
			if found != ok || ok && lid != want.DLID {
				rt.Fatalf("%v: %v %v, want %v %v", a, lid, found, want, ok)
			}
			if table.sources == 0 {
				continue
			}
			want, ok = lookupModel(model, a, true)
			if lid, allowed, _ := table.Source(a); allowed != ok || ok && lid != want.DLID {
				rt.Fatalf("source %v: %v %v, want %v %v", a, lid, allowed, want, ok)
			}
		}
	})
}

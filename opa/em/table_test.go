package em

import (
	"testing"

	"pgregory.net/rapid"

	"tapir/opa"
	"tapir/opa/mad"
	"tapir/wire/ether"
)

// TestTableInSections: however a table is changed, no entry that was there
// and is to stay is missing on the way, and the last section brings the
// digest.
func TestTableInSections(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		have := rapid.SliceOfN(entry(), 0, 400).Draw(t, "have")
		want := tableOf(rapid.SliceOfN(entry(), 0, 400).Draw(t, "want"))
		have = placed(have)
		old := byMAC(have)
		for round := 0; ; round++ {
			if round > 8 {
				t.Fatalf("no end after %d sections", round)
			}
			next := place(have, want)
			from, to, last := section(have, next)
			if to-from > mad.MaxMACEntriesIn {
				t.Fatalf("a section of %d entries", to-from)
			}
			have = append([]mad.MACEntry(nil), have...)
			for i := from; i < to; i++ {
				if i == len(have) {
					have = append(have, mad.MACEntry{})
				}
				have[i] = next[i]
			}
			now := byMAC(have)
			for _, e := range want {
				if _, was := old[e.MAC]; was {
					if _, is := now[e.MAC]; !is {
						t.Fatalf("%v is missing after section %d", e.MAC, round)
					}
				}
			}
			if last {
				break
			}
		}
		now := byMAC(have)
		if len(now) != len(want) {
			t.Fatalf("%d entries, want %d", len(now), len(want))
		}
		for _, e := range want {
			if now[e.MAC] != e {
				t.Fatalf("%+v, want %+v", now[e.MAC], e)
			}
		}
	})
}

func entry() *rapid.Generator[mad.MACEntry] {
	return rapid.Custom(func(t *rapid.T) mad.MACEntry {
		n := rapid.IntRange(0, 600).Draw(t, "station")
		if n == 0 {
			return mad.MACEntry{}
		}
		return mad.MACEntry{MAC: ether.Addr{2, 0, 0, 0, byte(n >> 8), byte(n)}, Mask: ether.Broadcast, DLID: opa.LID(rapid.IntRange(1, 3).Draw(t, "LID"))}
	})
}

// placed empties the places of addresses that were there before.
func placed(list []mad.MACEntry) []mad.MACEntry {
	seen := map[ether.Addr]bool{}
	for i, e := range list {
		if seen[e.MAC] {
			list[i] = mad.MACEntry{}
		}
		seen[e.MAC] = true
	}
	return list
}

// tableOf leaves out empty places and what comes twice.
func tableOf(list []mad.MACEntry) (table []mad.MACEntry) {
	for _, e := range placed(list) {
		if !e.MAC.IsZero() {
			table = append(table, e)
		}
	}
	return table
}

func byMAC(list []mad.MACEntry) map[ether.Addr]mad.MACEntry {
	m := map[ether.Addr]mad.MACEntry{}
	for _, e := range list {
		if !e.MAC.IsZero() {
			m[e.MAC] = e
		}
	}
	return m
}

// TestMLIDs: no two vESWs share one.
func TestMLIDs(t *testing.T) {
	if first, last := GroupMLID(1, ether.Addr{}), firstGroups+opa.MaxVESW*groupMLIDs-1; first <= MLID(opa.MaxVESW) || last > opa.LastMulticast {
		t.Fatalf("groups from %v to %v", first, last)
	}
	rapid.Check(t, func(t *rapid.T) {
		id, other := rapid.Uint16Range(1, opa.MaxVESW).Draw(t, "id"), rapid.Uint16Range(1, opa.MaxVESW).Draw(t, "other")
		group := ether.Addr(rapid.SliceOfN(rapid.Byte(), 6, 6).Draw(t, "group"))
		l := GroupMLID(id, group)
		if !l.IsMulticast() || l == MLID(other) || id != other && l == GroupMLID(other, group) {
			t.Fatalf("group %v of vESW %d has %v", group, id, l)
		}
	})
}

func TestDigest(t *testing.T) {
	a := mad.MACEntry{MAC: ether.Addr{2, 1}, Mask: ether.Broadcast, DLID: 5}
	b := a
	b.DLID = 6
	if digest(nil) == 0 || digest([]mad.MACEntry{a}) == digest([]mad.MACEntry{b}) || digest([]mad.MACEntry{a}) == digest(nil) {
		t.Error("a digest does not tell")
	}
}

package roster

import "testing"

func TestRosterKeepsOrder(t *testing.T) {
	const first = 1<<32 - 500 // numbers wrap
	var r Roster[int]
	want := []int{}
	for i := range 1000 {
		r.Add(uint32(first+i), &i)
		want = append(want, i)
		if i%3 != 0 {
			at := (i * 7) % len(want)
			r.Remove(uint32(first + want[at]))
			want = append(want[:at], want[at+1:]...)
		}
	}
	got := r.All()
	if len(got) != len(want) || r.Len() != len(want) {
		t.Fatalf("%d objects, want %d", len(got), len(want))
	}
	for i := range want {
		if *got[i] != want[i] {
			t.Fatalf("place %d: %d, want %d", i, *got[i], want[i])
		}
	}
}

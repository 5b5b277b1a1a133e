package roster

import "testing"

func TestRosterKeepsOrder(t *testing.T) {
	var r Roster[int]
	want := []int{}
	for i := range 1000 {
		r.Add(uint32(i+1), &i)
		want = append(want, i)
		if i%3 != 0 {
			at := (i * 7) % len(want)
			r.Remove(uint32(want[at]) + 1)
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

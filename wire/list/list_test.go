package list

import (
	"slices"
	"testing"
)

type item struct {
	n    int
	node Node[item]
}

func TestOrder(t *testing.T) {
	var l List[item]
	var want []int
	items := make([]item, 100)
	for i := range items {
		items[i].n, items[i].node.Owner = i, &items[i]
		l.Add(&items[i].node)
		want = append(want, i)
	}
	for _, gone := range []int{0, 99, 50, 51, 1, 50} {
		items[gone].node.Remove() // of one that has left: nothing
		want = slices.DeleteFunc(want, func(n int) bool { return n == gone })
	}
	var got []int
	for i := range l.All {
		got = append(got, i.n)
		if i.n%2 == 0 {
			i.node.Remove()
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	l.Add(&items[0].node)
	if first := l.First().Owner; first.n != 3 || !items[0].node.Listed() || items[50].node.Listed() {
		t.Errorf("first %d", first.n)
	}
	for l.First() != nil {
		l.First().Remove()
	}
	for range l.All {
		t.Error("not empty")
	}
	if n := testing.AllocsPerRun(10, func() { l.Add(&items[5].node); items[5].node.Remove() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

package pacing

import (
	"testing"
	"time"

	"tapir/wire/frame"
)

// Strict classes go first, the higher number before the lower; the others share what is
// left by weight, and no class sends more than its rate.
func TestClasses(t *testing.T) {
	var tree Tree
	tree.Port().SetRate(1000)
	function := tree.Port().Child(true)
	var senders []*sender
	for tc, c := range []Class{{Weight: 1}, {Weight: 3}, {Strict: true, Weight: 1, Rate: 100}, {Strict: true, Weight: 1, Rate: 200}} {
		function.Class(tc).SetClass(c)
		senders = append(senders, &sender{Node: function.Class(tc).Child(true), octets: 1000})
	}
	for at := frame.Time(0); at < frame.Time(100*time.Millisecond); at += 1000 {
		tree.Begin(at)
		for _, s := range senders {
			s.poll(&tree)
		}
	}
	for tc, want := range []int64{175, 525, 100, 200} { // Mb/s
		if got := senders[tc].sent * 8 / 100_000; got < want*97/100 || got > want*103/100 {
			t.Errorf("class %d: %d Mb/s, want %d", tc, got, want)
		}
	}
}

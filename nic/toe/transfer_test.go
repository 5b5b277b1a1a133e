package toe

import (
	"fmt"
	"testing"
	"time"
)

func TestTransferClean(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		for _, segs := range []int{1, 45} {
			for _, merge := range []bool{false, true} {
				t.Run(fmt.Sprintf("v6=%v/segs=%d/merge=%v", v6, segs, merge), func(t *testing.T) {
					cfg := Config{MaxSegs: segs}
					w := newWorld(t, 1, cfg, cfg, faults{merge: merge}, v6)
					a, b := newApp(5<<20, 1), newApp(3<<20, 2)
					a.closeAtEnd = true
					w.connect(a, b)
					if !w.run(time.Minute, func() bool { return a.closed && b.closed }) {
						t.Fatalf("not closed: %+v", a.conn.Info())
					}
					if a.err != nil || b.err != nil {
						t.Fatal(a.err, b.err)
					}
					b.check(t, a)
					a.check(t, b)
					if r := w.a.e.Stats().Retransmits + w.b.e.Stats().Retransmits; r != 0 {
						t.Errorf("%d retransmissions on a clean link", r)
					}
					w.rest()
				})
			}
		}
	}
}

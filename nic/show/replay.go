package show

import (
	"cmp"
	"slices"

	"tapir/nic/toe"
	"tapir/wire/frame"
)

// replayComment marks the records that Replay writes.
const replayComment = "replayed for dissection"

// Replay hands t the saved first packets of every live connection, in the
// order of their passing, so that a capture begun now can be dissected. They
// carry the stamps of their time and no number. What still waits for its
// neighbor has not passed yet: t will see it do so.
func (v *View) Replay(t frame.Tracer) {
	type saved struct {
		at     frame.Time
		record *frame.Record
	}
	var all []saved
	v.TCPEngine.Conns(func(c *toe.Conn) bool {
		for _, p := range c.Context() {
			if data, passed := v.IP.Saved(p.Data, p.Dir, c.Remote().Addr()); passed {
				all = append(all, saved{p.At, v.Common.RecordAt(p.At, p.Dir, 0, data, replayComment)})
			}
		}
		return true
	})
	slices.SortStableFunc(all, func(a, b saved) int { return cmp.Compare(a.at, b.at) })
	for _, p := range all {
		t.Trace(p.record)
	}
}

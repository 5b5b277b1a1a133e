package capture

import (
	"slices"

	"tapir/nic/msglog"
	"tapir/wire/frame"
)

// Tee hands every frame to any number of tracers, in the order in which they
// were added. All its methods run on the event loop's thread.
type Tee struct {
	tracers []frame.Tracer
}

// Add appends t.
func (t *Tee) Add(tr frame.Tracer) { t.tracers = append(t.tracers, tr) }

// Len is how many there are.
func (t *Tee) Len() int { return len(t.tracers) }

// Remove takes tr out again and tells how many are left.
func (t *Tee) Remove(tr frame.Tracer) (left int) {
	t.tracers = slices.DeleteFunc(t.tracers, func(x frame.Tracer) bool { return x == tr })
	return len(t.tracers)
}

// listener is a tracer that wants lines of the log, too.
type listener interface {
	Topics() msglog.Topic
	Line(t msglog.Topic, at frame.Stamp, text []byte)
}

// Topics are those of which any of the tracers wants to have the lines.
func (t *Tee) Topics() (all msglog.Topic) {
	for _, tr := range t.tracers {
		if l, ok := tr.(listener); ok {
			all |= l.Topics()
		}
	}
	return all
}

// Line hands a line about a topic to those that listen.
func (t *Tee) Line(topic msglog.Topic, at frame.Stamp, text []byte) {
	for _, tr := range t.tracers {
		if l, ok := tr.(listener); ok {
			l.Line(topic, at, text)
		}
	}
}

// Trace passes r on.
func (t *Tee) Trace(r *frame.Record) {
	for _, tr := range t.tracers {
		tr.Trace(r)
	}
}

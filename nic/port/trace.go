package port

import (
	"tapir/nic/msglog"
	"tapir/wire/frame"
)

// PassedAt is when f passed the port: as the observer of the wire says, else
// now; Never for an event message that the observer missed.
func PassedAt(f *frame.Frame, now frame.Time) frame.Time {
	if f.Seen != 0 {
		return f.Seen
	}
	return now
}

// StampedAt is the time of the stamp of f: when it passed the port or, if the observer
// missed that, now.
func StampedAt(f *frame.Frame, now frame.Time) frame.Time {
	if at := PassedAt(f, now); at != frame.Never {
		return at
	}
	return now
}

// Trace hands a frame that passes or fails to pass the port to the tracer.
func (p *Port) Trace(dir frame.Direction, f *frame.Frame, notes []frame.Note, r frame.DropReason, now frame.Time) {
	if r != frame.DropNone && p.Log.On(msglog.Drop) {
		p.Log.Dropped(p.name, dir, f.Bytes(), r)
	}
	if p.tracer == nil {
		return
	}
	at := PassedAt(f, now)
	if at == frame.Never {
		at = now
	}
	p.record = frame.Record{
		Port: p.name, Dir: dir, Data: f.Bytes(), Offload: f.Offload,
		Stamp: f.Stamp, System: p.System.At(at), ID: f.ID, Queue: f.Queue, Drop: r, Notes: notes,
	}
	p.tracer.Trace(&p.record)
	p.record.Data, p.record.Notes = nil, nil
}

// RecordAt is a record of a frame of the wire that passed at a time.
func (c *Common) RecordAt(at frame.Time, dir frame.Direction, id uint64, data []byte, text string) *frame.Record {
	return &frame.Record{Port: frame.Wire, Dir: dir, Data: data, Stamp: c.PHC.At(at), System: c.System.At(at), ID: id,
		Notes: frame.Say(text)}
}

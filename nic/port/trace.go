package port

import (
	"fmt"

	"tapir/nic/msglog"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
)

// PassedAt is when f passed the port: as the observer of the wire says, else
// now; Never for an event message that the observer missed.
func PassedAt(f *frame.Frame, now frame.Time) frame.Time {
	if f.Seen != 0 {
		return f.Seen
	}
	return now
}

// Trace hands a frame that passes or fails to pass the port to the tracer.
func (p *Port) Trace(dir frame.Direction, f *frame.Frame, notes []frame.Note, r frame.DropReason, now frame.Time) {
	if r != frame.DropNone && p.Log.On(msglog.Drop) {
		p.logDrop(dir, f.Bytes(), r)
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

// logDrop says which frame was dropped, and why.
func (p *Port) logDrop(dir frame.Direction, b []byte, r frame.DropReason) {
	p.Log.Append(msglog.Drop, func(t []byte) []byte {
		t = fmt.Appendf(t, "%v %v %v: %d octets", p.name, dir, r, len(b))
		eth, n, err := ether.Parse(b)
		if err != nil {
			return t
		}
		t = fmt.Appendf(t, ", %v > %v type %#04x", eth.Src, eth.Dst, eth.Type)
		if h, _, err := ip.ParseQuoted(b[n:]); err == nil &&
			(eth.Type == ether.TypeIPv4 || eth.Type == ether.TypeIPv6) {
			t = fmt.Appendf(t, ", %v > %v protocol %d", h.Src, h.Dst, h.Proto)
		}
		return t
	})
}

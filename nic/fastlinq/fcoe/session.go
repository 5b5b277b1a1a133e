package fcoe

import (
	"tapir/nic/fastlinq/storage"
	"tapir/nic/fcoe"
	"tapir/wire/drop"
	"tapir/wire/fc"
	"tapir/wire/frame"
)

var _ fcoe.Sessions = (*Function)(nil)

// Offload implements fcoe.Sessions.
func (f *Function) Offload(s fcoe.Session) (handle int, err error) {
	c, err := f.Acquire()
	if err != nil {
		return 0, err
	}
	if err := c.Offload(s); err != nil {
		_ = c.Release() // it is new
		return 0, err
	}
	f.fw.handles++
	c.handle = f.fw.handles
	f.of[c.handle] = c
	return c.handle, nil
}

// Terminate implements fcoe.Sessions.
func (f *Function) Terminate(handle int) {
	c := f.of[handle]
	if c == nil {
		return
	}
	if _, err := c.Terminate(); err != nil { // the firmware does not answer
		f.fw.forget(c.cid)
		c.gone()
	}
	_ = c.Release() // it is terminated
}

// Task implements fcoe.Sessions.
func (f *Function) Task(handle int, _ bool) bool {
	c := f.of[handle]
	if c == nil || c.tasks >= f.params.ConnTasks || f.tasks >= f.params.Tasks {
		return false
	}
	c.tasks++
	f.tasks++
	return true
}

// Done implements fcoe.Sessions.
func (f *Function) Done(handle int) {
	if c := f.of[handle]; c != nil && c.tasks > 0 {
		c.tasks--
		f.tasks--
	}
}

// end is a connection with the firmware's half, nil if that has ended.
func (f *Function) end(handle int) (c *Conn, e *endpoint) {
	if c = f.of[handle]; c != nil {
		e = f.fw.ends[c.cid]
	}
	return c, e
}

// Post implements fcoe.Queues.
func (f *Function) Post(handle int) bool {
	c := f.of[handle]
	if c == nil || !c.sq.produce(c.posted) {
		return false
	}
	c.posted++
	return true
}

// Fetch implements fcoe.Queues: the firmware takes an element.
func (f *Function) Fetch(handle int) {
	c, e := f.end(handle)
	if e == nil {
		return
	}
	if v, ok := c.sq.fetch(); ok {
		e.sent = v
	}
}

// Complete implements fcoe.Queues.
func (f *Function) Complete(handle int, h *fc.Header, payload []byte,
	take func(*fc.Header, []byte, frame.Time), _ frame.Time) frame.DropReason {
	c := f.of[handle]
	if c == nil {
		return drop.FCLogin
	}
	full := f.queues.Complete(c.queue, storage.Completion[fc.Header]{CID: c.cid, Header: *h, Data: payload, Take: take,
		Buffer:  h.RCtl == fc.CommandStatus && len(payload) > fc.ResponseLen,
		Command: h.RCtl == fc.UnsolicitedCmd})
	switch full {
	case storage.NoCQ:
		f.fw.stats.Drops[DropCQFull]++
		return drop.Backlog
	case storage.NoRQ:
		f.fw.stats.Drops[DropRQFull]++
		return drop.Backlog
	case storage.NoCmdQ:
		f.fw.stats.Drops[DropCmdQFull]++
		return drop.Backlog
	}
	return frame.DropNone
}

// Violation implements fcoe.Queues: the firmware tells of an error.
func (f *Function) Violation(handle int, e fcoe.Error) {
	if c := f.of[handle]; c != nil {
		f.fw.Event(EventError, uint8(e), c.cid)
	}
}

// Traffic implements fcoe.Sessions.
func (f *Function) Traffic(handle int, r fc.RCtl, octets int, sent bool) {
	if _, e := f.end(handle); e != nil {
		f.fw.traffic(e, r, octets, sent)
	}
}

// Dropped implements fcoe.Sessions.
func (f *Function) Dropped(r frame.DropReason) {
	switch r {
	case drop.FCCRC:
		f.fw.dropped(DropCRC)
	case drop.FCExchange:
		f.fw.dropped(DropTask)
	default:
		f.fw.dropped(DropTotal)
	}
}

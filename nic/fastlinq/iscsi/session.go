package iscsi

import (
	"tapir/nic/fastlinq/storage"
	"tapir/nic/iscsi"
	"tapir/wire/frame"
	wire "tapir/wire/iscsi"
)

var _ iscsi.Hardware = (*Conn)(nil)

// Agree tells the firmware what the login has agreed on.
func (c *Conn) Agree(a iscsi.Agreed) error {
	u := Update{MaxSeqSize: a.MaxBurst, MaxRecv: a.MaxRecv, MaxSend: a.MaxSend, FirstSeq: a.FirstBurst,
		ExpStatSN: a.ExpStatSN}
	for _, f := range []struct {
		on   bool
		flag Flags
	}{{a.HeaderDigest, HeaderDigest}, {a.DataDigest, DataDigest}, {a.InitialR2T, InitialR2T},
		{a.ImmediateData, ImmediateData}} {
		if f.on {
			u.Flags |= f.flag
		}
	}
	return c.Update(u)
}

// Kick implements iscsi.Link: it rings the doorbell.
func (c *Conn) Kick() {
	if c.tcp != nil {
		c.tcp.Kick()
	}
}

// CloseBoth implements iscsi.Link by an orderly termination.
func (c *Conn) CloseBoth() { c.end(false) }

// Abort implements iscsi.Link by an abortive one.
func (c *Conn) Abort() { c.end(true) }

func (c *Conn) end(abortive bool) {
	switch {
	case c.tcp == nil || c.state == terminating && !abortive:
	case c.state == terminating: // an orderly end that takes too long
		c.tcp.Abort()
	default:
		c.state = terminating
		c.f.events[EventTerminate]++
		c.f.core.Send(c.cid, Termination, &Terminate{Abortive: abortive}, func(error) {
			if c.tcp != nil {
				c.tcp.Abort() // the firmware does not answer
			}
		})
	}
}

// Post implements iscsi.Hardware.
func (c *Conn) Post(end uint64) bool { return c.sq.Produce(end) }

// Sendable implements iscsi.Hardware.
func (c *Conn) Sendable() uint64 {
	if e := c.f.fw.ends[c.cid]; e != nil {
		return e.sendable()
	}
	return 0
}

// TakeTask implements iscsi.Hardware.
func (c *Conn) TakeTask(wake func()) bool {
	if c.tasks >= c.f.params.ConnTasks || c.f.tasks >= c.f.params.Tasks {
		c.wake = wake
		return false
	}
	c.tasks++
	c.f.tasks++
	return true
}

// GiveTask implements iscsi.Hardware.
func (c *Conn) GiveTask() {
	if c.tasks > 0 {
		c.tasks--
		c.f.tasks--
		c.f.wake()
	}
}

// Received implements iscsi.Hardware.
func (c *Conn) Received() {
	if e := c.f.fw.ends[c.cid]; e != nil {
		e.stats.RxPDUs++
	}
}

// fullErrors are the errors that queues without room are.
var fullErrors = [...]iscsi.Error{storage.Room: iscsi.NoError, storage.NoCQ: iscsi.ErrLocalCompletion,
	storage.NoRQ: iscsi.ErrRQFull, storage.NoCmdQ: iscsi.ErrCmdQFull}

// Complete implements iscsi.Hardware.
func (c *Conn) Complete(h *wire.BHS, data []byte, take func(*wire.BHS, []byte, frame.Time)) iscsi.Error {
	if c.state == offloaded {
		return iscsi.ErrBeforeUpdate
	}
	full := c.f.queues.Complete(c.queue, storage.Completion[wire.BHS]{CID: c.cid, Header: *h, Data: data,
		Buffer:  len(data) > 0,
		Command: h.Opcode() == wire.Command, Take: take})
	if e := c.f.fw.ends[c.cid]; e != nil {
		switch full {
		case storage.NoCQ:
			e.stats.CQFull++
		case storage.NoRQ:
			e.stats.RQFull++
		case storage.NoCmdQ:
			e.stats.CmdQFull++
		}
	}
	return fullErrors[full]
}

// Drain implements iscsi.Hardware.
func (c *Conn) Drain(now frame.Time) { c.f.Serve(c.queue, now) }

// Violation implements iscsi.Hardware.
func (c *Conn) Violation(code iscsi.Error) {
	if e := c.f.fw.ends[c.cid]; e != nil && !e.broken {
		e.broken = true
		c.f.fw.Event(ISCSIError, uint8(code), c.cid)
	}
}

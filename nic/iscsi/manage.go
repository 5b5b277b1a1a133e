package iscsi

import (
	"slices"

	"tapir/nic/scsi"
	"tapir/wire/iscsi"
)

// Functions of task management (RFC 7143 section 11.5.1).
const (
	abortTask    = 1
	abortTaskSet = 2
	clearTaskSet = 4
	resetUnit    = 5
	warmReset    = 6
	coldReset    = 7
	reassign     = 8
)

// Answers to one (RFC 7143 section 11.6.1).
const (
	functionDone        = 0
	functionNoTask      = 1
	functionNoLUN       = 2
	functionNoReassign  = 4
	functionUnsupported = 5
)

// management is a task management function until it is answered.
type management struct {
	c     *Conn
	bhs   iscsi.BHS
	left  int  // tasks that have not ended
	begun bool // all tasks are known
}

// ended hears that a task has.
func (m *management) ended() {
	m.left--
	m.finish(functionDone)
}

// finish answers when no task is left.
func (m *management) finish(response byte) {
	if !m.begun || m.left > 0 || m.c.closing || m.c.phase != fullFeature {
		return
	}
	m.begun = false
	h := answerTo(&m.bhs, iscsi.TaskResponse)
	h[2] = response
	m.c.respond(&h, nil)
	if m.bhs[1]&0x7f == coldReset {
		for _, c := range slices.Clone(m.c.t.conns) {
			if c.node == m.c.node {
				c.close()
			}
		}
	}
}

// manage does a task management function.
func (c *Conn) manage(h *iscsi.BHS) {
	c.t.stats[TaskRequests]++
	m := &management{c: c, bhs: *h}
	response := m.begin()
	m.begun = true
	m.finish(response)
}

func (m *management) begin() byte {
	c, h := m.c, &m.bhs
	u := c.nexus.Unit(h.LUN())
	switch function := h[1] & 0x7f; function {
	case abortTask:
		return m.abort()
	case abortTaskSet, clearTaskSet, resetUnit:
		if u == nil {
			c.t.stats[NoSuchLUN]++
			return functionNoLUN
		}
		for _, o := range c.t.conns {
			if o == c || function != abortTaskSet {
				m.cancelAll(o, u)
			}
		}
		if function == resetUnit {
			u.Reset()
		}
	case warmReset, coldReset:
		for _, o := range c.t.conns {
			if o.node == c.node {
				m.cancelAll(o, nil)
			}
		}
		for _, u := range c.node.Units {
			if u != nil {
				u.Reset()
			}
		}
	case reassign:
		return functionNoReassign
	default:
		return functionUnsupported
	}
	return functionDone
}

// cancelAll cancels the tasks of a connection for a unit, or all.
func (m *management) cancelAll(c *Conn, u *scsi.Unit) {
	for _, t := range c.tasks {
		if u == nil || t.cmd.Unit() == u {
			c.cancel(t, m)
		}
	}
}

// abort is ABORT TASK.
func (m *management) abort() byte {
	c, h := m.c, &m.bhs
	if t := c.tasks[h.U32(iscsi.RefTag)]; t != nil {
		if t.bhs.LUN() != h.LUN() {
			return functionNoTask
		}
		c.cancel(t, m)
		return functionDone
	}
	if ref := h.U32(refCmdSN); !iscsi.Less(ref, c.expCmdSN) && !iscsi.Less(c.maxCmdSN(), ref) &&
		iscsi.Less(ref, h.U32(iscsi.CmdSN)) {
		return functionDone
	}
	c.t.stats[NoSuchTask]++
	return functionNoTask
}

// refCmdSN is the number of the command that a function is for.
const refCmdSN iscsi.Field = 32

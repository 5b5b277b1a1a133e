package ucma

import (
	"syscall"

	"tapir/nic/verbs"
)

// queryRoute is QUERY_ROUTE.
func (f *File) queryRoute(c *command) {
	if c.out < routeLenOld {
		c.finish(syscall.ENOSPC)
		return
	}
	if i := f.live(c, 8); i != nil {
		var b [routeLen]byte
		putRoute(b[:], i.route())
		c.answer(0, b[:])
	}
}

// What QUERY can be asked for.
const (
	queryAddr = iota
	queryPath
	queryGID
)

// query is QUERY.
func (f *File) query(c *command) {
	i := f.live(c, 8)
	if i == nil {
		return
	}
	var b [addrLen]byte
	switch what := c.u32(12); {
	case what > queryGID:
		c.finish(syscall.ENOSYS)
	case what == queryPath && c.out < 8, what != queryPath && c.out < addrLenOld:
		c.finish(syscall.ENOSPC)
	case what == queryPath: // an RNIC has none
		c.answer(0, b[:8])
	case what == queryAddr:
		putAddr(b[:], i.route())
		c.answer(0, b[:])
	default:
		putGID(b[:], i.route())
		c.answer(0, b[:])
	}
}

// initQPAttr is INIT_QP_ATTR: what a program has to set of its queue pair to
// move it to a state. Here that is little: the NIC itself moves it to RTR and
// RTS when the connection is made.
func (f *File) initQPAttr(c *command) {
	if c.out < qpAttrLen {
		c.finish(syscall.ENOSPC)
		return
	}
	i := f.attached(c, 8)
	if i == nil {
		return
	}
	state, mask := verbs.State(c.u32(12)), uint32(0)
	switch {
	case c.u32(12) > uint32(verbs.Err):
		c.finish(syscall.EINVAL)
		return
	case state == verbs.Init:
		mask, i.qpAttr = attrState|attrAccess, true
	case state == verbs.RTR:
		mask = attrAccess
	case state != verbs.RTS:
		c.finish(syscall.EINVAL)
		return
	case i.ack.set:
		mask = attrTimeout
	}
	var b [qpAttrLen]byte
	putQPAttr(b[:], mask, state, verbs.RemoteWrite|verbs.RemoteRead|verbs.RemoteAtomic, i.ack.value)
	c.answer(0, b[:])
}

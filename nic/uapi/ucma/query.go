package ucma

import (
	"syscall"

	"tapir/nic/verbs"
)

// queryRoute is QUERY_ROUTE.
func (i *id) queryRoute(c *command) error {
	var b [routeLen]byte
	putRoute(b[:], i.route())
	return c.answer(0, b[:])
}

// What QUERY can be asked for.
const (
	queryAddr = iota
	queryPath
	queryGID
)

// serveQuery is QUERY.
func (i *id) serveQuery(c *command) error {
	var b [addrLen]byte
	switch what := c.u32(12); {
	case what > queryGID:
		return syscall.ENOSYS
	case what == queryPath && c.out < 8, what != queryPath && c.out < addrLenOld:
		return syscall.ENOSPC
	case what == queryPath: // an RNIC has none
		return c.answer(0, b[:8])
	case what == queryAddr:
		putAddr(b[:], i.route())
	default:
		putGID(b[:], i.route())
	}
	return c.answer(0, b[:])
}

// initQPAttr is INIT_QP_ATTR: what a program has to set of its queue pair to
// move it to a state. Here that is little: the NIC itself moves it to RTR and
// RTS when the connection is made.
func (i *id) initQPAttr(c *command) error {
	mask := uint32(0)
	switch c.u32(12) {
	case uint32(verbs.Init):
		mask, i.qpAttr = attrState|attrAccess, true
	case uint32(verbs.RTR):
		mask = attrAccess
	case uint32(verbs.RTS):
		if i.ack.set {
			mask = attrTimeout
		}
	default:
		return syscall.EINVAL
	}
	var b [qpAttrLen]byte
	putQPAttr(b[:], mask, verbs.State(c.u32(12)), verbs.RemoteWrite|verbs.RemoteRead|verbs.RemoteAtomic, i.ack.value)
	return c.answer(0, b[:])
}

package ucma

import (
	"syscall"

	"tapir/nic/uapi/abi"
	"tapir/nic/verbs"
)

// queryRoute is QUERY_ROUTE.
func (i *id) queryRoute(c *command) error {
	return c.answer(0, abi.Octets(i.route().answerRoute()))
}

// What QUERY can be asked for.
const (
	queryAddr = iota
	queryPath
	queryGID
)

// serveQuery is QUERY.
func (i *id) serveQuery(c *command) error {
	what := c.u32(12)
	switch {
	case what > queryGID:
		return syscall.ENOSYS
	case what == queryPath && c.out < 8, what != queryPath && c.out < addrLenOld:
		return syscall.ENOSPC
	case what == queryPath: // an RNIC has none
		return c.answer(0, make([]byte, 8))
	}
	return c.answer(0, abi.Octets(i.route().answerAddr(what == queryGID)))
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
	return c.answer(0, abi.Octets(&abi.CMQPAttr{
		Mask: mask, State: c.u32(12), Access: uint32(verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic),
		Port: portNum, Timeout: i.ack.value,
	}))
}

package ucma

import (
	"syscall"

	"tapir/nic/uapi/abi"
	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
	"tapir/wire/frame"
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

// fabricQPAttr is INIT_QP_ATTR of a NIC whose queue pairs programs move. Those for
// RTR and RTS are known once the peer's are (EINVAL before).
func (i *id) fabricQPAttr(c *command) error {
	to := c.u32(12)
	a := abi.CMQPAttr{State: to, Port: portNum}
	switch {
	case i.datagrams() && (to == uint32(verbs.Init) || to == uint32(verbs.RTR) || to == uint32(verbs.RTS)):
		a.Mask, a.QKey = attrState|attrPKey|attrPort|attrQKey, i.queueKey()
		return c.answer(0, abi.Octets(&a))
	case to == uint32(verbs.Init):
		a.Mask = attrState | attrPKey | attrPort | attrAccess
		a.Access = uint32(verbs.LocalWrite|verbs.RemoteWrite) | uint32(verbs.RemoteRead|verbs.RemoteAtomic)
		return c.answer(0, abi.Octets(&a))
	case i.conn == nil || to != uint32(verbs.RTR) && to != uint32(verbs.RTS):
		return syscall.EINVAL
	}
	n, ack := i.conn, i.ack
	return c.on(i.dev, func(frame.Time) error {
		attr, mask, err := n.id.QPAttr(verbs.State(to))
		if err != nil {
			return err
		}
		a.Mask = uint32(mask)
		a.PathMTU, a.RQPSN, a.SQPSN, a.DestQPN = uint32(qpattr.MTUCode(attr.PathMTU)), attr.RQPSN, attr.SQPSN,
			attr.DestQPN
		a.PKeyIndex = attr.PKeyIndex
		a.MaxRdAtomic, a.MaxDestRdAtomic, a.MinRNRTimer = attr.MaxRdAtomic, attr.MaxDestRdAtomic, attr.MinRNRTimer
		if a.Timeout, a.Retry, a.RNRRetry = attr.Timeout, attr.RetryCount, attr.RNRRetry; ack.set {
			a.Timeout = ack.value
		}
		if mask&qpattr.AV != 0 {
			a.AH = abi.AHOf(&attr.Path)
		}
		return nil
	}, i.alive(func(err error) error {
		if err != nil {
			return errnos.Of(err)
		}
		return c.answer(0, abi.Octets(&a))
	}))
}

// initQPAttr is INIT_QP_ATTR: what a program has to set of its queue pair to
// move it to a state. Here that is little: the NIC itself moves it to RTR and
// RTS when the connection is made.
func (i *id) initQPAttr(c *command) error {
	if i.dev.fabric() {
		return i.fabricQPAttr(c)
	}
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

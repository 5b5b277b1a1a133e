package ucma

import (
	"net/netip"
	"syscall"

	"tapir/nic/verbs"
	"tapir/wire/ether"
)

// state is where an id stands.
type state uint8

const (
	idle state = iota
	bound
	resolving // its address
	addrResolved
	routeResolved
	listening
	connected // CONNECT was called, or a request made the id
	removed   // the NIC is gone
)

// id is what a program has a struct rdma_cm_id for.
type id struct {
	file     *File
	num      uint32
	uid      uint64 // the program's; 0 until a request is accepted
	space    uint16
	state    state
	gone     bool // destroyed
	reported uint32

	dev      *Device // nil: none in particular
	src, dst sockaddr
	to       netip.Addr // dst, or the NIC's own address that it stands for
	station  ether.Addr // that it is reached by
	binding  *binding

	reuse     bool
	afOnly    bool
	afOnlySet bool
	tos       uint8
	ack       ackTimeout

	query     *query
	listeners []*listener
	backlog   int // requests that may still wait to be fetched
	conn      *conn
	passive   bool
	pending   bool // CONNECT_REQUEST waits to be fetched
	qpAttr    bool // INIT_QP_ATTR was asked: librdmacm has the queue pair
}

// createID is CREATE_ID. EPROTONOSUPPORT: a port space of datagrams, which an
// RNIC has not.
func (f *File) createID(c *command) {
	i := &id{file: f, uid: c.u64(0), space: c.u16(16)}
	switch {
	case c.out < 4:
		c.finish(syscall.ENOSPC)
	case i.space == portSpaceUDP, i.space == portSpaceIPoIB:
		c.finish(syscall.EPROTONOSUPPORT)
	case i.space != portSpaceTCP && i.space != portSpaceIB:
		c.finish(syscall.EINVAL)
	case !f.home.add(i):
		c.finish(syscall.ENOMEM)
	default:
		if c.answer(8, order.AppendUint32(nil, i.num)); c.err != nil {
			f.home.drop(i)
		}
	}
}

// find returns the file's id number num. Errors: ENOENT, EINVAL for one of
// another file.
func (f *File) find(num uint32) (*id, error) {
	if num >= uint32(len(f.home.ids)) || f.home.ids[num] == nil || f.home.ids[num].pending {
		return nil, syscall.ENOENT
	}
	if i := f.home.ids[num]; i.file == f {
		return i, nil
	}
	return nil, syscall.EINVAL
}

// live returns the id that c names at offset at, nil after an error has
// finished c.
func (f *File) live(c *command, at int) *id {
	i, err := f.find(c.u32(at))
	if err == nil && i.state == removed {
		err = syscall.ENXIO
	}
	if err != nil {
		c.finish(err)
		return nil
	}
	return i
}

// attached is live for commands that need a NIC.
func (f *File) attached(c *command, at int) *id {
	i := f.live(c, at)
	if i != nil && i.dev == nil {
		c.finish(syscall.EINVAL)
		return nil
	}
	return i
}

// destroyID is DESTROY_ID. The answer is how many events of the id the program
// has fetched: it waits until all are acknowledged.
func (f *File) destroyID(c *command) {
	if c.out < 4 {
		c.finish(syscall.ENOSPC)
		return
	}
	i, err := f.find(c.u32(8))
	if err != nil {
		c.finish(err)
		return
	}
	i.destroy()
	c.answerCount(0, i.reported)
}

// destroy ends all that the id has to do with. Requests that were not fetched
// go with their listener.
func (i *id) destroy() {
	if i.gone {
		return
	}
	i.gone = true
	for _, ev := range i.file.withdraw(i) {
		if ev.req != nil {
			ev.req.destroy()
		}
	}
	i.cancelQuery()
	i.closeListeners()
	if i.conn != nil {
		i.conn.leave()
	}
	if i.binding != nil {
		i.file.home.s.release(i.binding)
	}
	i.file.home.drop(i)
}

// remove tells the program that the id's NIC is gone.
func (i *id) remove() {
	if i.state == removed {
		return
	}
	i.tell(DeviceRemoval, 0, connParam{})
	i.state = removed
	i.cancelQuery()
	if i.conn != nil {
		i.conn.leave()
	}
}

// tell queues an event of the id. A request that was not accepted has none:
// accepting it will fail.
func (i *id) tell(typ EventType, status syscall.Errno, p connParam) {
	if i.uid == 0 || i.state == removed {
		return
	}
	ev := &event{id: i}
	putEvent(ev.resp[:], i.uid, i.num, typ, -int32(status))
	p.put(ev.resp[20:])
	i.file.queue(ev)
}

// route describes the id to who asks.
func (i *id) route() *route {
	r := &route{src: i.src, dst: i.dst, service: i.space}
	if i.dev != nil {
		r.attached, r.guid = true, i.dev.guid
		r.sgid = i.dev.gid
		if !i.station.IsZero() {
			r.dgid = verbs.GIDFromMAC(i.station)
		}
	}
	return r
}

// alive wraps what is to be done when another thread has answered: nothing, if
// the id is gone or its NIC is.
func (i *id) alive(then func(err error) error) func(err error) error {
	return func(err error) error {
		if i.gone || i.state == removed {
			return syscall.ENXIO
		}
		return then(err)
	}
}

package ucma

import (
	"net/netip"
	"slices"
	"syscall"

	"tapir/nic/cm"
	"tapir/nic/uapi/abi"
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
	groups    []*group
}

// createID is CREATE_ID. EPROTONOSUPPORT: a port space of datagrams, which an
// RNIC has not, and the program has no other NIC.
func (f *File) createID(c *command) error {
	i := &id{file: f, uid: c.u64(0), space: c.u16(16)}
	switch {
	case i.datagrams() && !slices.ContainsFunc(f.nics, (*Device).fabric):
		return syscall.EPROTONOSUPPORT
	case i.space != portSpaceTCP && i.space != portSpaceIB && !i.datagrams():
		return syscall.EINVAL
	case !f.home.add(i):
		return syscall.ENOMEM
	}
	err := c.answer(8, order.AppendUint32(nil, i.num))
	if err != nil {
		f.home.drop(i)
	}
	return err
}

// datagrams tells whether the id is of a port space of datagrams.
func (i *id) datagrams() bool { return cm.PortSpace(i.space).Datagrams() }

// fabric tells whether programs move the NIC's queue pairs, and have datagrams.
func (d *Device) fabric() bool { return d.Verbs.Fabric() }

// find returns the file's id number num. Errors: ENOENT, EINVAL for one of
// another file.
func (f *File) find(num uint32) (*id, error) {
	switch i := f.home.known(num); {
	case i == nil:
		return nil, syscall.ENOENT
	case i.file != f:
		return nil, syscall.EINVAL
	default:
		return i, nil
	}
}

// known returns the id with that number, nil if programs know of none.
func (d *Device) known(num uint32) *id {
	if num >= uint32(len(d.ids)) || d.ids[num] == nil || d.ids[num].pending {
		return nil
	}
	return d.ids[num]
}

// destroyID is DESTROY_ID. The answer is how many events of the id the program
// has fetched: it waits until all are acknowledged.
func (f *File) destroyID(c *command) error {
	i, err := f.find(c.u32(8))
	if err != nil {
		return err
	}
	i.destroy()
	return c.answerCount(i.reported)
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
	i.tell(DeviceRemoval, 0, abi.ConnParam{})
	i.state = removed
	i.cancelQuery()
	if i.conn != nil {
		i.conn.leave()
	}
}

// tell queues an event of the id. A request that was not accepted has none:
// accepting it will fail.
func (i *id) tell(typ EventType, status syscall.Errno, p abi.ConnParam) {
	i.report(typ, -int32(status), func(ev *abi.CMEvent) { ev.SetConn(p) })
}

// report is tell with any status and parameter.
func (i *id) report(typ EventType, status int32, fill func(ev *abi.CMEvent)) {
	if i.uid != 0 && i.state != removed {
		ev := &event{id: i, resp: abi.CMEvent{UID: i.uid, ID: i.num, Event: uint32(typ), Status: status}}
		fill(&ev.resp)
		i.file.queue(ev)
	}
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
		if i.dev.fabric() { // GIDs are addresses
			r.sgid, r.dgid = gidOf(i.src.addr), gidOf(i.to)
			if i.passive {
				r.dgid = gidOf(i.dst.addr)
			}
			if i.state >= routeResolved {
				r.paths = 1
			}
		}
	}
	return r
}

// gidOf is an address as a GID, zero of none.
func gidOf(a netip.Addr) (g verbs.GID) {
	if a.IsValid() {
		g = verbs.GIDFromAddr(a)
	}
	return g
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

// Package nldev serves RDMA netlink to programs under a supervisor, so that
// iproute2's rdma(8), libibverbs and others of its users find devices that the kernel
// does not know: devices, ports, objects, counters and device files.
//
//	requests   nldev.go      objects    resource.go      counters   stat.go
//
// Numbers and layouts are those of include/uapi/rdma/rdma_netlink.h, answers those of
// the kernel's drivers/infiniband/core/nldev.c for an iWARP device. What would change
// a device is refused with EOPNOTSUPP, and without CAP_NET_ADMIN with EPERM.
package nldev

import (
	"net"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/netlink"
	"tapir/nic/uapi/sysfs"
)

// Device is an RDMA device. Its functions are called from any goroutine; their errors
// are errnos.
type Device struct {
	*sysfs.Device
	// Resources are the objects of the device.
	Resources func() ([]Resource, error)
}

// clientNLDEV is the client of RDMA netlink that all messages belong to; a message's
// type is the client's number and a command's.
const (
	clientNLDEV = 5
	clientShift = 10
	commandMask = 1<<clientShift - 1
)

// Commands.
const (
	cmdGet           = 1
	cmdSet           = 2
	cmdNewLink       = 3
	cmdDelLink       = 4
	cmdPortGet       = 5
	cmdSysGet        = 6
	cmdSysSet        = 7
	cmdResGet        = 9
	cmdResQP         = 10
	cmdResCMID       = 11
	cmdResCQ         = 12
	cmdResMR         = 13
	cmdResPD         = 14
	cmdGetChardev    = 15
	cmdStatSet       = 16
	cmdStatGet       = 17
	cmdStatDel       = 18
	cmdResQPRaw      = 19
	cmdResCQRaw      = 20
	cmdResMRRaw      = 21
	cmdResCtx        = 22
	cmdResSRQ        = 23
	cmdStatGetStatus = 24
)

// Attributes of devices, ports and the whole.
const (
	attrDevIndex      = 1
	attrDevName       = 2
	attrPortIndex     = 3
	attrCapFlags      = 4
	attrFWVersion     = 5
	attrNodeGUID      = 6
	attrSysImageGUID  = 7
	attrPortState     = 12
	attrPortPhysState = 13
	attrNodeType      = 14
	attrNdevIndex     = 50
	attrNdevName      = 51
	attrNetnsMode     = 66
	attrProtocol      = 67
	attrChardevType   = 69
	attrChardevName   = 70
	attrChardevABI    = 71
	attrChardev       = 72
	attrDriverID      = 73
	attrDim           = 84
	attrCopyOnFork    = 93
)

const (
	nodeCA    = 1  // RDMA_NODE_IB_CA
	nodeRNIC  = 4  // RDMA_NODE_RNIC
	driverRXE = 14 // RDMA_DRIVER_RXE, whose provider drives the device
	thePort   = 1
	// sharedMode is the mode in which all network namespaces see all devices.
	sharedMode = 1
)

// server answers for its devices.
type server struct{ devices []Device }

// Register has p answer RDMA netlink for these devices.
func Register(p *netlink.Proxy, devices ...Device) {
	s := &server{devices}
	for cmd := range handlers {
		p.Own(unix.NETLINK_RDMA, s.serve, clientNLDEV<<clientShift|cmd)
	}
}

// request is one with its attributes.
type request struct {
	*netlink.Request
	cmd   uint16
	attrs map[uint16][]byte
}

// handler serves a command; list is nil where there is none to dump.
type handler struct {
	one, list func(*server, *request) ([]netlink.Message, error)
	admin     bool
}

var handlers map[uint16]handler

func init() {
	refuse := func(*server, *request) ([]netlink.Message, error) { return nil, unix.EOPNOTSUPP }
	handlers = map[uint16]handler{
		cmdGet:           {one: (*server).device, list: (*server).deviceList},
		cmdSet:           {one: refuse, admin: true},
		cmdNewLink:       {one: refuse, admin: true},
		cmdDelLink:       {one: refuse, admin: true},
		cmdPortGet:       {one: (*server).port, list: (*server).portList},
		cmdSysGet:        {one: (*server).system},
		cmdSysSet:        {one: (*server).setSystem, admin: true},
		cmdResGet:        {one: (*server).summary, list: (*server).summaryList},
		cmdGetChardev:    {one: (*server).chardev},
		cmdStatSet:       {one: (*server).setStat, admin: true},
		cmdStatGet:       {one: (*server).stat, list: (*server).statList},
		cmdStatDel:       {one: refuse, admin: true},
		cmdStatGetStatus: {one: (*server).statStatus},
	}
	initKinds()
	for cmd, k := range kinds {
		handlers[cmd] = handler{one: k.one, list: k.list, admin: k.raw}
	}
}

// serve is a netlink.Service.
func (s *server) serve(q *netlink.Request) ([]netlink.Message, error) {
	r := &request{Request: q, cmd: q.Type & commandMask}
	h := handlers[r.cmd]
	var err error
	if h.admin && !q.Admin {
		return nil, unix.EPERM
	}
	if r.attrs, err = netlink.ParseAttributes(q.Body); err != nil {
		return nil, err
	}
	if q.Dump() && h.list != nil {
		return h.list(s, r)
	}
	return h.one(s, r)
}

// number is an attribute of four octets. Error: EINVAL if it is missing.
func (r *request) number(attr uint16) (uint32, error) {
	v, ok := r.attrs[attr]
	if !ok || len(v) < 4 {
		return 0, unix.EINVAL
	}
	return uint32(v[0]) | uint32(v[1])<<8 | uint32(v[2])<<16 | uint32(v[3])<<24, nil
}

// has tells whether an attribute is there.
func (r *request) has(attr uint16) bool {
	_, ok := r.attrs[attr]
	return ok
}

// device is the one that a request names.
func (s *server) find(r *request) (*Device, error) {
	n, err := r.number(attrDevIndex)
	if err != nil || n >= uint32(len(s.devices)) {
		return nil, unix.EINVAL
	}
	return &s.devices[n], nil
}

// findPort is find for requests that name a port, too.
func (s *server) findPort(r *request) (*Device, error) {
	n, err := r.number(attrPortIndex)
	if err != nil || n != thePort {
		return nil, unix.EINVAL
	}
	return s.find(r)
}

// message makes one of a command.
func message(cmd uint16, fill func(*netlink.Attributes)) netlink.Message {
	var a netlink.Attributes
	fill(&a)
	return netlink.Message{Type: clientNLDEV<<clientShift | cmd, Body: a}
}

// handle names a device.
func (d *Device) handle(a *netlink.Attributes) {
	a.Uint32(attrDevIndex, uint32(d.Index))
	a.String(attrDevName, d.Name())
}

// each makes a message of each device.
func (s *server) each(make func(*Device) (netlink.Message, error)) (list []netlink.Message, err error) {
	for i := range s.devices {
		m, err := make(&s.devices[i])
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}

// one is the answer of one message.
func one(m netlink.Message, err error) ([]netlink.Message, error) { return []netlink.Message{m}, err }

func (s *server) deviceList(*request) ([]netlink.Message, error) { return s.each((*Device).describe) }

func (s *server) device(r *request) ([]netlink.Message, error) {
	d, err := s.find(r)
	if err != nil {
		return nil, err
	}
	return one(d.describe())
}

// guid is a GUID of sysfs as a number.
func guid(s string) uint64 {
	n, _ := strconv.ParseUint(strings.ReplaceAll(s, ":", ""), 16, 64) // 0 without one
	return n
}

func (d *Device) describe() (netlink.Message, error) {
	attr, err := d.Attr()
	return message(cmdGet, func(a *netlink.Attributes) {
		d.handle(a)
		a.Uint32(attrPortIndex, thePort) // how many there are
		a.Uint64(attrCapFlags, attr.Caps)
		a.String(attrFWVersion, attr.Firmware)
		a.Uint64(attrNodeGUID, guid(attr.NodeGUID))
		a.Uint64(attrSysImageGUID, guid(attr.SystemImageGUID))
		node, protocol := uint8(nodeRNIC), "iw"
		if attr.RoCE {
			node, protocol = nodeCA, "roce"
		}
		a.Uint8(attrNodeType, node)
		a.Uint8(attrDim, 0)
		a.String(attrProtocol, protocol)
	}), err
}

func (s *server) portList(r *request) ([]netlink.Message, error) {
	d, err := s.find(r)
	if err != nil {
		return nil, err
	}
	return one(d.describePort(cmdPortGet))
}

func (s *server) port(r *request) ([]netlink.Message, error) {
	d, err := s.findPort(r)
	if err != nil {
		return nil, err
	}
	return one(d.describePort(cmdGet)) // as the kernel does
}

func (d *Device) describePort(cmd uint16) (netlink.Message, error) {
	attr, err := d.Attr()
	return message(cmd, func(a *netlink.Attributes) {
		d.handle(a)
		a.Uint32(attrPortIndex, thePort)
		a.Uint8(attrPortState, attr.StateNumber())
		a.Uint8(attrPortPhysState, attr.PhysNumber())
		if netdev, err := net.InterfaceByName(d.Netdev); err == nil {
			a.Uint32(attrNdevIndex, uint32(netdev.Index))
			a.String(attrNdevName, d.Netdev)
		}
	}), err
}

// system tells that devices are shared by network namespaces, and registered memory
// stays a parent's after fork(2).
func (s *server) system(*request) ([]netlink.Message, error) {
	return one(message(cmdSysGet, func(a *netlink.Attributes) {
		a.Uint8(attrNetnsMode, sharedMode)
		a.Uint8(attrCopyOnFork, 1)
	}), nil)
}

// setSystem can only leave it at that.
func (s *server) setSystem(r *request) ([]netlink.Message, error) {
	if mode := r.attrs[attrNetnsMode]; len(mode) < 1 || mode[0] != sharedMode {
		return nil, unix.EOPNOTSUPP
	}
	return nil, nil
}

// chardev tells which device file a kind of clients uses.
func (s *server) chardev(r *request) ([]netlink.Message, error) {
	kind := strings.TrimRight(string(r.attrs[attrChardevType]), "\x00")
	if kind == "" {
		return nil, unix.EINVAL
	}
	if kind == "rdma_cm" {
		return one(file(nil, "rdma_cm", sysfs.CMNumber(), sysfs.CMABI), nil)
	}
	d, err := s.find(r)
	switch {
	case err != nil:
		return nil, err
	case kind == "uverbs":
		return one(file(func(a *netlink.Attributes) { a.Uint32(attrDriverID, driverRXE) },
			"uverbs"+strconv.Itoa(d.Index), d.UVerbsNumber(), sysfs.DriverABI), nil)
	case kind == "umad":
		return one(file(nil, "umad"+strconv.Itoa(d.Index), d.UMADNumber(), sysfs.MADABI), nil)
	}
	return nil, unix.ENOENT
}

func file(more func(*netlink.Attributes), name string, number, abi uint64) netlink.Message {
	return message(cmdGetChardev, func(a *netlink.Attributes) {
		if more != nil {
			more(a)
		}
		a.Uint64(attrChardev, number)
		a.Uint64(attrChardevABI, abi)
		a.String(attrChardevName, name)
	})
}

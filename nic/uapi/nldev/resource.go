package nldev

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/netlink"
)

// Resource is an object of a device, as the NIC's table of resources has it.
type Resource struct {
	Kind    string         `json:"kind"` // ctx, pd, cq, mr, qp, srq or cm_id
	Num     uint32         `json:"num"`
	PID     int            `json:"pid"` // that made it; 0: the NIC's own
	Users   int            `json:"users"`
	Context uint32         `json:"ctx"`
	PD      uint32         `json:"pd"`
	State   string         `json:"state"`
	Entries int            `json:"entries"`
	STag    uint32         `json:"stag"`
	Len     uint64         `json:"len"`
	QP      uint32         `json:"qp"`
	SRQ     uint32         `json:"srq"` // of a queue pair
	Local   netip.AddrPort `json:"local"`
	Remote  netip.AddrPort `json:"remote"`

	users []uint32 // of a shared receive queue: queue pairs
}

// Attributes of objects.
const (
	attrResSummary   = 15
	attrSummaryEntry = 16
	attrSummaryName  = 17
	attrSummaryCurr  = 18
	attrResQP        = 19
	attrResQPEntry   = 20
	attrLQPN         = 21
	attrRQPN         = 22
	attrRQPSN        = 23
	attrSQPSN        = 24
	attrPathMig      = 25
	attrType         = 26
	attrState        = 27
	attrPID          = 28
	attrKernName     = 29
	attrResCMID      = 30
	attrPS           = 32
	attrSrcAddr      = 33
	attrDstAddr      = 34
	attrResCQ        = 35
	attrCQE          = 37
	attrUseCount     = 38
	attrResMR        = 40
	attrRKey         = 42
	attrLKey         = 43
	attrMRLen        = 45
	attrResPD        = 46
	attrPDN          = 60
	attrCQN          = 61
	attrMRN          = 62
	attrCMIDN        = 63
	attrCtxN         = 64
	attrResCtx       = 86
	attrResSRQ       = 88
	attrSRQN         = 90
)

// entryOf is the attribute of an entry in a list of objects: the next number.
const entryOf = 1

// kind is how objects of one kind are told.
type kind struct {
	name string
	list uint16 // attribute of a list
	id   uint16 // attribute of an object's number
	port bool   // they belong to a port
	raw  bool   // the driver's own octets, of which there are none
	fill func(*Resource, *request, *netlink.Attributes)
	cmd  uint16
}

var kinds = map[uint16]*kindHandler{}

// kindHandler serves the commands about objects of one kind.
type kindHandler struct {
	raw       bool
	one, list func(*server, *request) ([]netlink.Message, error)
}

// order is that of the summary.
var order = []string{"pd", "cq", "qp", "cm_id", "mr", "ctx", "srq"}

// initKinds fills kinds.
func initKinds() {
	for _, k := range []kind{
		{"qp", attrResQP, attrLQPN, true, false, (*Resource).qp, cmdResQP},
		{"qp", attrResQP, attrLQPN, true, true, nil, cmdResQPRaw},
		{"cm_id", attrResCMID, attrCMIDN, true, false, (*Resource).cmID, cmdResCMID},
		{"cq", attrResCQ, attrCQN, false, false, (*Resource).cq, cmdResCQ},
		{"cq", attrResCQ, attrCQN, false, true, nil, cmdResCQRaw},
		{"mr", attrResMR, attrMRN, false, false, (*Resource).mr, cmdResMR},
		{"mr", attrResMR, attrMRN, false, true, nil, cmdResMRRaw},
		{"pd", attrResPD, attrPDN, false, false, (*Resource).pd, cmdResPD},
		{"ctx", attrResCtx, attrCtxN, false, false, (*Resource).ctx, cmdResCtx},
		{"srq", attrResSRQ, attrSRQN, false, false, (*Resource).srq, cmdResSRQ},
	} {
		kinds[k.cmd] = &kindHandler{raw: k.raw,
			one:  func(s *server, r *request) ([]netlink.Message, error) { return k.one(s, r) },
			list: func(s *server, r *request) ([]netlink.Message, error) { return k.all(s, r) }}
	}
}

// assigned is the port that an object belongs to, 0 for none yet.
func (o *Resource) assigned() uint32 {
	if o.Kind == "qp" && o.State == "RESET" || o.Kind == "cm_id" && !o.Local.IsValid() {
		return 0
	}
	return thePort
}

// objects are a device's of one kind.
func (d *Device) objects(k *kind) (list []Resource, err error) {
	all, err := d.Resources()
	for _, o := range all {
		if o.Kind != k.name {
			continue
		}
		if k.name == "srq" {
			for i := range all {
				if all[i].SRQ == o.Num {
					o.users = append(o.users, all[i].Num)
				}
			}
		}
		list = append(list, o)
	}
	return list, err
}

// all dumps the objects of a device.
func (k *kind) all(s *server, r *request) ([]netlink.Message, error) {
	d, err := s.find(r)
	if err == nil && r.has(attrPortIndex) && k.port {
		d, err = s.findPort(r)
	}
	if err != nil {
		return nil, err
	}
	list, err := d.objects(k)
	if err != nil {
		return nil, err
	}
	entries := func(some []Resource) netlink.Message {
		return message(k.cmd, func(a *netlink.Attributes) {
			d.handle(a)
			a.Nest(k.list, func(a *netlink.Attributes) {
				for i := range some {
					a.Nest(k.list+entryOf, func(a *netlink.Attributes) { k.fill(&some[i], r, a) })
				}
			})
		})
	}
	var messages []netlink.Message
	var some []Resource
	for _, o := range list {
		switch {
		case k.port && r.has(attrPortIndex) && o.assigned() == 0:
			continue
		case k.raw:
			return nil, unix.EINVAL
		}
		if some = append(some, o); len(some) == perMessage {
			messages, some = append(messages, entries(some)), nil
		}
	}
	if len(some) > 0 {
		messages = append(messages, entries(some))
	}
	return messages, nil
}

// perMessage is how many objects fit into a message that a program reads into a page.
const perMessage = 8

// one tells of the object that a request names.
func (k *kind) one(s *server, r *request) ([]netlink.Message, error) {
	d, err := s.find(r)
	n, err2 := r.number(k.id)
	if err != nil || err2 != nil || r.has(attrPortIndex) != k.port || k.raw {
		return nil, unix.EINVAL
	}
	list, err := d.objects(k)
	if err != nil {
		return nil, err
	}
	for i := range list {
		if list[i].Num == n {
			return one(message(k.cmd, func(a *netlink.Attributes) {
				d.handle(a)
				k.fill(&list[i], r, a)
			}), nil)
		}
	}
	return nil, unix.ENOENT
}

func (s *server) summaryList(*request) ([]netlink.Message, error) { return s.each((*Device).summary) }

func (s *server) summary(r *request) ([]netlink.Message, error) {
	d, err := s.find(r)
	if err != nil {
		return nil, err
	}
	return one(d.summary())
}

// summary counts a device's objects.
func (d *Device) summary() (netlink.Message, error) {
	list, err := d.Resources()
	count := map[string]uint64{}
	for i := range list {
		count[list[i].Kind]++
	}
	return message(cmdResGet, func(a *netlink.Attributes) {
		d.handle(a)
		a.Nest(attrResSummary, func(a *netlink.Attributes) {
			for _, name := range order {
				a.Nest(attrSummaryEntry, func(a *netlink.Attributes) {
					a.String(attrSummaryName, name)
					a.Uint64(attrSummaryCurr, count[name])
				})
			}
		})
	}), err
}

// owner says whose an object is.
func (o *Resource) owner(a *netlink.Attributes) {
	if o.PID > 0 {
		a.Uint32(attrPID, uint32(o.PID))
	} else {
		a.String(attrKernName, "tapir")
	}
}

// qpStates and cmStates are numbered as the kernel's (enum ib_qp_state, enum
// rdma_cm_state).
var (
	qpStates = map[string]uint8{"RESET": 0, "INIT": 1, "RTR": 2, "RTS": 3, "SQD": 4, "SQE": 5, "ERR": 6}
	cmStates = map[string]uint8{"IDLE": 0, "CONNECTING": 5, "REQUESTED": 5, "ACCEPTING": 5, "CONNECTED": 5,
		"CLOSING": 6, "CLOSED": 6, "LISTEN": 8}
)

const (
	typeRC     = 2     // IB_QPT_RC
	portsOfTCP = 0x106 // RDMA_PS_TCP
)

func (o *Resource) qp(_ *request, a *netlink.Attributes) {
	if n := o.assigned(); n > 0 {
		a.Uint32(attrPortIndex, n)
	}
	a.Uint32(attrLQPN, o.Num)
	a.Uint32(attrPDN, o.PD)
	a.Uint32(attrRQPN, 0)
	a.Uint32(attrRQPSN, 0)
	a.Uint32(attrSQPSN, 0)
	a.Uint8(attrPathMig, 0)
	a.Uint8(attrType, typeRC)
	a.Uint8(attrState, qpStates[o.State])
	o.owner(a)
}

func (o *Resource) cmID(_ *request, a *netlink.Attributes) {
	if n := o.assigned(); n > 0 {
		a.Uint32(attrPortIndex, n)
	}
	if o.QP != 0 {
		a.Uint32(attrLQPN, o.QP)
	}
	a.Uint8(attrType, typeRC)
	a.Uint32(attrPS, portsOfTCP)
	a.Uint8(attrState, cmStates[o.State])
	if o.Local.IsValid() {
		a.Put(attrSrcAddr, sockaddr(o.Local))
	}
	if o.Remote.IsValid() {
		a.Put(attrDstAddr, sockaddr(o.Remote))
	}
	a.Uint32(attrCMIDN, o.Num)
	o.owner(a)
}

// sockaddr is struct sockaddr_storage.
func sockaddr(at netip.AddrPort) []byte {
	b := make([]byte, 128)
	binary.NativeEndian.PutUint16(b, unix.AF_INET)
	binary.BigEndian.PutUint16(b[2:], at.Port())
	to := b[4:]
	if at.Addr().Is6() {
		binary.NativeEndian.PutUint16(b, unix.AF_INET6)
		to = b[8:]
	}
	copy(to, at.Addr().AsSlice())
	return b
}

func (o *Resource) cq(_ *request, a *netlink.Attributes) {
	a.Uint32(attrCQE, uint32(o.Entries))
	a.Uint64(attrUseCount, uint64(o.Users))
	a.Uint32(attrCQN, o.Num)
	if o.Context != 0 {
		a.Uint32(attrCtxN, o.Context)
	}
	o.owner(a)
}

// mr tells keys to those alone who may administer the network.
func (o *Resource) mr(r *request, a *netlink.Attributes) {
	if r.Admin {
		a.Uint32(attrRKey, o.STag)
		a.Uint32(attrLKey, o.STag)
	}
	a.Uint64(attrMRLen, o.Len)
	a.Uint32(attrMRN, o.Num)
	a.Uint32(attrPDN, o.PD)
	o.owner(a)
}

func (o *Resource) pd(_ *request, a *netlink.Attributes) {
	a.Uint64(attrUseCount, uint64(o.Users))
	a.Uint32(attrPDN, o.Num)
	if o.Context != 0 {
		a.Uint32(attrCtxN, o.Context)
	}
	o.owner(a)
}

func (o *Resource) ctx(_ *request, a *netlink.Attributes) {
	a.Uint32(attrCtxN, o.Num)
	o.owner(a)
}

func (o *Resource) srq(_ *request, a *netlink.Attributes) {
	a.Uint32(attrSRQN, o.Num)
	a.Uint8(attrType, 0) // IB_SRQT_BASIC
	a.Uint32(attrPDN, o.PD)
	a.Nest(attrResQP, func(a *netlink.Attributes) {
		for _, qp := range o.users {
			a.Nest(attrResQPEntry, func(a *netlink.Attributes) { a.Uint32(attrLQPN, qp) })
		}
	})
	o.owner(a)
}

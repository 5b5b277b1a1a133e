package umad

import (
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/trap"
	"tapir/wire/ib"
)

// Requests of ioctl(2), of type 0x1b.
const (
	registerAgent   = 0xc01c1b01
	unregisterAgent = 0x40041b02
	enablePKey      = 0x00001b03
	registerAgent2  = 0xc0281b04
)

// Management classes that the kernel looks at.
const (
	classSubnLID      = 0x01
	classSubnDirected = 0x81
	lastClass         = 0x4f
	firstVendorClass  = 0x30 // with an OUI
	lastVersion       = 0x82
)

const maxAgents = 32

// agent is a program's registration.
type agent struct {
	tid            uint32 // the upper half of its transaction ids
	class, version uint8
	oui            uint32
	methods        [2]uint64 // of requests that it wants, by their bit
	rmpp           bool      // messages in segments are put together for it
}

// wants tells whether requests such as b are for the agent.
func (a *agent) wants(b []byte) bool {
	method := b[offMethod]
	return a.version != 0 && b[offClass] == a.class && b[2] == a.version && method < 128 &&
		a.methods[method/64]>>(method%64)&1 != 0 &&
		(!ib.HasOUI(a.class) || len(b) >= ib.MADLen && ib.OUI(b) == a.oui)
}

// agents counts those of this process, so that no two have one transaction id.
var agents atomic.Uint32

// request is struct ib_user_mad_reg_req.
type request struct {
	ID                 uint32
	Methods            [4]uint32
	QP, Class, Version uint8
	OUI                [3]uint8
	RMPP               uint8
	_                  uint8
}

// request2 is struct ib_user_mad_reg_req2.
type request2 struct {
	ID, QP         uint32
	Class, Version uint8
	_              uint16
	Flags          uint32
	Methods        [2]uint64
	OUI            uint32
	RMPP           uint8
	_              [3]uint8
}

// userRMPP is the one flag of request2: the program segments by itself.
const userRMPP = 1

// Ioctl implements trap.File.
func (f *file) Ioctl(c *trap.Call, req uint32, arg uint64) trap.Answer {
	switch req {
	case registerAgent:
		r, err := trap.Get[request](c, arg)
		if err == nil {
			oui := uint32(r.OUI[0])<<16 | uint32(r.OUI[1])<<8 | uint32(r.OUI[2])
			var m [2]uint64
			for i, word := range r.Methods {
				m[i/2] |= uint64(word) << (i % 2 * 32)
			}
			r.ID, err = f.register(request2{QP: uint32(r.QP), Class: r.Class, Version: r.Version, Methods: m,
				OUI: oui, RMPP: r.RMPP})
		}
		if err == nil {
			err = trap.Put(c, arg, &r.ID)
		}
		return trap.Result(0, err)
	case registerAgent2:
		r, err := trap.Get[request2](c, arg)
		if err == nil && r.Flags&^userRMPP != 0 {
			flags := uint32(userRMPP)
			_ = trap.Put(c, arg+12, &flags) // what there is
			err = unix.EINVAL
		}
		if err == nil {
			r.ID, err = f.register(r)
		}
		if err == nil {
			err = trap.Put(c, arg, &r.ID)
		}
		return trap.Result(0, err)
	case unregisterAgent:
		id, err := trap.Get[uint32](c, arg)
		if err == nil {
			err = f.unregister(id)
		}
		return trap.Result(0, err)
	case enablePKey:
		return trap.Result(0, f.enablePKey())
	}
	return trap.Fail(unix.ENOTTY)
}

// subnet tells whether a class is one of subnet management.
func subnet(class uint8) bool { return class == classSubnLID || class == classSubnDirected }

// register makes an agent and returns its id. Errors: EINVAL, ENOMEM.
func (f *file) register(r request2) (uint32, error) {
	subnet := subnet(r.Class)
	switch {
	case r.QP > 1:
		return 0, unix.EINVAL
	case r.Version == 0: // for responses only
	case r.Version > lastVersion, r.Class == 0, r.Class > lastClass && r.Class != classSubnDirected,
		r.Class >= firstVendorClass && r.Class <= lastClass && r.OUI == 0,
		subnet != (r.QP == 0), subnet && r.RMPP != 0:
		return 0, unix.EINVAL
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	id := slices.Index(f.agents[:], nil)
	if id < 0 {
		return 0, unix.ENOMEM
	}
	f.used = true
	f.agents[id] = &agent{tid: uint32(f.link.Session())<<16 | agents.Add(1)&0xffff, class: r.Class, version: r.Version,
		oui: r.OUI & 0xffffff, methods: r.Methods, rmpp: r.RMPP != 0 && r.Flags&userRMPP == 0}
	return uint32(id), nil
}

// unregister ends an agent; responses that it waits for are dropped.
func (f *file) unregister(id uint32) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if id >= maxAgents || f.agents[id] == nil {
		return unix.EINVAL
	}
	f.agents[id] = nil
	return nil
}

// enablePKey makes the header the longer one, which has an index of the P_Key
// table, before there is an agent.
func (f *file) enablePKey() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.used {
		return unix.EINVAL
	}
	f.header = headerLen
	return nil
}

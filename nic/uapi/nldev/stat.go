package nldev

import (
	"golang.org/x/sys/unix"

	"tapir/nic/uapi/netlink"
)

// Attributes of counters.
const (
	attrStatMode     = 74
	attrStatRes      = 75
	attrStatAutoMask = 76
	attrHWCounters   = 80
	attrHWEntry      = 81
	attrHWName       = 82
	attrHWValue      = 83
	attrHWIndex      = 94
)

const (
	modeNone = 0 // RDMA_COUNTER_MODE_NONE
	modeAuto = 1
)

// stat tells the counters of a port; how queue pairs are counted, which is not on
// their own; or one memory region, which has no counters.
func (s *server) stat(r *request) ([]netlink.Message, error) {
	of, err := r.number(attrStatRes)
	if err == nil && of == attrResMR {
		return kinds[cmdResMR].one(s, r)
	}
	d, err := s.findPort(r)
	if err != nil {
		return nil, err
	}
	if r.has(attrStatRes) {
		if of != attrResQP {
			return nil, unix.EINVAL
		}
		return one(message(cmdStatGet, func(a *netlink.Attributes) {
			d.handle(a)
			a.Uint32(attrPortIndex, thePort)
			a.Uint32(attrStatMode, modeNone)
		}), nil)
	}
	return d.counters(cmdStatGet, func(a *netlink.Attributes, i int, value uint64) { a.Uint64(attrHWValue, value) })
}

// counters lists those of the port, with what put adds to each.
func (d *Device) counters(cmd uint16, put func(a *netlink.Attributes, i int, value uint64)) ([]netlink.Message, error) {
	list, err := d.HWCounters()
	return one(message(cmd, func(a *netlink.Attributes) {
		d.handle(a)
		a.Uint32(attrPortIndex, thePort)
		a.Nest(attrHWCounters, func(a *netlink.Attributes) {
			for i, c := range list {
				a.Nest(attrHWEntry, func(a *netlink.Attributes) {
					a.String(attrHWName, c.Name)
					put(a, i, c.Value)
				})
			}
		})
	}), err)
}

// statList lists objects that are counted on their own: no queue pairs, and memory
// regions without counters.
func (s *server) statList(r *request) ([]netlink.Message, error) {
	switch of, err := r.number(attrStatRes); {
	case err != nil:
		return nil, err
	case of == attrResQP:
		_, err := s.find(r)
		return nil, err
	case of == attrResMR:
		return kinds[cmdResMR].list(s, r)
	}
	return nil, unix.EINVAL
}

// statStatus tells which counters there are; none is optional.
func (s *server) statStatus(r *request) ([]netlink.Message, error) {
	d, err := s.findPort(r)
	if err != nil {
		return nil, err
	}
	return d.counters(cmdStatGetStatus, func(a *netlink.Attributes, i int, _ uint64) {
		a.Uint32(attrHWIndex, uint32(i))
	})
}

// setStat can only say that queue pairs are not counted on their own.
func (s *server) setStat(r *request) ([]netlink.Message, error) {
	if _, err := s.findPort(r); err != nil {
		return nil, err
	}
	mode, err := r.number(attrStatMode)
	if mask, _ := r.number(attrStatAutoMask); err != nil || mode != modeAuto || mask != 0 {
		return nil, unix.EOPNOTSUPP
	}
	return nil, nil
}

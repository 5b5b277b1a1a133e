package dcbnl

import (
	"encoding/binary"

	"tapir/nic/dcb"
	"tapir/nic/dcbx"
	"tapir/nic/uapi/netlink"
	"tapir/wire/lldp"
)

// ETS is struct ieee_ets.
type ETS struct {
	Willing, Cap, CBS uint8
	TxBW, RxBW, TSA   [dcb.Classes]uint8 // of each traffic class; shares in percent
	PrioTC            [dcb.Classes]uint8
	// What is recommended to the neighbor.
	RecoBW, RecoTSA, RecoPrioTC [dcb.Classes]uint8
}

// PFC is struct ieee_pfc.
type PFC struct {
	Cap, Enabled, MBC     uint8
	_                     uint8
	Delay                 uint16
	_                     uint16
	Requests, Indications [dcb.Classes]uint64
}

// MaxRate is struct ieee_maxrate: kb/s of each traffic class, 0 for no limit.
type MaxRate [dcb.Classes]uint64

// Buffer is struct dcbnl_buffer: the buffer of each priority, and the octets of each buffer and
// of all that the device has.
type Buffer struct {
	Prio  [dcb.Classes]uint8
	Size  [dcb.Classes]uint32
	Total uint32
}

// App is struct dcb_app, with the selectors of LLDP.
type App struct {
	Selector, Priority uint8
	Protocol           uint16
}

// octets are those of a structure of the kernel's, in this machine's byte order.
func octets(v any) []byte {
	b, _ := binary.Append(nil, binary.NativeEndian, v) // it is of fixed size
	return b
}

// get reads a structure; false: it is too short.
func get(b []byte, v any) bool {
	_, err := binary.Decode(b, binary.NativeEndian, v)
	return err == nil
}

// inUse is what the port acts on.
func (s *State) inUse() *dcbx.Values {
	if s.Oper != nil {
		return s.Oper
	}
	return &s.Admin
}

// cee tells whether the version in use is CEE, of which calls of IEEE know nothing.
func (s *State) cee() bool { return s.Version == dcbx.CEE }

// putIEEE appends DCB_ATTR_IEEE as dcbnl_ieee_fill does.
func (s *State) putIEEE(reply *netlink.Attributes) {
	reply.Nest(attrIEEE, func(a *netlink.Attributes) {
		if !s.cee() {
			a.Put(ieeeETS, octets(s.ets()))
			a.Put(ieeeMaxRate, octets(s.maxRate()))
			a.Put(ieeePFC, octets(s.pfc()))
			a.Put(ieeeBuffer, octets(s.buffer()))
		}
		a.Nest(ieeeApps, func(a *netlink.Attributes) { putApps(a, s.apps()) })
		if s.Peer == nil || s.cee() {
			return
		}
		if s.Peer.ETS.Enabled {
			a.Put(ieeePeerETS, octets(etsOf(s.Peer)))
		}
		if s.Peer.Pause.Enabled {
			a.Put(ieeePeerPFC, octets(pfcOf(s.Peer)))
		}
		if s.Peer.App.Enabled {
			a.Nest(ieeePeerApps, func(a *netlink.Attributes) { putApps(a, s.Peer.Apps) })
		}
	})
	reply.Uint8(attrDCBX, s.mode())
}

func etsOf(v *dcbx.Values) *ETS {
	e := &ETS{Cap: v.MaxTCs, TxBW: v.Weight, TSA: tsa(v), PrioTC: v.PrioTC}
	if v.ETS.Willing {
		e.Willing = 1
	}
	if v.CBS {
		e.CBS = 1
	}
	return e
}

func tsa(v *dcbx.Values) (list [dcb.Classes]uint8) {
	for i, a := range v.TSA {
		list[i] = uint8(a)
	}
	return list
}

// ets is what the port acts on; recommended is what is administered.
func (s *State) ets() *ETS {
	e := etsOf(s.inUse())
	e.RecoBW, e.RecoTSA, e.RecoPrioTC = s.Admin.Weight, tsa(&s.Admin), s.Admin.PrioTC
	return e
}

func pfcOf(v *dcbx.Values) *PFC {
	p := &PFC{Cap: v.PFCCap, Enabled: v.Config.PFC}
	if v.MBC {
		p.MBC = 1
	}
	return p
}

func (s *State) pfc() *PFC {
	p := pfcOf(s.inUse())
	p.Requests, p.Indications = s.Sent, s.Received
	return p
}

func (s *State) maxRate() (m MaxRate) {
	for tc, kbps := range s.Port.MaxRate {
		m[tc] = uint64(kbps)
	}
	return m
}

func (s *State) buffer() *Buffer {
	b := &Buffer{Total: dcb.MaxBuffers}
	for i := range uint8(dcb.Classes) {
		b.Prio[i] = s.Port.Buffers.Of(i)
		b.Size[i] = uint32(s.Port.Buffers.Octets(i, s.inUse().Config.PFC))
	}
	return b
}

// apps are the applications in use. Priorities of DSCPs are never a neighbor's.
func (s *State) apps() (list []lldp.AppEntry) {
	for _, e := range s.inUse().Apps {
		if e.Selector != lldp.SelDSCP {
			list = append(list, e)
		}
	}
	for _, e := range s.Admin.Apps {
		if e.Selector == lldp.SelDSCP {
			list = append(list, e)
		}
	}
	return list
}

func putApps(a *netlink.Attributes, list []lldp.AppEntry) {
	for _, e := range list {
		a.Put(ieeeApp, octets(App{e.Selector, e.Priority, e.Protocol}))
	}
}

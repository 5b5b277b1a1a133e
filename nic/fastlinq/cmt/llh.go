package cmt

import (
	"tapir/nic/fastlinq/l2"
	"tapir/nic/fastlinq/status"
	"tapir/wire/enum"
	"tapir/wire/ether"
	"tapir/wire/ip"
)

// Sizes of the LLH, the classification at the port.
const (
	MaxPPFIDs  = 8  // functions of a port
	MaxFilters = 16 // of a PPFID
)

// Affinity is the engine that packets go to.
type Affinity uint8

// The affinities.
const (
	Engine0 Affinity = iota
	Engine1
	Both // by the hash of the flow
)

var affinityNames = [...]string{"engine0", "engine1", "both"}

// String is the affinity as ParseAffinity reads it.
func (a Affinity) String() string {
	return enum.Name(affinityNames[:], a, "Affinity(%d)")
}

// ParseAffinity reads engine0, engine1 or both; INVAL for anything else.
func ParseAffinity(s string) (Affinity, error) {
	for i, name := range affinityNames {
		if s == name {
			return Affinity(i), nil
		}
	}
	return 0, status.Inval.Errorf("affinity %q: use engine0, engine1 or both", s)
}

// FilterKind is what a filter of the LLH compares.
type FilterKind uint8

// The kinds; all but the first are protocol filters.
const (
	FilterMAC FilterKind = iota // the destination station
	FilterEtherType
	FilterTCPSrc
	FilterTCPDst
	FilterTCPBoth
	FilterUDPSrc
	FilterUDPDst
	FilterUDPBoth
	numFilterKinds
)

// Filter is a filter of the LLH. What its kind does not compare is zero.
type Filter struct {
	Kind             FilterKind
	MAC              ether.Addr
	EtherType        uint16
	SrcPort, DstPort uint16
}

// check says why there is no such filter.
func (f *Filter) check() error {
	src := f.Kind == FilterTCPSrc || f.Kind == FilterTCPBoth || f.Kind == FilterUDPSrc || f.Kind == FilterUDPBoth
	dst := f.Kind == FilterTCPDst || f.Kind == FilterTCPBoth || f.Kind == FilterUDPDst || f.Kind == FilterUDPBoth
	switch {
	case f.Kind >= numFilterKinds:
		return status.Inval.Errorf("filter of kind %d", f.Kind)
	case (f.Kind == FilterMAC) == f.MAC.IsZero():
		return status.Inval.Errorf("filter for the station %v", f.MAC)
	case (f.Kind == FilterEtherType) == (f.EtherType == 0):
		return status.Inval.Errorf("filter for EtherType %#04x", f.EtherType)
	case src == (f.SrcPort == 0), dst == (f.DstPort == 0):
		return status.Inval.Errorf("filter for ports %d and %d", f.SrcPort, f.DstPort)
	}
	return nil
}

func (f *Filter) matches(flow *l2.Flow) bool {
	switch f.Kind {
	case FilterMAC:
		return flow.Dst == f.MAC
	case FilterEtherType:
		return flow.EtherType == f.EtherType
	}
	proto := uint8(ip.ProtoTCP)
	if f.Kind >= FilterUDPSrc {
		proto = ip.ProtoUDP
	}
	return flow.Proto == proto && (f.SrcPort == 0 || f.SrcPort == flow.SrcPort) &&
		(f.DstPort == 0 || f.DstPort == flow.DstPort)
}

// slot is a filter with the number of those who want it.
type slot struct {
	Filter
	refs int
}

// ppfid is one function of the port as the LLH sees it.
type ppfid struct {
	affinity Affinity
	filters  []slot
}

// LLH classifies at the port: filters say which PPFID a packet is for, and that
// has an affinity to one engine or to both. Packets that match no filter are the
// default function's.
type LLH struct {
	ppfids []ppfid
	roce   Affinity
	// byDefault: what no filter matches is PPFID 0's.
	byDefault bool
}

// NewLLH returns the filters of a port with n PPFIDs. All go to both engines, RoCE
// packets to engine 0, and there is no default function. INVAL: not 1 to
// MaxPPFIDs.
func NewLLH(ppfids int) (*LLH, error) {
	if ppfids < 1 || ppfids > MaxPPFIDs {
		return nil, status.Inval.Errorf("%d PPFIDs: want 1 to %d", ppfids, MaxPPFIDs)
	}
	h := &LLH{ppfids: make([]ppfid, ppfids)}
	for i := range h.ppfids {
		h.ppfids[i].affinity = Both
	}
	return h, nil
}

func (h *LLH) ppfid(id int) (*ppfid, error) {
	if id < 0 || id >= len(h.ppfids) {
		return nil, status.Inval.Errorf("PPFID %d: there are %d", id, len(h.ppfids))
	}
	return &h.ppfids[id], nil
}

// SetPPFIDAffinity is llh_set_ppfid_affinity. INVAL: no such PPFID or affinity.
func (h *LLH) SetPPFIDAffinity(id int, a Affinity) error {
	p, err := h.ppfid(id)
	if err == nil && a > Both {
		err = status.Inval.Errorf("PPFID %d: %v", id, a)
	}
	if err == nil {
		p.affinity = a
	}
	return err
}

// PPFIDAffinity is what SetPPFIDAffinity has set.
func (h *LLH) PPFIDAffinity(id int) (Affinity, error) {
	p, err := h.ppfid(id)
	if err != nil {
		return 0, err
	}
	return p.affinity, nil
}

// SetRoCEAffinity is llh_set_roce_affinity: the engine of RoCE packets, whose
// hash does not tell connections apart. INVAL: no such affinity.
func (h *LLH) SetRoCEAffinity(a Affinity) error {
	if a > Both {
		return status.Inval.Errorf("RoCE: %v", a)
	}
	h.roce = a
	return nil
}

// L2AffinityHint is llh_get_l2_affinity_hint: whether the packets of PPFID 0 are
// pinned to one engine, and to which.
func (h *LLH) L2AffinityHint() (engine int, pinned bool) {
	a := h.ppfids[0].affinity
	return int(a) % Engines, a != Both
}

// SetFunctionAsDefault is llh_set_function_as_default: what no filter matches is
// PPFID 0's from now on.
func (h *LLH) SetFunctionAsDefault() { h.byDefault = true }

// AddFilter is llh_add_mac_filter and llh_add_protocol_filter. Who adds one that
// is there shares it, and has to remove it, too. INVAL: no such PPFID or filter;
// NORESOURCES: the PPFID has MaxFilters.
func (h *LLH) AddFilter(id int, f Filter) error {
	p, err := h.ppfid(id)
	if err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return err
	}
	if s := p.find(f); s != nil {
		s.refs++
		return nil
	}
	if len(p.filters) == MaxFilters {
		return status.NoResources.Errorf("PPFID %d has %d filters already", id, MaxFilters)
	}
	p.filters = append(p.filters, slot{f, 1})
	return nil
}

func (p *ppfid) find(f Filter) *slot {
	for i := range p.filters {
		if p.filters[i].Filter == f {
			return &p.filters[i]
		}
	}
	return nil
}

// RemoveFilter is llh_remove_mac_filter and llh_remove_protocol_filter: the
// filter goes with the last who wants it. INVAL: it is not there.
func (h *LLH) RemoveFilter(id int, f Filter) error {
	p, err := h.ppfid(id)
	if err != nil {
		return err
	}
	s := p.find(f)
	if s == nil {
		return status.Inval.Errorf("PPFID %d has no such filter", id)
	}
	if s.refs--; s.refs > 0 {
		return nil
	}
	for i := range p.filters {
		if p.filters[i].refs == 0 {
			p.filters = append(p.filters[:i], p.filters[i+1:]...)
			break
		}
	}
	return nil
}

// ClearFilters is llh_clear_ppfid_filters: all of a PPFID, whoever wants them.
func (h *LLH) ClearFilters(id int) error {
	p, err := h.ppfid(id)
	if err == nil {
		p.filters = nil
	}
	return err
}

// ClearAllFilters is llh_clear_all_filters.
func (h *LLH) ClearAllFilters() {
	for i := range h.ppfids {
		h.ppfids[i].filters = nil
	}
}

// Filters is the number of filters of a PPFID.
func (h *LLH) Filters(id int) int {
	p, err := h.ppfid(id)
	if err != nil {
		return 0
	}
	return len(p.filters)
}

// rocePort is the UDP port of RoCE v2, roceType the EtherType of RoCE v1.
const (
	rocePort = 4791
	roceType = 0x8915
)

// Classify is the affinity of a packet: that of the PPFID with the first filter
// that matches, else the default function's. False: it is for no function of
// the port.
func (h *LLH) Classify(flow *l2.Flow) (a Affinity, ok bool) {
	if flow.EtherType == roceType || flow.Proto == ip.ProtoUDP && flow.DstPort == rocePort {
		return h.roce, true
	}
	for i := range h.ppfids {
		p := &h.ppfids[i]
		for k := range p.filters {
			if p.filters[k].matches(flow) {
				return p.affinity, true
			}
		}
	}
	return h.ppfids[0].affinity, h.byDefault
}

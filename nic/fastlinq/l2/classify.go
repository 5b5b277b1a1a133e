package l2

import (
	"tapir/nic/nicdrop"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// matches are the vports with a filter for the frame in hand.
type matches struct {
	address set // its destination
	pair    set // its destination and VLAN
}

// classify lists in fn.to the vports that accept the packet in hand from one
// side; from, which sent it, is not asked. If there is none it says why.
func (fn *Function) classify(d dir, from *vport) frame.DropReason {
	p := &fn.pkt
	fn.to = fn.to[:0]
	dst, vid := fn.station(p)
	group := dst.IsMulticast()
	var m matches
	if t := &fn.tables[d]; !group && t.pairs > 0 {
		m.pair = *t.find(FilterMACVLAN, makeKey(FilterMACVLAN, dst, vid))
	}
	looked, known := false, false
	reason := nicdrop.Vport
	for _, v := range fn.started {
		if !v.active[rx] || v == from {
			continue
		}
		var ok bool
		switch {
		case group:
			ok = v.acceptsGroup(d, dst)
		case v.accept[d].all(UcastMatched | UcastUnmatched):
			ok = true
		default:
			if !looked {
				looked, m.address = true, *fn.tables[d].find(FilterMAC, makeKey(FilterMAC, dst, 0))
				known = m.address.any() || m.pair.any()
			}
			ok = v.acceptsStation(d, m.address.has(v.id) || m.pair.has(v.id), known)
		}
		switch {
		case !ok && reason != drop.WrongVLAN:
			reason = drop.NotOurMAC
		case !ok:
		case m.pair.has(v.id) || fn.passesVLAN(v, d, vid):
			fn.to = append(fn.to, v)
		default:
			reason = drop.WrongVLAN
		}
	}
	if len(fn.to) > 0 {
		return frame.DropNone
	}
	return reason
}

// acceptsStation judges a unicast destination, which the vport's filters match
// or not, and is known if any vport's do, for a vport that does not take all.
func (v *vport) acceptsStation(d dir, matched, known bool) bool {
	switch a := v.accept[d]; {
	case a.any(UcastMatched):
		return matched
	case a.any(UcastUnmatched):
		return !known
	}
	return false
}

func (v *vport) acceptsGroup(d dir, dst ether.Addr) bool {
	switch a := v.accept[d]; {
	case dst.IsBroadcast():
		return a.any(Bcast)
	case a.all(McastMatched | McastUnmatched):
		return true
	case a.any(McastMatched | McastUnmatched):
		return v.bins.Has(dst)
	}
	return false
}

// passesVLAN: all VLANs pass until there is the first filter that names one.
func (fn *Function) passesVLAN(v *vport, d dir, vid uint16) bool {
	switch {
	case v.anyVLAN:
		return true
	case v.vlanRules[d] == 0:
		return !v.start.OnlyUntagged || vid == 0
	}
	return fn.tables[d].find(FilterVLAN, key{uint64(FilterVLAN) << 56, uint64(vid)}).has(v.id)
}

package sw

import (
	"tapir/lab/node/sw/fcf"
	"tapir/wire/fcoe"
	"tapir/wire/fip"
	"tapir/wire/frame"
)

// forwarder is the FCF of a switch.
type forwarder struct {
	*fcf.FCF
	s *Switch
	// priorities are those of untagged frames.
	priorities map[uint16]uint8
}

// newForwarder is nil without an FCF. Ports for routed packets are not its.
func newForwarder(s *Switch) *forwarder {
	if !s.cfg.FCF.On {
		return nil
	}
	x := &forwarder{s: s, priorities: map[uint16]uint8{}}
	for _, t := range []uint16{fcoe.EtherType, fip.EtherType} {
		x.priorities[t] = s.cfg.FCoEPriority(t)
	}
	x.FCF = fcf.New(s.cfg.FCF, fcf.Env{MAC: s.cfg.FCFMAC(), Ports: len(s.ports),
		Priority: x.priorities[fcoe.EtherType], FIPPriority: x.priorities[fip.EtherType],
		Send: s.say})
	for i := range s.ports {
		if s.ports[i].routed {
			x.SetLink(i, false, s.now)
		}
	}
	return x
}

// receive takes a frame that is the FCF's: true. Others are bridged.
func (x *forwarder) receive(in int, f *frame.Frame, t tag, now frame.Time) bool {
	if x.s.ports[in].routed {
		return false
	}
	out, why := x.Receive(in, f.Bytes(), now)
	switch {
	case why != frame.DropNone:
		x.s.drop(in, f, why)
	case out == fcf.Bridge:
		return false
	case out == fcf.Taken:
		f.Release()
	default:
		x.s.count(in, f)
		x.s.enqueue(in, out, f, t, now)
	}
	return true
}

// setLink tells the FCF whether there is somebody at the other end of a port.
func (x *forwarder) setLink(port int, up bool, now frame.Time) {
	if x != nil && !x.s.ports[port].routed {
		x.SetLink(port, up, now)
	}
}

// FCF is the switch's FCoE forwarder, borrowed; nil: there is none.
func (s *Switch) FCF() *fcf.FCF {
	if s.forwarder == nil {
		return nil
	}
	return s.forwarder.FCF
}

// counters are those of the FCF.
func (x *forwarder) counters() []Counter {
	if x == nil {
		return nil
	}
	c := x.Counts()
	return []Counter{{"fcf_logins", uint64(len(x.Logins()))}, {"fcf_flogi", c.FLOGIs}, {"fcf_fdisc", c.FDISCs},
		{"fcf_logo", c.LOGOs}, {"fcf_refused", c.Refused}, {"fcf_keep_alives", c.KeepAlives},
		{"fcf_expired", c.Expired}, {"fcf_cleared", c.Cleared}, {"fcf_advertisements", c.Advertisements},
		{"fcf_solicitations", c.Solicitations}, {"fcf_vlan_requests", c.VLANRequests}, {"fcf_queries", c.Queries},
		{"fcf_queries_rejected", c.Rejected}, {"fcf_rscn", c.RSCNs}, {"fcf_rscn_lost", c.RSCNsLost},
		{"fcf_frames", c.Frames}, {"fcf_octets", c.Octets}}
}

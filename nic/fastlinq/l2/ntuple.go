package l2

import (
	"net/netip"

	"tapir/nic/fastlinq/status"
	"tapir/nic/nicdrop"
	"tapir/wire/enum"
	"tapir/wire/frame"
	"tapir/wire/ip"
)

// Profile says which fields n-tuple rules compare; those of all rules of a
// function are the same.
type Profile uint8

// The profiles.
const (
	ProfileNone    Profile = iota
	Profile5Tuple          // addresses, ports, protocol
	ProfileL4Port          // destination port and protocol
	ProfileIPDest          // destination address and protocol
	ProfileIPSrc           // source address and protocol
	ProfileTunnels         // the type of a tunnel
)

func (p Profile) String() string {
	names := [...]string{"none", "5-tuple", "L4 port", "IP destination", "IP source", "tunnel type"}
	return enum.Name(names[:], p, "Profile(%d)")
}

// Tuple is what a rule compares: the zero value of a field means any.
type Tuple struct {
	Proto            uint8 // ip.ProtoTCP or ip.ProtoUDP
	V6               bool
	Src, Dst         netip.Addr
	SrcPort, DstPort uint16
	Tunnel           TunnelType // alone, with all other fields zero
}

// profile is that of a rule which compares these fields, none if there is no such.
func (t *Tuple) profile() Profile {
	type fields struct{ src, dst, sport, dport bool }
	if t.Tunnel != NoTunnel {
		if (*t == Tuple{Tunnel: t.Tunnel}) && t.Tunnel < numTunnels {
			return ProfileTunnels
		}
		return ProfileNone
	}
	if t.Proto != ip.ProtoTCP && t.Proto != ip.ProtoUDP {
		return ProfileNone
	}
	for _, a := range []netip.Addr{t.Src, t.Dst} {
		if a.IsValid() && (a.Is4() == t.V6 || a.Is4In6() || a.Zone() != "") {
			return ProfileNone
		}
	}
	switch (fields{t.Src.IsValid(), t.Dst.IsValid(), t.SrcPort != 0, t.DstPort != 0}) {
	case fields{true, true, true, true}:
		return Profile5Tuple
	case fields{dport: true}:
		return ProfileL4Port
	case fields{dst: true}:
		return ProfileIPDest
	case fields{src: true}:
		return ProfileIPSrc
	}
	return ProfileNone
}

// NoQueue leaves the queue of a rule to RSS.
const NoQueue = -1

// Rule sends the packets of a tuple to a queue, or drops them.
type Rule struct {
	Tuple
	Drop  bool
	Queue int // relative id of a receive queue of Vport, or NoQueue
	Vport int
}

// rules are the n-tuple rules of a function.
type rules struct {
	profile Profile
	by      map[tuple]*Rule
	recent  struct { // the last look-up: frames come in flows
		valid bool
		tuple tuple
		rule  *Rule
	}
}

// find returns the rule of a tuple, nil if there is none.
func (r *rules) find(k tuple) *Rule {
	if f := &r.recent; !f.valid || f.tuple != k {
		f.valid, f.tuple, f.rule = true, k, r.by[k]
	}
	return r.recent.rule
}

// tuple is a Tuple in the form that packets are looked up in.
type tuple struct {
	src, dst     [16]byte
	sport, dport uint16
	proto        uint8
	v6           bool
	tunnel       TunnelType
}

func (t *Tuple) key() tuple {
	k := tuple{sport: t.SrcPort, dport: t.DstPort, proto: t.Proto, v6: t.V6, tunnel: t.Tunnel}
	if t.Src.IsValid() {
		copy(k.src[:], t.Src.AsSlice())
	}
	if t.Dst.IsValid() {
		copy(k.dst[:], t.Dst.AsSlice())
	}
	return k
}

// CheckTuples tells whether rules for these tuples can stand beside one another:
// INVAL if their fields are not those of one profile, EXISTS for duplicates.
func CheckTuples(list []Tuple) error {
	seen := map[tuple]bool{}
	for i := range list {
		t := &list[i]
		switch p := t.profile(); {
		case p == ProfileNone:
			return status.Inval.Errorf("no profile compares such fields")
		case p != list[0].profile():
			return status.Inval.Errorf("a rule of profile %v beside those of profile %v", p, list[0].profile())
		case seen[t.key()]:
			return status.Exists.Errorf("two rules for the same packets")
		}
		seen[t.key()] = true
	}
	return nil
}

// AddRule adds an n-tuple rule. The first decides on the profile of all. INVAL for
// one that compares other fields or goes to a queue that is not its vport's,
// EXISTS for a duplicate, NORESOURCES if there are as many as the function may
// have.
func (fn *Function) AddRule(r Rule) error {
	profile := r.profile()
	v, err := fn.vport(r.Vport)
	k := r.key()
	_, dup := fn.rules.by[k]
	switch {
	case err != nil:
		return err
	case profile == ProfileNone:
		return status.Inval.Errorf("no profile compares such fields")
	case fn.rules.profile != ProfileNone && fn.rules.profile != profile:
		return status.Inval.Errorf("a rule of profile %v beside those of profile %v", profile, fn.rules.profile)
	case !r.Drop && r.Queue != NoQueue && v.queue(r.Queue) == nil:
		return status.Inval.Errorf("queue %d is none of vport %d", r.Queue, r.Vport)
	case dup:
		return status.Exists.Errorf("a rule for the same packets")
	case len(fn.rules.by) >= fn.cfg.Share.Rules:
		return status.NoResources.Errorf("%d rules", len(fn.rules.by))
	}
	if fn.rules.by == nil {
		fn.rules.by = map[tuple]*Rule{}
	}
	fn.rules.profile = profile
	fn.rules.by[k] = &r
	fn.rules.recent.valid = false
	return nil
}

// RemoveRule removes a rule. The last takes the profile with it. NOENT if there
// is none.
func (fn *Function) RemoveRule(t Tuple) error {
	k := t.key()
	if _, ok := fn.rules.by[k]; !ok {
		return status.NoEnt.Errorf("no rule for such packets")
	}
	delete(fn.rules.by, k)
	fn.rules.recent.valid = false
	if len(fn.rules.by) == 0 {
		fn.rules.profile = ProfileNone
	}
	return nil
}

// Profile is what all rules compare.
func (fn *Function) Profile() Profile { return fn.rules.profile }

// queue is the vport's receive queue with an id, nil if it has none.
func (v *vport) queue(id int) *RxQueue {
	for _, q := range v.rxq {
		if q.ID == id {
			return q
		}
	}
	return nil
}

// rule is what the rules say of the packet in hand on a vport: the queue, if they name
// one that runs.
func (fn *Function) rule(v *vport) (q *RxQueue, r frame.DropReason) {
	p := &fn.pkt
	n := p.network()
	var k tuple
	if fn.rules.profile == ProfileTunnels {
		if k.tunnel = fn.tunnelOf(p).Type; k.tunnel == NoTunnel {
			return nil, frame.DropNone
		}
	} else {
		if !n.ports {
			return nil, frame.DropNone
		}
		k.proto, k.v6 = n.Proto, n.Version == 6
		k.fill(fn.rules.profile, n.Addrs(), p.Frame[n.L4:])
	}
	rule := fn.rules.find(k)
	switch {
	case rule == nil || rule.Vport != v.id:
		return nil, frame.DropNone
	case rule.Drop:
		v.stats.GFTFilterDrop++
		return nil, nicdrop.Rule
	}
	return v.queue(rule.Queue), frame.DropNone
}

// fill puts in what the rules of a profile compare: addrs are both addresses,
// ports begins with both ports.
func (k *tuple) fill(profile Profile, addrs, ports []byte) {
	half := len(addrs) / 2
	if profile == Profile5Tuple || profile == ProfileIPSrc {
		copy(k.src[:], addrs[:half])
	}
	if profile == Profile5Tuple || profile == ProfileIPDest {
		copy(k.dst[:], addrs[half:])
	}
	if profile == Profile5Tuple {
		k.sport = uint16(ports[0])<<8 | uint16(ports[1])
	}
	if profile == Profile5Tuple || profile == ProfileL4Port {
		k.dport = uint16(ports[2])<<8 | uint16(ports[3])
	}
}

package ip

import (
	"encoding/binary"
	"fmt"
	"iter"
	"net/netip"
	"slices"

	"tapir/nic/port"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// VLAN is an interface on a VLAN.
type VLAN struct {
	ID    uint16         // 802.1Q, 1 to 4094
	Addrs []netip.Prefix // each with the prefix length of its link
}

// Stack is the internet layer of a wire with those of the VLAN interfaces on it. The layer
// of an interface takes the frames with its tag, tags what it sends, and has addresses,
// neighbors and groups of its own. They are the NIC's alone: an operating system that shares
// the wire's addresses sees no frame of them.
type Stack struct {
	*Layer // of the wire
	vlans  []*Layer
}

// NewStack returns the layers of settings that are valid.
func NewStack(s Settings, env Env) *Stack {
	k := &Stack{Layer: New(s.wire(), env)}
	env.Host = nil
	for _, v := range s.on() {
		k.vlans = append(k.vlans, New(v, env))
	}
	return k
}

// Set changes all settings but the VLANs.
func (k *Stack) Set(s Settings) {
	k.Layer.Set(s.wire())
	for i, v := range s.on() {
		k.vlans[i].Set(v)
	}
}

// wire are the settings of the layer of the wire: gateways on VLANs are none of its.
func (s *Settings) wire() Settings {
	w := *s
	w.Gateways = slices.DeleteFunc(slices.Clone(s.Gateways), func(g netip.Addr) bool {
		return slices.ContainsFunc(s.VLANs, func(v VLAN) bool { return covers(v.Addrs, g) })
	})
	return w
}

// on are the settings of the layers of VLANs: their gateways are those that their prefixes cover.
func (s *Settings) on() (all []Settings) {
	for _, v := range s.VLANs {
		away := func(g netip.Addr) bool { return !covers(v.Addrs, g) }
		all = append(all, Settings{MAC: s.MAC, VLAN: v.ID, MTU: s.MTU, Prefixes: v.Addrs,
			Gateways: slices.DeleteFunc(slices.Clone(s.Gateways), away)})
	}
	return all
}

// Layers are the layers, that of the wire first.
func (k *Stack) Layers() iter.Seq[*Layer] {
	return func(yield func(*Layer) bool) {
		if !yield(k.Layer) {
			return
		}
		for _, v := range k.vlans {
			if !yield(v) {
				return
			}
		}
	}
}

// On is the layer of a VLAN, that of the wire for its own; nil if there is none.
func (k *Stack) On(vlan uint16) *Layer {
	if vlan == k.VLAN {
		return k.Layer
	}
	for _, v := range k.vlans {
		if v.VLAN == vlan {
			return v
		}
	}
	return nil
}

// For is the layer that judges a frame of the wire: that of the frame's VLAN, else of the wire.
func (k *Stack) For(f *frame.Frame) *Layer {
	const at = ether.HeaderLen - 2 // of the tag
	if len(k.vlans) == 0 {
		return k.Layer
	}
	b := f.Bytes()
	if len(b) >= at+ether.TagLen && binary.BigEndian.Uint16(b[at:]) == ether.TypeVLAN {
		if v := k.On(ether.Tag{TCI: binary.BigEndian.Uint16(b[at+2:])}.VID()); v != nil {
			return v
		}
	}
	return k.Layer
}

// Tag is the VLAN tag of the frame in hand, without TPID if it has none. A packet to the
// NIC itself has that of its layer.
func (p *Packet) Tag() (t ether.Tag) {
	if p.Ether.NTags > 0 {
		t = p.Ether.Tags[0]
	}
	return t
}

// Toward is the layer by which packets from local, or if it is not valid or unspecified from
// any address, reach remote: the one with the longest prefix that covers it, that of the wire
// before others; nil if there is no way.
func (k *Stack) Toward(remote, local netip.Addr) (best *Layer) {
	most := -1
	for l := range k.Layers() {
		if local.IsValid() && !local.IsUnspecified() && !l.IsLocal(local) {
			continue
		}
		if _, bits, ok := l.Route(remote); ok && bits > most {
			best, most = l, bits
		}
	}
	return best
}

// Route is Layer.Route of the best layer.
func (k *Stack) Route(remote netip.Addr) (source netip.Addr, bits int, ok bool) {
	if l := k.Toward(remote, netip.Addr{}); l != nil {
		return l.Route(remote)
	}
	return source, 0, false
}

// Resolve is Layer.Resolve of the best layer.
func (k *Stack) Resolve(remote netip.Addr, done func(mac ether.Addr, now frame.Time)) (cancel func(), ok bool) {
	if l := k.Toward(remote, netip.Addr{}); l != nil {
		return l.Resolve(remote, done)
	}
	return nil, false
}

// Addrs are the addresses of all layers, borrowed.
func (k *Stack) Addrs() []netip.Prefix {
	all := slices.Clip(k.addrs)
	for _, v := range k.vlans {
		all = append(all, v.addrs...)
	}
	return all
}

// ByVLAN are the same addresses, each with its VLAN; 0: untagged.
func (k *Stack) ByVLAN() iter.Seq2[netip.Addr, uint16] {
	return func(yield func(netip.Addr, uint16) bool) {
		for l := range k.Layers() {
			for _, p := range l.addrs {
				if !yield(p.Addr(), l.VLAN) {
					return
				}
			}
		}
	}
}

// VLANTexts are the addresses of VLAN interfaces, as in 100=10.1.0.1/24.
func (k *Stack) VLANTexts() (all []string) {
	for _, v := range k.vlans {
		for _, p := range v.addrs {
			all = append(all, fmt.Sprintf("%d=%v", v.VLAN, p))
		}
	}
	return all
}

// IsLocal reports whether a is an address of any layer.
func (k *Stack) IsLocal(a netip.Addr) bool { return holds(k.Addrs(), a) }

// Poll runs the timers.
func (k *Stack) Poll(now frame.Time) {
	k.Layer.Poll(now)
	for _, v := range k.vlans {
		v.Poll(now)
	}
}

// Deadline is when Poll has to be called again.
func (k *Stack) Deadline() frame.Time {
	next := k.Layer.Deadline()
	for _, v := range k.vlans {
		next = min(next, v.Deadline())
	}
	return next
}

// TurnBack is Layer.TurnBack of all layers.
func (k *Stack) TurnBack(now frame.Time) bool {
	busy := k.Layer.TurnBack(now)
	for _, v := range k.vlans {
		busy = v.TurnBack(now) || busy
	}
	return busy
}

// Announce is Layer.Announce of all layers.
func (k *Stack) Announce(now frame.Time) {
	for l := range k.Layers() {
		l.Announce(now)
	}
}

// AnnounceOwn is Announce without addresses that an operating system shares, which does so itself.
func (k *Stack) AnnounceOwn(now frame.Time) {
	for l := range k.Layers() {
		if !l.shared() {
			l.Announce(now)
		}
	}
}

// DiscardFragments gives up on all fragments that are held.
func (k *Stack) DiscardFragments(now frame.Time) {
	for l := range k.Layers() {
		l.DiscardFragments(now)
	}
}

// Neighbors are the stations that the caches know or ask for, in order.
func (k *Stack) Neighbors() iter.Seq[Neighbor] {
	return func(yield func(Neighbor) bool) {
		for l := range k.Layers() {
			for n := range l.Neighbors() {
				if !yield(n) {
					return
				}
			}
		}
	}
}

// Conflicts is the number of messages of stations that use our addresses.
func (k *Stack) Conflicts() (n uint64) {
	for l := range k.Layers() {
		n += l.conflicts
	}
	return n
}

// Counters are those of what no port and no transport does, of all layers together.
func (k *Stack) Counters() []port.Counter {
	sum := k.Layer.Counters()
	for _, v := range k.vlans {
		for i, c := range v.Counters() {
			sum[i].Value += c.Value
		}
	}
	return sum
}

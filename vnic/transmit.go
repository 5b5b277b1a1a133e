package vnic

import (
	"tapir/opa"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// Transmit takes frames of the operating system, without FCS. What does not
// pass is dropped and counted; the rest leaves when the HFI port is polled.
func (n *Netdev) Transmit(frames []*frame.Frame, now frame.Time) {
	for _, f := range frames {
		n.stats.HostRx++
		if n.tracer != nil {
			n.scratch = append(n.scratch[:0], f.Bytes()...)
		}
		left, r := n.transmit(f, now)
		if r != frame.DropNone {
			n.stats.TxDrops.Count(r)
		}
		if left != nil {
			left.Release()
		}
		n.trace(frame.Inbound, n.scratch, r, now)
	}
}

// transmit sends one frame, or returns why it cannot be. What it did not pass
// on it returns too, to be released.
func (n *Netdev) transmit(f *frame.Frame, now frame.Time) (left *frame.Frame, r frame.DropReason) {
	n.stats.Tx.size(max(f.Len(), opa.MinFrame))
	switch {
	case !n.running:
		return f, opa.DropState
	case f.Len() < ether.HeaderLen:
		return f, drop.Truncated
	}
	var in inner
	in.parse(f.Bytes())
	if f.Len() > n.mtu+encapsulated {
		return f, drop.Oversize
	}
	if r := n.fromHost(&in, now); r != frame.DropNone {
		return f, r
	}
	if n.policy.Gateway {
		if r := n.fromNetwork(&in); r != frame.DropNone {
			return f, r
		}
	}
	if n.policy.Snoop && in.flow.Group {
		n.snoop(&in, now)
	}
	if n.policy.Suppress && n.answer(&in, now) {
		n.stats.Answered++
		return f, frame.DropNone
	}
	entropy := opa.Entropy(in.flow.Hash)
	to := n.destination(&in, entropy, now)
	if to.lid == 0 {
		return f, opa.DropNoDLID
	}
	if to.all && !n.txStorm.Take(now) {
		return f, opa.DropStorm
	}
	sc, vl := n.cfg.QoS.Select(&in.flow)
	h := opa.Header{
		SLID: n.slid, DLID: to.lid, SC: sc, RC: n.cfg.RC.Select(in.flow.Proto),
		PKey: n.cfg.PKey, Entropy: uint16(entropy), VESW: n.cfg.VESWID,
	}
	if f, r = n.encapsulate(f, &h); r != frame.DropNone {
		return f, r
	}
	if r = n.lower.Transmit(f, vl); r != frame.DropNone {
		return nil, r
	}
	n.stats.Tx.good(in.flow.Group, in.flow.Tagged)
	if to.flooded {
		n.stats.Flooded++
	}
	return nil, frame.DropNone
}

// trace hands a frame that passes or fails to pass between the vport and its
// host to the tracer.
func (n *Netdev) trace(dir frame.Direction, b []byte, r frame.DropReason, now frame.Time) {
	if n.tracer != nil {
		n.tracer.Trace(&frame.Record{Port: frame.Host, Dir: dir, Data: b, Stamp: frame.Stamp(now), Drop: r})
	}
}

// fromHost checks the source address of a frame of the host and remembers it
// as one of this side.
func (n *Netdev) fromHost(in *inner, now frame.Time) frame.DropReason {
	if in.src.IsMulticast() {
		return drop.Source
	}
	if _, allowed, _ := n.table.Source(in.src); !allowed {
		return opa.DropSpoofed
	}
	if n.policy.Learn && in.src != n.mac {
		n.learn(in, hostSide, now)
	}
	return frame.DropNone
}

// learn remembers where a station was seen.
func (n *Netdev) learn(in *inner, lid opa.LID, now frame.Time) {
	switch n.stations.learn(keyOf(in.src, in.vid), lid, now) {
	case unchanged:
		return
	case learned:
		n.stats.Learned++
		n.port.forgetBy(now.Add(n.policy.Age/4 + 1))
	case moved:
		n.stats.Moved++
	case refused:
		n.stats.NotLearned++
		return
	}
	if n.policy.Report {
		n.relist()
	}
}

// way is where a frame goes.
type way struct {
	lid     opa.LID // 0: nowhere
	all     bool    // to every station
	flooded bool    // because nobody knows the station
}

// destination chooses the DLID in the order of the Linux driver. Two places
// differ: a locally administered address is believed to carry a LID only if
// it names this vESW, and stations seen before are known.
func (n *Netdev) destination(in *inner, entropy uint8, now frame.Time) way {
	if lid, ok := n.table.Lookup(in.dst); ok && lid != 0 {
		return way{lid: lid, all: lid == n.cfg.McastDLID && in.flow.Group}
	}
	if in.flow.Group {
		return way{lid: n.cfg.McastDLID, all: true}
	}
	if lid := n.whereIs(in, now); lid != 0 {
		return way{lid: lid}
	}
	return n.unknown(entropy)
}

// whereIs returns the LID of the unicast destination by its address or as it
// was seen, 0 if it is not known or on the host's side.
func (n *Netdev) whereIs(in *inner, now frame.Time) opa.LID {
	if m, local := opa.ParseLMAC(in.dst); local && m.Names(n.cfg.FabricID, n.cfg.VESWID) {
		return m.LID
	}
	if !n.policy.Learn {
		return 0
	}
	lid, _ := n.stations.find(keyOf(in.dst, in.vid), now)
	return lid
}

// unknown is where a unicast frame to an unknown station goes.
func (n *Netdev) unknown(entropy uint8) way {
	flood := way{lid: n.cfg.McastDLID, all: true, flooded: true}
	port := n.ports[opa.FlowID(entropy)]
	switch n.policy.Unknown {
	case ToAll:
		return flood
	case Discard:
		return way{}
	case ToProxy:
		if port == noPort {
			return flood
		}
	}
	switch {
	case port == noPort:
		return way{}
	case n.cfg.UcastDLID[port] == n.slid: // nobody else knows it either
		return flood
	}
	return way{lid: n.cfg.UcastDLID[port]}
}

// flows is the number of places in the table of default ports, noPort one
// without.
const (
	flows  = 32
	noPort = 0xff
)

// spread fills the table with the ports of mask in turn.
func spread(mask uint16) (t [flows]uint8) {
	port := 0
	for i := range t {
		if mask == 0 {
			t[i] = noPort
			continue
		}
		for mask>>port&1 == 0 {
			port = (port + 1) % DefaultPorts
		}
		t[i] = uint8(port)
		port = (port + 1) % DefaultPorts
	}
	return t
}

// encapsulate makes f a 16B packet. A frame without the room for that is
// copied into one that has it. On failure f is still the caller's.
func (n *Netdev) encapsulate(f *frame.Frame, h *opa.Header) (*frame.Frame, frame.DropReason) {
	icrc := n.port.lower.ICRC()
	if f.Headroom() >= opa.HeaderLen+opa.MaxOverhead {
		if r := opa.Encapsulate(f, h, icrc); r != drop.NoBuffer {
			return f, r
		}
	}
	roomy := n.port.pool.Get(opa.Size(max(f.Len(), opa.MinFrame)))
	if roomy == nil {
		return f, drop.NoBuffer
	}
	roomy.Append(f.Bytes())
	if r := opa.Encapsulate(roomy, h, icrc); r != frame.DropNone {
		roomy.Release()
		return f, r
	}
	f.Release()
	return roomy, frame.DropNone
}

package vnic

import (
	"tapir/opa"
	"tapir/wire/frame"
)

// Several gateways between a vESW and one network are its default ports. Each
// passes on its share, so that no frame comes twice and none goes round: the
// flow decides, which is the same in both directions.

// isDefaultPort reports whether lid is a default port.
func (n *Netdev) isDefaultPort(lid opa.LID) bool {
	for i, l := range n.cfg.UcastDLID {
		if l == lid && n.cfg.DefPortMask>>i&1 != 0 {
			return true
		}
	}
	return false
}

// Shared reports whether the vESW has several default ports and this is one.
func (n *Netdev) Shared() bool {
	return n.cfg.DefPortMask&(n.cfg.DefPortMask-1) != 0 && n.isDefaultPort(n.slid)
}

// share reports whether a flow is this gateway's.
func (n *Netdev) share(entropy uint8) bool {
	port := n.ports[opa.FlowID(entropy)]
	return port == noPort || n.cfg.UcastDLID[port] == n.slid || !n.isDefaultPort(n.slid)
}

// fromNetwork is what a gateway does with a frame of the network behind it.
func (n *Netdev) fromNetwork(in *inner) frame.DropReason {
	if !n.share(opa.Entropy(in.flow.Hash)) {
		return opa.DropShare
	}
	return frame.DropNone
}

// toNetwork is what a gateway does with a packet for the network behind it:
// what another gateway brought in is there already, and what comes to all of
// them one passes on.
func (n *Netdev) toNetwork(in *inner, p opa.Packet) frame.DropReason {
	if n.isDefaultPort(p.SLID()) || !p.DLID().IsUnicast() && !n.share(opa.Entropy(in.flow.Hash)) {
		return opa.DropShare
	}
	return frame.DropNone
}

// places reports whether there is something to learn from where a source
// address comes from: not from one that carries its LID, nor from behind
// default ports that are gateways, as the flow chooses among them.
func (n *Netdev) places(in *inner, slid opa.LID) bool {
	if m, local := opa.ParseLMAC(in.src); local && m.Names(n.cfg.FabricID, n.cfg.VESWID) {
		return false
	}
	return n.policy.Unknown != ToDefaultPort || !n.isDefaultPort(slid)
}

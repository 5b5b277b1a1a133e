package hfinode

import (
	"slices"

	"tapir/vnic"
	"tapir/wire/frame"
)

// engine is what a node's loop drives: an HFI and the host TAPs of its vports.
// All of it belongs to the loop's thread.
type engine struct {
	*HFI
	node     *Node
	hosts    [maxHosts]*host // by frame.Port; 0 is the fabric
	drops    frame.Drops     // between host TAPs and vports
	programs programs        // under tapir run
}

// maxHosts is the number of values that a frame.Port has.
const maxHosts = 256

// Receive takes the frames of the fabric or of a host.
func (e *engine) Receive(port frame.Port, frames []*frame.Frame, now frame.Time) {
	if port == frame.Wire {
		e.ReceiveFabric(frames, now)
		return
	}
	e.now = now
	e.hosts[port].receive(frames, now)
}

// Dispatch has nothing to do.
func (e *engine) Dispatch(frame.Time) bool { return false }

// add gives h queues of the loop.
func (e *engine) add(h *host) error {
	free := slices.Index(e.hosts[1:], nil) // 0 is the fabric
	if free < 0 {
		return vnic.ErrFull
	}
	h.id = frame.Port(free + 1)
	h.ports = h.tap.AddTo(e.node.Loop, h.id, longestFrame(h.dev.MaxMTU()))
	e.hosts[h.id] = h
	return nil
}

// drop forgets h, whose queues are closed.
func (e *engine) drop(h *host) {
	e.hosts[h.id] = nil
	h.dev.SetHost(nil)
	h.dev.Close()
}

// hostOf is a vport's host side, nil if it has none.
func (e *engine) hostOf(d *vnic.Netdev) *host {
	for _, h := range e.hosts {
		if h != nil && h.dev == d {
			return h
		}
	}
	return nil
}

// tapOf is the name of a vport's host TAP, empty if it has none.
func (e *engine) tapOf(d *vnic.Netdev) string {
	if h := e.hostOf(d); h != nil {
		return h.name
	}
	return ""
}

// VPortEvent asks for another round.
func (e *engine) VPortEvent(*vnic.Netdev, vnic.Event) { e.node.Poke() }

// longestFrame is the room in octets that a host's frame needs: two tags, and
// what a packet has behind it.
func longestFrame(mtu int) int {
	const header, tags, tail = 14, 8, 12
	return mtu + header + tags + tail
}

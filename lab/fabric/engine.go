package fabric

import (
	"tapir/opa"
	"tapir/opa/hfi"
	"tapir/opa/mad"
	"tapir/opa/sma"
	"tapir/vnic"
	"tapir/wire/frame"
)

// engine is what a node's loop drives: the HFI port, its vports, the agents of
// queue pairs 0 and 1. All of it belongs to the loop's thread.
type engine struct {
	node   *Node
	port   *hfi.Port
	vports *vnic.Port
	agents []mad.Agent
	hosts  [maxHosts]*host // by frame.Port; 0 is the fabric
	looped [][]byte        // MADs to whoever hears them, ourselves included
	sma    *sma.Agent
	smLID  opa.LID // the fabric manager in charge, and the way to it
	smSL   uint8
	now    frame.Time
	drops  frame.Drops // between host TAPs and vports
}

// maxHosts is the number of values that a frame.Port has.
const maxHosts = 256

// Receive takes the frames of the fabric or of a host.
func (e *engine) Receive(port frame.Port, frames []*frame.Frame, now frame.Time) {
	e.now = now
	if port == frame.Wire {
		e.port.Receive(frames, now)
		return
	}
	e.hosts[port].receive(frames, now)
}

// Dispatch has nothing to do.
func (e *engine) Dispatch(frame.Time) bool { return false }

// Poll lets the agents send, then the port, then hands the hosts what came.
func (e *engine) Poll(now frame.Time) frame.Time {
	e.now = now
	next := frame.Never
	for i := 0; i < len(e.looped); i++ {
		e.offer(e.looped[i], mad.Address{LID: e.source(), QP: opa.QPSubnet}, now)
	}
	e.looped = e.looped[:0]
	for _, a := range e.agents {
		next = min(next, a.Poll(now, e.send))
	}
	next = min(next, e.port.Poll(now), e.vports.Poll(now))
	if len(e.looped) > 0 {
		return now
	}
	return next
}

// TxDone is of no interest: nothing depends on when a frame left.
func (e *engine) TxDone(uint64, frame.Stamp) {}

// ReceiveMAD offers a MAD to all agents.
func (e *engine) ReceiveMAD(m *hfi.MAD, now frame.Time) bool {
	e.offer(m.Data, mad.Address{LID: m.SLID, QP: m.SrcQP, SL: m.SL}, now)
	return true
}

func (e *engine) offer(b []byte, from mad.Address, now frame.Time) {
	for _, a := range e.agents {
		a.Receive(b, from, now, e.send)
	}
}

func (e *engine) source() opa.LID {
	if lid := e.port.LID(); lid != 0 {
		return lid
	}
	return opa.Permissive
}

// send is the mad.Send of the agents.
func (e *engine) send(to mad.Address, b []byte) bool {
	m := hfi.MAD{DLID: to.LID, SrcQP: to.QP, DestQP: to.QP, SL: to.SL, Data: b, PKey: e.managementPKey()}
	return e.port.SendMAD(&m) == frame.DropNone
}

// managementPKey is full membership in the management partition if the port
// has it, else limited.
func (e *engine) managementPKey() uint16 {
	full := opa.PKeyManagement | opa.PKeyFull
	for _, k := range e.port.PKeys() {
		if k == full {
			return full
		}
	}
	return opa.PKeyManagement
}

// add gives h a queue of the loop.
func (e *engine) add(h *host) error {
	for id := 1; id < maxHosts; id++ {
		if e.hosts[id] == nil {
			h.id = frame.Port(id)
			h.port = e.node.loop.AddQueue(h.id, h.tap, longestFrame(h.dev.MaxMTU()))
			e.hosts[id] = h
			return nil
		}
	}
	return vnic.ErrFull
}

// drop forgets h, whose queue is closed.
func (e *engine) drop(h *host) {
	e.hosts[h.id] = nil
	h.dev.SetHost(nil)
	h.dev.Close()
}

// tapOf is the name of a vport's host TAP, empty if it has none.
func (e *engine) tapOf(d *vnic.Netdev) string {
	for _, h := range e.hosts {
		if h != nil && h.dev == d {
			return h.tap.Name()
		}
	}
	return ""
}

// VPortEvent wakes the bottom half.
func (e *engine) VPortEvent(*vnic.Netdev, vnic.Event) { e.node.host.poke() }

// longestFrame is the room in octets that a host's frame needs: two tags, and
// what a packet has behind it.
func longestFrame(mtu int) int {
	const header, tags, tail = 14, 8, 12
	return mtu + header + tags + tail
}

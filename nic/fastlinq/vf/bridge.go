// Package vf is what the virtual functions (VFs) of a PF are made of in the device: a
// vport with queues and status blocks for each, the virtual Ethernet bridge (VEB) that
// joins them with the PF and the port, and the netdev of each VF, whose driver reaches
// the device by the channel of package iov alone.
//
//	VF's host TAP -> transmit queue -> vport -> VEB -> vports of other VFs
//	                                            |  \-> the PF
//	                                            v
//	                                   the port of the PF
//
// The VEB knows the stations of VFs and PF exactly, by address and VLAN: a frame for one
// of them stays inside; groups are copied; all else leaves by the port. It learns
// nothing. With VEPA everything leaves by the port, and a switch there sends it back.
//
// files: bridge.go is the VEB, device.go what the channel does to the device, netdev.go
// a VF's interface.
package vf

import (
	"math/bits"
	"strconv"
	"time"

	"tapir/nic/fastlinq/iov"
	"tapir/nic/fastlinq/l2"
	"tapir/nic/nicdrop"
	"tapir/nic/port"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// PF is what the bridge uses of the PF.
type PF struct {
	port.Engine // its NIC
	Wire        *port.Port
	// Wants tells whether a frame (borrowed) that a VF sends is for the PF's station.
	Wants func(f *frame.Frame) bool
	// Link is the link of the port.
	Link func() iov.Link
}

// HostPort is the port by which frames of a VF's host TAP come in: HostPort and its
// number.
const HostPort = 0x100

// uplinkQueue marks frames of VFs, in Frame.Queue, on their way through the PF's port: or'ed
// with the number of the VF.
const uplinkQueue = 0x4000

// neighborFrames bounds the frames of VFs that wait for the PF.
const neighborFrames = 256

// Bridge is the VEB of a PF, and drives the PF's NIC and its VFs as if they were one NIC.
// It is the link that the NIC's wire port sends to.
type Bridge struct {
	pool frame.Pool
	link frame.Link // of the port
	pf   PF
	cfg  Config
	fn   *l2.Function // the vports of all VFs; nil: the PF has no SR-IOV
	iov  *iov.PF
	vfs  []*VF
	// called is when the call in progress began, for calls of the device.
	called frame.Time

	in   []*frame.Frame // for the PF, until the next Poll
	done []uint64       // numbers of frames of the PF that went to VFs
	work []*VF          // with something to do
	// up is the link, as VFs were told; stale: it has changed since.
	up, stale bool
	note      [1]frame.Note // about the frame in hand
	text      []byte
	takers    []int // the vports in the note
	mail      bool  // a VF's message waits
	// storms limit what is copied to VFs.
	storms [2]frame.Bucket
	flrAt  frame.Time // when the firmware has cleaned up after VFs that are reset; 0: none is
	device
}

// New returns a bridge on the link of a port, without a PF.
func New(pool frame.Pool, link frame.Link) *Bridge { return &Bridge{pool: pool, link: link} }

// Enter gives the bridge its PF.
func (b *Bridge) Enter(pf PF) { b.pf = pf }

// Room implements frame.Link.
func (b *Bridge) Room() int { return b.link.Room() }

// Transmit implements frame.Link: a frame of the PF, or of a VF that does not stay inside,
// comes from the port.
func (b *Bridge) Transmit(f *frame.Frame) {
	if f.Queue&uplinkQueue != 0 {
		f.Queue = 0
		b.link.Transmit(f)
		return
	}
	if b.switches() && b.fn.Accepts(l2.Tx, f) && !ether.IsMACControl(f.Bytes()) {
		if !group(f) {
			if f.ID != 0 {
				b.done = append(b.done, f.ID)
			}
			f.ID, f.Queue, f.Seen = 0, 0, 0
			b.deliver(f, b.fn.ReceiveLocal)
			return
		}
		b.spread(fromPF, f, b.fn.ReceiveLocal)
	}
	b.link.Transmit(f)
}

// switches tells whether frames may stay inside.
func (b *Bridge) switches() bool { return len(b.vfs) > 0 && !b.cfg.VEPA }

// group tells whether a frame is for several stations.
func group(f *frame.Frame) bool { return f.Len() > 0 && f.Bytes()[0]&1 != 0 }

// Who sends frames that VFs get copies of.
const (
	fromPF = iota
	fromWire
)

// spread gives VFs copies of a frame (borrowed).
func (b *Bridge) spread(from int, f *frame.Frame, receive func(*frame.Frame) frame.DropReason) {
	dir := frame.Outbound
	if from == fromWire {
		dir = frame.Inbound
	}
	if group(f) && !b.storms[from].Take(b.called) {
		b.uncopied(dir, f, nicdrop.Storm)
	} else if g := b.copy(f); g == nil {
		b.uncopied(dir, f, drop.NoBuffer)
	} else {
		b.deliver(g, receive)
	}
}

// uncopied counts the copies that VFs, or the PF, do not get of a frame (borrowed).
func (b *Bridge) uncopied(dir frame.Direction, f *frame.Frame, r frame.DropReason) {
	b.pf.Wire.Drops.Count(r)
	b.pf.Wire.Trace(dir, f, b.say("not copied"), r, b.called)
}

// deliver gives a frame (taken) to VFs.
func (b *Bridge) deliver(f *frame.Frame, receive func(*frame.Frame) frame.DropReason) {
	if r := receive(f); r != frame.DropNone {
		b.refuse(frame.Outbound, f, r)
	}
}

// refuse drops a frame (taken).
func (b *Bridge) refuse(dir frame.Direction, f *frame.Frame, r frame.DropReason) {
	b.pf.Wire.Drops.Count(r)
	b.pf.Wire.Trace(dir, f, nil, r, b.called)
	f.Release()
}

// copy is another frame with the same content, nil without a buffer.
func (b *Bridge) copy(f *frame.Frame) *frame.Frame {
	g := b.pool.Get(f.Len())
	if g != nil {
		g.Append(f.Bytes())
		g.Offload, g.Stamp = f.Offload, f.Stamp
	}
	return g
}

// Receive takes frames of the port, of the PF's host TAP, or of that of a VF.
func (b *Bridge) Receive(p frame.Port, frames []*frame.Frame, now frame.Time) {
	b.called = now
	switch {
	case p >= HostPort:
		b.fromHost(int(p-HostPort), frames)
		return
	case p != frame.Wire || len(b.vfs) == 0 || b.pf.Wire.Closed || b.pf.Wire.Deaf():
		b.pf.Receive(p, frames, now)
		return
	}
	rest := frames[:0]
	for _, f := range frames {
		if f = b.fromWire(f); f != nil {
			rest = append(rest, f)
		}
	}
	if len(rest) > 0 {
		b.pf.Receive(frame.Wire, rest, now)
	}
}

// fromWire gives VFs what is for them, and returns the frame if the PF is to have it.
func (b *Bridge) fromWire(f *frame.Frame) *frame.Frame {
	if !b.fn.Accepts(l2.Rx, f) || ether.IsMACControl(f.Bytes()) {
		return f
	}
	if b.cfg.VEPA && group(f) && b.owns(f) {
		f.Release() // the switch sends it back to its sender, too
		return nil
	}
	if group(f) || b.pf.Wants(f) {
		b.spread(fromWire, f, b.fn.Receive)
		return f
	}
	b.pf.Wire.Arrived(f, b.called)
	b.pf.Wire.Trace(frame.Inbound, f, b.sayTo(b.say("")), frame.DropNone, b.called)
	b.deliver(f, b.fn.Receive)
	return nil
}

// owns tells whether a VF is the sender of a frame.
func (b *Bridge) owns(f *frame.Frame) bool {
	return f.Len() >= ether.HeaderLen && b.Owns(ether.Addr(f.Bytes()[6:12]))
}

// Owns tells whether a station is a VF's.
func (b *Bridge) Owns(a ether.Addr) bool { return b.fn != nil && b.fn.HasStation(a) }

// say is a note for the capture.
func (b *Bridge) say(text string) []frame.Note {
	if b.pf.Wire.Tracer() == nil {
		return nil
	}
	b.text = append(b.text[:0], text...)
	b.note[0] = frame.Note{Text: b.text, Times: 1}
	return b.note[:]
}

// sayVF is a note about a VF, by its vport.
func (b *Bridge) sayVF(vport int, text string) []frame.Note {
	if b.pf.Wire.Tracer() == nil {
		return nil
	}
	b.text = append(strconv.AppendInt(append(b.text[:0], "VF "...), int64(vport-1), 10), text...)
	b.note[0] = frame.Note{Text: b.text, Times: 1}
	return b.note[:]
}

// uplink is where frames go that VFs send and that are not, or not only, for other VFs.
type uplink struct{ b *Bridge }

// Room implements frame.Link.
func (u uplink) Room() int { return u.b.pf.Wire.Room() }

// Transmit implements frame.Link.
func (u uplink) Transmit(f *frame.Frame) {
	b, vport := u.b, int(f.Queue)
	if b.switches() {
		switch {
		case group(f):
			if g := b.copy(f); g != nil {
				b.toPF(g)
			} else {
				b.uncopied(frame.Outbound, f, drop.NoBuffer)
			}
		case b.pf.Wants(f):
			b.toPF(f)
			return
		}
	}
	f.Queue = uplinkQueue | uint16(vport)
	b.pf.Wire.Send(port.Out{Frame: f, Notes: b.sayVF(vport, ""), Offloaded: true}, b.called)
}

// namedVFs is how many VFs a note names.
const namedVFs = 8

// sayTo appends to a note the VFs that get the frame that was classified last; nil stays.
func (b *Bridge) sayTo(note []frame.Note) []frame.Note {
	if note == nil {
		return nil
	}
	b.text = append(b.text, "to VF "...)
	b.takers = b.fn.Takers(b.takers[:0])
	for i, vport := range b.takers {
		if i == namedVFs {
			b.text = append(b.text, " and others"...)
			break
		}
		if i > 0 {
			b.text = append(b.text, ", "...)
		}
		b.text = strconv.AppendInt(b.text, int64(vport-1), 10)
	}
	note[0].Text = b.text
	return note
}

// toPF keeps a frame (taken) until the PF is called.
func (b *Bridge) toPF(f *frame.Frame) {
	if f.ID, f.Queue, f.Seen = 0, 0, 0; len(b.in) >= neighborFrames {
		b.refuse(frame.Inbound, f, nicdrop.Switch)
		return
	}
	b.in = append(b.in, f)
}

// Dispatch runs the handlers of the PF's applications.
func (b *Bridge) Dispatch(now frame.Time) bool { b.called = now; return b.pf.Dispatch(now) }

// NextTimer is when the next timer of the PF is due.
func (b *Bridge) NextTimer() frame.Time { return b.pf.NextTimer() }

// TxDone reports when a frame left.
func (b *Bridge) TxDone(id uint64, at, now frame.Time) bool { return b.pf.TxDone(id, at, now) }

// Poll has PF and VFs do all that is due, and returns the next deadline.
func (b *Bridge) Poll(now frame.Time) frame.Time {
	b.called = now
	next := b.pf.Poll(now)
	if len(b.vfs) == 0 {
		return next
	}
	if b.flrAt != 0 && b.flrAt <= now {
		b.flrAt = 0
		b.iov.FLRCleanup()
	}
	b.followLink()
	b.channel()
	w := b.pf.Wire
	w.Polling = true
	b.fn.Transmit(uplink{b})
	w.Polling = false
	b.fn.Flush()
	next = min(next, b.serve(), w.Sched.Next())
	if b.flrAt != 0 {
		next = min(next, b.flrAt)
	}
	for _, id := range b.done {
		if b.pf.TxDone(id, now, now) {
			next = now
		}
	}
	b.done = b.done[:0]
	if len(b.in) > 0 {
		b.pf.Receive(frame.Wire, b.in, now)
		clear(b.in)
		b.in = b.in[:0]
		next = now
	}
	return next
}

// LinkChanged tells that speed, parameters or the other end of the port's link have changed.
func (b *Bridge) LinkChanged() {
	if b != nil {
		b.stale = true
	}
}

// followLink tells VFs of a change of the port's link.
func (b *Bridge) followLink() {
	if up := !b.pf.Wire.Closed; up != b.up || b.stale {
		b.up, b.stale = up, false
		b.iov.Post()
	}
}

// flrTime is what the firmware takes to clean up after a VF.
const flrTime = 100 * time.Millisecond

// FLR resets a VF, whatever its driver does: all that it has in the device is gone. Its
// netdev comes back by itself. EINVAL: no such VF.
func (b *Bridge) FLR(vf int, now frame.Time) error {
	if err := b.iov.FLR(vf); err != nil {
		return err
	}
	b.vfs[vf].reset()
	b.flrAt = now.Add(flrTime)
	return nil
}

// Down resets all VFs, as the PF's driver ends; Up lets them come back when it runs again.
func (b *Bridge) Down() {
	if b == nil {
		return
	}
	b.iov.Down()
	for _, v := range b.all() {
		v.reset()
	}
}

// Up ends Down. All VFs have their resets behind them soon.
func (b *Bridge) Up(now frame.Time) {
	if b == nil {
		return
	}
	b.iov.Up()
	b.flrAt = now.Add(flrTime)
}

// Message tells that a message of a VF waits in the hardware's channel (OSAL_PF_VF_MSG): the
// next Poll answers it.
func (b *Bridge) Message() { b.mail = true }

// channel has the PF answer the messages of VFs (iov_pf_get_pending_events).
func (b *Bridge) channel() {
	if !b.mail {
		return
	}
	b.mail = false
	for i, events := range b.iov.PendingEvents() {
		for ; events != 0; events &= events - 1 {
			b.iov.Process(64*i + bits.TrailingZeros64(events))
		}
	}
}

// TunnelsChanged has VFs know the tunnels that the PF knows, and tells them of their ports.
func (b *Bridge) TunnelsChanged() error {
	if b == nil || b.cfg.Tunnels() == b.fn.Tunnels() {
		return nil
	}
	err := b.fn.SetTunnels(b.cfg.Tunnels())
	b.iov.Post()
	return err
}

package vf

import (
	"tapir/nic/fastlinq/irq"
	"tapir/nic/fastlinq/l2"
	"tapir/nic/nicdrop"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// Netdev is the interface of a VF in an operating system.
type Netdev struct {
	Name   string     // for display
	Host   frame.Link // its host TAP
	Vnet   bool       // which takes super-frames
	Queues int        // pairs that its driver asks for
	MTU    int        // octets of IP
	MAC    ether.Addr // zero: derived
	// Carrier is told of the VF's link, Address of another station address; nil: nobody
	// asks.
	Carrier func(up bool)
	Address func(ether.Addr)
}

// VF is a virtual function with its interrupts and, once it is open, its netdev.
type VF struct {
	b      *Bridge
	id     int
	irq    *irq.Device
	blocks []*irq.SB
	events [][2]int // completions that were not reported, by block: received, sent
	busy   bool     // it is in Bridge.work

	netdev Netdev
	driver *driver // nil: closed
	napi   []bool  // receive queues that have interrupted, until they are empty
	turn   int
	cutter l2.Cutter
	storm  frame.Bucket // of frames to groups that it sends

	Stats Stats
}

// Stats count what a VF's netdev has seen.
type Stats struct{ RxFrames, RxBytes, TxFrames, TxBytes, TxStopped, TxStorm uint64 }

// Waiting is the number of frames in the VF's queues.
func (v *VF) Waiting() (n int) {
	if v.driver == nil {
		return 0
	}
	for i, q := range v.driver.rx {
		n += q.Len() + v.driver.tx[i].Len()
	}
	return n + v.cutter.Segments.Len()
}

// vport is that of the VF.
func (v *VF) vport() int { return v.id + 1 }

// touch has the next Poll serve the VF.
func (v *VF) touch() {
	if !v.busy {
		v.busy = true
		v.b.work = append(v.b.work, v)
	}
}

// fired notes a completion of a queue.
func (v *VF) fired(block int, pi uint8) {
	if pi == irq.RxPI {
		v.events[block][0]++
	} else {
		v.events[block][1]++
	}
	v.touch()
}

// schedule is the interrupt of a queue pair.
func (v *VF) schedule(queue int) {
	if queue < len(v.napi) {
		v.napi[queue] = true
	}
	v.touch()
}

// fromHost takes frames of a VF's host TAP.
func (b *Bridge) fromHost(id int, frames []*frame.Frame) {
	if id >= len(b.vfs) || b.vfs[id] == nil {
		for _, f := range frames {
			f.Release() // of a VF that has gone
		}
		return
	}
	v := b.vfs[id]
	for _, f := range frames {
		v.send(f)
	}
	v.touch()
}

// send takes a frame into a transmit queue.
func (v *VF) send(f *frame.Frame) {
	v.Stats.TxFrames++
	v.Stats.TxBytes += uint64(f.Len())
	if !v.open() {
		v.refuse(frame.Outbound, f, nicdrop.Vport)
		return
	}
	if group(f) && !v.storm.Take(v.b.called) {
		v.Stats.TxStorm++
		v.refuse(frame.Outbound, f, nicdrop.Storm)
		return
	}
	q := v.driver.tx[int(f.Queue)%len(v.driver.tx)]
	f.Queue = uint16(v.vport())
	if !q.Post(f, l2.TxBD{}) {
		v.Stats.TxStopped++
		v.refuse(frame.Outbound, f, drop.TxQueue)
		return
	}
	q.Doorbell()
}

// refuse drops a frame (taken) of the VF.
func (v *VF) refuse(dir frame.Direction, f *frame.Frame, r frame.DropReason) {
	b := v.b
	b.pf.Wire.Drops.Count(r)
	b.pf.Wire.Trace(dir, f, b.sayVF(v.vport(), ""), r, b.called)
	f.Release()
}

// open tells whether the VF has queues.
func (v *VF) open() bool { return v.driver != nil && len(v.driver.tx) > 0 }

// serve has VFs interrupt and hand on what they have received, and returns when it wants
// to be called again.
func (b *Bridge) serve() frame.Time {
	next := frame.Never
	n := len(b.work)
	for i := range n {
		v := b.work[i]
		v.busy = false
		if at := v.serve(b.called); at != frame.Never {
			next = min(next, at)
			v.touch()
		}
	}
	b.work = b.work[:copy(b.work, b.work[n:])]
	return next
}

// serve returns when it wants to be called again.
func (v *VF) serve(now frame.Time) frame.Time {
	if v.driver != nil {
		v.driver.poll()
	}
	for n := range v.events {
		e := v.events[n]
		v.events[n] = [2]int{}
		if e[0] > 0 {
			v.blocks[n].Events(irq.RxPI, e[0], now)
		}
		if e[1] > 0 {
			v.blocks[n].Events(irq.TxPI0, e[1], now)
		}
	}
	next := v.irq.Poll(now)
	if v.open() && v.deliverAll() {
		return now.Add(hostRetry)
	}
	if d := v.driver; d != nil && d.posted && !d.gone {
		return now // there is a bulletin to read
	}
	return next
}

// hostRetry is when to look again whether the host TAP has room; its loop calls earlier if
// it can.
const hostRetry = 100_000

// deliverAll passes received frames to the host TAP while that has room, and reports
// whether some had to stay.
func (v *VF) deliverAll() (waiting bool) {
	host := v.netdev.Host
	if v.cutter.Drain(host) {
		return true
	}
	v.turn++
	for k := range v.driver.rx {
		i := (v.turn + k) % len(v.driver.rx)
		if !v.napi[i] {
			continue
		}
		for q := v.driver.rx[i]; q.Len() > 0; {
			if host.Room() <= 0 {
				return true
			}
			f, cqe := q.Next()
			_ = q.Post(q.Free()) // all that is free
			f.Queue = uint16(i)
			if v.hand(f, cqe) {
				return true
			}
		}
		v.napi[i] = false
	}
	return false
}

// hand passes a frame to the host TAP, cut if that takes no super-frames.
func (v *VF) hand(f *frame.Frame, _ l2.CQE) (waiting bool) {
	v.Stats.RxFrames++
	v.Stats.RxBytes += uint64(f.Len())
	switch {
	case v.netdev.Vnet || f.GSO == frame.GSONone && !f.NeedsCsum:
	case f.GSO == frame.GSONone:
		l2.Complete(f)
	default:
		if r := v.cutter.Cut(v.b.pool, f); r != frame.DropNone {
			v.refuse(frame.Inbound, f, r)
			return false
		}
		f.Release()
		return v.cutter.Drain(v.netdev.Host)
	}
	v.netdev.Host.Transmit(f)
	return false
}

// reset is the end of what the VF's driver had: its queues are gone.
func (v *VF) reset() {
	v.cutter.Segments.Discard()
	if v.driver != nil {
		v.driver.lost()
	}
}

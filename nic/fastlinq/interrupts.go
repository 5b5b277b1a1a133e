package fastlinq

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"tapir/nic/fastlinq/cmt"
	"tapir/nic/fastlinq/irq"
	"tapir/nic/fastlinq/settings"
	"tapir/nic/fastlinq/status"
	"tapir/nic/verbs"
	"tapir/nic/view"
	"tapir/wire/frame"
)

// rxRing bounds the frames that wait for an interrupt, qede's default.
const rxRing = 1023

// interrupts join the data path with its status blocks. Each queue pair of the
// host function has a block, and each completion notification queue (CNQ); they
// share blocks when there are too few. Without a host function there is one
// Ethernet queue, the NIC's own. TCP segments of the offload engine are no
// frames of a queue.
type interrupts struct {
	dev    *irq.Device
	blocks []block // by id
	queues []int   // the block of each queue pair
	cnqs   []int   // of each CNQ
	dirty  []int   // blocks with something to report
	// slowpath: the driver has the slowpath's vector of a hwfn.
	slowpath [cmt.Engines]bool

	holds    bool           // frames of the NIC's own queue wait for their interrupt
	rx       []*frame.Frame // that do
	received int            // frames of that queue that are not yet reported
}

// block is a status block with its users.
type block struct {
	*irq.SB
	queues, cnqs []int
	rx, tx       int // frames that are not yet reported
	dirty        bool
}

// composeInterrupts makes the interrupts and lets the CNQs use them.
func (d *Device) composeInterrupts() error {
	i, cnqs := &d.interrupts, fastQueues(d)
	want, err := d.cfg.Blocks(d.adapter.blocks(d, d.ownQueues()+cnqs))
	if err != nil {
		return err
	}
	if err := i.init(want, 0, d.ownQueues(), cnqs); err != nil {
		return err
	}
	for id := range i.blocks {
		i.blocks[id].Handle(func(*irq.SB, frame.Time) { d.serveBlock(&i.blocks[id]) })
	}
	if p, name := d.cfg.Storage(); p != nil && p.Queues > storageVectors(d) {
		return status.Inval.Errorf("%s %d: there are vectors for %d", name, p.Queues, storageVectors(d))
	}
	return d.setCoalescing()
}

// storageVectors is how many completion queues of storage can have a vector: one if all share one.
func storageVectors(d *Device) int { return max(1, d.interrupts.dev.RDMAVectors(d.ownQueues())) }

// fastQueues is how many queues beside those of Ethernet have status blocks: completion
// notification queues, or the completion queues of storage.
func fastQueues(d *Device) int {
	if p, _ := d.cfg.Storage(); p != nil {
		return p.Queues
	}
	return d.verbs.Limits().MaxCNQ
}

// init makes the interrupts, with the status blocks of a hwfn for its queues and
// CNQs.
func (i *interrupts) init(want irq.Config, hwfn, queues, cnqs int) error {
	dev, err := irq.New(want)
	if err != nil {
		return err
	}
	i.dev = dev
	h := dev.Hwfns[hwfn]
	for id := range h.Num().Cnt {
		sb, err := h.SBInit(id)
		if err != nil {
			return err
		}
		h.Setup(sb)
		i.blocks = append(i.blocks, block{SB: sb})
	}
	i.share(queues, cnqs)
	h.IntEnable(0)
	return nil
}

// onIRQ runs fn where it may use the interrupts of an engine: those of the second's
// queues are on its own thread.
func (d *Device) onIRQ(engine int, fn func(h *irq.Hwfn)) {
	if engine == 0 || d.cmt.second == nil {
		fn(d.interrupts.dev.Hwfns[engine])
		return
	}
	d.cmt.withSecond(func(e *SecondEngine) { fn(e.irq.dev.Hwfns[engine]) })
}

// ownQueues is the number of queue pairs that have status blocks.
func (d *Device) ownQueues() int {
	if !d.host {
		return 1
	}
	return d.cfg.Queues
}

// release gives the status blocks back to the hwfn.
func (i *interrupts) release(hwfn int) (err error) {
	for b := range i.blocks {
		err = errors.Join(err, i.dev.Hwfns[hwfn].SBRelease(i.blocks[b].SB))
	}
	return err
}

// share gives the queues the first blocks and the CNQs the rest. If nothing is
// left for these, or not enough, they share.
func (i *interrupts) share(queues, cnqs int) {
	first := queues
	if first >= len(i.blocks) {
		first = 0
	}
	for q := range queues {
		b := q % len(i.blocks)
		i.queues = append(i.queues, b)
		i.blocks[b].queues = append(i.blocks[b].queues, q)
	}
	for n := range cnqs {
		b := first + n%(len(i.blocks)-first)
		i.cnqs = append(i.cnqs, b)
		i.blocks[b].cnqs = append(i.blocks[b].cnqs, n)
	}
}

// queueBlocks are the status blocks of the queue pairs, for the driver of the
// host function.
func (i *interrupts) queueBlocks() (ids []uint16) {
	for _, b := range i.queues {
		ids = append(ids, uint16(b))
	}
	return ids
}

// serveBlock is the interrupt handler of a status block.
func (d *Device) serveBlock(b *block) {
	for _, n := range b.cnqs {
		switch {
		case d.iscsi != nil:
			d.iscsi.serve(n)
		case d.cfg.RDMA == verbs.FCoE:
			d.fcoe.serve(n)
		default:
			d.verbs.ServeCNQ(n)
		}
	}
	for _, q := range b.queues {
		if d.function == nil {
			d.serveRx()
		} else {
			d.function.Schedule(q)
		}
	}
}

// setCoalescing programmes the status blocks as the configuration says.
func (d *Device) setCoalescing() error {
	i, c := &d.interrupts, &d.cfg.Interrupts
	i.holds = !d.host && (c.RxUsecs > 0 || i.dev.Mode() == irq.Poll)
	if err := d.checkCoalescing(&d.cfg); err != nil {
		return err
	}
	err := i.setTimes(c, d.now())
	d.cmt.withSecond(func(e *SecondEngine) {
		if err == nil {
			err = e.irq.setTimes(c, e.now)
		}
	})
	return err
}

// setTimes programmes the status blocks. Queues that share a block share its
// times: those of the last count.
func (i *interrupts) setTimes(c *settings.Interrupts, now frame.Time) error {
	times := make([]settings.QueueUsecs, len(i.blocks))
	for n := range times {
		if times[n].Rx = c.RxUsecs; len(i.blocks[n].queues) > 0 {
			times[n].Tx = c.TxUsecs
		}
	}
	for _, q := range c.Queues {
		times[i.queues[q.Queue]] = q
	}
	for n, t := range times {
		if err := i.blocks[n].SetTimer(irq.Rx, t.Rx, now); err != nil {
			return err
		}
		if err := i.blocks[n].SetTimer(irq.Tx, t.Tx, now); err != nil {
			return err
		}
	}
	return nil
}

// checkCoalescing refuses times of queues that there are not, and two for one.
func (d *Device) checkCoalescing(c *settings.NIC) error {
	for n, q := range c.Interrupts.Queues {
		if queues := d.ownQueues(); q.Queue >= queues {
			return fmt.Errorf("queue_usecs: queue %d: there are %d", q.Queue, queues)
		}
		if slices.ContainsFunc(c.Interrupts.Queues[:n], func(p settings.QueueUsecs) bool {
			return p.Queue == q.Queue
		}) {
			return fmt.Errorf("queue_usecs: queue %d is there twice", q.Queue)
		}
	}
	return nil
}

// fired notes a completion of a queue of the host function.
func (i *interrupts) fired(sb uint16, pi uint8) {
	b := &i.blocks[sb]
	if pi == irq.RxPI {
		b.rx++
	} else {
		b.tx++
	}
	if !b.dirty {
		b.dirty = true
		i.dirty = append(i.dirty, int(sb))
	}
}

// report interrupts for the completions of a batch, and tells whether there
// were any.
func (i *interrupts) report(now frame.Time) bool {
	if len(i.dirty) == 0 {
		return false
	}
	for _, id := range i.dirty {
		b := &i.blocks[id]
		rx, tx := b.rx, b.tx
		b.rx, b.tx, b.dirty = 0, 0, false
		if rx > 0 {
			b.Events(irq.RxPI, rx, now)
		}
		if tx > 0 {
			b.Events(irq.TxPI0, tx, now)
		}
	}
	i.dirty = i.dirty[:0]
	return true
}

// Holds implements hardware.Function.
func (d *Device) Holds() bool { return d.interrupts.holds }

// Hold implements hardware.Function. A ring that is full does not wait.
func (d *Device) Hold(f *frame.Frame, now frame.Time) bool {
	i := &d.interrupts
	if !i.holds {
		return false
	}
	if len(i.rx) == rxRing {
		d.serveRx()
	}
	if f.Seen == 0 {
		f.Seen = now // when it came, whenever it is looked at
	}
	i.rx = append(i.rx, f)
	i.received++
	return true
}

// serveRx takes the frames that waited.
func (d *Device) serveRx() {
	i := &d.interrupts
	for n, f := range i.rx {
		i.rx[n] = nil
		d.nic.Received(f)
	}
	i.rx = i.rx[:0]
}

// Batch implements hardware.Function: it interrupts for the frames of a batch.
// Those that are held count when they come.
func (d *Device) Batch(received int, now frame.Time) {
	i := &d.interrupts
	if i.holds {
		received, i.received = i.received, 0
	}
	switch {
	case d.function != nil:
		i.report(now)
		d.function.Relieve()
	case received > 0:
		i.blocks[0].Events(irq.RxPI, received, now)
	}
	d.cmt.flush()
}

// poll lets those interrupt whose time has come, and returns when it wants to be
// called again; in mode POLL it is the driver's look.
func (i *interrupts) poll(now frame.Time) frame.Time {
	next := i.dev.Poll(now)
	if i.dev.Mode() == irq.Poll && i.dev.Look(now) {
		next = i.dev.Poll(now)
	}
	return next
}

// Sent implements hardware.Function: it interrupts for the frames that have left,
// and for what was sent and completed meanwhile.
func (d *Device) Sent(frames int, now frame.Time) frame.Time {
	i := &d.interrupts
	if frames > 0 && d.function == nil {
		i.blocks[0].Events(irq.TxPI0, frames, now)
	}
	i.report(now)
	next := i.poll(now)
	return min(next, d.pollSelftest(now))
}

// ShowIRQ describes the status blocks, those of the second engine behind those of
// the first.
func (d display) ShowIRQ() []view.IRQInfo {
	list := d.interrupts.show(0, d.host)
	if d.cmt == nil {
		return list
	}
	for n := range list {
		list[n].Hwfn = d.hwfnName(0)
	}
	var second []view.IRQInfo
	if d.interrupts.slowpath[1] {
		second = append(second, d.interrupts.row(d.interrupts.dev.Hwfns[1].SP(), 1, "sp", "slowpath", 0))
	}
	d.cmt.withSecond(func(e *SecondEngine) { second = append(second, e.irq.show(1, d.host)...) })
	for n := range second {
		second[n].Hwfn = d.hwfnName(1)
	}
	return append(list, second...)
}

// show describes the slowpath's status block of a hwfn, if that has its vector, then
// those in use.
func (i *interrupts) show(hwfn int, host bool) []view.IRQInfo {
	list := []view.IRQInfo{}
	if i.slowpath[hwfn] {
		list = append(list, i.row(i.dev.Hwfns[hwfn].SP(), hwfn, "sp", "slowpath", 0))
	}
	for id := range i.blocks {
		if b := &i.blocks[id]; len(b.queues)+len(b.cnqs) > 0 {
			list = append(list, i.row(b.SB, hwfn, fmt.Sprint(id), b.users(host), id+1))
		}
	}
	return list
}

// row describes a status block of a hwfn, which has there a vector of a number.
func (i *interrupts) row(sb *irq.SB, hwfn int, name, user string, vector int) view.IRQInfo {
	info := view.IRQInfo{SB: name, User: user, Mode: i.dev.Mode().String(), Vector: -1, Events: sb.Reported(),
		Updates: sb.Updates(),
		RxUsecs: sb.Coalesce(irq.RxPI), TxUsecs: sb.Coalesce(irq.TxPI0)}
	vectors := i.dev.ShowVectors()
	if i.dev.Mode() != irq.MSIX {
		vector = 0
	} else {
		vector = vector*len(i.dev.Hwfns) + hwfn
	}
	if len(vectors) > 0 {
		info.Vector, info.Interrupts = vector, vectors[vector].Interrupts
	}
	return info
}

// users names those of a block.
func (b *block) users(host bool) string {
	var names []string
	for _, q := range b.queues {
		if host {
			names = append(names, fmt.Sprint("queue ", q))
		} else {
			names = append(names, "ethernet")
		}
	}
	for _, n := range b.cnqs {
		names = append(names, fmt.Sprint("cnq ", n))
	}
	return strings.Join(names, ", ")
}

package fcoe

import (
	"slices"

	"tapir/nic/scsi"
	"tapir/wire/drop"
	"tapir/wire/fc"
	"tapir/wire/frame"
)

// maxBurst is how many octets a target asks for at a time.
const maxBurst = 256 << 10

// task is a command of an initiator, from FCP_CMND to FCP_RSP.
type task struct {
	r          *Remote
	c          fc.SCSICommand
	cmd        scsi.Command
	oxid, rxid uint16
	order      uint64
	seq        uint8 // of the next sequence
	buf        []byte
	need       int // octets that the command takes
	next       int // where the next data goes
	limit      int // where the burst ends
	count      uint16
	asked      bool // XFER_RDY is out
	spoilt     bool // a frame of the burst is missing
	busy       bool // another thread performs it
	posted     bool // data waits in the send queue
	gone       bool
	timer      alarm
	data       []byte // to be sent
	off        int
	rsp        fc.Response
}

// order are the tasks in the order in which they came.
func (r *Remote) order() []*task {
	list := make([]*task, 0, len(r.tasks))
	for _, t := range r.tasks {
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b *task) int { return int(int64(a.order - b.order)) })
	return list
}

// command takes FCP_CMND.
func (r *Remote) command(h *fc.Header, payload []byte, now frame.Time) frame.DropReason {
	n := r.p.n
	_, err := fc.ParseCommand(payload)
	switch {
	case err != nil:
		r.violation(ErrCommandLength)
		return drop.Malformed
	case r.nexus == nil:
		r.p.logout(r.ID, r.mac)
		return drop.FCLogin
	case r.tasks[h.OXID] != nil:
		return drop.FCExchange
	case !n.env.Sessions.Task(r.handle, true):
		n.stats[CommandsDropped]++
		return drop.Backlog
	}
	why := r.complete(h, payload, now)
	if why != frame.DropNone {
		n.stats[CommandsDropped]++
		n.env.Sessions.Done(r.handle)
	}
	return why
}

// took takes a command, or the end of a burst, out of a completion queue.
func (r *Remote) took(h *fc.Header, payload []byte, now frame.Time) frame.DropReason {
	t := r.tasks[h.OXID]
	switch {
	case h.RCtl == fc.SolicitedData && t != nil && t.asked:
		t.received(now)
		return frame.DropNone
	case h.RCtl == fc.SolicitedData:
		return drop.FCExchange
	case t != nil:
		r.p.n.env.Sessions.Done(r.handle)
		return drop.FCExchange
	}
	r.begun(h, payload, now)
	return frame.DropNone
}

// begun begins with a command.
func (r *Remote) begun(h *fc.Header, payload []byte, now frame.Time) {
	n := r.p.n
	c, _ := fc.ParseCommand(payload)
	n.stats[CommandsReceived]++
	n.rxid++
	n.tasks++
	t := &task{r: r, c: c, oxid: h.OXID, rxid: n.rxid % fc.NoID, order: n.stats[CommandsReceived]}
	r.tasks[t.oxid] = t
	if c.Management != 0 {
		t.manage()
		return
	}
	failed := !t.cmd.Prepare(r.nexus, c.LUN, c.CDB[:])
	if c.Flags&fc.WriteData != 0 {
		t.need = min(t.cmd.Out, int(c.DataLen))
	}
	size := max(t.need, t.cmd.In)
	switch {
	case failed:
	case t.cmd.Exact && int(c.DataLen) != t.cmd.Out:
		failed = true
		t.cmd.Fail(scsi.BadLength)
	case n.tasks > maxTasks || n.held+size > maxHeld:
		n.stats[Busy]++
		failed = true
		t.cmd.Status, t.need = scsi.TaskSetFull, 0
	default:
		t.buf = make([]byte, size)
		n.held += size
	}
	if failed {
		t.answer(nil)
		return
	}
	t.advance(now)
}

// advance asks for data, or performs the command.
func (t *task) advance(now frame.Time) {
	if t.next == t.need {
		t.perform()
		return
	}
	n := t.r.p.n
	k := min(maxBurst, t.need-t.next)
	t.asked, t.limit, t.count, t.spoilt = true, t.next+k, 0, false
	ask := fc.Transfer{Offset: uint32(t.next), Burst: uint32(k)}
	t.r.post(t.header(fc.DataDescriptor, fc.Offer), ask.AppendTo(nil), true, false)
	t.seq++
	n.set(&t.timer, now.Add(raTOV), func(frame.Time) { // the initiator has given up
		n.stats[Timeouts]++
		t.r.violation(ErrBurstTimeout)
		t.cancel()
	})
}

// header is that of a frame of the task.
func (t *task) header(r fc.RCtl, f fc.FCtl) fc.Header {
	return fc.Header{RCtl: r, D: t.r.ID, S: t.r.p.id, Type: fc.TypeFCP, FCtl: f, SeqID: t.seq,
		OXID: t.oxid, RXID: t.rxid}
}

// dataOut takes data of a write. Only frames in order count: a gap spoils the burst, and the
// initiator hears of that at its end.
func (r *Remote) dataOut(h *fc.Header, payload []byte, now frame.Time) frame.DropReason {
	n := r.p.n
	t := r.tasks[h.OXID]
	if t == nil || t.rxid != h.RXID || !t.asked {
		return drop.FCExchange
	}
	if e := t.check(h, len(payload)); e != NoError {
		if !t.spoilt {
			r.violation(e)
		}
		t.spoilt = true
		n.stats[DataErrors]++
	}
	if !t.spoilt {
		copy(t.buf[t.next:], payload)
		t.next, t.count = t.next+len(payload), t.count+1
		n.stats[OctetsWritten] += uint64(len(payload))
	}
	if h.FCtl&fc.End == 0 {
		return frame.DropNone
	}
	return r.complete(h, nil, now)
}

// check looks at a frame of a burst.
func (t *task) check(h *fc.Header, octets int) Error {
	switch {
	case h.SeqCnt != t.count:
		return ErrBurstCount
	case int64(h.Param) != int64(t.next):
		return ErrBurstOffset
	case t.next+octets > t.limit:
		return ErrBurstRange
	}
	return NoError
}

// received goes on behind a burst.
func (t *task) received(now frame.Time) {
	n := t.r.p.n
	n.cancel(&t.timer)
	t.asked = false
	if t.spoilt || t.next != t.limit {
		n.stats[DataLost]++
		if !t.spoilt {
			t.r.violation(ErrBurstShort)
		}
		t.cmd.Fail(scsi.PhaseError) // not as FCP_RSP information, which Linux takes for success
		t.need = 0
		t.answer(nil)
		return
	}
	t.advance(now)
}

// perform has the unit do the command.
func (t *task) perform() {
	var buf []byte
	if t.cmd.In > 0 {
		buf = t.buf[:t.cmd.In]
	} else {
		buf = t.buf[:t.need]
	}
	n := t.r.p.n
	if n.env.Offload == nil || !t.cmd.Slow() {
		t.answer(t.cmd.Perform(buf))
		return
	}
	t.busy = true
	var data []byte
	n.env.Offload(t.cmd.Unit(), func() { data = t.cmd.Perform(buf) }, func() {
		if t.busy = false; t.gone {
			t.end(true)
			return
		}
		t.answer(data)
	})
}

// answer sends the data of a command that has ended, and its status.
func (t *task) answer(data []byte) {
	total, room := t.cmd.Out, int(t.c.DataLen)
	if t.cmd.In > 0 || len(data) > 0 {
		total = len(data)
	}
	if t.cmd.Status != scsi.Good {
		data = nil
		if t.cmd.In > 0 {
			total = 0
		}
	}
	if t.c.Flags&(fc.ReadData|fc.WriteData) == 0 {
		room = 0
	}
	t.rsp = fc.Response{Status: uint8(t.cmd.Status)}
	switch {
	case total > room:
		t.rsp.Flags, t.rsp.Residual = fc.Overrun, uint32(total-room)
	case total < room:
		t.rsp.Flags, t.rsp.Residual = fc.Underrun, uint32(room-total)
	}
	if t.cmd.Status == scsi.CheckCondition {
		t.rsp.Flags |= fc.HasSense
		t.rsp.Sense = t.cmd.Sense.Append(nil)
	}
	if t.c.Flags&fc.ReadData == 0 {
		data = nil
	}
	if t.data = data[:min(len(data), room)]; len(t.data) == 0 {
		t.respond()
		return
	}
	n := t.r.p.n
	if t.posted = n.env.Sessions.Post(t.r.handle); !t.posted {
		n.stats[TxQueueFull]++
		t.end(true)
		return
	}
	n.stats[OctetsRead] += uint64(len(t.data))
	n.senders = append(n.senders, t)
	n.env.Wake()
}

// send sends a frame of data, and behind the last one the status.
func (t *task) send(now frame.Time) bool {
	t.fetch()
	k := min(t.r.payload, len(t.data)-t.off)
	h := t.header(fc.SolicitedData, fc.FromResponder|fc.RelOffset)
	h.SeqCnt, h.Param = t.count, uint32(t.off)
	last := t.off+k == len(t.data)
	if last {
		h.FCtl |= fc.End
	}
	t.r.p.data(t.r.mac, h, t.data[t.off:t.off+k], now)
	t.r.p.n.env.Sessions.Traffic(t.r.handle, h.RCtl, k, true)
	t.off, t.count = t.off+k, t.count+1
	if last {
		t.seq++
		t.respond()
	}
	return !last
}

// fetch takes the sequence out of the send queue.
func (t *task) fetch() {
	if t.posted {
		t.r.p.n.env.Sessions.Fetch(t.r.handle)
	}
	t.posted = false
}

// respond sends FCP_RSP and ends the task. Behind data it belongs to the same element of the
// send queue.
func (t *task) respond() {
	t.r.post(t.header(fc.CommandStatus, fc.Reply), t.rsp.AppendTo(nil), t.off == 0, true)
	t.end(false)
}

// end forgets the task; done: for the hardware, too, which else hears of it with the status.
func (t *task) end(done bool) {
	n := t.r.p.n
	n.cancel(&t.timer)
	if t.r.tasks[t.oxid] == t {
		delete(t.r.tasks, t.oxid)
	}
	n.held -= len(t.buf)
	t.buf = nil
	n.tasks--
	if done {
		t.fetch()
		n.env.Sessions.Done(t.r.handle)
		n.wakeSleeping()
	}
}

// cancel ends the task without an answer.
func (t *task) cancel() {
	t.gone = true
	t.r.p.n.drop(t)
	if t.busy {
		delete(t.r.tasks, t.oxid)
		return
	}
	t.end(true)
}

// manage does task management (FCP-4 section 9.1.2.6).
func (t *task) manage() {
	t.rsp = fc.Response{Flags: fc.HasInfo, Info: fc.TaskDone}
	u := t.r.nexus.Unit(t.c.LUN)
	switch {
	case u == nil && t.c.Management != fc.ResetTarget:
		t.rsp.Info = fc.BadLUN
	case t.c.Management == fc.AbortTaskSet || t.c.Management == fc.ClearTaskSet:
		t.clear(u)
	case t.c.Management == fc.ResetLUN:
		t.clear(u)
		u.Reset()
	case t.c.Management == fc.ResetTarget:
		t.clear(nil)
		for _, u := range t.r.p.cfg.Units {
			if u != nil {
				u.Reset()
			}
		}
	default:
		t.rsp.Info = fc.TaskUnsupported
	}
	t.r.p.n.stats[TaskManagement]++
	t.respond()
}

// clear cancels the other commands for a unit, or for all; those of other initiators, too,
// unless only the initiator's own were meant.
func (t *task) clear(u *scsi.Unit) {
	for _, r := range t.r.p.remotes {
		if r != t.r && t.c.Management == fc.AbortTaskSet {
			continue
		}
		for _, o := range r.order() {
			if o != t && (u == nil || o.cmd.Unit() == u) {
				o.cancel()
			}
		}
	}
}

// abort answers ABTS.
func (p *Port) abort(h *fc.Header, now frame.Time) {
	p.n.stats[AbortsReceived]++
	if r := p.remote(h.S); r != nil && r.tasks[h.OXID] != nil {
		r.tasks[h.OXID].cancel()
	}
	a := h.ReplyTo(fc.AbortAccept)
	p.frame(p.n.macOf(h.S), a, fc.AppendAbortAccept(nil, h.OXID, h.RXID))
}

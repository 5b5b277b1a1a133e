package iscsi

import (
	"encoding/binary"

	"tapir/nic/scsi"
	"tapir/wire/iscsi"
)

// task is a SCSI command from its PDU to its status.
type task struct {
	c      *Conn
	cmd    scsi.Command
	bhs    iscsi.BHS
	buf    *Buffer
	failed bool // cmd has ended; data that still comes is of no use
	busy   bool // another thread performs it
	gone   bool // cancelled
	queued bool // it counts against the window

	advert iscsi.Advert // the initiator's memory, in iSER

	expected    int  // octets that the initiator wants to move
	need        int  // octets of its data that the command uses
	next        int  // where the next data goes
	unsolicited int  // octets that came without being asked for
	limit       int  // where the present sequence of data ends at most
	unasked     bool // unsolicited data is to come
	asked       bool // an R2T is open
	tag         uint32
	dataSN      uint32 // of the next Data-Out in the sequence
	sent        uint32 // Data-In and R2T
	discarded   bool   // the data that is being read is of no use

	waiting []*management // that wait for its end
	free    *task         // the next unused one
	work    *work         // of whoever has been this task
}

// work is what a task has done elsewhere.
type work struct {
	buf, data   []byte
	begin, done func()
}

// newWork is made once for a task that is used again and again.
func (t *task) newWork() *work {
	w := &work{}
	w.begin = func() { w.data = t.cmd.Perform(w.buf) }
	w.done = func() {
		if t.busy = false; t.gone {
			t.end()
			return
		}
		t.answer(w.data)
	}
	return w
}

// newTask takes a task.
func (c *Conn) newTask(h *iscsi.BHS) *task {
	t := c.idle
	if t == nil {
		t = new(task)
	} else {
		c.idle = t.free
	}
	*t = task{c: c, bhs: *h, advert: c.advert, waiting: t.waiting[:0], work: t.work,
		expected: int(h.U32(iscsi.Expected))}
	c.tasks[h.U32(iscsi.ITT)] = t
	if t.queued = !h.Immediate(); t.queued {
		c.queued++
	}
	return t
}

// unqueue gives the task's place in the window to another one.
func (t *task) unqueue() {
	if t.queued {
		t.queued = false
		t.c.queued--
	}
}

// end forgets a task. Its buffer stays while PDUs hold it.
func (t *task) end() {
	c := t.c
	itt := t.bhs.U32(iscsi.ITT)
	if c.tasks[itt] != t {
		return // with its connection
	}
	delete(c.tasks, itt)
	t.unqueue()
	if c.placing == t {
		c.placing, c.orphan = nil, t.buf
	} else {
		c.t.pool.drop(t.buf)
	}
	t.buf = nil
	for _, m := range t.waiting {
		m.ended()
	}
	t.free, c.idle = c.idle, t
}

// cancel ends a task without an answer; m, which may be nil, hears when it has.
func (c *Conn) cancel(t *task, m *management) {
	if m != nil {
		m.left++
		t.waiting = append(t.waiting, m)
	}
	t.gone = true
	if t.unasked || t.asked {
		c.mayComeLate(t.bhs.U32(iscsi.ITT))
	}
	if !t.busy {
		t.end()
	}
}

// mayComeLate notes a tag whose data may still come.
func (c *Conn) mayComeLate(itt uint32) {
	c.late[c.lateN%len(c.late)] = itt
	c.lateN++
}

// command takes a SCSI command with its immediate data.
func (c *Conn) command(h *iscsi.BHS, data []byte) {
	switch {
	case c.tasks[h.U32(iscsi.ITT)] != nil:
		c.reject(rejectBusy, h)
		return
	case h.U32(iscsi.ITT) == iscsi.Unassigned:
		c.reject(rejectField, h)
		return
	case h.Immediate() && len(c.tasks)-c.queued >= maxImmediate:
		c.reject(rejectImmediate, h)
		return
	case c.iser && h[1]&iscsi.Read != 0 && h.U32(iscsi.Expected) > 0 && !c.advert.Read:
		c.breach()
		return
	}
	c.t.stats[Commands]++
	t := c.newTask(h)
	t.failed = !t.cmd.Prepare(c.nexus, h.LUN(), h.CDB())
	if t.failed && c.nexus.Unit(h.LUN()) == nil {
		c.t.stats[NoSuchLUN]++
	}
	writes := h[1]&iscsi.Write != 0
	if writes {
		t.need = min(t.cmd.Out, t.expected)
	}
	if t.unasked = writes && h[1]&iscsi.Final == 0; t.unasked {
		t.limit = min(c.par.First, t.expected)
	}
	switch {
	case len(data) > 0 && (!c.par.ImmediateData || !writes), t.unasked && c.par.InitialR2T:
		c.t.stats[UnexpectedData]++
		t.fail(scsi.UnexpectedData)
	case len(data) > min(c.par.First, t.expected):
		c.t.stats[WrongAmount]++
		t.fail(scsi.WrongAmount)
	case !t.failed && t.cmd.Exact && t.expected != t.cmd.Out:
		t.fail(scsi.BadLength)
	case !t.failed && c.held+max(t.need, t.cmd.In) > maxHeld:
		c.t.stats[Busy]++
		t.fail(scsi.Sense{})
		t.cmd.Status = scsi.TaskSetFull
	}
	if n := max(t.need, t.cmd.In); n > 0 && !t.failed {
		t.buf = c.t.pool.take(n, c)
		copy(t.buf.b[:t.need], data)
	}
	t.next, t.unsolicited = len(data), len(data)
	c.t.stats[OctetsWritten] += uint64(len(data))
	t.advance()
}

// fail ends the command with a sense; its answer waits for the data that still comes. The
// first cause counts.
func (t *task) fail(s scsi.Sense) {
	if !t.failed {
		t.failed = true
		t.cmd.Fail(s)
	}
}

// advance does the next step of a task: ask for data, perform, answer.
func (t *task) advance() {
	switch {
	case t.unasked || t.asked:
	case t.failed:
		t.answer(nil)
	case t.next < t.need:
		t.ask()
	default:
		t.perform()
	}
}

// ask asks for the next burst.
func (t *task) ask() {
	c := t.c
	n := min(c.par.Burst, t.need-t.next)
	t.asked, t.limit, t.dataSN, t.tag = true, t.next+n, 0, c.newTag()
	c.t.stats[R2Ts]++
	c.move.ask(t, n)
	t.sent++
}

// place finds the place of the data of a Data-Out whose header has come; nil: the data has none.
func (c *Conn) place(h *iscsi.BHS) (dst []byte) {
	t := c.tasks[h.U32(iscsi.ITT)]
	if t == nil || t.gone || t.busy {
		return nil
	}
	solicited := h.U32(iscsi.TTT) != iscsi.Unassigned
	if solicited && (!t.asked || h.U32(iscsi.TTT) != t.tag) || !solicited && !t.unasked {
		return nil
	}
	c.placing = t
	off, n := int(h.U32(iscsi.Offset)), h.DataLen()
	switch t.discarded = true; {
	case h.U32(iscsi.DataSN) != t.dataSN, off != t.next:
		c.t.stats[DataSequence]++ // a Data-Out is missing: RFC 7143 section 7.9
		t.fail(scsi.DigestError)
	case off+n > t.limit:
		c.t.stats[WrongAmount]++
		t.fail(scsi.WrongAmount)
	default:
		t.discarded = false
		if !t.failed && off+n <= t.need {
			return t.buf.b[off : off+n]
		}
	}
	return nil
}

// dataOut takes a whole Data-Out.
func (c *Conn) dataOut(h *iscsi.BHS, data []byte) {
	t := c.placing
	c.placing = nil
	if t == nil {
		c.t.pool.drop(c.orphan)
		c.orphan = nil
		for _, itt := range c.late[:min(c.lateN, len(c.late))] {
			if itt == h.U32(iscsi.ITT) {
				return
			}
		}
		c.t.stats[NoSuchTask]++
		c.reject(rejectField, h)
		return
	}
	if c.rd.DataBad {
		c.t.stats[DataDigest]++
		c.reject(rejectDigest, h)
		t.fail(scsi.DigestError)
	}
	if !t.discarded {
		if !t.failed && t.next < t.need && t.next+len(data) > t.need {
			copy(t.buf.b[t.next:t.need], data)
		}
		t.next += len(data)
		t.dataSN++
		c.t.stats[OctetsWritten] += uint64(len(data))
	}
	if h[1]&iscsi.Final == 0 {
		return
	}
	if short := t.next < t.limit; short && !t.failed {
		c.t.stats[WrongAmount]++
		t.fail(scsi.WrongAmount)
	}
	if t.unasked {
		t.unsolicited = t.next
	}
	t.unasked, t.asked, t.dataSN = false, false, 0
	t.advance()
}

// perform has the unit do the command.
func (t *task) perform() {
	var buf []byte
	switch {
	case t.cmd.In > 0 && t.buf != nil:
		buf = t.buf.b[:t.cmd.In]
	case t.buf != nil:
		buf = t.buf.b[:t.need]
	}
	if t.c.t.cfg.Offload == nil || !t.cmd.Slow() {
		t.answer(t.cmd.Perform(buf))
		return
	}
	t.busy = true
	if t.work == nil {
		t.work = t.newWork()
	}
	t.work.buf = buf
	t.c.t.cfg.Offload(t.cmd.Unit(), t.work.begin, t.work.done)
}

// answer sends the data of a command that has ended, and its status.
func (t *task) answer(data []byte) {
	c, h := t.c, &t.bhs
	total, room := t.cmd.Out, t.expected
	if t.cmd.In > 0 || len(data) > 0 {
		total = len(data)
	}
	if t.cmd.Status != scsi.Good {
		data = nil
		if t.cmd.In > 0 {
			total = 0
		}
	}
	if h[1]&(iscsi.Read|iscsi.Write) == 0 {
		room = 0
	}
	flags, residual := byte(0), 0
	switch {
	case total > room:
		flags, residual = iscsi.Overflow, total-room
	case total < room:
		flags, residual = iscsi.Underflow, room-total
	}
	if h[1]&iscsi.Read == 0 {
		data = nil
	}
	data = data[:min(len(data), room)]
	t.unqueue() // before MaxCmdSN is told
	if len(data) > 0 {
		t.dataIn(data, flags, residual)
	} else {
		t.status(flags, residual)
	}
	c.link.Kick()
	t.end()
}

// dataIn sends the data and the status, which is good.
func (t *task) dataIn(data []byte, flags byte, residual int) {
	t.c.t.stats[OctetsRead] += uint64(len(data))
	if &data[0] != &t.buf.b[0] { // parameter data
		data = t.buf.b[:copy(t.buf.b, data)]
	}
	t.c.move.dataIn(t, data, flags, residual)
}

// status sends the response.
func (t *task) status(flags byte, residual int) {
	var sense []byte
	if t.cmd.Status == scsi.CheckCondition {
		sense = t.cmd.Sense.Append(make([]byte, 2))
		binary.BigEndian.PutUint16(sense, uint16(len(sense)-2))
	}
	h := &t.c.header
	*h = answerTo(&t.bhs, iscsi.Response)
	h[1] |= flags
	h[3] = byte(t.cmd.Status)
	h.Put(iscsi.ExpDataSN, t.sent)
	h.Put(iscsi.Residual, uint32(residual))
	t.c.send(h, sense, t)
	t.c.statSN++
}

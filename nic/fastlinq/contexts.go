package fastlinq

import (
	"errors"
	"fmt"
	"slices"

	"tapir/nic/fastlinq/ecore"
	"tapir/nic/fastlinq/ecore/cxt"
	"tapir/nic/fastlinq/ecore/spq"
	"tapir/nic/fastlinq/rdma"
	"tapir/nic/fastlinq/status"
	"tapir/nic/verbs"
	"tapir/nic/view"
	"tapir/wire/frame"
)

// contexts is the driver's side of RDMA on the leading hwfn, and the firmware's:
// queue pairs and shared receive queues are made, changed and ended by ramrods, and
// what the firmware sees itself comes by the event queue. The data path needs
// neither.
type contexts struct {
	ramrods
	fw     rdma.Firmware
	on     bool  // RDMA is started
	cids   []int // of queue pairs, and ids of shared receive queues, whose end the
	srqs   []int // firmware has not confirmed: until the next load nobody gets them
	raised []raised
	events [rdma.NumRoCEEvents]uint64
}

// raised is an event on its way through the event queue, and what it is about.
type raised struct {
	eq spq.Event
	ev verbs.AsyncEvent
}

// compose makes the firmware of RDMA.
func (c *contexts) compose() {
	c.fw = rdma.Firmware{
		Context: func(cid int) []byte { return c.manager().Context(cid) },
		SRQ:     func(id int) []byte { return c.manager().SRQ(id) },
	}
}

// execute is the firmware of RDMA.
func (c *contexts) execute(el spq.Element) (uint8, uint64) {
	if el.Protocol == cxt.RoCE {
		return c.fw.ExecuteRoCE(rdma.RoCECommand(el.Cmd), el.CID, el.Data)
	}
	return c.fw.Execute(rdma.Command(el.Cmd), el.CID, el.Data)
}

func (c *contexts) manager() *cxt.Manager { return c.lead().Contexts() }

// start starts RDMA on a function that has been loaded, and gives a context to all
// that exists.
func (c *contexts) start() error {
	c.waiting.on = false
	if !c.d.cfg.RDMA.RDMA() {
		return nil
	}
	if err := c.lead().RegisterAsync(c.protocol(), c.heard); err != nil {
		return err
	}
	if cnqs, share := len(c.d.verbs.Notifications()), c.lead().Share(ecore.CNQRAM).Num; cnqs > share {
		return status.NoResources.Errorf("%d completion notification queues: the function's share is %d", cnqs, share)
	}
	if _, err := c.post(c.lead().SlowpathCID(), uint8(rdma.FuncInit), nil); err != nil {
		return err
	}
	c.on = true
	tasks, _ := c.manager().Tasks(c.protocol())
	c.d.verbs.LimitTasks(tasks)
	return c.d.verbs.TakeContexts()
}

// stop ends it, before the function is unloaded.
func (c *contexts) stop() {
	if !c.on {
		return
	}
	c.d.verbs.DropContexts()
	_, err := c.post(c.lead().SlowpathCID(), uint8(rdma.FuncClose), nil)
	c.d.management.note(err)
	c.on = false
	for _, cid := range c.cids {
		c.d.management.note(c.manager().Release(cid))
	}
	for _, id := range c.srqs {
		c.d.management.note(c.manager().ReleaseSRQ(id))
	}
	c.cids, c.srqs = nil, nil
	c.lead().UnregisterAsync(c.protocol())
	for _, r := range c.raised { // the event queue goes
		c.d.verbs.Deliver(r.ev)
	}
	c.raised = nil
}

// send posts a ramrod of RDMA; done, which may come later, gets what has become of it.
func (c *contexts) send(cid int, cmd uint8, data any, done func(r uint64, err error)) {
	c.ramrods.send(spq.Request{CID: cid, Cmd: cmd, Protocol: c.protocol(), Data: data}, c.command(cmd), done)
}

// post sends one and expects it to be answered at once.
func (c *contexts) post(cid int, cmd uint8, data any) (r uint64, err error) {
	r, err = c.ramrods.post(spq.Request{CID: cid, Cmd: cmd, Protocol: c.protocol(), Data: data}, c.command(cmd))
	if err != nil {
		err = fmt.Errorf("%w: %w", verbs.ErrFirmware, err)
	}
	return r, err
}

// noResources is an error of the context manager for verbs: all that there are, or
// no window to the chip.
func noResources(err error) error { return fmt.Errorf("%w: %w", verbs.ErrLimit, err) }

// CreateQP implements verbs.Contexts. Queue pairs that exist while the function is
// not loaded get their contexts with the load.
func (c *contexts) CreateQP(q *verbs.QP) (int, error) {
	if !c.on {
		return verbs.NoCID, nil
	}
	cid, err := c.acquire()
	if err != nil || c.roce() {
		return cid, err
	}
	cfg := q.Config()
	p := &rdma.QP{Handle: q.Num(), PD: q.PD().Num(), SendCQ: cfg.SendCQ.Num(), RecvCQ: cfg.RecvCQ.Num()}
	if cfg.SRQ != nil {
		p.SRQ = cfg.SRQ.Num()
	}
	if _, err := c.post(cid, uint8(rdma.CreateQP), p); err != nil {
		c.releaseCID(cid, err)
		return verbs.NoCID, err
	}
	return cid, nil
}

// releaseCID gives a connection id back after its last ramrod; one that was not
// answered may still be executed.
func (c *contexts) releaseCID(cid int, err error) {
	if errors.Is(err, status.Busy) {
		c.cids = append(c.cids, cid)
		return
	}
	c.d.management.note(c.manager().Release(cid))
}

// OffloadQP implements verbs.Contexts.
func (c *contexts) OffloadQP(q *verbs.QP) error {
	if q.CID() == verbs.NoCID || c.roce() {
		return nil
	}
	_, err := c.post(q.CID(), uint8(rdma.MPAOffload), nil)
	return err
}

// states are those of iWARP, which the states of verbs stand for.
var states = [...]rdma.State{verbs.Reset: rdma.Idle, verbs.Init: rdma.Idle, verbs.RTR: rdma.Idle, verbs.RTS: rdma.RTS,
	verbs.SQD: rdma.Closing, verbs.SQE: rdma.Terminate, verbs.Err: rdma.Error}

// ModifyQP implements verbs.Contexts.
func (c *contexts) ModifyQP(q *verbs.QP, to verbs.State, failed func(error)) {
	if q.CID() == verbs.NoCID {
		return
	}
	if c.roce() {
		c.modifyRoCE(q, to, failed)
		return
	}
	c.send(q.CID(), uint8(rdma.ModifyQP), states[to], func(_ uint64, err error) {
		if err != nil {
			failed(fmt.Errorf("%w: %w", verbs.ErrFirmware, err))
		}
	})
}

// MovedQP implements verbs.Contexts.
func (c *contexts) MovedQP(q *verbs.QP) {
	switch {
	case q.CID() == verbs.NoCID:
	case c.roce():
		c.movedRoCE(q)
	default:
		c.fw.Moved(q.CID(), states[q.State()])
	}
}

// QueryQP implements verbs.Contexts.
func (c *contexts) QueryQP(q *verbs.QP) (verbs.State, error) {
	if q.CID() == verbs.NoCID {
		return q.State(), nil
	}
	if c.roce() {
		return c.queryRoCE(q)
	}
	r, err := c.post(q.CID(), uint8(rdma.QueryQP), nil)
	if is := rdma.State(r); err == nil && is != states[q.State()] {
		return verbs.State(slices.Index(states[:], is)), nil
	}
	return q.State(), err
}

// DestroyQP implements verbs.Contexts: as the public driver it aborts what is not
// in error before.
func (c *contexts) DestroyQP(q *verbs.QP) {
	if q.CID() == verbs.NoCID {
		return
	}
	if c.roce() {
		c.destroyRoCE(q)
		return
	}
	if s := states[q.State()]; s != rdma.Idle && s != rdma.Error {
		c.ModifyQP(q, verbs.Err, c.d.management.note)
	}
	_, err := c.post(q.CID(), uint8(rdma.DestroyQP), nil)
	c.d.management.note(err)
	c.releaseCID(q.CID(), err)
}

// CreateSRQ implements verbs.Contexts.
func (c *contexts) CreateSRQ(s *verbs.SRQ) (int, error) {
	if !c.on {
		return verbs.NoCID, nil
	}
	id, err := c.manager().AcquireSRQ()
	if err != nil {
		return verbs.NoCID, noResources(err)
	}
	srq := &rdma.SRQ{ID: uint32(id), Handle: s.Num()}
	if _, err = c.post(c.lead().SlowpathCID(), uint8(rdma.CreateSRQ), srq); err != nil {
		c.releaseSRQ(id, err)
		return verbs.NoCID, err
	}
	return id, nil
}

func (c *contexts) releaseSRQ(id int, err error) {
	if errors.Is(err, status.Busy) {
		c.srqs = append(c.srqs, id)
		return
	}
	c.d.management.note(c.manager().ReleaseSRQ(id))
}

// ModifySRQ implements verbs.Contexts.
func (c *contexts) ModifySRQ(s *verbs.SRQ, limit int) error {
	if s.ID() == verbs.NoCID {
		return nil
	}
	_, err := c.post(c.lead().SlowpathCID(), uint8(rdma.ModifySRQ), &rdma.SRQ{ID: uint32(s.ID()), Handle: s.Num(),
		Limit: uint32(limit)})
	return err
}

// DestroySRQ implements verbs.Contexts.
func (c *contexts) DestroySRQ(s *verbs.SRQ) {
	if s.ID() == verbs.NoCID {
		return
	}
	_, err := c.post(c.lead().SlowpathCID(), uint8(rdma.DestroySRQ), &rdma.SRQ{ID: uint32(s.ID())})
	c.d.management.note(err)
	c.releaseSRQ(s.ID(), err)
}

// exceptions are the codes of errors of a connection.
var exceptions = map[verbs.EventType]uint8{
	verbs.EventQPFatal: rdma.LocalCatastrophic, verbs.EventQPRequestError: rdma.RemoteOperation,
	verbs.EventQPAccessError: rdma.RemoteProtection, verbs.EventTerminated: rdma.TerminateReceived,
}

// Raise implements verbs.Contexts.
func (c *contexts) Raise(ev verbs.AsyncEvent) bool {
	if !c.on {
		return false
	}
	event := c.iwarpEvent
	if c.roce() {
		event = c.roceEvent
	}
	e, ok := event(ev)
	if !ok || c.d.core.chip.Engines[0].Async(c.d.pf, e) != nil {
		return false
	}
	c.raised = append(c.raised, raised{e, ev})
	c.work(c.d.now())
	return true
}

// iwarpEvent is an event as the firmware of iWARP tells of it; false: it cannot.
func (c *contexts) iwarpEvent(ev verbs.AsyncEvent) (e spq.Event, ok bool) {
	e = spq.Event{Protocol: cxt.IWARP, VF: spq.NoVF, Async: true}
	switch code, exception := exceptions[ev.Type]; {
	case exception && ev.QP.CID() != verbs.NoCID:
		e.Opcode, e.Code, e.Data = uint8(rdma.Exception), code, uint64(ev.QP.Num())
	case ev.Type == verbs.EventLastWQE && ev.QP.CID() != verbs.NoCID:
		e.Opcode, e.Data = uint8(rdma.QPInError), uint64(ev.QP.Num())
	case ev.Type == verbs.EventCQError:
		e.Opcode, e.Data = uint8(rdma.CQOverflow), uint64(ev.CQ.Num())
	case ev.Type == verbs.EventSRQLimit && c.fw.Limit(ev.SRQ.ID()):
		e.Opcode, e.Data = uint8(rdma.SRQLimit), uint64(ev.SRQ.Num())
	default:
		return e, false
	}
	return e, true
}

// heard takes an event out of the event queue. Those before it that are still
// awaited did not fit in.
func (c *contexts) heard(e spq.Event, _ frame.Time) error {
	i := slices.IndexFunc(c.raised, func(r raised) bool { return r.eq == e })
	if i < 0 {
		return status.NoEnt.Errorf("event %v about %d: there is no such object", c.event(e.Opcode), e.Data)
	}
	ev := c.raised[i].ev
	c.raised = slices.Delete(c.raised, 0, i+1)
	c.events[e.Opcode]++
	c.d.verbs.Deliver(ev)
	return nil
}

// rows are the events that there were.
func (c *contexts) rows() (rows []view.DeviceRow) {
	for e, n := range c.events {
		if n > 0 {
			rows = append(rows, countRow("async_event", fmt.Sprintf("%v %v", c.protocol(), c.event(uint8(e))), n))
		}
	}
	return rows
}

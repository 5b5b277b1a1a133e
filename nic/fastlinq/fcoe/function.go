package fcoe

import (
	"errors"
	"slices"
	"time"

	"tapir/nic/fastlinq/status"
	"tapir/nic/fastlinq/storage"
	"tapir/nic/fcoe"
	"tapir/wire/fc"
	"tapir/wire/frame"
)

// Core is what the function needs of the driver core.
type Core = storage.Core[Command]

// Function is the driver's half of the function.
type Function struct {
	core   Core
	params Params
	fw     *Firmware
	queues *storage.Queues[fc.Header]
	dummy  int
	conns  []*Conn
	of     map[int]*Conn // by handle of a session
	tasks  int
	events [NumEvents]uint64
	errs   [fcoe.NumErrors]uint64
	ended  bool
}

// Start starts the function (func_start, INIT_FUNC): its queues are in shared memory, and
// their addresses in one list. INVAL: parameters contradict each other or the device.
func Start(p Params, core Core, fw *Firmware) (*Function, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	fw.Memory = new(storage.Memory)
	queues, err := storage.NewQueues[fc.Header](fw.Memory, &p.Params, core.Vectors, "num_cqs", fw.Notify)
	if err != nil {
		return nil, err
	}
	f := &Function{core: core, params: p, fw: fw, queues: queues, of: map[int]*Conn{}}
	if f.dummy, err = core.AcquireCID(); err != nil {
		return nil, err
	}
	if err := core.Post(core.FunctionCID, InitFunc, &Init{p, queues.Global, f.dummy}); err != nil {
		return nil, errors.Join(err, core.ReleaseCID(f.dummy))
	}
	f.events[EventInitFunc]++
	return f, nil
}

// Stop stops the function (func_stop, DESTROY_FUNC). BUSY: there are connections, which are
// to be terminated and released before.
func (f *Function) Stop() error {
	switch {
	case f.ended:
		return nil
	case len(f.conns) > 0:
		return status.Busy.Errorf("FCoE function: %d connections are not released", len(f.conns))
	}
	f.ended = true
	err := f.core.Post(f.core.FunctionCID, DestroyFunc, nil)
	f.events[EventDestroyFunc]++
	return errors.Join(err, f.core.ReleaseCID(f.dummy))
}

// Close ends all connections and stops the function, before the driver is unloaded.
func (f *Function) Close() (err error) {
	for _, c := range slices.Clone(f.conns) {
		if c.state == offloaded {
			_, bad := c.Terminate()
			err = errors.Join(err, bad)
			f.fw.forget(c.cid) // whether the firmware answers or not
			c.gone()
		}
		err = errors.Join(err, c.Release())
	}
	return errors.Join(err, f.Stop())
}

// Params are those that the function was started with.
func (f *Function) Params() Params { return f.params }

// Conns are the connections, in the order in which they were acquired.
func (f *Function) Conns() []*Conn { return f.conns }

// Tasks is how many are outstanding.
func (f *Function) Tasks() int { return f.tasks }

// Queues are the rings of the function: cq 0, rq 0, cmdq 0, cq 1, ...
func (f *Function) Queues() []storage.Named { return f.queues.Rings() }

// Global is the address of the list of queues (glbl_q_params_addr), Dummy the connection id
// that no session gets.
func (f *Function) Global() uint64 { return f.queues.Global }

// Dummy is that connection id (dummy_icid).
func (f *Function) Dummy() int { return f.dummy }

// Serve takes what a completion queue has.
func (f *Function) Serve(q int, now frame.Time) { f.queues.Serve(q, now) }

// Heard takes an event about a connection.
func (f *Function) Heard(e Event, code uint8) {
	f.events[e]++
	if e == EventError && int(code) < len(f.errs) {
		f.errs[code]++
	}
}

// Events are counts of what the firmware has told, and of the codes of EventError.
func (f *Function) Events() ([NumEvents]uint64, [fcoe.NumErrors]uint64) { return f.events, f.errs }

// Stats asks for the counters of the function (STAT_FUNC).
func (f *Function) Stats() (s Stats, err error) {
	if f.ended {
		return s, status.Inval.Errorf("FCoE function: it is stopped")
	}
	err = f.core.Post(f.core.FunctionCID, StatFunc, &s)
	f.events[EventStatFunc]++
	return s, err
}

// ClearStats begins the counters again.
func (f *Function) ClearStats() {
	f.fw.stats, f.events, f.errs = Stats{}, [NumEvents]uint64{}, [fcoe.NumErrors]uint64{}
	for _, e := range f.fw.ends {
		e.stats = Stats{}
	}
}

// state of a connection of the driver.
type state uint8

const (
	acquired state = iota
	offloaded
	terminated
)

var stateNames = [...]string{"acquired", "offloaded", "terminated"}

// Conn is a connection: the driver's half.
type Conn struct {
	f       *Function
	cid     int
	state   state
	session fcoe.Session
	queue   int
	sq      *Queue
	posted  uint64 // elements, ever
	handle  int
	tasks   int
	stats   Stats // after the end
}

// Acquire takes a connection (acquire_conn). NORESOURCES: all are in use; INVAL: the function
// is stopped.
func (f *Function) Acquire() (*Conn, error) {
	if f.ended {
		return nil, status.Inval.Errorf("FCoE function: it is stopped")
	}
	cid, err := f.core.AcquireCID()
	if err != nil {
		return nil, err
	}
	c := &Conn{f: f, cid: cid, sq: newQueue(f.fw.Memory, f.params.SQPages)}
	f.conns = append(f.conns, c)
	return c, nil
}

// CID is the connection's id, Queue its completion queue.
func (c *Conn) CID() int { return c.cid }

// Queue is the number of that queue.
func (c *Conn) Queue() int { return c.queue }

// State is a word for how far the connection has come.
func (c *Conn) State() string { return stateNames[c.state] }

// Session is what was offloaded.
func (c *Conn) Session() fcoe.Session { return c.session }

// SQ is the send queue.
func (c *Conn) SQ() *Queue { return c.sq }

// Tasks is how many are outstanding.
func (c *Conn) Tasks() int { return c.tasks }

// Stats are the counters of the connection.
func (c *Conn) Stats() Stats {
	if e := c.f.fw.ends[c.cid]; e != nil {
		return e.stats
	}
	return c.stats
}

func (c *Conn) wrong(call string) error {
	return status.Inval.Errorf("%s: FCoE connection %#x is %s", call, c.cid, c.State())
}

// maxSeqs are the concurrent sequences of a connection.
const maxSeqs = 255

// Offload hands a session to the firmware (offload_conn, OFFLOAD_CONN). INVAL: the connection is
// offloaded.
func (c *Conn) Offload(s fcoe.Session) error {
	if c.state != acquired {
		return c.wrong("offload")
	}
	c.queue, c.session, c.state = c.cid%c.f.params.Queues, s, offloaded
	d := &Offload{SQ: c.sq.List, SQCurr: c.sq.Curr, SQNext: c.sq.Next, Queue: c.queue, Source: s.Source, Dest: s.Dest,
		SID: s.SID, DID: s.DID, TxPayload: s.TxPayload, Payload: s.Payload, EDTOV: s.EDTOV,
		RECTOV: s.EDTOV + time.Second, MaxSeqs: maxSeqs, send: c.sq}
	if err := c.f.core.Post(c.cid, OffloadConn, d); err != nil {
		c.state = acquired
		return err
	}
	c.f.events[EventOffload]++
	return nil
}

// Terminate ends the session (TERMINATE_CONN). It returns how many elements its send queue has
// had. INVAL: it is not offloaded.
func (c *Conn) Terminate() (flushed int, err error) {
	if c.state != offloaded {
		return 0, c.wrong("terminate")
	}
	var t Terminate
	if err := c.f.core.Post(c.cid, TerminateConn, &t); err != nil {
		return 0, err
	}
	c.f.events[EventTerminate]++
	c.stats = t.Stats
	c.gone()
	return t.Flushed, nil
}

// gone says that the session has ended.
func (c *Conn) gone() {
	if c.state == offloaded {
		c.f.queues.Drop(c.queue, c.cid)
		delete(c.f.of, c.handle)
		c.state, c.f.tasks, c.tasks = terminated, c.f.tasks-c.tasks, 0
	}
}

// Release gives the connection back (release_conn). INVAL: it is neither terminated nor new.
func (c *Conn) Release() error {
	i := slices.Index(c.f.conns, c)
	if i < 0 || c.state == offloaded {
		return c.wrong("release")
	}
	c.f.conns = slices.Delete(c.f.conns, i, i+1)
	c.sq.free()
	return c.f.core.ReleaseCID(c.cid)
}

package iscsi

import (
	"errors"
	"slices"

	"tapir/nic/fastlinq/status"
	"tapir/nic/fastlinq/storage"
	"tapir/nic/iscsi"
	"tapir/nic/toe"
	"tapir/wire/ether"
	"tapir/wire/frame"
	wire "tapir/wire/iscsi"
)

// Core is what the function needs of the driver core.
type Core = storage.Core[Command]

// Function is the driver's half of the function.
type Function struct {
	core   Core
	params Params
	fw     *Firmware
	queues *storage.Queues[wire.BHS]
	conns  []*Conn
	tasks  int
	events [NumEvents]uint64
	errs   [iscsi.NumErrors]uint64
	ended  bool
	links  toe.Stations
}

// Start starts the function (func_start, INIT_FUNC): its queues are in shared memory, and
// their addresses in one list. INVAL: parameters contradict each other or the device.
func Start(p Params, core Core, fw *Firmware, links toe.Stations) (*Function, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	fw.Memory = new(storage.Memory)
	queues, err := storage.NewQueues[wire.BHS](fw.Memory, &p.Params, core.Vectors, "num_queues", fw.Notify)
	if err != nil {
		return nil, err
	}
	f := &Function{core: core, params: p, fw: fw, queues: queues, links: links}
	if err := core.Post(core.FunctionCID, InitFunc, &Init{p, queues.Global}); err != nil {
		return nil, err
	}
	f.events[EventInitFunc]++
	links.OnMoved(f.moved)
	return f, nil
}

// Stop stops the function (func_stop, DESTROY_FUNC). BUSY: there are connections, which are
// to be terminated and released before.
func (f *Function) Stop() error {
	switch {
	case f.ended:
		return nil
	case len(f.conns) > 0:
		return status.Busy.Errorf("iSCSI function: %d connections are not released", len(f.conns))
	}
	f.ended = true
	return f.core.Post(f.core.FunctionCID, DestroyFunc, nil)
}

// Close ends all connections and stops the function, before the driver is unloaded.
func (f *Function) Close() (err error) {
	for _, c := range slices.Clone(f.conns) {
		if c.tcp != nil {
			tcp := c.tcp
			_, bad := c.Terminate(true)
			err = errors.Join(err, bad)
			tcp.Abort() // whether the firmware answers or not
			f.fw.drop(c.cid)
			c.tcp = nil
		}
		err = errors.Join(err, c.Release())
	}
	return errors.Join(err, f.Stop())
}

// drop resets a connection whose function is about to go.
func (f *Firmware) drop(cid int) {
	if e := f.ends[cid]; e != nil {
		delete(f.ends, cid)
		clear(f.Context(cid)[:2])
	}
}

// Params are those that the function was started with.
func (f *Function) Params() Params { return f.params }

// Conns are the connections, in the order in which they were acquired.
func (f *Function) Conns() []*Conn { return f.conns }

// Acquire takes a connection (acquire_conn). NORESOURCES: all are in use; INVAL: the function
// is stopped.
func (f *Function) Acquire() (*Conn, error) {
	if f.ended {
		return nil, status.Inval.Errorf("iSCSI function: it is stopped")
	}
	cid, err := f.core.AcquireCID()
	if err != nil {
		return nil, err
	}
	c := &Conn{f: f, cid: cid, sq: storage.NewRing(storage.SQ, f.params.SQPages*storage.PerPage),
		uhq: storage.NewRing(storage.UHQ, f.params.UHQPages*storage.PerPage)}
	c.sqAddr, c.uhqAddr = f.fw.Memory.Put(c.sq), f.fw.Memory.Put(c.uhq)
	f.conns = append(f.conns, c)
	return c, nil
}

// Heard takes an event about a connection.
func (f *Function) Heard(e Event, code uint8, cid int) {
	f.events[e]++
	if e == ISCSIError && int(code) < len(f.errs) {
		f.errs[code]++
	}
	i := slices.IndexFunc(f.conns, func(c *Conn) bool { return c.cid == cid })
	if i >= 0 && (e == AsyncTerminate || e >= AbortReceived && !e.passes()) {
		f.conns[i].gone()
	}
}

// passes tells whether the connection of an error goes on, at first.
func (e Event) passes() bool { return e == CloseReceived || e == SYNReceived || e == ISCSIError }

// moved hears that stations of the link may have changed: the firmware is told of those that lead to
// peers of connections (MAC_UPDATE).
func (f *Function) moved() {
	for _, c := range f.conns {
		if c.tcp == nil || c.state == terminating {
			continue
		}
		to := f.links.Station(c.Info().Remote.Addr())
		if to.IsZero() || to == c.station {
			continue
		}
		c.station = to
		f.events[EventMACUpdate]++
		f.core.Send(c.cid, MACUpdate, &to, func(error) { c.station = ether.Addr{} })
	}
}

// Events are counts of what the firmware has told, and of the codes of ISCSIError.
func (f *Function) Events() ([NumEvents]uint64, [iscsi.NumErrors]uint64) { return f.events, f.errs }

// Serve takes what a completion queue has.
func (f *Function) Serve(q int, now frame.Time) { f.queues.Serve(q, now) }

// Totals are the counters of all connections, those that are gone included.
func (f *Function) Totals() Stats {
	t := f.fw.total
	for _, c := range f.conns {
		if e := f.fw.ends[c.cid]; e != nil {
			t.add(&e.stats)
		}
	}
	return t
}

func (s *Stats) add(o *Stats) {
	s.RxBytes += o.RxBytes
	s.TxBytes += o.TxBytes
	s.RxPDUs += o.RxPDUs
	s.TxPDUs += o.TxPDUs
	s.RQFull += o.RQFull
	s.CmdQFull += o.CmdQFull
	s.CQFull += o.CQFull
}

// ClearStats begins the counters again (clear_stats).
func (f *Function) ClearStats() {
	f.fw.total, f.events, f.errs = Stats{}, [NumEvents]uint64{}, [iscsi.NumErrors]uint64{}
	for _, e := range f.fw.ends {
		e.stats = Stats{}
	}
}

// state of a connection of the driver.
type state uint8

const (
	acquired state = iota
	offloaded
	updated
	terminating
	terminated
)

var stateNames = [...]string{"acquired", "offloaded", "updated", "terminating", "terminated"}

// Conn is a connection: the driver's half.
type Conn struct {
	f               *Function
	cid             int
	state           state
	queue           int
	sq, uhq         *storage.Ring
	sqAddr, uhqAddr uint64
	station         ether.Addr // that leads to the peer, as the firmware was told
	tcp             *toe.Conn
	flags           Flags
	tasks           int
	wake            func()   // waits for a task; nil: it does not
	info            toe.Info // after the end
	released        bool     // it is released as soon as it has ended
}

// CID is the connection's id, State what has become of it, Queue its completion queue.
func (c *Conn) CID() int { return c.cid }

// Station is the station that leads to the peer; zero: each frame finds out.
func (c *Conn) Station() ether.Addr { return c.station }

// State is a word for how far the connection has come.
func (c *Conn) State() string { return stateNames[c.state] }

// Queue is the connection's completion queue.
func (c *Conn) Queue() int { return c.queue }

// Flags are what UPDATE_CONN has told.
func (c *Conn) Flags() Flags { return c.flags }

// Rings are the send queue, and that of PDUs which are not acknowledged.
func (c *Conn) Rings() (sq, uhq *storage.Ring) { return c.sq, c.uhq }

// Tasks is how many are outstanding.
func (c *Conn) Tasks() int { return c.tasks }

// Info is the state of TCP: of a connection that has ended, as it was uploaded.
func (c *Conn) Info() toe.Info {
	if c.tcp != nil {
		return c.tcp.Info()
	}
	return c.info
}

// Offload hands an established connection to the firmware (offload_conn, OFFLOAD_CONN);
// upper goes on with its stream from its present offsets. INVAL: it is offloaded.
func (c *Conn) Offload(t *toe.TCB, upper toe.Handler) (*toe.Conn, error) {
	if c.state != acquired {
		return nil, c.wrong("offload")
	}
	p := &c.f.params
	t.Station = c.f.links.Station(t.Remote.Addr())
	c.station = t.Station
	t.Params.FinRetries, t.Params.KeepAliveProbes, t.Params.TOS = p.MaxFinRT, p.KAMaxProbes, p.TOS
	t.Params.TimeWait, t.Params.Override, t.Params.FinTimeout = p.TwoMSL, p.TxSWS, p.HalfWayClose
	c.queue = c.cid % p.Queues
	c.state = offloaded
	d := &Offload{SQ: c.sqAddr, UHQ: c.uhqAddr, Queue: c.queue, TCB: t, Upper: upper}
	if err := c.f.core.Post(c.cid, OffloadConn, d); err != nil {
		c.state = acquired
		return nil, err
	}
	c.f.events[EventOffload]++
	e := c.f.fw.ends[c.cid]
	c.tcp, e.taken = e.tcp, t.SndOff
	return c.tcp, nil
}

func (c *Conn) wrong(call string) error {
	return status.Inval.Errorf("%s: iSCSI connection %#x is %s", call, c.cid, c.State())
}

// Update tells the firmware what the login has agreed on (update_conn, UPDATE_CONN). INVAL:
// the connection is not offloaded.
func (c *Conn) Update(u Update) error {
	if c.state != offloaded && c.state != updated {
		return c.wrong("update")
	}
	if err := c.f.core.Post(c.cid, UpdateConn, &u); err != nil {
		return err
	}
	c.state, c.flags = updated, u.Flags
	c.f.events[EventUpdate]++
	return nil
}

// Stats asks for the counters of the connection (CONN_STATS).
func (c *Conn) Stats() (s Stats, err error) {
	if c.tcp == nil {
		return s, c.wrong("statistics")
	}
	err = c.f.core.Post(c.cid, ConnStats, &s)
	c.f.events[EventStats]++
	return s, err
}

// ClearSQ throws away what waits in the send queue (clear_sq, CLEAR_SQ), and returns how many
// PDUs that were. The session cannot go on: terminate it.
func (c *Conn) ClearSQ() (n int, err error) {
	if c.tcp == nil {
		return 0, c.wrong("clear SQ")
	}
	err = c.f.core.Post(c.cid, ClearSQ, &n)
	c.f.events[EventClearSQ]++
	return n, err
}

// Terminate ends the connection (TERMINATION_CONN): with a reset, or in order when all is
// sent. It returns the state of TCP at that time; the firmware tells of the end.
func (c *Conn) Terminate(abortive bool) (toe.Info, error) {
	if c.tcp == nil || c.state == terminating && !abortive {
		return c.info, c.wrong("terminate")
	}
	t := &Terminate{Abortive: abortive}
	if c.state == terminating { // an orderly end that takes too long
		c.tcp.Abort()
		return c.tcp.Info(), nil
	}
	c.state = terminating
	err := c.f.core.Post(c.cid, Termination, t)
	c.f.events[EventTerminate]++
	return t.Info, err
}

// wake tells the connections that wait for a task of one.
func (f *Function) wake() {
	for _, c := range slices.Clone(f.conns) {
		if w := c.wake; w != nil && f.tasks < f.params.Tasks {
			c.wake = nil
			w()
		}
	}
}

// gone says that the firmware has told of the end.
func (c *Conn) gone() {
	if c.tcp != nil {
		c.info, c.tcp = c.tcp.Info(), nil
	}
	c.state, c.f.tasks, c.tasks, c.wake = terminated, c.f.tasks-c.tasks, 0, nil
	c.f.wake()
	if c.released {
		_ = c.Release()
	}
}

// Release gives the connection back (release_conn). INVAL: it is neither terminated nor new.
func (c *Conn) Release() error {
	i := slices.Index(c.f.conns, c)
	if i < 0 || c.tcp != nil {
		return c.wrong("release")
	}
	c.f.conns = slices.Delete(c.f.conns, i, i+1)
	c.f.fw.Memory.Free(c.sqAddr)
	c.f.fw.Memory.Free(c.uhqAddr)
	return c.f.core.ReleaseCID(c.cid)
}

// ReleaseAtEnd releases the connection when it has ended.
func (c *Conn) ReleaseAtEnd() { c.released = true }

// Tasks is how many are outstanding.
func (f *Function) Tasks() int { return f.tasks }

// Queues are the rings of the function: cq 0, rq 0, cmdq 0, cq 1, ...
func (f *Function) Queues() []storage.Named { return f.queues.Rings() }

// Global is the address of the list of queues (glbl_q_params_addr).
func (f *Function) Global() uint64 { return f.queues.Global }

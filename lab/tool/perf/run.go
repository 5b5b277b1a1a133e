// Package perf runs RDMA workloads inside a NIC: the bandwidth and latency
// tests that perftest made the field's vocabulary, and a verified exchange.
//
// A workload is an event-driven state machine on completion and connection
// events. It owns no goroutine and no clock, so the same code runs on a TAP
// in real time and in virtual time.
package perf

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"tapir/lab/conf/perfconf"
	"tapir/nic"
	"tapir/nic/cm"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// How a run behaves in time.
const (
	progressEvery = time.Second
	// closeWithin is how long a graceful disconnect may take before the
	// connection is aborted, which the peer takes for a failure: longer than
	// it takes TCP to send a lost FIN for the third time.
	closeWithin = 10 * time.Second
)

// ctlSize is the largest control message: a SHA-256.
const ctlSize = 32

// workload is what a run does with its connections once they are up.
type workload interface {
	// prepare posts the receives that must stand before the peer sends.
	prepare(c *conn) error
	// begin starts the exchange; every connection is up.
	begin(now frame.Time) error
	// complete handles one successful completion.
	complete(c *conn, wc *verbs.WC, now frame.Time) error
	// closed says that the peer ended a connection in order.
	closed(now frame.Time) error
}

// side is what a workload knows of itself.
type side struct {
	run    *Run
	client bool
}

var errServerLeft = errors.New("the server closed the connection during the test")

func (s *side) begin(frame.Time) error { return nil }

// closed: a client has something to wait for; a server takes it for the end of
// the test, unless its own NIC is the reason.
func (s *side) closed(frame.Time) error {
	switch {
	case s.client:
		return errServerLeft
	case s.run.dev.Stopped():
		return errEarly
	}
	return nil
}

// work is the side's workload.
func (s side) work() workload {
	op := s.run.job.Op
	switch {
	case op.IsLatency():
		return &pingPong{side: s, writes: op == perfconf.WriteLat}
	case op == perfconf.Rping && s.client:
		return &rpingClient{side: s}
	case op == perfconf.Rping:
		return &rpingServer{side: s}
	case op == perfconf.Verify && s.client:
		return &verifyClient{side: s}
	case op == perfconf.Verify:
		return &verifyServer{side: s}
	case s.client:
		return &sender{side: s}
	}
	return &receiver{side: s}
}

// Run is one side of a test on one NIC. All its methods belong to the NIC's
// loop.
type Run struct {
	dev      *nic.Device
	job      perfconf.Job
	done     func(Report, error)
	progress func(Progress)

	pd       *verbs.PD
	cq       *verbs.CQ
	buf, ctl []byte
	mr       *verbs.MR // buf: the data
	ctlMR    *verbs.MR // ctl: control messages received
	undo     []func() error
	conns    []*conn
	up, gone int // connections established, ended
	listener *cm.Listener
	seed     uint64
	work     workload
	wcs      [64]verbs.WC

	started  frame.Time
	running  bool
	messages int64
	bytes    int64
	lat      samples
	line     timeline
	checks   []Check

	cancelTimer  func()
	cancelPoller func() // of what runs beside the connections: poller or timer
	ended        bool
	report       Report
	err          error
}

// conn is one connection of a run.
type conn struct {
	run    *Run
	index  int
	id     *cm.ID
	qp     *verbs.QP
	remote region
	closed bool

	posted, completed int64
	credits           int64
}

// Start begins one side of a job on d. done is called once, when the test is
// over and everything it made is gone; progress, which may be nil, once a
// second. Errors returned at once mean that nothing was begun.
func Start(d *nic.Device, job perfconf.Job, now frame.Time, done func(Report, error),
	progress func(Progress)) (*Run, error) {
	job = job.WithDefaults()
	if err := job.Validate(); err != nil {
		return nil, err
	}
	transport := job.Transport
	if job.SL != 0 { // which only RoCE has
		transport = verbs.RoCE.String()
	}
	if err := perfconf.Speaks(transport, d.Verbs.Identity()); err != nil {
		return nil, fmt.Errorf("%s: %w", job.Op, err)
	}
	r := &Run{dev: d, job: job, done: done, progress: progress, cancelTimer: func() {}, cancelPoller: func() {}}
	var err error
	if job.Serves() {
		err = r.listen()
	} else {
		err = r.connect(now)
	}
	if err != nil {
		r.free()
		return nil, err
	}
	return r, nil
}

// Measures tells whether the timed part of the test runs.
func (r *Run) Measures() bool { return r.running }

// Cancel ends the run early; done is called with an error.
func (r *Run) Cancel(now frame.Time) { r.finish(fmt.Errorf("%s: cancelled", r.job.Op), now) }

// allocate makes the objects that the job needs.
func (r *Run) allocate() (err error) {
	if r.pd, err = r.dev.Verbs.AllocPD(); err != nil {
		return err
	}
	r.undo = append(r.undo, r.pd.Dealloc)
	perQP := 3*r.job.Depth + 16
	if r.cq, err = r.dev.Verbs.CreateCQ(perQP*r.job.QPs, r.completions); err != nil {
		return err
	}
	r.undo = append(r.undo, r.cq.Destroy)
	r.cq.ReqNotify(false)
	r.buf, r.ctl = make([]byte, r.bufferSize()), make([]byte, ctlSize)
	if r.mr, err = r.register(r.buf, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead); err == nil {
		r.ctlMR, err = r.register(r.ctl, verbs.LocalWrite)
	}
	return err
}

func (r *Run) register(b []byte, access verbs.Access) (*verbs.MR, error) {
	mr, err := r.pd.RegMR(b, access)
	if err == nil {
		r.undo = append(r.undo, mr.Dereg)
	}
	return mr, err
}

// bufferSize is one message to receive into and, behind it, one to send from.
func (r *Run) bufferSize() int {
	size := r.job.Size
	if r.job.Op == perfconf.Verify {
		size = slices.Max(r.job.Sizes)
	}
	return 2 * max(size, finSize)
}

// target and source are the halves of the buffer.
func (r *Run) target() []byte { return r.buf[:len(r.buf)/2] }
func (r *Run) source() []byte { return r.buf[len(r.buf)/2:] }

func (r *Run) targetSGE(size int) verbs.SGE {
	return verbs.SGE{Addr: r.mr.Addr(), Length: uint32(size), LKey: r.mr.LKey()}
}

func (r *Run) sourceSGE(size int) verbs.SGE {
	return verbs.SGE{Addr: r.mr.Addr() + uint64(len(r.buf)/2), Length: uint32(size), LKey: r.mr.LKey()}
}

func (r *Run) ctlSGE() verbs.SGE {
	return verbs.SGE{Addr: r.ctlMR.Addr(), Length: ctlSize, LKey: r.ctlMR.LKey()}
}

func (r *Run) region() region {
	return region{STag: r.mr.RKey(), Addr: r.mr.Addr(), Len: uint64(len(r.target()))}
}

// addConn makes a queue pair and what stands behind it.
func (r *Run) addConn(index int) (*conn, error) {
	c := &conn{run: r, index: index}
	qp, err := r.pd.CreateQP(verbs.QPConfig{
		SendCQ: r.cq, RecvCQ: r.cq, MaxSend: r.job.Depth + 8, MaxRecv: 2*r.job.Depth + 8,
		MaxInline: ctlSize, SignalAll: true, Context: c,
	})
	if err != nil {
		return nil, err
	}
	c.qp = qp
	r.conns = append(r.conns, c)
	if err := qp.Modify(verbs.Init); err != nil {
		return nil, err
	}
	return c, r.work.prepare(c)
}

// connect is the client's side of set-up.
func (r *Run) connect(now frame.Time) error {
	if err := r.allocate(); err != nil {
		return err
	}
	r.seed = uint64(now)*0x9e3779b97f4a7c15 + 1
	r.work = side{run: r, client: true}.work()
	for i := range r.job.QPs {
		c, err := r.addConn(i)
		if err != nil {
			return err
		}
		c.id = r.dev.CM.NewID(r.event, c)
		params := cm.Params{QP: c.qp, PrivateData: r.hello(i), SL: r.job.SL}
		if err := c.id.Connect(netip.AddrPortFrom(r.job.Remote, r.job.Port), params, now); err != nil {
			return err
		}
	}
	return nil
}

// hello is the private data of the client's queue pair number i. The protocol
// of rping has none.
func (r *Run) hello(i int) []byte {
	if r.job.Op == perfconf.Rping {
		return nil
	}
	h := hello{
		Op: r.job.Op, Size: r.job.Size, Iters: r.job.Iters, Duration: r.job.Duration,
		QPs: r.job.QPs, QP: i, Depth: r.job.Depth, Sizes: r.job.Sizes, Seed: r.seed, Region: r.region(),
	}
	return h.encode()
}

// event handles what the connection manager says of a connection.
func (r *Run) event(ev cm.Event, now frame.Time) {
	switch ev.Type {
	case cm.ConnectRequest:
		r.request(ev, now)
		return
	case cm.DeviceRemoved: // also of the listener, without an ID
		r.finish(fmt.Errorf("%s: the NIC was removed during the test", r.job.Op), now)
		return
	}
	c, ok := ev.ID.Context.(*conn)
	if !ok { // a request that was turned down
		if ev.Type == cm.ClosedEvent {
			r.dev.Verbs.Defer(func(frame.Time) { _ = ev.ID.Destroy() })
		}
		return
	}
	switch ev.Type {
	case cm.ActiveComplete:
		r.welcome(c, ev, now)
	case cm.PassiveComplete:
		r.established(now)
	case cm.Rejected:
		r.finish(fmt.Errorf("%s: %s turned the test down: %s", r.job.Op, ev.ID.Remote(), refusal(ev.PrivateData)), now)
	case cm.Disconnected:
		r.disconnected(ev, now)
	case cm.ClosedEvent:
		c.closed = true
		if r.ended {
			r.finish(nil, now)
		}
	default:
		r.finish(fmt.Errorf("%s: connect to %s: %w", r.job.Op, ev.ID.Remote(), ev.Err), now)
	}
}

// disconnected waits for the last connection before it judges an orderly end:
// the final messages of the others may still be on their way.
func (r *Run) disconnected(ev cm.Event, now frame.Time) {
	err := ev.Err
	if r.gone++; err == nil && !r.ended {
		if r.gone < len(r.conns) {
			return
		}
		err = r.work.closed(now)
	}
	if err != nil {
		err = fmt.Errorf("%s: connection to %s ended: %w", r.job.Op, ev.ID.Remote(), err)
	}
	r.finish(err, now)
}

// established counts connections and begins when all are up.
func (r *Run) established(now frame.Time) {
	if r.up++; r.up < r.job.QPs || r.ended {
		return
	}
	r.started, r.running, r.line = now, true, newTimeline()
	r.tick(now)
	r.check(r.work.begin(now), now)
}

// check ends the test at an error.
func (r *Run) check(err error, now frame.Time) {
	if err != nil {
		r.finish(err, now)
	}
}

// moved counts a message of n octets.
func (r *Run) moved(n int) {
	r.messages++
	r.bytes += int64(n)
}

// deadline is when a test that begins now ends by its duration.
func (r *Run) deadline(now frame.Time) frame.Time {
	if r.job.Duration > 0 {
		return now.Add(r.job.Duration)
	}
	return frame.Never
}

// tick reports progress and sets itself up again.
func (r *Run) tick(now frame.Time) {
	if now != r.started && r.progress != nil {
		r.progress(r.soFar(now))
	}
	r.cancelTimer = r.dev.Schedule(now.Add(progressEvery), r.tick)
}

func (r *Run) soFar(now frame.Time) Progress {
	return Progress{Elapsed: now.Sub(r.started), Messages: r.messages, Bytes: r.bytes}
}

// note keeps how far the test has come.
func (r *Run) note(now frame.Time) {
	if r.running {
		r.line.note(r.soFar(now))
	}
}

// completions is the handler of the completion queue.
func (r *Run) completions(cq *verbs.CQ, now frame.Time) {
	for {
		n := cq.Poll(r.wcs[:])
		for i := range r.wcs[:n] {
			r.completion(&r.wcs[i], now)
		}
		r.note(now)
		if n == 0 && !cq.ReqNotify(false) {
			return
		}
	}
}

func (r *Run) completion(wc *verbs.WC, now frame.Time) {
	if r.ended {
		return
	}
	switch wc.Status {
	case verbs.StatusFlushed: // the connection event that follows says why
	case verbs.StatusSuccess:
		// The same is true of a request that comes just too late.
		if err := r.work.complete(wc.QP.Context.(*conn), wc, now); !errors.Is(err, verbs.ErrState) {
			r.check(err, now)
		}
	default:
		r.finish(fmt.Errorf("%s: QP %d, WR %d (%v): %v", r.job.Op, wc.QP.Num(), wc.ID, wc.Opcode, wc.Status), now)
	}
}

// measured ends the timed part of the test.
func (r *Run) measured(now frame.Time) {
	if !r.running {
		return
	}
	r.running = false
	r.report.Elapsed = now.Sub(r.started)
	r.line.finish(r.soFar(now))
	r.report.Progress = r.line.points
}

// finish begins the end, or takes it a step further: connections are closed,
// and when the last is gone everything is freed and done is called.
func (r *Run) finish(err error, now frame.Time) {
	if !r.ended {
		if err != nil && r.dev.Stopped() {
			err = fmt.Errorf("%s: the NIC was stopped during the test", r.job.Op)
		}
		r.ended = true
		r.err = err
		r.measured(now)
		r.cancelTimer()
		r.cancelPoller()
		r.closeListener()
		for _, c := range r.conns {
			r.disconnect(c, err != nil, now)
		}
		r.cancelTimer = r.dev.Schedule(now.Add(closeWithin), r.abort)
	}
	for _, c := range r.conns {
		if !c.closed && c.id != nil {
			return
		}
	}
	r.cancelTimer()
	r.cancelTimer = func() {}
	r.dev.Verbs.Defer(r.conclude)
}

// disconnect ends a connection, unless it has ended by itself: its last event
// may still be on its way then.
func (r *Run) disconnect(c *conn, abortive bool, now frame.Time) {
	if c.id == nil || c.id.State() == cm.Closed {
		return
	}
	if err := c.id.Disconnect(abortive, now); err != nil && r.err == nil {
		r.err = err
	}
}

// abort ends connections that did not close in time.
func (r *Run) abort(now frame.Time) {
	for _, c := range r.conns {
		r.disconnect(c, true, now)
	}
}

// conclude frees everything and hands the report over, once.
func (r *Run) conclude(frame.Time) {
	if r.done == nil {
		return
	}
	done := r.done
	r.done = nil
	if err := r.free(); err != nil && r.err == nil {
		r.err = err
	}
	r.fillReport()
	done(r.report, r.err)
}

func (r *Run) fillReport() {
	role := "client"
	if r.job.Serves() {
		role = "server"
	}
	rep := &r.report
	rep.Op, rep.Role, rep.Size, rep.QPs, rep.Depth = r.job.Op, role, r.job.Size, r.job.QPs, r.job.Depth
	rep.Messages, rep.Bytes = r.messages, r.bytes
	rep.Latency, rep.Checks = r.lat.latency(), r.checks
	if r.job.Op == perfconf.Verify {
		rep.Size = 0
	}
	rep.finish()
}

func (r *Run) closeListener() {
	if r.listener != nil {
		r.listener.Close()
		r.listener = nil
	}
}

// free destroys what was made: connections, then the objects behind them,
// latest first.
func (r *Run) free() error {
	r.closeListener()
	var errs []error
	for _, c := range r.conns {
		errs = append(errs, c.qp.Destroy())
		if c.id != nil {
			errs = append(errs, c.id.Destroy())
		}
	}
	for _, undo := range slices.Backward(r.undo) {
		errs = append(errs, undo())
	}
	r.conns, r.undo = nil, nil
	return errors.Join(errs...)
}

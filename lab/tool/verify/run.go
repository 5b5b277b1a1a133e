package verify

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"tapir/lab/conf/perfconf"
	"tapir/mpa"
	"tapir/nic"
	"tapir/nic/cm"
	"tapir/wire/frame"
)

// closeWithin is how long a graceful disconnect may take before the
// connection is aborted.
const closeWithin = 3 * time.Second

// Run is one side at work on one NIC. All its methods belong to the NIC's
// loop.
type Run struct {
	dev      *nic.Device
	job      Job
	steps    []step
	done     func(Report, error)
	listener *cm.Listener
	conns    []*conn
	served   int
	report   Report
	err      error
	ending   bool

	cancelTimer func()
}

// Start begins one side of a job on d. done is called once, when it is over
// and everything it made is gone. An error returned at once means that nothing
// was begun.
func Start(d *nic.Device, job Job, now frame.Time, done func(Report, error)) (*Run, error) {
	job = job.WithDefaults()
	if err := job.Validate(); err != nil {
		return nil, err
	}
	if err := perfconf.Speaks(job.Transport, d.Verbs.Identity()); err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	r := &Run{dev: d, job: job, done: done, report: Report{Role: "client"}, cancelTimer: func() {}}
	for _, s := range job.Steps {
		t, _ := parseStep(s) // Validate has read them
		r.steps = append(r.steps, t)
	}
	if job.Serves() {
		r.report.Role = "server"
		l, err := d.CM.Listen(netip.AddrPortFrom(netip.IPv6Unspecified(), job.Port), maxConns, r.event, nil)
		r.listener = l
		return r, err
	}
	if err := r.connect(now); err != nil {
		for _, c := range slices.Clone(r.conns) {
			err = errors.Join(err, r.free(c))
		}
		return nil, err
	}
	return r, nil
}

func (r *Run) connect(now frame.Time) error {
	for range r.job.Conns {
		c, err := r.newConn(clientReceives, clientReceive, false)
		if err != nil {
			return err
		}
		c.client = newClient(c)
		c.id = r.dev.CM.NewID(r.event, c)
		c.report.Remote = netip.AddrPortFrom(r.job.Remote, r.job.Port)
		p := cm.Params{QP: c.qp, PrivateData: private(r.job.ask(), r.job.Private), IRD: depth(r.job.IRD),
			ORD: depth(r.job.ORD)}
		if err := c.id.Connect(netip.AddrPortFrom(r.job.Remote, r.job.Port), p, now); err != nil {
			return err
		}
	}
	return nil
}

// depth turns a job's number of Reads into that of the connection manager.
func depth(n int) uint16 {
	if n == None {
		return cm.NoReads
	}
	return uint16(n)
}

// Finished is how many steps a client has finished, on all connections.
func (r *Run) Finished() (n int) {
	for _, c := range r.conns {
		n += len(c.report.Steps)
	}
	for i := range r.report.Conns {
		n += len(r.report.Conns[i].Steps)
	}
	return n
}

// Cancel ends the run early.
func (r *Run) Cancel(now frame.Time) {
	r.fail(errors.New("verify: cancelled"), now)
}

// fail ends the run; the first reason counts.
func (r *Run) fail(err error, now frame.Time) {
	r.err = cmp.Or(r.err, err)
	r.end(now)
}

// event handles what the connection manager says.
func (r *Run) event(ev cm.Event, now frame.Time) {
	switch ev.Type {
	case cm.ConnectRequest:
		r.request(ev, now)
		return
	case cm.DeviceRemoved: // also of the listener, without an ID
		r.fail(fmt.Errorf("%s: the NIC was removed during the test", Op), now)
		return
	}
	c, ok := ev.ID.Context.(*conn)
	if !ok { // a request that was turned down
		if ev.Type == cm.ClosedEvent {
			r.dev.Verbs.Defer(func(now frame.Time) { _ = ev.ID.Destroy(); r.gone(false, now) })
		}
		return
	}
	switch ev.Type {
	case cm.ActiveComplete:
		c.established(ev)
		c.client.begin(ev.PrivateData, now)
	case cm.PassiveComplete:
		c.report.IRD, c.report.ORD = ev.IRD, ev.ORD
	case cm.Rejected:
		c.established(ev)
		c.report.Rejected = cmp.Or(text(ev.PrivateData), "no reason given; "+r.asked())
	case cm.Disconnected:
		c.ended(ev.Err)
		if c.client != nil {
			c.client.gone(now)
		}
	case cm.ClosedEvent:
		r.dev.Verbs.Defer(func(now frame.Time) { r.closed(c, now) })
	default:
		c.ended(ev.Err)
	}
}

// asked is what this side's MPA request demands, which a peer may reject.
func (r *Run) asked() string {
	cfg := r.dev.Config().IWARP
	crc, markers := "on if the peer wants it", "none"
	switch {
	case cfg.CRC == mpa.CRCRequired:
		crc = "required"
	case cfg.CRC == mpa.CRCRefused:
		crc = "refused"
	}
	if cfg.Markers {
		markers = "demanded"
	}
	return fmt.Sprintf("asked for: MPA revision %d, CRC %s, markers %s", cmp.Or(cfg.Revision, 2), crc, markers)
}

// ended notes why the connection has ended, if not in order.
func (c *conn) ended(err error) {
	if err != nil {
		c.report.End = err.Error()
	}
}

// text is what a peer said, up to its final zero.
func text(b []byte) string {
	b, _, _ = bytes.Cut(b, []byte{0})
	return string(b)
}

// gone counts a connection that has ended, or was rejected. A server has then
// perhaps served all.
func (r *Run) gone(ours bool, now frame.Time) {
	if r.served++; !ours && r.served == r.job.Conns {
		r.end(now)
	}
	r.conclude()
}

// closed frees a connection of which nothing is left.
func (r *Run) closed(c *conn, now frame.Time) {
	if c.dead {
		return
	}
	r.err = cmp.Or(r.err, r.free(c))
	r.reported(&c.report)
	r.gone(c.client != nil, now)
}

// reported books a connection that has ended. Of many the last ones stay.
func (r *Run) reported(c *ConnReport) {
	if len(r.report.Conns) == maxConns {
		r.report.Conns = append(r.report.Conns[:0], r.report.Conns[1:]...)
		r.report.Omitted++
	}
	r.report.Conns = append(r.report.Conns, *c)
}

// free frees a connection, and the run forgets it.
func (r *Run) free(c *conn) error {
	r.conns = slices.DeleteFunc(r.conns, func(o *conn) bool { return o == c })
	return c.free()
}

// end closes what is open; conclude follows when all has gone.
func (r *Run) end(now frame.Time) {
	if r.ending {
		return
	}
	r.ending = true
	if r.listener != nil {
		r.listener.Close()
	}
	r.disconnect(false, now)
	r.cancelTimer = r.dev.Schedule(now.Add(closeWithin), func(now frame.Time) { r.disconnect(true, now) })
	r.dev.Verbs.Defer(func(frame.Time) { r.conclude() })
}

func (r *Run) disconnect(abortive bool, now frame.Time) {
	for _, c := range r.conns {
		if c.id != nil {
			_ = c.id.Disconnect(abortive, now) // one that has just ended needs none
		}
	}
}

// conclude hands the report over, once, when no connection is left.
func (r *Run) conclude() {
	if len(r.conns) > 0 || r.done == nil || r.job.Serves() && !r.ending {
		return
	}
	done := r.done
	r.done = nil
	r.cancelTimer()
	if !r.job.Serves() {
		r.judge()
	}
	if r.err != nil {
		r.report.Error = r.err.Error()
	}
	done(r.report, r.err)
}

// judge looks for a client's first failure.
func (r *Run) judge() {
	for i := range r.report.Conns {
		c := &r.report.Conns[i]
		f := c.failed()
		if c.Rejected != "" && !r.job.Reject {
			f = "rejected: " + c.Rejected
		}
		if c.Rejected == "" && r.job.Reject {
			f = "not rejected, though asked to be"
		}
		if f != "" {
			remote := netip.AddrPortFrom(r.job.Remote, r.job.Port)
			r.err = cmp.Or(r.err, fmt.Errorf("verify: connection to %s: %s", remote, f))
		}
	}
}

// Package nic is the big picture: Device composes a port, the Ethernet and IP
// layers, the TCP offload engine, the RDMA objects and iWARP or RoCE into one NIC.
//
// A Device is a pure state machine. Frames and the time go in through Receive,
// all output happens in Poll, which returns the next deadline, and handlers of
// applications run in Dispatch. It has no clock, goroutine or lock: a loop in
// real time, a lab in virtual time or a test script calls it on one thread.
//
// receive.go begins with the stages of the data path, in packet order.
package nic

import (
	"errors"
	"fmt"

	"tapir/nic/cm"
	"tapir/nic/hostfn"
	"tapir/nic/pacing"
	"tapir/nic/port"
	"tapir/nic/show"
	"tapir/nic/timer"
	"tapir/nic/transport"
	"tapir/nic/verbs"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// Device is one NIC.
type Device struct {
	// View are the parts of the NIC, and what there is to see of them: Verbs and
	// CM are the faces for applications.
	show.View
	// Queue are timers and pollers.
	timer.Queue

	cfg       Config
	pool      frame.Pool
	tcp       *transport.TCP
	roce      *transport.RoCE // nil: the personality is another one
	permanent ether.Addr      // the station address at the start

	os       hostfn.Function // the operating system's interface
	holds    bool            // the hardware may hold frames back for an interrupt
	rdma     *pacing.Node    // what the TCP engine may send
	received int             // frames of the NIC's own Ethernet queue in a batch

	stopped bool // Shutdown was called
	// called is when the call in progress began, for upcalls of the hardware.
	called frame.Time

	errFlush verbs.ErrFlush
}

// New returns a NIC that lives in env. It sends nothing before LinkUp or the
// first frame.
func New(cfg Config, env Env) (*Device, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("NIC %s: %w", cfg.Name, err)
	}
	switch {
	case env.Pool == nil || env.Wire == nil:
		return nil, errors.New("nic: Env needs a Pool and a Wire link")
	case (env.Host == nil) != (env.Reserver == nil):
		return nil, errors.New("nic: Env needs both of Host and Reserver, or neither")
	}
	if env.Host == nil {
		if err := cfg.needHost(); err != nil {
			return nil, fmt.Errorf("NIC %s: %w", cfg.Name, err)
		}
	}
	if env.Clock == nil {
		env.Clock = engineClock{}
	}
	seed := cfg.seed()
	phc, err := cfg.PHC.Clock(env.Clock, seed)
	if err != nil {
		return nil, fmt.Errorf("NIC %s: %w", cfg.Name, err)
	}
	d := &Device{cfg: cfg, pool: env.Pool, permanent: cfg.MAC, os: hostfn.None{}}
	d.Common = port.Common{PHC: phc, System: env.Clock}
	d.Wire = port.New(&d.Common, frame.Wire, env.Wire, env.Line)
	d.Wire.SetClasses(cfg.DCB.Values(), 0)
	d.Wire.SetPauseLimit(cfg.DCB.PauseLimit)
	d.Host = port.New(&d.Common, frame.Host, env.Host, nil)
	d.rdma = d.Wire.Sched.Port().Child(true).Class(0).Child(true)
	if err := d.compose(seed, &env); err != nil {
		return nil, fmt.Errorf("NIC %s: %w", cfg.Name, err)
	}
	if err := d.attach(&env); err != nil {
		return nil, fmt.Errorf("NIC %s: %w", cfg.Name, err)
	}
	return d, nil
}

// Config returns the configuration with its defaults filled in.
func (d *Device) Config() Config { return d.cfg }

// begin notes the time of a call.
func (d *Device) begin(now frame.Time) {
	d.called = now
	d.Common.Log.Begin(now)
	d.CM.Begin(now)
}

// Poll does all output that is due and returns when it wants to be called again,
// frame.Never if only a frame can change anything. While a link has no room it
// must be called again as soon as there is some.
func (d *Device) Poll(now frame.Time) frame.Time {
	d.begin(now)
	d.Common.Polling = true
	d.Wire.Begin(now)
	if d.Wire.Held() {
		admitReceived(d, now)
	}
	d.RunTimers(now)
	d.Hardware.Poll(now)
	d.IP.Poll(now)
	d.Wire.Flush(now)
	second := d.os.Poll(now)
	if d.Wire.Flow.Tx || d.Wire.PFC() {
		second = min(second, d.Wire.Relieve(d.os.Fill(), d.os.Buffers(), d.cfg.MAC, d.pool, now))
	}
	d.tcp.ReportLost(now)
	next := d.PTP.Poll(now) // before what fills the link
	if d.IWARP != nil {
		d.IWARP.Poll(now)
	}
	next = min(next, d.TCPEngine.Poll(now), d.FCoE.Poll(now), d.errFlush.Poll(d.Verbs, now),
		d.Hardware.Sent(d.Wire.TakeSent(), now))
	switch {
	case d.IWARP != nil:
		next = min(next, d.IWARP.Deadline())
	case d.roce != nil:
		next = min(next, d.roce.Poll(now))
	}
	d.Common.Polling = false
	if d.IP.TurnBack(now) || d.turnBack(now) || d.Verbs.Pending() || d.tcp.Pending() || d.os.Due() {
		return now
	}
	return min(next, second, d.Wire.NextRound(), d.NextTimer(), d.IP.Deadline())
}

// Dispatch runs the pollers and the queued handlers of applications and
// reports whether any handler ran.
func (d *Device) Dispatch(now frame.Time) bool {
	d.begin(now)
	d.RunPollers(now)
	return d.Verbs.Dispatch(now)
}

// TxDone reports when the wire frame with number id left, frame.Never if that
// is lost. True asks for another Poll: a stamp has changed what there is to do.
func (d *Device) TxDone(id uint64, at, now frame.Time) (again bool) {
	again = d.PTP.TxDone(id, at, now)
	if at != frame.Never {
		d.Wire.Stamped++
		d.Wire.LastSent = at
	}
	return again
}

// SetTracer hands every frame that passes a port to t from now on; nil stops.
func (d *Device) SetTracer(t frame.Tracer) { d.Common.SetTracer(d.Hardware.SetTracer(t)) }

// Shutdown begins the orderly end: nothing is accepted any more and every
// connection is closed, what is queued being sent first. Poll and Receive go
// on until Idle.
func (d *Device) Shutdown(now frame.Time) {
	d.begin(now)
	d.stopped = true
	d.FCoE.Stop(now)
	for _, l := range append([]*cm.Listener(nil), d.CM.Listeners()...) {
		l.Close()
	}
	for _, id := range append([]*cm.ID(nil), d.CM.IDs()...) {
		switch id.State() {
		case cm.Connected:
			_ = id.Disconnect(false, now) // an ID that is ending already stays so
		case cm.Connecting, cm.Requested, cm.Accepting:
			_ = id.Disconnect(true, now)
		}
	}
}

// Abort resets the connections that Shutdown has not closed: no peer is left waiting.
func (d *Device) Abort(now frame.Time) {
	d.begin(now)
	for _, id := range append([]*cm.ID(nil), d.CM.IDs()...) {
		_ = id.Disconnect(true, now) // one that is closed already stays so
	}
}

// Stopped reports whether Shutdown was called.
func (d *Device) Stopped() bool { return d.stopped }

// Idle reports whether no connection is open, except those that only wait
// for stray segments (TIME-WAIT), and nothing waits to be sent.
func (d *Device) Idle() bool {
	s := d.TCPEngine.Stats()
	return s.Open == s.TimeWait && d.Wire.Waiting() == 0 && d.os.Waiting() == 0 && !d.Verbs.Pending() &&
		d.FCoE.Idle()
}

// Close ends the NIC with its hardware, and returns what hinders it. A second call does nothing.
func (d *Device) Close(now frame.Time) error {
	d.begin(now)
	err := d.Hardware.Close(now)
	d.Wire.Leave()
	d.rdma.Parent().Parent().Remove()
	return err
}

package nic

import (
	"fmt"
	"time"

	"tapir/nic/ptp"
	"tapir/ptp/clock"
	"tapir/wire/frame"
)

// Names of those who may own the port's PTP unit.
const (
	hostFunction = "host"   // the driver of the host function
	ptpEngine    = "engine" // the NIC's own PTP instance
)

// stamping is the NIC's hardware clock and its PTP unit.
type stamping struct {
	phc     *clock.PHC
	port    ptp.Port
	host    *ptp.Unit
	observe func(on bool) error // may be nil
	on      bool                // somebody wants stamps of event messages
	faults  uint64              // of the instance's Tx stamps
	unseen  [2]uint64           // event messages that the observer missed, by direction
	again   bool                // a stamp came while Poll ran
	// sent are event messages that TxDone has not reported yet, a ring; none
	// while off.
	sent []sentEvent
	next int
}

// maxSent bounds the event messages that TxDone has not reported yet.
const maxSent = 64

// sentEvent is an event message on its way out of the wire port.
type sentEvent struct {
	frame  uint64 // its number; 0: free
	packet ptp.Packet
	// message is its number in the NIC's own instance; 0: somebody else's.
	message uint64
	sent    frame.Time // as the NIC knows it
	data    []byte     // the frame, while a capture runs
}

func (s *stamping) init(cfg *Config, env *Env) (err error) {
	if s.phc, err = cfg.newClock(env.Clock); err != nil {
		return err
	}
	s.observe = env.Observe
	s.host = ptp.New(&s.port, hostFunction, s.phc)
	s.host.Faults = cfg.PTP.faults()
	return nil
}

// PHC is the NIC's hardware clock.
func (d *Device) PHC() *clock.PHC { return d.stamping.phc }

// PTPOwner names who has the port's PTP unit: host, engine, or empty for
// nobody.
func (d *Device) PTPOwner() string { return d.stamping.port.Owner() }

// PTPUnit is the PTP unit as the host function's driver sees it, for display.
func (d *Device) PTPUnit() *ptp.Unit { return d.stamping.host }

// HWTimestamps is the PTP unit's present configuration.
func (d *Device) HWTimestamps() ptp.HWConfig { return d.stamping.host.Config() }

// SetHWTimestamps is SIOCSHWTSTAMP of the host function: it takes the port's
// PTP unit, programmes it, and answers with what holds now, which may be wider
// than what was asked. With both directions off the unit is given back. Errors
// are those of package ptp, and of the observer of the wire.
func (d *Device) SetHWTimestamps(c ptp.HWConfig, now frame.Time) (ptp.HWConfig, error) {
	u := d.stamping.host
	had := u.Enabled()
	if err := u.Enable(now); err != nil {
		return u.Config(), err
	}
	answer, err := u.Configure(c)
	off := err == nil && c.TxType == ptp.TxOff && c.Filter == ptp.FilterNone
	if err == nil && !off {
		err = d.look()
	}
	if off || err != nil && !had {
		u.Disable()
		if lerr := d.look(); err == nil {
			err = lerr
		}
	}
	return answer, err
}

// look starts or ends the observation of the wire.
func (d *Device) look() error {
	on := d.stamping.host.Enabled() || d.instance != nil
	if on == d.stamping.on {
		return nil
	}
	if d.stamping.observe != nil {
		if err := d.stamping.observe(on); err != nil {
			return err
		}
	}
	d.stamping.on, d.stamping.sent = on, nil
	if on {
		d.stamping.sent = make([]sentEvent, maxSent)
	}
	return nil
}

// RxStamp takes the hardware stamp of an event message that the host function
// received.
func (d *Device) RxStamp(id ptp.ID) (frame.Stamp, bool) { return d.stamping.host.RxStamp(id) }

// TxStamp takes the hardware stamp of an event message that the host function
// sent; waiting tells that it may still come.
func (d *Device) TxStamp(id ptp.ID) (s frame.Stamp, ok, waiting bool) {
	return d.stamping.host.TxStamp(id)
}

// passedAt is when f passed the wire: as the observer says, else now; Never
// for an event message that the observer missed.
func (d *Device) passedAt(f *frame.Frame) frame.Time {
	if f.Seen != 0 {
		return f.Seen
	}
	return d.now
}

// ptpCounters are the counters of event messages and their stamps; that of the
// Linux driver has its name.
func (d *Device) ptpCounters() []Counter {
	st := d.stamping.host.Stats()
	return []Counter{
		{"ptp_rx_stamps", st.RxStamps}, {"ptp_rx_missed", st.RxMissed}, {"ptp_rx_unseen", d.stamping.unseen[frame.Inbound]},
		{"ptp_tx_stamps", st.TxStamps}, {"ptp_skip_txts", st.TxSkipped}, {"ptp_tx_stale", st.TxStale},
		{"ptp_tx_unseen", d.stamping.unseen[frame.Outbound]}, {"ptp_tx_faults", st.Faults + d.stamping.faults},
	}
}

// sighted shows a frame that came in by the wire to the PTP unit.
func (d *Device) sighted(f *frame.Frame) {
	if f.Seen == frame.Never {
		d.stamping.unseen[frame.Inbound]++
	}
	if p, ok := ptp.Parse(f.Bytes()); ok {
		if s, ok := d.stamping.host.Received(p, d.passedAt(f)); ok && d.notes.On {
			d.noteStamp("rx", s)
		}
	}
}

// noteStamp says in the capture that a frame was stamped.
func (d *Device) noteStamp(dir string, s frame.Stamp) {
	d.notes.Addf("%s", stampText(dir, s))
}

func stampText(dir string, s frame.Stamp) string {
	return fmt.Sprintf("%s stamp %d.%09d", dir, int64(s)/int64(time.Second), int64(s)%int64(time.Second))
}

// request asks for the stamp of a frame of the host function.
func (d *Device) request(f *frame.Frame) {
	if p, ok := ptp.Parse(f.Bytes()); ok {
		d.stamping.host.Request(p, d.now)
	}
}

// expect notes that a frame for the wire, if an event message, will be
// reported by TxDone. True means that the capture gets it only then, with the
// time at which it was seen.
func (d *Device) expect(o *outgoing) (traced bool) {
	p, ok := ptp.Parse(o.f.Bytes())
	if !ok {
		return false
	}
	s := &d.stamping
	e := &s.sent[s.next]
	s.next = (s.next + 1) % len(s.sent)
	d.traceSent(e, frame.Never) // nobody has reported it
	e.frame, e.packet, e.message, e.sent = o.f.ID, p, o.message, d.now
	if d.tracer != nil {
		e.data = append(e.data, o.f.Bytes()...)
	}
	return d.tracer != nil
}

// traceSent gives the capture an event message that was seen at a time, Never
// if that is lost.
func (d *Device) traceSent(e *sentEvent, at frame.Time) {
	if d.tracer != nil && len(e.data) > 0 {
		text := "tx stamp lost"
		if at == frame.Never {
			at = e.sent
		} else {
			text = stampText("tx", d.stamping.phc.At(at))
		}
		d.tracer.Trace(&frame.Record{Port: frame.Wire, Dir: frame.Outbound, Data: e.data, Stamp: d.stamping.phc.At(at),
			System: d.system.At(at), ID: e.frame, Notes: frame.Say(text)})
	}
	e.data = e.data[:0]
}

// reported hands the time at which an event message left to those who wait
// for it. False means that the frame was none.
func (d *Device) reported(id uint64, at frame.Time) bool {
	for i := range d.stamping.sent {
		if e := &d.stamping.sent[i]; e.frame == id {
			if at == frame.Never {
				d.stamping.unseen[frame.Outbound]++
			}
			d.traceSent(e, at)
			e.frame = 0
			if e.message == 0 {
				d.stamping.host.Sent(e.packet, at)
			} else if d.instance != nil {
				d.instance.sent(e.message, at)
			}
			d.stamping.again = d.polling
			return true
		}
	}
	return false
}

// pollStamps lets what the PTP unit and the PTP instance wait for happen, and
// returns the next deadline.
func (d *Device) pollStamps() frame.Time {
	if !d.stamping.on {
		return frame.Never
	}
	next := d.stamping.host.Poll(d.now)
	if d.instance != nil {
		next = min(next, d.instance.Poll(d.now))
	}
	if d.stamping.again {
		d.stamping.again = false
		return d.now
	}
	return next
}

package nic

import (
	"tapir/nic/cm"
	"tapir/wire/frame"
)

// Shutdown begins the orderly end: nothing is accepted any more and every
// connection is closed, what is queued being sent first. Poll and Receive go
// on until Idle.
func (d *Device) Shutdown(now frame.Time) {
	d.begin(now)
	d.stopped = true
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

// Abort resets the connections that Shutdown has not closed, so that no peer
// is left waiting.
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
	return s.Open == s.TimeWait && d.Wire.Waiting() == 0 && d.os.Waiting() == 0 && !d.Verbs.Pending()
}

// Close ends the NIC with its hardware. What hinders it is returned, and does not
// keep it from closing. A second call does nothing.
func (d *Device) Close(now frame.Time) error {
	d.begin(now)
	err := d.Hardware.Close(now)
	d.Wire.Leave()
	d.rdma.Parent().Parent().Remove()
	return err
}

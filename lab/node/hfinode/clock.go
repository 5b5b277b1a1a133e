package hfinode

import (
	"encoding/binary"

	"tapir/lab/tool/ctl"
	"tapir/nic/param"
	"tapir/nic/port"
	"tapir/nic/ptp"
	"tapir/opa"
	"tapir/opa/hfi"
	"tapir/vnic"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// Env is what an HFI lives in.
type Env struct {
	Pool  frame.Pool
	Wire  frame.Link  // the fabric
	Clock frame.Clock // the system's time of day
	// Observe and Now are those of ptp.Env.
	Observe func(on bool) error
	Now     func() frame.Time
}

// compose makes the fabric side below the HFI port: what numbers, stamps and
// records the frames that leave, and the PTP unit.
func (h *HFI) compose(env *Env) error {
	guid := h.cfg.GUID
	phc, err := h.cfg.Clock.PHC.Clock(env.Clock, guid)
	if err != nil {
		return err
	}
	h.common = port.Common{PHC: phc, System: env.Clock}
	h.fabric = port.New(&h.common, frame.Wire, env.Wire, nil)
	h.PTP = ptp.NewService(ptp.Env{Product: h.cfg.Name, Seed: guid, Wire: h.fabric, Station: h.station,
		Inner: opa.Inner, Pool: env.Pool, Schedule: h.Schedule, Observe: env.Observe, Now: env.Now},
		h.cfg.Clock.PTP.Faults())
	h.port, err = hfi.New(hfi.Config{Name: h.cfg.Name, GUID: guid, LID: h.cfg.LID, PKeys: h.cfg.PKeys, MTU: h.cfg.MTU,
		Framing: h.cfg.Framing, ICRC: h.cfg.ICRC}, hfi.Env{Pool: env.Pool, Wire: fabricLink{h}})
	return err
}

// station is the address that the port's own PTP messages come from: that of its
// LID, or before it has one, of its GUID.
func (h *HFI) station() ether.Addr {
	if lid := h.port.LID(); lid != 0 {
		return lid.Outer()
	}
	a := ether.Addr{2}
	copy(a[1:], binary.BigEndian.AppendUint64(nil, h.cfg.GUID)[3:])
	return a
}

// fabricLink is the way of the HFI port to the fabric, within Poll.
type fabricLink struct{ h *HFI }

func (l fabricLink) Room() int { return l.h.fabric.Room() }

func (l fabricLink) Transmit(f *frame.Frame) { l.h.fabric.Send(port.Out{Frame: f}, l.h.now) }

// ReceiveFabric takes frames that came in from the fabric: PTP messages to the
// port itself are the PTP unit's, the rest is the HFI port's.
func (h *HFI) ReceiveFabric(frames []*frame.Frame, now frame.Time) {
	h.now = now
	if !h.PTP.On() {
		h.port.Receive(frames, now)
		return
	}
	for i, f := range frames {
		h.PTP.Sighted(f, now)
		if taken, r := h.PTP.Take(f, false, now); taken || r != frame.DropNone {
			f.ID, f.Stamp = h.port.Number(), h.common.PHC.At(port.StampedAt(f, now))
			notes, _ := h.common.Notes.Take()
			if r != frame.DropNone {
				h.common.Drops.Count(r)
			}
			h.fabric.Trace(frame.Inbound, f, notes, r, now)
			f.Release()
			continue
		}
		h.port.Receive(frames[i:i+1], now)
	}
}

// FromHost takes frames of the operating system for a vport.
func (h *HFI) FromHost(d *vnic.Netdev, frames []*frame.Frame, now frame.Time) {
	h.now = now
	if h.PTP.On() {
		for _, f := range frames {
			h.PTP.Request(f, now)
		}
	}
	d.Transmit(frames, now)
}

// Poll lets port, agents and the PTP unit send, then hands the hosts what came.
// It returns the next deadline.
func (h *HFI) Poll(now frame.Time) frame.Time {
	h.now = now
	h.common.Polling = true
	h.RunTimers(now)
	h.fabric.Flush(now)
	next := h.PTP.Poll(now)
	next = min(next, h.port.Poll(now), h.vports.Poll(now), h.NextTimer())
	h.common.Polling = false
	return next
}

// TxDone reports when the fabric frame with number id left, frame.Never if that is
// lost. True asks for another Poll.
func (h *HFI) TxDone(id uint64, at, now frame.Time) (again bool) {
	h.now = now
	return h.PTP.TxDone(id, at, now)
}

// SetTracer hands every frame that passes the fabric port to t, with stamps of the
// hardware clock, from now on; nil stops.
func (h *HFI) SetTracer(t frame.Tracer) {
	h.common.SetTracer(t)
	if h.port.SetTracer(nil); t != nil {
		h.port.SetTracer(received{h})
	}
}

// received records what the HFI port received, or could not send; what leaves, the
// fabric side below records.
type received struct{ h *HFI }

func (t received) Trace(r *frame.Record) {
	if r.Dir == frame.Outbound && r.Drop == frame.DropNone {
		return
	}
	c := &t.h.common
	at := frame.Time(r.Stamp)
	r.Stamp, r.System = c.PHC.At(at), c.System.At(at)
	if r.Dir == frame.Inbound {
		r.Notes, _ = c.Notes.Take()
	}
	c.Tracer().Trace(r)
}

// set changes settings, all or none.
func (h *HFI) set(settings []ctl.Setting) error {
	c := h.cfg.Clock
	for _, s := range settings {
		if err := param.Change(c.Params(), s.Name, s.Value); err != nil {
			return err
		}
	}
	h.cfg.Clock = c
	h.PTP.SetFaults(c.PTP.Faults())
	return nil
}

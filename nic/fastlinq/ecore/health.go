package ecore

import (
	"encoding/binary"
	"time"

	"tapir/nic/fastlinq/ecore/hw"
	"tapir/nic/fastlinq/ecore/rt"
	"tapir/nic/fastlinq/status"
	"tapir/nic/msglog"
	"tapir/wire/frame"
)

func hwDoorbell(h *Hwfn) uint32 { return hw.DoorbellAddr(h.alloc.spqCID) }

// Health is the health reporter "fw_fatal" of a device.
type Health struct {
	Errors     [numHWErrors]uint64
	Last       error // nil: healthy, or recovered
	LastKind   HWError
	Hwfn       int // that it was on
	Recoveries uint64
	Leaked     int // connection ids that were not released before resc_free
	Dump       []byte
}

// Total is the number of hardware errors.
func (h *Health) Total() (n uint64) {
	for _, e := range h.Errors {
		n += e
	}
	return n
}

// State is "healthy", "error", or "recovering".
func (d *Dev) HealthState() string {
	switch {
	case d.recovery:
		return "recovering"
	case d.health.Last != nil:
		return "error"
	}
	return "healthy"
}

// Health diagnoses the device.
func (d *Dev) Health() Health { return d.health }

// HWError reports a hardware error of a hwfn: the client is told, the first
// one leaves a dump. The other hwfn goes on.
func (h *Hwfn) HWError(kind HWError, err error) {
	d := h.dev
	d.health.Errors[kind]++
	d.cfg.Log.Say(msglog.Err, msglog.HW, "[%v] hardware error %v: %v", h, kind, err)
	if d.health.Last == nil {
		d.health.Last, d.health.LastKind, d.health.Hwfn = err, kind, h.Index
		d.health.Dump = h.GRCDump()
	}
	if d.cfg.Hooks.HWError != nil {
		d.cfg.Hooks.HWError(h, kind, err)
	}
}

// HealthDump is the dump of the reporter. Without one it is made now, and kept;
// nil before hw_prepare.
func (d *Dev) HealthDump() []byte {
	if d.health.Dump == nil && len(d.Hwfns) > 0 {
		d.health.Dump = d.Lead().GRCDump()
	}
	return d.health.Dump
}

// ClearHealthDump forgets it.
func (d *Dev) ClearHealthDump() { d.health.Dump = nil }

// GRCDump reads the blocks that the init tool writes: for each its name's
// length and name, then how many words follow, little endian, and they. Words
// at the end that are zero are left out.
func (h *Hwfn) GRCDump() []byte {
	var out []byte
	for _, b := range rt.Blocks {
		words := make([]uint32, b.Words)
		for i := range words {
			words[i] = h.engine.Regs.Read(b.Addr + uint32(4*i))
		}
		n := len(words)
		for n > 0 && words[n-1] == 0 {
			n--
		}
		out = append(append(out, byte(len(b.Name))), b.Name...)
		out = binary.LittleEndian.AppendUint32(out, uint32(n))
		for _, w := range words[:n] {
			out = binary.LittleEndian.AppendUint32(out, w)
		}
	}
	return out
}

// StartRecovery asks the client for a recovery, as the message ERROR_RECOVERY
// of the management firmware does. INVAL: the device does not run.
func (h *Hwfn) StartRecovery() error {
	if h.dev.state != Running {
		return status.Inval.Errorf("%v: recovery in state %v", h, h.dev.state)
	}
	if hook := h.dev.cfg.Hooks.ScheduleRecovery; hook != nil {
		hook(h)
	}
	return nil
}

// RecoveryProlog begins a recovery: from now on nothing is sent to the
// management firmware, and ramrods end as if they were done. The client goes on
// with HWStop, and loads again.
func (d *Dev) RecoveryProlog(now frame.Time) error {
	if d.state != Running || d.recovery {
		return status.Inval.Errorf("recovery in state %v", d.state)
	}
	d.now, d.recovery = now, true
	for _, h := range d.Hwfns {
		h.mfw.SetRecovery(now)
		h.alloc.spq.SetRecovery(true, now)
	}
	return nil
}

// Recovering tells whether a recovery is in progress.
func (d *Dev) Recovering() bool { return d.recovery }

// Recovered notes that the device runs again after a recovery.
func (d *Dev) Recovered() error {
	if d.state != Running || d.recovery {
		return status.Inval.Errorf("recovered in state %v", d.state)
	}
	d.health.Recoveries++
	d.health.Last = nil
	return nil
}

// Doorbells are rung again a few times after the chip has dropped some.
const (
	bellTries = 10
	bellEvery = 100 * time.Millisecond
)

// DoorbellOverflow is the attention of the doorbell queue: doorbells were
// dropped. All of them are rung again, ten times within a second.
func (h *Hwfn) DoorbellOverflow(now frame.Time) {
	h.bellsAgain(bellTries, now)
	if hook := h.dev.cfg.Hooks.DoorbellRecovery; hook != nil {
		hook(h)
	}
}

func (h *Hwfn) bellsAgain(left int, now frame.Time) {
	if h.alloc == nil || left == 0 {
		return
	}
	if err := h.alloc.bells.Execute(); err != nil {
		h.notice(msglog.HW, "%v", err)
	}
	h.dev.after(now, bellEvery, func(now frame.Time) { h.bellsAgain(left-1, now) })
}

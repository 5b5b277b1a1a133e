package ecore

import (
	"slices"

	"tapir/nic/fastlinq/ecore/cxt"
	"tapir/nic/fastlinq/ecore/hw"
	"tapir/nic/fastlinq/ecore/spq"
	"tapir/nic/fastlinq/status"
	"tapir/nic/msglog"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// ringSPQ is the doorbell of the slowpath queue.
func (h *Hwfn) ringSPQ(prod uint16) {
	if err := h.BAR.Doorbell(hwDoorbell(h), uint64(prod), 4); err != nil {
		h.notice(msglog.SPQ, "%v", err)
	}
}

// drain has the management firmware empty the chip for a ramrod that is late,
// for which it needs a window.
func (h *Hwfn) drain(now frame.Time, done func(now frame.Time, err error)) {
	h.dev.cfg.Log.Say(msglog.Info, msglog.SPQ, "[%v] ramrod is stuck, requesting drain", h)
	h.BAR.Acquire("drain", status.Again, now, func(p *hw.PTT, err error) {
		now := max(now, h.dev.now)
		if err != nil {
			done(now, err)
			return
		}
		h.mfw.Drain(now, func(now frame.Time, err error) {
			if bad := h.BAR.Release(p); err == nil {
				err = bad
			}
			done(now, err)
		})
	})
}

// eqCompletion is the slowpath's interrupt for the event queue.
func (h *Hwfn) eqCompletion(now frame.Time) {
	if h.alloc == nil {
		return
	}
	if err := h.alloc.eq.Complete(now); err != nil {
		h.notice(msglog.SPQ, "%v", err)
	}
}

// Post sends a ramrod on a running device. INVAL: it does not run.
func (h *Hwfn) Post(r spq.Request, now frame.Time) error {
	if h.alloc == nil || h.dev.state != Running && h.dev.call != "hw_stop" {
		return status.Inval.Errorf("%v: ramrod %d of %v in state %v", h, r.Cmd, r.Protocol, h.dev.state)
	}
	h.dev.now = now
	return h.alloc.spq.Post(r, now)
}

// Work lets the firmware execute what was posted, and tell what it has to tell.
func (h *Hwfn) Work(now frame.Time) { h.storm.run(now) }

// SlowpathCID is the connection of ramrods that are about no other.
func (h *Hwfn) SlowpathCID() int { return h.alloc.spqCID }

// Heartbeat sends the empty ramrod: whether the firmware lives.
func (h *Hwfn) Heartbeat(now frame.Time, done Done) {
	if h.dev.state != Running {
		done(now, status.Inval.Errorf("%v: heartbeat in state %v", h, h.dev.state))
		return
	}
	h.common(RamrodEmpty, nil, now, done)
}

// TestContext writes a pattern of cxt.ContextSize octets into the context of a free
// connection and has the firmware load and check it, by the ramrod EMPTY. With spoil a
// bit of the memory is wrong. IO: the firmware finds something else.
func (h *Hwfn) TestContext(pattern []byte, spoil bool, now frame.Time, done Done) {
	if h.dev.state != Running {
		done(now, status.Inval.Errorf("%v: test of a context in state %v", h, h.dev.state))
		return
	}
	contexts := h.alloc.cxt
	cid, err := contexts.Acquire(cxt.Core)
	if err != nil {
		done(now, err)
		return
	}
	info, err := contexts.CIDInfo(cid)
	if err == nil {
		copy(info.Context, pattern)
		if spoil {
			info.Context[len(info.Context)/2] ^= 1 << 5
		}
		err = h.Post(spq.Request{CID: cid, Cmd: RamrodEmpty, Protocol: cxt.Common, Data: pattern,
			Done: func(r spq.Result, now frame.Time) {
				if r.Err == nil && r.Code != codeDone {
					r.Err = status.IO.Errorf("%v: the context of connection %#x is not what was written", h, cid)
				}
				if bad := contexts.Release(cid); r.Err == nil {
					r.Err = bad
				}
				done(now, r.Err)
			}}, now)
	}
	if err != nil {
		h.notice(msglog.Obj, "%v", contexts.Release(cid))
		done(now, err)
	}
}

// Clock is the clock of a module: how often it has ticked, and its frequency.
type Clock struct {
	Module string
	MHz    int
	Ticks  uint64
}

// clocks are the modules of an engine that have a clock, with the frequencies of
// this model.
var clocks = [...]Clock{{Module: "MAIN", MHz: 375}, {Module: "STORM", MHz: 900}, {Module: "NIG", MHz: 425},
	{Module: "TIMERS", MHz: 25}}

// Clocks reads the clocks of the hwfn's modules.
func (h *Hwfn) Clocks(now frame.Time) []Clock {
	list := slices.Clone(clocks[:])
	for i := range list {
		list[i].Ticks = uint64(now) / 1000 * uint64(list[i].MHz)
	}
	return list
}

// UpdateTunnels changes the tunnels of a running device
// (sp_pf_update_tunn_cfg), on all hwfns.
func (d *Dev) UpdateTunnels(t Tunnels, now frame.Time, done Done) {
	if err := t.validate(); err != nil {
		done(now, err)
		return
	}
	steps, ok := d.steps("sp_pf_update_tunn_cfg", Running, now, done, func(h *Hwfn) []step {
		was := h.storm.tunnels
		return []step{{h.Index, "pf_update",
			func(now frame.Time, done Done) { h.common(RamrodPFUpdate, t, now, done) },
			func(now frame.Time, done func(frame.Time)) {
				h.common(RamrodPFUpdate, was, now, func(now frame.Time, _ error) { done(now) })
			}}}
	})
	if ok {
		d.run(steps, now, func(now frame.Time, err error) { d.end(Running, now, err, done) })
	}
}

// Outer is the outer VLAN tag that the port puts on all frames of a function, and takes
// from those that it gets; TPID 0: none. With Inner the priority of a frame's own VLAN
// tag goes into it (enable_stag_pri_change).
type Outer struct {
	Tag   ether.Tag
	Inner bool
}

// outer is the function's tag: an S-tag, or with UFP a C-tag.
func (h *Hwfn) outer() Outer {
	v := &h.info.OuterVLAN
	if mf := h.dev.cfg.Chip.MF; v.ID != 0 && mf == OVLAN {
		return Outer{ether.Tag{TPID: ether.TypeQinQ, TCI: v.ID}, true}
	} else if v.ID != 0 && mf == UFP {
		return Outer{ether.Tag{TPID: ether.TypeVLAN, TCI: uint16(v.TC)<<13 | v.ID}, v.OSPriority}
	}
	return Outer{}
}

// UpdateOuter changes the outer VLAN of a running device (sp_pf_update_stag, and
// sp_pf_update_ufp), on all hwfns.
func (d *Dev) UpdateOuter(v OuterVLAN, now frame.Time, done Done) {
	steps, ok := d.steps("sp_pf_update_stag", Running, now, done, func(h *Hwfn) []step {
		return []step{{h.Index, "pf_update", func(now frame.Time, done Done) {
			h.info.OuterVLAN = v
			h.common(RamrodPFUpdate, h.outer(), now, done)
		}, nil}}
	})
	if ok {
		d.run(steps, now, func(now frame.Time, err error) { d.end(Running, now, err, done) })
	}
}

// Tunnels are those that the firmware of the function recognises.
func (h *Hwfn) Tunnels() Tunnels { return h.storm.tunnels }

// RegisterAsync has fn take the events that the firmware of a protocol tells
// of itself (spq_register_async_cb).
func (h *Hwfn) RegisterAsync(p cxt.Protocol, fn spq.Handler) error {
	if h.alloc == nil {
		return status.Inval.Errorf("%v: no event queue in state %v", h, h.dev.state)
	}
	return h.alloc.eq.RegisterAsync(p, fn)
}

// UnregisterAsync ends that.
func (h *Hwfn) UnregisterAsync(p cxt.Protocol) {
	if h.alloc != nil {
		h.alloc.eq.UnregisterAsync(p)
	}
}

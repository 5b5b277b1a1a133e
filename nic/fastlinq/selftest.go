package fastlinq

import (
	"tapir/nic/fastlinq/irq"
	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/mfw/nvm"
	"tapir/nic/fastlinq/selftest"
	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

// Geometry of the memory that the selftest borrows.
const (
	testBlocks   = 32
	testBlockLen = 2048
)

// selftesting is a run of the selftests.
type selftesting struct {
	run   *selftest.Run // nil: none
	stuck *irq.Hwfn     // of which a register is; nil: none
}

// Selftest begins the selftests; done gets the report from a later Poll. With
// offline the wire is cut off for the time of the loopback test. BUSY: a run is
// under way.
func (d tools) Selftest(offline bool, done func(selftest.Report)) error {
	t := &d.selftest
	if t.run != nil {
		return status.Busy.Errorf("%s: a selftest runs", d.cfg.Name)
	}
	dev := &selftest.Device{Borrow: d.borrow, Images: d.images, BIST: d.bist, Counter: d.nic.ClockCounter,
		SetLoopback: func(on bool, _ frame.Time) { d.nic.Loop(on) },
		Send:        func(payload []byte, heard func([]byte), _ frame.Time) { d.nic.SendSelf(payload, heard) }}
	for _, h := range d.interrupts.dev.Hwfns {
		dev.Engines = append(dev.Engines, testEngine{h, &t.stuck})
	}
	t.run = selftest.Start(dev, offline, d.cfg.SelftestFault, func(r selftest.Report, _ frame.Time) {
		t.run = nil
		done(r)
	})
	return nil
}

// pollSelftest goes on with a run and returns when it wants to be called again.
func (d tools) pollSelftest(now frame.Time) frame.Time {
	t := &d.selftest
	next := frame.Never
	for range 2 { // what the first starts may end at once
		if t.run == nil {
			return next
		}
		next = t.run.Poll(now)
		d.interrupts.poll(now)
	}
	if d.nic.Looping() {
		return now
	}
	return next
}

// borrow takes frames from the pool: the memory that everything of a NIC
// passes through.
func (d tools) borrow() (blocks [][]byte, release func()) {
	var frames []*frame.Frame
	for range testBlocks {
		f := d.pool.Get(testBlockLen)
		if f == nil {
			break
		}
		frames = append(frames, f)
		blocks = append(blocks, f.Extend(testBlockLen))
	}
	return blocks, func() {
		for _, f := range frames {
			f.Release()
		}
	}
}

// images are those of the flash.
func (d tools) images() (list []selftest.Image, err error) {
	im, err := d.management.fw.NVM()
	if err != nil {
		return nil, err
	}
	for _, e := range im.Entries() {
		list = append(list, selftest.Image{Name: e.Type.String(), Data: im.Bytes(e), CRC: e.CRC,
			Skip: e.Type == nvm.TypeMdump})
	}
	return list, nil
}

// testEngine is a hwfn as the selftests want it.
type testEngine struct {
	h     *irq.Hwfn
	stuck **irq.Hwfn // whose register is
}

// Heartbeat implements selftest.Engine: an event behind a protocol index of the
// slowpath.
func (e testEngine) Heartbeat(now frame.Time, done func(frame.Time)) error {
	var pi int
	pi, err := e.h.RegisterCB(func(now frame.Time) {
		_ = e.h.UnregisterCB(pi) // it is registered: this is its call
		done(now)
	})
	if err == nil {
		e.h.SP().Event(pi, now)
	}
	return err
}

// MaskSlowpath implements selftest.Engine.
func (e testEngine) MaskSlowpath(on bool, now frame.Time) {
	state := irq.Disabled
	if on {
		state = irq.Stopped
	}
	e.h.SP().SetState(irq.Rx, state, now)
}

// StickRegister implements selftest.Engine.
func (e testEngine) StickRegister(on bool) {
	*e.stuck = nil
	if on {
		*e.stuck = e.h
	}
}

// testRegisters are those of each engine, for the management firmware; the
// lowest bit of one that is stuck stays zero when it is written to.
func (d tools) testRegisters() (lists [][]mfw.Register) {
	for _, h := range d.interrupts.dev.Hwfns {
		var list []mfw.Register
		for _, r := range h.Registers() {
			list = append(list, mfw.Register{Name: r.Name, Mask: r.Mask, Read: r.Read, Write: r.Write})
		}
		if d.selftest.stuck == h && len(list) > 0 {
			last := &list[len(list)-1]
			read, is, low := last.Read, last.Read(), last.Mask&-last.Mask
			last.Read = func() uint32 {
				if v := read(); v != is {
					return v &^ low
				}
				return is
			}
		}
		lists = append(lists, list)
	}
	return lists
}

// bist has the management firmware test the registers, and asks it why it
// failed.
func (d tools) bist(now frame.Time, done func(error)) {
	m := &d.management
	m.mcp.BIST(mfw.BISTRegister, now, func(err error) {
		if why := m.fw.BISTError(); status.Of(err) == status.IO && why != nil {
			err = why
		}
		done(err)
	})
	d.nic.Schedule(now, d.Manage)
}

// StickRegister has a register of a hwfn stuck, which the firmware's test finds;
// nil: none.
func (d tools) StickRegister(h *irq.Hwfn) { d.selftest.stuck = h }

package fastlinq

import (
	"tapir/nic/fastlinq/ecore"
	"tapir/nic/fastlinq/ecore/cxt"
	"tapir/nic/fastlinq/irq"
	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/mfw/nvm"
	"tapir/nic/fastlinq/selftest"
	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

// selftesting is a run of the selftests.
type selftesting struct {
	run   *selftest.Run // nil: none
	stuck int           // the engine of which a register is, from 1 on; 0: none
	skew  *irq.Hwfn     // of which a clock is fast; nil: none
}

// Selftest begins the selftests; done gets the report from a later Poll. With
// offline the wire is cut off for the time of the loopback test. BUSY: a run is
// under way.
func (d tools) Selftest(offline bool, done func(selftest.Report)) error {
	t := &d.selftest
	if t.run != nil {
		return status.Busy.Errorf("%s: a selftest runs", d.cfg.Name)
	}
	testing := false // light L2
	dev := &selftest.Device{Images: d.images, BIST: d.bist, Counter: d.nic.ClockCounter,
		SetLoopback: func(on bool, _ frame.Time) {
			if d.nic.Loop(on); !on && testing {
				d.light.test.cancel()
				testing = false
			}
		},
		Send: func(payload []byte, heard func([]byte), _ frame.Time) error {
			err := d.sendSelf(payload, heard)
			testing = err == nil
			return err
		}}
	for _, h := range d.interrupts.dev.Hwfns {
		dev.Engines = append(dev.Engines, testEngine{d.Device, h})
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
	d *Device
	h *irq.Hwfn
}

// core is the hwfn of the driver core; nil while there is none.
func (e testEngine) core() *ecore.Hwfn {
	if e.d.core.dev.State() != ecore.Running {
		return nil
	}
	return e.d.core.dev.Hwfns[e.h.Index()]
}

// Heartbeat implements selftest.Engine.
func (e testEngine) Heartbeat(now frame.Time, done func(frame.Time, error)) {
	e.ramrod(now, done, func(h *ecore.Hwfn) { h.Heartbeat(now, done) })
}

// ramrod posts one, and lets the core work.
func (e testEngine) ramrod(now frame.Time, done ecore.Done, post func(h *ecore.Hwfn)) {
	h := e.core()
	if h == nil {
		done(now, status.Inval.Errorf("the driver is not loaded"))
		return
	}
	post(h)
	e.d.nic.Schedule(now, e.d.Manage)
}

// TestContext implements selftest.Engine: each octet of the pattern is another, or
// its complement.
func (e testEngine) TestContext(flip, spoil bool, now frame.Time, done func(frame.Time, error)) {
	pattern := make([]byte, cxt.ContextSize)
	for i := range pattern {
		if pattern[i] = byte(i*37 + e.h.Index()); flip {
			pattern[i] ^= 0xff
		}
	}
	e.ramrod(now, done, func(h *ecore.Hwfn) { h.TestContext(pattern, spoil, now, done) })
}

// Clocks implements selftest.Engine.
func (e testEngine) Clocks(now frame.Time) (list []selftest.ModuleClock) {
	h := e.core()
	if h == nil {
		return nil
	}
	for i, c := range h.Clocks(now) {
		if e.d.selftest.skew == e.h && i == 0 {
			c.Ticks += c.Ticks / 100
		}
		list = append(list, selftest.ModuleClock(c))
	}
	return list
}

// SkewClock implements selftest.Engine.
func (e testEngine) SkewClock(on bool) {
	e.d.selftest.skew = nil
	if on {
		e.d.selftest.skew = e.h
	}
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
func (e testEngine) StickRegister(on bool) { e.d.StickRegister(e.h.Index(), on) }

// testRegisters are those of each engine, for the management firmware; the
// lowest bit of one that is stuck stays zero when it is written to.
func (d tools) testRegisters(test func([]mfw.Register)) {
	for engine := range d.interrupts.dev.Hwfns {
		d.onIRQ(engine, func(h *irq.Hwfn) {
			var list []mfw.Register
			for _, r := range h.Registers() {
				list = append(list, mfw.Register{Name: r.Name, Mask: r.Mask, Read: r.Read, Write: r.Write})
			}
			if d.selftest.stuck == engine+1 && len(list) > 0 {
				last := &list[len(list)-1]
				read, is, low := last.Read, last.Read(), last.Mask&-last.Mask
				last.Read = func() uint32 {
					if v := read(); v != is {
						return v &^ low
					}
					return is
				}
			}
			test(list)
		})
	}
}

// bist has the management firmware do a test, and asks it why it failed.
func (d tools) bist(t selftest.Test, now frame.Time, done func(error)) {
	m, number := &d.management, uint32(mfw.BISTRegister)
	if t == selftest.Clock {
		number = mfw.BISTClock
	}
	m.mcp.BIST(number, now, func(err error) {
		if why := m.fw.BISTError(); t == selftest.Registers && status.Of(err) == status.IO && why != nil {
			err = why
		}
		done(err)
	})
	d.nic.Schedule(now, d.Manage)
}

// StickRegister has a register of an engine stuck, which the firmware's test finds, or
// ends that.
func (d tools) StickRegister(engine int, on bool) {
	if d.selftest.stuck = 0; on {
		d.selftest.stuck = engine + 1
	}
}

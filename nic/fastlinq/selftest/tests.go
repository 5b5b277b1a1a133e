package selftest

import (
	"bytes"
	"hash/crc32"
	"time"

	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

// interrupt posts the ramrod EMPTY on every engine.
func (r *Run) interrupt(now frame.Time) error {
	if r.fault.Has(Interrupt) {
		r.dev.Engines[0].MaskSlowpath(true, now)
		r.leave = func(now frame.Time) { r.dev.Engines[0].MaskSlowpath(false, now) }
	}
	done := r.ramrods(len(r.dev.Engines), now)
	for _, e := range r.dev.Engines {
		e.Heartbeat(now, done)
	}
	return nil
}

// ramrods has the test wait for so many ramrods; each calls what it returns.
func (r *Run) ramrods(n int, now frame.Time) (done func(now frame.Time, err error)) {
	answers, failed := 0, error(nil)
	r.until = now.Add(answerWait)
	r.waits = func(frame.Time) (bool, error) {
		if answers > n {
			return true, status.IO.Errorf("%d completions of %d ramrods", answers, n)
		}
		return answers == n, failed
	}
	return func(_ frame.Time, err error) {
		if answers++; failed == nil {
			failed = err
		}
	}
}

// memory has the firmware of every engine check a pattern in the memory of a
// context, and the pattern's complement in another.
func (r *Run) memory(now frame.Time) error {
	done := r.ramrods(2*len(r.dev.Engines), now)
	for _, e := range r.dev.Engines {
		for _, flip := range []bool{false, true} {
			e.TestContext(flip, flip && r.fault.Has(Memory), now, done)
		}
	}
	return nil
}

// registers has the management firmware test the registers of every engine.
func (r *Run) registers(now frame.Time) error {
	if last := r.dev.Engines[len(r.dev.Engines)-1]; r.fault.Has(Registers) {
		last.StickRegister(true)
		r.leave = func(frame.Time) { last.StickRegister(false) }
	}
	r.bist(Registers, now)
	return nil
}

// bist has the management firmware do a test.
func (r *Run) bist(t Test, now frame.Time) {
	answered, outcome := false, error(nil)
	r.dev.BIST(t, now, func(err error) { answered, outcome = true, err })
	r.until = now.Add(bistWait)
	r.waits = func(frame.Time) (bool, error) { return answered, outcome }
}

// clockPart is the part of the time that the clock may be off, 1000 ppm: more
// than any crystal is.
const clockPart = 1000

// clock compares the hardware clock and those of the modules with the time for a
// while, then asks the management firmware.
func (r *Run) clock(now frame.Time) error {
	if last := r.dev.Engines[len(r.dev.Engines)-1]; r.fault.Has(Clock) {
		last.SkewClock(true)
		r.leave = func(frame.Time) { last.SkewClock(false) }
	}
	start, modules := now, r.modules(now)
	from, ppb := r.dev.Counter(now)
	r.until = now.Add(clockWait)
	r.waits = func(now frame.Time) (bool, error) {
		passed := int64(now.Sub(start))
		if passed < int64(clockWait) {
			return false, nil
		}
		for i, m := range r.modules(now) {
			ns := int64(m.Ticks-modules[i].Ticks) * 1000 / int64(m.MHz)
			if err := near(ns, passed, passed); err != nil {
				return true, status.IO.Errorf("module %s, %d MHz: %v", m.Module, m.MHz, err)
			}
		}
		// One that somebody has steered meanwhile runs.
		if ns, p := r.dev.Counter(now); p == ppb {
			if err := near(ns-from, passed+passed/1000*ppb/1_000_000, passed); err != nil {
				return true, status.IO.Errorf("the hardware clock: %v", err)
			}
		}
		r.bist(Clock, now)
		return r.waits(now)
	}
	return nil
}

// modules are the clocks of the modules of all engines.
func (r *Run) modules(now frame.Time) (list []ModuleClock) {
	for _, e := range r.dev.Engines {
		list = append(list, e.Clocks(now)...)
	}
	return list
}

// near tells whether a clock is off, in a time that passed.
func near(got, want, passed int64) error {
	if off := got - want; off > passed/clockPart || off < -passed/clockPart {
		return status.IO.Errorf("%v after %v", time.Duration(got), time.Duration(want))
	}
	return nil
}

// nvm checks the images of the flash.
func (r *Run) nvm(frame.Time) error {
	list, err := r.dev.Images()
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return status.NoEnt.Errorf("the NVM has no images")
	}
	for i, im := range list {
		if im.Skip {
			continue
		}
		data := im.Data
		if r.fault.Has(NVM) && len(data) > 0 {
			data = bytes.Clone(data)
			data[len(data)/2] ^= 1
		}
		if sum := crc32.ChecksumIEEE(data); sum != im.CRC {
			return status.IO.Errorf("image %d, %s: checksum %#08x, not %#08x", i, im.Name, sum, im.CRC)
		}
	}
	return nil
}

// testFrame is what the loopback test sends: 1.5 kB, octet i is i.
var testFrame = func() []byte {
	b := make([]byte, 1500-14)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}()

// loopback sends a frame to the NIC itself.
func (r *Run) loopback(now frame.Time) error {
	r.dev.SetLoopback(true, now)
	r.leave = func(now frame.Time) { r.dev.SetLoopback(false, now) }
	var heard, failed = false, error(nil)
	out := testFrame
	if r.fault.Has(Loopback) {
		out = bytes.Clone(out)
		out[len(out)/2] ^= 1
	}
	r.until = now.Add(frameWait)
	r.waits = func(frame.Time) (bool, error) { return heard, failed }
	return r.dev.Send(out, func(b []byte) {
		heard = true
		if !bytes.Equal(b, testFrame) {
			failed = status.IO.Errorf("the frame came back changed")
		}
	}, now)
}

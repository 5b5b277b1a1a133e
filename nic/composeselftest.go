package nic

import (
	"tapir/nic/fastlinq/irq"
	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/mfw/nvm"
	"tapir/nic/fastlinq/selftest"
	"tapir/nic/fastlinq/status"
	"tapir/nic/ip"
	"tapir/nic/port"
	"tapir/wire/ether"
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
	heard func(payload []byte)
	stuck *irq.Hwfn // of which a register is; nil: none
}

// Selftest begins the selftests; done gets the report from a later Poll. With
// offline the wire is cut off for the time of the loopback test. BUSY: a run is
// under way.
func (d *Device) Selftest(offline bool, done func(selftest.Report)) error {
	t := &d.selftest
	if t.run != nil {
		return status.Busy.Errorf("%s: a selftest runs", d.cfg.Name)
	}
	dev := &selftest.Device{Borrow: d.borrow, Images: d.images, BIST: d.bist, SetLoopback: d.setLoopback, Send: d.sendTest}
	for _, h := range d.interrupts.dev.Hwfns {
		dev.Engines = append(dev.Engines, testEngine{h, &t.stuck})
	}
	dev.Counter = func(now frame.Time) (ns, ppb int64) {
		return d.common.PHC.Counter(now), d.common.PHC.Frequency() * 1000 >> 16
	}
	t.run = selftest.Start(dev, offline, d.cfg.SelftestFault, func(r selftest.Report, _ frame.Time) {
		t.run = nil
		done(r)
	})
	return nil
}

// pollSelftest goes on with a run and returns when it wants to be called again.
func (d *Device) pollSelftest(now frame.Time) frame.Time {
	t := &d.selftest
	next := frame.Never
	for range 2 { // what the first starts may end at once
		if t.run == nil {
			return next
		}
		next = t.run.Poll(now)
		d.pollInterrupts()
	}
	if t.heard != nil && d.wire.Waiting() > 0 {
		return now // the loopback has room in the next Poll
	}
	return next
}

func (d *Device) setLoopback(on bool, _ frame.Time) {
	d.wire.Loopback(port.LoopSelftest, on)
	if !on {
		d.selftest.heard = nil
	}
}

// sendTest sends a frame to the NIC's own station.
func (d *Device) sendTest(payload []byte, heard func([]byte), now frame.Time) {
	f := d.pool.Get(ether.MaxHeaderLen + len(payload))
	if f == nil {
		return // the test says that nothing came
	}
	h := d.IP.Header()
	h.Dst, h.Type = d.cfg.MAC, ether.TypeLoopback
	f.Append(h.AppendTo(nil))
	f.Append(payload)
	d.selftest.heard = heard
	d.wire.Send(port.Out{Frame: f}, now)
}

// loopTest takes the frames of the loopback test.
type loopTest struct{ d *Device }

// Receive implements ip.Handler.
func (t loopTest) Receive(p *ip.Packet) ip.Verdict {
	if t.d.selftest.heard == nil || p.Ether.Src != t.d.cfg.MAC {
		return ip.Unmatched
	}
	b := p.Frame.Bytes()
	t.d.selftest.heard(b[p.Ether.Len():])
	return ip.Consumed
}

// borrow takes frames from the pool: the memory that everything of a NIC
// passes through.
func (d *Device) borrow() (blocks [][]byte, release func()) {
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
func (d *Device) images() (list []selftest.Image, err error) {
	im, err := d.management.fw.NVM()
	if err != nil {
		return nil, err
	}
	for _, e := range im.Entries() {
		list = append(list, selftest.Image{Name: e.Type.String(), Data: im.Bytes(e), CRC: e.CRC, Skip: e.Type == nvm.TypeMdump})
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
func (d *Device) testRegisters() (lists [][]mfw.Register) {
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
func (d *Device) bist(now frame.Time, done func(error)) {
	m := &d.management
	m.mcp.BIST(mfw.BISTRegister, now, func(err error) {
		if why := m.fw.BISTError(); status.Of(err) == status.IO && why != nil {
			err = why
		}
		done(err)
	})
	d.Schedule(now, d.Manage)
}

package fastlinq

import (
	"cmp"
	"fmt"
	"time"

	"tapir/nic/fastlinq/cmt"
	"tapir/nic/fastlinq/ecore"
	"tapir/nic/fastlinq/ecore/fw"
	"tapir/nic/fastlinq/irq"
	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/mfw/mcp"
	"tapir/nic/fastlinq/mfw/tlv"
	"tapir/nic/fastlinq/settings"
	"tapir/nic/hardware"
	"tapir/nic/linkmode"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// management is the NIC's management firmware with the driver's end of its
// mailboxes. The link that the firmware has is the port's.
type management struct {
	fw  *mfw.Firmware
	mcp *mcp.MCP
	// second is the mailbox of the second engine's half, whose link is the first's.
	second *mcp.MCP

	attention [cmt.Engines]bool // the firmware has a message
	partner   mfw.Partner       // with whom the port negotiates, unless a setting says so
	offer     offer
	managed   uint64 // how often
	closed    bool   // the NIC is, and the light is the TAP's owner's
	loaded    bool
	applied   struct {
		link    settings.Link
		board   settings.Board
		mac     ether.Addr
		mtu     int
		dcb     *settings.PortDCB // nil: as by default
		eSwitch mfw.ESwitch
	}
	flashing bool   // a file is on its way into the flash
	cancel   func() // of the timer for the next Poll
	hwErrors [mcp.HWErrFWAssert + 1]uint64
	events   struct {
		links, transceivers, recoveries, failures uint64
		dcb                                       map[mfw.Message]uint64
	}
	results [mcp.Protocols]mcp.Result // of DCBX
	lastErr error                     // of a call to the firmware
}

// driverVersion is what the driver says of itself, major.minor.build.drop.
const driverVersion = 0x01000000

// composeMFW opens the mailboxes and loads the driver.
func (d driver) composeMFW() error {
	m := &d.management
	m.fw = d.adapter.fw
	m.mcp = mcp.New(m.fw.Shared(), d.fn, d.port, mcp.Hooks{
		Link:        d.linkChanged,
		FillTLV:     d.fillTLV,
		Recovery:    d.recover,
		HWError:     d.hwError,
		Transceiver: func(mfw.TransceiverState, uint8) { m.events.transceivers++ },
		Outer: func(now frame.Time) {
			d.core.dev.UpdateOuter(outerOf(m.mcp.Info()), now, func(_ frame.Time, err error) { m.note(err) })
		},
		DCB:   d.dcbChanged,
		Stats: d.protocolStats,
	})
	if d.cfg.Engines > 1 {
		m.second = mcp.New(m.fw.Shared(), len(d.adapter.functions)+d.fn, d.adapter.cfg.Mode.Ports,
			mcp.Hooks{HWError: d.hwError})
	}
	if err := d.composeCore(); err != nil {
		return err
	}
	for e, h := range d.interrupts.dev.Hwfns {
		if err := h.HandleAttention(irq.AttnMFW, func(now frame.Time) { d.mfwAttention(e, now) }); err != nil {
			return err
		}
		if err := h.HandleAttention(irq.AttnDORQ, func(now frame.Time) { d.doorbellLost(e, now) }); err != nil {
			return err
		}
	}
	m.applied.board.Unloaded = true
	d.manage(d.now())
	if b := &d.cfg.Board; !m.loaded && !b.Unloaded && !b.Stuck {
		return fmt.Errorf("the driver does not load: %w", m.lastErr)
	}
	return nil
}

// MFW is the NIC's management firmware, MCP the driver's end of its mailboxes.
// After a call to either, Manage lets both work.
func (d driver) MFW() *mfw.Firmware { return d.management.fw }

// MCP is the driver's end.
func (d driver) MCP() *mcp.MCP { return d.management.mcp }

// Manage lets management firmware and driver work until neither has anything
// to do, and makes the link follow the configuration.
func (d driver) Manage(now frame.Time) {
	d.nic.Enter(now)
	was := d.nic.Active()
	d.manage(now)
	if !was && d.nic.Active() {
		d.nic.Announce()
	}
}

// manage is Manage without telling the neighbors.
func (d driver) manage(now frame.Time) {
	m := &d.management
	m.managed++
	if m.cancel != nil {
		m.cancel()
		m.cancel = nil
	}
	d.applyBoard(now)
	next := d.pump(now)
	if m.mcp.TLVRequested() { // noted in the interrupt
		m.mcp.ProcessTLVReq(now, m.note)
		next = d.pump(now)
	}
	if d.cfg.Board.Unloaded != m.applied.board.Unloaded { // a recovery
		d.applyBoard(now)
		next = d.pump(now)
	}
	d.shape()
	d.setLPI()
	d.answerOffer()
	if next != frame.Never {
		m.cancel = d.nic.Schedule(max(next, now), d.Manage)
	}
}

// pump polls both ends, and the driver core, until they are at rest. Each round
// does a command, a message or a ramrod, of which there are finitely many.
func (d driver) pump(now frame.Time) (next frame.Time) {
	m := &d.management
	for {
		if d.core.up && !d.core.open && !m.closed && !d.cfg.Board.Quiet {
			m.note(d.open(true))
		}
		before := m.commands()
		next = m.fw.Poll(now)
		rest := m.attention == [cmt.Engines]bool{}
		for e := range m.attention {
			if m.attention[e] {
				m.attention[e] = false
				d.interrupts.dev.Hwfns[e].AttnAssert(irq.AttnMFW, now)
			}
		}
		next = min(next, d.pollCore(now), m.mcp.Poll(now))
		if m.second != nil {
			next = min(next, m.second.Poll(now))
		}
		if rest && next > now && m.commands() == before {
			return next
		}
	}
}

// mfwAttention is the slowpath's handler of the firmware's attention to a hwfn,
// which ends with it.
func (d driver) mfwAttention(hwfn int, now frame.Time) {
	m := &d.management
	d.interrupts.dev.Hwfns[hwfn].AttnDeassert(irq.AttnMFW, now)
	mailbox := []*mcp.MCP{m.mcp, m.second}[hwfn]
	spurious := mailbox.Stats().Spurious
	if err := mailbox.HandleEvents(now); mailbox.Stats().Spurious == spurious {
		m.note(err) // one without a message is counted, and nothing else
	}
}

// commands counts those that were sent and answered.
func (m *management) commands() uint64 {
	n := m.fw.Stats().Commands + m.mcp.Stats().Commands
	if m.second != nil {
		n += m.second.Stats().Commands
	}
	return n
}

// note keeps the last error of a call that nobody waits for.
func (m *management) note(err error) {
	if err != nil {
		m.events.failures++
		m.lastErr = err
	}
}

// applyBoard makes the board and the driver what the configuration says. What
// is pushed comes after a load, and before an unload.
func (d driver) applyBoard(now frame.Time) {
	m, b, was := &d.management, d.cfg.Board, d.management.applied.board
	linkChanged := d.cfg.Link != m.applied.link || b.FanFailed != was.FanFailed
	m.applied.board, m.applied.link = b, d.cfg.Link
	if b.Stuck != was.Stuck {
		d.hang(b.Stuck, now)
	}
	if b.Chip != was.Chip {
		d.chipFaults(b.Chip)
	}
	if b.Chip&^was.Chip&settings.FaultCritical != 0 {
		m.fw.CriticalError()
	}
	if !b.Unloaded && was.Unloaded {
		d.load(ecore.OverrideNone, now)
	}
	d.faults(&was)
	d.push(b.WoL != was.WoL, now)
	switch {
	case b.Crashed && !was.Unloaded:
		m.loaded = false
		d.coreLost(now)
		d.nic.Carrier(hardware.Link{})
	case b.Unloaded && !was.Unloaded:
		d.unload(now)
	case b.Quiet != was.Quiet && m.loaded:
		d.quiet(b.Quiet, now)
	case linkChanged && m.loaded:
		d.setLink(now)
	}
	if m.loaded && !d.cfg.PortDCB().Equal(cmp.Or(m.applied.dcb, &settings.PortDCB{})) {
		d.setDCB(now)
	}
}

// quiet stops the fastpath, or starts it: nothing is received or sent meanwhile, and
// what goes by the slowpath does.
func (d driver) quiet(stop bool, now frame.Time) {
	m, dev := &d.management, d.core.dev
	if !stop {
		m.note(dev.HWStartFastpath())
		m.note(d.open(true))
		d.linkChanged(now)
		return
	}
	m.note(d.open(false))
	m.note(dev.HWStopFastpath())
	dev.HWTimersStopAll(now, func(_ frame.Time, err error) { m.note(err) })
	d.nic.Carrier(hardware.Link{})
}

// eSwitch is the mode of the embedded switch, which is between vports.
func (d driver) eSwitch() mfw.ESwitch {
	switch e := &d.cfg.Ethernet; {
	case len(e.Stations) == 0:
		return mfw.ESwitchNone
	case e.TxSwitching:
		return mfw.ESwitchVEB
	}
	return mfw.ESwitchVEPA
}

// push tells the firmware what the operating system's user has changed.
func (d driver) push(wol bool, now frame.Time) {
	m, was := &d.management, &d.management.applied
	mac, mtu := was.mac != d.cfg.MAC, was.mtu != d.cfg.MTU
	was.mac, was.mtu = d.cfg.MAC, d.cfg.MTU
	if mode := d.eSwitch(); mode != was.eSwitch {
		was.eSwitch = mode
		m.mcp.OVUpdateESwitch(mode, now, m.note)
	}
	if wol {
		w := mfw.WoLDisabled
		if d.cfg.Board.WoL {
			w = mfw.WoLEnabled
		}
		m.mcp.OVUpdateWoL(w, now, m.note)
	}
	if mac {
		m.mcp.OVUpdateMAC(d.cfg.MAC, now, m.note)
	}
	if mtu {
		m.mcp.OVUpdateMTU(uint16(d.cfg.MTU), now, m.note)
	}
	if wol || mac || mtu {
		m.mcp.OVUpdateCurrentConfig(mfw.ClientOS, now, m.note)
	}
}

// faults hands what has changed of the state of the board to the firmware.
func (d driver) faults(was *settings.Board) {
	m, b, l := &d.management, &d.cfg.Board, &d.cfg.Link
	if b.Temperature != was.Temperature {
		m.fw.SetTemperature(0, int32(cmp.Or(b.Temperature, settings.ChipTemperature)))
	}
	if b.Unplugged != was.Unplugged {
		m.fw.SetModule(d.port, !b.Unplugged)
	}
	if d.leads() {
		m.fw.SetPartner(d.port, cmp.Or(l.Partner, m.partner))
	}
	m.fw.SetBandwidth(d.fn, l.BandwidthMin, l.BandwidthMax)
	d.adapter.setOuter(d.fn, l)
	if b.FanFailed && !was.FanFailed {
		m.fw.FailFan()
	}
}

// Ability is what the port offers to the other end of its cable.
func (d driver) Ability() mfw.Partner { return d.management.fw.Ability(d.port) }

// Managed counts what may have changed Ability.
func (d driver) Managed() uint64 { return d.management.managed }

// offer is somebody who waits until the port offers something else than known.
type offer struct {
	known mfw.Partner
	done  func(mfw.Partner) // nil: nobody does
}

// Offer calls done with what the port offers to the other end of its cable as soon as
// that is not known. One waits at a time: who waited before is answered.
func (d driver) Offer(known *mfw.Partner, done func(mfw.Partner)) {
	m := &d.management
	if m.offer.done != nil {
		m.offer.done(d.Ability())
	}
	if m.offer = (offer{}); known == nil {
		done(d.Ability())
		return
	}
	m.offer = offer{*known, done}
	d.answerOffer()
}

// answerOffer answers who waits for another offer.
func (d driver) answerOffer() {
	m := &d.management
	if is := d.Ability(); m.offer.done != nil && is != m.offer.known {
		m.offer.done(is)
		m.offer = offer{}
	}
}

// Negotiate tells what the other end of the cable offers. Settings of a partner go
// before it.
func (d driver) Negotiate(other mfw.Partner, now frame.Time) {
	d.management.partner = other
	d.faults(&d.cfg.Board)
	d.Manage(now)
}

// Wake-up times of twisted pairs (IEEE 802.3 table 78-4, Tw_sys_tx).
const (
	wake1G  = 16500 * time.Nanosecond
	wake10G = 7360 * time.Nanosecond
)

// setLPI has the transmitter sleep when it has nothing to send, if both ends know EEE.
func (d driver) setLPI() {
	m := &d.management
	if !d.leads() {
		return
	}
	us, on := m.fw.LPI(d.port)
	wake := wake1G
	if m.mcp.LinkState().LineSpeed > linkmode.Speed1G.Mbps() {
		wake = wake10G
	}
	if !on {
		us, wake = 0, 0
	}
	d.sched.SetLPI(time.Duration(us)*time.Microsecond, wake)
}

// setLink asks for the link that the configuration wants.
func (d driver) setLink(now frame.Time) {
	m := &d.management
	d.lead().cfg.LinkParams(m.mcp.LinkParams(), m.mcp.Caps())
	m.mcp.SetLink(!d.cfg.Link.Down && !d.cfg.Board.FanFailed, now, m.note)
}

// load loads the driver: the driver core first, then what a driver says.
func (d driver) load(o ecore.Override, now frame.Time) {
	m := &d.management
	d.coreUp(ecore.LoadParams{Override: o, CrashKernel: d.cfg.Board.CrashKernel}, now, func(now frame.Time, err error) {
		m.note(err)
		if err != nil {
			return
		}
		values := []uint32{uint32(now / frame.Time(time.Second)), uint32(fw.Wanted), driverVersion}
		m.mcp.Mdump(mfw.MdumpSetValues, values, now, func(_ []byte, err error) { m.note(err) })
		m.mcp.Mdump(mfw.MdumpSetEnable, nil, now, func(_ []byte, err error) { m.note(err) })
		m.mcp.SendDrvVersion(driverVersion, "tapir", now, m.note)
		m.mcp.OVUpdateDriverState(mfw.DriverActive, now, m.note)
		m.loaded = true
		d.setLink(now)
		d.setDCB(now)
		d.chipFaults(d.cfg.Board.Chip)
	})
}

// unload unloads it: the link is given up first, and what the firmware makes
// of that is its own affair.
func (d driver) unload(now frame.Time) {
	m := &d.management
	m.loaded = false
	m.mcp.SetLink(false, now, m.note)
	d.coreDown(now, func(_ frame.Time, err error) { m.note(err) })
}

// hang lets the firmware hang, or resets it; a driver that has given up loads
// again.
func (d driver) hang(stuck bool, now frame.Time) {
	m := &d.management
	if stuck {
		to := m.fw.Faults()
		to.Hang = true
		m.fw.SetFaults(to)
		return
	}
	m.fw.Reset()
	d.again(now)
	d.adapter.neighbours(d.Device, func(o *Device) { o.again(now) })
}

// again loads a driver that has given the firmware up.
func (d driver) again(now frame.Time) {
	if d.management.mcp.Blocked() && !d.cfg.Board.Unloaded {
		d.coreLost(now)
		d.load(ecore.OverrideAlways, now)
	}
}

// linkChanged makes the port what the link is.
func (d driver) linkChanged(frame.Time) {
	m := &d.management
	m.events.links++
	s := m.mcp.LinkState()
	d.nic.Carrier(hardware.Link{Up: s.LinkUp, Looped: s.LinkUp && m.mcp.LinkParams().Loopback != mfw.LoopbackNone,
		Speed: int(s.LineSpeed), RxPause: s.RxFlowControl, TxPause: s.TxFlowControl})
	d.bridge.LinkChanged()
}

// recover is a process kill: the driver unloads without the firmware, and
// loads again.
func (d driver) recover(now frame.Time) {
	m := &d.management
	m.events.recoveries++
	m.loaded = false
	d.coreLost(now)
	for e := range d.cfg.Engines { // the other engine of the function is reset, too
		m.fw.FLR(d.fn + e*len(d.adapter.functions))
	}
	d.nic.Carrier(hardware.Link{})
	m.applied.board.Unloaded = true
}

// hwError counts a hardware error. With a fan that fails the link goes, by
// the configuration.
func (d driver) hwError(kind mcp.HWError, _ frame.Time) {
	d.management.hwErrors[kind]++
	d.report(kind)
}

// protocolStats are what the firmware asks for.
func (d driver) protocolStats(kind int, s *mfw.ProtocolStats) {
	t := d.nic.Traffic()
	switch kind {
	case mfw.StatsLAN:
		s.Rx, s.Tx = t.RxFrames, t.TxFrames
	case mfw.StatsISCSI:
		if d.iscsi != nil && d.iscsi.driver != nil {
			t := d.iscsi.driver.Totals()
			s.Rx, s.Tx, s.RxBytes, s.TxBytes = t.RxPDUs, t.TxPDUs, t.RxBytes, t.TxBytes
		}
	case mfw.StatsFCoE:
		d.fcoe.protocolStats(s)
		s.LoginFailures = uint32(t.LoginFailures)
	case mfw.StatsRDMA:
		s.Rx, s.Tx, s.RxBytes, s.TxBytes = t.RxMessages, t.TxMessages, t.RxPayload, t.TxPayload
	}
}

// fillTLV fills what a NIC knows of a group.
func (d driver) fillTLV(g tlv.Group, v *tlv.Values) {
	t := d.nic.Traffic()
	var values map[tlv.Type]uint64
	switch g {
	case tlv.Generic:
		v.SetBytes(tlv.LocalMAC, d.cfg.MAC[:])
		values = map[tlv.Type]uint64{tlv.FeatureFlags: b2n(d.cfg.Superframes) * 3, // checksums, and LSO
			tlv.DriverState: uint64(mfw.DriverActive), tlv.RxFrames: t.RxFrames, tlv.RxBytes: t.RxBytes,
			tlv.TxFrames: t.TxFrames, tlv.TxBytes: t.TxBytes}
	case tlv.Eth:
		values = map[tlv.Type]uint64{tlv.Promiscuous: b2n(d.host), tlv.NetQueues: uint64(d.cfg.Queues),
			tlv.OffloadedTCP4: uint64(t.Connections), tlv.IOVOffload: 0}
		if d.cfg.Superframes {
			values[tlv.LSOMaxSize], values[tlv.LSOMinSegments] = 0xffff, 2
		}
	}
	switch g {
	case tlv.ISCSI:
		values = d.iscsi.tlvs()
	case tlv.FCoE:
		values = d.fcoe.tlvs()
	}
	for typ, n := range values {
		v.Set(typ, n)
	}
}

func b2n(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

package fastlinq

import (
	"fmt"

	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/mfw/mcp"
	"tapir/nic/fastlinq/mfw/nvm"
	"tapir/nic/fastlinq/mfw/tlv"
	"tapir/nic/view"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// attributes collects rows.
type attributes []view.AttributeRow

func (a *attributes) add(name, format string, args ...any) {
	*a = append(*a, view.AttributeRow{Name: name, Value: fmt.Sprintf(format, args...)})
}

// onOff is a bool as ethtool writes it.
func onOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}

// ShowLink describes the port's link as the driver sees it, and why it is so.
func (d *Device) ShowLink() []view.AttributeRow {
	m := &d.management
	s, caps := m.mcp.LinkState(), m.mcp.Caps()
	var a attributes
	a.add("link", "%s", map[bool]string{true: "up", false: "down"}[s.LinkUp])
	a.add("media", "%v", m.mcp.Media())
	module, _ := m.mcp.Transceiver()
	a.add("transceiver", "%v", module)
	a.add("speed_caps", "%v", caps.SpeedCaps)
	a.add("line_speed", "%d", s.LineSpeed)
	a.add("speed", "%d", s.Speed)
	a.add("min_pf_rate", "%d", s.MinPFRate)
	a.add("duplex", "%s", map[bool]string{true: "full", false: "unknown"}[s.FullDuplex])
	a.add("autoneg", "%s", onOff(s.AN))
	a.add("autoneg_complete", "%s", onOff(s.ANComplete))
	a.add("parallel_detection", "%s", onOff(s.ParallelDetection))
	a.add("advertised", "%v", m.mcp.LinkParams().AdvertisedSpeeds)
	a.add("partner_speeds", "%v", s.PartnerAdvSpeed)
	a.add("partner_pause", "%s", [...]string{"none", "symmetric", "asymmetric", "both"}[s.PartnerAdvPause])
	a.add("pause_rx", "%s", onOff(s.RxFlowControl))
	a.add("pause_tx", "%s", onOff(s.TxFlowControl))
	a.add("loopback", "%v", m.mcp.LinkParams().Loopback)
	d.showEEE(&a, s, caps)
	a.add("sfp_tx_fault", "%s", onOff(s.SFPTxFault))
	a.add("transmitter", "%s", onOff(m.fw.Light(0)))
	a.add("link_change_count", "%d", m.mcp.LinkChangeCount())
	a.add("link_events", "%d", m.events.links)
	a.add("lfa_status", "%s", lfaReasons(m.mcp.LFA()))
	return a
}

func (d *Device) showEEE(a *attributes, s mcp.LinkState, caps mcp.LinkCaps) {
	if caps.EEESpeedCaps == 0 {
		a.add("eee", "not supported")
		return
	}
	e := d.management.mcp.LinkParams().EEE
	active := "inactive"
	if s.EEEActive {
		active = "active"
	}
	a.add("eee", "%s, %s", map[bool]string{true: "enabled", false: "disabled"}[e.Enable], active)
	a.add("eee_tx_lpi", "%s, %d us", onOff(e.TxLPIEnable), e.TxLPITimer)
	a.add("eee_advertised", "%v", s.EEEAdvCaps)
	a.add("eee_partner", "%v", s.EEELPAdvCaps)
}

// lfaReasons names why the link had to flap.
func lfaReasons(w uint32) string {
	names := [...]string{"LINK_DOWN", "FORCE_INIT", "LOOPBACK_MISMATCH", "SPEED_MISMATCH", "FLOW_CTRL_MISMATCH",
		"ADV_SPEED_MISMATCH", "EEE_MISMATCH", "LINK_MODES_MISMATCH"}
	s := ""
	for i, n := range names {
		if w>>i&1 != 0 {
			s += "," + n
		}
	}
	if s == "" {
		return "none"
	}
	return s[1:]
}

// version writes a.b.c.d.
func version(v uint32) string {
	return fmt.Sprintf("%d.%d.%d.%d", v>>24, v>>16&0xff, v>>8&0xff, v&0xff)
}

// ShowMFW describes the management firmware: its mailbox, what the driver has
// pushed, and the board that it looks after.
func (d *Device) ShowMFW(now frame.Time) []view.AttributeRow {
	m := &d.management
	var a attributes
	p, st, fw := m.fw.Pushed(0), m.mcp.Stats(), m.fw.Stats()
	a.add("version", "%s", version(m.mcp.Version()))
	a.add("mailbox", "%s", m.mailbox())
	a.add("driver_role", "%v", m.fw.Loaded(0))
	a.add("driver_state", "%v", p.State)
	a.add("driver", "%s, storm firmware %s", p.Driver, version(p.StormFW))
	a.add("mac", "%v", ether.Addr(p.MAC))
	a.add("mtu", "%d", p.MTU)
	a.add("wol", "%v", p.WoL)
	a.add("eswitch", "%v", p.ESwitch)
	a.add("led", "%v", m.fw.LED(0))
	m.mcp.Temperatures(now, func(list []mfw.Sensor, err error) {
		if m.note(err); err != nil {
			return
		}
		for _, s := range list {
			a.add(fmt.Sprintf("temperature[%d]", s.ID), "%d C, high %d, critical %d", s.Current, s.ThresholdHigh,
				s.CritHigh)
		}
	})
	d.Manage(now)
	i := m.mcp.Info()
	a.add("bandwidth", "%d%% to %d%%", i.BandwidthMin, i.BandwidthMax)
	a.add("commands", "%d", st.Commands)
	a.add("timeouts", "%d", st.Timeouts)
	a.add("aborted", "%d", st.Aborted)
	a.add("messages", "%d", st.Messages)
	a.add("spurious_attentions", "%d", st.Spurious)
	a.add("mcp_resets", "%d", fw.Resets)
	a.add("wakes", "%d", fw.Wakes)
	a.add("transceiver_events", "%d", m.events.transceivers)
	a.add("process_kills", "%d", m.mcp.ProcessKillCounter(0))
	for kind, n := range m.hwErrors {
		if n > 0 {
			a.add("hw_error "+mcp.HWError(kind).String(), "%d", n)
		}
	}
	if m.lastErr != nil {
		a.add("last_error", "%v", m.lastErr)
	}
	return a
}

func (m *management) mailbox() string {
	switch {
	case m.mcp.Blocked():
		return "blocked"
	case m.mcp.Recovering():
		return "recovery"
	case m.mcp.Pending() > 0:
		return fmt.Sprintf("%d pending", m.mcp.Pending())
	}
	return "ready"
}

// ShowNVM describes the flash: the images of its directory, or the one line
// that says what is damaged.
func (d *Device) ShowNVM() []view.NVMRow {
	im, err := d.management.fw.NVM()
	if err != nil {
		return []view.NVMRow{{State: err.Error()}}
	}
	list := make([]view.NVMRow, 0, len(im.Entries()))
	for _, e := range im.Entries() {
		r := view.NVMRow{Image: e.Type.String(), Offset: e.Offset, Length: e.Len, CRC: fmt.Sprintf("%08x", e.CRC),
			State: "good"}
		if nvm.Sum(im.Bytes(e)) != e.CRC {
			r.State = "damaged"
		}
		list = append(list, r)
	}
	return list
}

// ShowTLV lets the firmware ask for all that a function can tell, and shows
// what it was told.
func (d *Device) ShowTLV(now frame.Time) []view.TLVRow {
	m := &d.management
	var ask []tlv.Type
	for t := range tlv.NumTypes {
		if t.Group() != 0 {
			ask = append(ask, t)
		}
	}
	m.fw.AskTLV(0, tlv.Request(ask...))
	d.Manage(now)
	list := []view.TLVRow{}
	b, done := m.fw.TLVAnswer(0)
	if !done {
		return list
	}
	answer, err := tlv.Parse(b)
	m.note(err)
	for _, v := range answer {
		if v.Filled() {
			list = append(list, view.TLVRow{Group: v.Type.Group().String(), TLV: v.Type.String(), Value: tlvText(v)})
		}
	}
	return list
}

func tlvText(v tlv.TLV) string {
	switch v.Type {
	case tlv.LocalMAC, tlv.AdditionalMAC1, tlv.AdditionalMAC2:
		return ether.Addr(v.Value[:6]).String()
	}
	return fmt.Sprint(v.Uint())
}

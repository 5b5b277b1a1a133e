package fastlinq

import (
	"cmp"
	"fmt"
	"slices"

	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/mfw/mcp"
	"tapir/nic/fastlinq/mfw/nvm"
	"tapir/nic/fastlinq/mfw/tlv"
	"tapir/nic/view"
	"tapir/wire/enum"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// attribute is a row.
func attribute(name, format string, args ...any) view.AttributeRow {
	return view.AttributeRow{Name: name, Value: fmt.Sprintf(format, args...)}
}

// word is one of two words.
func word(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

// onOff is a bool as ethtool writes it.
func onOff(b bool) string { return word(b, "on", "off") }

// ShowLink describes the port's link as the driver sees it, and why it is so.
func (d display) ShowLink() []view.AttributeRow {
	m := &d.management
	s, caps := m.mcp.LinkState(), m.mcp.Caps()
	module, _ := m.mcp.Transceiver()
	return slices.Concat([]view.AttributeRow{
		attribute("link", "%s", word(s.LinkUp, "up", "down")),
		attribute("media", "%v", m.mcp.Media()),
		attribute("transceiver", "%v", module),
		attribute("speed_caps", "%v", caps.SpeedCaps),
		attribute("line_speed", "%d", s.LineSpeed),
		attribute("speed", "%d", s.Speed),
		attribute("min_pf_rate", "%d", s.MinPFRate),
		attribute("duplex", "%s", word(s.FullDuplex, "full", "unknown")),
		attribute("autoneg", "%s", onOff(s.AN)),
		attribute("autoneg_complete", "%s", onOff(s.ANComplete)),
		attribute("parallel_detection", "%s", onOff(s.ParallelDetection)),
		attribute("advertised", "%v", m.mcp.LinkParams().AdvertisedSpeeds),
		attribute("partner_speeds", "%v", s.PartnerAdvSpeed),
		attribute("partner_pause", "%s", [...]string{"none", "symmetric", "asymmetric", "both"}[s.PartnerAdvPause]),
		attribute("pause_rx", "%s", onOff(s.RxFlowControl)),
		attribute("pause_tx", "%s", onOff(s.TxFlowControl)),
		attribute("loopback", "%v", m.mcp.LinkParams().Loopback),
	}, d.showEEE(s, caps), []view.AttributeRow{
		attribute("sfp_tx_fault", "%s", onOff(s.SFPTxFault)),
		attribute("transmitter", "%s", onOff(m.fw.Laser(d.port))),
		attribute("link_change_count", "%d", m.mcp.LinkChangeCount()),
		attribute("link_events", "%d", m.events.links),
		attribute("lfa_status", "%s", lfaReasons(m.mcp.LFA())),
	})
}

func (d display) showEEE(s mcp.LinkState, caps mcp.LinkCaps) []view.AttributeRow {
	if caps.EEESpeedCaps == 0 {
		return []view.AttributeRow{attribute("eee", "not supported")}
	}
	e := d.management.mcp.LinkParams().EEE
	return []view.AttributeRow{
		attribute("eee", "%s, %s", word(e.Enable, "enabled", "disabled"), word(s.EEEActive, "active", "inactive")),
		attribute("eee_tx_lpi", "%s, %d us", onOff(e.TxLPIEnable), e.TxLPITimer),
		attribute("eee_advertised", "%v", s.EEEAdvCaps),
		attribute("eee_partner", "%v", s.EEELPAdvCaps),
	}
}

// lfaReasons names why the link had to flap.
func lfaReasons(w uint32) string {
	names := [...]string{"LINK_DOWN", "FORCE_INIT", "LOOPBACK_MISMATCH", "SPEED_MISMATCH", "FLOW_CTRL_MISMATCH",
		"ADV_SPEED_MISMATCH", "EEE_MISMATCH", "LINK_MODES_MISMATCH"}
	return cmp.Or(enum.Bits(names[:], w), "none")
}

// version writes a.b.c.d.
func version(v uint32) string {
	return fmt.Sprintf("%d.%d.%d.%d", v>>24, v>>16&0xff, v>>8&0xff, v&0xff)
}

// ShowMFW describes the management firmware: its mailbox, what the driver has
// pushed, and the board that it looks after.
func (d display) ShowMFW(now frame.Time) []view.AttributeRow {
	m := &d.management
	p, st, fw, mailbox := m.fw.Pushed(d.fn), m.mcp.Stats(), m.fw.Stats(), m.mailbox()
	var sensors []mfw.Sensor
	m.mcp.Temperatures(now, func(list []mfw.Sensor, err error) {
		m.note(err)
		sensors = list
	})
	m.fw.AskStats(d.fn, mfw.StatsLAN)
	m.fw.AskStats(d.fn, mfw.StatsRDMA)
	d.Manage(now)
	lan, rdma := m.fw.ProtocolStats(d.fn, mfw.StatsLAN), m.fw.ProtocolStats(d.fn, mfw.StatsRDMA)
	rows := []view.AttributeRow{
		attribute("version", "%s", version(m.mcp.Version())),
		attribute("mailbox", "%s", mailbox),
		attribute("driver_role", "%v", m.fw.Loaded(d.fn)),
		attribute("driver_state", "%v", p.State),
		attribute("driver", "%s, storm firmware %s", p.Driver, version(p.StormFW)),
		attribute("mac", "%v", ether.Addr(p.MAC)),
		attribute("mtu", "%d", p.MTU),
		attribute("wol", "%v", p.WoL),
		attribute("eswitch", "%v", p.ESwitch),
		attribute("led", "%v", m.fw.LED(d.port)),
	}
	for _, s := range sensors {
		rows = append(rows, attribute(fmt.Sprintf("temperature[%d]", s.ID), "%d C, high %d, critical %d", s.Current,
			s.ThresholdHigh, s.CritHigh))
	}
	i := m.mcp.Info()
	rows = append(rows,
		attribute("bandwidth", "%d%% to %d%%", i.BandwidthMin, i.BandwidthMax),
		attribute("lan_stats", "%d frames received, %d sent", lan.Rx, lan.Tx),
		attribute("rdma_stats", "%d messages received, %d sent", rdma.Rx, rdma.Tx),
		attribute("commands", "%d", st.Commands),
		attribute("timeouts", "%d", st.Timeouts),
		attribute("aborted", "%d", st.Aborted),
		attribute("messages", "%d", st.Messages),
		attribute("spurious_attentions", "%d", st.Spurious),
		attribute("mcp_resets", "%d", fw.Resets),
		attribute("wakes", "%d", fw.Wakes),
		attribute("transceiver_events", "%d", m.events.transceivers),
		attribute("process_kills", "%d", m.mcp.ProcessKillCounter(d.path)))
	if i.OVLAN != mfw.NoOVLAN {
		rows = append(rows, attribute("ovlan", "%d, %d updates", i.OVLAN, m.fw.STagAcks(d.fn)))
	}
	for kind, n := range m.hwErrors {
		if n > 0 {
			rows = append(rows, attribute("hw_error "+mcp.HWError(kind).String(), "%d", n))
		}
	}
	rows = append(rows, d.mdump(now)...)
	if m.lastErr != nil {
		rows = append(rows, attribute("last_error", "%v", m.lastErr))
	}
	return rows
}

// mdump describes the crash dump: how many logs there are, and what has outlived the
// last.
func (d display) mdump(now frame.Time) (rows []view.AttributeRow) {
	m := d.management.mcp
	m.Mdump(mfw.MdumpGetConfig, nil, now, func(b []byte, err error) {
		if d.management.note(err); err == nil {
			c := mfw.DecodeMdumpConfig(b)
			rows = append(rows, attribute("mdump", "%s, %d of %d logs", onOff(c.Config != 0), c.ValidLogs, c.MaxLogs))
		}
	})
	m.Mdump(mfw.MdumpGetRetain, nil, now, func(b []byte, err error) {
		if d.management.note(err); err == nil {
			r := mfw.DecodeMdumpRetain(b)
			rows = append(rows, attribute("mdump_retained", "%s, epoch %d, status %d",
				word(r.Valid != 0, "valid", "none"), r.Epoch, r.Status))
		}
	})
	d.Manage(now)
	return rows
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
func (d display) ShowNVM() []view.NVMRow {
	im, err := d.management.fw.NVM()
	if err != nil {
		return []view.NVMRow{{State: err.Error()}}
	}
	list := make([]view.NVMRow, 0, len(im.Entries()))
	for _, e := range im.Entries() {
		list = append(list, view.NVMRow{Image: e.Type.String(), Offset: e.Offset, Length: e.Len,
			CRC: fmt.Sprintf("%08x", e.CRC), State: word(nvm.Sum(im.Bytes(e)) == e.CRC, "good", "damaged")})
	}
	return list
}

// ShowTLV lets the firmware ask for all that a function can tell, and shows
// what it was told.
func (d display) ShowTLV(now frame.Time) []view.TLVRow {
	m := &d.management
	var ask []tlv.Type
	for t := range tlv.NumTypes {
		if t.Group() != 0 {
			ask = append(ask, t)
		}
	}
	m.fw.AskTLV(d.fn, tlv.Request(ask...))
	d.Manage(now)
	list := []view.TLVRow{}
	b, done := m.fw.TLVAnswer(d.fn)
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

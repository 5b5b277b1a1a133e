package fastlinq

import (
	"fmt"
	"strings"

	"tapir/nic/dcb"
	"tapir/nic/dcbx"
	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/mfw/mcp"
	"tapir/nic/fastlinq/settings"
	"tapir/nic/lldp"
	"tapir/nic/view"
	"tapir/wire/frame"
)

// ShowLLDP describes the agents of the port and its neighbors.
func (d display) ShowLLDP(now frame.Time) (rows []view.LLDPInfo) {
	agents := d.management.fw.Agent(d.port).LLDP()
	for s := range lldp.Scopes {
		p, st := agents.Params(s), agents.Stats(s)
		row := view.LLDPInfo{Agent: s.String(), State: word(p.Rx || p.Tx, "on", "off"), Interval: p.Interval,
			TTL: p.TTL(), TxFrames: st.TxFrames, RxFrames: st.RxFrames, RxErrors: st.RxErrors, RxTooMany: st.RxTooMany,
			TLVsUnrecognized: st.TLVsUnrecognized, Ageouts: st.Ageouts, NoBuffer: st.NoBuffer}
		for i, n := range agents.Neighbors(s) {
			if i > 0 { // the agent's own columns are told once
				row = view.LLDPInfo{Agent: s.String()}
			}
			row.Chassis, row.Port, row.System = n.PDU.Chassis.String(), n.PDU.Port.String(), n.PDU.SystemName
			row.Expires = int64(n.Until.Sub(now).Seconds())
			if m := n.PDU.MACPHY; m != nil {
				row.MAUType = m.MAU
			}
			rows = append(rows, row)
		}
		if len(agents.Neighbors(s)) == 0 {
			rows = append(rows, row)
		}
	}
	return rows
}

// ShowDCB describes DCBX: what is administered, what the neighbor has told, what the
// port acts on, and what has come of it for each protocol.
func (d display) ShowDCB() (rows []view.AttributeRow) {
	m := &d.management
	for _, kind := range []struct {
		name string
		mib  mcp.MIB
	}{{"local", mcp.LocalMIB}, {"remote", mcp.RemoteMIB}, {"oper", mcp.OperationalMIB}} {
		x, err := m.mcp.DCBXQueryParams(kind.mib)
		if err != nil {
			rows = append(rows, attribute(kind.name, "%v", err))
			continue
		}
		version := x.Version.String()
		for _, is := range []struct {
			is   bool
			what string
		}{{x.Static, "static"}, {x.TooMany, "too many neighbors"}, {x.Synced, "acknowledged"}} {
			if is.is {
				version += ", " + is.what
			}
		}
		rows = append(rows, attribute(kind.name+"_dcbx", "%s", version))
		if x.Version != dcbx.Disabled {
			rows = append(rows, valueRows(kind.name, &x.Values)...)
		}
	}
	m.fw.Agent(d.port) // whose IDs are shown
	ids := func(name string, kind mcp.MIB) {
		x, err := m.mcp.DCBXQueryParams(kind)
		for s := range lldp.Scopes {
			if i := x.LLDP[s]; err == nil && i.Known {
				rows = append(rows, attribute(name+"_lldp_"+s.String(), "chassis %v, port %v", i.Chassis, i.Port))
			}
		}
	}
	ids("local", mcp.LocalLLDPMIB)
	ids("remote", mcp.RemoteLLDPMIB)
	for p := range mcp.Protocols {
		if r := m.results[p]; r.Enable {
			rows = append(rows, attribute("protocol_"+p.String(), "priority %d, tc %d%s", r.Priority, r.TC,
				word(r.DSCPOn, fmt.Sprintf(", dscp %d", r.DSCP), "")))
		}
	}
	for _, e := range d.lead().cfg.DCB.DSCP {
		if prio, err := m.mcp.DCBXGetDSCPPriority(int(e.DSCP)); err == nil {
			rows = append(rows, attribute(fmt.Sprintf("dscp_%d", e.DSCP), "priority %d", prio))
		}
	}
	if x, err := m.mcp.DCBXQueryParams(mcp.LLDPTLVs); err == nil && x.TLVs != nil {
		rows = append(rows, attribute("lldp_tlvs_received", "%x", x.TLVs))
	}
	for _, kind := range []mfw.Message{mfw.MsgLLDPDataUpdated, mfw.MsgDCBXRemoteMIB, mfw.MsgDCBXOperationalMIB,
		mfw.MsgLLDPReceivedTLVs} {
		rows = append(rows, attribute("messages_"+strings.ToLower(kind.String()), "%d", m.events.dcb[kind]))
	}
	return rows
}

// valueRows are the values of a MIB, in the form of the settings.
func valueRows(name string, v *dcbx.Values) []view.AttributeRow {
	numbers := func(list []uint8) string { return strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", ","), "[]") }
	var tsa, apps []string
	var pfc []uint8
	for i := range dcb.Classes {
		tsa = append(tsa, v.TSA[i].String())
		if v.Config.PFC>>i&1 != 0 {
			pfc = append(pfc, uint8(i))
		}
	}
	for _, a := range v.Apps {
		apps = append(apps, settings.FormatApp(a))
	}
	state := func(f dcbx.Feature) string {
		return word(f.Enabled, "", " (not told)") + word(f.Willing, " (willing)", "") + word(f.Error, " (error)", "")
	}
	none := func(s string) string { return word(s == "", "none", s) }
	return []view.AttributeRow{
		attribute(name+"_ets_prio_tc", "%s%s", numbers(v.PrioTC[:]), state(v.ETS)),
		attribute(name+"_ets_tc_bw", "%s", numbers(v.Weight[:])),
		attribute(name+"_ets_tc_tsa", "%s", strings.Join(tsa, ",")),
		attribute(name+"_pfc_prio", "%s%s", none(numbers(pfc)), state(v.Pause)),
		attribute(name+"_app", "%s%s", none(strings.Join(apps, ",")), state(v.App)),
	}
}

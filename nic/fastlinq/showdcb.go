package fastlinq

import (
	"fmt"
	"strings"

	"tapir/nic/dcb"
	"tapir/nic/dcbx"
	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/mfw/mcp"
	"tapir/nic/lldp"
	"tapir/nic/view"
	"tapir/wire/frame"
)

// ShowLLDP describes the agents of the port and its neighbors.
func (d display) ShowLLDP(now frame.Time) []view.LLDPInfo {
	return view.LLDP(d.management.fw.Agent(d.port).LLDP(), now)
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
			rows = append(rows, view.DCBValues(kind.name, &x.Values)...)
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
	for dscp := range dcb.DSCPs {
		if prio, err := m.mcp.DCBXGetDSCPPriority(dscp); err == nil && prio > 0 {
			rows = append(rows, attribute(fmt.Sprintf("dscp_%d", dscp), "priority %d", prio))
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

// DCBX is what is set of a port's DCBX, and what it has come to.
type DCBX struct {
	Set     DCB
	Classes dcb.Port     // administered
	Admin   dcbx.Values  // the same with applications
	Version dcbx.Version // in use
	Oper    *dcbx.Values // nil: DCBX is off
	Remote  *dcbx.Values // nil: no neighbor has told any
}

// DCBX describes the port's.
func (d display) DCBX() (x DCBX, err error) {
	m, lead := &d.management, &d.lead().cfg
	x.Set, x.Classes = lead.DCB, lead.Classes.Values()
	x.Admin = x.Set.Values(x.Classes)
	for kind, to := range map[mcp.MIB]**dcbx.Values{mcp.OperationalMIB: &x.Oper, mcp.RemoteMIB: &x.Remote} {
		is, err := m.mcp.DCBXQueryParams(kind)
		if err != nil {
			return x, err
		}
		if is.Version != dcbx.Disabled {
			*to = &is.Values
		}
		if kind == mcp.OperationalMIB {
			x.Version = is.Version
		}
	}
	return x, nil
}

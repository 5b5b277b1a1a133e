package fastlinq

import (
	"bytes"

	"tapir/nic/dcb"
	"tapir/nic/dcbx"
	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/mfw/mcp"
	"tapir/nic/lldp"
	"tapir/wire/drop"
	"tapir/wire/frame"
)

// LLDP implements hardware.Function: the agents are the port's, and its first function
// hears for them.
func (d *Device) LLDP(b []byte, now frame.Time) (taken bool, why frame.DropReason) {
	if !d.leads() {
		return false, frame.DropNone
	}
	taken, err := d.management.fw.ReceiveLLDP(d.port, b, now)
	if taken {
		d.nic.Schedule(now, d.Manage) // in the next Poll
	}
	if err != nil {
		return taken, drop.Malformed
	}
	return taken, frame.DropNone
}

// sendLLDP sends a frame of a port's agents; false: not now.
func (a *Adapter) sendLLDP(port int, b []byte, now frame.Time) bool {
	for _, d := range a.functions {
		if d == nil || d.port != port {
			continue
		}
		if !d.nic.Active() || d.nic.WireRoom() <= 0 {
			return false
		}
		f := d.pool.Get(len(b))
		if f == nil {
			return false
		}
		copy(f.Extend(len(b)), b)
		d.nic.Enter(now)
		d.nic.ToWire(f)
		return true
	}
	return false
}

// setDCB gives the management firmware what the configuration wants of LLDP and DCBX,
// which is the port's, and takes its state over.
func (d driver) setDCB(now frame.Time) {
	m, c := &d.management, &d.cfg.DCB
	if m.applied.dcb == nil && c.Equal(&DCB{}) && d.leads() {
		return
	}
	was := m.applied.dcb
	m.applied.dcb = d.cfg.PortDCB()
	if d.leads() {
		p := d.cfg.Classes.Values()
		set := mcp.DCBXSet{Version: c.Version, Static: c.Static, Values: c.Values(p), Override: mcp.OverrideState |
			mcp.OverridePFC | mcp.OverrideETS | mcp.OverrideApp | mcp.OverrideDSCP}
		set.DSCPOn = p.DSCP != nil
		for dscp := uint8(0); set.DSCPOn && dscp < dcb.DSCPs; dscp++ {
			set.DSCP[dscp], _ = p.DSCP.Priority(dscp)
		}
		m.mcp.DCBXConfigParams(set, true, now, m.note)
		if was == nil || !bytes.Equal(was.TLVs, c.TLVs) { // the agents send at once
			m.mcp.LLDPSetSystemTLVs(c.TLVs, false, now, m.note)
		}
		m.mcp.LLDPRegisterTLV(lldp.NearestBridge, c.Register, now, m.note)
		for s := range lldp.Scopes {
			if is, err := m.mcp.LLDPGetParams(s); err != nil || is != c.LLDP(s) {
				m.mcp.LLDPSetParams(s, c.LLDP(s), now, m.note)
			}
		}
	}
	d.followDCB(now)
}

// dcbChanged counts what the firmware tells, and follows the operational MIB.
func (d driver) dcbChanged(kind mfw.Message, now frame.Time) {
	m := &d.management
	if m.events.dcb == nil {
		m.events.dcb = map[mfw.Message]uint64{}
	}
	m.events.dcb[kind]++
	if kind == mfw.MsgDCBXOperationalMIB {
		d.followDCB(now)
	}
}

// followDCB has queues and protocols take their priorities and traffic classes from the
// operational MIB.
func (d driver) followDCB(now frame.Time) {
	m := &d.management
	oper, err := m.mcp.DCBXQueryParams(mcp.OperationalMIB)
	if err == nil {
		m.results, err = m.mcp.Results(d.cfg.DCB.IWARPPort)
	}
	if err != nil {
		m.note(err)
		return
	}
	s := dcb.State{IWARP: priority(m.results[mcp.IWARP]), RoCE: priority(m.results[mcp.RoCE]),
		RoCEv2: priority(m.results[mcp.RoCEv2]), FCoE: priority(m.results[mcp.FCoE])}
	if oper.Version != dcbx.Disabled {
		s.InUse, s.Config = true, oper.Values.Config
	}
	d.setPriorities(s, now)
}

func priority(r mcp.Result) dcb.Priority {
	return dcb.Priority{On: r.Enable, PCP: r.Priority, ByDSCP: r.DSCPOn, DSCP: r.DSCP}
}

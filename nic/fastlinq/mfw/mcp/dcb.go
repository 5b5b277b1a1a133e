package mcp

import (
	"tapir/nic/dcbx"
	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/mfw/mib"
	"tapir/nic/fastlinq/status"
	"tapir/nic/lldp"
	"tapir/wire/frame"
	wire "tapir/wire/lldp"
)

// MIB is a kind of what can be read of DCBX and LLDP (ecore_mib_read_type).
type MIB uint8

// The kinds.
const (
	OperationalMIB MIB = iota
	RemoteMIB
	LocalMIB
	RemoteLLDPMIB
	LocalLLDPMIB
	LLDPTLVs
)

// mibTries is how often a MIB is read that the firmware is writing.
const mibTries = 100

// DCBX is what a MIB says (ecore_dcbx_get).
type DCBX struct {
	Version dcbx.Version
	Static  bool // LocalMIB: no negotiation
	TooMany bool // OperationalMIB: several neighbors have stopped it
	Synced  bool // OperationalMIB, CEE: the neighbor has acknowledged
	Values  dcbx.Values
	LLDP    [lldp.Scopes]LLDPIDs // RemoteLLDPMIB and LocalLLDPMIB
	TLVs    []byte               // LLDPTLVs: an LLDPDU, borrowed
}

// LLDPIDs are those of a port or of its newest neighbor.
type LLDPIDs struct {
	Known         bool
	Chassis, Port wire.ID
}

// dcb is the port's part of the shared memory.
func (m *MCP) dcb() *mib.Port { return mib.Of(&m.shm.Port[m.port].DCB) }

// DCBXQueryParams reads a MIB. IO: the firmware has not finished writing it.
func (m *MCP) DCBXQueryParams(kind MIB) (d DCBX, err error) {
	p := m.dcb()
	switch kind {
	case OperationalMIB, RemoteMIB:
		from := &p.Oper
		if kind == RemoteMIB {
			from = &p.Remote
		}
		if err := steady(&from.Prefix, &from.Suffix); err != nil {
			return d, err
		}
		d.Version, d.TooMany, d.Synced, d.Values = from.Get()
	case LocalMIB:
		d.Version, d.Static, d.Values = p.Admin.Get()
	case RemoteLLDPMIB:
		for s := range p.Status {
			from, to := &p.Status[s], &d.LLDP[s]
			if err := steady(&from.Prefix, &from.Suffix); err != nil {
				return d, err
			}
			to.Chassis, to.Port, to.Known = from.IDs()
		}
	case LocalLLDPMIB:
		for s := range p.LLDP {
			to := &d.LLDP[s]
			to.Known = true
			to.Chassis, to.Port = p.LLDP[s].IDs()
		}
	case LLDPTLVs:
		if err := steady(&p.Received.Prefix, &p.Received.Suffix); err != nil {
			return d, err
		}
		d.TLVs = p.Received.Data
	default:
		return d, status.Inval.Errorf("MIB %d: there are those from 0 to %d", kind, LLDPTLVs)
	}
	return d, nil
}

// steady waits until what lies between two numbers is whole.
func steady(prefix, suffix *uint32) error {
	for range mibTries {
		if *prefix == *suffix {
			return nil
		}
	}
	return status.IO.Errorf("the MFW does not finish writing a MIB: sequence numbers %d and %d", *prefix, *suffix)
}

// OverrideFlags say which parts of a DCBXSet count.
type OverrideFlags uint8

// The flags.
const (
	OverrideState OverrideFlags = 1 << iota
	OverridePFC
	OverrideETS
	OverrideApp
	OverrideDSCP
)

// DCBXSet is what a driver wants (ecore_dcbx_set).
type DCBXSet struct {
	Override OverrideFlags
	Version  dcbx.Version
	Static   bool
	Values   dcbx.Values
	DSCPOn   bool
	DSCP     [64]uint8 // the priority of each DSCP
}

// DCBXGetConfigParams is a copy of what was last set, to be edited, without
// override flags.
func (m *MCP) DCBXGetConfigParams() (s DCBXSet) {
	if m.dcbx != nil {
		s = *m.dcbx
	} else {
		p := m.dcb()
		s.Version, s.Static, s.Values = p.Admin.Get()
		s.DSCPOn, s.DSCP = p.DSCP.Get()
	}
	s.Override = 0
	return s
}

// DCBXConfigParams takes the parts that s overrides; with commit the firmware acts on
// all that was taken since the last time. INVAL: values that no port can act on; BUSY:
// the application table has no room. Then nothing changes.
func (m *MCP) DCBXConfigParams(s DCBXSet, commit bool, now frame.Time, done func(error)) {
	to := m.DCBXGetConfigParams()
	if s.Override&OverrideState != 0 {
		to.Version, to.Static = s.Version, s.Static
	}
	v, from := &to.Values, &s.Values
	if s.Override&OverridePFC != 0 {
		v.Config.PFC, v.PFCCap, v.MBC, v.Pause = from.Config.PFC, from.PFCCap, from.MBC, from.Pause
	}
	if s.Override&OverrideETS != 0 {
		pfc := v.Config.PFC
		v.Config, v.CBS, v.MaxTCs, v.ETS = from.Config, from.CBS, from.MaxTCs, from.ETS
		v.Config.PFC = pfc
	}
	if s.Override&OverrideApp != 0 {
		v.Apps, v.App = from.Apps, from.App
	}
	if s.Override&OverrideDSCP != 0 {
		to.DSCPOn, to.DSCP = s.DSCPOn, s.DSCP
	}
	if err := to.check(); err != nil {
		tell(done, err)
		return
	}
	if m.dcbx = &to; !commit {
		tell(done, nil)
		return
	}
	p := m.dcb()
	p.Admin.Set(to.Version, to.Static, &to.Values)
	p.DSCP.Set(to.DSCPOn, &to.DSCP)
	m.simple(mfw.CmdSetDCBX, 0, nil, mfw.Response(mfw.CmdSetDCBX), now, done)
}

func (s *DCBXSet) check() error {
	v := &s.Values
	switch err := v.Validate(); {
	case err != nil:
		return status.Inval.Errorf("ETS: %v", err)
	case v.ETS.Enabled && v.TCs() > int(v.MaxTCs):
		return status.Inval.Errorf("ETS: %d traffic classes; the port has %d", v.TCs(), v.MaxTCs)
	case len(v.Apps) > dcbx.MaxApps:
		return status.Busy.Errorf("the application table has room for %d entries", dcbx.MaxApps)
	}
	for dscp, prio := range s.DSCP {
		if prio > 7 {
			return status.Inval.Errorf("DSCP %d: priority %d is over 7", dscp, prio)
		}
	}
	return nil
}

// DCBXGetDSCPPriority is the priority of a DSCP. INVAL: there is no map, or no such DSCP.
func (m *MCP) DCBXGetDSCPPriority(dscp int) (prio uint8, err error) {
	on, table := m.dcb().DSCP.Get()
	if !on || dscp < 0 || dscp >= len(table) {
		return 0, status.Inval.Errorf("DSCP %d: the map of DSCPs is off, or it is not from 0 to %d", dscp, len(table)-1)
	}
	return table[dscp], nil
}

// LLDPGetParams are the settings of an agent. INVAL: there is no such agent.
func (m *MCP) LLDPGetParams(s lldp.Scope) (p lldp.Params, err error) {
	if s >= lldp.Scopes {
		return p, status.Inval.Errorf("LLDP agent %d: there are %d", s, lldp.Scopes)
	}
	return m.dcb().LLDP[s].Params(), nil
}

// LLDPSetParams sets them. INVAL: there is no such agent, or a value is out of range.
func (m *MCP) LLDPSetParams(s lldp.Scope, p lldp.Params, now frame.Time, done func(error)) {
	if s < lldp.Scopes {
		m.dcb().LLDP[s].SetParams(p)
	}
	m.simple(mfw.CmdSetLLDP, uint32(s)<<mib.AgentShift, nil, mfw.Response(mfw.CmdSetLLDP), now, done)
}

// LLDPRegisterTLV has the firmware keep the newest LLDPDU with a TLV of a type, and tell
// so; see LLDPTLVs. Type 0 ends that.
func (m *MCP) LLDPRegisterTLV(s lldp.Scope, typ uint8, now frame.Time, done func(error)) {
	param := uint32(s)<<mib.AgentShift | uint32(typ&0x7f)<<mib.TypeShift
	if typ != 0 {
		param |= mib.Send
	}
	m.simple(mfw.CmdRegisterLLDP, param, nil, mfw.Response(mfw.CmdRegisterLLDP), now, done)
}

// LLDPSetSystemTLVs adds TLVs, at most 256 octets, to what the agents tell. INVAL: they
// are too long, or not whole, or mandatory ones are among them; with discard those are
// left out.
func (m *MCP) LLDPSetSystemTLVs(b []byte, discard bool, now frame.Time, done func(error)) {
	b, ok := mib.CheckSystemTLVs(b, discard)
	if !ok {
		tell(done, status.Inval.Errorf("system TLVs: want at most %d octets of whole TLVs, none of them mandatory",
			mib.MaxSystemTLVs))
		return
	}
	t := &m.dcb().SystemTLVs
	*t = mib.SystemTLVs{Valid: 1, Length: uint32(copy(t.Data[:], b)), Data: t.Data}
	m.simple(mfw.CmdSetLLDP, mib.Send, nil, mfw.Response(mfw.CmdSetLLDP), now, done)
}

// Protocol is one that has a priority of its own.
type Protocol uint8

// The protocols.
const (
	ISCSI Protocol = iota
	FCoE
	RoCE
	RoCEv2
	IWARP
	Ethernet
	Protocols
)

// String is the name in lower case.
func (p Protocol) String() string {
	return [Protocols]string{"iscsi", "fcoe", "roce", "rocev2", "iwarp", "eth"}[p]
}

// Result is what DCBX has come to for a protocol (ecore_dcbx_app_data).
type Result struct {
	Enable       bool
	Priority, TC uint8
	DontAddVLAN0 bool // the priority is told by the DSCP
	DSCPOn       bool
	DSCP         uint8
}

// Results are those of all protocols. iwarpPort is the TCP port that the client has set
// for iWARP; 0: none. Without DCBX the applications are those administered. A protocol
// without an application inherits what Ethernet has, which is itself enabled only by an
// application.
func (m *MCP) Results(iwarpPort uint16) (list [Protocols]Result, err error) {
	d, err := m.DCBXQueryParams(OperationalMIB)
	if err != nil || d.Version == dcbx.Disabled && len(d.Values.Apps) == 0 {
		return list, err
	}
	found := [Protocols]bool{}
	for _, a := range d.Values.Apps {
		if p, ok := protocolOf(a, iwarpPort); ok && !found[p] {
			found[p] = true
			list[p] = Result{Enable: true, Priority: a.Priority}
		}
	}
	on, table := m.dcb().DSCP.Get()
	for p := range list {
		r := &list[p]
		if !found[p] {
			*r = Result{Enable: Protocol(p) != Ethernet, Priority: list[Ethernet].Priority}
		}
		r.TC = d.Values.PrioTC[r.Priority]
		if !on || !r.Enable {
			continue
		}
		for dscp, prio := range table {
			if prio == r.Priority {
				r.DSCPOn, r.DontAddVLAN0, r.DSCP = true, true, uint8(dscp)
				break
			}
		}
	}
	return list, nil
}

// protocolOf is the protocol that an application stands for.
func protocolOf(a wire.AppEntry, iwarpPort uint16) (Protocol, bool) {
	tcp := a.Selector == wire.SelTCP || a.Selector == wire.SelPort
	udp := a.Selector == wire.SelUDP || a.Selector == wire.SelPort
	switch {
	case a.Selector == wire.SelEtherType && a.Protocol == 0x8906:
		return FCoE, true
	case a.Selector == wire.SelEtherType && a.Protocol == 0x8915:
		return RoCE, true
	case a.Selector == wire.SelEtherType && a.Protocol == 0:
		return Ethernet, true
	case udp && a.Protocol == 4791:
		return RoCEv2, true
	case tcp && a.Protocol == iwarpPort && iwarpPort != 0:
		return IWARP, true
	case tcp && a.Protocol == 3260:
		return ISCSI, true
	}
	return 0, false
}

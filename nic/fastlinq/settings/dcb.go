package settings

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"tapir/nic/dcb"
	"tapir/nic/dcbx"
	"tapir/nic/fastlinq/mfw/mib"
	"tapir/nic/lldp"
	"tapir/nic/param"
	wire "tapir/wire/lldp"
)

// DCB is what the port tells and wants by LLDP and DCBX.
type DCB struct {
	Agents                 Agents // LLDP agents that send and receive
	Interval, Hold, Credit uint8  // of LLDP, 0: 30, 4 and 5
	Version                dcbx.Version
	Static                 bool    // no negotiation
	Willing                Willing // features that take the neighbor's values
	Apps                   []wire.AppEntry
	TLVs                   []byte // that the agents tell beside their own
	Register               uint8  // type of TLV for which LLDPDUs are kept; 0: none
	IWARPPort              uint16 // TCP port of the application that stands for iWARP; 0: none
}

// Agents is a set of LLDP agents: bit n is scope n.
type Agents uint8

// Willing is a set of features.
type Willing uint8

// The features.
const (
	WillingETS Willing = 1 << iota
	WillingPFC
	WillingApp
)

// PortDCB is DCBX with the traffic classes that it administers.
type PortDCB struct {
	DCB
	Classes dcb.Admin
}

// PortDCB is that of the function; without settings of LLDP and DCBX it has no classes.
func (c *NIC) PortDCB() *PortDCB {
	p := &PortDCB{DCB: c.DCB}
	if !c.DCB.Equal(&DCB{}) {
		p.Classes = c.Classes
	}
	return p
}

// OfPort is what belongs to the port, and not to one of its functions.
func (p *PortDCB) OfPort() *PortDCB {
	p.IWARPPort = 0
	return p
}

// Equal tells whether two are the same.
func (p *PortDCB) Equal(o *PortDCB) bool {
	a, b := p.Classes, o.Classes
	same := a.Port.Equal(b.Port)
	a.Port, b.Port = dcb.Port{}, dcb.Port{}
	return same && a == b && p.DCB.Equal(&o.DCB)
}

// Equal tells whether two are the same.
func (d *DCB) Equal(o *DCB) bool {
	return d.Agents == o.Agents && d.Interval == o.Interval && d.Hold == o.Hold && d.Credit == o.Credit &&
		d.Version == o.Version && d.Static == o.Static && d.Willing == o.Willing &&
		d.IWARPPort == o.IWARPPort && d.Register == o.Register && slices.Equal(d.TLVs, o.TLVs) &&
		slices.Equal(d.Apps, o.Apps)
}

// LLDP are the settings of an agent.
func (d *DCB) LLDP(s lldp.Scope) lldp.Params {
	on := d.Agents>>s&1 != 0
	return lldp.Params{Rx: on, Tx: on, Interval: cmp.Or(d.Interval, lldp.Default.Interval),
		Hold: cmp.Or(d.Hold, lldp.Default.Hold), Credit: cmp.Or(d.Credit, lldp.Default.Credit)}
}

// Values are the administrative values of DCBX, for a port with these traffic classes.
// Priorities of DSCPs are applications, too.
func (d *DCB) Values(port dcb.Port) dcbx.Values {
	feature := func(w Willing) dcbx.Feature { return dcbx.Feature{Enabled: true, Willing: d.Willing&w != 0} }
	v := dcbx.Values{MaxTCs: dcb.Classes, PFCCap: dcb.Classes, Apps: d.Apps, ETS: feature(WillingETS),
		Pause: feature(WillingPFC), App: feature(WillingApp), Config: port.Config}
	if port.DSCP == nil {
		return v
	}
	v.Apps = slices.Clone(v.Apps)
	for dscp := range uint8(dcb.DSCPs) {
		if prio, mapped := port.DSCP.Priority(dscp); mapped {
			v.Apps = append(v.Apps, wire.AppEntry{Selector: wire.SelDSCP, Protocol: uint16(dscp), Priority: prio})
		}
	}
	return v
}

func (d *DCB) validate(port dcb.Port) error {
	if n := len(d.Values(port).Apps); n > dcbx.MaxApps {
		return fmt.Errorf("dcb_app and dscp_prio: %d entries; the application table has room for %d", n, dcbx.MaxApps)
	}
	if _, ok := mib.CheckSystemTLVs(d.TLVs, false); !ok {
		return fmt.Errorf("lldp_tlvs: want whole TLVs of at most %d octets, none of them mandatory", mib.MaxSystemTLVs)
	}
	return nil
}

// dcbRow is a setting of LLDP or DCBX.
func dcbRow(name, expect, help string) param.Row {
	return param.Row{Name: name, Origin: param.FastLinQ, Runtime: true, Expect: expect, Help: help}
}

// dcbRows are the settings of LLDP and DCBX.
func (c *Config) dcbRows() []*param.Row { return append(c.DCB.lldpRows(), c.DCB.dcbxRows()...) }

func (d *DCB) lldpRows() []*param.Row {
	tlvs := dcbRow("lldp_tlvs", "octets in hexadecimal, or none", "TLVs that the agents send beside their own")
	tlvs.Type = "list"
	return []*param.Row{
		param.Bits(dcbRow("lldp", "", "LLDP agents that send and receive"), &d.Agents, 0, true,
			param.Named(lldp.NearestBridge.String(), Agents(1)<<lldp.NearestBridge),
			param.Named(lldp.NearestNonTPMR.String(), Agents(1)<<lldp.NearestNonTPMR),
			param.Named(lldp.NearestCustomer.String(), Agents(1)<<lldp.NearestCustomer)),
		param.Number(dcbRow("lldp_interval", "", "seconds between two LLDPDUs"), &d.Interval,
			int(lldp.Default.Interval), 1, 255),
		param.Number(dcbRow("lldp_hold", "", "intervals after which a neighbor forgets the port"), &d.Hold,
			int(lldp.Default.Hold), 1, 15),
		param.Number(dcbRow("lldp_credit", "", "LLDPDUs that may follow each other at once"), &d.Credit,
			int(lldp.Default.Credit), 1, 10),
		param.Text(tlvs, func() string { return cmp.Or(hex.EncodeToString(d.TLVs), "none") },
			func(v string) (err error) {
				d.TLVs, err = hex.DecodeString(strings.TrimPrefix(v, "none"))
				return err
			}),
		param.Number(dcbRow("lldp_register", "",
			"type of TLV for which the newest LLDPDU is kept as it came, 0 for none"), &d.Register, 0, 0, 127),
	}
}

func (d *DCB) dcbxRows() []*param.Row {
	return []*param.Row{
		param.Choice(dcbRow("dcbx", "", "version of DCBX that the nearest-bridge agent speaks; dynamic: ieee, or cee "+
			"if the neighbor knows only that"), &d.Version, param.Named("off", dcbx.Disabled),
			param.Named("ieee", dcbx.IEEE), param.Named("cee", dcbx.CEE), param.Named("dynamic", dcbx.Dynamic)),
		param.Bool(dcbRow("dcbx_static", "", "use the administered values as they are, without negotiation"), &d.Static,
			false),
		param.Bits(dcbRow("dcb_willing", "", "features that take the neighbor's values"), &d.Willing, 0, true,
			param.Named("ets", WillingETS), param.Named("pfc", WillingPFC), param.Named("app", WillingApp)),
		param.List(dcbRow("dcb_app", "SELECTOR:PROTOCOL:PRIORITY with commas, such as udp:4791:3, with ethtype, tcp, "+
			"udp or port, or none", "priorities of applications; those of DSCPs are in dscp_prio"), "none",
			&d.Apps, parseApp, dcbx.FormatApp),
		param.Number(dcbRow("iwarp_port", "", "TCP port of the application in the DCBX table whose priority all iWARP "+
			"traffic takes, 0 for none"), &d.IWARPPort, 0, 0, 65535),
	}
}

func parseApp(v string) (wire.AppEntry, error) {
	a, ok := dcbx.ParseApp(v)
	if !ok {
		return a, param.ErrValue
	}
	return a, nil
}

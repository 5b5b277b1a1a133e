package settings

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
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
	PFC                    uint8   // bit n: priority n is lossless
	PrioTC                 []uint8 // eight: the traffic class of each priority; none: all 0
	Weight                 []uint8 // eight: percent of each traffic class, 0: strict; none: all strict
	Apps                   []wire.AppEntry
	DSCP                   []DSCPPriority // none: DSCPs don't count
	TLVs                   []byte         // that the agents tell beside their own
	Register               uint8          // type of TLV for which LLDPDUs are kept; 0: none
	IWARPPort              uint16         // TCP port of the application that stands for iWARP; 0: none
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

// DSCPPriority gives a DSCP a priority.
type DSCPPriority struct{ DSCP, Priority uint8 }

// OfPort is what belongs to the port, and not to one of its functions.
func (d DCB) OfPort() DCB {
	d.IWARPPort = 0
	return d
}

// Equal tells whether two are the same.
func (d *DCB) Equal(o *DCB) bool {
	return d.Agents == o.Agents && d.Interval == o.Interval && d.Hold == o.Hold && d.Credit == o.Credit &&
		d.Version == o.Version && d.Static == o.Static && d.Willing == o.Willing &&
		d.IWARPPort == o.IWARPPort && d.Register == o.Register && slices.Equal(d.TLVs, o.TLVs) &&
		slices.Equal(d.PrioTC, o.PrioTC) && slices.Equal(d.Weight, o.Weight) && d.PFC == o.PFC &&
		slices.Equal(d.Apps, o.Apps) && slices.Equal(d.DSCP, o.DSCP)
}

// LLDP are the settings of an agent.
func (d *DCB) LLDP(s lldp.Scope) lldp.Params {
	on := d.Agents>>s&1 != 0
	return lldp.Params{Rx: on, Tx: on, Interval: cmp.Or(d.Interval, lldp.Default.Interval),
		Hold: cmp.Or(d.Hold, lldp.Default.Hold), Credit: cmp.Or(d.Credit, lldp.Default.Credit)}
}

// Values are the administrative values of DCBX.
func (d *DCB) Values() dcbx.Values {
	feature := func(w Willing) dcbx.Feature { return dcbx.Feature{Enabled: true, Willing: d.Willing&w != 0} }
	v := dcbx.Values{MaxTCs: dcb.Classes, PFCCap: dcb.Classes, Apps: d.Apps, ETS: feature(WillingETS),
		Pause: feature(WillingPFC), App: feature(WillingApp)}
	copy(v.PrioTC[:], d.PrioTC)
	for tc, w := range d.Weight {
		if w > 0 {
			v.Weight[tc], v.TSA[tc] = w, dcb.ETS
		}
	}
	v.Config.PFC = d.PFC
	return v
}

// Map is the map of DSCPs; false: there is none.
func (d *DCB) Map() (on bool, table [64]uint8) {
	for _, e := range d.DSCP {
		table[e.DSCP] = e.Priority
	}
	return len(d.DSCP) > 0, table
}

func (d *DCB) validate() error {
	for name, list := range map[string][]uint8{"ets_prio_tc": d.PrioTC, "ets_tc_bw": d.Weight} {
		if n := len(list); n != 0 && n != dcb.Classes {
			return fmt.Errorf("%s: %d numbers; want %d", name, n, dcb.Classes)
		}
	}
	if len(d.Apps) > dcbx.MaxApps {
		return fmt.Errorf("dcb_app: %d entries; the table has room for %d", len(d.Apps), dcbx.MaxApps)
	}
	if _, ok := mib.CheckSystemTLVs(d.TLVs, false); !ok {
		return fmt.Errorf("lldp_tlvs: want whole TLVs of at most %d octets, none of them mandatory", mib.MaxSystemTLVs)
	}
	v := d.Values()
	if err := v.Validate(); err != nil {
		return fmt.Errorf("ets_tc_bw: %w", err)
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
	octet := func(high int) func(string) (uint8, error) {
		return func(v string) (uint8, error) {
			n, err := strconv.ParseUint(v, 10, 8)
			if err != nil || int(n) > high {
				return 0, param.ErrValue
			}
			return uint8(n), nil
		}
	}
	numbers := func(r param.Row, field *[]uint8, high int) *param.Row {
		return param.List(r, "none", field, octet(high), func(v uint8) string { return strconv.Itoa(int(v)) })
	}
	return []*param.Row{
		param.Choice(dcbRow("dcbx", "", "version of DCBX that the nearest-bridge agent speaks; dynamic: ieee, or cee "+
			"if the neighbor knows only that"), &d.Version, param.Named("off", dcbx.Disabled),
			param.Named("ieee", dcbx.IEEE), param.Named("cee", dcbx.CEE), param.Named("dynamic", dcbx.Dynamic)),
		param.Bool(dcbRow("dcbx_static", "", "use the values below as they are, without negotiation"), &d.Static,
			false),
		param.Bits(dcbRow("dcb_willing", "", "features that take the neighbor's values"), &d.Willing, 0, true,
			param.Named("ets", WillingETS), param.Named("pfc", WillingPFC), param.Named("app", WillingApp)),
		numbers(dcbRow("ets_prio_tc", "eight numbers from 0 to 7 with commas, or none",
			"traffic class of each priority"), &d.PrioTC, dcb.Classes-1),
		numbers(dcbRow("ets_tc_bw", "eight numbers with commas whose sum is 100, or none",
			"share of each traffic class in percent, 0 for a strict one"), &d.Weight, 100),
		param.Bits(dcbRow("pfc_prio", "", "priorities that are lossless by PFC"), &d.PFC, 0, true, priorities()...),
		param.List(dcbRow("dcb_app", "SELECTOR:PROTOCOL:PRIORITY with commas, such as udp:4791:3, with ethtype, tcp, "+
			"udp, port or dscp, or none", "priorities of applications"), "none", &d.Apps, parseApp, FormatApp),
		param.List(dcbRow("dscp_prio", "DSCP:PRIORITY with commas, or none",
			"priorities of DSCPs; other DSCPs have priority 0"), "none", &d.DSCP, parseDSCP,
			func(e DSCPPriority) string { return fmt.Sprintf("%d:%d", e.DSCP, e.Priority) }),
		param.Number(dcbRow("iwarp_port", "", "TCP port of the application in the DCBX table whose priority all iWARP "+
			"traffic takes, 0 for none"), &d.IWARPPort, 0, 0, 65535),
	}
}

// priorities are the bits of a set of priorities.
func priorities() (all []param.Word[uint8]) {
	for prio := range dcb.Classes {
		all = append(all, param.Named(strconv.Itoa(prio), uint8(1)<<prio))
	}
	return all
}

// selectors are the names of those of applications.
var selectors = [...]string{wire.SelEtherType: "ethtype", wire.SelTCP: "tcp", wire.SelUDP: "udp", wire.SelPort: "port",
	wire.SelDSCP: "dscp"}

func parseApp(v string) (a wire.AppEntry, err error) {
	words := strings.Split(v, ":")
	if len(words) != 3 {
		return a, param.ErrValue
	}
	selector := slices.Index(selectors[:], words[0])
	protocol, err1 := strconv.ParseUint(words[1], 0, 16)
	prio, err2 := strconv.ParseUint(words[2], 10, 3)
	if selector < 1 || cmp.Or(err1, err2) != nil {
		return a, param.ErrValue
	}
	return wire.AppEntry{Selector: uint8(selector), Protocol: uint16(protocol), Priority: uint8(prio)}, nil
}

// FormatApp writes an application as the setting dcb_app has it.
func FormatApp(a wire.AppEntry) string {
	protocol := strconv.Itoa(int(a.Protocol))
	if a.Selector == wire.SelEtherType {
		protocol = fmt.Sprintf("%#x", a.Protocol)
	}
	selector := strconv.Itoa(int(a.Selector)) // of a neighbor
	if int(a.Selector) < len(selectors) && a.Selector > 0 {
		selector = selectors[a.Selector]
	}
	return fmt.Sprintf("%s:%s:%d", selector, protocol, a.Priority)
}

func parseDSCP(v string) (e DSCPPriority, err error) {
	dscp, prio, ok := strings.Cut(v, ":")
	d, err1 := strconv.ParseUint(dscp, 10, 6)
	p, err2 := strconv.ParseUint(prio, 10, 3)
	if !ok || cmp.Or(err1, err2) != nil {
		return e, param.ErrValue
	}
	return DSCPPriority{uint8(d), uint8(p)}, nil
}

package swconf

import (
	"cmp"

	"tapir/lab/conf"
	"tapir/nic/dcb"
	"tapir/nic/dcbx"
	"tapir/nic/lldp"
	wire "tapir/wire/lldp"
)

// LLDP is what each port tells and wants by LLDP and DCBX; the zero value has neither. What
// DCBX administers is the Queues. The keys are those of a NIC.
type LLDP struct {
	Agents                 uint8 // bit n: the agent of lldp.Scope n sends and receives
	Interval, Hold, Credit uint8 // 0: the defaults of the standard
	DCBX                   dcbx.Version
	Static                 bool // no negotiation
	// Features that take the neighbor's values.
	WillingETS, WillingPFC, WillingApp bool
	Apps                               []wire.AppEntry
}

// withDefaults has DCBX speak by the agent of the nearest bridge.
func (l LLDP) withDefaults() LLDP {
	if l.DCBX != dcbx.Disabled {
		l.Agents |= 1 << lldp.NearestBridge
	}
	return l
}

// Params are the settings of an agent.
func (l *LLDP) Params(s lldp.Scope) lldp.Params {
	on := l.Agents>>s&1 != 0
	return lldp.Params{Rx: on, Tx: on, Interval: cmp.Or(l.Interval, lldp.Default.Interval),
		Hold: cmp.Or(l.Hold, lldp.Default.Hold), Credit: cmp.Or(l.Credit, lldp.Default.Credit)}
}

// Administered are the values that DCBX begins with. Priorities of DSCPs are applications,
// too.
func (c *Config) Administered() dcbx.Values {
	feature := func(willing bool) dcbx.Feature { return dcbx.Feature{Enabled: true, Willing: willing} }
	l := &c.LLDP
	v := dcbx.Values{Config: c.DCB, MaxTCs: dcb.Classes, PFCCap: dcb.Classes, Apps: c.Applications(),
		ETS: feature(l.WillingETS), Pause: feature(l.WillingPFC), App: feature(l.WillingApp)}
	for dscp, prio := range c.DSCPPrio {
		if prio > 0 {
			v.Apps = append(v.Apps, wire.AppEntry{Selector: wire.SelDSCP, Protocol: uint16(dscp), Priority: prio - 1})
		}
	}
	return v
}

// problem tells the first thing that is wrong with l, with the key; empty: nothing.
func (l LLDP) problem() string {
	willing := l.WillingETS || l.WillingPFC || l.WillingApp
	l = l.withDefaults()
	return cmp.Or(
		conf.Problem(l.Agents == 0 && (l.Interval != 0 || l.Hold != 0 || l.Credit != 0),
			"lldp_interval, lldp_hold and lldp_credit are of LLDP agents: say lldp nearest-bridge"),
		conf.Problem(l.DCBX == dcbx.Disabled && (l.Static || willing || len(l.Apps) > 0),
			"dcbx_static, dcb_willing and dcb_app are of DCBX: say dcbx ieee, cee or dynamic"),
	)
}

// Fields are the settings of LLDP and DCBX, bound to l.
func (l *LLDP) Fields() []conf.Field {
	return []conf.Field{
		{Name: "lldp", Many: true, Expect: "nearest-bridge, nearest-non-tpmr and nearest-customer, or all",
			Set: func(v string) error {
				found := false
				for s := range lldp.Scopes {
					if v == s.String() || v == "all" {
						l.Agents, found = l.Agents|1<<s, true
					}
				}
				if !found {
					return conf.ErrValue
				}
				return nil
			}},
		{Name: "lldp_interval", Expect: "a number of seconds from 1 to 255", Set: conf.Number(&l.Interval, 1, 255)},
		{Name: "lldp_hold", Expect: "a number of intervals from 1 to 15", Set: conf.Number(&l.Hold, 1, 15)},
		{Name: "lldp_credit", Expect: "a number of LLDPDUs from 1 to 10", Set: conf.Number(&l.Credit, 1, 10)},
		{Name: "dcbx", Expect: "off, ieee, cee or dynamic", Set: conf.Choose(&l.DCBX, map[string]dcbx.Version{
			"off": dcbx.Disabled, "ieee": dcbx.IEEE, "cee": dcbx.CEE, "dynamic": dcbx.Dynamic})},
		{Name: "dcbx_static", Expect: "true or false", Set: conf.Bool(&l.Static)},
		{Name: "dcb_willing", Many: true, Expect: "ets, pfc and app, or all, or none", Set: func(v string) error {
			if v == "none" {
				l.WillingETS, l.WillingPFC, l.WillingApp = false, false, false
				return nil
			}
			features := map[string]*bool{"ets": &l.WillingETS, "pfc": &l.WillingPFC, "app": &l.WillingApp}
			for name, is := range features {
				*is = *is || v == name || v == "all"
			}
			if features[v] == nil && v != "all" {
				return conf.ErrValue
			}
			return nil
		}},
		{Name: "dcb_app", Many: true, Expect: "SELECTOR:PROTOCOL:PRIORITY such as `udp:4791:3`, with ethtype, tcp, " +
			"udp or port", Set: func(v string) error {
			a, ok := dcbx.ParseApp(v)
			if !ok {
				return conf.ErrValue
			}
			l.Apps = append(l.Apps, a)
			return nil
		}},
	}
}

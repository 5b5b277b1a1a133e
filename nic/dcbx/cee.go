package dcbx

import (
	"math/bits"
	"reflect"
	"slices"

	"tapir/nic/dcb"
	"tapir/wire/lldp"
)

// strictGroup is the priority group without a limit.
const strictGroup = 15

// updateCEE resolves each feature by itself (CEE DCBX 1.01 section 3.3).
func (m *Machine) updateCEE(d *lldp.CEE) {
	m.ack, m.synced = d.Seq, d.Ack == m.seq
	r, own := &Values{MaxTCs: 8}, &m.admin
	m.remote = r
	if g := d.PG; g != nil {
		r.Config, r.MaxTCs, r.ETS = groups(g), g.TCs, state(g.Feature)
		if adopt, _ := m.decide(&m.oper.ETS, own.ETS, r.ETS); adopt { // the two sides need not be the same
			m.adoptETS(r.Config)
		}
	}
	if f := d.PFC; f != nil {
		r.Config.PFC, r.PFCCap, r.Pause = f.Enabled, f.TCs, state(f.Feature)
		if adopt, compare := m.decide(&m.oper.Pause, own.Pause, r.Pause); adopt || compare {
			m.resolvePFC(adopt, compare)
		}
	}
	if a := d.App; a != nil {
		r.Apps, r.App = ceeApps(a), state(a.Feature)
		switch adopt, compare := m.decide(&m.oper.App, own.App, r.App); {
		case adopt:
			m.adoptApps()
		case compare:
			m.oper.App.Error = !slices.Equal(r.Apps, own.Apps)
		}
	}
}

func state(f lldp.Feature) Feature {
	return Feature{Enabled: f.Enable, Willing: f.Willing, Error: f.Error}
}

// decide tells whether a feature's values are taken over, or compared. A feature
// that one side does not enable is not operational.
func (m *Machine) decide(oper *Feature, own, theirs Feature) (adopt, compare bool) {
	if oper.Enabled = own.Enabled && theirs.Enabled; !oper.Enabled || m.static {
		return false, false
	}
	return own.Willing && !theirs.Willing, own.Willing == theirs.Willing
}

// groups makes traffic classes of priority groups: a group is a class by weight; the
// group without a limit is the highest class without one, and strict.
func groups(g *lldp.CEEPG) (c dcb.Config) {
	used := [dcb.Classes]bool{}
	for prio, group := range g.Group {
		if group < dcb.Classes {
			c.PrioTC[prio], used[group] = group, true
		}
	}
	for tc := range used {
		if used[tc] || g.Weight[tc] > 0 {
			used[tc], c.TSA[tc], c.Weight[tc] = true, dcb.ETS, g.Weight[tc]
		}
	}
	strict := dcb.Classes - 1
	for strict > 0 && used[strict] {
		strict--
	}
	for prio, group := range g.Group {
		if group == strictGroup {
			c.PrioTC[prio] = uint8(strict)
		}
	}
	return c
}

// ceeApps are the applications, each with its highest priority.
func ceeApps(a *lldp.CEEApp) (list []lldp.AppEntry) {
	for _, e := range a.Entries {
		if e.Priorities == 0 {
			continue
		}
		to := lldp.AppEntry{Priority: uint8(bits.Len8(e.Priorities) - 1), Selector: lldp.SelEtherType,
			Protocol: e.Protocol}
		if e.Port {
			to.Selector = lldp.SelPort
		}
		list = append(list, to)
	}
	return list
}

// cee is the TLV of CEE: what is administered. Its number grows with each change.
func (m *Machine) cee() *lldp.CEE {
	a := &m.admin
	flags := func(f, oper Feature) lldp.Feature {
		return lldp.Feature{Enable: f.Enabled, Willing: f.Willing, Error: oper.Error}
	}
	c := lldp.CEE{PG: &lldp.CEEPG{Feature: flags(a.ETS, m.oper.ETS), Weight: a.Weight, TCs: a.MaxTCs},
		PFC: &lldp.CEEPFC{Feature: flags(a.Pause, m.oper.Pause), Enabled: a.Config.PFC, TCs: a.PFCCap},
		App: &lldp.CEEApp{Feature: flags(a.App, m.oper.App)}}
	for prio, tc := range a.PrioTC {
		c.PG.Group[prio] = tc
		if a.TSA[tc] == dcb.Strict {
			c.PG.Group[prio] = strictGroup
		}
	}
	for _, e := range a.Apps {
		if e.Selector <= lldp.SelPort {
			c.App.Entries = append(c.App.Entries, lldp.CEEAppEntry{Protocol: e.Protocol,
				Port: e.Selector != lldp.SelEtherType, Priorities: 1 << e.Priority})
		}
	}
	if !reflect.DeepEqual(c, m.advertise) {
		m.advertise = c
		m.seq++
	}
	c.Seq, c.Ack = m.seq, m.ack
	return &c
}

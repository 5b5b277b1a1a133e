package dcbnl

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"tapir/nic/dcb"
	"tapir/nic/dcbx"
	"tapir/nic/uapi/netlink"
	"tapir/wire/lldp"
)

// ieee makes settings of DCB_ATTR_IEEE. Structures are whole, with what a program has read and
// not changed: what differs from the state counts.
func (s *State) ieee(n NIC, body []byte, remove bool) (list []Change, err error) {
	attrs, err := netlink.ParseAttributes(body)
	switch {
	case err != nil:
		return nil, err
	case s.cee():
		return nil, refused(unix.EINVAL, "DCBX is CEE: calls of IEEE are for dcbx set lld-managed ieee, or host")
	}
	if remove {
		return s.changeApps(attrs[ieeeApps], true)
	}
	add := func(of []Change, failed error) { list, err = append(list, of...), cmp.Or(err, failed) }
	if b := attrs[ieeeETS]; b != nil {
		add(s.setETS(n, b))
	}
	if b := attrs[ieeeMaxRate]; b != nil {
		add(s.setMaxRate(b))
	}
	if b := attrs[ieeePFC]; b != nil {
		add(s.setPFC(b))
	}
	if b := attrs[ieeeBuffer]; b != nil {
		add(s.setBuffers(b))
	}
	if b := attrs[ieeeApps]; b != nil {
		add(s.changeApps(b, false))
	}
	return list, err
}

// words are those of a setting, KEY:VALUE for each key.
func words(value func(at int) string) string {
	list := make([]string, dcb.Classes)
	for at := range list {
		list[at] = fmt.Sprintf("%d:%s", at, value(at))
	}
	return strings.Join(list, ",")
}

// chosen is a table that was changed: what is administered, which is recommended as well, or
// what is in use.
func chosen(name string, now, reco, wasNow, wasReco [dcb.Classes]uint8) (t [dcb.Classes]uint8, is bool, err error) {
	switch {
	case now == wasNow && reco == wasReco:
		return wasReco, false, nil
	case now == wasNow:
		return reco, true, nil
	case reco != wasReco && reco != now:
		return t, false, refused(unix.EINVAL, "%s and reco-%s differ: a NIC recommends what it administers", name, name)
	}
	return now, true, nil
}

func (s *State) setETS(n NIC, b []byte) (list []Change, err error) {
	var to ETS
	if !get(b, &to) {
		return nil, unix.EINVAL
	}
	was := s.ets()
	switch {
	case to.Cap != was.Cap || to.CBS != was.CBS:
		return nil, refused(unix.EINVAL, "ets-cap is %d and cbs %d: both are fixed", was.Cap, was.CBS)
	case to.RxBW != was.RxBW:
		return nil, refused(unix.EINVAL, "pg-bw: the NIC has shares of what it sends alone: set tc-bw")
	}
	prio, mapped, err1 := chosen("prio-tc", to.PrioTC, to.RecoPrioTC, was.PrioTC, was.RecoPrioTC)
	tsa, selected, err2 := chosen("tc-tsa", to.TSA, to.RecoTSA, was.TSA, was.RecoTSA)
	bw, shared, err3 := chosen("tc-bw", to.TxBW, to.RecoBW, was.TxBW, was.RecoBW)
	if err := cmp.Or(err1, err2, err3); err != nil {
		return nil, err
	}
	if mapped {
		if i := slices.IndexFunc(prio[:], func(tc uint8) bool { return tc >= dcb.Classes }); i >= 0 {
			return nil, refused(unix.EINVAL, "prio-tc: priority %d: traffic class %d is over %d", i, prio[i],
				dcb.Classes-1)
		}
		list = append(list, Change{"prio_tc", words(func(i int) string { return fmt.Sprint(prio[i]) })})
	}
	if selected {
		for tc, a := range tsa {
			switch dcb.TSA(a) {
			case dcb.Strict:
				if !shared && bw[tc] > 0 { // it had a share, and has none any more
					bw[tc] = 0
				}
			case dcb.ETS:
			default:
				return nil, refused(unix.EINVAL, "tc-tsa: class %d: the NIC selects classes by strict or ets", tc)
			}
		}
		list = append(list, Change{"tc_tsa", words(func(i int) string { return dcb.TSA(tsa[i]).String() })})
	}
	if shared || bw != was.RecoBW {
		for tc, share := range bw {
			if share > 100 {
				return nil, refused(unix.EINVAL, "tc-bw: class %d: %d is over 100 percent", tc, share)
			}
		}
		list = append(list, Change{"tc_bw", words(func(i int) string { return fmt.Sprint(bw[i]) })})
	}
	if to.Willing != was.Willing {
		if s.NoDCBX {
			return nil, refused(unix.EOPNOTSUPP, "willing: the NIC's hardware has no DCBX")
		}
		list = append(list, Change{"dcb_willing", withWord(n.Setting("dcb_willing"), "ets", to.Willing != 0)})
	}
	return list, nil
}

func (s *State) setBuffers(b []byte) (list []Change, err error) {
	var to Buffer
	if !get(b, &to) {
		return nil, unix.EINVAL
	}
	was := s.buffer()
	if i := slices.IndexFunc(to.Prio[:], func(n uint8) bool { return n >= dcb.Classes }); i >= 0 {
		return nil, refused(unix.EINVAL, "prio-buffer: priority %d: buffer %d is over %d", i, to.Prio[i], dcb.Classes-1)
	}
	if to.Prio != was.Prio {
		list = append(list, Change{"prio_buffer", words(func(i int) string { return fmt.Sprint(to.Prio[i]) })})
	}
	if to.Size != was.Size {
		list = append(list, Change{"buffer_size", words(func(i int) string {
			if to.Size[i] == was.Size[i] {
				return fmt.Sprint(s.Port.Buffers.Size[i]) // 0 where it is the default
			}
			return fmt.Sprint(to.Size[i])
		})})
	}
	return list, nil
}

func (s *State) setPFC(b []byte) ([]Change, error) {
	var to PFC
	if !get(b, &to) {
		return nil, unix.EINVAL
	}
	was := s.pfc()
	switch {
	case to.MBC != was.MBC:
		return nil, refused(unix.EINVAL, "macsec-bypass: the NIC has no MACsec")
	case to.Delay != was.Delay:
		return nil, refused(unix.EINVAL, "delay: a NIC sends PFC by the fill of its receive queues, and needs no delay")
	case to.Enabled == was.Enabled:
		return nil, nil
	}
	return []Change{{"prio_pfc", words(func(prio int) string {
		if to.Enabled>>prio&1 != 0 {
			return "on"
		}
		return "off"
	})}}, nil
}

func (s *State) setMaxRate(b []byte) ([]Change, error) {
	var to MaxRate
	if !get(b, &to) {
		return nil, unix.EINVAL
	}
	if to == s.maxRate() {
		return nil, nil
	}
	for tc, kbps := range to {
		if kbps > math.MaxUint32 {
			return nil, refused(unix.EINVAL, "tc-maxrate: class %d: %d kb/s is over %d", tc, kbps,
				uint32(math.MaxUint32))
		}
	}
	return []Change{{"tc_maxrate", words(func(tc int) string { return fmt.Sprintf("%dK", to[tc]) })}}, nil
}

// changeApps adds applications to the table, or removes them. Priorities of DSCPs have a table
// of their own; without any they do not count, as drivers have it.
func (s *State) changeApps(body []byte, remove bool) (changes []Change, err error) {
	apps := slices.DeleteFunc(slices.Clone(s.Admin.Apps),
		func(e lldp.AppEntry) bool { return e.Selector == lldp.SelDSCP })
	before := slices.Clone(apps)
	var table dcb.DSCPTable
	if s.Port.DSCP != nil {
		table = *s.Port.DSCP
	}
	was := table
	for kind, b := range netlink.Attributes(body).All() {
		var a App
		if kind != ieeeApp {
			continue
		}
		if !get(b, &a) {
			return nil, unix.ERANGE
		}
		if err := a.check(s.NoDCBX); err != nil {
			return nil, err
		}
		if a.Selector == lldp.SelDSCP {
			err = changeDSCP(&table, a, remove)
		} else {
			apps, err = changeApp(apps, lldp.AppEntry{Selector: a.Selector, Protocol: a.Protocol, Priority: a.Priority},
				remove)
		}
		if err != nil {
			return nil, err
		}
	}
	p := dcb.Port{DSCP: &table}
	if table == (dcb.DSCPTable{}) {
		p.DSCP = nil
	}
	mapped := 0
	for dscp := range uint8(dcb.DSCPs) {
		if _, is := table.Priority(dscp); is {
			mapped++
		}
	}
	if len(apps)+mapped > dcbx.MaxApps {
		return nil, refused(unix.EBUSY, "app: the table has room for %d entries", dcbx.MaxApps)
	}
	if table != was {
		trust := map[bool]string{true: "dscp", false: "pcp"}[p.DSCP != nil]
		changes = append(changes, Change{"dscp_prio", p.DSCPWords()}, Change{"trust", trust})
	}
	if !slices.Equal(apps, before) {
		list := make([]string, len(apps))
		for i, e := range apps {
			list[i] = dcbx.FormatApp(e)
		}
		changes = append(changes, Change{"dcb_app", cmp.Or(strings.Join(list, ","), "none")})
	}
	return changes, nil
}

// check refuses what no table has.
func (a *App) check(dscpOnly bool) error {
	switch {
	case a.Selector < lldp.SelEtherType || a.Selector > lldp.SelDSCP:
		return refused(unix.EINVAL, "app: the NIC has no selector %d", a.Selector)
	case a.Priority >= dcb.Classes:
		return refused(unix.EINVAL, "app: priority %d is over %d", a.Priority, dcb.Classes-1)
	case a.Selector == lldp.SelDSCP && a.Protocol >= dcb.DSCPs:
		return refused(unix.EINVAL, "app: DSCP %d is over %d", a.Protocol, dcb.DSCPs-1)
	case a.Selector != lldp.SelDSCP && dscpOnly:
		return refused(unix.EOPNOTSUPP, "app: the NIC's hardware has no table of applications: it has dscp-prio alone")
	}
	return nil
}

// changeApp adds an application, or removes it. Errors: EEXIST, ENOENT.
func changeApp(list []lldp.AppEntry, a lldp.AppEntry, remove bool) ([]lldp.AppEntry, error) {
	at := slices.Index(list, a)
	switch {
	case remove && at < 0:
		return nil, refused(unix.ENOENT, "app: the NIC does not administer %s", dcbx.FormatApp(a))
	case remove:
		return slices.Delete(list, at, at+1), nil
	case at >= 0:
		return nil, refused(unix.EEXIST, "app: %s is there already", dcbx.FormatApp(a))
	}
	return append(list, a), nil
}

// changeDSCP maps a DSCP to a priority, or unmaps it. A DSCP has one priority: the newest takes
// the place of the one before, whose removal has nothing left to do then.
func changeDSCP(t *dcb.DSCPTable, a App, remove bool) error {
	dscp := uint8(a.Protocol)
	prio, mapped := t.Priority(dscp)
	switch {
	case remove && !mapped:
		return refused(unix.ENOENT, "app: DSCP %d has no priority", dscp)
	case remove && prio == a.Priority:
		t.Unmap(dscp)
	case remove:
	case mapped && prio == a.Priority:
		return refused(unix.EEXIST, "app: DSCP %d has priority %d already", dscp, prio)
	default:
		t.Map(dscp, a.Priority)
	}
	return nil
}

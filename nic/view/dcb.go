package view

import (
	"cmp"
	"fmt"
	"strings"

	"tapir/nic/dcbx"
	"tapir/nic/lldp"
	"tapir/wire/frame"
)

// LLDP describes the agents of a port and their neighbors.
func LLDP(agents *lldp.Port, now frame.Time) (rows []LLDPInfo) {
	for s := range lldp.Scopes {
		p, st := agents.Params(s), agents.Stats(s)
		row := LLDPInfo{Agent: s.String(), State: "off", Interval: p.Interval,
			TTL: p.TTL(), TxFrames: st.TxFrames, RxFrames: st.RxFrames, RxErrors: st.RxErrors, RxTooMany: st.RxTooMany,
			TLVsUnrecognized: st.TLVsUnrecognized, Ageouts: st.Ageouts, NoBuffer: st.NoBuffer}
		if p.Rx || p.Tx {
			row.State = "on"
		}
		for i, n := range agents.Neighbors(s) {
			if i > 0 { // the agent's own columns are told once
				row = LLDPInfo{Agent: s.String()}
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

// DCBValues describes values of DCBX, in the form of the settings; the names of the rows
// begin with name.
func DCBValues(name string, v *dcbx.Values) []AttributeRow {
	var apps []string
	for _, a := range v.Apps {
		apps = append(apps, dcbx.FormatApp(a))
	}
	return []AttributeRow{
		{name + "_prio_tc", v.MapWords() + state(v.ETS)}, {name + "_tc_tsa", v.TSAWords()},
		{name + "_tc_bw", v.ShareWords()}, {name + "_prio_pfc", v.PFCWords() + state(v.Pause)},
		{name + "_app", cmp.Or(strings.Join(apps, ","), "none") + state(v.App)},
	}
}

// state is what there is to say of a feature.
func state(f dcbx.Feature) (s string) {
	for _, is := range []struct {
		is   bool
		what string
	}{{!f.Enabled, "not told"}, {f.Willing, "willing"}, {f.Error, "error"}} {
		if is.is {
			s += fmt.Sprintf(" (%s)", is.what)
		}
	}
	return s
}

package swnode

import (
	"strconv"
	"strings"

	"tapir/lab/node/nodectl"
	"tapir/lab/tool/ctl"
	"tapir/wire/ether"
	"tapir/wire/fc"
	"tapir/wire/frame"
)

// fcfRow is an N_Port that is logged in to the FCF.
type fcfRow struct {
	Port       string     `json:"port"`
	ID         string     `json:"fc_id"`
	Name       fc.WWN     `json:"port_name"`
	NodeName   fc.WWN     `json:"node_name"`
	ENode      ether.Addr `json:"enode_mac"`
	MAC        ether.Addr `json:"vn_port_mac"`
	Login      string     `json:"login"`     // flogi or fdisc
	Types      string     `json:"fc4_types"` // such as 8 for FCP
	Features   string     `json:"fcp"`       // target, initiator, or both
	Registered bool       `json:"state_changes"`
	Left       string     `json:"expires_in"` // without another keep-alive
	Symbol     string     `json:"symbolic_name"`
}

func (n *Node) fcfRows(now frame.Time) []fcfRow {
	list := []fcfRow{}
	f := n.sw.FCF()
	if f == nil {
		return list
	}
	for _, l := range f.Logins() {
		r := fcfRow{Port: n.cfg.Ports[l.Port].Name, ID: l.ID.String(), Name: l.Name, NodeName: l.NodeName,
			ENode: l.ENode, MAC: l.MAC, Login: "flogi", Types: "-", Features: "-", Registered: l.Registered,
			Left: l.Left.Sub(now).String(), Symbol: l.Symbol}
		if l.Virtual {
			r.Login = "fdisc"
		}
		var types []string
		for t := range len(l.Types) * 8 {
			if l.Types.Has(fc.Type(t)) {
				types = append(types, strconv.Itoa(t))
			}
		}
		if types != nil {
			r.Types = strings.Join(types, ",")
		}
		switch l.FCP & (fc.TargetFeature | fc.InitiatorFeature) {
		case fc.TargetFeature:
			r.Features = "target"
		case fc.InitiatorFeature:
			r.Features = "initiator"
		case fc.TargetFeature | fc.InitiatorFeature:
			r.Features = "target,initiator"
		}
		list = append(list, r)
	}
	return list
}

// fcfMetrics are those of the FCF.
func (n *Node) fcfMetrics(m *nodectl.Metrics) {
	f := n.sw.FCF()
	if f == nil {
		return
	}
	logins := map[int]int{}
	for _, l := range f.Logins() {
		logins[l.Port]++
	}
	for i := range n.cfg.Ports {
		m.Gauge("tapir_switch_fcf_logins", "N_Ports that are logged in", logins[i],
			ctl.Label{Name: "port", Value: n.cfg.Ports[i].Name})
	}
	c := f.Counts()
	m.Counter("tapir_switch_fcf_frames", "frames of Fibre Channel from N_Port to N_Port", c.Frames)
	m.Counter("tapir_switch_fcf_octets", "octets of these frames", c.Octets)
	m.Counter("tapir_switch_fcf_refused", "logins and logouts refused", c.Refused)
	m.Counter("tapir_switch_fcf_expired", "N_Ports whose keep-alives were missing", c.Expired)
	m.Counter("tapir_switch_fcf_rscn", "state changes told", c.RSCNs)
}

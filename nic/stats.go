package nic

import (
	"strings"

	"tapir/nic/cm"
)

// StatInfo counts one kind of object or state for display, after the
// statistics of the Linux siw driver.
type StatInfo struct {
	Name string `json:"name"`
	Now  int    `json:"now"`
	Ever uint64 `json:"ever"` // since the NIC started; events: how often
}

// ShowStats counts the RDMA objects, the connection endpoints by what they do,
// and the events of the connection manager.
func (d *Device) ShowStats() []StatInfo {
	var list []StatInfo
	for _, u := range d.Verbs.Usage() {
		list = append(list, StatInfo{Name: strings.ToLower(u.Name), Now: u.Used, Ever: uint64(u.Ever)})
	}
	t := d.tcp.engine.Stats()
	phases := map[string]int{}
	for _, c := range d.iwarp.CEPs() {
		phases[c.Phase]++
	}
	list = append(list,
		StatInfo{Name: "cep_listening", Now: phases["listening"], Ever: d.CM.Opened()},
		StatInfo{Name: "cep_starting", Now: phases["connecting"] + phases["wait request"] + phases["offered"] + phases["wait reply"],
			Ever: t.ActiveOpens + t.PassiveOpens},
		StatInfo{Name: "cep_connected", Now: phases["full operation"], Ever: d.CM.Established()},
		StatInfo{Name: "cep_closing", Now: phases["closing"], Ever: d.CM.Counted(cm.EvClose)})
	for ev := range cm.NumDeviceEvents {
		list = append(list, StatInfo{Name: "event_" + strings.ToLower(ev.String()), Ever: d.CM.Counted(ev)})
	}
	return list
}

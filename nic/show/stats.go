package show

import (
	"strings"

	"tapir/nic/cm"
	"tapir/nic/view"
)

// ShowStats counts the RDMA objects, the work requests in their queues, the TCP
// connections but for those in TIME-WAIT, the connection endpoints by what they do, and the events of the
// connection manager.
func (v *View) ShowStats() []view.StatInfo {
	var list []view.StatInfo
	for _, u := range v.Verbs.Usage() {
		list = append(list, view.StatInfo{Name: strings.ToLower(u.Name), Now: u.Used, Ever: uint64(u.Ever)})
	}
	for _, r := range v.Verbs.WorkRequests() {
		list = append(list, view.StatInfo{Name: "wr_" + r.Queue, Now: r.Now, Ever: r.Ever})
	}
	t := v.TCPEngine.Stats()
	list = append(list,
		view.StatInfo{Name: "tcp_socket", Now: t.Open - t.TimeWait, Ever: t.ActiveOpens + t.PassiveOpens})
	phases := map[string]int{}
	for _, c := range v.ShowCEP() {
		phases[c.Phase]++
	}
	list = append(list,
		view.StatInfo{Name: "cep_listening", Now: phases["listening"], Ever: v.CM.Opened()},
		view.StatInfo{Name: "cep_starting", Now: phases["connecting"] + phases["wait request"] + phases["offered"] +
			phases["wait reply"],
			Ever: t.ActiveOpens + t.PassiveOpens},
		view.StatInfo{Name: "cep_connected", Now: phases["full operation"], Ever: v.CM.Established()},
		view.StatInfo{Name: "cep_closing", Now: phases["closing"], Ever: v.CM.Counted(cm.EvClose)})
	for _, ev := range v.CM.Events() {
		list = append(list, view.StatInfo{Name: "event_" + strings.ToLower(string(ev)), Ever: v.CM.Counted(ev)})
	}
	return list
}

package show

import (
	"tapir/nic/verbs"
	"tapir/nic/view"
)

// process is whoever made an object.
type process interface{ Process() int }

// processOf is the id of the process that a context belongs to; 0: the NIC's own.
func processOf(context any) int {
	if p, ok := context.(process); ok {
		return p.Process()
	}
	return 0
}

// listenerNum tells the numbers of listeners from those of connections.
const listenerNum = 1 << 31

// ShowResources lists the RDMA objects with their owners, by kind.
func (v *View) ShowResources() (list []view.ResourceInfo) {
	add := func(kind string, num uint32, users int, of *verbs.Context, r view.ResourceInfo) {
		r.Kind, r.Num, r.Users = kind, num, users
		if of != nil {
			r.PID, r.Context = processOf(of.Value), of.Num()
		}
		list = append(list, r)
	}
	for _, c := range v.Verbs.Contexts() {
		add("ctx", c.Num(), c.Users(), c, view.ResourceInfo{})
	}
	for _, p := range verbs.PDs(v.Verbs) {
		add("pd", p.Num(), p.Users(), p.Owner(), view.ResourceInfo{})
	}
	for _, c := range v.Verbs.CQs() {
		add("cq", c.Num(), c.Users(), c.Owner(), view.ResourceInfo{Entries: c.Cap()})
	}
	for _, m := range v.Verbs.MRs() {
		add("mr", m.Num(), m.Users(), m.Owner(), view.ResourceInfo{PD: m.PD().Num(), STag: m.RKey(), Len: m.Len()})
	}
	for _, q := range v.Verbs.QPs() {
		r := view.ResourceInfo{PD: q.PD().Num(), State: q.State().String()}
		if srq := q.Config().SRQ; srq != nil {
			r.SRQ = srq.Num()
		}
		add("qp", q.Num(), q.Users(), q.Owner(), r)
	}
	for _, s := range verbs.SRQs(v.Verbs) {
		add("srq", s.Num(), s.Users(), s.Owner(), view.ResourceInfo{PD: s.PD().Num()})
	}
	for _, l := range v.CM.Listeners() {
		list = append(list, view.ResourceInfo{Kind: "cm_id", Num: listenerNum | l.Num(), PID: processOf(l.Context),
			State: "LISTEN", Local: l.Local()})
	}
	for _, id := range v.CM.IDs() {
		r := view.ResourceInfo{Kind: "cm_id", Num: id.Num(), PID: processOf(id.Context), State: id.State().String(),
			Local: id.Local(), Remote: id.Remote()}
		if qp := id.QP(); qp != nil {
			r.QP = qp.Num()
		}
		list = append(list, r)
	}
	return list
}

// ShowNeighbors lists the stations whose hardware addresses are known or asked for.
func (v *View) ShowNeighbors() (list []view.NeighborInfo) {
	for n := range v.IP.Neighbors() {
		list = append(list, view.NeighborInfo{IP: n.IP, VLAN: n.VLAN, MAC: n.MAC, State: n.State})
	}
	return list
}

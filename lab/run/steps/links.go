package steps

import (
	"slices"

	"tapir/lab/host/fault"
	"tapir/lab/topo"
	"tapir/nic/iwarp"
	"tapir/nic/show"
)

// Rules returns the engine that strikes exact things on a link of the lab, nil
// if no rule ever does. qps finds the queue pairs of connections.
func Rules(l *topo.Lab, k *topo.Link, qps fault.FindQP) (*fault.Engine, error) {
	step := func(s topo.Step) bool { return s.Verb == topo.Fault && s.Link == k.Name && len(s.Rules) > 0 }
	if len(k.Rules) == 0 && !slices.ContainsFunc(l.Steps, step) {
		return nil, nil
	}
	e := fault.New(l.SeedOf(k), k.Ends)
	e.FindQPs(qps)
	return e, e.SetRules(k.Rules)
}

// LinkRow is a link in the tables of a lab.
type LinkRow struct {
	State string `json:"state"` // up or down
	Fault string `json:"fault"` // in force, of chance
	topo.LinkCounts
}

// LinkState is what a link does now. faults are those of frames from either end.
func LinkState(n topo.LinkCounts, down bool, faults, ends [2]string) LinkRow {
	r := LinkRow{State: "up", Fault: faults[0], LinkCounts: n}
	if r.Late = nil; down {
		r.State = "down"
	}
	if faults[0] != faults[1] {
		r.Fault = ends[0] + ": " + faults[0] + "; " + ends[1] + ": " + faults[1]
	}
	return r
}

// QPOf is the number of the queue pair among all of iWARP that has a TCP connection, 0 if
// none has.
func QPOf(all []show.QPInfo, c fault.Connection) uint32 {
	for _, q := range all {
		if q.Local == c.Src && q.Remote == c.Dst || q.Local == c.Dst && q.Remote == c.Src {
			return q.Num
		}
	}
	return 0
}

// RoCEQPOf is the number of the queue pair among all of RoCE that sends or receives the packets
// of a connection, 0 if none does.
func RoCEQPOf(all []show.RoCEQPInfo, c fault.Connection) uint32 {
	src, dst := c.Src.Addr(), c.Dst.Addr()
	for _, q := range all {
		sends := q.Local == src && q.Remote == dst && q.DestQP == c.DestQP
		if sends || q.Local == dst && q.Remote == src && q.Num == c.DestQP {
			return q.Num
		}
	}
	return 0
}

// Listens tells whether one of the endpoints listens on a TCP port.
func Listens(all []iwarp.CEPInfo, port uint16) bool {
	return slices.ContainsFunc(all, func(e iwarp.CEPInfo) bool {
		return e.Phase == "listening" && e.Local.Port() == port
	})
}

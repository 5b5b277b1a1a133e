package steps

import (
	"net/netip"
	"slices"

	"tapir/lab/host/fault"
	"tapir/lab/topo"
	"tapir/nic/iwarp"
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

// QPOf is the number of the queue pair among all that has the TCP connection
// between two ends, 0 if none has.
func QPOf(all []iwarp.QPInfo, ends [2]netip.AddrPort) uint32 {
	for _, q := range all {
		if own := [2]netip.AddrPort{q.Local, q.Remote}; own == ends || own == [2]netip.AddrPort{ends[1], ends[0]} {
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

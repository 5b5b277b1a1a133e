package virtual

import (
	"context"
	"time"

	"tapir/lab/run/steps"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/ui/record"
	"tapir/wire/frame"
)

// tablesEvery is how often the tables of ten nodes are sampled at first, of many more less often.
const tablesEvery = time.Millisecond

// watchTables begins to sample the tables of all nodes, if the lab is recorded.
func (l *lab) watchTables() {
	if l.opt.Out == "" {
		return
	}
	var names []string
	for _, n := range l.nodes {
		names = append(names, n.Name)
	}
	l.tables = record.NewTables(names, tablesEvery*time.Duration(10+len(names))/10)
	l.tables.Changed = l.changed
}

// changed tells whether the tables of a node may differ from the last sample. Those of a NIC change in its
// turns only; others show ages.
func (l *lab) changed(name string) bool {
	n := l.named[name]
	if n == nil || n.dev == nil {
		return true
	}
	turns := n.place.Turns()
	if turns == n.sampled {
		return false
	}
	n.sampled = turns
	return true
}

// sampleTables takes the sample that is due by end at the latest; false: none is.
func (l *lab) sampleTables(end frame.Time) bool {
	if l.tables == nil || frame.Time(l.tables.Next()) > end {
		return false
	}
	l.world.Run(frame.Time(l.tables.Next()))
	l.tables.Take(l.Now(), func(name string) map[string]any { return l.Tables(context.Background(), name) })
	return true
}

// Tables implements steps.World.
func (l *lab) Tables(_ context.Context, node string) map[string]any {
	if node == record.Lab {
		return l.linkTable()
	}
	n, now := l.node(node), l.world.Now()
	all := map[string]any{}
	switch {
	case n.dead:
		return map[string]any{"nic": map[string]any{"state": "killed"}}
	case n.dev != nil:
		return ctl.TablesOf(n.dev, now)
	case n.hfi != nil && n.hfi.mgr != nil:
		m := n.hfi.mgr
		s := m.Status()
		all = map[string]any{"manager": map[string]any{"role": s.Role, "in_sync": s.InSync},
			"vesw": m.VESWs(), "member": m.VPorts(), "mac": m.MACs(0), "port": m.Ports()}
	case n.hfi != nil:
		all = n.hfi.Tables()
	case n.sw != nil:
		all = map[string]any{"mac": n.sw.MACs(now)}
	}
	all["counters"] = n.counters()
	return all
}

// linkTable has the links by name.
func (l *lab) linkTable() map[string]any {
	rows := map[string]any{}
	for _, k := range l.links {
		rows[k.Name] = steps.LinkState(k.counts(), k.down, [2]string{k.fault[0].String(), k.fault[1].String()}, k.Ends)
	}
	return map[string]any{"link": rows}
}

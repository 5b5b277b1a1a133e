// Package nodectl is what the control servers of nodes that are no RDMA NICs
// share: tables, counters and metrics.
package nodectl

import (
	"fmt"

	"tapir/lab/node"
	"tapir/lab/tool/ctl"
	"tapir/wire/frame"
)

// Table is a table of a node for `tapir show`.
type Table struct {
	Kind string                   // one of ctl.Kinds
	Rows func(now frame.Time) any // on the loop's thread
}

// Row is a table of one row.
func Row[T any](kind string, row func() T) Table {
	return Table{kind, func(frame.Time) any { return row() }}
}

// List is a table of several rows, an array in JSON even without any.
func List[T any](kind string, rows func() []T) Table {
	return Row(kind, func() []T { return append([]T{}, rows()...) })
}

// Control is what the control server gets of a node that is no RDMA NIC.
type Control struct {
	ctl.NotRDMA
	base   *node.Base
	noun   string // such as HFI
	tables []Table
	stop   func()
}

// New returns the control of a node. who says what answers; stop begins
// the orderly end of the node and must not wait for it.
func New(b *node.Base, who, noun string, stop func(), tables ...Table) Control {
	return Control{ctl.NotRDMA{Who: b.Name() + " is " + who, Hardware: noun}, b, noun, tables, stop}
}

// Show returns a table.
func (c *Control) Show(kind string) (v any, err error) {
	var kinds []string
	for _, t := range c.tables {
		kinds = append(kinds, t.Kind)
		if t.Kind != kind {
			continue
		}
		if err := c.base.DoWait(func(now frame.Time) { v = t.Rows(now) }); err != nil {
			return nil, &ctl.Error{What: fmt.Sprintf("%s %s is ending: %v", c.noun, c.base.Name(), err)}
		}
		return v, nil
	}
	return nil, ctl.NoTable(c.Who, kind, kinds)
}

// Stop begins the end.
func (c *Control) Stop() { c.stop() }

// Counter is one counter of a node.
type Counter struct {
	Name  string `json:"name"`
	Value uint64 `json:"value"`
}

// Count is a counter.
func Count(name string, v uint64) Counter { return Counter{name, v} }

// AppendDrops lists the reasons for which frames were lost.
func AppendDrops(list []Counter, prefix string, drops *frame.Drops) []Counter {
	for r, v := range drops.Counted() {
		list = append(list, Counter{prefix + r.Counter(), v})
	}
	return list
}

// Metrics gathers metrics of one node.
type Metrics struct {
	Of  ctl.Label // says whose they are
	All []ctl.Metric
}

func (m *Metrics) add(name, help string, gauge bool, v float64, labels []ctl.Label) {
	labels = append([]ctl.Label{m.Of}, labels...)
	m.All = append(m.All, ctl.Metric{Name: name, Help: help, Gauge: gauge, Value: v, Labels: labels})
}

// Counter adds a counter; its name gets the usual end.
func (m *Metrics) Counter(name, help string, v uint64, labels ...ctl.Label) {
	m.add(name+"_total", help, false, float64(v), labels)
}

// Histogram adds one.
func (m *Metrics) Histogram(name, help string, h *ctl.Histogram, labels ...ctl.Label) {
	m.add(name, help, false, 0, labels)
	m.All[len(m.All)-1].Histogram = h
}

// Gauge adds a value that goes up and down.
func (m *Metrics) Gauge(name, help string, v int, labels ...ctl.Label) {
	m.add(name, help, true, float64(v), labels)
}

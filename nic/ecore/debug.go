//go:build !remove_dbg

package ecore

// debug is what a hwfn remembers for display and tests alone. Builds with the
// tag remove_dbg leave it out.
type debug struct{ phases []string }

// Debug tells whether it is there.
const Debug = true

func (d *debug) load() { d.phases = nil }

func (d *debug) phase(name string) { d.phases = append(d.phases, name) }

func (d *debug) ran() []string { return d.phases }

// counted are what a storm counts for display alone.
type counted struct{ ramrods, dropped uint64 }

func (c *counted) ramrod()          { c.ramrods++ }
func (c *counted) drop()            { c.dropped++ }
func (c *counted) executed() uint64 { return c.ramrods }

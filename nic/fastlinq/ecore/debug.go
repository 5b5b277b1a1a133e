//go:build !remove_dbg

package ecore

import (
	"slices"

	"tapir/nic/fastlinq/ecore/cxt"
)

// debug is what a hwfn remembers for display and tests alone. Builds with the
// tag remove_dbg leave it out.
type debug struct{ phases []string }

// Debug tells whether it is there.
const Debug = true

func (d *debug) load() { d.phases = nil }

func (d *debug) phase(name string) { d.phases = append(d.phases, name) }

func (d *debug) ran() []string { return d.phases }

// counted are what a storm counts for display alone.
type counted struct {
	ramrods, dropped uint64
	by               []RamrodCount // in order of protocol and command
}

func (c *counted) ramrod(p cxt.Protocol, cmd uint8) {
	c.ramrods++
	at := 0
	for ; at < len(c.by); at++ {
		switch of := &c.by[at]; {
		case of.Protocol == p && of.Cmd == cmd:
			of.Count++
			return
		case of.Protocol > p || of.Protocol == p && of.Cmd > cmd:
			c.by = slices.Insert(c.by, at, RamrodCount{p, cmd, 1})
			return
		}
	}
	c.by = append(c.by, RamrodCount{p, cmd, 1})
}

func (c *counted) drop()                   { c.dropped++ }
func (c *counted) executed() uint64        { return c.ramrods }
func (c *counted) commands() []RamrodCount { return slices.Clone(c.by) }

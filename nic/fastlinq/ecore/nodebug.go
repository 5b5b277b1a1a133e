//go:build remove_dbg

package ecore

import "tapir/nic/fastlinq/ecore/cxt"

type debug struct{}

// Debug tells whether a hwfn remembers what is for display alone.
const Debug = false

func (*debug) load()         {}
func (*debug) phase(string)  {}
func (*debug) ran() []string { return nil }

type counted struct{}

func (*counted) ramrod(cxt.Protocol, uint8) {}
func (*counted) drop()                      {}
func (*counted) executed() uint64           { return 0 }
func (*counted) commands() []RamrodCount    { return nil }

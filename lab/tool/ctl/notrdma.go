package ctl

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"tapir/nic/fastlinq"
	"tapir/nic/param"
)

// NotRDMA answers what a server asks of RDMA NICs, for nodes that are none; to
// be embedded in them.
type NotRDMA struct {
	Who      string // what the node is, such as "sw0 is a switch"
	Hardware string // its kind, such as "switch"
}

// Unable is the error of what the node cannot do, such as "does no RDMA".
func (n NotRDMA) Unable(what string) error { return &Error{What: n.Who + " and " + what} }

// Follow fails.
func (n NotRDMA) Follow(string, uint64) (any, uint64, error) {
	return nil, 0, n.Unable("keeps no list to follow")
}

// Set fails.
func (n NotRDMA) Set(settings []Setting) error {
	if err := n.Lacks(settings); err != nil {
		return err
	}
	return n.Unable("has no parameters to set")
}

// Lacks is the error of settings that only FastLinQ hardware has, nil without.
func (n NotRDMA) Lacks(settings []Setting) error {
	for _, s := range settings {
		if param.Find((&fastlinq.Config{}).Params(), s.Name) != nil {
			return lacks(n.Hardware, "setting "+s.Name)
		}
	}
	return nil
}

// Command fails, with the words of a NIC that lacks the part in question.
func (n NotRDMA) Command(_ context.Context, name string, _ json.RawMessage) (any, error) {
	if part := deviceCommands[name].part; part != "" {
		return nil, lacks(n.Hardware, part)
	}
	return nil, &Error{Status: http.StatusNotFound, What: n.Who + " and has no command " + name}
}

// Perf fails.
func (n NotRDMA) Perf(json.RawMessage, func(any), func(any, error)) (func(), error) {
	return nil, n.Unable("does no RDMA")
}

// NoTable is the error of Show for a kind that is not among those that who has;
// who is what the node is, such as "nic0 is an RDMA NIC".
func NoTable(who, kind string, has []string) error {
	return &Error{What: who + " and has no " + kind, Remedy: "choose one of " + strings.Join(has, ", ")}
}

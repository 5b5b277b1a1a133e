// Package doctor finds out why Tapir would not start on this machine. Every
// check tells what was found and, where that is not good, the one command
// that mends it.
package doctor

import (
	"context"
	"fmt"
	"io"
	"time"
)

// State is the verdict of one check.
type State string

// The verdicts, from good to bad.
const (
	OK   State = "ok"
	Info State = "info" // does not matter for this user; may matter to others
	Warn State = "warn" // NICs work, something beside them does not
	Fail State = "fail" // no NIC, or no demo, for this user
)

// Check is one finding.
type Check struct {
	Name   string `json:"name"`
	State  State  `json:"state"`
	Found  string `json:"found"`            // one line
	Remedy string `json:"remedy,omitempty"` // one line; empty exactly when State is OK
}

// timeout bounds all checks together; they take milliseconds on a healthy
// machine.
const timeout = time.Minute

// Run checks this machine for the calling user. It makes a TAP for an instant
// where it may, and leaves nothing behind.
func Run(ctx context.Context) []Check {
	return Host().Run(ctx)
}

// Run makes every check against the machine that p shows, in a fixed order.
func (p Probe) Run(ctx context.Context) []Check {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	m := p.survey(ctx)
	all := []Check{m.kernel(), m.tun(), m.tap()}
	for _, w := range localWires {
		all = append(all, m.localWire(w))
	}
	return append(all,
		m.wireDev(),
		m.wireTapdev(),
		m.userNamespaces(),
		m.seccomp(),
		m.yama(),
		m.rdmaLibraries(),
		m.bridge(),
		m.pause(),
		m.tool(ctx, "ip", "-V"),
		m.tool(ctx, "tshark", "--version"),
		m.tool(ctx, "tcpdump", "--version"))
}

// Failing returns the checks in state Fail.
func Failing(checks []Check) []Check {
	var bad []Check
	for _, c := range checks {
		if c.State == Fail {
			bad = append(bad, c)
		}
	}
	return bad
}

// Format writes the checks as aligned columns, each remedy on a line of its
// own below its check.
func Format(w io.Writer, checks []Check) error {
	width := 0
	for _, c := range checks {
		width = max(width, len(c.Name))
	}
	for _, c := range checks {
		if _, err := fmt.Fprintf(w, "%-4s  %-*s  %s\n", c.State, width, c.Name, c.Found); err != nil {
			return err
		}
		if c.Remedy == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "%6s%*s  remedy: %s\n", "", width, "", c.Remedy); err != nil {
			return err
		}
	}
	return nil
}

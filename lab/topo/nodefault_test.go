package topo

import (
	"errors"
	"strings"
	"testing"
	"time"

	"tapir/lab/conf"
)

// nodeFaults are steps behind one another.
const nodeFaults = `{run: sleep 9, on: a, name: s, background: true, clock: real}
  - {kill: s, after: {node: b, counter: rx_packets, min: 7}, clock: real}
  - {kill: a, after: 5ms}
  - {start: a}
  - {phc: b, step: -1m, after: {link: a-b, counter: lost}}
  - {phc: b, ppb: -20}`

func TestNodeFaults(t *testing.T) {
	l, err := Parse("lab.yaml", []byte(ruled("", nodeFaults)))
	if err != nil {
		t.Fatal(err)
	}
	s := l.Steps[1:]
	if s[0].Program != "s" || s[0].On != "" || !s[0].Later || s[0].Condition.Node != "b" || s[0].Condition.Min != 7 ||
		s[1].Verb != Kill || s[1].On != "a" || s[1].For != 5*time.Millisecond || s[2].Verb != Start || s[2].Later ||
		s[3].Shift != -time.Minute || s[3].Drifts || s[3].Condition.Link != "a-b" || s[4].PPB != -20 || !s[4].Drifts {
		t.Errorf("%+v", s)
	}
	if s[3].Text != "phc b: step by -1m0s after: a-b: lost: 1 or more" || s[1].Text != "kill a after 5ms" {
		t.Errorf("%q, %q", s[3].Text, s[1].Text)
	}
	if err := l.SetClock(Virtual); err != nil || len(l.Steps) != 4 {
		t.Error(err, l.Steps)
	}
}

func TestNodeFaultMistakes(t *testing.T) {
	for _, tt := range []struct{ step, want string }{
		{"{kill: c}", "10:12: there is no node c"},
		{"{kill: a, after: {link: a-b}}", "10:6: a-b: say which counter"},
		{"{kill: a, after: soon}", "10:22: no program called \"soon\" was started before"},
		{"{start: a, step: 1s}", "10:16: step: unknown key; expected one of start, after"},
		{"{phc: a}", "10:6: phc: say step or ppb"},
		{"{phc: a, step: 1s, ppb: 5}", "10:6: phc: step and ppb are two steps"},
		{"{phc: a, step: 0s}", "10:20: step: expected a time such as 10ms"},
		{"{phc: a, ppb: 2000000000}", "10:19: ppb: expected a number"},
		{"{run: date, on: a, name: b}\n  - {kill: b}", "11:12: both a node and a program are called b"},
	} {
		_, err := Parse("lab.yaml", []byte(ruled("", tt.step)))
		bad := (*conf.Error)(nil)
		if !errors.As(err, &bad) || !strings.HasPrefix(err.Error(), "lab.yaml:"+tt.want) || !strings.HasSuffix(bad.Excerpt(), "^\n") {
			t.Errorf("%s\n  %v\n  want %s", tt.step, err, tt.want)
		}
	}
	if _, err := Parse("lab.yaml", []byte("nodes:\n  a: {kind: nic, ip: 10.0.0.1/24}\n  h: {kind: host}\nlinks: [[a, h]]\nsteps: [{kill: h}]\n")); err == nil || !strings.Contains(err.Error(), "h: a host has no process of its own: take its link down") {
		t.Error(err)
	}
}

package topo

import (
	"fmt"
	"math"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"tapir/lab/conf"
	"tapir/lab/conf/perfconf"
)

// DefaultTimeout bounds a step.
const DefaultTimeout = time.Minute

// stepDraft is a Step while it is read.
type stepDraft struct {
	*draft
	Step
	rdma   bool
	to     netip.Addr
	bounds bool // min or max is given
	least  bool // min is
	impaired
}

// verbs are the steps with what they are made of; the first key is the verb's.
var verbs = []struct {
	verb     Verb
	fields   []conf.Field[stepDraft]
	required []string
	finish   func(*stepDraft, conf.Node) error
}{
	{Run, runFields, []string{"on"}, finishRun},
	{Perf, perfFields, []string{"server", "client"}, finishPerf},
	{Fault,
		append([]conf.Field[stepDraft]{{Name: "fault", Expect: "the link's name: its faults are now those of this step",
			Schema: name, Node: (*stepDraft).readLink}},
			conf.Part(faultFields, func(s *stepDraft) *impaired { return &s.impaired })...), nil, finishFault},
	{Plug, plugFields, []string{"state"}, func(*stepDraft, conf.Node) error { return nil }},
	{Kill, killFields, nil, finishKill},
	{Start, startFields, nil, finishStart},
	{PHC, phcFields, nil, finishPHC},
	{Wait, waitFields, nil, finishWait},
	{Expect, expectFields, nil, finishExpect},
}

// name is the schema of a name, which in YAML may look like a number.
var name = conf.Schema{"type": []string{"string", "number"}}

var clockField = conf.Field[stepDraft]{Name: "clock", Expect: "real or virtual: there is this step by that clock alone",
	Schema: conf.Choice(clocks...),
	Set:    func(s *stepDraft, v string) error { return conf.Word(&s.Clock, v, clocks...) }}

// ofAll are the settings of every step.
var ofAll = []conf.Field[stepDraft]{clockField}

var timeoutField = conf.Field[stepDraft]{Name: "timeout",
	Expect: "how long the step may take, up to 1h, such as 10s (default 60s)", Set: func(s *stepDraft, v string) error {
		return conf.Time(&s.Timeout, v, 1, time.Hour)
	}}

var runFields = []conf.Field[stepDraft]{
	{Name: "run", Expect: "a command line, or a list of its words", Node: (*stepDraft).readCommand,
		Schema: conf.Schema{"anyOf": []conf.Schema{{"type": "string"},
			{"type": "array", "items": conf.Schema{"type": []string{"string", "number"}}, "minItems": 1}}}},
	{Name: "on", Expect: "the node in whose namespace it runs", Schema: name,
		Node: func(s *stepDraft, n conf.Node) error {
			return s.refer(&s.On, n, hasPrograms)
		}},
	{Name: "rdma", Expect: "true: an unmodified RDMA program, which finds the node's NIC under `tapir run`",
		Schema: truth, Set: func(s *stepDraft, v string) error {
			return setBool(&s.rdma, v)
		}},
	{Name: "kill_after_posts", Expect: "kill the RDMA program between that post to a send queue, from 1, and " +
		"whatever it would do next; its exit code is 137 then", Set: func(s *stepDraft, v string) error {
		return conf.Int(&s.KillAfter, v, 1, math.MaxInt32)
	}},
	{Name: "name", Expect: "what other steps call it (default the node and the program, as in a/rping, with -2 and " +
		"so on for the next)", Set: func(s *stepDraft, v string) error {
		return conf.Name(&s.Name, v)
	}},
	{Name: "background", Expect: "true: the next step begins at once", Schema: truth,
		Set: func(s *stepDraft, v string) error {
			return setBool(&s.Background, v)
		}}, timeoutField,
	{Name: "exit", Expect: "the exit code that is right, from 0 to 255 (default 0)",
		Set: func(s *stepDraft, v string) error {
			return conf.Int(&s.Exit, v, 0, 255)
		}},
	{Name: "output", Expect: "a regular expression that its output matches", Set: func(s *stepDraft, v string) error {
		return setPattern(&s.Output, v)
	}},
}

func (s *stepDraft) readCommand(n conf.Node) (err error) {
	if text, ok := n.Text(); ok {
		s.Argv, err = words(text)
		return err
	}
	argv, ok := n.Texts()
	if !ok || len(argv) == 0 {
		return n.Errorf("run: expected a command line, or a list of its words")
	}
	s.Argv = argv
	return nil
}

func setPattern(r **regexp.Regexp, v string) (err error) {
	*r, err = regexp.Compile("(?m)" + v)
	return err
}

func finishRun(s *stepDraft, n conf.Node) error {
	s.Text = s.On + ": " + strings.Join(s.Argv, " ")
	taken := func() bool {
		return slices.ContainsFunc(s.Steps, func(other Step) bool { return other.Verb == Run && other.Name == s.Name })
	}
	if s.Name != "" && taken() {
		return n.Errorf("two programs are called %s", s.Name)
	}
	if s.Name == "" {
		base := s.On + "/" + filepath.Base(s.Argv[0])
		s.Name = base
		for i := 2; taken(); i++ {
			s.Name = fmt.Sprintf("%s-%d", base, i)
		}
	}
	if s.KillAfter > 0 {
		if !s.rdma {
			return n.Errorf("kill_after_posts: is of RDMA programs: say rdma: true")
		}
		if s.Exit == 0 {
			s.Exit = 128 + int(syscall.SIGKILL)
		}
	}
	if s.rdma {
		s.NICs = []string{s.On}
		s.later(func() error {
			if on := s.Node(s.On); on != nil && on.Kind != NIC {
				return n.Errorf("%s: %s", s.On, isNIC(on))
			}
			return nil
		})
	}
	return nil
}

var perfFields = []conf.Field[stepDraft]{
	{Name: "perf", Expect: "a workload: " + opNames(), Schema: conf.Choice(ops()...),
		Set: func(s *stepDraft, v string) error {
			if s.Job.Op = perfconf.Op(v); !slices.Contains(perfconf.Ops, s.Job.Op) {
				return conf.ErrValue
			}
			return nil
		}},
	{Name: "server", Expect: "the NIC that serves", Schema: name, Node: func(s *stepDraft, n conf.Node) error {
		return s.referAll(&s.Server, n, isNIC)
	}},
	{Name: "client", Expect: "the NIC that asks", Schema: name, Node: func(s *stepDraft, n conf.Node) error {
		return s.referAll(&s.Client, n, isNIC)
	}},
	{Name: "to", Expect: "the server's address (default its first)", Set: func(s *stepDraft, v string) (err error) {
		s.to, err = netip.ParseAddr(v)
		return err
	}},
	{Name: "size", Expect: "octets of a message; verify takes a list", Many: true,
		Set: func(s *stepDraft, v string) error {
			err := conf.Int(&s.Job.Size, v, 1, perfconf.MaxSize)
			s.Job.Sizes = append(s.Job.Sizes, s.Job.Size)
			return err
		}},
	{Name: "iters", Expect: "messages of each queue pair", Set: func(s *stepDraft, v string) (err error) {
		s.Job.Iters, err = strconv.ParseInt(v, 10, 64)
		return err
	}},
	{Name: "duration", Expect: "a time up to 1h such as 2s, instead of iters", Set: func(s *stepDraft, v string) error {
		return conf.Time(&s.Job.Duration, v, 0, time.Hour)
	}},
	{Name: "qps", Expect: "queue pairs", Set: func(s *stepDraft, v string) error {
		return conf.Int(&s.Job.QPs, v, 1, perfconf.MaxQPs)
	}},
	{Name: "depth", Expect: "requests in flight on each", Set: func(s *stepDraft, v string) error {
		return conf.Int(&s.Job.Depth, v, 1, perfconf.MaxDepth)
	}},
	{Name: "error", Expect: "a regular expression: the workload fails, for a reason that matches it",
		Set: func(s *stepDraft, v string) error {
			return setPattern(&s.Fails, v)
		}}, timeoutField,
}

func ops() (names []string) {
	for _, op := range perfconf.Ops {
		names = append(names, string(op))
	}
	return names
}

func opNames() string { return strings.Join(ops(), ", ") }

func finishPerf(s *stepDraft, n conf.Node) error {
	if s.Job.Op != perfconf.Verify {
		if len(s.Job.Sizes) > 1 {
			return n.Errorf("size: only verify takes several")
		}
		s.Job.Sizes = nil
	}
	s.Text = fmt.Sprintf("perf %s from %s to %s", s.Job.Op, s.Client, s.Server)
	i := len(s.Steps)
	d, to := s.draft, s.to
	s.later(func() error {
		x := &d.Steps[i]
		if x.Client == x.Server && d.groups[x.Client] == nil {
			return n.Errorf("%s: server and client are two NICs", x.Client)
		}
		if err := d.pairs(x, to); err != nil {
			return n.Errorf("%v", err)
		}
		return nil
	})
	return nil
}

func finishFault(s *stepDraft, _ conf.Node) error {
	s.Text = "fault " + s.Link
	i, d, all := len(s.Steps), s.draft, s.impaired
	s.later(func() (err error) {
		step := &d.Steps[i]
		step.Fault, step.Rules, err = all.finish(d, d.Lab.Link(step.Link))
		return err
	})
	return nil
}

func (s *stepDraft) readLink(n conf.Node) error { return s.referLink(&s.Link, n) }

var plugFields = []conf.Field[stepDraft]{
	{Name: "link", Expect: "the link's name", Schema: name, Node: (*stepDraft).readLink},
	{Name: "state", Expect: "down or up", Schema: conf.Choice("down", "up"), Set: func(s *stepDraft, v string) error {
		s.Down = v == "down"
		s.Text = "link " + s.Link + " " + v
		if v != "down" && v != "up" {
			return conf.ErrValue
		}
		return nil
	}},
}

// addSteps reads the list of steps.
func addSteps(d *draft, n conf.Node) error {
	list, ok := n.List()
	if !ok {
		return n.Errorf("steps: expected a list of steps")
	}
	for _, n := range list {
		if err := d.addStep(n); err != nil {
			return err
		}
	}
	return nil
}

func (d *draft) addStep(n conf.Node) error {
	entries, err := n.Map("a step, such as `run: ping -c 1 10.0.0.2`")
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		return n.Errorf("a step begins with one of %s", verbNames())
	}
	for _, v := range verbs {
		if entries[0].Name != string(v.verb) {
			continue
		}
		s := stepDraft{draft: d, Step: Step{Verb: v.verb, Line: entries[0].Key.Line(), Timeout: DefaultTimeout}}
		s.Condition.Min, s.Condition.Max = 1, 1<<64-1
		if err := conf.Decode(n, &s, "a step", slices.Concat(v.fields, ofAll)); err != nil {
			return err
		}
		for _, want := range v.required {
			if !slices.ContainsFunc(entries, func(e conf.Entry) bool { return e.Name == want }) {
				return entries[0].Key.Errorf("%s: %s is missing", v.verb, want)
			}
		}
		if err := v.finish(&s, entries[0].Key); err != nil {
			return err
		}
		s.limit(entries[0].Key)
		d.Steps = append(d.Steps, s.Step)
		return nil
	}
	return entries[0].Key.Errorf("%s: a step begins with one of %s", entries[0].Name, verbNames())
}

func verbNames() string {
	var names []string
	for _, v := range verbs {
		names = append(names, string(v.verb))
	}
	return strings.Join(names, ", ")
}

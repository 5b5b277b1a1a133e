package topo

import (
	"fmt"
	"math"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
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
	fields   func(*stepDraft) []conf.Field
	required []string
	finish   func(*stepDraft, conf.Node) error
}{
	{Run, (*stepDraft).runFields, []string{"on"}, finishRun},
	{Perf, (*stepDraft).perfFields, []string{"server", "client"}, finishPerf},
	{Fault, (*stepDraft).faultFields, nil, finishFault},
	{Plug, (*stepDraft).plugFields, []string{"state"}, func(*stepDraft, conf.Node) error { return nil }},
	{Kill, (*stepDraft).killFields, nil, finishKill},
	{Start, (*stepDraft).startFields, nil, finishStart},
	{PHC, (*stepDraft).phcFields, nil, finishPHC},
	{Wait, (*stepDraft).waitFields, nil, finishWait},
	{Expect, (*stepDraft).expectFields, nil, finishExpect},
}

// name is the schema of a name, which in YAML may look like a number.
var name = conf.Schema{"type": []string{"string", "number"}}

// someNames is the schema of a name, or of a list of them.
var someNames = conf.Schema{"anyOf": []conf.Schema{name, {"type": "array", "items": name, "minItems": 1}}}

// clockField is a setting of every step.
func (s *stepDraft) clockField() conf.Field {
	return conf.Field{Name: "clock", Expect: "real or virtual: there is this step by that clock alone",
		Schema: conf.Choice(clocks...), Set: conf.Word(&s.Clock, clocks...)}
}

func (s *stepDraft) timeoutField() conf.Field {
	return conf.Field{Name: "timeout", Expect: "how long the step may take, up to 1h, such as 10s (default 60s)",
		Set: conf.Time(&s.Timeout, 1, time.Hour)}
}

func (s *stepDraft) faultFields() []conf.Field {
	return append([]conf.Field{{Name: "fault", Expect: "the link's name: its faults are now those of this step",
		Schema: name, Node: s.readLink}}, s.impaired.fields()...)
}

func (s *stepDraft) runFields() []conf.Field {
	return []conf.Field{
		{Name: "run", Expect: "a command line, or a list of its words", Node: s.readCommand,
			Schema: conf.Schema{"anyOf": []conf.Schema{{"type": "string"},
				{"type": "array", "items": conf.Schema{"type": []string{"string", "number"}}, "minItems": 1}}}},
		{Name: "on", Expect: "the node in whose namespace it runs", Schema: name,
			Node: func(n conf.Node) error {
				return s.refer(&s.On, n, hasPrograms)
			}},
		conf.Truth("rdma", "true: an unmodified RDMA program, which finds the node's NIC under `tapir run`", &s.rdma),
		{Name: "kill_after_posts", Expect: "kill the RDMA program right after that post to a send queue, " +
			"counted from 1; its exit code is then 137", Set: conf.Int(&s.KillAfter, 1, math.MaxInt32)},
		{Name: "name",
			Expect: "what other steps call it (default the node and the program, as in a/rping, with -2 and " +
				"so on for the next)", Set: conf.Name(&s.Name)},
		conf.Truth("background", "true: the next step begins at once", &s.Background), s.timeoutField(),
		{Name: "exit", Expect: "the exit code that is right, from 0 to 255 (default 0)",
			Set: conf.Int(&s.Exit, 0, 255)},
		{Name: "output", Expect: "a regular expression that its output matches",
			Set: conf.Parsed(&s.Output, parsePattern)},
	}
}

func (s *stepDraft) readCommand(n conf.Node) (err error) {
	if text, ok := n.Text(); ok {
		s.Argv, err = conf.Words(text)
		return err
	}
	argv, ok := n.Texts()
	if !ok || len(argv) == 0 {
		return n.Errorf("run: expected a command line, or a list of its words")
	}
	s.Argv = argv
	return nil
}

func parsePattern(s string) (*regexp.Regexp, error) { return regexp.Compile("(?m)" + s) }

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

func (s *stepDraft) perfFields() []conf.Field {
	return []conf.Field{
		{Name: "perf", Expect: "a workload: " + join(perfconf.Ops), Schema: conf.Choice(ops()...),
			Set: conf.Word((*string)(&s.Job.Op), ops()...)},
		{Name: "server", Expect: "the NIC that serves, or a list", Schema: someNames, Node: func(n conf.Node) error {
			return s.referList(&s.Server, n, isNIC)
		}},
		{Name: "client", Expect: "the NIC that asks, or a list", Schema: someNames, Node: func(n conf.Node) error {
			return s.referList(&s.Client, n, isNIC)
		}},
		{Name: "to", Expect: "the server's address (default its first)", Set: conf.Parsed(&s.to, netip.ParseAddr)},
		{Name: "size", Expect: "octets of a message; verify takes a list", Many: true,
			Set: func(v string) error {
				err := conf.Int(&s.Job.Size, 1, perfconf.MaxSize)(v)
				s.Job.Sizes = append(s.Job.Sizes, s.Job.Size)
				return err
			}},
		{Name: "iters", Expect: "messages of each queue pair",
			Set: conf.Int(&s.Job.Iters, math.MinInt64, math.MaxInt64)},
		{Name: "duration", Expect: "a time up to 1h such as 2s, instead of iters",
			Set: conf.Time(&s.Job.Duration, 0, time.Hour)},
		{Name: "transport", Expect: "what both NICs must speak: " + join(perfconf.Transports),
			Schema: conf.Choice(perfconf.Transports...),
			Set:    conf.Word(&s.Job.Transport, perfconf.Transports...)},
		{Name: "qps", Expect: "queue pairs", Set: conf.Int(&s.Job.QPs, 1, perfconf.MaxQPs)},
		{Name: "depth", Expect: "requests in flight on each", Set: conf.Int(&s.Job.Depth, 1, perfconf.MaxDepth)},
		{Name: "latency", Expect: "bounds half round trips of write-lat and send-lat, such as {p50: 20us, p99: 100us}",
			Schema: conf.Object(s.Latency.Fields()), Node: func(n conf.Node) error {
				return conf.Decode(n, "bounds, such as {p99: 100us}", s.Latency.Fields())
			}},
		{Name: "error", Expect: "a regular expression: the workload fails, for a reason that matches it",
			Set: conf.Parsed(&s.Fails, parsePattern)}, s.timeoutField(),
	}
}

func ops() []string { return texts(perfconf.Ops, func(op perfconf.Op) string { return string(op) }) }

func finishPerf(s *stepDraft, n conf.Node) error {
	if s.Job.Op != perfconf.Verify {
		if len(s.Job.Sizes) > 1 {
			return n.Errorf("size: only verify takes several")
		}
		s.Job.Sizes = nil
	}
	if s.Latency != (perfconf.Latency{}) && s.Job.Op != perfconf.WriteLat && s.Job.Op != perfconf.SendLat {
		return n.Errorf("latency: is of write-lat and send-lat")
	}
	s.Text = fmt.Sprintf("perf %s from %s to %s", s.Job.Op, s.Client, s.Server)
	i := len(s.Steps)
	d, to := s.draft, s.to
	s.later(func() error {
		return n.Place(d.pairs(&d.Steps[i], to))
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

func (s *stepDraft) plugFields() []conf.Field {
	return []conf.Field{
		{Name: "link", Expect: "the link's name", Schema: name, Node: s.readLink},
		{Name: "state", Expect: "down or up", Schema: conf.Choice("down", "up"), Set: func(v string) error {
			s.Down = v == "down"
			s.Text = "link " + s.Link + " " + v
			if v != "down" && v != "up" {
				return conf.ErrValue
			}
			return nil
		}},
	}
}

// addSteps reads the list of steps.
func (d *draft) addSteps(n conf.Node) error {
	return n.Each(0, "steps: expected a list of steps", func(n conf.Node, _ int) error { return d.note(d.addStep(n)) })
}

func (d *draft) addStep(n conf.Node) error {
	d.part++
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
		if err := conf.Decode(n, "a step", append(v.fields(&s), s.clockField())); err != nil {
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
	return entries[0].Key.Errorf("%s: a step begins with one of %s%s", entries[0].Name, verbNames(),
		conf.Aside(entries[0].Name, strings.Split(verbNames(), ", ")))
}

func verbNames() string {
	var all []Verb
	for _, v := range verbs {
		all = append(all, v.verb)
	}
	return join(all)
}

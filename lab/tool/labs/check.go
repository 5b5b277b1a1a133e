package labs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tapir/lab/conf"
	"tapir/lab/run/result"
	"tapir/lab/run/steps"
	"tapir/lab/run/virtual"
	"tapir/lab/tool/cli"
	"tapir/lab/tool/complete"
	"tapir/lab/tool/schema"
	"tapir/lab/tool/tshark"
	"tapir/lab/tool/usage"
	"tapir/lab/topo"
	"tapir/wire/frame"
)

var (
	_ = schema.Add("lab check", 1, []Mistake{})
	_ = schema.Add("lab test", 1, []*result.Result{})
	_ = schema.Add("lab inspect", 1, Described{})
)

// Mistake is something wrong in a topology file.
type Mistake struct {
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	What    string `json:"what"`
	excerpt string
}

func newLabCheck() *cobra.Command {
	var asJSON bool
	return cli.With(&cobra.Command{
		Use:   "check FILE...",
		Short: "Report all errors in topology files without running them",
		Long: "Check reads topology files and prints everything that is wrong: keys and values, names of nodes,\n" +
			"links and programs, counters that a node does not have, display filters that tshark refuses.\n" +
			"It ends with exit code 2 if there is a mistake. Run and test check the same before they begin.",
		Example: "  tapir lab check lab.yaml\n  tapir lab check --json lab/examples/*/lab.yaml",
		Args:    cli.AtLeast(1, "name topology files: see: tapir lab check --help"),

		ValidArgsFunction: complete.Files,
		RunE: func(cmd *cobra.Command, args []string) error {
			all := []Mistake{}
			for _, file := range args {
				found, err := check(cmd.Context(), file)
				if err != nil {
					return err
				}
				if all = append(all, found...); len(found) == 0 && !asJSON {
					fmt.Fprintf(cmd.OutOrStdout(), "ok %s\n", file)
				}
			}
			if asJSON {
				if err := json.NewEncoder(cmd.OutOrStdout()).Encode(all); err != nil {
					return err
				}
			} else {
				printMistakes(cmd.ErrOrStderr(), all)
			}
			if len(all) > 0 {
				return usage.Exit(2)
			}
			return nil
		},
	}, cli.JSON(&asJSON))
}

func printMistakes(w io.Writer, all []Mistake) {
	for _, m := range all {
		fmt.Fprintf(w, "%s: %s\n%s", m.place(), m.What, m.excerpt)
	}
}

func (m *Mistake) place() string {
	switch {
	case m.Line == 0:
		return m.File
	case m.Column == 0:
		return fmt.Sprintf("%s:%d", m.File, m.Line)
	}
	return fmt.Sprintf("%s:%d:%d", m.File, m.Line, m.Column)
}

// check finds the mistakes in a file.
func check(ctx context.Context, file string) (all []Mistake, err error) {
	data, err := conf.ReadFile(file)
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		return nil, err
	}
	found := []error{err}
	if err == nil {
		found = topo.Mistakes(file, data)
	}
	for _, err := range found {
		m := Mistake{File: file, What: err.Error()}
		if e := (*conf.Error)(nil); errors.As(err, &e) {
			m = Mistake{e.File, e.Line, e.Column, e.What, e.Excerpt()}
		}
		all = append(all, m)
	}
	if len(all) > 0 {
		return all, nil
	}
	lab, err := topo.Parse(file, data)
	if err != nil {
		return nil, err
	}
	return names(ctx, lab)
}

// Check refuses a lab with a condition about a counter that there is not, or with a filter that tshark
// does not understand.
func Check(ctx context.Context, lab *topo.Lab) error {
	all, err := names(ctx, lab)
	if err == nil && len(all) > 0 {
		err = usage.Errorf("%s: %s", all[0].place(), all[0].What)
	}
	return err
}

// names finds counters and filters of conditions that there are not.
func names(ctx context.Context, lab *topo.Lab) (all []Mistake, err error) {
	var world *virtual.Lab
	defer func() {
		if world != nil {
			world.World.Close()
		}
	}()
	known := map[string][]string{}
	for i := range lab.Steps {
		s := &lab.Steps[i]
		c := &s.Condition
		what := ""
		switch {
		case c.Filter != "":
			what = refusedFilter(ctx, c.Filter)
		case c.Counter != "" && c.Node != "" && c.VESW == 0:
			if world == nil {
				if world, err = quiet(ctx, lab); err != nil || world == nil {
					return all, err
				}
			}
			if known[c.Node] == nil {
				known[c.Node] = countersOf(ctx, world, c.Node)
			}
			what = missing(c, known[c.Node])
		}
		if what != "" {
			all = append(all, Mistake{File: lab.File, Line: s.Line, What: what})
		}
	}
	return all, nil
}

// missing says that a node has no such counter.
func missing(c *topo.Condition, known []string) string {
	if slices.Contains(known, c.Counter) || isDrop(c.Counter) {
		return ""
	}
	hint := cmp.Or(conf.Near(c.Counter, known), "tapir show "+c.Node+" counters lists them")
	return fmt.Sprintf("counter: %s has no %s: %s", c.Node, c.Counter, hint)
}

// isDrop tells whether a counter is one of frames dropped for a reason: these are there once there are such frames.
func isDrop(name string) bool {
	for r := range frame.DropReasons() {
		if strings.HasSuffix(name, "drop_"+r.Counter()) {
			return true
		}
	}
	return false
}

// quiet makes the lab's nodes, which do nothing, to ask them; nil if there is a kind of node that
// only the real clock has.
func quiet(ctx context.Context, lab *topo.Lab) (*virtual.Lab, error) {
	still := *lab
	if still.SetClock(topo.Virtual) != nil {
		return nil, nil
	}
	still.Steps = nil
	return virtual.Up(ctx, &still, virtual.Options{Options: steps.Options{}})
}

func countersOf(ctx context.Context, world *virtual.Lab, node string) (names []string) {
	list, _ := world.World.Counters(ctx, node, 0) // a node that has none: a condition on it is refused
	for _, c := range list {
		names = append(names, c.Name)
	}
	return names
}

// noPackets is a pcap file of Ethernet without any.
const noPackets = "\xd4\xc3\xb2\xa1\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x00\x00\x01\x00\x00\x00"

// refusedFilter says why tshark does not take a display filter; empty if it does.
func refusedFilter(ctx context.Context, filter string) string {
	if err := tshark.Available(); err != nil {
		return "filter: " + err.Error()
	}
	_, err := tshark.Fields(ctx, tshark.Input, tshark.Options{Input: strings.NewReader(noPackets), Filter: filter},
		"frame.number")
	if err == nil {
		return ""
	}
	_, why, _ := strings.Cut(usage.OneLine(err), "tshark: ")
	if _, after, ok := strings.Cut(why, "tshark: "); ok { // its own words
		why = after
	}
	return fmt.Sprintf("filter: %q: %s", filter, why)
}

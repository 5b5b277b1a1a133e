package labs

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"tapir/lab/run/real"
	"tapir/lab/tool/cli"
	"tapir/lab/tool/complete"
	"tapir/lab/tool/usage"
	"tapir/lab/topo"
)

// strike is a subcommand that does a step now in a lab that is up.
func strike(use, short, long, example string, args cobra.PositionalArgs,
	step func(args []string) (string, error)) *cobra.Command {
	var lab string
	cmd := cli.With(&cobra.Command{Use: use, Short: short, Long: long, Example: example, Args: args,
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := step(args)
			if err != nil {
				return err
			}
			r, err := real.Find(lab)
			if err != nil {
				return err
			}
			return r.Step(cmd.Context(), text)
		}}, cli.F(&lab, "lab", "", "`name` of the lab, if several are up"))
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, part string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return words(cmd.Name(), part)
		}
		return targets(lab, strings.Contains(use, "LINK")), cobra.ShellCompDirectiveNoFileComp
	}
	_ = cmd.RegisterFlagCompletionFunc("lab",
		func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return completeLab(nil, nil, "")
		})
	return cmd
}

// words are offered behind the target of a verb.
func words(verb, part string) ([]string, cobra.ShellCompDirective) {
	var all []complete.Setting
	for _, name := range map[string][]string{"fault": topo.Faults(), "clock": {"step", "ppb"}}[verb] {
		all = append(all, complete.Setting{Name: name})
	}
	if verb == "link" {
		return []string{"up", "down"}, cobra.ShellCompDirectiveNoFileComp
	}
	return complete.Settings(all, part)
}

// targets are the links or nodes of labs that are up: of all, or of the one of that name.
func targets(lab string, links bool) (names []string) {
	for _, r := range real.List() {
		switch {
		case lab != "" && r.Name != lab:
		case links:
			for _, l := range r.Links {
				names = append(names, l.Name)
			}
		default:
			for _, n := range r.Drawn {
				names = append(names, n.Name)
			}
		}
	}
	return names
}

// settings are NAME=VALUE as a step has them.
func settings(verb, target string, list []string) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "{%s: %q", verb, target)
	for _, s := range list {
		name, value, ok := strings.Cut(s, "=")
		if !ok {
			return "", usage.Errorf("%q: expected NAME=VALUE, such as loss=1%%", s)
		}
		fmt.Fprintf(&b, ", %q: %s", name, value)
	}
	return b.String() + "}", nil
}

// strikes are the subcommands that act on a lab that is up.
func strikes() []*cobra.Command {
	one := func(verb string) func(args []string) (string, error) {
		return func(args []string) (string, error) { return settings(verb, args[0], nil) }
	}
	fault := strike("fault LINK NAME=VALUE...", "Put faults on a link of a lab that is up",
		"Fault sets the faults of a link and replaces earlier ones. Names and values are those of a fault\n"+
			"step: loss, duplicate, corrupt, reorder, depth, delay, jitter, rate, queue, from, rules.",
		"  tapir lab fault a-b loss=1% delay=3ms\n  tapir lab fault a-b 'rules=[{drop: fpdu, nth: 3}]' --lab rping",
		cli.AtLeast(2, "name the link and its faults: see: tapir lab fault --help"),
		func(args []string) (string, error) { return settings("fault", args[0], args[1:]) })
	fault.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return usage.Errorf("%w: faults are words such as loss=1%%: see: tapir lab fault --help", err)
	})
	return []*cobra.Command{
		fault,
		strike("heal LINK", "Remove the faults of a link in a running lab", "", "  tapir lab heal a-b",
			cli.ExactlyOne("name the link: see: tapir lab heal --help"), one("fault")),
		strike("link LINK up|down", "Take a link in a running lab down or up", "",
			"  tapir lab link a-b down\n  tapir lab link a-b up",
			cli.AtLeast(2, "name the link and its state: see: tapir lab link --help"),
			func(args []string) (string, error) {
				if len(args) > 2 {
					return "", usage.Errorf("unexpected argument %q", args[2])
				}
				return settings("link", args[0], []string{"state=" + args[1]})
			}),
		strike("kill NODE", "Kill a node of a lab that is up", "Kill ends a node at once; its peers get no message.",
			"  tapir lab kill a\n  tapir lab start a", cli.ExactlyOne("name the node: see: tapir lab kill --help"),
			one("kill")),
		strike("start NODE", "Restart a killed node", "", "  tapir lab start a",
			cli.ExactlyOne("name the node: see: tapir lab start --help"), one("start")),
		strike("clock NODE step=TIME|ppb=NUMBER", "Step or slew the hardware clock of a node in a running lab", "",
			"  tapir lab clock a step=10ms\n  tapir lab clock a ppb=-500",
			cli.AtLeast(2, "name the node and what its clock does: see: tapir lab clock --help"),
			func(args []string) (string, error) { return settings("phc", args[0], args[1:]) }),
	}
}

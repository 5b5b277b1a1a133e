package labs

import (
	"context"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tapir/lab/host/netns"
	"tapir/lab/run/real"
	"tapir/lab/tool/clab"
	"tapir/lab/tool/cli"
	"tapir/lab/tool/complete"
	"tapir/lab/tool/demo"
	"tapir/lab/tool/files"
	"tapir/lab/tool/usage"
	"tapir/lab/topo"
	"tapir/lab/topo/draw"
)

// Command is `tapir lab`; version is that of the program.
func Command(version string) *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use:   "lab",
		Short: "Run labs: nodes, links, faults and programs that one YAML file describes",
		Long: "A lab is NICs, hosts and switches in network namespaces of their own, joined by links that\n" +
			"delay, lose or corrupt frames as the file says, and steps: programs (stock RDMA programs,\n" +
			"too), workloads, faults, and what has to come out. It needs root, or a system that lets\n" +
			"ordinary users make user namespaces. Nothing is left behind.",
		Example: "  tapir lab run lab/examples/first-write/lab.yaml\n  tapir lab test lab/examples/*/lab.yaml",
	}, "verb", newLabRun(version), newLabTest(version), newLabNew(), newLabCheck(), newLabInspect(),
		newLabUp(version), newLabDown(), newLabExec(), newLabGraph(), newLabSchema(), newLabGC(), clab.Command(loadLab))
	cmd.AddCommand(strikes()...)
	for _, below := range cmd.Commands() {
		complete.Flags(below, map[string][]string{"clock": {topo.Real, topo.Virtual}, "format": {"mermaid", "dot"},
			"kind": slices.Sorted(maps.Keys(kinds))})
	}
	return cmd
}

// oneFile accepts the name of one topology file.
func oneFile(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usage.Errorf("name one topology file: see: %s --help", cmd.CommandPath())
	}
	return nil
}

// loadChecked is loadLab of a lab whose steps run: their counters and filters are checked, too.
func loadChecked(ctx context.Context, path, clock string) (*topo.Lab, error) {
	l, err := loadLab(path, clock)
	if err != nil || netns.Reexeced() {
		return l, err
	}
	return l, Check(ctx, l)
}

// loadLab reads a topology file; a mistake in it is one of usage. clock, unless
// empty, is that of --clock.
func loadLab(path, clock string) (*topo.Lab, error) {
	l, err := cli.Mistakes(topo.Load(path))
	if err == nil && clock != "" {
		err = usage.Wrap(l.SetClock(clock))
	}
	return l, err
}

const clockFlag = "`clock` to run by, real or virtual, instead of the file's"

// privileged runs fn with the rights to make the namespaces of labs: in a user
// namespace if need be. What the labs need from the network is brought before.
func privileged(cmd *cobra.Command, labs []*topo.Lab, fn func() error) error {
	labs = slices.DeleteFunc(slices.Clone(labs), func(l *topo.Lab) bool { return l.Clock != topo.Real })
	if len(labs) == 0 || netns.Privileged() || netns.Reexeced() {
		return fn()
	}
	if err := real.Prepare(cmd.Context(), cmd.ErrOrStderr(), labs...); err != nil {
		return err
	}
	return demo.InUserNamespace(cmd.Context(), slices.ContainsFunc(labs, real.NeedsTAP))
}

func newLabRun(version string) *cobra.Command {
	var clock string
	var seed uint64
	var step, page bool
	one := One{Version: version}
	return cli.With(&cobra.Command{
		Use:   "run FILE",
		Short: "Bring a lab up, run its steps, take it down",
		Long: "Run brings the lab up, runs its steps in order until one fails, takes it down and ends with\n" +
			"exit code 0 if all is as expected, else 1. It prints what happens, and what the programs\n" +
			"say. --out keeps a capture of all links, the log, and the result as JSON, as JUnit's XML\n" +
			"and as a page for people, report.html, with drawings of what passed the links at failures.\n\n" +
			"By the virtual clock a lab needs no privileges: one seed gives the same captures, log and\n" +
			"result on any machine, to the last octet, and time passes as fast as it can. With --step\n" +
			"it waits after each event, and shows it: work requests, frames with what is in them, pieces\n" +
			"of memory that are read and written, completions. Enter is for the next event, a number\n" +
			"for that many, c for all; q ends the lab.\n\n" +
			"--ui prints the URL of a page. A lab of the real clock begins when the page is opened, which\n" +
			"shows it live. When the lab has ended, the page shows its record until Ctrl-C.",
		Example: "  tapir lab run lab/examples/rping/lab.yaml\n  tapir lab run --out out/lossy " +
			"lab/examples/lossy-link/lab.yaml\n" +
			"  tapir lab run --clock virtual --seed 7 lab/examples/lossy-link/lab.yaml\n" +
			"  tapir lab run --clock virtual --step lab/examples/first-write/lab.yaml",
		Args: oneFile, ValidArgsFunction: complete.Files,
		RunE: func(cmd *cobra.Command, args []string) error {
			lab, err := loadChecked(cmd.Context(), args[0], clock)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("seed") {
				lab.Seed = seed
			}
			one.Lab, one.Print = lab, cmd.OutOrStdout()
			if step {
				if lab.Clock != topo.Virtual {
					return usage.Errorf("--step: the real clock does not wait: give --clock virtual, too")
				}
				one.Step = NewStepper(cmd.InOrStdin(), cmd.OutOrStdout()).Step
			}
			run := func() error {
				return privileged(cmd, []*topo.Lab{lab}, func() error { return one.Run(cmd.Context()) })
			}
			if page && !netns.Reexeced() {
				return one.watch(cmd.Context(), run)
			}
			return run()
		},
	},
		cli.F(&one.Out, "out", "o", "`directory` for lab.pcapng, log.txt, result.json, junit.xml and report.html"),
		cli.F(&seed, "seed", "", "`number` that the faults are drawn from, instead of the file's"),
		cli.F(&clock, "clock", "", clockFlag),
		cli.F(&step, "step", "", "wait after each event of the virtual clock, and show it"),
		cli.F(&page, "ui", "", "show the lab on a page in a browser, and its record when it has ended"),
	)
}

func newLabTest(version string) *cobra.Command {
	var clock string
	suite := Suite{Version: version}
	return cli.With(&cobra.Command{
		Use:   "test FILE...",
		Short: "Run labs one after the other and print their verdicts",
		Long: "Test runs each lab as run does, but prints one line for each, and for those that fail why.\n" +
			"--junit, --results and --html write the results of all labs into one file, and --json prints them.\n\n" +
			"With --attach the lab's nodes are up already, such as in containers: it finds them by their\n" +
			"control sockets, runs the steps, and leaves them up. Programs run where the node runs.",
		Example: "  tapir lab test lab/examples/*/lab.yaml\n" +
			"  tapir lab test --out out/labs --junit junit.xml --html report.html lab/examples/*/lab.yaml",
		Args: cli.AtLeast(1, "name topology files: see: tapir lab test --help"), ValidArgsFunction: complete.Files,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, path := range args {
				if suite.JSON && strings.HasSuffix(path, ".json") {
					return usage.Errorf("--json prints the results: write them into a file with --results %s", path)
				}
				lab, err := loadChecked(cmd.Context(), path, clock)
				if err == nil {
					err = suite.Add(lab)
				}
				if err != nil {
					return err
				}
			}
			if suite.Attached {
				return suite.Run(cmd.Context(), cmd.OutOrStdout())
			}
			return privileged(cmd, suite.Labs, func() error {
				return suite.Run(cmd.Context(), cmd.OutOrStdout())
			})
		},
	},
		cli.F(&suite.Out, "out", "o", "`directory` with a folder for the capture, log and reports of each lab"),
		cli.F(&suite.Attached, "attach", "",
			"run the steps against nodes that are up already, found by control socket"),
		cli.F(&suite.JUnit, "junit", "", "`file` for the results as JUnit's XML: a lab is a suite, a step a case"),
		cli.F(&suite.Results, "results", "", "`file` for the results as JSON"),
		cli.F(&suite.JSON, "json", "", "print the results as JSON"),
		cli.F(&suite.HTML, "html", "", "`file` for the results as a page that needs nothing else"),
		cli.F(&clock, "clock", "", clockFlag),
	)
}

func newLabUp(version string) *cobra.Command {
	o := real.Options{Control: version}
	return cli.With(&cobra.Command{
		Use:   "up FILE",
		Short: "Bring a lab up and keep it up, in the foreground",
		Long: "Up brings the lab up without its steps, prints a \"ready\" line, and takes it down at Ctrl-C\n" +
			"or tapir lab down. Meanwhile tapir lab exec runs programs on its nodes.",
		Example: "  tapir lab up lab/examples/rping/lab.yaml &\n  tapir lab exec rping a -- tapir show a\n  tapir " +
			"lab down rping", Args: oneFile, ValidArgsFunction: complete.Files,
		RunE: func(cmd *cobra.Command, args []string) error {
			lab, err := loadLab(args[0], "")
			if err != nil {
				return err
			}
			return privileged(cmd, []*topo.Lab{lab}, func() error {
				return Keep(cmd.Context(), cmd.OutOrStdout(), lab, o)
			})
		},
	},
		cli.F(&o.Out, "out", "o", "`directory` for lab.pcapng and log.txt"),
	)
}

func newLabDown() *cobra.Command {
	return &cobra.Command{
		Use:     "down [LAB]",
		Short:   "Take down a running lab",
		Example: "  tapir lab down\n  tapir lab down rping",
		Args:    cli.AtMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := real.Find(strings.Join(args, ""))
			if err != nil {
				return err
			}
			return r.Stop(cmd.Context())
		},
		ValidArgsFunction: completeLab,
	}
}

func completeLab(_ *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
	if len(args) == 0 {
		for _, r := range real.List() {
			names = append(names, r.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func newLabExec() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "exec LAB NODE [--] PROGRAM [ARGUMENT]...",
		Short: "Run a program on a node of a lab that is up",
		Long: "Exec runs a program in the network namespace of a node, where tapir finds the NICs of the\n" +
			"lab, and ends with its exit code. A RDMA program runs under tapir run.",
		Example: "  tapir lab exec rping b -- ping -c 3 10.0.0.1\n" +
			"  tapir lab exec rping a -- tapir run a -- ibv_devinfo\n  tapir lab exec rping a -- tcpdump -i tap0",
		Args: cli.AtLeast(3, "name the lab, the node and the program: see: tapir lab exec --help"),
		RunE: func(_ *cobra.Command, args []string) error { return Exec(args) },
		ValidArgsFunction: func(cmd *cobra.Command, args []string, part string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return targets(args[0], false), cobra.ShellCompDirectiveNoFileComp
			}
			names, _ := completeLab(cmd, args, part)
			return names, cobra.ShellCompDirectiveDefault // programs, too
		},
	}
	cmd.Flags().SetInterspersed(false)
	return cmd
}

func newLabGraph() *cobra.Command {
	format, svg := "mermaid", ""
	return cli.With(&cobra.Command{
		Use:   "graph FILE",
		Short: "Draw a lab's topology",
		Example: "  tapir lab graph lab.yaml\n  tapir lab graph --format dot lab.yaml | dot -Tpng >lab.png\n  tapir " +
			"lab graph --svg lab.svg lab.yaml", Args: oneFile, ValidArgsFunction: complete.Files,
		RunE: func(cmd *cobra.Command, args []string) error {
			lab, err := loadLab(args[0], "")
			if err != nil {
				return err
			}
			form := map[string]func(*topo.Lab, io.Writer) error{"mermaid": draw.Mermaid, "dot": draw.DOT}[format]
			if form == nil {
				return usage.Errorf("--format %q: want mermaid or dot", format)
			}
			if svg == "" {
				return form(lab, cmd.OutOrStdout())
			}
			return files.Write(svg, cmd.OutOrStdout(), "drawing",
				func(w io.Writer) error { return draw.SVG(lab, w) })
		},
	},
		cli.F(&format, "format", "", "what is printed: mermaid or dot"),
		cli.F(&svg, "svg", "", "write an SVG `file` instead"),
	)
}

func newLabSchema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the topology file, for editors",
		Example: "  tapir lab schema >lab.schema.json\n" +
			"  # first line of lab.yaml, for editors with the YAML language server:\n  # yaml-language-server: " +
			"$schema=lab.schema.json",
		Args: cli.AtMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(topo.JSONSchema())
			return err
		},
	}
}

func newLabGC() *cobra.Command {
	return &cobra.Command{
		Use:   "gc",
		Short: "Clean up after killed labs",
		Long: "When a lab's process is killed, the kernel ends its nodes and removes namespaces and TAPs.\n" +
			"Gc ends programs that survived, with which their namespaces go, and removes directories.\n" +
			"Labs that are up are left alone.",
		Example: "  tapir lab gc",
		Args:    cli.AtMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			Collect(cmd.OutOrStdout())
			return nil
		},
	}
}

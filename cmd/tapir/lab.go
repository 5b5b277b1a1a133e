package main

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tapir/lab/host/netns"
	"tapir/lab/run/real"
	"tapir/lab/tool/clab"
	"tapir/lab/tool/files"
	"tapir/lab/tool/labs"
	"tapir/lab/tool/usage"
	"tapir/lab/topo"
)

func newLab() *cobra.Command {
	return group(&cobra.Command{
		Use:   "lab",
		Short: "Run labs: nodes, links, faults and programs that one YAML file describes",
		Long: "A lab is NICs, hosts and switches in network namespaces of their own, joined by links that\n" +
			"delay, lose or corrupt frames as the file says, and steps: programs (stock RDMA programs,\n" +
			"too), workloads, faults, and what has to come out. It needs root, or a system that lets\n" +
			"ordinary users make user namespaces. Nothing is left behind.",
		Example: "  tapir lab run lab/examples/first-write/lab.yaml\n  tapir lab test lab/examples/*/lab.yaml",
	}, "verb", newLabRun(), newLabTest(), newLabUp(), newLabDown(), newLabExec(), newLabGraph(), newLabSchema(),
		newLabGC(), clab.Command(loadLab))
}

// oneFile accepts the name of one topology file.
func oneFile(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usage.Errorf("name one topology file: see: %s --help", cmd.CommandPath())
	}
	return nil
}

// loadLab reads a topology file; a mistake in it is one of usage. clock, unless
// empty, is that of --clock.
func loadLab(path, clock string) (*topo.Lab, error) {
	l, err := mistakes(topo.Load(path))
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
	return inUserNamespace(cmd.Context(), slices.ContainsFunc(labs, real.NeedsTAP))
}

func newLabRun() *cobra.Command {
	var out, clock string
	var seed uint64
	var step bool
	return withFlags(&cobra.Command{
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
			"for that many, c for all; q ends the lab.",
		Example: "  tapir lab run lab/examples/rping/lab.yaml\n  tapir lab run --out out/lossy " +
			"lab/examples/lossy-link/lab.yaml\n" +
			"  tapir lab run --clock virtual --seed 7 lab/examples/lossy-link/lab.yaml\n" +
			"  tapir lab run --clock virtual --step lab/examples/first-write/lab.yaml",
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			lab, err := loadLab(args[0], clock)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("seed") {
				lab.Seed = seed
			}
			one := labs.One{Lab: lab, Out: out, Print: cmd.OutOrStdout()}
			if step {
				if lab.Clock != topo.Virtual {
					return usage.Errorf("--step: the real clock does not wait: give --clock virtual, too")
				}
				one.Step = labs.NewStepper(cmd.InOrStdin(), cmd.OutOrStdout()).Step
			}
			return privileged(cmd, []*topo.Lab{lab}, func() error { return one.Run(cmd.Context()) })
		},
	},
		flag{&out, "out", "o", "`directory` for lab.pcapng, log.txt, result.json, junit.xml and report.html"},
		flag{&seed, "seed", "", "`number` that the faults are drawn from, instead of the file's"},
		flag{&clock, "clock", "", clockFlag},
		flag{&step, "step", "", "wait after each event of the virtual clock, and show it"},
	)
}

func newLabTest() *cobra.Command {
	var clock string
	var suite labs.Suite
	return withFlags(&cobra.Command{
		Use:   "test FILE...",
		Short: "Run labs one after the other and print their verdicts",
		Long: "Test runs each lab as run does, but prints one line for each, and for those that fail why.\n" +
			"--junit, --json and --html write the results of all labs into one file.\n\n" +
			"With --attach the lab's nodes are up already, such as in containers: it finds them by their\n" +
			"control sockets, runs the steps, and leaves them up. Programs run where the node runs.",
		Example: "  tapir lab test lab/examples/*/lab.yaml\n" +
			"  tapir lab test --out out/labs --junit junit.xml --html report.html lab/examples/*/lab.yaml",
		Args: atLeast(1, "name topology files: see: tapir lab test --help"),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, path := range args {
				lab, err := loadLab(path, clock)
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
		flag{&suite.Out, "out", "o", "`directory` with a folder for the capture, log and reports of each lab"},
		flag{&suite.Attached, "attach", "", "run the steps against nodes that are up already, found by control socket"},
		flag{&suite.JUnit, "junit", "", "`file` for the results as JUnit's XML: a lab is a suite, a step a case"},
		flag{&suite.JSON, "json", "", "`file` for the results as JSON"},
		flag{&suite.HTML, "html", "", "`file` for the results as a page that needs nothing else"},
		flag{&clock, "clock", "", clockFlag},
	)
}

func newLabUp() *cobra.Command {
	var o real.Options
	return withFlags(&cobra.Command{
		Use:   "up FILE",
		Short: "Bring a lab up and keep it up, in the foreground",
		Long: "Up brings the lab up without its steps, prints a \"ready\" line, and takes it down at Ctrl-C\n" +
			"or tapir lab down. Meanwhile tapir lab exec runs programs on its nodes.",
		Example: "  tapir lab up lab/examples/rping/lab.yaml &\n  tapir lab exec rping a -- tapir show a\n  tapir " +
			"lab down rping", Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			lab, err := loadLab(args[0], "")
			if err != nil {
				return err
			}
			return privileged(cmd, []*topo.Lab{lab}, func() error {
				return labs.Keep(cmd.Context(), cmd.OutOrStdout(), lab, o)
			})
		},
	},
		flag{&o.Out, "out", "o", "`directory` for lab.pcapng and log.txt"},
	)
}

func newLabDown() *cobra.Command {
	return &cobra.Command{
		Use:     "down [LAB]",
		Short:   "Take a lab down that is up",
		Example: "  tapir lab down\n  tapir lab down rping",
		Args:    atMost(1),
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
			"  tapir lab exec rping a -- tapir run --nic a -- ibv_devinfo\n  tapir lab exec rping a -- tcpdump -i tap0",
		Args:              atLeast(3, "name the lab, the node and the program: see: tapir lab exec --help"),
		RunE:              func(_ *cobra.Command, args []string) error { return labs.Exec(args) },
		ValidArgsFunction: completeLab,
	}
	cmd.Flags().SetInterspersed(false)
	return cmd
}

func newLabGraph() *cobra.Command {
	format, svg := "mermaid", ""
	return withFlags(&cobra.Command{
		Use:   "graph FILE",
		Short: "Draw a lab's topology",
		Example: "  tapir lab graph lab.yaml\n  tapir lab graph --format dot lab.yaml | dot -Tpng >lab.png\n  tapir " +
			"lab graph --svg lab.svg lab.yaml", Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			lab, err := loadLab(args[0], "")
			if err != nil {
				return err
			}
			draw := map[string]func(io.Writer) error{"mermaid": lab.Mermaid, "dot": lab.DOT}[format]
			if draw == nil {
				return usage.Errorf("--format %q: want mermaid or dot", format)
			}
			if svg == "" {
				return draw(cmd.OutOrStdout())
			}
			return files.Write(svg, cmd.OutOrStdout(), "drawing", lab.SVG)
		},
	},
		flag{&format, "format", "", "what is printed: mermaid or dot"},
		flag{&svg, "svg", "", "write an SVG `file` instead"},
	)
}

func newLabSchema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the topology file, for editors",
		Example: "  tapir lab schema >lab.schema.json\n" +
			"  # first line of lab.yaml, for editors with the YAML language server:\n  # yaml-language-server: " +
			"$schema=lab.schema.json",
		Args: atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(topo.JSONSchema())
			return err
		},
	}
}

func newLabGC() *cobra.Command {
	return &cobra.Command{
		Use:   "gc",
		Short: "Remove what labs left that were killed",
		Long: "When a lab's process is killed, the kernel ends its nodes and removes namespaces and TAPs.\n" +
			"Gc ends programs that survived, with which their namespaces go, and removes directories.\n" +
			"Labs that are up are left alone.",
		Example: "  tapir lab gc",
		Args:    atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			labs.Collect(cmd.OutOrStdout())
			return nil
		},
	}
}

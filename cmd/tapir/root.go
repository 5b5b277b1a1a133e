package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"tapir/lab/conf"
	"tapir/lab/conf/nicconf"
	"tapir/lab/tool/cni"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/firmware"
	"tapir/lab/tool/ll2"
	"tapir/lab/tool/params"
	"tapir/lab/tool/running"
	"tapir/lab/tool/usage"
	"tapir/lab/tool/vf"
	"tapir/lab/tool/vfdriver"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// advised is an error with advice to print below it.
type advised struct {
	error
	advise func(io.Writer)
}

func (e advised) Unwrap() error { return e.error }

// run executes one command line and returns its exit code. ctx ends at an
// interrupt.
func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	root := newRoot()
	root.SetArgs(params.Join(args, (&nicconf.Config{}).Params()))
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	if code := usage.ExitCode(0); errors.As(err, &code) {
		return int(code)
	}
	complain(errOut, err)
	if a := (advised{}); errors.As(err, &a) {
		a.advise(errOut)
	}
	if c := (*conf.Error)(nil); errors.As(err, &c) {
		fmt.Fprint(errOut, c.Excerpt())
	}
	if c := (usage.Coded{}); errors.As(err, &c) {
		return int(c.Code)
	}
	if ran, ok := cmd.Context().Value(ranKey{}).(*bool); ok && *ran && !usage.Is(err) {
		return exitFailed
	}
	return exitUsage
}

// ranKey finds a bool in a command's context that tells whether the command
// line was understood: what fails before is a usage error.
type ranKey struct{}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "tapir",
		Short: "Software NICs with RDMA on Linux TAPs",
		Long: "Tapir runs software NICs on Linux TAPs. They put real bytes on the wire: Ethernet, IP,\n" +
			"TCP and iWARP (RDMA over TCP), readable by stock tools and spoken by real peers.",
		Example: "  tapir nic --tap tap0 --ip 10.0.0.1/24 --tap-ip 10.0.0.254/24\n  tapir show\n" +
			"  tapir capture nic0 -w f.pcapng",
		SilenceErrors: true, SilenceUsage: true, Version: versionText(),
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		PersistentPreRun: func(cmd *cobra.Command, _ []string) {
			ran := true
			ctx := context.WithValue(cmd.Context(), ranKey{}, &ran)
			// A hangup ends the command in order; nodes of a file read it again.
			if c := cmd.Flags().Lookup("config"); (c == nil || !c.Changed || cmd.Parent().Name() == "ptp") &&
				!signal.Ignored(syscall.SIGHUP) {
				ctx, _ = signal.NotifyContext(ctx, syscall.SIGHUP)
			}
			cmd.SetContext(ctx)
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage.Errorf("%w: see: %s --help", err, cmd.CommandPath())
	})
	for _, g := range []struct {
		id, title string
		verbs     []*cobra.Command
	}{
		{"run", "Run nodes and programs:", append([]*cobra.Command{newNIC(), newVNIC(), newEM(), newSw(), newRun(),
			newPeer(), vfdriver.Command(withNIC, completeNIC), cni.Command()}, running.Commands(completeNIC)...)},
		{"look", "Look:", []*cobra.Command{newShow(), newCapture(), newInspect(), newExport(), newWireshark()}},
		{"change", "Look and change, as other tools do:", []*cobra.Command{newSet(), newEthtool(), newDevlink(),
			vf.Command(withNIC, completeNIC), newPTP(), firmware.Command()}},
		{"traffic", "Make traffic:", []*cobra.Command{newPerf(), newRping(), newVerify("verify"), newVerify("siwt"),
			ll2.Command(withNIC, completeNIC)}},
		{"labs", "Labs:", []*cobra.Command{newDemo(), newLab(), newScript()}},
		{"system", "This system:", []*cobra.Command{newDoctor(), newVersion(), newCompletion(), newMan()}},
	} {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, v := range g.verbs {
			v.GroupID = g.id
		}
		root.AddCommand(g.verbs...)
	}
	root.SetHelpCommandGroupID("system")
	return group(root, "verb")
}

// group makes cmd a command that only has others below it, words of that kind; alone it prints its help.
func group(cmd *cobra.Command, kind string, below ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(below...)
	cmd.SuggestionsMinimumDistance = 2
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			hint := ""
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				hint = ", did you mean " + strings.Join(near, " or ") + "?"
			}
			return usage.Errorf("unknown %s %q%s see: %s --help", kind, args[0], cmp.Or(hint, ":"), cmd.CommandPath())
		}
		return nil
	}
	return cmd
}

// atMost accepts up to n arguments and names the superfluous one.
func atMost(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return usage.Errorf("unexpected argument %q: see: %s --help", args[n], cmd.CommandPath())
		}
		return nil
	}
}

// atLeast wants n arguments or more; missing is the message without them.
func atLeast(n int, missing string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < n {
			return usage.Errorf("%s", missing)
		}
		return nil
	}
}

// exactlyOne wants one argument; message is what is said otherwise.
func exactlyOne(message string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usage.Errorf("%s", message)
		}
		return nil
	}
}

// first is the first of args, or nothing.
func first(args []string) string { return strings.Join(args[:min(1, len(args))], "") }

// nameFirst takes the name of a NIC, which no separator is in, from args.
func nameFirst(args []string, separator string) (name string, rest []string) {
	if len(args) > 0 && !strings.Contains(args[0], separator) {
		return args[0], args[1:]
	}
	return "", args
}

// complain prints an error.
func complain(w io.Writer, err error) { fmt.Fprintln(w, "tapir: "+usage.OneLine(err)) }

// withNIC calls do with a connection to the NIC called name, or to the only one
// that runs. how says what to write to choose one.
func withNIC(name, how string, do func(c *ctl.Client) error) error {
	if err := oneOf(name, how); err != nil {
		return err
	}
	c, err := ctl.Dial(name)
	if err != nil {
		return err
	}
	defer c.Close()
	return do(c)
}

// clientError makes an error of usage of what the NIC says about its
// arguments.
func clientError(err error) error {
	if e := (*ctl.Error)(nil); errors.As(err, &e) && e.Usage() {
		return usage.Wrap(err)
	}
	return err
}

// oneOf refuses a missing name where several NICs run.
func oneOf(name, how string) error {
	if all := ctl.List(); name == "" && len(all) > 1 {
		return usage.Errorf("several NICs are running (%s): choose one with %s", strings.Join(all, ", "), how)
	}
	return nil
}

// completeNIC offers the names of running NICs for the first argument.
func completeNIC(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return ctl.List(), cobra.ShellCompDirectiveNoFileComp
}

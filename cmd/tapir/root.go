package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"tapir/lab/conf"
	"tapir/lab/tool/ctl"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// usageError is a mistake on the command line: exit code 2.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func (e usageError) Unwrap() error { return e.error }

// advised is an error with advice to print below it.
type advised struct {
	error
	advise func(io.Writer)
}

func (e advised) Unwrap() error { return e.error }

// reported is the exit code of a child process that has said why.
type reported int

func (e reported) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// run executes one command line and returns its exit code. ctx ends at an
// interrupt.
func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	if code := reported(0); errors.As(err, &code) {
		return int(code)
	}
	fmt.Fprintln(errOut, "tapir: "+oneLine(err.Error()))
	if a := (advised{}); errors.As(err, &a) {
		a.advise(errOut)
	}
	if c := (*conf.Error)(nil); errors.As(err, &c) {
		fmt.Fprint(errOut, c.Excerpt())
	}
	if ran, ok := cmd.Context().Value(ranKey{}).(*bool); ok && *ran && !errors.As(err, &usageError{}) {
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
		Example: "  tapir nic --tap tap0 --ip 10.0.0.1/24 --tap-ip 10.0.0.254/24\n" +
			"  tapir show\n" +
			"  tapir capture nic0 -w f.pcapng",
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown verb %q: see: tapir --help", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRun: func(cmd *cobra.Command, _ []string) {
			ran := true
			cmd.SetContext(context.WithValue(cmd.Context(), ranKey{}, &ran))
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%w: see: %s --help", err, cmd.CommandPath())
	})
	root.AddCommand(newDemo(), newLab(), newNIC(), newRun(), newPerf(), newRping(), newSiwt(), newPeer(), newCapture(), newExport(), newInspect(), newWireshark(), newShow(), newSet(), newVNIC(), newEM(), newSw(), newEthtool(), newDevlink(), newPTP(), newDoctor(), newScript(), newFirmware(), newVersion(), newCompletion(), newMan())
	return root
}

// atMost accepts up to n arguments and names the superfluous one.
func atMost(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return usagef("unexpected argument %q: see: %s --help", args[n], cmd.CommandPath())
		}
		return nil
	}
}

// oneLine joins the lines of an error message.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}

// dial finds the NIC called name, or the only one that runs. how says what to
// write to choose one.
func dial(name, how string) (*ctl.Client, error) {
	if err := oneOf(name, how); err != nil {
		return nil, err
	}
	return ctl.Dial(name)
}

// oneOf refuses a missing name where several NICs run.
func oneOf(name, how string) error {
	if all := ctl.List(); name == "" && len(all) > 1 {
		return usagef("several NICs are running (%s): choose one with %s", strings.Join(all, ", "), how)
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

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tapir/lab/conf"
	"tapir/lab/tool/cli"
	"tapir/lab/tool/cni"
	"tapir/lab/tool/complete"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/dcb"
	"tapir/lab/tool/fcoe"
	"tapir/lab/tool/firmware"
	"tapir/lab/tool/iscsi"
	"tapir/lab/tool/labs"
	"tapir/lab/tool/ll2"
	"tapir/lab/tool/nvme"
	"tapir/lab/tool/params"
	"tapir/lab/tool/running"
	"tapir/lab/tool/ui"
	"tapir/lab/tool/usage"
	"tapir/lab/tool/vf"
	"tapir/lab/tool/vfdriver"
)

// Exit codes.
const exitOK, exitFailed, exitUsage = 0, 1, 2

// advised is an error with advice to print below it.
type advised struct {
	error
	advise func(io.Writer)
}

func (e advised) Unwrap() error { return e.error }

// run executes one command line and returns its exit code. ctx ends at an interrupt.
func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	root := newRoot()
	root.SetArgs(cli.Join(root, args))
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
	root.Flags().Bool("version", false, "print the version") // cobra's own takes -v
	root.SetFlagErrorFunc(flagError)
	for _, g := range []struct {
		id, title string
		verbs     []*cobra.Command
	}{
		{"run", "Run nodes and programs:", append([]*cobra.Command{newNIC(), newVNIC(), newEM(), newSw(), newRun(),
			newPeer(), iscsi.Command(withNIC, complete.NIC), nvme.Command(withNIC, complete.NIC),
			fcoe.Command(withNIC, complete.NIC), vfdriver.Command(withNIC, complete.NIC), cni.Command()},
			running.Commands()...)},
		{"look", "Look:", []*cobra.Command{newShow(), newCapture(), newExport(), newWireshark(),
			ui.Command(versionText(), complete.NIC)}},
		{"change", "Look and change, as other tools do:", []*cobra.Command{newSet(), newEthtool(), newDevlink(),
			dcb.Command(withNIC, complete.NIC), vf.Command(withNIC, complete.NIC), newPTP(), firmware.Command()}},
		{"labs", "Labs:", []*cobra.Command{newDemo(), labs.Command(versionText())}},
		{"check", "Check and measure:", []*cobra.Command{newInspect(), newPerf(), newRping(), newScript(),
			newVerify("verify"), newVerify("siwt"), ll2.Command(withNIC, complete.NIC)}},
		{"system", "This system:", []*cobra.Command{newDoctor(), newSchema(), newVersion(), newCompletion(), newMan()}},
	} {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, v := range g.verbs {
			v.GroupID = g.id
		}
		root.AddCommand(g.verbs...)
	}
	root.SetHelpCommandGroupID("system")
	return cli.Group(root, "verb")
}

// flagError says what is wrong with a flag, and which was meant.
func flagError(cmd *cobra.Command, err error) error {
	hint, number, value := ":", (*strconv.NumError)(nil), (*pflag.InvalidValueError)(nil)
	if errors.As(err, &number) && errors.As(err, &value) {
		kind, wrong := value.GetFlag().Value.Type(), "want a whole number"
		switch {
		case errors.Is(number, strconv.ErrRange):
			wrong = "out of range"
		case strings.HasPrefix(kind, "float"):
			wrong = "want a number"
		case strings.HasPrefix(kind, "uint"):
			wrong += " of 0 or more"
		}
		err = fmt.Errorf("--%s: %q: %s", value.GetFlag().Name, value.GetValue(), wrong)
	}
	if unknown := (*pflag.NotExistError)(nil); errors.As(err, &unknown) {
		near := conf.Near("--"+unknown.GetSpecifiedName(), flagNames(cmd))
		hint = cmp.Or(strings.Replace(near, "did", ", did", 1), hint)
	} else if strings.HasSuffix(err.Error(), "?") {
		hint = ""
	}
	return usage.Errorf("%w%s see: %s --help", err, hint, cmd.CommandPath())
}

// flagNames are the long flags that the help of cmd lists.
func flagNames(cmd *cobra.Command) (names []string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden || f.Annotations[params.Parameter] != nil {
			names = append(names, "--"+f.Name)
		}
	})
	return names
}

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

// clientError makes an error of usage of what the NIC says about its arguments.
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

package disk

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"tapir/lab/tool/cli"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/usage"
)

// NoLUN says that a target has nothing to serve.
const NoLUN = "--lun is missing: give a disk such as --lun mem:64M"

// Target completes cmd, the subcommand that serves the disks of job, a pointer, until it is
// interrupted. Ready says what the job lacks, announce that others may come to the NIC.
func Target(cmd *cobra.Command, with With, complete cobra.CompletionFunc, job any, ready func() error,
	announce func(w io.Writer, nic string)) *cobra.Command {
	cmd.Use, cmd.Short = "target [NIC] --lun KIND:...", "Serve LUNs until Ctrl-C"
	cmd.Args, cmd.ValidArgsFunction = cli.AtMost(1), complete
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := ready(); err != nil {
			return usage.Wrap(err)
		}
		return with(cli.First(args), "its name: "+cmd.CommandPath()+" NIC", func(c *ctl.Client) error {
			c.Begun = func() { announce(cmd.ErrOrStderr(), c.Hello.Name) }
			err := c.Perf(cmd.Context(), job, nil, new(json.RawMessage))
			if errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		})
	}
	return cmd
}

// Initiator is the subcommand of an initiator, with a verb for each kind of work.
type Initiator struct {
	Area                 string // of the command line: iscsi, nvme, fcoe
	Short, Long, Example string
	Address, Like        string // how the address of a disk is written, and one of them
	Everywhere           string // what discover without an address lists; empty: it needs one
	// Task adds the flags of a verb. Its task, a pointer, is asked where the disk is.
	Task func(cmd *cobra.Command, w Work) Task
}

// Task is what an initiator is to do.
type Task interface {
	// At takes the address of the disk, empty if there is none, and judges the whole task.
	At(url string) error
}

// Cobra makes the subcommand; complete lists NICs.
func (i Initiator) Cobra(with With, complete cobra.CompletionFunc) *cobra.Command {
	root := cli.Group(&cobra.Command{Use: "initiator VERB", Short: i.Short, Long: i.Long, Example: i.Example}, "verb")
	for _, v := range Verbs {
		root.AddCommand(i.verb(with, complete, v.Verb, v.Short))
	}
	return root
}

// verb is the subcommand of one verb.
func (i Initiator) verb(with With, complete cobra.CompletionFunc, verb Verb, short string) *cobra.Command {
	form, like, least := " [NIC] "+i.Address, " nic1 "+i.Like, 1
	if verb == Discover && i.Everywhere != "" {
		form, like, least, short = " [NIC]", " nic1", 0, i.Everywhere
	}
	var nic string
	var asJSON bool
	var task Task
	cmd := &cobra.Command{
		Use: string(verb) + form, Short: short, ValidArgsFunction: complete,
		Example: "  tapir " + i.Area + " initiator " + string(verb) + like,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < least || len(args) > least+1 {
				return usage.Errorf("expected%s: see: %s --help", form, cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			address := func(word string) bool { return least > 0 && (len(args) == 1 || cli.IsURL(word)) }
			name, rest, err := cli.Target(args, nic, address)
			if err != nil {
				return err
			}
			if err := task.At(cli.First(rest)); err != nil {
				return usage.Wrap(err)
			}
			return with(name, "its name: "+cmd.CommandPath()+" NIC", func(c *ctl.Client) error {
				var out Outcome
				if err := c.Perf(cmd.Context(), task, nil, &out); err != nil {
					return err
				}
				return out.Print(cmd.OutOrStdout(), asJSON)
			})
		},
	}
	cli.Old(cli.InOrder(cmd, cli.JSON(&asJSON)), cli.F(&nic, "nic", "", "`name` of the NIC to use"))
	task = i.Task(cmd, DefaultWork(verb))
	return cmd
}

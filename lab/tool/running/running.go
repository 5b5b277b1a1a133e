// Package running is the subcommands about what runs: a list, an end, and a wait for
// a beginning or an end.
package running

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"tapir/lab/tool/complete"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/schema"
	"tapir/lab/tool/show"
	"tapir/lab/tool/usage"
)

var _ = schema.Add("ls", 1, []node{})

// pollEvery is how often Wait and Stop look again.
const pollEvery = 10 * time.Millisecond

// node is one line of the list.
type node struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"` // nic, hfi, em or sw
	PID     int    `json:"pid"`
	Version string `json:"version"` // of its tapir binary
}

// Commands are the subcommands ls, stop and wait.
func Commands() []*cobra.Command {
	return []*cobra.Command{list(), stop(), wait()}
}

func list() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List running nodes and labs",
		Long: "Ls lists the NICs, HFIs, Ethernet Managers and switches that you may control, each with its\n" +
			"process.",
		Example: "  tapir ls\n  tapir ls --json",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage.Errorf("unexpected argument %q: tapir show %s shows one", args[0], args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return print(cmd.OutOrStdout(), all(cmd.Context()), asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// all asks everything that runs. What ends meanwhile is left out.
func all(ctx context.Context) []node {
	nodes := []node{}
	for _, name := range ctl.List() {
		c, err := ctl.DialContext(ctx, name)
		if err != nil {
			continue
		}
		n := node{Name: name, PID: c.Hello.PID, Version: c.Hello.Version}
		if err := c.Show(ctx, ctl.Kinds[0], &n); err == nil {
			n.Kind = cmp.Or(n.Kind, "nic")
			nodes = append(nodes, n)
		}
		c.Close()
	}
	return nodes
}

func print(w io.Writer, nodes []node, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(nodes)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tKIND\tPID\tVERSION")
	for _, n := range nodes {
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\n", n.Name, n.Kind, n.PID, n.Version)
	}
	return t.Flush()
}

func stop() *cobra.Command {
	var timeout time.Duration
	var everything bool
	cmd := &cobra.Command{
		Use:   "stop NAME... | --all",
		Short: "Stop running nodes in order",
		Long: "Stop ends nodes as Ctrl-C does, and waits until they are gone. NICs of one process or card stop\n" +
			"together.",
		Example:           "  tapir stop nic0\n  tapir stop --all",
		ValidArgsFunction: complete.Names,
		RunE: func(cmd *cobra.Command, names []string) error {
			switch {
			case everything && len(names) > 0:
				return usage.Errorf("--all and names exclude each other")
			case everything:
				names = ctl.List()
			case len(names) == 0:
				return usage.Errorf("name what to stop: tapir stop NAME, or tapir stop --all")
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return end(ctx, names)
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 30*time.Second, "how long they may take to end")
	cmd.Flags().BoolVar(&everything, "all", false, "stop everything that tapir ls lists")
	return cmd
}

// end stops nodes. All names are looked up before the first is stopped.
func end(ctx context.Context, names []string) error {
	var clients []*ctl.Client
	for _, name := range names {
		c, err := ctl.DialContext(ctx, name)
		if err != nil {
			return err
		}
		defer c.Close()
		clients = append(clients, c)
	}
	for k, c := range clients {
		// Of one process all end with the first.
		if err := c.Stop(ctx); err != nil && slices.Contains(ctl.List(), names[k]) {
			return err
		}
	}
	return untilGone(ctx, names)
}

// untilGone waits until none of the names runs.
func untilGone(ctx context.Context, names []string) error {
	return until(ctx, names, "still running", func(running []string, name string) bool {
		return !slices.Contains(running, name)
	})
}

func wait() *cobra.Command {
	var timeout time.Duration
	var gone bool
	var row show.Row
	cmd := &cobra.Command{
		Use:   "wait NAME...",
		Short: "Wait until nodes are ready, have ended, or show a row",
		Long: "Wait returns as soon as all named nodes answer: their interfaces and addresses are there then.\n" +
			"With --gone it returns when none of them runs; with --for, when that table of each has a row with\n" +
			"these values, as tapir show --json prints them; * stands for any text. It fails after the timeout.",
		Example: "  tapir nic -c pair.yaml & tapir wait nic0 nic1\n  tapir wait --gone nic0\n" +
			"  tapir wait nic0 --for 'cep phase=listening local=*:18515'\n" +
			"  tapir wait nic0 --for 'nic captures=1'",
		ValidArgsFunction: complete.Names,
		RunE: func(cmd *cobra.Command, names []string) error {
			if len(names) == 0 {
				return usage.Errorf("name what to wait for: tapir wait NAME")
			}
			for _, name := range names {
				if err := ctl.CheckName(name); err != nil {
					return err
				}
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			switch {
			case gone && row.Kind != "":
				return usage.Errorf("--gone and --for exclude each other")
			case gone:
				return untilGone(ctx, names)
			case row.Kind != "":
				return untilShown(ctx, names, row)
			}
			return until(ctx, names, "not running", func(running []string, name string) bool {
				return slices.Contains(running, name) && answers(ctx, name)
			})
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 30*time.Second, "how long to wait")
	cmd.Flags().BoolVar(&gone, "gone", false, "wait for the end instead")
	cmd.Flags().Func("for", "wait for a `row`: a table and values of columns, such as 'cep phase=listening'",
		func(text string) (err error) {
			row, err = show.ParseRow(text)
			return err
		})
	_ = cmd.RegisterFlagCompletionFunc("for", complete.Row)
	return cmd
}

// untilShown waits until each node shows the row. A table that a node does not have ends the wait.
func untilShown(ctx context.Context, names []string, row show.Row) (err error) {
	waited := until(ctx, names, "without such a row", func(_ []string, name string) bool {
		c, cannot := ctl.DialContext(ctx, name)
		if cannot != nil {
			return false // not yet
		}
		defer c.Close()
		has, cannot := row.In(ctx, c)
		if refused := (*ctl.Error)(nil); errors.As(cannot, &refused) || usage.Is(cannot) {
			err = cannot
		}
		return has || err != nil
	})
	return cmp.Or(err, waited)
}

func answers(ctx context.Context, name string) bool {
	c, err := ctl.DialContext(ctx, name)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// until waits until done holds for every name. Its error lists those for which it
// does not when ctx ends.
func until(ctx context.Context, names []string, still string, done func(running []string, name string) bool) error {
	for {
		running := ctl.List()
		left := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return done(running, name) })
		if len(left) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s after the timeout: %s", still, strings.Join(left, ", "))
		case <-time.After(pollEvery):
		}
	}
}

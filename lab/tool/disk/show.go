package disk

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"tapir/lab/tool/cli"
	"tapir/lab/tool/ctl"
)

// With runs do with a connection to the NIC of that name, or to the only one.
type With func(name, how string, do func(c *ctl.Client) error) error

// Counter is one of what a NIC serves.
type Counter struct {
	Name  string `json:"name"`
	Value uint64 `json:"value"`
}

// Show is the subcommand that prints what a NIC serves, by reports R.
type Show[R any] struct {
	Area    string // of the command line: iscsi, nvme
	Short   string
	None    string // what to say if there is nothing
	Command string // of the NIC's control server
	// Write writes rows of a table and returns the counters.
	Write func(w io.Writer, r *R) []Counter
}

// Cobra makes the subcommand; complete lists NICs.
func (s Show[R]) Cobra(with With, complete cobra.CompletionFunc) *cobra.Command {
	var asJSON, all bool
	verb := "tapir " + s.Area + " show"
	cmd := &cobra.Command{
		Use: "show [NIC]", Short: s.Short,
		Example: fmt.Sprintf("  %s nic0\n  %[1]s nic0 --all\n  %[1]s nic0 --json", verb),
		Args:    cli.AtMost(1), ValidArgsFunction: complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			return with(cli.First(args), "its name: "+verb+" NIC", func(c *ctl.Client) error {
				var list []R
				if err := c.Command(cmd.Context(), s.Command, struct{}{}, &list); err != nil {
					return err
				}
				if asJSON {
					e := json.NewEncoder(cmd.OutOrStdout())
					e.SetIndent("", "  ")
					return e.Encode(list)
				}
				return s.print(cmd.OutOrStdout(), list, all)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&all, "all", false, "print the counters that are 0, too")
	return cmd
}

// print prints reports for people.
func (s Show[R]) print(out io.Writer, list []R, all bool) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(out, s.None)
		return err
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for i := range list {
		counters := s.Write(w, &list[i])
		fmt.Fprintln(w, "\nCOUNTER\tVALUE")
		for _, c := range counters {
			if c.Value > 0 || all {
				fmt.Fprintf(w, "%s\t%d\n", c.Name, c.Value)
			}
		}
	}
	return w.Flush()
}

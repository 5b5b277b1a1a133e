package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"tapir/lab/script"
)

func newScript() *cobra.Command {
	var trace bool
	cmd := &cobra.Command{
		Use:   "script FILE...",
		Short: "Run wire scripts: packets in, packets that must come out",
		Long: "A wire script plays the peer of a NIC, by TCP segments or by messages of MPA, DDP and\n" +
			"RDMAP, and states what must come back, in the manner of packetdrill. Scripts run in\n" +
			"virtual time, without a TAP and without privileges; a script always runs the same way.\n" +
			"The first line that is not fulfilled is printed with what came instead.\n\n" +
			"The exit code is 0 if every script holds, 1 if one fails and 2 if one cannot be read.",
		Example: "  tapir script handshake.wire\n" +
			"  tapir script --trace lab/script/testdata/tcp/9293-3.5/*.wire\n" +
			"  tapir script --trace lab/script/testdata/iwarp/5040-5.2.1/read.wire",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("the script is missing: see: tapir script --help")
			}
			return runScripts(cmd.OutOrStdout(), args, trace)
		},
	}
	cmd.Flags().BoolVar(&trace, "trace", false, "print every packet, of iWARP every message, as it would stand in a script")
	return cmd
}

// runScripts reads all scripts before it runs the first.
func runScripts(out io.Writer, names []string, trace bool) error {
	var all []*script.Script
	for _, name := range names {
		s, err := script.ReadFile(name)
		if e := (*script.Error)(nil); errors.As(err, &e) {
			fmt.Fprintln(out, e)
			return usagef("%s:%d: this line cannot be read", e.File, e.Line)
		} else if err != nil {
			return usageError{err}
		}
		all = append(all, s)
	}
	failed := 0
	for _, s := range all {
		var to io.Writer
		if trace {
			fmt.Fprintf(out, "# %s\n", s.Name)
			to = out
		}
		if err := s.Run(to); err != nil {
			failed++
			fmt.Fprintln(out, err)
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d scripts failed", failed, len(all))
	}
	if len(all) == 1 {
		fmt.Fprintln(out, "1 script holds")
		return nil
	}
	fmt.Fprintf(out, "%d scripts hold\n", len(all))
	return nil
}

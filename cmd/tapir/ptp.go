package main

import "github.com/spf13/cobra"

func newPTP() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ptp",
		Short:   "IEEE 1588: clocks that follow one another",
		Example: "  tapir ptp sim examples/ptp-pair.yaml",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown verb %q: see: tapir ptp --help", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newPTPSim())
	return cmd
}

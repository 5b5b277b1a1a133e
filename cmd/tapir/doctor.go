package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"tapir/lab/tool/doctor"
	"tapir/lab/tool/show"
)

func newDoctor() *cobra.Command {
	var asJSON bool
	return withFlags(&cobra.Command{
		Use:   "doctor",
		Short: "Find out why a NIC does not start on this machine",
		Long: "Doctor checks kernel, TUN device, user namespaces and their limits, seccomp, yama,\n" +
			"the RDMA libraries of unmodified programs, bridge netfilter and the tools that captures are\n" +
			"read with. Each finding that is not good comes with the command that mends it. It changes\n" +
			"nothing. The exit code is 1 if no NIC can start.",
		Example: "  tapir doctor\n  tapir doctor --json",
		Args:    atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			checks := doctor.Run(cmd.Context())
			if err := printChecks(cmd, checks, asJSON); err != nil {
				return err
			}
			if bad := doctor.Failing(checks); len(bad) > 0 {
				return fmt.Errorf("%s: %s: %s", bad[0].Name, bad[0].Found, bad[0].Remedy)
			}
			return nil
		},
	},
		jsonFlag(&asJSON),
	)
}

func printChecks(cmd *cobra.Command, checks []doctor.Check, asJSON bool) error {
	if asJSON {
		return show.JSON(cmd.OutOrStdout(), checks)
	}
	return doctor.Format(cmd.OutOrStdout(), checks)
}

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"tapir/lab/tool/cli"
	"tapir/lab/tool/doctor"
	"tapir/lab/tool/show"
)

func newDoctor() *cobra.Command {
	var asJSON, ci bool
	return cli.With(&cobra.Command{
		Use:   "doctor",
		Short: "Check whether this machine can run NICs",
		Long: "Doctor checks kernel, TUN device, each kind of wires, user namespaces and their limits,\n" +
			"seccomp, yama, the RDMA libraries of unmodified programs, bridge netfilter and the tools that\n" +
			"captures are read with. Each problem comes with the command that fixes it. It changes\n" +
			"nothing. The exit code is 1 if no NIC can start.\n\n" +
			"With --ci it tells which ways to test RDMA code the runner of a CI service allows, with the\n" +
			"command for each or the reason against it.",
		Example: "  tapir doctor\n  tapir doctor --json\n  tapir doctor --ci",
		Args:    cli.AtMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if ci && asJSON {
				return show.JSON(cmd.OutOrStdout(), doctor.CI(cmd.Context()))
			} else if ci {
				return doctor.CI(cmd.Context()).Format(cmd.OutOrStdout())
			}
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
		cli.JSON(&asJSON),
		cli.F(&ci, "ci", "", "tell what the runner of a CI service allows"),
	)
}

func printChecks(cmd *cobra.Command, checks []doctor.Check, asJSON bool) error {
	if asJSON {
		return show.JSON(cmd.OutOrStdout(), checks)
	}
	return doctor.Format(cmd.OutOrStdout(), checks)
}

package main

import (
	"strings"

	"github.com/spf13/cobra"

	"tapir/lab/tool/cli"
	"tapir/lab/tool/complete"
	"tapir/lab/tool/devlink"
)

func newDevlink() *cobra.Command {
	var format devlink.Format
	root := &cobra.Command{
		Use:   "devlink {dev | health | resource | port}",
		Short: "Show a NIC as devlink does: versions, health, resources, parameters",
		Long: "Devlink prints what devlink(8) prints of a device, with its words and in its format. The\n" +
			"device tapir/nic0 is the NIC nic0; nic0 alone will do. Without one all running NICs are shown.",
		Example: "  tapir devlink dev info nic0\n  tapir devlink health show\n  tapir devlink health recover nic0 " +
			"reporter fw_fatal\n" +
			"  tapir devlink -j resource show nic0",
		Args: cli.AtMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.PersistentFlags().BoolVarP(&format.JSON, "json", "j", false, "print JSON")
	root.PersistentFlags().BoolVarP(&format.Pretty, "pretty", "p", false, "with --json: indent it")
	groups := map[string]*cobra.Command{"": root}
	for _, g := range devlink.Groups() {
		above, name := "", g.Path
		if i := strings.LastIndexByte(g.Path, ' '); i >= 0 {
			above, name = g.Path[:i], g.Path[i+1:]
		}
		groups[g.Path] = &cobra.Command{Use: name, Short: g.Short, Args: cobra.ArbitraryArgs}
		groups[above].AddCommand(groups[g.Path])
	}
	for _, c := range devlink.Commands() {
		cmd := &cobra.Command{Use: c.Use, Short: c.Short, Example: "  tapir devlink " + c.Example,
			Args: cobra.ArbitraryArgs, ValidArgsFunction: complete.NIC}
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			return c.Run(cmd.Context(), devlink.Running, cmd.OutOrStdout(), format, args)
		}
		group := groups[c.Group]
		group.AddCommand(cmd)
		if cmd.Name() == "show" { // what the group alone stands for
			group.Example = cmd.Example
			group.RunE = func(group *cobra.Command, args []string) error {
				if len(args) > 0 {
					return cli.Unknown(group, "command", args[0])
				}
				return cmd.RunE(group, args)
			}
		}
	}
	return root
}

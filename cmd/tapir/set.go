package main

import (
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"tapir/lab/conf/nicconf"
	"tapir/lab/tool/cli"
	"tapir/lab/tool/complete"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/show"
)

func newSet() *cobra.Command {
	var asJSON bool
	return cli.With(&cobra.Command{
		Use:   "set [NIC] [NAME=VALUE]...",
		Short: "Change or list the parameters of a running NIC",
		Long: "Set changes parameters of a running NIC, all of those named or none. Connections that\n" +
			"exist keep what they have; new ones get the new values. Without NAME=VALUE it lists all\n" +
			"parameters: name, value, type, whether they can change while the NIC runs, and effect.\n" +
			"The name of the NIC may be left out if only one runs. The same parameters are flags of\n" +
			"tapir nic and keys of its YAML file.",
		Example: "  tapir set nic0\n  tapir set nic0 mpa_crc_strict=1\n  tapir set peer_to_peer=1 rtr_type=write,read",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, part string) ([]string, cobra.ShellCompDirective) {
			names, directive := complete.Settings(complete.OfRows((&nicconf.Config{}).Params()), part)
			if len(args) == 0 && !strings.Contains(part, "=") {
				names = append(ctl.List(), names...)
			}
			return names, directive
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			name, args := nameFirst(args, "=")
			settings, err := ctl.ParseSettings(args)
			if err != nil {
				return err
			}
			var raw json.RawMessage
			if err := withNIC(name, "its name: tapir set NIC ...", func(c *ctl.Client) error {
				if settings == nil {
					return c.Show(cmd.Context(), "params", &raw)
				}
				if err := c.Set(cmd.Context(), settings, &raw); err != nil {
					return clientError(err)
				}
				raw, err = show.Changed(raw, settings)
				return err
			}); err != nil {
				return err
			}
			return show.Print(cmd.OutOrStdout(), "params", raw, asJSON)
		},
	},
		cli.JSON(&asJSON),
	)
}

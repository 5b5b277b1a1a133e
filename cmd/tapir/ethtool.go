package main

import (
	"github.com/spf13/cobra"

	"tapir/lab/tool/cli"
	"tapir/lab/tool/complete"
	"tapir/lab/tool/ethtool"
)

func newEthtool() *cobra.Command {
	var all bool
	options := ethtool.Options()
	chosen := make([]bool, len(options))
	cmd := &cobra.Command{
		Use:   "ethtool [OPTION] DEVICE [OPERANDS]",
		Short: "Show a NIC as ethtool does, and change it",
		Long: "Ethtool prints what ethtool(8) prints of a netdev: of a NIC or an Omni-Path HFI, named by itself\n" +
			"or by one of its TAPs, or of a virtual NIC, named by its host TAP; without an option the settings.\n\n" +
			"-S prints the statistics of the driver qede that are counted, of an HFI those of hfi1, of a virtual\n" +
			"NIC the 39 of opa_vnic; with --all, which comes before the device, also Tapir's own counters.",
		Example:           ethtool.Examples(options),
		Args:              cli.AtLeast(1, "the device is missing: see: tapir ethtool --help"),
		ValidArgsFunction: complete.NIC,
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := ethtool.Choose(options, chosen)
			if err != nil {
				return err
			}
			if err := o.CheckOperands(args[1:]); err != nil {
				return err
			}
			d, c, err := ethtool.Find(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			defer c.Close()
			return o.Run(cmd.Context(), cmd.OutOrStdout(), d, args[1:], all)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // operands may begin with a dash, as action -1 does
	f.SortFlags = false
	for i, o := range options {
		f.BoolVarP(&chosen[i], o.Long, o.Short, false, o.Usage)
	}
	f.BoolVar(&all, "all", false, "with -S: also the counters that the Linux driver has not")
	return cmd
}

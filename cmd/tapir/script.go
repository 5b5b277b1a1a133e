package main

import (
	"github.com/spf13/cobra"

	"tapir/lab/tool/cli"
	"tapir/lab/tool/live"
	"tapir/lab/tool/script"
	"tapir/lab/tool/usage"
	"tapir/nic/tap/wires"
)

func newScript() *cobra.Command {
	trace, against, wire, lanes, via := false, "", "", 4, "auto"
	return cli.With(&cobra.Command{
		Use:   "script FILE...",
		Short: "Run wire scripts: packets sent, packets expected",
		Long: "A wire script plays the peer of a NIC, by TCP segments or by messages of MPA, DDP and\n" +
			"RDMAP, and states what must come back, in the manner of packetdrill. Scripts run in\n" +
			"virtual time, without a TAP and without privileges; a script always runs the same way.\n" +
			"It prints the first line that does not hold, and what the NIC sent in its place.\n" +
			"With --peer, scripts of iWARP and RoCE run in real time.\n\n" +
			"The exit code is 0 if every script holds, 1 if one fails and 2 if one cannot be read.",
		Example: "  tapir script handshake.wire\n" +
			"  tapir script --wire shm lab/tool/script/testdata/iwarp/5040-5.2.1/*.wire\n" +
			"  tapir script --trace lab/tool/script/testdata/tcp/9293-3.5/*.wire\n" +
			"  tapir script --trace lab/tool/script/testdata/iwarp/5040-5.2.1/read.wire\n" +
			"  tapir script --peer nic --via trap lab/tool/script/testdata/iwarp/5040-5.2.1/*.wire\n" +
			"  tapir script --peer siw lab/tool/script/testdata/iwarp/5040-5.2.1/*.wire\n" +
			"  tapir script --peer rxe lab/tool/script/testdata/roce/*/*.wire",
		Args: cli.AtLeast(1, "the script is missing: see: tapir script --help"),
		RunE: func(cmd *cobra.Command, args []string) error {
			how, known := vias[via]
			all, err := script.ReadFiles(cmd.OutOrStdout(), args)
			switch {
			case err != nil:
				return err
			case cmd.Flags().Changed("via") && against != "nic":
				return usage.Errorf("--via is for --peer nic")
			case cmd.Flags().Changed("lanes") && against == "":
				return usage.Errorf("--lanes is for --peer")
			case !known:
				return usage.Errorf("--via %q: want auto, trap or preload", via)
			case against == "":
				return script.RunAll(cmd.OutOrStdout(), all, trace, wire)
			case wire != "":
				return usage.Errorf("--wire and --peer exclude each other")
			case lanes < 1 || lanes > 16:
				return usage.Errorf("--lanes %d: want 1 to 16", lanes)
			}
			how.Path = via
			return live.Against(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), all, against, lanes, trace, how)
		},
	},
		cli.F(&against, "peer", "", "in real time against a `machine`: nic, a NIC with a program of libibverbs under "+
			"tapir run;\nsiw or rxe, this driver of a Linux guest, which is built and booted (root)"),
		cli.F(&via, "via", "", "with --peer nic: `how` the program reaches the NIC: auto, trap or preload "+
			"(see tapir run)"),
		cli.F(&lanes, "lanes", "", "with --peer: number of scripts that run at a time"),
		cli.F(&wire, "wire", "", "carry every frame over a real wire: "+wires.Names+
			", or the texts of both ends in one word, such as 'dev:a dev:b'"),
		cli.F(&trace, "trace", "", "print every packet, of iWARP every message, as it would stand in a script"),
	)
}

package main

import (
	"github.com/spf13/cobra"

	"tapir/lab/conf/swconf"
	"tapir/lab/tool/cli"
	"tapir/lab/tool/serve"
)

func newSw() *cobra.Command {
	var d swconf.Draft
	var file string
	set := d.Set // the names are those of a switches.yaml with dashes
	return cli.InOrder(&cobra.Command{
		Use:   "sw --port TAP --port TAP [--mode MODE]",
		Short: "Run a switch with PTP clocks in the foreground",
		Long: "Sw joins TAPs as a learning switch does, with a queueing delay of choice. It is a plain\n" +
			"switch, a transparent clock (e2e-tc, p2p-tc) that corrects PTP messages by the time that\n" +
			"they stayed in it, or a boundary clock (bc). Its stamps are the kernel's. With -c it runs\n" +
			"all switches of a file. It prints one \"ready\" line for each; Ctrl-C removes what was made.",
		Example: "  tapir sw --port tap0 --port tap1 --mode e2e-tc --delay 0-500us\n" +
			"  tapir sw --port tap0 --port tap1 --port tap2 --mode bc --profile gptp --ptp priority1=250\n" +
			"  tapir sw -c switches.yaml\n  tapir show sw0 port",
		Args: cli.AtMost(0), RunE: func(cmd *cobra.Command, _ []string) error {
			return foreground(cmd, file, swconf.Load, d.Finish, serve.Switches)
		},
	},
		cli.F(&file, "config", "c", "run the switches of a YAML `file`; excludes all other flags"),
		cli.F(d.AddPort, "port", "", "a port on `TAP[@NETNS]`, made if missing, or on a wire; twice or more"),
		cli.F(set, "name", "",
			"`name` (default sw0)"), cli.F(set, "mode", "", "plain (default), e2e-tc, p2p-tc or `bc`"),
		cli.F(set, "delay", "", "queueing `delay` of frames: 250us, 0-500us (uniform), exp:10us (default 0)"),
		cli.F(set, "queue", "", "`frames` that an egress queue holds (default 512)"),
		cli.F(set, "speed", "", "`speed` to which ports pace what they send, such as 1G (default 100G: no pacing)"),
		cli.F(&d.Pause, "pause", "", "send PAUSE frames (IEEE 802.3x) as egress queues fill, and obey them"),
		cli.F(set, "fecn-threshold", "", "`number` from 1 (late) to 15 (early): mark Omni-Path packets as queues fill"),
		cli.F(set, "fecn-packet-size", "",
			"`octets` or more"), cli.F(set, "fecn-marking-rate", "", "`packets` between"),
		cli.F(set, "ecn-kmax", "",
			"queued `octets`, such as 200K, beyond which IP packets get CE (default 0: none do)"),
		cli.F(set, "ecn-kmin", "",
			"`octets` up to which none does"), cli.F(set, "ecn-pmax", "", "`chance` at ecn-kmax"),
		cli.F(set, "trust", "", "priority by `pcp` or dscp"), cli.F(set, "dscp-prio", "", "`DSCP:PRIORITY,...`"),
		cli.F(set, "prio-tc", "",
			"traffic `PRIORITY:CLASS,...`"), cli.F(set, "tc-tsa", "", "`CLASS:strict,...` or ets"),
		cli.F(set, "tc-bw", "", "ETS `CLASS:PERCENT,...`"), cli.F(set, "tc-maxrate", "", "the most, `CLASS:RATE,...`"),
		cli.F(set, "prio-pfc", "", "PFC, `PRIORITY:on,...`"), cli.F(set, "pfc-xoff", "", "`octets` that stop a sender"),
		cli.F(set, "pfc-xon", "", "`octets` that do not"), cli.F(set, "pfc-headroom", "", "`octets` beyond pfc-xoff"),
		cli.F(set, "pfc-watchdog", "", "longest pause, a `time` or off (default 200ms)"),
		cli.F(set, "seed", "",
			"`number` that draws delays and marks"), cli.F(set, "ageing", "", "`time` (default 300s)"),
		cli.F(set, "macs", "", "`number` (default 4096)"), cli.F(set, "group-fwd-mask", "", "groups: a `mask`"),
		cli.F(set, "domain", "", "PTP domain `number` of the clock's own messages and of what it follows (default 0)"),
		cli.F(set, "pdelay-req-interval", "", "log2 of the `seconds` between Pdelay_Reqs of a p2p-tc (default 0)"),
		cli.F(set, "transport", "", "`carrier` of the clock's own messages: L2 (default), UDPv4 or UDPv6"),
		cli.F(set, "ip", "", "its source `address`"), cli.F(set, "oscillator", "", "xo, tcxo, ocxo or `ideal`"),
		cli.F(set, "profile", "", "`profile` of a boundary clock, such as default-e2e, gptp or g8275.1"),
		cli.F(d.SetText, "set", "", "any setting `NAME=VALUE` of a switches.yaml, such as dcbx=ieee; may be repeated"),
		cli.F(&d.OneStep, "one-step", "", "no Follow_Up"), cli.F(&d.Syntonize, "syntonize", "", "follow the master"),
		cli.F(d.SetPTP, "ptp", "",
			"a setting `NAME=VALUE` of a boundary clock, such as priority1=100; may be repeated"),
	)
}

package main

import (
	"github.com/spf13/cobra"

	"tapir/lab/conf/swconf"
	"tapir/lab/tool/serve"
)

func newSw() *cobra.Command {
	var d swconf.Draft
	var file string
	set := d.Set // the names are those of a switches.yaml with dashes
	return inOrder(&cobra.Command{
		Use:   "sw --port TAP --port TAP [--mode MODE]",
		Short: "Run a switch that is a PTP clock in the foreground",
		Long: "Sw joins TAPs as a learning switch does, with a queueing delay of choice. It is a plain\n" +
			"switch, a transparent clock (e2e-tc, p2p-tc) that corrects PTP messages by the time that\n" +
			"they stayed in it, or a boundary clock (bc). Its stamps are the kernel's. With -c it runs\n" +
			"all switches of a file. It prints one \"ready\" line for each; Ctrl-C removes what was made.",
		Example: "  tapir sw --port tap0 --port tap1 --mode e2e-tc --delay 0-500us\n" +
			"  tapir sw --port tap0 --port tap1 --port tap2 --mode bc --profile gptp --ptp priority1=250\n" +
			"  tapir sw -c switches.yaml\n  tapir show sw0 port",
		Args: atMost(0), RunE: func(cmd *cobra.Command, _ []string) error {
			return foreground(cmd, file, swconf.Load, d.Finish, serve.Switches)
		},
	},
		flag{&file, "config", "c", "run the switches of a YAML `file`; excludes all other flags"},
		flag{d.AddPort, "port", "", "a port on `TAP[@NETNS]`, made if missing, or on a wire; twice or more"},
		flag{set, "name", "", "`name` (default sw0)"}, flag{set, "mode", "", "plain (default), e2e-tc, p2p-tc or `bc`"},
		flag{set, "delay", "", "queueing `delay` of frames: 250us, 0-500us (uniform), exp:10us (default 0)"},
		flag{set, "queue", "", "`frames` that an egress queue holds (default 512)"},
		flag{set, "speed", "", "`speed` to which ports pace what they send, such as 1G (default 100G: no pacing)"},
		flag{&d.Pause, "pause", "", "send PAUSE frames (IEEE 802.3x) as egress queues fill, and obey them"},
		flag{set, "fecn-threshold", "", "`number` from 1 (late) to 15 (early): mark Omni-Path packets as queues fill"},
		flag{set, "fecn-packet-size", "", "`octets` or more"}, flag{set, "fecn-marking-rate", "", "`packets` between"},
		flag{set, "ecn-kmax", "", "queued `octets`, such as 200K, beyond which IP packets get CE (default 0: none do)"},
		flag{set, "ecn-kmin", "", "`octets` up to which none does"}, flag{set, "ecn-pmax", "", "`chance` at ecn-kmax"},
		flag{set, "trust", "", "priority by `pcp` or dscp"}, flag{set, "dscp-prio", "", "`DSCP:PRIORITY,...`"},
		flag{set, "prio-tc", "", "traffic `PRIORITY:CLASS,...`"}, flag{set, "tc-tsa", "", "`CLASS:strict,...` or ets"},
		flag{set, "tc-bw", "", "ETS `CLASS:PERCENT,...`"}, flag{set, "tc-maxrate", "", "the most, `CLASS:RATE,...`"},
		flag{set, "prio-pfc", "", "PFC, `PRIORITY:on,...`"}, flag{set, "pfc-xoff", "", "`octets` that stop a sender"},
		flag{set, "pfc-xon", "", "`octets` that do not"}, flag{set, "pfc-headroom", "", "`octets` beyond pfc-xoff"},
		flag{set, "pfc-watchdog", "", "longest pause, a `time` or off (default 200ms)"},
		flag{set, "seed", "", "`number` that draws delays and marks"}, flag{set, "ageing", "", "`time` (default 300s)"},
		flag{set, "macs", "", "`number` (default 4096)"}, flag{set, "group-fwd-mask", "", "groups: a `mask`"},
		flag{set, "domain", "", "PTP domain `number` of the clock's own messages and of what it follows (default 0)"},
		flag{set, "pdelay-req-interval", "", "log2 of the `seconds` between Pdelay_Reqs of a p2p-tc (default 0)"},
		flag{set, "transport", "", "`carrier` of the clock's own messages: L2 (default), UDPv4 or UDPv6"},
		flag{set, "ip", "", "its source `address`"}, flag{set, "oscillator", "", "xo, tcxo, ocxo or `ideal`"},
		flag{set, "profile", "", "`profile` of a boundary clock, such as default-e2e, gptp or g8275.1"},
		flag{&d.OneStep, "one-step", "", "no Follow_Up"}, flag{&d.Syntonize, "syntonize", "", "follow the master"},
		flag{d.SetPTP, "ptp", "", "a setting `NAME=VALUE` of a boundary clock, such as priority1=100; may be repeated"},
	)
}

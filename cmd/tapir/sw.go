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
		flag{set, "name", "", "`name` of the switch (default sw0)"},
		flag{set, "mode", "", "`mode`: plain, e2e-tc, p2p-tc or bc (default plain)"},
		flag{set, "delay", "", "queueing `delay` of frames: 250us, 0-500us (uniform), exp:10us (default 0)"},
		flag{set, "queue", "", "`frames` that an egress queue holds (default 512)"},
		flag{set, "speed", "", "`speed` to which ports pace what they send, such as 1G (default 100G: no pacing)"},
		flag{&d.Pause, "pause", "", "send PAUSE frames (IEEE 802.3x) as egress queues fill, and obey them"},
		flag{set, "fecn-threshold", "", "`number` from 1 (late) to 15 (early): mark Omni-Path packets as queues fill"},
		flag{set, "fecn-packet-size", "", "`octets` of the shortest packet that is marked (default 0)"},
		flag{set, "fecn-marking-rate", "", "`packets` left unmarked after each marked one (default 0)"},
		flag{set, "ecn-kmax", "", "queued `octets`, such as 200K, beyond which IP packets get CE (default 0: none do)"},
		flag{set, "ecn-kmin", "", "`octets` up to which none does"}, flag{set, "ecn-pmax", "", "`chance` at ecn-kmax"},
		flag{set, "trust", "", "what gives a frame its priority: `pcp` (VLAN tag) or dscp (default pcp)"},
		flag{set, "dscp-prio", "", "priority of each DSCP, `DSCP:PRIO,...` (default: its upper three bits)"},
		flag{set, "prio-tc", "", "traffic class of each priority, `PRIO:CLASS,...`, such as all:0,3:1"},
		flag{set, "tc-tsa", "", "selection of each class, `CLASS:strict,...` or CLASS:ets (default strict)"},
		flag{set, "tc-bw", "", "share of each ETS class, `CLASS:PERCENT,...`; the sum is 100"},
		flag{set, "tc-maxrate", "", "the most that each class sends, `CLASS:RATE,...`, such as 1:2.5G"},
		flag{set, "prio-pfc", "", "priorities with PFC, `PRIO:on,...`: the sender waits, and nothing is lost"},
		flag{set, "pfc-xoff", "", "buffered `octets` of a priority at which its sender waits (default 256 KiB)"},
		flag{set, "pfc-xon", "", "`octets` at which it goes on (default half of pfc-xoff)"},
		flag{set, "pfc-headroom", "", "`octets` beyond pfc-xoff for frames on their way (default 1 MiB)"},
		flag{set, "pfc-watchdog", "", "`time` after which a paused class is dropped, or off (default 200ms)"},
		flag{set, "seed", "", "`number` that the delays and marks are drawn from"},
		flag{set, "ageing", "", "`time` after which an address is forgotten (default 300s)"},
		flag{set, "macs", "", "`number` of addresses that are learned (default 4096)"},
		flag{set, "group-fwd-mask", "", "`mask` of link-local groups that pass, such as 0x4000 (peer delay messages)"},
		flag{set, "domain", "", "PTP domain `number` of the clock's own messages and of what it follows (default 0)"},
		flag{set, "pdelay-req-interval", "", "log2 of the `seconds` between Pdelay_Reqs of a p2p-tc (default 0)"},
		flag{set, "transport", "", "`carrier` of the clock's own messages: L2, UDPv4 or UDPv6 (default L2)"},
		flag{set, "ip", "", "their source `address` on UDP (default a link-local one)"},
		flag{set, "oscillator", "", "`preset` that drives the clock: xo, tcxo, ocxo or ideal (default ideal)"},
		flag{set, "profile", "", "`profile` of a boundary clock, such as default-e2e, gptp or g8275.1"},
		flag{&d.OneStep, "one-step", "", "messages are corrected as they leave, not by a Follow_Up"},
		flag{&d.Syntonize, "syntonize", "", "residence times in the unit of the master's clock"},
		flag{d.SetPTP, "ptp", "", "a setting `NAME=VALUE` of a boundary clock, such as priority1=100; may be repeated"},
	)
}

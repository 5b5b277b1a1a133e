package main

import (
	"github.com/spf13/cobra"

	"tapir/lab/conf/nicconf"
	"tapir/lab/tool/cli"
	"tapir/lab/tool/complete"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/params"
	"tapir/lab/tool/serve"
	"tapir/lab/tool/usage"
	"tapir/nic/tap/wires"
)

// nicFlags are the settings of a NIC on the command line; the names are those
// of a nics.yaml with dashes.
func nicFlags(d *nicconf.Draft) []cli.Flag {
	c := &d.Config
	set := c.Set
	return []cli.Flag{
		cli.F(set, "name", "", "`name` of the NIC (default nic0)"),
		cli.F(set, "tap", "", "wire TAP, made if it does not exist: an interface `name` such as tap0; lo: no wire"),
		cli.F(set, "tap-fd", "", "a ready TAP as open file descriptor `number` instead of --tap"),
		cli.F(set, "wire", "",
			"instead of a TAP: `KIND:...` such as shm:/run/cable0 or dev:eth1 (docs/howto/wires.md)"),
		cli.F(set, "tap-ip", "", "`address` of the kernel's side of the TAP, such as 10.0.0.254/24; may be repeated"),
		cli.F(set, "ip", "", "IPv4 `address` of the NIC, such as 10.0.0.1/24; may be repeated"),
		cli.F(set, "ip6", "", "IPv6 `address` of the NIC, such as fd00::1/64; may be repeated"),
		cli.F(set, "mac", "", "MAC `address` (default derived from the name, and the seed if given)"),
		cli.F(set, "mtu", "", "`octets` of an IP packet (default 1500; 9000 with --frames jumbo)"),
		cli.F(set, "gw", "", "next hop `address` off the link; may be repeated"),
		cli.F(set, "vlan", "", "802.1Q `id` of all frames (default untagged)"),
		cli.F(set, "vlan-ip", "", "`address` on a VLAN of its own, such as 100=10.1.0.1/24 (RoCE); may be repeated"),
		cli.F(set, "frames", "",
			"`mode`: wire, one true frame per packet; gso, 64 KiB super-frames; jumbo, gso with MTU 9000 "+
				"(default wire)"),
		cli.F(set, "host-tap", "", "interface `name` of the operating system's side, which shares MAC and IP"),
		cli.F(set, "host-frames", "", "frame `mode` of the host TAP: wire or gso (default that of the wire)"),
		cli.F(set, "queues", "", "`number` of receive and transmit queues of the host TAP, 1 to 32 (default 1)"),
		cli.F(cli.Toggle(func(v string) error { return c.Set("ip-from-host", v) }), "ip-from-host", "",
			"take addresses, MAC and MTU from the host TAP, and follow them"),
		cli.F(set, "firmware", "",
			"firmware of the storms: a `file`, or the form to search for: header, zipped-header, bin, "+
				"zipped-bin (default built in)"),
		cli.F(set, "hardware", "",
			"`kind` of device: fastlinq or ideal, which has no firmware and no interrupts (default fastlinq)"),
		cli.F(set, "profile", "",
			"`driver` whose defaults count for settings that are not given: siw (default Tapir's)"),
		cli.F(d.SetCard, "port-mode", "", "ports and engines of a card with several functions, a `mode` such as 2x25G"),
		cli.F(d.SetCard, "mf-mode", "", "how functions of one port are told apart: npar, ovlan or ufp"),
		cli.F(d.AddPort, "port", "", "TAP `name` or wire of the card's next port; may be repeated"),
		cli.F(d.AddFunction, "function", "",
			"`settings` of its next function: \"name=f0 ip=10.0.0.1/24\"; may be repeated"),
		cli.F(c.SetSRIOV, "sriov", "", "virtual functions, `settings` as in a file, such as \"{numvfs: 4}\""),
		cli.F(set, "seed", "",
			"for tests: `number` that keys, ports and sequence numbers follow from (default random)"),
	}
}

func newNIC() *cobra.Command {
	cfg := nicconf.Draft{Config: nicconf.Config{Name: "nic0"}}
	var file, metrics string
	format, verbose := "text", false
	cmd := cli.InOrder(&cobra.Command{
		Use:   "nic --tap NAME {--ip ADDRESS | --host-tap NAME --ip-from-host}",
		Short: "Run NICs in the foreground",
		Long: "Nic runs one NIC on a TAP that it makes or finds, or with -c all NICs of a file, and\n" +
			"prints one \"ready\" line for each. Ctrl-C closes their connections in order and\n" +
			"removes what was made, and nothing else. SIGHUP reads the file again: what can change\n" +
			"while a NIC runs is set, the rest is listed. Without a file SIGHUP is as Ctrl-C.\n\n" +
			"Without --tap-ip the kernel's side of the TAP gets no address; the line to give it\n" +
			"one is printed. With --host-tap the NIC gives the operating system an interface of\n" +
			"its own, as a card does: what is not the NIC's passes between it and --tap.",
		Example: "  tapir nic --port-mode 2x25G --function \"ip=10.0.0.1/24\" --function \"ip=10.0.1.1/24\"\n" +
			"  tapir nic --tap tap0 --ip 10.0.0.1/24 --tap-ip 10.0.0.254/24\n" +
			"  tapir nic --tap tap0 --ip 10.0.0.1/24 --firmware zipped-bin\n" +
			"  tapir nic --name nic1 --tap tap1 --ip 10.0.1.1/24 --ip6 fd00::1/64 --frames gso\n" +
			"  tapir nic --tap wire0 --host-tap eth-host0 --ip-from-host --queues 4\n" +
			"  tapir nic -c nics.yaml\n" +
			"  tapir nic --ip 10.0.0.1/24 --dprint cm,mpa,eh -v\n" +
			"  tapir nic --ip 10.0.0.1/24 --metrics 9464 -v --log-format json",
		Args: cli.AtMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := configs(cmd, file, nicconf.Load, cfg.Finish, "verbose", "log-format", "metrics")
			if err != nil {
				return err
			}
			o := serving(cmd)
			o.File = file
			log, err := serve.NewLogPrinter(o.Log, format)
			if err != nil {
				return err
			}
			if !verbose {
				log = nil
			}
			if o.Metrics = metrics; metrics != "" {
				if _, err := ctl.MetricsAddr(metrics); err != nil {
					return usage.Wrap(err)
				}
			}
			return serve.NICs(cmd.Context(), o, all, log)
		},
	}, append([]cli.Flag{
		cli.F(&file, "config", "c",
			"run the NICs of a YAML `file`; excludes all other flags but -v, --log-format and --metrics"),
		cli.F(&verbose, "verbose", "v", "print the lines of the log on standard error"),
		cli.F(&format, "log-format", "", "`form` of those lines: text, or json for one object per line"),
		cli.F(&metrics, "metrics", "",
			"serve metrics for Prometheus at `[HOST:]PORT`, on the loopback address without a host"),
	}, nicFlags(&cfg)...)...)
	rows := (&nicconf.Config{}).Params()
	params.Add(cmd, rows, cfg.Set, "personality")
	complete.Parameters(cmd, rows)
	complete.Flags(cmd, nicWords)
	_ = cmd.RegisterFlagCompletionFunc("wire", wireKinds)
	return cmd
}

// nicWords are the words that flags of the command take.
var nicWords = map[string][]string{"frames": {"wire", "gso", "jumbo"}, "host-frames": {"wire", "gso"},
	"hardware": {"fastlinq", "ideal"}, "mf-mode": {"npar", "ovlan", "ufp"}, "log-format": {"text", "json"},
	"profile": {"siw"}, "firmware": {"header", "zipped-header", "bin", "zipped-bin"}}

// wireKinds offers the kinds of wires.
func wireKinds(*cobra.Command, []string, string) (kinds []string, _ cobra.ShellCompDirective) {
	for _, k := range wires.All {
		kinds = append(kinds, k+":")
	}
	return kinds, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// serving are the options of nodes that run in the foreground.
func serving(cmd *cobra.Command) serve.Options {
	return serve.Options{Version: versionText(), Out: cmd.OutOrStdout(), Log: cmd.ErrOrStderr()}
}

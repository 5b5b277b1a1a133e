package main

import (
	"cmp"
	"fmt"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"tapir/lab/host/peer"
	"tapir/lab/tool/cli"
	"tapir/lab/tool/guest"
	"tapir/lab/tool/usage"
)

func newPeer() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "peer COMMAND",
		Short: "Run a real iWARP peer: Linux siw in a QEMU guest",
		Long: "Peer runs a Linux guest whose siw driver speaks iWARP to NICs on the same bridge. It is\n" +
			"made from Debian packages the first time, which takes a minute; nothing is installed.",
		Example: "  tapir peer start --bridge br0 --ip 10.0.0.2/24\n" +
			"  tapir peer exec -- rping -c -a 10.0.0.1 -C 5 -v\n" +
			"  tapir peer stop",
	}, "command", newPeerBuild(), newPeerStart(), newPeerExec(), newPeerStop())
}

// guestFlag chooses a guest.
func guestFlag(name *string) cli.Flag { return cli.F(name, "name", "", "`name` of the guest") }

func newPeerBuild() *cobra.Command {
	dir := peer.CacheDir()
	return cli.With(&cobra.Command{
		Use:     "build",
		Short:   "Build or update the guest",
		Example: "  tapir peer build",
		Args:    cli.AtMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			image, err := peer.Build(cmd.Context(), dir, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: Linux %s\n", dir, image.Linux)
			return err
		},
	},
		cli.F(&dir, "dir", "", "`directory` to build in"),
	)
}

func newPeerStart() *cobra.Command {
	cfg := peer.Config{Name: guest.DefaultName, Memory: 512, Life: peer.DefaultLife}
	var ips []string
	dir := peer.CacheDir()
	return cli.Old(cli.InOrder(&cobra.Command{
		Use:   "start [GUEST] --bridge NAME --ip ADDRESS",
		Short: "Run a guest in the foreground",
		Long: "Start runs one guest on a bridge and prints a \"ready\" line. It ends at Ctrl-C, with\n" +
			"`tapir peer stop`, or when its time is up. With --siw the driver is one whose\n" +
			"compile-time switches are parameters: mpa_crc_required, mpa_crc_strict, mpa_version,\n" +
			"peer_to_peer, rtr_type (128 Write, 64 Read), relaxed_ird_negotiation, zcopy_tx,\n" +
			"try_gso, siw_tcp_nagle.",
		Example: "  tapir peer start --bridge br0 --ip 10.0.0.2/24 --ip fd00::2/64\n" +
			"  tapir peer start --bridge br0 --ip 10.0.0.2/24 --siw peer_to_peer=1 --siw rtr_type=64",
		Args: cli.AtMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg.Name = cmp.Or(cli.First(args), cfg.Name)
			for _, s := range ips {
				p, err := netip.ParsePrefix(s)
				if err != nil {
					return usage.Errorf("%q is no address with a prefix length, such as 10.0.0.2/24", s)
				}
				cfg.IP = append(cfg.IP, p)
			}
			if cfg.Bridge == "" && cfg.Stream == "" || len(cfg.IP) == 0 {
				return usage.Errorf("--bridge NAME or --stream PATH, and --ip are needed: see: tapir peer start --help")
			}
			return guest.Serve(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), dir, cfg)
		},
	},
		cli.F(&cfg.Bridge, "bridge", "", "bridge to join: an interface `name`"),
		cli.F(&cfg.Stream, "stream", "", "`path` of a Unix socket instead, for a NIC on stream:PATH: needs no TAP"),
		cli.F(cli.Repeated(&ips), "ip", "", "`address` of the guest with its prefix length; may be repeated"),
		cli.F(&cfg.MTU, "mtu", "", "`octets` of an IP packet (default that of the bridge)"),
		cli.F(cli.Repeated(&cfg.Siw), "siw", "", "a parameter of the siw driver, `name=value`; may be repeated"),
		cli.F(&cfg.Memory, "memory", "", "memory in `MiB`"),
		cli.F(&cfg.KVM, "kvm", "", "run on the processor instead of emulating one"),
		cli.F(&cfg.Life, "life", "", "`time` after which the guest ends in any case"),
		cli.F(&dir, "dir", "", "`directory` where the guest is built"),
	), guestFlag(&cfg.Name))
}

func newPeerExec() *cobra.Command {
	limit, name := time.Minute, guest.DefaultName
	return cli.Old(cli.With(&cobra.Command{
		Use:   "exec [GUEST --] COMMAND [ARGUMENT]...",
		Short: "Run a command in a guest",
		Long: "Exec runs a command in a guest and prints its output. The exit code is the\n" +
			"command's; 124 says that its time was up. A single argument is a shell command.",
		Example: "  tapir peer exec -- rping -s -C 5 -v\n" +
			"  tapir peer exec -T 10s 'dmesg | grep siw'",
		Args: cli.AtLeast(1, "the command is missing: see: tapir peer exec --help"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.ArgsLenAtDash() == 1 {
				name, args = args[0], args[1:]
			}
			if len(args) == 0 {
				return usage.Errorf("the command is missing: see: tapir peer exec --help")
			}
			return guest.Exec(cmd.Context(), cmd.OutOrStdout(), name, limit, args)
		},
	}, cli.F(&limit, "time", "T", "`time` after which the command is killed")),
		cli.F(&limit, "t", "t", "--time"), guestFlag(&name))
}

func newPeerStop() *cobra.Command {
	name := guest.DefaultName
	return cli.Old(&cobra.Command{
		Use:     "stop [GUEST]",
		Short:   "Stop a guest",
		Example: "  tapir peer stop",
		Args:    cli.AtMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			h, err := guest.Open(cmp.Or(cli.First(args), name))
			if err != nil {
				return err
			}
			return h.PowerOff(cmd.Context())
		},
	},
		guestFlag(&name),
	)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tapir/lab/host/peer"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/usage"
)

func newPeer() *cobra.Command {
	return group(&cobra.Command{
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
func guestFlag(name *string) flag { return flag{name, "name", "", "`name` of the guest"} }

// peerDir is the directory of a guest's sockets.
func peerDir(name string) (string, error) {
	if err := ctl.CheckName(name); err != nil {
		return "", usage.Errorf("the name %q of the guest is not allowed: use letters, digits, '-', '_' and '.'", name)
	}
	return filepath.Join(ctl.Dir(), "peer", name), nil
}

func newPeerBuild() *cobra.Command {
	dir := peer.CacheDir()
	return withFlags(&cobra.Command{
		Use:     "build",
		Short:   "Make the guest, or bring it up to date",
		Example: "  tapir peer build",
		Args:    atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			image, err := peer.Build(cmd.Context(), dir, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: Linux %s\n", dir, image.Linux)
			return err
		},
	},
		flag{&dir, "dir", "", "`directory` to build in"},
	)
}

func newPeerStart() *cobra.Command {
	cfg := peer.Config{Memory: 512, Life: peer.DefaultLife}
	var ips []string
	dir, name := peer.CacheDir(), "peer"
	return inOrder(&cobra.Command{
		Use:   "start --bridge NAME --ip ADDRESS",
		Short: "Run a guest in the foreground",
		Long: "Start runs one guest on a bridge and prints a \"ready\" line. It ends at Ctrl-C, with\n" +
			"`tapir peer stop`, or when its time is up. With --siw the driver is one whose\n" +
			"compile-time switches are parameters: mpa_crc_required, mpa_crc_strict, mpa_version,\n" +
			"peer_to_peer, rtr_type (128 Write, 64 Read), relaxed_ird_negotiation, zcopy_tx,\n" +
			"try_gso, siw_tcp_nagle.",
		Example: "  tapir peer start --bridge br0 --ip 10.0.0.2/24 --ip fd00::2/64\n" +
			"  tapir peer start --bridge br0 --ip 10.0.0.2/24 --siw peer_to_peer=1 --siw rtr_type=64",
		Args: atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if cfg.IP, err = parsePrefixes(ips); err != nil {
				return usage.Wrap(err)
			}
			if cfg.Bridge == "" || len(cfg.IP) == 0 {
				return usage.Errorf("--bridge NAME and --ip ADDRESS/BITS are needed: see: tapir peer start --help")
			}
			if cfg.Dir, err = peerDir(name); err != nil {
				return err
			}
			cfg.Name = name
			return startPeer(cmd, dir, cfg)
		},
	},
		guestFlag(&name),
		flag{&cfg.Bridge, "bridge", "", "bridge to join: an interface `name`"},
		flag{repeated(&ips), "ip", "", "`address` of the guest with its prefix length; may be repeated"},
		flag{&cfg.MTU, "mtu", "", "`octets` of an IP packet (default that of the bridge)"},
		flag{repeated(&cfg.Siw), "siw", "", "a parameter of the siw driver, `name=value`; may be repeated"},
		flag{&cfg.Memory, "memory", "", "memory in `MiB`"},
		flag{&cfg.KVM, "kvm", "", "run on the processor instead of emulating one"},
		flag{&cfg.Life, "life", "", "`time` after which the guest ends in any case"},
		flag{&dir, "dir", "", "`directory` where the guest is built"},
	)
}

func parsePrefixes(list []string) (all []netip.Prefix, err error) {
	for _, s := range list {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, fmt.Errorf("%q is no address with a prefix length, such as 10.0.0.2/24", s)
		}
		all = append(all, p)
	}
	return all, nil
}

func startPeer(cmd *cobra.Command, dir string, cfg peer.Config) error {
	if _, err := peer.Open(cfg.Dir); err == nil {
		return fmt.Errorf("a guest named %s runs already: end it with: tapir peer stop --name %[1]s", cfg.Name)
	}
	image, err := peer.Build(cmd.Context(), dir, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	// What a guest that was killed has left behind is in the way.
	if err := errors.Join(os.MkdirAll(filepath.Dir(cfg.Dir), 0o700), os.RemoveAll(cfg.Dir)); err != nil {
		return err
	}
	g, err := peer.Start(cmd.Context(), image, cfg)
	if err != nil {
		return err
	}
	defer g.Stop()
	var ips []string
	for _, p := range cfg.IP {
		ips = append(ips, p.String())
	}
	fmt.Fprintf(cmd.OutOrStdout(), "ready %s ip=%s bridge=%s linux=%s\n", cfg.Name, strings.Join(ips, ","), cfg.Bridge,
		strings.Fields(image.Linux)[0])
	select {
	case <-cmd.Context().Done():
	case <-g.Ended():
	}
	return nil
}

func newPeerExec() *cobra.Command {
	limit, name := time.Minute, "peer"
	return withFlags(&cobra.Command{
		Use:   "exec [flags] -- COMMAND [ARGUMENT...]",
		Short: "Run a command in a guest",
		Long: "Exec runs a command in a guest and prints what it says. The exit code is the\n" +
			"command's; 124 says that its time was up. A single argument is a shell command.",
		Example: "  tapir peer exec -- rping -s -C 5 -v\n" +
			"  tapir peer exec -t 10s 'dmesg | grep siw'",
		Args: atLeast(1, "the command is missing: see: tapir peer exec --help"),
		RunE: func(cmd *cobra.Command, args []string) error {
			h, err := openPeer(name)
			if err != nil {
				return err
			}
			command := args[0]
			if len(args) > 1 {
				command = quoteAll(args)
			}
			code, err := h.Run(cmd.Context(), limit, command, cmd.OutOrStdout())
			switch {
			case errors.Is(err, context.Canceled):
				return errors.New("exec was interrupted; the command has been killed")
			case err != nil:
				return err
			case code != 0:
				return reported(code)
			}
			return nil
		},
	},
		guestFlag(&name),
		flag{&limit, "time", "t", "`time` after which the command is killed"},
	)
}

func openPeer(name string) (*peer.Handle, error) {
	dir, err := peerDir(name)
	if err != nil {
		return nil, err
	}
	h, err := peer.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("no guest named %s runs: start one with: tapir peer start --name %[1]s", name)
	}
	return h, nil
}

// quoteAll joins arguments so that a shell takes them apart again.
func quoteAll(args []string) string {
	var q []string
	for _, a := range args {
		q = append(q, "'"+strings.ReplaceAll(a, "'", `'\''`)+"'")
	}
	return strings.Join(q, " ")
}

func newPeerStop() *cobra.Command {
	name := "peer"
	return withFlags(&cobra.Command{
		Use:     "stop",
		Short:   "End a guest",
		Example: "  tapir peer stop",
		Args:    atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			h, err := openPeer(name)
			if err != nil {
				return err
			}
			return h.PowerOff(cmd.Context())
		},
	},
		guestFlag(&name),
	)
}

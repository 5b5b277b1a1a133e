package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"tapir/lab/tool/cli"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/usage"
	"tapir/lab/tool/wireshark"
)

func newWireshark() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "wireshark COMMAND",
		Short: "Add Omni-Path and the running NICs to Wireshark",
		Long: "Wireshark lacks a dissector for Omni-Path 16B packets. Install puts one, written in Lua,\n" +
			"among this user's plugins: every field is a filter (opa16b.*), the ICRC is verified, the\n" +
			"Ethernet frame inside is decoded, and so are VNIC management attributes (opavema.*).\n" +
			"It also adds this user's running NICs to the interfaces that Wireshark can capture on.",
		Example: "  tapir wireshark install\n" +
			"  tshark -r f.pcapng -Y 'opa16b.vesw == 2 && arp'\n" +
			"  tshark -i tapir-nic0",
	}, "command", newWiresharkInstall(), newWiresharkUninstall(), newWiresharkPrint(), newExtcap())
}

// withDirs makes cmd one that does something in Wireshark's directories, which
// its flags choose.
func withDirs(cmd *cobra.Command, do func(cmd *cobra.Command, d wireshark.Dirs) error) *cobra.Command {
	var d wireshark.Dirs
	cmd.Args = cli.AtMost(0)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := d.Fill(cmd.Context()); err != nil {
			return err
		}
		return do(cmd, d)
	}
	return cli.With(cmd,
		cli.F(&d.Plugins, "plugins", "", "`directory` of Lua plugins (default: the one that tshark names)"),
		cli.F(&d.Extcap, "extcap", "", "`directory` of extcap programs (default: the one that tshark names)"))
}

func newWiresharkInstall() *cobra.Command {
	return withDirs(&cobra.Command{
		Use:     "install",
		Short:   "Install dissector and interfaces for this user",
		Example: "  tapir wireshark install",
	}, func(cmd *cobra.Command, d wireshark.Dirs) error {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		files, err := wireshark.Install(d, self)
		for _, f := range files {
			fmt.Fprintln(cmd.OutOrStdout(), "installed", f)
		}
		return err
	})
}

func newWiresharkUninstall() *cobra.Command {
	return withDirs(&cobra.Command{
		Use:     "uninstall",
		Short:   "Remove the files that install wrote",
		Example: "  tapir wireshark uninstall",
	}, func(cmd *cobra.Command, d wireshark.Dirs) error {
		removed, err := wireshark.Uninstall(d)
		for _, f := range removed {
			fmt.Fprintln(cmd.OutOrStdout(), "removed", f)
		}
		if err == nil && len(removed) == 0 {
			fmt.Fprintln(cmd.OutOrStdout(), "nothing was installed")
		}
		return err
	})
}

func newWiresharkPrint() *cobra.Command {
	return &cobra.Command{
		Use:     "print",
		Short:   "Print the dissector",
		Example: "  tapir wireshark print > tapir_opa.lua\n  tshark -X lua_script:tapir_opa.lua -r f.pcapng",
		Args:    cli.AtMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), wireshark.Script)
			return err
		},
	}
}

// extcapCall is one call by Wireshark; flags it may add in later versions are ignored.
type extcapCall struct {
	interfaces, dlts, config, capture bool
	iface, fifo                       string
	opt                               ctl.CaptureOptions
	inner                             bool
}

func newExtcap() *cobra.Command {
	var call extcapCall
	return cli.With(&cobra.Command{
		Use:                "extcap",
		Short:              "Answer Wireshark, which calls this itself",
		Hidden:             true,
		Example:            "  tapir wireshark extcap --extcap-interfaces",
		Args:               cli.AtMost(0),
		FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
		RunE:               func(cmd *cobra.Command, _ []string) error { return call.run(cmd) },
	},
		cli.F(&call.interfaces, "extcap-interfaces", "", "list the running NICs"),
		cli.F(&call.dlts, "extcap-dlts", "", "list link types"),
		cli.F(&call.config, "extcap-config", "", "list options"),
		cli.F(&call.capture, "capture", "", "capture"),
		cli.F(&call.iface, "extcap-interface", "", "`interface` in question"),
		cli.F(&call.fifo, "fifo", "", "`FIFO` to write to"),
		cli.F(&call.opt.Host, "host", "", "capture the host TAP too"),
		cli.F(&call.opt.Raw, "raw", "", "keep super-frames whole"),
		cli.F(&call.inner, "inner", "", "the frames inside Omni-Path packets"),
	)
}

func (c *extcapCall) run(cmd *cobra.Command) error {
	out := cmd.OutOrStdout()
	switch {
	case c.interfaces:
		return wireshark.WriteInterfaces(out, versionText(), ctl.List())
	case c.dlts:
		return wireshark.WriteDLTs(out)
	case c.config:
		return wireshark.WriteConfig(out)
	case c.capture:
		return wireshark.Capture(cmd.Context(), c.iface, c.fifo, c.opt, c.inner)
	}
	return usage.Errorf("this is for Wireshark: see: tapir wireshark --help")
}

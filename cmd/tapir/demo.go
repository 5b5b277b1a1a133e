package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"tapir/lab/host/netns"
	"tapir/lab/tool/cli"
	"tapir/lab/tool/demo"
	"tapir/lab/tool/doctor"
	"tapir/lab/tool/usage"
	"tapir/nic/tap/wires"
)

func newDemo() *cobra.Command {
	o := demo.Options{Out: "out", Frames: "wire"}
	var asJSON bool
	return cli.With(&cobra.Command{
		Use:   "demo",
		Short: "Watch two NICs exchange verified RDMA traffic",
		Long: "Demo makes two network namespaces, each with a TAP, joins them, runs a NIC on each as\n" +
			"a process of its own, and sends, writes and reads 8 B, 4 KiB and 16 MiB between them.\n" +
			"Each operation is verified by the SHA-256 of the target memory. The traffic is captured\n" +
			"for Wireshark. Nothing is left behind but the files in the output directory.\n\n" +
			"It needs root, or a system that lets ordinary users make user namespaces. Without\n" +
			"/dev/net/tun the NICs run on a wire in shared memory.",
		Example: "  tapir demo\n  tapir demo --frames gso\n  tapir demo --tcpdump --json",
		Args:    cli.AtMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Frames != "wire" && o.Frames != "gso" && o.Frames != "jumbo" {
				return usage.Errorf("--frames %s: use wire, gso or jumbo", o.Frames)
			}
			if o.Wire != "" && (o.Tcpdump || !slices.Contains(wires.All, o.Wire)) {
				return usage.Errorf("--wire %s: use %s, without --tcpdump", o.Wire, wires.Names)
			}
			err := runDemo(cmd, o, asJSON)
			if code := usage.ExitCode(0); err == nil || errors.As(err, &code) {
				return err
			}
			if cmd.Context().Err() != nil {
				return errors.New("the demo was interrupted")
			}
			return advised{err, func(w io.Writer) { advise(cmd.Context(), w) }}
		},
	},
		cli.F(&o.Out, "out", "", "directory for the captures"),
		cli.F(&o.Frames, "frames", "",
			"wire: one true frame per packet; gso: 64 KiB super-frames; jumbo: gso with MTU 9000"),
		cli.F(&o.Tcpdump, "tcpdump", "", "also run the stock tcpdump on both TAPs and keep its files"),
		cli.F(&o.Wire, "wire", "", "`kind` of a wire that is no TAP: "+wires.Names),
		cli.JSON(&asJSON),
	)
}

func runDemo(cmd *cobra.Command, o demo.Options, asJSON bool) error {
	if o.NeedsRights() && !netns.Privileged() && !netns.Reexeced() {
		return demo.InUserNamespace(cmd.Context(), o.NeedsTAP())
	}
	rep, err := demo.RunAlone(cmd.Context(), o)
	if err != nil {
		return err
	}
	if asJSON {
		fmt.Fprintln(cmd.OutOrStdout(), rep.JSON())
	} else if err := rep.Print(cmd.OutOrStdout()); err != nil {
		return err
	}
	if !rep.Verified() {
		return errors.New("the memory at the target is not what was sent")
	}
	return nil
}

// advise prints what the doctor finds wrong.
func advise(ctx context.Context, w io.Writer) {
	if bad := doctor.Failing(doctor.Run(ctx)); len(bad) > 0 {
		fmt.Fprintln(w, "tapir doctor says:")
		_ = doctor.Format(w, bad) // nothing is left to say if this fails
	}
}

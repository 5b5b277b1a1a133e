package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"tapir/lab/tool/cli"
	"tapir/lab/tool/files"
	"tapir/lab/tool/inspect"
	"tapir/lab/tool/usage"
)

// inspectFlags are what inspect can be told.
type inspectFlags struct {
	quirks string
	ladder bool
	svg    string
	json   bool
	limit  int
	rules  bool
}

func newInspect() *cobra.Command {
	f := inspectFlags{limit: 1000}
	return cli.With(&cobra.Command{
		Use:   "inspect FILE",
		Short: "Replay a capture and name the first violation of a standard",
		Long: "Inspect reads a capture, pcap or pcapng, of anyone's traffic, puts its TCP streams together,\n" +
			"replays MPA, DDP and RDMAP, RoCE, iSCSI, FIP and FCoE, Omni-Path packets and PTP, and tells what\n" +
			"breaks which clause of which standard in which packet. It prints the flows with their messages\n" +
			"and ends with\n\n" +
			"  0  everything was replayed and breaks no rule\n" +
			"  1  a violation, or traffic that cannot be replayed\n" +
			"  2  a mistake on the command line\n",
		Example: "  tapir capture nic0 -w f.pcapng\n" +
			"  tapir inspect f.pcapng\n" +
			"  tapir inspect siw.pcap --quirks siw --ladder",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 && !f.rules {
				return usage.Errorf("name one capture to read, - for standard input: see: tapir inspect --help")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runInspect(cmd, args, &f) },
	},
		cli.F(&f.quirks, "quirks", "", "`implementation` whose known deviations are notes, not violations: siw"),
		cli.F(&f.ladder, "ladder", "", "draw the exchange"),
		cli.F(&f.svg, "svg", "", "`file` to draw the exchange to, as SVG"),
		cli.F(&f.json, "json", "", "print the report as JSON"),
		cli.F(&f.limit, "limit", "", "`steps` that are drawn at most"),
		cli.F(&f.rules, "rules", "", "list the rules and their clauses instead"),
	)
}

func runInspect(cmd *cobra.Command, args []string, f *inspectFlags) error {
	switch {
	case f.quirks != "" && f.quirks != "siw":
		return usage.Errorf("--quirks %q; expected siw", f.quirks)
	case f.limit < 1:
		return usage.Errorf("--limit %d; expected 1 or more", f.limit)
	case f.rules:
		return inspect.WriteRules(cmd.OutOrStdout())
	}
	opt := inspect.Options{QuirksSiw: f.quirks != ""}
	if f.ladder || f.svg != "" {
		opt.Ladder = f.limit
	}
	r, err := inspectCapture(cmd, args[0], opt)
	if err != nil {
		return err
	}
	if err := writeReport(cmd, r, f); err != nil {
		return err
	}
	if r.Verdict() != inspect.Clean {
		return usage.Exit(exitFailed)
	}
	return nil
}

func inspectCapture(cmd *cobra.Command, name string, opt inspect.Options) (*inspect.Report, error) {
	i := inspect.New(opt)
	err := files.Read(name, cmd.InOrStdin(), func(r io.Reader) error {
		if err := inspect.Read(r, i); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
	r := i.Finish()
	if r.Packets > 0 && err != nil {
		// What was captured before the file breaks off is worth reading.
		complain(cmd.ErrOrStderr(), err)
		err = nil
	}
	return r, err
}

func writeReport(cmd *cobra.Command, r *inspect.Report, f *inspectFlags) (err error) {
	out := cmd.OutOrStdout()
	if f.svg != "" {
		if err := files.Write(f.svg, out, "drawing", r.WriteSVG); err != nil {
			return err
		}
	}
	if f.json {
		return r.WriteJSON(out)
	}
	if f.ladder {
		err = r.WriteLadder(out)
	}
	return errors.Join(err, r.WriteText(out))
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"tapir/lab/host/netns"
	"tapir/lab/host/peer"
	"tapir/lab/tool/live"
	"tapir/lab/tool/script"
	"tapir/lab/tool/usage"
)

func newScript() *cobra.Command {
	trace, against, lanes := false, "", 4
	return withFlags(&cobra.Command{
		Use:   "script FILE...",
		Short: "Run wire scripts: packets in, packets that must come out",
		Long: "A wire script plays the peer of a NIC, by TCP segments or by messages of MPA, DDP and\n" +
			"RDMAP, and states what must come back, in the manner of packetdrill. Scripts run in\n" +
			"virtual time, without a TAP and without privileges; a script always runs the same way.\n" +
			"The first line that is not fulfilled is printed with what came instead.\n\n" +
			"The exit code is 0 if every script holds, 1 if one fails and 2 if one cannot be read.",
		Example: "  tapir script handshake.wire\n" +
			"  tapir script --trace lab/tool/script/testdata/tcp/9293-3.5/*.wire\n" +
			"  tapir script --trace lab/tool/script/testdata/iwarp/5040-5.2.1/read.wire\n" +
			"  tapir script --peer siw lab/tool/script/testdata/iwarp/5040-5.2.1/*.wire",
		Args: atLeast(1, "the script is missing: see: tapir script --help"),
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := readScripts(cmd.OutOrStdout(), args)
			switch {
			case err != nil:
				return err
			case against == "":
				return runScripts(cmd.OutOrStdout(), all, trace)
			case against != "siw":
				return usage.Errorf("--peer %s: siw is the only live peer", against)
			case lanes < 1 || lanes > 16:
				return usage.Errorf("--lanes %d: want 1 to 16", lanes)
			}
			return runLive(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), all, lanes, trace)
		},
	},
		flag{&against, "peer", "", "siw: in real time against the siw driver of a Linux guest, which " +
			"is built and booted (root; see docs/scripts.md)"},
		flag{&lanes, "lanes", "", "with --peer: so many scripts at a time"},
		flag{&trace, "trace", "", "print every packet, of iWARP every message, as it would stand in a script"},
	)
}

// readScripts reads all scripts.
func readScripts(out io.Writer, names []string) (all []*script.Script, err error) {
	for _, name := range names {
		s, err := script.ReadFile(name)
		if e := (*script.Error)(nil); errors.As(err, &e) {
			fmt.Fprintln(out, e)
			return nil, usage.Errorf("%s:%d: this line cannot be read", e.File, e.Line)
		} else if err != nil {
			return nil, usage.Wrap(err)
		}
		all = append(all, s)
	}
	return all, nil
}

// runScripts runs them in virtual time.
func runScripts(out io.Writer, all []*script.Script, trace bool) error {
	failed := 0
	for _, s := range all {
		var to io.Writer
		if trace {
			fmt.Fprintf(out, "# %s\n", s.Name)
			to = out
		}
		if err := s.Run(to); err != nil {
			failed++
			fmt.Fprintln(out, err)
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d scripts failed", failed, len(all))
	}
	if len(all) == 1 {
		fmt.Fprintln(out, "1 script holds")
		return nil
	}
	fmt.Fprintf(out, "%d scripts hold\n", len(all))
	return nil
}

// runLive runs them against a guest.
func runLive(ctx context.Context, out, log io.Writer, all []*script.Script, lanes int, trace bool) error {
	if !netns.Privileged() {
		return errors.New("a live peer needs a network namespace and TAPs: run as root, or in a container with " +
			"CAP_NET_ADMIN and CAP_SYS_ADMIN")
	}
	image, err := peer.Build(ctx, peer.CacheDir(), log)
	if err != nil {
		return err
	}
	w, err := live.NewWorld(ctx, image, min(lanes, len(all)), time.Hour)
	if err != nil {
		return err
	}
	defer w.Close()
	count := map[script.State]int{}
	err = w.Run(ctx, all, trace, func(r live.Result) {
		count[r.Outcome.State()]++
		fmt.Fprintln(out, r)
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d hold, %d differ, %d not applicable\n", count[script.Holds], count[script.Differs],
		count[script.NotApplicable])
	if n := count[script.Differs]; n > 0 {
		return fmt.Errorf("siw differs from %d of %d scripts", n, len(all))
	}
	return nil
}

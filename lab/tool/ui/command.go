package ui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"tapir/lab/tool/ui/record"
	"tapir/lab/tool/usage"
)

// Command is the subcommand; complete lists NICs.
func Command(version string, complete cobra.CompletionFunc) *cobra.Command {
	addr := "127.0.0.1:0"
	o := Options{Version: version}
	cmd := &cobra.Command{
		Use:   "ui [NAME|OUT_DIR]",
		Short: "Show running nodes and labs in a browser",
		Long: "Ui serves a page on the loopback address until Ctrl-C, and prints its URL: NICs, switches and labs\n" +
			"that run, the links between them with their rates, tables of each node, clocks, and ladders of\n" +
			"connections. The page changes nodes by command lines, which it shows. With a NAME it begins with\n" +
			"that node. With the directory of `tapir lab run --out` it shows that lab over its time. Documents, at\n" +
			"the top right, leads to the manual: README, docs and examples, with a search.\n\n" +
			"Anyone with the URL and its token can control the nodes as you can.",
		Example: "  tapir ui\n  tapir ui nic0\n  tapir ui --listen 127.0.0.1:8080\n  tapir ui out/lossy",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage.Errorf("unexpected argument %q: see: %s --help", args[1], cmd.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, _, err := net.SplitHostPort(addr); err != nil {
				return usage.Errorf("--listen %s: expected ADDRESS:PORT", addr)
			}
			if err := o.choose(strings.Join(args, "")); err != nil {
				return err
			}
			return Run(cmd.Context(), cmd.OutOrStdout(), addr, o)
		},
	}
	cmd.Flags().StringVar(&addr, "listen", addr, "`address` and port to serve the page on; port 0: a free one")
	return cmd
}

// choose finds out what a name stands for.
func (o *Options) choose(name string) error {
	if name == "" {
		return nil
	}
	at, err := os.Stat(name)
	if err != nil || !at.IsDir() {
		if strings.ContainsRune(name, filepath.Separator) && strings.Count(name, "/") > 1 {
			return usage.Errorf("%s: no such directory of a recorded lab", name)
		}
		c, err := dial(context.Background(), name)
		if err != nil {
			return err
		}
		c.Close()
		o.Open = name
		return nil
	}
	if _, err := os.Stat(filepath.Join(name, record.ResultFile)); err != nil {
		return fmt.Errorf("%s has no %s: make one with: tapir lab run --out %s FILE", name, record.ResultFile, name)
	}
	o.Record = name
	return nil
}

// Run serves the page until ctx ends, and prints its URL.
func Run(ctx context.Context, out io.Writer, addr string, o Options) error {
	s, err := Listen(addr, o)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "ready", s.URL())
	if err := s.Serve(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"tapir/lab/conf/hficonf"
	"tapir/lab/node"
	"tapir/lab/node/emnode"
	"tapir/lab/tool/ctl"
	"tapir/nic/loop"
)

func newEM() *cobra.Command {
	var file string
	var dryRun, standby bool
	cmd := &cobra.Command{
		Use:   "em -c FILE",
		Short: "Run the Ethernet Manager of an Omni-Path fabric",
		Long: "Em runs an Ethernet Manager in the foreground, with the fabric manager that it needs: it\n" +
			"gives the HFIs on the fabric their LIDs and P_Keys and keeps their virtual NICs as the file\n" +
			"declares them. Several may run; one is the master, another takes over when it is gone.\n\n" +
			"SIGHUP, or `tapir em reload`, reads the file again; virtual switches that stay as they are\n" +
			"lose no frame. --dry-run prints what would change and changes nothing; if the manager runs\n" +
			"already, it is asked.",
		Example: "  tapir em -c vesw.yaml --dry-run\n  tapir em -c vesw.yaml\n  tapir em -c standby.yaml --standby\n" +
			"  tapir em show\n  tapir em query vesw 2\n  tapir em reload",
		Args: atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return usagef("-c FILE is needed: see: tapir em --help")
			}
			cfg, err := loaded(hficonf.LoadEM(file))
			if err != nil {
				return err
			}
			cfg.Standby = standby
			if dryRun {
				return runDry(cmd.Context(), file, cfg, cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			return runEM(cmd.Context(), file, cfg, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&file, "config", "c", "", "the `file` that declares the fabric")
	f.BoolVar(&dryRun, "dry-run", false, "print what would change on the fabric, and end")
	f.BoolVar(&standby, "standby", false, "be master only while no other manager is there")
	cmd.AddCommand(newEMShow(), newEMQuery(), newEMReload())
	return cmd
}

// runEM runs until ctx ends, a client stops the manager, or it fails.
func runEM(ctx context.Context, file string, cfg hficonf.EMConfig, out, errOut io.Writer) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	s, err := ctl.Listen(cfg.Port.ControlName(), versionText())
	if err != nil {
		return err
	}
	m, err := emnode.Start(ctx, file, cfg, reporting(errOut))
	if err != nil {
		s.Close()
		return err
	}
	defer closeFabric([]onFabric{{m, s}})
	s.Serve(m.Served(func() { stop(errStopped) }))
	fmt.Fprintln(out, m.Ready())
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-hangups:
				if err := m.Reload(); err != nil && !errors.Is(err, loop.ErrClosed) {
					fmt.Fprintf(errOut, "%s: not reloaded: %s\n", m.Name(), oneLine(err.Error()))
				}
			}
		}
	}()
	return await(ctx, []ending{m}, stop)
}

// reporting are the surroundings of a node that reports on errOut.
func reporting(errOut io.Writer) node.Env { return node.Env{Version: versionText(), Log: errOut} }

// runDry prints what cfg would change. A manager of that name that runs is
// asked.
func runDry(ctx context.Context, file string, cfg hficonf.EMConfig, out, errOut io.Writer) error {
	var lines []string
	if name := cfg.Port.ControlName(); slices.Contains(ctl.List(), name) {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		c, err := ctl.Dial(name)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := c.Command(ctx, "plan", map[string]string{"path": file, "text": string(text)}, &lines); err != nil {
			return err
		}
	} else {
		var err error
		if lines, err = emnode.DryRun(ctx, cfg, reporting(errOut)); err != nil {
			return err
		}
	}
	if len(lines) == 0 {
		lines = []string{"no change"}
	}
	_, err := fmt.Fprintln(out, strings.Join(lines, "\n"))
	return err
}

// dialEM connects to the manager called name, or the only one that runs.
func dialEM(cmd *cobra.Command, name string) (*ctl.Client, error) {
	if name != "" {
		return ctl.Dial(name)
	}
	var found []string
	for _, n := range ctl.List() {
		c, err := ctl.Dial(n)
		if err != nil {
			return nil, err
		}
		var row struct{ Kind string }
		err = c.Show(cmd.Context(), ctl.Kinds[0], &row)
		c.Close()
		if err == nil && row.Kind == "em" {
			found = append(found, n)
		}
	}
	switch len(found) {
	case 0:
		return nil, errors.New("no Ethernet Manager is running: start one with: tapir em -c vesw.yaml")
	case 1:
		return ctl.Dial(found[0])
	}
	return nil, usagef("several Ethernet Managers are running (%s): choose one with --name", strings.Join(found, ", "))
}

// emTables are what a manager shows, in the order of the help text.
var emTables = []string{"vesw", "port", "member", "mac", "traffic", "audit", "counters"}

func newEMShow() *cobra.Command {
	var name string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show [" + strings.Join(emTables, "|") + "]",
		Short: "Show what an Ethernet Manager knows",
		Long: "Show prints one of the manager's tables: the virtual switches (vesw, the default), the HFI\n" +
			"ports of the fabric (port), the members of all virtual switches with their state (member),\n" +
			"MAC addresses and where they are (mac), what the members have counted when they were last\n" +
			"asked (traffic), the audit log (audit) and the manager's own counters.",
		Example:   "  tapir em show\n  tapir em show port\n  tapir em show audit --json",
		Args:      atMost(1),
		ValidArgs: emTables,
		RunE: func(cmd *cobra.Command, args []string) error {
			kind := emTables[0]
			if len(args) > 0 {
				kind = args[0]
			}
			if !slices.Contains(emTables, kind) {
				return usagef("there is no table %q: choose one of %s", kind, strings.Join(emTables, ", "))
			}
			c, err := dialEM(cmd, name)
			if err != nil {
				return err
			}
			defer c.Close()
			var raw json.RawMessage
			if err := c.Show(cmd.Context(), kind, &raw); err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), raw)
			}
			return printTable(cmd.OutOrStdout(), raw, columns[kind])
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "`name` of the manager (default the only one that runs)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// emQueries are what can be asked about: for each the tables to look into, and
// the columns that must hold the value.
var emQueries = map[string][]struct {
	table   string
	columns []string
}{
	"vesw": {{"vesw", []string{"id", "name"}}, {"member", []string{"vesw"}}, {"mac", []string{"vesw"}}},
	"node": {{"port", []string{"guid", "name", "lid"}}, {"member", []string{"guid", "node", "lid"}}, {"mac", []string{"node", "dlid"}}},
	"mac":  {{"mac", []string{"mac"}}},
}

func newEMQuery() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "query {vesw ID|NAME} | {node GUID|NAME|LID} | {mac ADDRESS}",
		Short: "Ask an Ethernet Manager about one thing",
		Long: "Query prints all that the manager knows of a virtual switch, of an HFI or of a MAC address:\n" +
			"for each of its tables the rows that concern it.",
		Example: "  tapir em query vesw 2\n  tapir em query node 0x0011750101000001\n  tapir em query mac 52:54:00:12:34:56",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 || emQueries[args[0]] == nil {
				return usagef("expected vesw, node or mac and a value: see: tapir em query --help")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := dialEM(cmd, name)
			if err != nil {
				return err
			}
			defer c.Close()
			return query(cmd, c, args[0], args[1])
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "`name` of the manager (default the only one that runs)")
	return cmd
}

// query prints the rows that concern what. A vESW's name stands for its id.
func query(cmd *cobra.Command, c *ctl.Client, kind, what string) error {
	found := false
	for _, q := range emQueries[kind] {
		var rows, hits []json.RawMessage
		if err := c.Show(cmd.Context(), q.table, &rows); err != nil {
			return err
		}
		for _, r := range rows {
			fields, err := members(r)
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(fields, func(f field) bool { return slices.Contains(q.columns, f.key) && sameValue(f.text, what) }) {
				continue
			}
			hits = append(hits, r)
			if q.table == "vesw" {
				what = valueOf(fields, "id")
			}
		}
		if len(hits) == 0 {
			continue
		}
		if found {
			fmt.Fprintln(cmd.OutOrStdout())
		}
		found = true
		raw, err := json.Marshal(hits)
		if err != nil {
			return err
		}
		if err := printTable(cmd.OutOrStdout(), raw, columns[q.table]); err != nil {
			return err
		}
	}
	if !found {
		return fmt.Errorf("the Ethernet Manager knows no %s %s", kind, what)
	}
	return nil
}

func valueOf(fields []field, key string) string {
	for _, f := range fields {
		if f.key == key {
			return f.text
		}
	}
	return ""
}

// sameValue compares names, addresses in any case, and numbers in any notation.
func sameValue(a, b string) bool {
	if strings.EqualFold(a, b) {
		return true
	}
	x, errA := strconv.ParseUint(a, 0, 64)
	y, errB := strconv.ParseUint(b, 0, 64)
	return errA == nil && errB == nil && x == y
}

func newEMReload() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:     "reload",
		Short:   "Let an Ethernet Manager read its file again",
		Example: "  tapir em reload",
		Args:    atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := dialEM(cmd, name)
			if err != nil {
				return err
			}
			defer c.Close()
			return c.Command(cmd.Context(), "reload", nil, nil)
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "`name` of the manager (default the only one that runs)")
	return cmd
}

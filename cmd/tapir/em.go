package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tapir/lab/conf"
	"tapir/lab/conf/hficonf"
	"tapir/lab/tool/cli"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/serve"
	"tapir/lab/tool/show"
	"tapir/lab/tool/usage"
)

func newEM() *cobra.Command {
	var file string
	var dryRun, standby bool
	cmd := cli.With(&cobra.Command{
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
		Args: cli.AtMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return usage.Errorf("-c FILE is needed: see: tapir em --help")
			}
			cfg, err := cli.Loaded(hficonf.LoadEM(file))
			if err != nil {
				return err
			}
			cfg.Standby = standby
			if dryRun {
				return serve.PrintPlan(cmd.Context(), serving(cmd), file, cfg)
			}
			return serve.Manager(cmd.Context(), serving(cmd), file, cfg)
		},
	},
		cli.F(&file, "config", "c", "the `file` that declares the fabric"),
		cli.F(&dryRun, "dry-run", "", "print what would change on the fabric, and end"),
		cli.F(&standby, "standby", "", "be master only while no other manager is there"),
	)
	cmd.AddCommand(newEMShow(), newEMQuery(), newEMReload())
	return cmd
}

// withEM calls do with a connection to the manager called name, or to the only one that runs.
func withEM(cmd *cobra.Command, name string, do func(c *ctl.Client) error) error {
	found := []string{name}
	if name == "" {
		var err error
		if found, err = ctl.Managers(cmd.Context()); err != nil {
			return err
		}
	}
	switch len(found) {
	case 0:
		return errors.New("no Ethernet Manager is running: start one with: tapir em -c vesw.yaml")
	case 1:
		return withNIC(found[0], "", do)
	}
	return usage.Errorf("several Ethernet Managers are running (%s): choose one by its name: tapir em show EM",
		strings.Join(found, ", "))
}

func newEMShow() *cobra.Command {
	var name string
	var asJSON bool
	tables := show.ManagerTables
	return cli.Old(cli.With(&cobra.Command{
		Use:   "show [EM] [" + strings.Join(tables, "|") + "]",
		Short: "Show the fabric as an Ethernet Manager sees it",
		Long: "Show prints one of the manager's tables: the virtual switches (vesw, the default), the HFI\n" +
			"ports of the fabric (port), the members of all virtual switches with their state (member),\n" +
			"MAC addresses and where they are (mac), what the members have counted when they were last\n" +
			"asked (traffic), the audit log (audit) and the manager's own counters.",
		Example:           "  tapir em show\n  tapir em show port\n  tapir em show audit --json",
		Args:              cli.AtMost(2),
		ValidArgsFunction: completeEM(tables),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			// A word that is neither a table nor a node was meant as a table.
			table := func(word string) bool { return in(tables)(word) || !in(ctl.List())(word) }
			if name, args, err = cli.Target(args, name, table); err != nil {
				return err
			}
			kind := cmp.Or(cli.First(args), tables[0])
			if !slices.Contains(tables, kind) {
				return usage.Errorf("there is no table %q: %s", kind, conf.OneOf(kind, tables))
			}
			return withEM(cmd, name, func(c *ctl.Client) error {
				var raw json.RawMessage
				if err := c.Show(cmd.Context(), kind, &raw); err != nil {
					return err
				}
				return show.Print(cmd.OutOrStdout(), kind, raw, asJSON)
			})
		},
	}, cli.JSON(&asJSON)), managerFlag(&name))
}

// in tells whether a word is one of all.
func in(all []string) func(string) bool {
	return func(word string) bool { return slices.Contains(all, word) }
}

// completeEM offers managers, and these words, for the first arguments.
func completeEM(words []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		names := words
		if len(args) == 0 {
			managers, _ := ctl.Managers(cmd.Context()) // none: nothing to offer
			names = append(managers, words...)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// managerFlag chooses a manager, by an older spelling.
func managerFlag(name *string) cli.Flag {
	return cli.F(name, "name", "", "`name` of the manager (default the only one that runs)")
}

func newEMQuery() *cobra.Command {
	var name string
	return cli.Old(&cobra.Command{
		Use:   "query [EM] {vesw ID|NAME | node GUID|NAME|LID | mac ADDRESS}",
		Short: "Ask an Ethernet Manager about one thing",
		Long: "Query prints all that the manager knows of a virtual switch, of an HFI or of a MAC address:\n" +
			"for each of its tables the rows that concern it.",
		Example: "  tapir em query vesw 2\n  tapir em query node 0x0011750101000001\n  tapir em query mac " +
			"52:54:00:12:34:56",
		Args: func(cmd *cobra.Command, args []string) error {
			if n := len(args); n < 2 || n > 3 || !show.CanQuery(args[n-2]) {
				return usage.Errorf("expected vesw, node or mac and a value: see: tapir em query --help")
			}
			return nil
		},
		ValidArgsFunction: completeEM([]string{"vesw", "node", "mac"}),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if name, args, err = cli.Target(args, name, show.CanQuery); err != nil {
				return err
			}
			return withEM(cmd, name, func(c *ctl.Client) error {
				return show.Query(cmd.Context(), cmd.OutOrStdout(), c, args[0], args[1])
			})
		},
	}, managerFlag(&name))
}

func newEMReload() *cobra.Command {
	var name string
	return cli.Old(&cobra.Command{
		Use:     "reload [EM]",
		Short:   "Reload the configuration of an Ethernet Manager",
		Example: "  tapir em reload",
		Args:    cli.AtMost(1),

		ValidArgsFunction: completeEM(nil),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if name, _, err = cli.Target(args, name, in(nil)); err != nil {
				return err
			}
			return withEM(cmd, name, func(c *ctl.Client) error { return c.Command(cmd.Context(), "reload", nil, nil) })
		},
	}, managerFlag(&name))
}

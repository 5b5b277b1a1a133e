package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"tapir/lab/tool/ctl"
)

func newShow() *cobra.Command {
	var asJSON, follow bool
	cmd := &cobra.Command{
		Use:   "show [NIC] [" + strings.Join(ctl.Kinds[1:], "|") + "] [NUMBER]",
		Short: "Look inside running NICs",
		Long: "Show prints one line per running NIC, what one NIC is, or one of its tables:\n" +
			"the RDMA device with its port, limits and their use (device), queue pairs (qp), completion\n" +
			"queues (cq), memory regions (mr) and windows (mw), connection endpoints (cep), status\n" +
			"blocks with their vectors and interrupts (irq), how many objects there are and have been (stats), counters, parameters (params), the connection manager's latest events, and\n" +
			"the lines about the topics of the parameter dprint (log). With a number it prints all about\n" +
			"one queue pair, completion queue, region, window or connection. --follow prints events or log lines\n" +
			"as they happen. The name may be left out if only one NIC runs. Of the device there are the port's link,\n" +
			"the management firmware (mfw), the flash (nvm), and what the firmware pulls from the driver (tlv).\n\n" +
			"The Ethernet function behind a host TAP has its vport and a queue pair for each queue of the TAP (queue).\n\n" +
			"An Omni-Path HFI has vport, mac, ethtool and counters; an Ethernet Manager what\n" +
			"tapir em show lists.",
		Example: "  tapir show\n  tapir show nic0\n  tapir show nic0 qp\n  tapir show nic0 cep 1\n  tapir show counters --json\n" +
			"  tapir show nic0 events --follow\n  tapir set nic0 dprint=cm,mpa && tapir show nic0 log --follow",
		Args: atMost(3),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, part string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return ctl.Kinds, cobra.ShellCompDirectiveNoFileComp
			}
			return completeNIC(cmd, args, part)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if follow {
				return runFollow(cmd, args, asJSON)
			}
			raw, kind, err := fetch(cmd, args)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), raw)
			}
			return printTable(cmd.OutOrStdout(), raw, columns[kind])
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "print events or log lines as they happen, until Ctrl-C")
	return cmd
}

// columns are those that fit a screen, by kind; "" is the list of NICs. --json
// has them all.
var columns = map[string][]string{
	"":       {"name", "mac", "addrs", "mtu", "frames", "tap", "qps", "ceps", "drops", "pid"},
	"device": {"attribute", "value", "used", "limit", "ever"},
	"link":   {"attribute", "value"},
	"mfw":    {"attribute", "value"},
	"qp":     {"qp", "state", "iwarp_state", "local", "remote", "sends_pending", "recvs_pending", "crc", "tx_fpdus", "tx_bytes", "rx_fpdus", "rx_bytes"},
	"cep":    {"id", "state", "phase", "local", "remote", "qp", "mpa_revision", "crc", "markers", "ird", "ord", "rtr"},
	"events": {"time", "event", "id", "qp", "iwarp_state", "local", "remote", "status", "reason", "ird", "ord", "private_data"},
	"log":    {"time", "level", "topic", "text"},

	"traffic": {"vesw", "node", "vport", "tx_packets", "rx_packets", "tx_bytes", "rx_bytes", "tx_errors", "rx_errors", "tx_dlid_zero", "tx_smac_filt", "rx_bad_veswid"},
}

// target is what the arguments name: a NIC (empty: the only one), a table and
// one row of it (empty: all).
func target(args []string) (name, kind, row string, err error) {
	kind = ctl.Kinds[0]
	if ctl.KnownKind(args[0]) { // a table alone: of the only NIC
		args = append([]string{""}, args...)
	}
	name = args[0]
	if len(args) > 1 {
		kind = args[1]
	}
	if len(args) > 2 {
		row = args[2]
	}
	switch {
	case !ctl.KnownKind(kind):
		err = usagef("there is no table %q: choose one of %s", kind, strings.Join(ctl.Kinds, ", "))
	case len(args) > 3:
		err = usagef("unexpected argument %q: see: tapir show --help", args[3])
	case row != "" && rowKeys[kind] == "":
		err = usagef("%s has no numbered rows: leave %q out", kind, row)
	}
	return name, kind, row, err
}

// rowKeys are the columns that number the rows of tables.
var rowKeys = map[string]string{"qp": "qp", "cq": "cq", "mr": "mr", "mw": "mw", "cep": "id"}

// pick returns the row of raw whose column key is row.
func pick(raw json.RawMessage, key, row string) (json.RawMessage, error) {
	var rows []json.RawMessage
	if err := json.Unmarshal(raw, &rows); err != nil {
		return nil, err
	}
	for _, r := range rows {
		fields, err := members(r)
		if err != nil {
			return nil, err
		}
		for _, f := range fields {
			if f.key == key && f.text == row {
				return r, nil
			}
		}
	}
	return nil, fmt.Errorf("there is no %s %s", key, row)
}

// fetch gets what the arguments ask for, and tells which table it is.
func fetch(cmd *cobra.Command, args []string) (raw json.RawMessage, kind string, err error) {
	if len(args) == 0 {
		raw, err = fetchAll(cmd)
		return raw, "", err
	}
	name, kind, row, err := target(args)
	if err != nil {
		return nil, "", err
	}
	c, err := dial(name, "its name: tapir show NIC "+kind)
	if err != nil {
		return nil, "", err
	}
	defer c.Close()
	if err = c.Show(cmd.Context(), kind, &raw); err == nil && row != "" {
		raw, err = pick(raw, rowKeys[kind], row)
	}
	return raw, kind, err
}

// runFollow prints a list's entries as they happen.
func runFollow(cmd *cobra.Command, args []string, asJSON bool) error {
	if len(args) == 0 {
		return usagef("--follow needs events or log: tapir show NIC events --follow")
	}
	name, kind, _, err := target(args)
	if err != nil {
		return err
	}
	if !ctl.Followed(kind) {
		return usagef("%s cannot be followed: choose events or log", kind)
	}
	c, err := dial(name, "its name: tapir show NIC "+kind+" --follow")
	if err != nil {
		return err
	}
	defer c.Close()
	out := cmd.OutOrStdout()
	return c.Follow(cmd.Context(), kind, 0, func(raw json.RawMessage) {
		if asJSON {
			fmt.Fprintf(out, "%s\n", raw)
			return
		}
		printLines(out, raw)
	})
}

// fetchAll gets a row for each running NIC.
func fetchAll(cmd *cobra.Command) (json.RawMessage, error) {
	names := ctl.List()
	if len(names) == 0 {
		_, err := ctl.Dial("")
		return nil, err
	}
	rows := make([]json.RawMessage, len(names))
	for i, name := range names {
		c, err := ctl.Dial(name)
		if err != nil {
			return nil, err
		}
		err = c.Show(cmd.Context(), ctl.Kinds[0], &rows[i])
		c.Close()
		if err != nil {
			return nil, err
		}
	}
	return json.Marshal(rows)
}

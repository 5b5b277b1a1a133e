package main

import (
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"tapir/lab/ctl"
)

func newShow() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show [NIC] [" + strings.Join(ctl.Kinds[1:], "|") + "]",
		Short: "Look inside running NICs",
		Long: "Show prints one line per running NIC, what one NIC is, or one of its tables:\n" +
			"the RDMA device with its port, limits and their use (device), queue pairs (qp), completion\n" +
			"queues (cq), memory regions (mr), connection endpoints (cep), counters and parameters\n" +
			"(params). The name may be left out if only one NIC runs.",
		Example: "  tapir show\n  tapir show nic0\n  tapir show nic0 qp\n  tapir show counters --json",
		Args:    atMost(2),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, part string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return ctl.Kinds, cobra.ShellCompDirectiveNoFileComp
			}
			return completeNIC(cmd, args, part)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
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
	return cmd
}

// columns are those that fit a screen, by kind; "" is the list of NICs. --json
// has them all.
var columns = map[string][]string{
	"":       {"name", "mac", "addrs", "mtu", "frames", "tap", "qps", "ceps", "drops", "pid"},
	"device": {"attribute", "value", "used", "limit", "ever"},
	"qp":     {"qp", "state", "iwarp_state", "local", "remote", "sends_pending", "recvs_pending", "crc", "tx_fpdus", "tx_bytes", "rx_fpdus", "rx_bytes"},
	"cep":    {"id", "state", "phase", "local", "remote", "qp", "mpa_revision", "crc", "markers", "ird", "ord", "rtr"},
}

// fetch gets what the arguments ask for, and tells which table it is.
func fetch(cmd *cobra.Command, args []string) (raw json.RawMessage, kind string, err error) {
	if len(args) == 0 {
		raw, err = fetchAll(cmd)
		return raw, "", err
	}
	name, kind := args[0], ctl.Kinds[0]
	switch {
	case len(args) == 2:
		kind = args[1]
	case ctl.KnownKind(name): // a kind alone: of the only NIC
		name, kind = "", name
	}
	if !ctl.KnownKind(kind) {
		return nil, "", usagef("there is no table %q: choose one of %s", kind, strings.Join(ctl.Kinds, ", "))
	}
	c, err := dial(name, "its name: tapir show NIC "+kind)
	if err != nil {
		return nil, "", err
	}
	defer c.Close()
	err = c.Show(cmd.Context(), kind, &raw)
	return raw, kind, err
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

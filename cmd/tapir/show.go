package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"tapir/lab/tool/cli"
	"tapir/lab/tool/complete"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/show"
	"tapir/lab/tool/usage"
)

func newShow() *cobra.Command {
	var asJSON, follow bool
	return cli.With(&cobra.Command{
		Use:   "show [NIC] [" + strings.Join(ctl.Kinds[1:], "|") + "] [ROW]",
		Short: "Show the state of running NICs",
		Long: "Show prints one line per running NIC, what one NIC is, or one of its tables:\n" +
			"the RDMA device with its port, limits and their use (device), queue pairs (qp), completion\n" +
			"queues (cq), memory regions (mr) and windows (mw), connection endpoints (cep), all RDMA objects with\n" +
			"the processes that made them (resource), programs and how they reach the NIC (clients),\n" +
			"stations of the link (neigh), status blocks with their vectors and interrupts (irq), how many objects\n" +
			"there are and have been (stats), counters, parameters (params), the latest events, and\n" +
			"the lines about the topics of the parameter dprint (log). With a number it prints all about\n" +
			"one queue pair, completion queue, region, window or connection, with a name one counter or\n" +
			"parameter. --follow prints events or log lines\n" +
			"as they happen. The name may be left out if only one NIC runs. Of the device there are the " +
			"port's link, its LLDP agents and neighbors (lldp), DCBX with its outcome (dcb),\n" +
			"the management firmware (mfw), the flash (nvm), what the firmware pulls from the driver (tlv), and\n" +
			"the light L2 connections of the driver core (ll2).\n\n" +
			"The Ethernet function behind a host TAP has its vport and a queue pair for each queue of the TAP " +
			"(queue).\n\n" +
			"An Omni-Path HFI has vport, mac, ethtool, counters and params; an Ethernet Manager what\n" +
			"tapir em show lists.",
		Example: "  tapir show\n  tapir show nic0\n  tapir show nic0 qp\n  tapir show nic0 cep 1\n" +
			"  tapir show nic0 counters rx_packets\n  tapir show " +
			"counters --json\n" +
			"  tapir show nic0 events --follow\n  tapir set nic0 dprint=cm,mpa && tapir show nic0 log --follow",
		Args:              cli.AtMost(3),
		ValidArgsFunction: complete.Show,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case follow:
				return runFollow(cmd, args, asJSON)
			case len(args) == 0:
				raw, err := show.FetchAll(cmd.Context())
				if err != nil {
					return err
				}
				return show.Print(cmd.OutOrStdout(), "", raw, asJSON)
			}
			t, err := show.ParseTarget(args)
			if err != nil {
				return err
			}
			return withNIC(t.Name, "its name: tapir show NIC "+t.Kind, func(c *ctl.Client) error {
				raw, err := t.Fetch(cmd.Context(), c)
				if err != nil {
					return err
				}
				return show.Print(cmd.OutOrStdout(), t.Kind, raw, asJSON)
			})
		},
	},
		cli.JSON(&asJSON),
		cli.F(&follow, "follow", "f", "print events or log lines as they happen, until Ctrl-C"),
	)
}

// runFollow prints a list's entries as they happen.
func runFollow(cmd *cobra.Command, args []string, asJSON bool) error {
	if len(args) == 0 {
		return usage.Errorf("--follow needs events or log: tapir show NIC events --follow")
	}
	t, err := show.ParseTarget(args)
	if err != nil {
		return err
	}
	if !ctl.Followed(t.Kind) {
		return usage.Errorf("%s cannot be followed: choose events or log", t.Kind)
	}
	return withNIC(t.Name, "its name: tapir show NIC "+t.Kind+" --follow", func(c *ctl.Client) error {
		out := cmd.OutOrStdout()
		return c.Follow(cmd.Context(), t.Kind, 0, func(raw json.RawMessage) {
			if asJSON {
				fmt.Fprintf(out, "%s\n", raw)
				return
			}
			show.Lines(out, raw)
		})
	})
}

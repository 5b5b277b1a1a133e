// Package vf are the subcommands about virtual functions (SR-IOV) of a running NIC, with
// the words of ip link.
package vf

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tapir/lab/tool/ctl"
	"tapir/lab/tool/usage"
	"tapir/nic/fastlinq"
)

// With runs do with a connection to the NIC of that name, or to the only one.
type With func(name, how string, do func(c *ctl.Client) error) error

// Command is the subcommand; complete lists NICs.
func Command(with With, complete cobra.CompletionFunc) *cobra.Command {
	root := &cobra.Command{
		Use: "vf VERB", Short: "Show and change virtual functions (SR-IOV) as ip link does",
		Long: "Vf is about the virtual functions of a NIC that has sriov in its file. Each is an Ethernet\n" +
			"function with a host TAP of its own, in any network namespace. Words and error numbers are\n" +
			"those of ip link and of the Linux driver.",
		Example: "  tapir vf numvfs nic0 4\n  tapir vf set nic0 vf 0 mac 02:00:00:00:00:05 vlan 100 qos 3\n" +
			"  tapir vf set nic0 vf 1 max_tx_rate 300 min_tx_rate 50\n  tapir vf show nic0 --json",
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage.Errorf("unknown verb %q: see: %s --help", args[0], cmd.CommandPath())
			}
			return nil
		},
	}
	var asJSON, details bool
	show := &cobra.Command{Use: "show [NIC]", Short: "Print the NIC's virtual functions as ip link show does",
		Args: cobra.MaximumNArgs(1), Example: "  tapir vf show nic0", ValidArgsFunction: complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			return with(strings.Join(args, ""), "its name: tapir vf show NIC", func(c *ctl.Client) error {
				return Show(cmd.Context(), cmd.OutOrStdout(), c, asJSON, details)
			})
		}}
	show.Flags().BoolVarP(&asJSON, "json", "j", false, "print what ip -d -j link show prints of a PF")
	show.Flags().BoolVarP(&details, "details", "d", false, "print what else the PF knows of each virtual function")
	root.AddCommand(show, newRSS(with, complete),
		change(with, complete, "numvfs NIC N", "Set the number of virtual functions; 0 removes them", numVFs,
			"  tapir vf numvfs nic0 4"),
		change(with, complete, "set NIC vf N SETTING VALUE...", "Change a virtual function: "+
			"mac, vlan [qos, proto], rate, max_tx_rate, min_tx_rate, spoofchk, query_rss, state or trust", setting,
			"  tapir vf set nic0 vf 0 vlan 100 qos 3\n  tapir vf set nic0 vf 2 spoofchk on trust on"),
		change(with, complete, "flr NIC vf N", "Reset a virtual function (function-level reset)", reset,
			"  tapir vf flr nic0 vf 0"))
	return root
}

// change is a subcommand that changes VFs: parse reads what follows the NIC.
func change(with With, complete cobra.CompletionFunc, use, short string,
	parse func([]string) (Change, error), example string) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Example: example, ValidArgsFunction: complete,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usage.Errorf("expected %s", use)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := parse(args[1:])
			if err != nil {
				return usage.Wrap(err)
			}
			return with(args[0], "its name: tapir vf "+use, func(client *ctl.Client) error {
				_, err := c.Apply(cmd.Context(), client)
				return err
			})
		}}
}

func numVFs(args []string) (Change, error) {
	n, err := strconv.Atoi(args[0])
	if err != nil || n < 0 || len(args) > 1 {
		return Change{}, fmt.Errorf("expected one number of virtual functions, not %s", strings.Join(args, " "))
	}
	return Change{NumVFs: &n}, nil
}

// number reads "vf N" and returns what follows.
func number(args []string) (n int, rest []string, err error) {
	if len(args) >= 2 && args[0] == "vf" {
		if n, err = strconv.Atoi(args[1]); err == nil && n >= 0 {
			return n, args[2:], nil
		}
	}
	return 0, nil, fmt.Errorf("expected vf and a number from 0, not %s", strings.Join(args, " "))
}

func setting(args []string) (c Change, err error) {
	n, words, err := number(args)
	if err != nil {
		return c, err
	}
	set, err := fastlinq.ParseVFSet(words)
	return Change{VF: n, Set: &set}, err
}

func reset(args []string) (c Change, err error) {
	n, rest, err := number(args)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("unexpected argument %q", rest[0])
	}
	return Change{VF: n, FLR: true}, err
}

// pf is what is shown of the NIC itself.
type pf struct {
	Name string `json:"name"`
	MAC  string `json:"mac"`
	MTU  int    `json:"mtu"`
}

// Show prints the VFs of a NIC.
func Show(ctx context.Context, w io.Writer, c *ctl.Client, asJSON, details bool) error {
	var of pf
	var rows []fastlinq.VFRow
	if err := cmp.Or(c.Show(ctx, "nic", &of), c.Show(ctx, "vf", &rows)); err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(w).Encode([]link{linkOf(of, rows)})
	}
	text := Text(of.Name, of.MAC, of.MTU, rows)
	if details {
		text += detailsOf(rows)
	}
	_, err := io.WriteString(w, text)
	return err
}

// detailsOf is what ip link does not know of VFs.
func detailsOf(rows []fastlinq.VFRow) string {
	var b strings.Builder
	for _, r := range rows {
		state := "down"
		if r.Up {
			state = "up"
		}
		fmt.Fprintf(&b, "    vf %d     absolute %d, %s, address %v, link %s, queues %d, ", r.VF, r.Absolute, r.Function,
			r.Address, state, r.Queues)
		fmt.Fprintf(&b, "messages %d, resets %d, spoofed %d", r.Messages, r.Resets, r.Spoofed)
		if r.Malicious != "" {
			fmt.Fprintf(&b, ", malicious: %s", r.Malicious)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Text is what ip link show prints of a PF.
func Text(name, mac string, mtu int, rows []fastlinq.VFRow) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: <BROADCAST,MULTICAST,UP> mtu %d\n    link/ether %s brd ff:ff:ff:ff:ff:ff\n", name, mtu, mac)
	for _, r := range rows {
		fmt.Fprintf(&b, "    vf %d     link/ether %v brd ff:ff:ff:ff:ff:ff", r.VF, r.MAC)
		add := func(on bool, format string, args ...any) {
			if on {
				fmt.Fprintf(&b, ", "+format, args...)
			}
		}
		add(r.VLAN > 0, "vlan %d", r.VLAN)
		add(r.VLAN > 0 && r.QoS > 0, "qos %d", r.QoS)
		add(r.MaxTxRate > 0, "tx rate %d (Mbps)", r.MaxTxRate)
		add(r.MaxTxRate > 0, "max_tx_rate %dMbps", r.MaxTxRate)
		add(r.MinTxRate > 0, "min_tx_rate %dMbps", r.MinTxRate)
		add(true, "spoof checking %s, link-state %s, trust %s, query_rss %s\n", word(r.SpoofChk), r.State,
			word(r.Trust), word(r.QueryRSS))
	}
	return b.String()
}

func word(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// link is what ip -d -j link show prints of a PF.
type link struct {
	Name      string `json:"ifname"`
	MTU       int    `json:"mtu"`
	LinkType  string `json:"link_type"`
	Address   string `json:"address"`
	Broadcast string `json:"broadcast"`
	VFs       []info `json:"vfinfo_list"`
}

// info is what it prints of a VF.
type info struct {
	VF        int    `json:"vf"`
	LinkType  string `json:"link_type"`
	Address   string `json:"address"`
	Broadcast string `json:"broadcast"`
	VLANs     []vlan `json:"vlan_list"`
	TxRate    int    `json:"tx_rate,omitempty"`
	Rate      rate   `json:"rate"`
	SpoofChk  bool   `json:"spoofchk"`
	State     string `json:"link_state"`
	Trust     bool   `json:"trust"`
	QueryRSS  bool   `json:"query_rss_en"`
}

type vlan struct {
	VLAN int `json:"vlan,omitempty"`
	QoS  int `json:"qos,omitempty"`
}

type rate struct {
	Max int `json:"max_tx"`
	Min int `json:"min_tx"`
}

const (
	ethernet  = "ether"
	broadcast = "ff:ff:ff:ff:ff:ff"
)

func linkOf(of pf, rows []fastlinq.VFRow) link {
	l := link{of.Name, of.MTU, ethernet, of.MAC, broadcast, []info{}}
	for _, r := range rows {
		v := vlan{r.VLAN, r.QoS}
		if r.VLAN == 0 {
			v.QoS = 0
		}
		l.VFs = append(l.VFs, info{r.VF, ethernet, r.MAC.String(), broadcast, []vlan{v}, r.MaxTxRate,
			rate{r.MaxTxRate, r.MinTxRate}, r.SpoofChk, r.State, r.Trust, r.QueryRSS})
	}
	return l
}

// Package dcb is the subcommand that shows and changes Data Center Bridging of a running NIC as
// dcb(8) of iproute2 does, with its words and in its format, and that command of a NIC's control
// server by which it does so. Both faces, the subcommand and dcb(8) under tapir run, send the
// kernel's messages to one engine (nic/uapi/dcbnl).
package dcb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"tapir/lab/tool/ctl"
	"tapir/lab/tool/ethtool"
	"tapir/lab/tool/usage"
	"tapir/nic/uapi/dcbnl"
)

// Format says how to print.
type Format struct {
	JSON, Pretty bool
	Numeric      bool // no names of DSCPs
	IEC          bool // rates in powers of 1024
	Statistics   bool
}

// object is one of dcb's: its verbs beside show.
type object struct {
	name  string
	short string
	show  func(c *dcbnl.Client, f Format) (items, error)
	verbs []string
	set   func(c *dcbnl.Client, verb string, words []string) error
}

var objects = []object{
	{"ets", "classes of priorities, shares and selection", showETS, []string{"set"}, setETS},
	{"pfc", "priority-based flow control", showPFC, []string{"set"}, setPFC},
	{"app", "priorities of applications", showApps, []string{"add", "del", "replace", "flush"}, changeApps},
	{"maxrate", "the most that classes send", showMaxRate, []string{"set"}, setMaxRate},
	{"dcbx", "who decides, and by which DCBX", showMode, []string{"set"}, setMode},
	{"buffer", "receive buffers of priorities", showBuffers, []string{"set"}, setBuffers},
}

// With runs do with a connection to the NIC of that name, or to the only one.
type With func(name, how string, do func(c *ctl.Client) error) error

// Command is the subcommand; complete lists NICs.
func Command(with With, complete cobra.CompletionFunc) *cobra.Command {
	var f Format
	long := "Dcb prints and changes what dcb(8) of iproute2 does of a netdev, with its words and in its format.\n" +
		"DEV is a NIC or its TAP, and may be left out with its dev if only one NIC runs. dcb(8) itself does the\n" +
		"same under tapir run. Without DCBX (dcbx set host) what is set acts at once; with it (dcbx set\n" +
		"lld-managed) it is administered, and show prints what the two ends have come to. Objects:\n"
	for _, o := range objects {
		long += fmt.Sprintf("\n  %-8s %s; show, %s", o.name, o.short, strings.Join(o.verbs, ", "))
	}
	cmd := &cobra.Command{
		Use:   "dcb [-j] [-p] OBJECT VERB [dev DEV] [WORD]...",
		Short: "Show and change Data Center Bridging as dcb(8) does",
		Long:  long,
		Example: "  tapir dcb ets show dev nic0\n" +
			"  tapir dcb ets set dev nic0 prio-tc all:0 3:1 tc-tsa 0:ets 1:ets tc-bw 0:30 1:70\n" +
			"  tapir dcb pfc set dev nic0 prio-pfc 3:on\n  tapir dcb app add dev nic0 dgram-port-prio 4791:3\n" +
			"  tapir dcb maxrate set dev nic0 tc-maxrate 1:100Mbit\n  tapir dcb dcbx set dev nic0 lld-managed ieee",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, part string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 && args[len(args)-1] == "dev" {
				return complete(cmd, nil, part)
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || args[len(args)-1] == "help" {
				return cmd.Help()
			}
			r, err := parse(args)
			if err != nil {
				return usage.Errorf("%w: see: %s --help", err, cmd.CommandPath())
			}
			return r.on(cmd.Context(), with, func(c *dcbnl.Client) error { return r.run(c, cmd.OutOrStdout(), f) })
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&f.JSON, "json", "j", false, "print JSON")
	flags.BoolVarP(&f.Pretty, "pretty", "p", false, "with --json: indent it")
	flags.BoolVarP(&f.Numeric, "Numeric", "N", false, "print DSCPs as numbers")
	flags.BoolVarP(&f.IEC, "iec", "i", false, "print rates in powers of 1024")
	flags.BoolVarP(&f.Statistics, "statistics", "s", false, "print counters too")
	return cmd
}

// request is a command line.
type request struct {
	of    *object
	verb  string // show, or one of the object's
	dev   string // empty: the only NIC
	words []string
}

// prefixed is the first of the words that begin with a part; empty: none.
func prefixed(part string, words ...string) string {
	for _, w := range words {
		if part != "" && strings.HasPrefix(w, part) {
			return w
		}
	}
	return ""
}

func parse(args []string) (r request, err error) {
	for i := range objects {
		if r.of == nil && strings.HasPrefix(objects[i].name, args[0]) {
			r.of = &objects[i]
		}
	}
	if r.of == nil {
		return r, fmt.Errorf("object %q is unknown", args[0])
	}
	r.verb = "show"
	if args = args[1:]; len(args) > 0 {
		if r.verb = prefixed(args[0], append([]string{"show"}, r.of.verbs...)...); r.verb == "" {
			return r, fmt.Errorf("%s: verb %q is unknown: use show, %s", r.of.name, args[0],
				strings.Join(r.of.verbs, ", "))
		}
		args = args[1:]
	}
	if len(args) > 0 && args[0] == "dev" {
		if len(args) == 1 {
			return r, errors.New("the name behind dev is missing")
		}
		r.dev, args = args[1], args[2:]
	}
	if r.words = args; len(args) == 0 && r.verb != "show" && r.verb != "flush" {
		return r, fmt.Errorf("%s %s: what to change is missing", r.of.name, r.verb)
	}
	return r, nil
}

// on runs do with the NIC.
func (r *request) on(ctx context.Context, with With, do func(*dcbnl.Client) error) error {
	if r.dev == "" {
		return with("", "its name: tapir dcb OBJECT VERB dev NIC", func(c *ctl.Client) error {
			return do(Client(ctx, c, ""))
		})
	}
	_, c, err := ethtool.Find(ctx, r.dev)
	if err != nil {
		return err
	}
	defer c.Close()
	return do(Client(ctx, c, r.dev))
}

// run does what the request says, and prints to w.
func (r *request) run(c *dcbnl.Client, w io.Writer, f Format) error {
	if r.verb != "show" {
		return r.of.set(c, r.verb, r.words)
	}
	all, err := r.of.show(c, f)
	if err != nil {
		return err
	}
	text, err := all.print(r.words, f)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, text)
	return err
}

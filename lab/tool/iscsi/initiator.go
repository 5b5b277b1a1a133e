package iscsi

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tapir/lab/tool/cli"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/disk"
	"tapir/lab/tool/usage"
)

// newInitiator is the subcommand of an initiator with its verbs.
func newInitiator(with With, complete cobra.CompletionFunc) *cobra.Command {
	root := &cobra.Command{
		Use: "initiator VERB", Short: "Use a target from a NIC",
		Long: "Initiator logs in to a target from a running NIC, does one thing and logs out. Write fills a\n" +
			"range with octets that follow from a seed, verify reads and compares them. An address with\n" +
			"iser:// in place of iscsi:// is reached by RDMA.",
		Example: "  tapir iscsi initiator discover nic1 iscsi://10.0.0.1\n" +
			"  tapir iscsi initiator write nic1 iscsi://10.0.0.1/iqn.2026-11.tapir:nic0/0 --digests",
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage.Errorf("unknown verb %q: see: %s --help", args[0], cmd.CommandPath())
			}
			return nil
		},
	}
	for _, v := range disk.Verbs {
		root.AddCommand(newVerb(with, complete, v.Verb, v.Short))
	}
	return root
}

// newVerb is the subcommand of one verb.
func newVerb(with With, complete cobra.CompletionFunc, verb disk.Verb, short string) *cobra.Command {
	k := Task{Op: InitiatorOp, Work: disk.DefaultWork(verb)}
	var nic string
	var asJSON bool
	cmd := &cobra.Command{
		Use: string(verb) + " [NIC] iscsi://ADDRESS[:PORT]/TARGET/LUN", Short: short,
		Example: "  tapir iscsi initiator " + string(verb) + " nic1 iscsi://10.0.0.1/iqn.2026-11.tapir:nic0/0",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return usage.Errorf("expected one address of a target: see: %s --help", cmd.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: complete,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			address := func(word string) bool { return len(args) == 1 || cli.IsURL(word) }
			if nic, args, err = cli.Target(args, nic, address); err != nil {
				return err
			}
			if k.Portal, k.Target, k.LUN, err = ParseURL(args[0]); err != nil {
				return usage.Wrap(err)
			}
			k.ISER = strings.HasPrefix(args[0], iserScheme)
			if err = k.validate(); err != nil {
				return usage.Wrap(err)
			}
			return with(nic, "its name: "+cmd.CommandPath()+" NIC", func(c *ctl.Client) error {
				var out disk.Outcome
				if err := c.Perf(cmd.Context(), k, nil, &out); err != nil {
					return err
				}
				return out.Print(cmd.OutOrStdout(), asJSON)
			})
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	cli.Old(cmd, cli.F(&nic, "nic", "", "`name` of the NIC to use"))
	f.BoolVar(&asJSON, "json", false, "print JSON")
	k.flags(f)
	k.Work.Flags(f)
	return cmd
}

// flags are those of a session.
func (k *Task) flags(f *pflag.FlagSet) {
	f.StringVar(&k.Name, "name", "", "`name` of the initiator (default iqn.2026-11.tapir: and the NIC's name)")
	f.Func("chap", "`file` with user and secret, and those of the target if it has to prove itself",
		func(v string) (err error) {
			k.CHAP, err = ReadCHAP(v)
			return err
		})
	f.BoolVar(&k.Digests, "digests", false, "header and data digests")
	if k.Verb != disk.Discover {
		f.Func("path", "`address` of another portal of the same disk: a second path; may be repeated",
			func(v string) error {
				portal, _, _, err := ParseURL("iscsi://" + v)
				k.Paths = append(k.Paths, portal)
				return err
			})
		f.BoolVar(&k.Offload, "offload", false, "hand the session to the NIC's iSCSI function after the login")
		f.BoolVar(&k.FromKernel, "from-kernel", false,
			"log in by a socket of the host, then move its connection to the NIC")
	}
}

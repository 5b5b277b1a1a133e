package nvme

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tapir/lab/conf/targetconf"
	"tapir/lab/tool/cli"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/disk"
	"tapir/lab/tool/usage"
	wire "tapir/wire/nvme"
)

// With runs do with a connection to the NIC of that name, or to the only one.
type With = disk.With

// Command is the subcommand; complete lists NICs.
func Command(with With, complete cobra.CompletionFunc) *cobra.Command {
	root := &cobra.Command{
		Use: "nvme VERB", Short: "Serve and use disks by NVMe over RDMA",
		Long: "Nvme runs an NVMe over RDMA target, or a host, inside a running NIC, over iWARP or RoCE as the\n" +
			"NIC has it.",
		Example: "  tapir nvme target nic0 --lun mem:64M\n  tapir nvme show nic0\n" +
			"  nvme connect -t rdma -a 10.0.0.1 -s 4420 -n nqn.2026-11.tapir:nic0",
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }, Args: disk.NoVerb,
	}
	root.AddCommand(newTarget(with, complete), show.Cobra(with, complete), newInitiator(with, complete))
	return root
}

// newTarget serves until it is interrupted.
func newTarget(with With, complete cobra.CompletionFunc) *cobra.Command {
	job := Job{Op: TargetOp, Port: wire.Port}
	cmd := &cobra.Command{
		Use: "target [NIC] --lun KIND:...", Short: "Serve LUNs until Ctrl-C",
		Long: "Target serves LUNs as the namespaces of one subsystem, numbered from 1. A LUN is mem:SIZE,\n" +
			"file:PATH for a file or block device, or sparse:PATH:SIZE for a file with holes, which it makes.\n" +
			"Options follow behind commas: ro, block=4096. The NIC opens the files, and closes them when\n" +
			"the command ends.",
		Example: "  tapir nvme target nic0 --lun mem:64M --lun sparse:disk.img:10G,block=4096\n" +
			"  tapir nvme target nic0 --nqn nqn.2026-11.tapir:disks --lun file:a.img,ro --host nqn.2026-11.tapir:nic1",
		Args: disk.OneNIC, ValidArgsFunction: complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(job.LUNs) == 0 {
				return usage.Errorf("--lun is missing: give a disk such as --lun mem:64M")
			}
			return with(strings.Join(args, ""), "its name: tapir nvme target NIC", func(c *ctl.Client) error {
				c.Begun = func() { announce(cmd.ErrOrStderr(), c.Hello.Name, &job) }
				err := c.Perf(cmd.Context(), job, nil, new(json.RawMessage))
				if errors.Is(err, context.Canceled) {
					return nil
				}
				return err
			})
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.Func("nqn", "`name` of the subsystem (default nqn.2026-11.tapir: and the NIC's name)", func(v string) error {
		if job.NQN = v; !wire.ValidNQN(v) {
			return errors.New(wire.NQNRule)
		}
		return nil
	})
	f.Func("lun", "a `disk`: mem:SIZE, file:PATH, sparse:PATH:SIZE; may be repeated", func(v string) error {
		l, err := targetconf.ParseLUN(v)
		job.LUNs = append(job.LUNs, l)
		return err
	})
	f.Func("host", "`name` of a host that may connect (default all); may be repeated", func(v string) error {
		if job.Hosts = append(job.Hosts, v); !wire.ValidNQN(v) {
			return errors.New(wire.NQNRule)
		}
		return nil
	})
	f.Uint16VarP(&job.Port, "port", "p", wire.Port, "port of the subsystem")
	f.Uint16Var(&job.FirstID, "first-id", 1,
		"`number` of the first controller: targets of one subsystem on several NICs have others")
	return cmd
}

// announce says that hosts may come.
func announce(w io.Writer, nic string, job *Job) {
	name := job.NQN
	if name == "" {
		name = defaultName + nic
	}
	fmt.Fprintf(w, "%s serves %s with %d LUNs on port %d; end with Ctrl-C\n", nic, name, len(job.LUNs), job.Port)
}

// show prints what targets do.
var show = disk.Show[report]{Area: "nvme", Short: "Print the subsystems of a NIC with controllers and counters",
	None: "no subsystem: start one with tapir nvme target", Command: showCommand, Write: write}

// write writes a report for people.
func write(w io.Writer, r *report) []disk.Counter {
	fmt.Fprintln(w, "SUBSYSTEM\tPORT\tNSID\tKIND\tSIZE\tBLOCK\tPATH")
	for i, l := range r.LUNs {
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\n", r.NQN, r.Port, i+1, l.Row())
	}
	if len(r.Controllers) > 0 {
		fmt.Fprintln(w, "\nHOST\tADDRESS\tCONTROLLER\tSUBSYSTEM\tQUEUES\tCOMMANDS\tKEEP-ALIVE")
	}
	for _, c := range r.Controllers {
		if c.NQN == wire.DiscoveryNQN {
			c.NQN = "(discovery)"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%d\t%d\t%v\n", c.Host, c.Remote, c.ID, c.NQN, c.Queues, c.Commands,
			time.Duration(c.KeepAlive)*time.Millisecond)
	}
	return r.Counters
}

// newInitiator is the subcommand of an initiator with its verbs.
func newInitiator(with With, complete cobra.CompletionFunc) *cobra.Command {
	root := &cobra.Command{
		Use: "initiator VERB", Short: "Use a subsystem from a NIC",
		Long: "Initiator connects to a subsystem from a running NIC, does one thing and disconnects. Write\n" +
			"fills a range with octets that follow from a seed, verify reads and compares them. A path that\n" +
			"is lost is tried again for 30 seconds; with --path there are others meanwhile.",
		Example: "  tapir nvme initiator discover nic1 nvme://10.0.0.1\n" +
			"  tapir nvme initiator write nic1 nvme://10.0.0.1/nqn.2026-11.tapir:nic0/1",
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }, Args: disk.NoVerb,
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
	var paths []string
	var asJSON bool
	cmd := &cobra.Command{
		Use: string(verb) + " [NIC] nvme://ADDRESS[:PORT]/NQN/NSID", Short: short,
		Example: "  tapir nvme initiator " + string(verb) + " nic1 nvme://10.0.0.1/nqn.2026-11.tapir:nic0/1",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return usage.Errorf("expected one address of a subsystem: see: %s --help", cmd.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: complete,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			address := func(word string) bool { return len(args) == 1 || cli.IsURL(word) }
			if nic, args, err = cli.Target(args, nic, address); err != nil {
				return err
			}
			if err = k.address(args[0], paths); err != nil {
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
	f.StringVar(&k.Name, "name", "", "`name` of the host (default nqn.2026-11.tapir: and the NIC's name)")
	f.DurationVar(&k.KeepAlive, "keep-alive", 5*time.Second, "how long either side may be silent; 0: for ever")
	if verb != disk.Discover {
		f.StringArrayVar(&paths, "path", nil, "another `address` of the subsystem, ADDRESS[:PORT]; may be repeated")
	}
	k.Work.Flags(f)
	return cmd
}

// address fills in where the disk is.
func (k *Task) address(url string, paths []string) error {
	first, nqn, nsid, err := ParseURL(url)
	if err != nil {
		return err
	}
	k.Portals, k.NQN, k.NSID = append(k.Portals, first), nqn, nsid
	for _, text := range paths {
		p, err := parsePortal(text)
		if err != nil {
			return fmt.Errorf("--path %w", err)
		}
		k.Portals = append(k.Portals, p)
	}
	return k.validate()
}

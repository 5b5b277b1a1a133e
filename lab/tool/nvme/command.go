package nvme

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"tapir/lab/conf/targetconf"
	"tapir/lab/tool/cli"
	"tapir/lab/tool/disk"
	wire "tapir/wire/nvme"
)

// With runs do with a connection to the NIC of that name, or to the only one.
type With = disk.With

// Command is the subcommand; complete lists NICs.
func Command(with With, complete cobra.CompletionFunc) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use: "nvme VERB", Short: "Serve and use disks by NVMe over RDMA",
		Long: "Nvme runs an NVMe over RDMA target, or a host, inside a running NIC, over iWARP or RoCE as the\n" +
			"NIC has it.",
		Example: "  tapir nvme target nic0 --lun mem:64M\n  tapir nvme show nic0\n" +
			"  nvme connect -t rdma -a 10.0.0.1 -s 4420 -n nqn.2026-11.tapir:nic0",
	}, "verb", newTarget(with, complete), show.Cobra(with, complete), initiator.Cobra(with, complete))
}

// newTarget serves until it is interrupted.
func newTarget(with With, complete cobra.CompletionFunc) *cobra.Command {
	job := Job{Op: TargetOp, Port: wire.Port}
	cmd := disk.Target(&cobra.Command{
		Long: "Target serves LUNs as the namespaces of one subsystem, numbered from 1. A LUN is mem:SIZE,\n" +
			"file:PATH for a file or block device, or sparse:PATH:SIZE for a file with holes, which it makes.\n" +
			"Options follow behind commas: ro, block=4096. The NIC opens the files, and closes them when\n" +
			"the command ends.",
		Example: "  tapir nvme target nic0 --lun mem:64M --lun sparse:disk.img:10G,block=4096\n" +
			"  tapir nvme target nic0 --nqn nqn.2026-11.tapir:disks --lun file:a.img,ro --host nqn.2026-11.tapir:nic1",
	}, with, complete, &job, func() error {
		if len(job.LUNs) == 0 {
			return errors.New(disk.NoLUN)
		}
		return nil
	}, job.announce)
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
func (j *Job) announce(w io.Writer, nic string) {
	name := j.NQN
	if name == "" {
		name = defaultName + nic
	}
	fmt.Fprintf(w, "%s serves %s with %d LUNs on port %d; end with Ctrl-C\n", nic, name, len(j.LUNs), j.Port)
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

// initiator uses the disks of a subsystem.
var initiator = disk.Initiator{Area: "nvme", Short: "Use a subsystem from a NIC",
	Long: "Initiator connects to a subsystem from a running NIC, does one thing and disconnects. Write\n" +
		"fills a range with octets that follow from a seed, verify reads and compares them. A path that\n" +
		"is lost is tried again for 30 seconds; with --path there are others meanwhile.",
	Example: "  tapir nvme initiator discover nic1 nvme://10.0.0.1\n" +
		"  tapir nvme initiator write nic1 nvme://10.0.0.1/nqn.2026-11.tapir:nic0/1",
	Address: "nvme://ADDRESS[:PORT]/NQN/NSID", Like: "nvme://10.0.0.1/nqn.2026-11.tapir:nic0/1",
	Task: func(cmd *cobra.Command, w disk.Work) disk.Task {
		k := &Task{Op: InitiatorOp, Work: w}
		f := cmd.Flags()
		f.StringVar(&k.Name, "name", "", "`name` of the host (default nqn.2026-11.tapir: and the NIC's name)")
		f.DurationVar(&k.KeepAlive, "keep-alive", 5*time.Second, "how long either side may be silent; 0: for ever")
		if w.Verb != disk.Discover {
			f.Func("path", "another `address` of the subsystem, ADDRESS[:PORT]; may be repeated", func(v string) error {
				p, err := parsePortal(v)
				k.Portals = append(k.Portals, p)
				return err
			})
		}
		k.Work.Flags(f)
		return k
	}}

// At implements disk.Task.
func (k *Task) At(url string) error {
	first, nqn, nsid, err := ParseURL(url)
	if err != nil {
		return err
	}
	k.Portals, k.NQN, k.NSID = slices.Insert(k.Portals, 0, first), nqn, nsid
	return k.validate()
}

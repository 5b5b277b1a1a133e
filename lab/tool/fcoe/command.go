package fcoe

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"tapir/lab/conf/targetconf"
	"tapir/lab/tool/cli"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/disk"
	"tapir/lab/tool/schema"
	"tapir/nic/fcoe"
	"tapir/wire/fc"
)

var (
	_ = schema.Add("fcoe", 1, disk.Outcome{})
	_ = schema.Add("fcoe show", 1, report{})
	_ = schema.Add("fcoe function", 1, functionReport{})
	_ = schema.Add("show fcoe", 1, []Row{})
)

// With runs do with a connection to the NIC of that name, or to the only one.
type With = disk.With

// Command is the subcommand; complete lists NICs.
func Command(with With, complete cobra.CompletionFunc) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use: "fcoe VERB", Short: "Serve and use disks by Fibre Channel over Ethernet",
		Long: "Fcoe makes a running NIC of personality fcoe an end node of a fabric, or with --vn2vn of a\n" +
			"segment without one: a target, or an initiator. It logs in when the command begins, and out\n" +
			"when it ends.",
		Example: "  tapir fcoe target nic0 --lun mem:64M\n  tapir fcoe show nic0\n" +
			"  tapir fcoe initiator write nic1 fcoe://any/0",
	}, "verb", newTarget(with, complete), newShow(with, complete), newFunction(with, complete),
		initiator.Cobra(with, complete))
}

// name reads a world-wide name.
func name(to *fc.WWN) func(string) error {
	return func(v string) (err error) {
		*to, err = fc.ParseWWN(v)
		return err
	}
}

// newTarget serves until it is interrupted.
func newTarget(with With, complete cobra.CompletionFunc) *cobra.Command {
	job := Job{Op: TargetOp, Ports: make([]Port, 1)}
	last := func() *Port { return &job.Ports[len(job.Ports)-1] }
	cmd := disk.Target(&cobra.Command{
		Long: "Target serves LUNs, numbered from 0. A LUN is mem:SIZE, file:PATH for a file or block device,\n" +
			"or sparse:PATH:SIZE for a file with holes, which it makes. Options follow behind commas: ro,\n" +
			"block=4096. A virtual port begins with --npiv; --lun and --host belong to the port before them.\n" +
			"The NIC opens the files, and closes them when the command ends.",
		Example: "  tapir fcoe target nic0 --vn2vn --lun mem:64M\n" +
			"  tapir fcoe target nic0 --lun sparse:disk.img:10G --npiv 20:01:00:00:00:00:00:07 --lun mem:1G \\\n" +
			"    --host 20:00:02:00:00:00:00:01",
	}, with, complete, &job, job.validate, func(w io.Writer, nic string) {
		luns := 0
		for _, p := range job.Ports {
			luns += len(p.LUNs)
		}
		fmt.Fprintf(w, "%s serves %d LUNs by %d ports; end with Ctrl-C\n", nic, luns, len(job.Ports))
	})
	return cli.InOrder(cmd,
		cli.F(&job.VN2VN, "vn2vn", "", "meet other end nodes without a fabric"),
		cli.F(func(v string) error { return name(&last().Name)(v) }, "wwpn", "",
			"world-wide `name` of the port (default 20:00 and the NIC's address)"),
		cli.F(func(v string) error {
			l, err := targetconf.ParseLUN(v)
			last().LUNs = append(last().LUNs, l)
			return err
		}, "lun", "", "a `disk`: mem:SIZE, file:PATH, sparse:PATH:SIZE; may be repeated"),
		cli.F(func(v string) error {
			w, err := fc.ParseWWN(v)
			last().Hosts = append(last().Hosts, w)
			return err
		}, "host", "", "world-wide `name` of an initiator that may log in (default all); may be repeated"),
		cli.F(func(v string) error {
			w, err := fc.ParseWWN(v)
			job.Ports = append(job.Ports, Port{Name: w})
			return err
		}, "npiv", "", "begin a virtual port with this world-wide `name`; may be repeated 64 times"))
}

// newShow prints what a node knows.
func newShow(with With, complete cobra.CompletionFunc) *cobra.Command {
	var asJSON, all bool
	return cli.InOrder(&cobra.Command{
		Use: "show [NIC]", Short: "Print the ports of a NIC with sessions, LUNs and counters",
		Example: "  tapir fcoe show nic0\n  tapir fcoe show nic0 --all\n  tapir fcoe show nic0 --json",
		Args:    cli.AtMost(1), ValidArgsFunction: complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			return with(cli.First(args), "its name: tapir fcoe show NIC", func(c *ctl.Client) error {
				var rep *report
				if err := c.Command(cmd.Context(), showCommand, struct{}{}, &rep); err != nil {
					return err
				}
				if asJSON {
					e := json.NewEncoder(cmd.OutOrStdout())
					e.SetIndent("", "  ")
					return e.Encode(rep)
				}
				return write(cmd.OutOrStdout(), rep, all)
			})
		},
	}, cli.JSON(&asJSON), cli.F(&all, "all", "", "print the counters that are 0, too"))
}

// write prints a report for people.
func write(out io.Writer, r *report, all bool) error {
	if r == nil {
		_, err := fmt.Fprintln(out, "no end node: start one with tapir fcoe target")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	if len(r.FCFs) > 0 {
		fmt.Fprintln(w, "FCF\tNAME\tFABRIC\tPRIORITY\tADVERTISES\tSTATE")
		for _, f := range r.FCFs {
			fmt.Fprintf(w, "%s\t%v\t%v\t%d\t%dms\t%s\n", f.MAC, f.Name, f.Fabric, f.Priority, f.PeriodMS, fcfState(&f))
		}
		fmt.Fprintln(w)
	}
	if len(r.VLANs) > 0 {
		fmt.Fprintf(w, "VLANs of FCoE: %v, used: %d\n\n", r.VLANs, r.VLAN)
	}
	fmt.Fprintln(w, "PORT\tID\tADDRESS\tSTATE\tLUNS\tREFUSED")
	for i, p := range r.Ports {
		luns, refused := 0, ""
		if i < len(r.Served) {
			luns = len(r.Served[i].LUNs)
		}
		if p.Refused != nil {
			refused = p.Refused.String()
		}
		fmt.Fprintf(w, "%v\t%s\t%s\t%s\t%d\t%s\n", p.Port, cmp.Or(p.ID, "-"), cmp.Or(p.MAC, "-"), p.State, luns,
			refused)
	}
	fmt.Fprintln(w, "\nPORT\tREMOTE\tID\tADDRESS\tSTATE\tROLE\tPAYLOAD\tCOMMANDS")
	for _, p := range r.Ports {
		for _, o := range p.Remotes {
			fmt.Fprintf(w, "%v\t%v\t%s\t%s\t%s\t%s\t%d\t%d\n", p.Port, o.Port, o.ID, o.MAC, o.State, role(&o),
				o.Payload, o.Commands)
		}
	}
	writeLUNs(w, r)
	fmt.Fprintln(w, "\nCOUNTER\tVALUE")
	for _, c := range r.Counters {
		if c.Value > 0 || all {
			fmt.Fprintf(w, "%s\t%d\n", c.Name, c.Value)
		}
	}
	return w.Flush()
}

// role says what a remote port is.
func role(r *fcoe.RemoteInfo) string {
	if r.Target {
		return "target"
	}
	return "initiator"
}

// fcfState says what an FCF is to the node.
func fcfState(f *fcoe.FCFInfo) string {
	switch {
	case f.Selected:
		return "selected"
	case f.Available:
		return "available"
	}
	return "not available"
}

// writeLUNs prints what is served.
func writeLUNs(w io.Writer, r *report) {
	if len(r.Served) == 0 {
		return
	}
	fmt.Fprintln(w, "\nPORT\tLUN\tKIND\tSIZE\tBLOCK\tPATH")
	for i, p := range r.Served {
		for k, l := range p.LUNs {
			kind := l.Kind
			if l.ReadOnly {
				kind += ",ro"
			}
			fmt.Fprintf(w, "%v\t%d\t%s\t%d\t%d\t%s\n", r.Ports[i].Port, k, kind, l.Size, l.Block, l.Path)
		}
	}
}

// initiator uses the disks of a fabric.
var initiator = disk.Initiator{Area: "fcoe", Short: "Use a disk from a NIC",
	Long: "Initiator logs in to the fabric and a target from a running NIC, does one thing and logs out.\n" +
		"Write fills a range with octets that follow from a seed, verify reads and compares them. It waits\n" +
		"up to 30 seconds for the target, also when a session ends; with --path it goes on by another port.",
	Example: "  tapir fcoe initiator discover nic1\n" +
		"  tapir fcoe initiator write nic1 fcoe://20:00:02:00:00:00:00:01/0 --length 16M",
	Address: "fcoe://WWPN/LUN", Like: "fcoe://20:00:02:00:00:00:00:01/0",
	Everywhere: "List the targets of a fabric or segment",
	Task: func(cmd *cobra.Command, w disk.Work) disk.Task {
		k := &Task{Op: InitiatorOp, Work: w}
		cli.With(cmd, cli.F(&k.VN2VN, "vn2vn", "", "meet other end nodes without a fabric"),
			cli.F(name(&k.Name), "wwpn", "", "world-wide `name` of the port (default 20:00 and the NIC's address)"),
			cli.F(name(&k.NPIV), "npiv", "", "do it from a virtual port with this world-wide `name`"))
		if w.Verb != disk.Discover {
			cli.With(cmd, cli.F(func(v string) error {
				w, err := fc.ParseWWN(v)
				k.Paths = append(k.Paths, w)
				return err
			}, "path", "", "world-wide `name` of another port of the same disk; may be repeated"))
		}
		k.Work.Flags(cmd.Flags())
		return k
	}}

// At implements disk.Task.
func (k *Task) At(url string) (err error) {
	if url != "" || k.Verb != disk.Discover {
		if k.Target, k.LUN, err = ParseURL(url); err != nil {
			return err
		}
	}
	return k.validate()
}

package iscsi

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"tapir/lab/conf/targetconf"
	"tapir/lab/tool/cli"
	"tapir/lab/tool/disk"
	"tapir/wire/iscsi"
)

// With runs do with a connection to the NIC of that name, or to the only one.
type With = disk.With

// Command is the subcommand; complete lists NICs.
func Command(with With, complete cobra.CompletionFunc) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use: "iscsi VERB", Short: "Serve and use disks by iSCSI on a NIC's own TCP",
		Long: "Iscsi runs an iSCSI target, or an initiator, inside a running NIC. Initiators reach it by the NIC's\n" +
			"addresses: those of the host through the TAP, other NICs through the wire.",
		Example: "  tapir iscsi target nic0 --lun mem:64M\n  tapir iscsi show nic0\n" +
			"  iscsi-inq iscsi://10.0.0.1/iqn.2026-11.tapir:nic0/0",
	}, "verb", newTarget(with, complete), show.Cobra(with, complete), initiator.Cobra(with, complete),
		newFunction(with, complete))
}

// newTarget serves until it is interrupted.
func newTarget(with With, complete cobra.CompletionFunc) *cobra.Command {
	job := Job{Op: Op, Port: iscsi.Port}
	last := func() *Node {
		if len(job.Targets) == 0 {
			job.Targets = append(job.Targets, Node{})
		}
		return &job.Targets[len(job.Targets)-1]
	}
	cmd := disk.Target(&cobra.Command{
		Long: "Target serves LUNs, numbered from 0. A LUN is mem:SIZE, file:PATH for a file or block device,\n" +
			"or sparse:PATH:SIZE for a file with holes, which it makes. Options follow behind commas: ro,\n" +
			"block=4096. Further targets begin with another --target; --lun, --initiator and --chap belong\n" +
			"to the target before them. The NIC opens the files, and closes them when the command ends.",
		Example: "  tapir iscsi target nic0 --lun mem:64M --lun sparse:disk.img:10G,block=4096\n" +
			"  tapir iscsi target nic0 --target iqn.2026-11.tapir:a --lun file:a.img,ro --chap a.chap\n" +
			"  tapir iscsi target --target iqn.2026-11.tapir:a --lun mem:1G --target iqn.2026-11.tapir:b --lun mem:1G",
	}, with, complete, &job, func() error {
		if len(last().LUNs) == 0 {
			return errors.New(disk.NoLUN)
		}
		return nil
	}, job.announce)
	f := cmd.Flags()
	f.SortFlags = false
	f.Func("target", "`name` of a target (default iqn.2026-11.tapir: and the NIC's name)", func(v string) error {
		if !iscsi.ValidName(v) {
			return errors.New(iscsi.NameRule)
		}
		job.Targets = append(job.Targets, Node{Name: v})
		return nil
	})
	f.Func("lun", "a `disk`: mem:SIZE, file:PATH, sparse:PATH:SIZE; may be repeated", func(v string) error {
		l, err := targetconf.ParseLUN(v)
		last().LUNs = append(last().LUNs, l)
		return err
	})
	f.Func("initiator", "`name` of an initiator that may log in (default all); may be repeated", func(v string) error {
		last().Initiators = append(last().Initiators, v)
		return nil
	})
	f.Func("chap", "`file` with user and secret of initiators, and of the target if it proves itself too",
		func(v string) (err error) {
			last().CHAP, err = ReadCHAP(v)
			return err
		})
	f.BoolVar(&job.Offload, "offload", false, "hand sessions to the NIC's iSCSI function after the login")
	f.BoolVar(&job.ISER, "iser", false, "serve by RDMA (iSER), not by TCP")
	f.Uint16VarP(&job.Port, "port", "p", iscsi.Port, "port of the portal")
	return cmd
}

// announce says that initiators may come.
func (j *Job) announce(w io.Writer, nic string) {
	for _, t := range j.Targets {
		name := t.Name
		if name == "" {
			name = defaultName + nic
		}
		fmt.Fprintf(w, "%s serves %s with %d LUNs on %s port %d; end with Ctrl-C\n", nic, name, len(t.LUNs),
			transport(j.ISER), j.Port)
	}
}

// transport names what sessions go by.
func transport(iser bool) string {
	if iser {
		return "iSER"
	}
	return "TCP"
}

// show prints what targets do.
var show = disk.Show[report]{Area: "iscsi", Short: "Print the targets of a NIC with sessions and counters",
	None: "no target: start one with tapir iscsi target", Command: showCommand, Write: write}

// write writes a report for people.
func write(w io.Writer, r *report) []disk.Counter {
	fmt.Fprintln(w, "TARGET\tTRANSPORT\tPORT\tLUN\tKIND\tSIZE\tBLOCK\tPATH")
	for _, t := range r.Targets {
		for i, l := range t.LUNs {
			fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\n", t.Name, transport(r.ISER), r.Port, i, l.Row())
		}
	}
	if len(r.Sessions) > 0 {
		fmt.Fprintln(w, "\nINITIATOR\tADDRESS\tTSIH\tTARGET\tTASKS\tDIGESTS")
	}
	for _, s := range r.Sessions {
		digests := []string{}
		if s.HeaderDigest {
			digests = append(digests, "header")
		}
		if s.DataDigest {
			digests = append(digests, "data")
		}
		if s.Target == "" {
			s.Target = "(discovery)"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%d\t%s\n", s.Initiator, s.Remote, s.TSIH, s.Target, s.Tasks,
			strings.Join(digests, ","))
	}
	return r.Counters
}

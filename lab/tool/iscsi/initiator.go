package iscsi

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tapir/lab/tool/disk"
)

// initiator uses the disks of a target.
var initiator = disk.Initiator{Area: "iscsi", Short: "Use a target from a NIC",
	Long: "Initiator logs in to a target from a running NIC, does one thing and logs out. Write fills a\n" +
		"range with octets that follow from a seed, verify reads and compares them. An address with\n" +
		"iser:// in place of iscsi:// is reached by RDMA.",
	Example: "  tapir iscsi initiator discover nic1 iscsi://10.0.0.1\n" +
		"  tapir iscsi initiator write nic1 iscsi://10.0.0.1/iqn.2026-11.tapir:nic0/0 --digests",
	Address: "iscsi://ADDRESS[:PORT]/TARGET/LUN", Like: "iscsi://10.0.0.1/iqn.2026-11.tapir:nic0/0",
	Task: func(cmd *cobra.Command, w disk.Work) disk.Task {
		k := &Task{Op: InitiatorOp, Work: w}
		k.flags(cmd.Flags())
		k.Work.Flags(cmd.Flags())
		return k
	}}

// At implements disk.Task.
func (k *Task) At(url string) (err error) {
	if k.Portal, k.Target, k.LUN, err = ParseURL(url); err != nil {
		return err
	}
	k.ISER = strings.HasPrefix(url, iserScheme)
	return k.validate()
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

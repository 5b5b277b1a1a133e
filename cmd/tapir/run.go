package main

import (
	"cmp"
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"tapir/lab/tool/uapi"
	"tapir/lab/tool/usage"
	"tapir/nic/uapi/trap"
)

func newRun() *cobra.Command {
	var o uapi.Options
	via, gid := "auto", "mac"
	cmd := inOrder(&cobra.Command{
		Use:   "run [--nic NAME[,NAME]] [--] PROGRAM [ARGUMENT]...",
		Short: "Run an unmodified program on running NICs",
		Long: "Run starts a program of the distribution, as it is, for which the NICs' hardware is the\n" +
			"machine's own. It needs no root, module or C compiler, serves static programs and\n" +
			"everything that the program starts, and ends when the last of these has ended, with the\n" +
			"program's exit code.\n\n" +
			"RDMA programs over libibverbs, librdmacm and libibumad, such as rping, ib_write_bw -R or\n" +
			"fi_pingpong, find the NICs as rxe0, rxe1... in the order of --nic, which must be NICs of one\n" +
			"process.\n\n" +
			"For PTP programs, such as ptp4l, phc2sys or chronyd, the NICs' hardware clocks are /dev/ptp0,\n" +
			"/dev/ptp1... and their TAPs have hardware time stamps: the host TAP of a NIC that has one,\n" +
			"else its TAP. The program cannot set the machine's clock, whatever its rights, unless\n" +
			"--system-clock is given.",
		Example: "  tapir run -- ibv_devinfo -v\n" +
			"  tapir run --nic nic0 -- rping -s -v\n" +
			"  tapir run --nic nic1 -- rping -c -v -a 10.0.0.1 -C 3\n" +
			"  tapir run --nic nic1 -- ib_write_bw -R -F 10.0.0.1\n" +
			"  tapir run -- ptp4l -H -i tap0 -m\n" +
			"  tapir run --nic nic0 -- phc_ctl /dev/ptp0 get\n" +
			"  tapir run --netdev veth0 -- ptp4l -H -i veth0 -s -m\n" +
			"  tapir run --pps -- ts2phc -c /dev/ptp0 -s generic -m\n" +
			"  tapir run --via preload -- rping -s -v",
		Args: atLeast(1, "the program is missing: see: tapir run --help"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Argv = args
			return runProgram(cmd, o, via, gid)
		},
	},
		flag{&o.NICs, "nic", "", "`names` of running NICs (default the only one)"},
		flag{&o.Netdevs, "netdev", "", "also show the clock at this netdev, `[NIC=]NAME`, with stamps of " +
			"the kernel translated to it; may be repeated"},
		flag{&gid, "gid", "",
			"`style` of the RDMA ports' GIDs: mac, one of the MAC address, or ip, one for each IP address"},
		flag{&o.PPS, "pps", "",
			"give the clocks an external time stamp input, with a pulse at each second of the system's clock"},
		flag{&o.KeepSystemClock, "system-clock", "", "let the program set the machine's clock if it has the right"},
		flag{&o.ProcMem, "proc-mem", "",
			"read the arguments of system calls by /proc/PID/mem alone, " +
				"as is done anyway where process_vm_readv(2) is forbidden"},
		flag{&o.KillAfterPosts, "kill-after-posts", "", "kill the RDMA program right after its `n`th post to a send " +
			"queue, to test how its peer reacts"},
		flag{&via, "via", "",
			"`how` the program reaches the NIC: auto, by system calls that a filter of the kernel traps, while\n" +
				"a dynamic program posts to RDMA queues without any; trap, by system calls alone; or preload\n" +
				"where the kernel or another supervisor refuses the filter: dynamic programs alone, by a library\n" +
				"that a C compiler makes once"},
	)
	cmd.Flags().SetInterspersed(false)
	return cmd
}

// vias are the values of --via.
var vias = map[string]uapi.Options{"auto": {}, "trap": {NoDoorbells: true}, "preload": {Via: trap.Preload}}

func runProgram(cmd *cobra.Command, o uapi.Options, via, gid string) error {
	how, ok := vias[via]
	if !ok {
		return usage.Errorf("--via %q: want auto, trap or preload", via)
	}
	o.Via, o.NoDoorbells, o.Path = how.Via, how.NoDoorbells, via
	if o.KillAfterPosts < 0 {
		return usage.Errorf("--kill-after-posts %d: want 1 or more", o.KillAfterPosts)
	}
	var err error
	if o.GID, err = uapi.ParseGIDStyle(gid); err != nil {
		return usage.Wrap(err)
	}
	if err := oneOf(strings.Join(o.NICs, ","), "--nic NAME"); err != nil {
		return err
	}
	o.Log, o.Stdin, o.Stdout, o.Stderr = cmd.ErrOrStderr(), os.Stdin, os.Stdout, os.Stderr
	code, err := uapi.Run(cmd.Context(), o)
	if missing := (*trap.NotFoundError)(nil); errors.As(err, &missing) {
		return usage.Unexecutable(missing)
	}
	return cmp.Or(err, usage.Exit(code))
}

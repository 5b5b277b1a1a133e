package main

import (
	"cmp"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tapir/lab/tool/cli"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/uapi"
	"tapir/lab/tool/usage"
	"tapir/nic/uapi/trap"
)

func newRun() *cobra.Command {
	var o uapi.Options
	via, gid := "auto", "mac"
	cmd := cli.InOrder(&cobra.Command{
		Use:   "run [NIC[,NIC]... --] PROGRAM [ARGUMENT]...",
		Short: "Run an unmodified program on running NICs",
		Long: "Run starts a program of the distribution, as it is, for which the NICs' hardware is the\n" +
			"machine's own. It needs no root, module or C compiler, serves static programs and\n" +
			"everything that the program starts, and ends when the last of these has ended, with the\n" +
			"program's exit code.\n\n" +
			"RDMA programs over libibverbs, librdmacm and libibumad, such as rping, ib_write_bw -R or\n" +
			"fi_pingpong, find the NICs as rxe0, rxe1... as they are named here, which must be NICs of one\n" +
			"process.\n\n" +
			"For PTP programs, such as ptp4l, phc2sys or chronyd, the NICs' hardware clocks are /dev/ptp0,\n" +
			"/dev/ptp1... and their TAPs have hardware time stamps: the host TAP of a NIC that has one,\n" +
			"else its TAP. The program cannot set the machine's clock, whatever its rights, unless\n" +
			"--system-clock is given.",
		Example: "  tapir run -- ibv_devinfo -v\n" +
			"  tapir run nic0 -- rping -s -v\n" +
			"  tapir run nic1 -- rping -c -v -a 10.0.0.1 -C 3\n" +
			"  tapir run nic1 -- ib_write_bw -R -F 10.0.0.1\n" +
			"  tapir run -- ptp4l -H -i tap0 -m\n" +
			"  tapir run nic0 -- phc_ctl /dev/ptp0 get\n" +
			"  tapir run --netdev veth0 -- ptp4l -H -i veth0 -s -m\n" +
			"  tapir run --pps -- ts2phc -c /dev/ptp0 -s generic -m\n" +
			"  tapir run --via preload -- rping -s -v",
		Args: cli.AtLeast(1, "the program is missing: see: tapir run --help"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return ctl.List(), cobra.ShellCompDirectiveDefault // programs, too
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			args, err := runOn(cmd, args, &o.NICs)
			if err != nil {
				return err
			}
			o.Argv = args
			return runProgram(cmd, o, via, gid)
		},
	},
		cli.F(&o.Netdevs, "netdev", "", "also show the clock at this netdev, `[NIC=]NAME`, with stamps of "+
			"the kernel translated to it; may be repeated"),
		cli.F(&gid, "gid", "",
			"`style` of the RDMA ports' GIDs: mac, one of the MAC address, or ip, one for each IP address"),
		cli.F(&o.PPS, "pps", "",
			"give the clocks an external time stamp input, with a pulse at each second of the system's clock"),
		cli.F(&o.KeepSystemClock, "system-clock", "", "let the program set the machine's clock if it has the right"),
		cli.F(&o.ProcMem, "proc-mem", "",
			"read the arguments of system calls by /proc/PID/mem alone, as where process_vm_readv(2) is forbidden"),
		cli.F(&o.KillAfterPosts, "kill-after-posts", "", "kill the RDMA program right after its `n`th post to a send "+
			"queue, to test how its peer reacts"),
		cli.F(&via, "via", "",
			"`how` the program reaches the NIC: auto, by system calls that a filter of the kernel traps, while\n"+
				"a dynamic program posts to RDMA queues without any; trap, by system calls alone; or preload\n"+
				"where the kernel or another supervisor refuses the filter: dynamic programs alone, by a library\n"+
				"that a C compiler makes once"),
	)
	cmd.Flags().SetInterspersed(false)
	return cli.Old(cmd, cli.F(&o.NICs, "nic", "", "`names` of running NICs"))
}

// runOn takes the names of NICs and the flags behind them from args, which go on with the program.
func runOn(cmd *cobra.Command, args []string, nics *[]string) ([]string, error) {
	end := slices.Index(args, "--") // pflag leaves it behind other arguments
	if end < 1 {
		return args, nil
	}
	names := strings.Split(args[0], ",")
	if end > 1 && !in(ctl.List())(names[0]) { // it is a program, with arguments
		return args, nil
	}
	*nics = names
	if err := cmd.Flags().Parse(args[1:end]); err != nil {
		return nil, usage.Errorf("%w: see: %s --help", err, cmd.CommandPath())
	}
	if end+1 == len(args) {
		return nil, usage.Errorf("the program is missing: see: tapir run --help")
	}
	return args[end+1:], nil
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
	if err := oneOf(strings.Join(o.NICs, ","), "its name: tapir run NIC -- PROGRAM"); err != nil {
		return err
	}
	o.Log, o.Stdin, o.Stdout, o.Stderr = cmd.ErrOrStderr(), os.Stdin, os.Stdout, os.Stderr
	code, err := uapi.Run(cmd.Context(), o)
	if missing := (*trap.NotFoundError)(nil); errors.As(err, &missing) {
		return usage.Unexecutable(missing)
	}
	return cmp.Or(err, usage.Exit(code))
}

package main

import (
	"github.com/spf13/cobra"

	"tapir/lab/conf/hficonf"
	"tapir/lab/node"
	"tapir/lab/tool/cli"
	"tapir/lab/tool/params"
	"tapir/lab/tool/serve"
)

func newVNIC() *cobra.Command {
	var cfg hficonf.Config
	var file string
	var ofVNICs []func() error // settings of every VNIC, once all are known
	set := cfg.Set             // the names are those of an hfi.yaml with dashes
	setVNICs := func(name, value string) error {
		ofVNICs = append(ofVNICs, func() error { return cfg.SetVNICs(name, value) })
		return nil
	}
	finish := func() (hficonf.Config, error) {
		cfg.Managed = cfg.Managed || cfg.LID == 0
		err := node.InOrder(append(ofVNICs, func() error { return cfg.Validate() })...)
		return cfg, err
	}
	cmd := cli.InOrder(&cobra.Command{
		Use:   "vnic --fabric-tap NAME --guid GUID [--lid LID] --vesw ID:TAP",
		Short: "Run Omni-Path HFIs with virtual NICs in the foreground",
		Long: "Vnic runs an Omni-Path HFI on a fabric TAP, with one virtual NIC per --vesw: a host TAP\n" +
			"whose Ethernet frames cross the fabric in 16B packets. With -c it runs all HFIs of a file.\n" +
			"It prints one \"ready\" line for each; Ctrl-C removes what it made.\n\n" +
			"With --lid the VNICs are as given here and need no manager. Without it, or with --managed,\n" +
			"LID, P_Keys and VNICs come from `tapir em`; --vesw then only names host TAPs.",
		Example: "  tapir vnic --fabric-tap fab0 --guid 0x0011750101000001 --lid 1 --vesw 2:opa-vesw2\n" +
			"  tapir vnic --fabric-tap fab1 --guid 0x0011750101000002\n  tapir vnic -c hfi.yaml",
		Args: cli.AtMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return foreground(cmd, file, hficonf.Load, finish, serve.HFIs)
		},
	},
		cli.F(&file, "config", "c", "run the HFIs of a YAML `file`; excludes all other flags"),
		cli.F(set, "name", "", "`name` of the HFI (default hfi0)"),
		cli.F(set, "fabric-tap", "", "fabric TAP, made if it does not exist: an interface `name` such as fab0"),
		cli.F(set, "fabric-tap-fd", "", "a ready TAP as open file descriptor `number` instead of --fabric-tap"),
		cli.F(set, "wire", "", "instead of a fabric TAP: `KIND:...` such as shm:/run/cable0 (docs/howto/wires.md)"),
		cli.F(set, "guid", "", "`GUID` of the port, such as 0x0011750101000001"),
		cli.F(set, "lid", "", "`LID` of the port, for a fabric without managers"),
		cli.F(set, "framing", "", "`mode` of packets on the TAP: nsh, 88b5 or geneve (default nsh)"),
		cli.F(set, "icrc", "", "`mode` of the invariant CRC: v1, none or bad (default v1)"),
		cli.F(set, "fabric-mtu", "", "`octets` of payload of a packet: 2048, 4096, 8192 or 10240 (default 10240)"),
		cli.F(set, "pkeys", "", "`P_Keys` of the port, with commas (default those of the VNICs)"),
		cli.F(set, "bridge", "", "`name` of a bridge that the fabric TAP joins, made if it does not exist"),
		cli.F(set, "netns", "", "network `namespace` of the host TAPs: a name of ip netns, or a path"),
		cli.F(set, "netdev", "", "`name` of host TAPs, %d is the vESW id (default opa-vesw%d)"),
		cli.F(set, "queues", "",
			"`number` of queues of each host TAP, over which flows are spread, 1 to 8 (default 1)"),
		cli.F(&cfg.Managed, "managed", "", "LID, P_Keys and VNICs come from tapir em (default without --lid)"),
		cli.F(cfg.AddVESW, "vesw", "", "a VNIC in the vESW of that `ID[:TAP]`; may be repeated"),
		cli.F(setVNICs, "pkey", "", "`P_Key` of the VNICs (default 0x8001)"),
		cli.F(setVNICs, "mtu", "", "`octets` of Ethernet payload (default 1500)"),
		cli.F(setVNICs, "fabric", "", "`id` of the fabric (default 1)"),
		cli.F(setVNICs, "default-ports", "", "`LIDs` for unknown unicast, with commas"),
		cli.F(setVNICs, "ip", "", "`address` of the host TAP, such as 10.0.0.1/24; may be repeated"),
	)
	params.Add(cmd, cfg.Clock.Params(), set)
	return cmd
}

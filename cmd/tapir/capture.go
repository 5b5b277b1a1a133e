package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"tapir/lab/tool/capture"
	"tapir/lab/tool/cli"
	"tapir/lab/tool/complete"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/files"
	"tapir/lab/tool/mirror"
	"tapir/lab/tool/usage"
	"tapir/nic/msglog"
)

// maxBufferMiB keeps a typing error from taking the machine's memory.
const maxBufferMiB = 4096

func newCapture() *cobra.Command {
	var opt ctl.CaptureOptions
	var file, as, topics, mirrorTo string
	bufferMiB := capture.DefaultBuffer >> 20
	return cli.Old(cli.With(&cobra.Command{
		Use:   "capture [NIC] -w FILE",
		Short: "Capture a NIC's frames as pcapng",
		Long: "Capture writes what passes the NIC's wire port, as pcapng with the system's time in\n" +
			"nanoseconds, direction, packet id, and comments: queue pair and work request of\n" +
			"each FPDU, and the reason of each drop. It ends at Ctrl-C, after -n packets, or with\n" +
			"the NIC, always with a complete file.\n\n" +
			"A super-frame of gso and jumbo is written as the segments that it stands for; --raw\n" +
			"keeps it whole, and costs least. With --bulk, where more than 8 FPDUs of one message\n" +
			"follow each other in it, only their headers and the beginning of their data are kept.\n" +
			"Of a segment that is cut, the TCP checksum is partial, as a sender leaves it to its device. While the\n" +
			"capture runs, FILE has such segments in blocks that readers skip; at its end it is rewritten.\n\n" +
			"Connections that live already are preceded by their saved TCP and MPA handshakes,\n" +
			"commented \"replayed for dissection\", so that Wireshark decodes what follows.\n\n" +
			"--phc adds an interface for the NIC's hardware clock: the same frames, by packet id, with\n" +
			"the stamps that PTP gets, so that Wireshark's PTP analysis works in the clock's time.\n\n" +
			"--log adds what the NIC says about topics of its log, as entries of a systemd journal between\n" +
			"the frames: wr for work requests and completions, cm for connections, eh for errors, and the\n" +
			"others of the parameter dprint.\n\n" +
			"Of an Omni-Path fabric, --as writes the packets in another form, and nothing else:\n\n" + formHelp,
		Example: "  tapir capture nic0 -w f.pcapng\n" +
			"  tapir capture nic0 -w f.pcapng --bulk 64   # bulk data is cut\n" +
			"  tapir capture nic0 -w f.pcapng --raw -s 256\n" +
			"  tapir capture nic0 -w - | wireshark -k -i -\n" +
			"  tapir capture nic0 -w f.pcapng --phc\n" +
			"  tapir capture nic0 -w f.pcapng --log wr,cm\n" +
			"  tapir capture nic0 -w - -n 10 | tshark -r -\n" +
			"  tapir capture nic0 --tap mon0 & tcpdump -i mon0",
		Args:              cli.AtMost(1),
		ValidArgsFunction: complete.NIC,
		RunE: func(cmd *cobra.Command, args []string) error {
			if opt.SnapLen < 0 {
				return usage.Errorf("--snaplen %d: give a number of octets, 0 for all", opt.SnapLen)
			}
			if topics != "" {
				var err error
				if opt.Log, err = msglog.ParseTopics(topics); err != nil {
					return usage.Errorf("--log: %w", err)
				}
			}
			if opt.Bulk < 0 {
				return usage.Errorf("--bulk %d: give a number of octets, 0 for all", opt.Bulk)
			}
			if bufferMiB < 1 || bufferMiB > maxBufferMiB {
				return usage.Errorf("--buffer %d: give 1 to %d MiB", bufferMiB, maxBufferMiB)
			}
			opt.Buffer = bufferMiB << 20
			if mirrorTo != "" {
				if file != "" || as != "" || opt.SnapLen != 0 || opt.PHC || opt.Log != 0 {
					return usage.Errorf("--tap excludes --write, --as, --snaplen, --phc and --log")
				}
				return withNIC(cli.First(args), "its name: tapir capture NIC --tap "+mirrorTo,
					func(c *ctl.Client) error {
						return mirror.Run(cmd.Context(), c, mirrorTo, opt, cmd.ErrOrStderr())
					})
			}
			return runCapture(cmd, cli.First(args), file, as, opt)
		},
	},
		cli.F(&file, "write", "w", "`file` to write, - for standard output (required)"),
		cli.F(&mirrorTo, "tap", "", "instead of a file: write whole frames into this TAP, made if it does not exist, "+
			"for stock tcpdump where the wire has no interface"),
		cli.F(&as, "as", "", "`form` for packets of a fabric: erf, user0 or inner"),
		cli.F(&opt.SnapLen, "snaplen", "s", "octets to keep of each frame, 0 for all"),
		cli.F(&opt.Bulk, "bulk", "", "`octets` to keep of each payload amid a long message, default all"),
		cli.F(&bufferMiB, "buffer", "B", "`MiB` that may wait for the writer before frames are lost"),
		cli.F(&opt.Count, "count", "n", "end after this number of packets; 0: never"),
		cli.F(&opt.NoContext, "no-context", "", "leave out the saved handshakes of live connections"),
		cli.F(&opt.Raw, "raw", "", "keep super-frames whole and partial checksums as they are"),
		cli.F(&opt.PHC, "phc", "",
			"write each frame once more, with the stamp of the NIC's hardware clock, as interface NIC/phc"),
		cli.F(&topics, "log", "", "write what the NIC says about `topics` between the frames: wr, cm, eh ..."),
		cli.F(&opt.Host, "host", "", "capture the host TAP too"),
	), cli.F(&opt.Count, "c", "c", "--count"))
}

func runCapture(cmd *cobra.Command, name, file, as string, opt ctl.CaptureOptions) error {
	form, formErr := capture.ParseForm(as)
	switch {
	case as != "" && formErr != nil:
		return usage.Errorf("--as: %w", formErr)
	case as != "" && opt.SnapLen != 0:
		return usage.Errorf("--as needs whole packets: leave out --snaplen")
	case file == "":
		return usage.Errorf("no output file: use -w FILE, or -w - for a pipe")
	case file == "-" && files.Terminal(cmd.OutOrStdout()):
		return usage.Errorf("standard output is a terminal: pipe it, as in: tapir capture -w - | wireshark -k -i -")
	}
	return withNIC(name, "its name: tapir capture NIC -w "+file, func(c *ctl.Client) error {
		begun := false
		opt.Begun = func() {
			if begun = true; file != "-" {
				fmt.Fprintf(cmd.ErrOrStderr(), "capturing %s into %s; end with Ctrl-C\n", c.Hello.Name, file)
			}
		}
		return files.Write(file, cmd.OutOrStdout(), "capture", func(w io.Writer) error {
			if as != "" {
				st, err := c.Export(cmd.Context(), opt, w, form)
				return printExported(cmd, st, err)
			}
			st, err := c.Record(cmd.Context(), opt, w, file != "-")
			switch {
			case err != nil && begun:
				return fmt.Errorf("the capture of %s broke off: %w", c.Hello.Name, err)
			case err != nil:
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "%d packets captured, %d lost\n", st.Written, st.Lost)
			return nil
		})
	})
}

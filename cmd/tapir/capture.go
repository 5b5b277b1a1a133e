package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"tapir/lab/tool/capture"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/files"
	"tapir/lab/tool/mirror"
	"tapir/lab/tool/usage"
	"tapir/nic/msglog"
)

// maxBufferMiB keeps a typing error from taking the machine's memory.
const maxBufferMiB = 4096

func newCapture() *cobra.Command {
	opt := ctl.CaptureOptions{Bulk: capture.DefaultBulk}
	var file, as, topics, mirrorTo string
	bufferMiB := capture.DefaultBuffer >> 20
	return withFlags(&cobra.Command{
		Use:   "capture [NIC] -w FILE",
		Short: "Capture a NIC's frames as pcapng",
		Long: "Capture writes what passes the NIC's wire port, as pcapng with the system's time in\n" +
			"nanoseconds, direction, packet id, and comments: queue pair and work request of\n" +
			"each FPDU, and the reason of each drop. It ends at Ctrl-C, after -c packets, or with\n" +
			"the NIC, always with a complete file.\n\n" +
			"A super-frame of gso and jumbo is written as the segments that it stands for; --raw\n" +
			"keeps it whole, and costs least. Where more than 8 FPDUs of one message follow each\n" +
			"other in it, only their headers and the beginning of their data are kept: --bulk 0\n" +
			"or -s keeps more. Of a segment that is cut, the TCP checksum is left partial, as a\n" +
			"sender leaves it to its device. While the capture runs, FILE has such segments in\n" +
			"blocks that readers skip, many in each; at the end the file is rewritten.\n\n" +
			"Connections that live already are preceded by their saved TCP and MPA handshakes,\n" +
			"commented \"replayed for dissection\", so that Wireshark decodes what follows.\n\n" +
			"--phc adds an interface for the NIC's hardware clock: the same frames, by packet id, with\n" +
			"the stamps that PTP gets, so that Wireshark's PTP analysis works in the clock's time.\n\n" +
			"--log adds what the NIC says about topics of its log, as entries of a systemd journal between\n" +
			"the frames: wr for work requests and completions, cm for connections, eh for errors, and the\n" +
			"others of the parameter dprint.\n\n" +
			"Of an Omni-Path fabric, --as writes the packets in another form, and nothing else:\n\n" + formHelp,
		Example: "  tapir capture nic0 -w f.pcapng\n" +
			"  tapir capture nic0 -w f.pcapng -s 0      # all octets of all frames\n" +
			"  tapir capture nic0 -w f.pcapng --raw -s 256\n" +
			"  tapir capture nic0 -w - | wireshark -k -i -\n" +
			"  tapir capture nic0 -w f.pcapng --phc\n" +
			"  tapir capture nic0 -w f.pcapng --log wr,cm\n" +
			"  tapir capture nic0 -w - -c 10 | tshark -r -\n" +
			"  tapir capture nic0 --tap mon0 & tcpdump -i mon0",
		Args:              atMost(1),
		ValidArgsFunction: completeNIC,
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
			if as != "" || cmd.Flags().Changed("snaplen") && !cmd.Flags().Changed("bulk") {
				opt.Bulk = 0
			}
			if bufferMiB < 1 || bufferMiB > maxBufferMiB {
				return usage.Errorf("--buffer %d: give 1 to %d MiB", bufferMiB, maxBufferMiB)
			}
			opt.Buffer = bufferMiB << 20
			if mirrorTo != "" {
				if file != "" || as != "" || opt.SnapLen != 0 || opt.PHC || opt.Log != 0 {
					return usage.Errorf("--tap excludes --write, --as, --snaplen, --phc and --log")
				}
				return withNIC(first(args), "its name: tapir capture NIC --tap "+mirrorTo, func(c *ctl.Client) error {
					return mirror.Run(cmd.Context(), c, mirrorTo, opt, cmd.ErrOrStderr())
				})
			}
			return runCapture(cmd, first(args), file, as, opt)
		},
	},
		flag{&file, "write", "w", "`file` to write, - for standard output (required)"},
		flag{&mirrorTo, "tap", "", "instead of a file: write whole frames into this TAP, made if it does not exist, " +
			"for stock tcpdump where the wire has no interface"},
		flag{&as, "as", "", "`form` for packets of a fabric: erf, user0 or inner"},
		flag{&opt.SnapLen, "snaplen", "s", "octets to keep of each frame, 0 for all"},
		flag{&opt.Bulk, "bulk", "", "octets to keep of each payload amid a long message, 0 for all"},
		flag{&bufferMiB, "buffer", "B", "`MiB` that may wait for the writer before frames are lost"},
		flag{&opt.Count, "count", "c", "end after this number of packets; 0: never"},
		flag{&opt.NoContext, "no-context", "", "leave out the saved handshakes of live connections"},
		flag{&opt.Raw, "raw", "", "keep super-frames whole and partial checksums as they are"},
		flag{&opt.PHC, "phc", "",
			"write each frame once more, with the stamp of the NIC's hardware clock, as interface NIC/phc"},
		flag{&topics, "log", "", "write what the NIC says about `topics` between the frames: wr, cm, eh ..."},
		flag{&opt.Host, "host", "", "capture the host TAP too"},
	)
}

func runCapture(cmd *cobra.Command, name, file, as string, opt ctl.CaptureOptions) error {
	form, formErr := capture.ParseForm(as)
	switch {
	case as != "" && formErr != nil:
		return usage.Errorf("--as: %w", formErr)
	case as != "" && opt.SnapLen != 0:
		return usage.Errorf("--as needs whole packets: leave out --snaplen")
	case file == "":
		return usage.Errorf("where to write is missing: add -w FILE, or -w - for a pipe")
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

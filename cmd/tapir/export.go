package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"tapir/lab/tool/capture"
	"tapir/lab/tool/cli"
	"tapir/lab/tool/files"
	"tapir/lab/tool/usage"
)

const formHelp = "erf: ERF records of type 28, as Intel's tool writes them · " +
	"user0: bare 16B packets (DLT_USER0) ·\n" +
	"inner: the Ethernet frames inside, with the packets' fields as comments"

func newExport() *cobra.Command {
	var file, as, end, link string
	var merge bool
	cmd := cli.With(&cobra.Command{
		Use:   "export FILE... -w FILE {--end LINK:NODE | --link LINK | --as FORM | --merge}",
		Short: "Extract a link from a lab's capture, merge or convert captures",
		Long: "Export takes out of a lab's capture what one end of a link saw (--end), or each frame once, as\n" +
			"it entered the link (--link), so that Wireshark follows TCP without seeing frames twice.\n\n" +
			"Export reads a capture of a fabric's TAP, pcapng or pcap, by tapir capture or tcpdump, or of\n" +
			"bare packets, and writes it as pcapng in one of these forms:\n\n" + formHelp + "\n\n" +
			"Frames without a packet of the fabric, and packets that the form cannot hold, are left out and\n" +
			"counted.\n\n" +
			"Export --merge joins captures of several hosts in the order of time. Interfaces keep their\n" +
			"names. It does not correct stamps: the clocks of the hosts must agree.",
		Example: "  tapir export out/lab.pcapng --end a-b:a -w a.pcapng\n" +
			"  tcpdump -i fab0 -w fab0.pcap\n" +
			"  tapir export fab0.pcap -w inner.pcapng --as inner\n" +
			"  tapir export --merge h1.pcapng h2.pcapng -w all.pcapng\n" +
			"  tshark -r inner.pcapng -Y 'frame.comment contains \"vesw=2 \"'",
		Args: cli.AtLeast(1, "name one capture to read, - for standard input: see: tapir export --help"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case merge:
				return capture.MergeFiles(args, file, cmd.OutOrStdout(), cmd.ErrOrStderr())
			case len(args) > 1:
				return usage.Errorf("several captures: they need --merge: see: tapir export --help")
			case end != "":
				return runExport(cmd, args[0], file, capture.Only(capture.AtEnd(end)))
			case link != "":
				return runExport(cmd, args[0], file, capture.Only(capture.Entering(link)))
			}
			form, err := capture.ParseForm(as)
			if err != nil {
				return usage.Errorf("--as: %w", err)
			}
			return runExport(cmd, args[0], file, func(w io.Writer, r io.Reader) (capture.Exported, error) {
				return capture.Export(w, r, form)
			})
		},
	},
		cli.F(&file, "write", "w", "`file` to write, - for standard output (required)"),
		cli.F(&as, "as", "", "`form`: erf, user0 or inner"),
		cli.F(&merge, "merge", "", "join captures of several hosts in the order of time"),
		cli.F(&end, "end", "", "of a lab's capture what the `end` of a link saw, such as a-b:a"),
		cli.F(&link, "link", "", "of a lab's capture each frame of the `link` once, as it entered"),
	)
	cmd.MarkFlagsMutuallyExclusive("as", "end", "link", "merge")
	return cmd
}

func runExport(cmd *cobra.Command, from, to string, export func(w io.Writer,
	r io.Reader) (capture.Exported, error)) error {
	if to == "" {
		return usage.Errorf("no output file: use -w FILE, or -w - for a pipe")
	}
	return files.Read(from, cmd.InOrStdin(), func(r io.Reader) error {
		if from != "-" && files.Same(r, to) {
			return usage.Errorf("%s is read and cannot be written at the same time", to)
		}
		return files.Write(to, cmd.OutOrStdout(), "export", func(w io.Writer) error {
			st, err := export(w, r)
			if err != nil {
				err = fmt.Errorf("%s: %w", from, err)
			}
			return printExported(cmd, st, err)
		})
	})
}

func printExported(cmd *cobra.Command, st capture.Exported, err error) error {
	if err == nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "%d packets written, %d left out\n", st.Written, st.Left)
	}
	return err
}

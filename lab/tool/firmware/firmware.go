// Package firmware is the subcommand that writes the firmware of the storms as a
// file, or checks one.
package firmware

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"tapir/lab/node/nicnode"
	"tapir/lab/tool/usage"
	"tapir/nic/fastlinq"
)

// Command is the subcommand.
func Command() *cobra.Command {
	as, file := fastlinq.ZippedBinary.String(), ""
	cmd := &cobra.Command{
		Use:   "firmware [FILE | --form FORM -w FILE]",
		Short: "Write the storm firmware as a file, or check one",
		Long: "Firmware writes the firmware of the storms, which is built in, in one of its four forms:\n" +
			"header and zipped-header are C, bin and zipped-bin are not; arrays of the zipped forms are\n" +
			"packed by zlib. NICs load a file with --firmware FILE, or from the flash, where tapir ethtool -f\n" +
			"puts it; all forms make the same NIC.\n\n" +
			"With --firmware FORM a NIC searches for a file of that name in the directories of\n" +
			nicnode.FirmwarePathEnv + ", then in " + strings.Join(nicnode.FirmwareDirs, " and ") + ".\n\n" +
			"With a FILE, or a form to search for, it prints the file's form and version, or where it is wrong.",
		Example: "  tapir firmware --form zipped-bin -w /lib/firmware/tapir/" +
			fastlinq.StormFile(fastlinq.ZippedBinary) + "\n" +
			"  tapir nic --tap tap0 --ip 10.0.0.1/24 --firmware zipped-bin\n" +
			"  tapir firmware --form header -w storm.h\n" +
			"  tapir firmware storm.h",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage.Errorf("unexpected argument %q: see: tapir firmware --help", args[1])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 1 && (file != "" || cmd.Flags().Changed("form")):
				return usage.Errorf("a file to check excludes --form and -w: see: tapir firmware --help")
			case len(args) == 1:
				return check(cmd.OutOrStdout(), args[0])
			case file == "":
				return usage.Errorf("name the file to write, - for standard output: tapir firmware --form %s -w FILE",
					as)
			}
			form, err := fastlinq.ParseStormForm(as)
			if err != nil {
				return usage.Errorf("--form %q: use %s", as, strings.Join(fastlinq.StormForms(), ", "))
			}
			b := fastlinq.BuiltinStorm().Encode(form)
			if file == "-" {
				_, err = cmd.OutOrStdout().Write(b)
				return err
			}
			return os.WriteFile(file, b, 0o644)
		},
	}
	cmd.Flags().StringVar(&as, "form", as, "`form`: "+strings.Join(fastlinq.StormForms(), ", "))
	cmd.Flags().StringVarP(&file, "write", "w", "", "`file` to write, - for standard output")
	return cmd
}

// check says what a file is.
func check(w io.Writer, spec string) error {
	b, err := nicnode.ReadFirmware(spec)
	if err != nil {
		return err
	}
	im, err := fastlinq.DecodeStorm(b)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "firmware %v as %v, for %v: %d operations, %d words of arrays, %d octets\n",
		im.Version, im.Form, im.Chips, len(im.Program.Ops), len(im.Program.Array), len(b))
	return err
}

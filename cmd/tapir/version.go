package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"tapir/lab/tool/cli"
	"tapir/lab/tool/licenses"
	"tapir/lab/tool/man"
)

// version is set by the Makefile from git; a plain `go build` leaves it empty.
var version string

// versionText is what this binary calls itself.
func versionText() string {
	if version != "" {
		return version
	}
	if bi, ok := debug.ReadBuildInfo(); ok && bi.Main.Version != "" {
		return bi.Main.Version
	}
	return "(devel)"
}

func newVersion() *cobra.Command {
	var notices bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  tapir version\n  tapir version --licenses",
		Args:    cli.AtMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if notices {
				text, err := licenses.Notices()
				fmt.Fprint(cmd.OutOrStdout(), text)
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "tapir %s %s %s/%s\n", versionText(), runtime.Version(),
				runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
	cmd.Flags().BoolVar(&notices, "licenses", false, "print the licences of the modules that tapir is linked with")
	return cmd
}

func newMan() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write the man pages into a directory",
		Example: "  tapir man /usr/local/share/man/man1",
		Hidden:  true, // for make install
		Args:    cli.ExactlyOne("name one directory for the man pages"),
		RunE:    func(cmd *cobra.Command, args []string) error { return man.Write(cmd.Root(), args[0], versionText()) },
	}
}

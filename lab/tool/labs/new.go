package labs

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tapir/lab/tool/cli"
	"tapir/lab/tool/usage"
)

var (
	//go:embed new/rdma.yaml
	newRDMA string
	//go:embed new/ptp.yaml
	newPTP string
	//go:embed new/fabric.yaml
	newFabric string
)

// kinds are the labs to begin with.
var kinds = map[string]string{"rdma": newRDMA, "ptp": newPTP, "fabric": newFabric}

func newLabNew() *cobra.Command {
	kind := "rdma"
	return cli.With(&cobra.Command{
		Use:   "new FILE",
		Short: "Write a small topology file to start from",
		Long: "New writes a lab that runs, with comments, to be changed: two NICs and a link with loss (rdma),\n" +
			"a master and a slave with a transparent clock (ptp), or two HFIs with a manager (fabric).",
		Example: "  tapir lab new lab.yaml\n  tapir lab new clocks/lab.yaml --kind ptp\n  tapir lab run lab.yaml",
		Args:    oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			text, ok := kinds[kind]
			if !ok {
				return usage.Errorf("--kind %q: want one of %s", kind,
					strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
			}
			if err := os.MkdirAll(filepath.Dir(args[0]), 0o777); err != nil {
				return err
			}
			f, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
			if errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("%s exists: choose another name, or remove it", args[0])
			}
			if err != nil {
				return err
			}
			_, err = f.WriteString(text)
			if err := errors.Join(err, f.Close()); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "wrote %s: run it with: tapir lab run %[1]s\n", args[0])
			return err
		},
	}, cli.F(&kind, "kind", "", "`kind` of lab: rdma, ptp or fabric"))
}

package labs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"tapir/lab/run/real"
	"tapir/lab/tool/cli"
	"tapir/lab/tool/show"
	"tapir/lab/topo"
)

// Described is what a lab is made of.
type Described struct {
	Schema int           `json:"schema"` // version of this document
	Name   string        `json:"name"`
	Clock  string        `json:"clock,omitempty"` // of a file
	PID    int           `json:"pid,omitempty"`   // of a lab that is up
	Nodes  []real.Drawn  `json:"nodes"`
	Links  []real.Joined `json:"links"`
	Steps  []string      `json:"steps,omitempty"` // of a file
}

func newLabInspect() *cobra.Command {
	var asJSON bool
	return cli.With(&cobra.Command{
		Use:   "inspect [FILE|LAB]",
		Short: "Show nodes, links and steps of a lab file or a running lab",
		Long: "Inspect lists the nodes with their kinds and addresses, and the links; of a file also its\n" +
			"steps, of a lab that is up its process. tapir show LAB link has the counters of its links.",
		Example: "  tapir lab inspect lab.yaml\n  tapir lab inspect rping\n  tapir lab inspect --json",
		Args:    cli.AtMost(1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, part string) ([]string, cobra.ShellCompDirective) {
			names, _ := completeLab(cmd, args, part)
			return names, cobra.ShellCompDirectiveDefault // files, too
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := describe(cli.First(args))
			if err != nil {
				return err
			}
			if asJSON {
				return show.JSON(cmd.OutOrStdout(), d)
			}
			return d.print(cmd.OutOrStdout())
		},
	}, cli.JSON(&asJSON))
}

// describe describes the lab of a file, or the one of that name that is up.
func describe(name string) (*Described, error) {
	if info, err := os.Stat(name); name != "" && (err == nil && !info.IsDir() || strings.HasSuffix(name, ".yaml")) {
		lab, err := loadLab(name, "")
		if err != nil {
			return nil, err
		}
		d := &Described{Schema: 1, Name: lab.Name, Clock: lab.Clock}
		d.Nodes, d.Links = real.Describe(lab)
		for i := range lab.Steps {
			d.Steps = append(d.Steps, lab.Steps[i].Text)
		}
		return d, nil
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	r, err := real.Find(name)
	if err != nil {
		return nil, err
	}
	return &Described{Schema: 1, Name: r.Name, Clock: topo.Real, PID: r.PID, Nodes: r.Drawn, Links: r.Links}, nil
}

func (d *Described) print(w io.Writer) error {
	fmt.Fprintf(w, "lab %s, %s clock", d.Name, d.Clock)
	if d.PID != 0 {
		fmt.Fprintf(w, ", up as process %d", d.PID)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\n\nNODE\tKIND\tADDRESSES")
	for _, n := range d.Nodes {
		fmt.Fprintf(t, "%s\t%s\t%s\n", n.Name, n.Kind, strings.Join(n.Addrs, ","))
	}
	fmt.Fprintln(t, "\nLINK\tBETWEEN\tCARRIES")
	for _, l := range d.Links {
		carries := "Ethernet"
		if l.Fabric {
			carries = "Omni-Path"
		}
		if l.Compensate != "" {
			carries += ", compensates " + l.Compensate
		}
		fmt.Fprintf(t, "%s\t%s, %s\t%s\n", l.Name, l.Ends[0], l.Ends[1], carries)
	}
	for i, s := range d.Steps {
		if i == 0 {
			fmt.Fprintln(t, "\nSTEP")
		}
		fmt.Fprintln(t, s)
	}
	return t.Flush()
}

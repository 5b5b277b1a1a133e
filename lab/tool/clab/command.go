package clab

import (
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"tapir/lab/conf"
	"tapir/lab/tool/usage"
	"tapir/lab/topo"
)

// Command is `tapir lab export`; load reads a topology file of a lab.
func Command(load func(path, clock string) (*topo.Lab, error)) *cobra.Command {
	var e Export
	var containerlab bool
	var dir string
	var hosts []string
	cmd := &cobra.Command{
		Use:   "export FILE --containerlab -o DIR",
		Short: "Convert a lab into topology files of containerlab",
		Long: "Export writes the topology file with which containerlab runs the lab's nodes in containers:\n" +
			"nodes of kind nic, host, switch, hfi and manager, and the commands that start them. With\n" +
			"--host there is one file for each host, and links between hosts are VXLAN links.\n\n" +
			"The containers of a host share its directory " + sockets + ", so that tapir show and\n" +
			"tapir lab test --attach find their nodes on the host. Faults of links are left out, as\n" +
			"containerlab has its own.",
		Example: "  tapir lab export --containerlab -o clab lab/examples/rping/lab.yaml\n" +
			"  tapir lab export --containerlab -o clab --host east=192.0.2.1:a,s --host west=192.0.2.2:b lab.yaml\n" +
			"  sudo containerlab deploy -t clab/rping.clab.yml",
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case !containerlab:
				return usage.Errorf("no form: add --containerlab")
			case dir == "":
				return usage.Errorf("no output directory: add -o DIR")
			case len(args) != 1:
				return usage.Errorf("name one topology file: see: %s --help", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if e.Lab, err = load(args[0], ""); err != nil {
				return err
			}
			for _, text := range hosts {
				h, err := parseHost(text)
				if err != nil {
					return usage.Wrap(err)
				}
				e.Hosts = append(e.Hosts, h)
			}
			files, notes, err := e.Files()
			if err != nil {
				return usage.Wrap(fmt.Errorf("%s: %w", args[0], err))
			}
			for _, n := range notes {
				fmt.Fprintln(cmd.ErrOrStderr(), n)
			}
			return write(cmd.OutOrStdout(), dir, files)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&containerlab, "containerlab", false, "write topology files of containerlab")
	f.StringVarP(&dir, "out", "o", "", "`directory` for the files")
	f.StringVar(&e.Image, "image", "tapir-tools", "`image` of the containers, with tapir, ip and sh")
	f.StringArrayVar(&hosts, "host", nil, "a `NAME=ADDRESS:NODE,NODE` that runs these nodes; may be repeated")
	return cmd
}

// write puts the files below dir and names each.
func write(out io.Writer, dir string, files []File) error {
	for _, f := range files {
		name := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(name, f.Data, 0o666); err != nil {
			return err
		}
		fmt.Fprintln(out, "wrote", name)
	}
	return nil
}

// parseHost reads a host such as east=192.0.2.1:a,b.
func parseHost(s string) (h Host, err error) {
	name, rest, named := strings.Cut(s, "=")
	i := strings.LastIndexByte(rest, ':')
	if !named || !conf.ValidName.MatchString(name) || i < 0 {
		return h, fmt.Errorf("--host %q: want NAME=ADDRESS:NODE,NODE", s)
	}
	h.Name, h.Nodes = name, strings.Split(rest[i+1:], ",")
	if h.Addr, err = netip.ParseAddr(strings.Trim(rest[:i], "[]")); err != nil {
		return h, fmt.Errorf("--host %q: %w", s, err)
	}
	return h, nil
}

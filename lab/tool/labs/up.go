package labs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"

	"tapir/lab/run/real"
	"tapir/lab/run/virtual"
	"tapir/lab/tool/usage"
	"tapir/lab/topo"
)

// Keep brings a lab up, prints that it is ready, and takes it down when ctx
// ends.
func Keep(ctx context.Context, out io.Writer, lab *topo.Lab, o real.Options) (err error) {
	if lab.Clock != topo.Real {
		return usage.Errorf("lab %s runs by the virtual clock: nothing of it can stay up", lab.Name)
	}
	for _, r := range real.List() {
		if r.Name == lab.Name {
			return fmt.Errorf("lab %s is up already (process %d): end it with: tapir lab down %s", r.Name, r.PID,
				r.Name)
		}
	}
	if o.Tapir, err = os.Executable(); err != nil {
		return err
	}
	b, err := real.Up(ctx, lab, o)
	if err != nil {
		return err
	}
	var names []string
	for _, n := range lab.Nodes {
		names = append(names, n.Name)
	}
	fmt.Fprintf(out, "ready %s nodes=%s\n", lab.Name, strings.Join(names, ","))
	<-ctx.Done()
	return b.Down()
}

// Exec runs a program with this process's input and output: args are lab, node,
// program and its arguments. The error is its exit code, if that is not 0.
func Exec(args []string) error {
	r, err := real.Find(args[0])
	if err != nil {
		return err
	}
	argv := args[2:]
	if argv[0] == "--" { // pflag leaves one behind other arguments
		argv = argv[1:]
	}
	if len(argv) == 0 {
		return usage.Errorf("the program is missing: see: tapir lab exec --help")
	}
	if argv[0] == "tapir" {
		if argv[0], err = os.Executable(); err != nil { // this one, wherever it lies
			return err
		}
	}
	// an interrupt of the terminal reaches it, too
	program, start, err := r.Command(context.Background(), args[1], argv)
	if err != nil {
		return usage.Wrap(err)
	}
	program.Stdin, program.Stdout, program.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := start(); err != nil {
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			return usage.Unexecutable(err)
		}
		return err
	}
	err = program.Wait()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		if code := exit.ExitCode(); code > 0 {
			return usage.Exit(code)
		}
		return fmt.Errorf("%s: %w", argv[0], err)
	}
	return err
}

// Collect removes what labs left that were killed, and names it.
func Collect(out io.Writer) {
	for _, line := range real.Collect() {
		fmt.Fprintln(out, line)
	}
	for _, dir := range virtual.Collect() {
		fmt.Fprintln(out, "removed", dir)
	}
}

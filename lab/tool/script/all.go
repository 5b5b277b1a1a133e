package script

import (
	"errors"
	"fmt"
	"io"

	"tapir/lab/tool/usage"
)

// ReadFiles reads scripts. What is wrong with one is printed, and a usage error.
func ReadFiles(out io.Writer, names []string) (all []*Script, err error) {
	for _, name := range names {
		s, err := ReadFile(name)
		if e := (*Error)(nil); errors.As(err, &e) {
			fmt.Fprintln(out, e)
			return nil, usage.Errorf("%s:%d: this line cannot be read", e.File, e.Line)
		} else if err != nil {
			return nil, usage.Wrap(err)
		}
		all = append(all, s)
	}
	return all, nil
}

// RunAll runs scripts in virtual time and prints what fails, and with trace every
// packet.
func RunAll(out io.Writer, all []*Script, trace bool, wire string) (err error) {
	var over *Over
	if wire != "" {
		if over, err = OpenOver(wire); err != nil {
			return fmt.Errorf("--wire %s: %w", wire, err)
		}
		defer over.Close()
	}
	failed := 0
	for _, s := range all {
		var to io.Writer
		if trace {
			fmt.Fprintf(out, "# %s\n", s.Name)
			to = out
		}
		if err := s.RunOver(to, over); err != nil {
			failed++
			fmt.Fprintln(out, err)
		}
	}
	if over != nil {
		fmt.Fprintf(out, "%d frames over %s\n", over.Carried(), wire)
	}
	switch {
	case failed > 0:
		return fmt.Errorf("%d of %d scripts failed", failed, len(all))
	case len(all) == 1:
		fmt.Fprintln(out, "1 script holds")
	default:
		fmt.Fprintf(out, "%d scripts hold\n", len(all))
	}
	return nil
}

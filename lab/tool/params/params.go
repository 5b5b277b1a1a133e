// Package params gives a command the named settings of a node as flags. There are more
// than anybody reads: help lists them when asked for all.
package params

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tapir/lab/tool/cli"
	"tapir/nic/param"
)

// Parameter marks the flag of a setting. Its values are the title of a section of the help.
const Parameter = "tapir parameter"

// Set changes a setting of the node that a command line describes.
type Set func(name, value string) error

// Add gives cmd a flag for each setting, of which its help lists only those named here;
// --set NAME=VALUE, which does the same; and --help-all, which lists them all.
func Add(cmd *cobra.Command, rows []*param.Row, set Set, listed ...string) {
	flags := cmd.Flags()
	for _, r := range rows {
		f := flags.VarPF(value{r, set}, param.Flag(r.Name), "", fmt.Sprintf("%s (default %s)", r.Help, r.Get()))
		f.Hidden = !slices.Contains(listed, r.Name)
		f.Annotations = map[string][]string{Parameter: {section(r)}}
		if r.Type == "bool" {
			f.NoOptDefVal = param.Bit(true)
			f.Annotations[cli.Spaced] = []string{"0", "1"}
		}
	}
	flags.Func("set", "`name=value` of a parameter, of which --help-all tells; may be repeated", func(s string) error {
		name, v, ok := strings.Cut(s, "=")
		if r := param.Find(rows, name); r != nil && !ok && r.Type == "bool" {
			v, ok = param.Bit(true), true
		}
		if !ok {
			return fmt.Errorf("expected name=value")
		}
		return set(name, v)
	})
	_ = cmd.RegisterFlagCompletionFunc("set", func(*cobra.Command, []string, string) (names []string,
		_ cobra.ShellCompDirective) {
		for _, r := range rows {
			names = append(names, r.Name+"=\t"+r.Help)
		}
		return names, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	})
	all := flags.Bool("help-all", false, "list all parameters, too")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !*all {
			return run(cmd, args)
		}
		if err := cmd.Help(); err != nil {
			return err
		}
		return list(cmd.OutOrStdout(), flags)
	}
}

// section is where a setting stands in the list.
func section(r *param.Row) string {
	switch {
	case r.Host:
		return "Host TAP"
	case r.Origin == param.Siw || r.Origin == param.SiwBuild:
		return "iWARP, as the siw driver calls it"
	case r.Origin == param.FastLinQ:
		return "Device, as the FastLinQ driver calls it"
	}
	return "Tapir's own"
}

// list prints the settings in their sections.
func list(w io.Writer, flags *pflag.FlagSet) error {
	var titles []string
	of := map[string]*pflag.FlagSet{}
	flags.VisitAll(func(f *pflag.Flag) {
		title := strings.Join(f.Annotations[Parameter], "")
		if title == "" {
			return
		}
		if of[title] == nil {
			titles = append(titles, title)
			of[title] = pflag.NewFlagSet(title, pflag.ContinueOnError)
			of[title].SortFlags = flags.SortFlags
		}
		shown := *f
		shown.Hidden = false
		of[title].AddFlag(&shown)
	})
	slices.Sort(titles)
	for _, title := range titles {
		if _, err := fmt.Fprintf(w, "\nParameters: %s\n%s", title, of[title].FlagUsages()); err != nil {
			return err
		}
	}
	return nil
}

// value is a setting as a flag.
type value struct {
	r   *param.Row // of defaults
	set Set
}

func (v value) Set(s string) error { return v.set(v.r.Name, s) }
func (v value) String() string     { return "" }
func (v value) Type() string       { return v.r.Type }

// Package complete offers words to the shell: names of nodes that run, tables and their rows, settings with
// their values, and topology files.
package complete

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tapir/lab/tool/ctl"
	"tapir/lab/tool/show"
	"tapir/nic/param"
)

// none is that nothing else is offered.
const none = cobra.ShellCompDirectiveNoFileComp

// NIC offers the names of running nodes for the first argument.
func NIC(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, none
	}
	return ctl.List(), none
}

// Names offers the names of running nodes that are not among the arguments yet.
func Names(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return slices.DeleteFunc(ctl.List(), func(name string) bool { return slices.Contains(args, name) }), none
}

// Words offers the same words each time.
func Words(words ...string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) { return words, none }
}

// Show offers what tapir show takes: a node, one of its tables, and a row of that.
func Show(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	switch {
	case len(args) == 0:
		return append(ctl.List(), ctl.Kinds[1:]...), none
	case len(args) == 1 && !ctl.KnownKind(args[0]):
		return ctl.Kinds, none
	}
	t, err := show.ParseTarget(args)
	if err != nil || t.Row != "" {
		return nil, none
	}
	c, err := ctl.Dial(t.Name)
	if err != nil {
		return nil, none
	}
	defer c.Close()
	return show.Rows(cmd.Context(), c, t.Kind), none
}

// Row offers what a row that is waited for is made of: a table, and the columns of the first named node's table.
func Row(cmd *cobra.Command, args []string, part string) (list []string, _ cobra.ShellCompDirective) {
	const more = none | cobra.ShellCompDirectiveNoSpace
	kind, _, _ := strings.Cut(part, " ")
	if !strings.Contains(part, " ") || len(args) == 0 {
		return ctl.Kinds, more
	}
	c, err := ctl.Dial(args[0])
	if err != nil {
		return nil, none
	}
	defer c.Close()
	typed := part[:strings.LastIndexByte(part, ' ')+1]
	for _, column := range show.Columns(cmd.Context(), c, kind) {
		list = append(list, typed+column+"=")
	}
	return list, more
}

// Setting is a name with the values that it takes; none: there are too many to offer.
type Setting struct {
	Name   string
	Values []string
}

// Settings offers NAME=, and behind that the values.
func Settings(all []Setting, part string) (list []string, _ cobra.ShellCompDirective) {
	name, _, given := strings.Cut(part, "=")
	if !given {
		for _, s := range all {
			list = append(list, s.Name+"=")
		}
		return list, none | cobra.ShellCompDirectiveNoSpace
	}
	for _, s := range all {
		if s.Name == name {
			for _, v := range s.Values {
				list = append(list, name+"="+v)
			}
		}
	}
	return list, none
}

// OfRows are the settings of a node that runs.
func OfRows(rows []*param.Row) (all []Setting) {
	for _, r := range rows {
		if r.Runtime {
			all = append(all, Setting{r.Name, r.Values()})
		}
	}
	return all
}

// list are words such as those in "pi, linreg or nullf".
var list = regexp.MustCompile(`^([\w.-]+, )*[\w.-]+ or [\w.-]+$`)

// Expected are the values that the text about a setting lists; none if it describes them.
func Expected(text string) []string {
	if !list.MatchString(text) {
		return nil
	}
	return strings.Split(strings.ReplaceAll(text, " or ", ", "), ", ")
}

// Flags gives flags the values that are offered for them. Flags that cmd does not have are left out.
func Flags(cmd *cobra.Command, values map[string][]string) {
	for name, words := range values {
		if cmd.Flags().Lookup(name) != nil {
			_ = cmd.RegisterFlagCompletionFunc(name, Words(words...)) // fails if there is one already
		}
	}
}

// Parameters gives the flag of each parameter its values.
func Parameters(cmd *cobra.Command, rows []*param.Row) {
	for _, r := range rows {
		if v := r.Values(); v != nil {
			Flags(cmd, map[string][]string{param.Flag(r.Name): v})
		}
	}
}

// examples are where labs lie in a tree of Tapir.
const examples = "lab/examples/*/lab.yaml"

// Files offers topology files and directories, and the examples where they are.
func Files(_ *cobra.Command, _ []string, part string) (found []string, _ cobra.ShellCompDirective) {
	near, _ := filepath.Glob(part + "*") // no pattern: nothing is offered
	some, _ := filepath.Glob(examples)
	directive := none
	for _, name := range near {
		info, err := os.Stat(name)
		switch {
		case err == nil && info.IsDir():
			found, directive = append(found, name+"/"), none|cobra.ShellCompDirectiveNoSpace
		case strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml"):
			found = append(found, name)
		}
	}
	for _, name := range some {
		if !slices.Contains(found, name) && strings.HasPrefix(name, part) {
			found = append(found, name)
		}
	}
	return found, directive
}

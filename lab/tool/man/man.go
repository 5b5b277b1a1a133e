// Package man writes man pages of commands.
package man

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tapir/lab/tool/params"
)

// Write writes a page for cmd and every visible verb below it into a directory.
// version is that of the program.
func Write(cmd *cobra.Command, dir, version string) error {
	name := pageName(cmd)
	if err := os.WriteFile(filepath.Join(dir, name+".1"), page(cmd, version), 0o644); err != nil {
		return fmt.Errorf("cannot write a man page: %w", err)
	}
	for _, sub := range cmd.Commands() {
		if documented(sub) {
			if err := Write(sub, dir, version); err != nil {
				return err
			}
		}
	}
	return nil
}

func documented(cmd *cobra.Command) bool {
	return !cmd.Hidden && cmd.Name() != "help"
}

func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// page is cmd's page in the man macros, man(7).
func page(cmd *cobra.Command, version string) []byte {
	var b bytes.Buffer
	name := pageName(cmd)
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"tapir %s\" \"Tapir\"\n", roff(strings.ToUpper(name)), roff(version))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(name), roff(cmd.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(cmd.UseLine()))
	if cmd.Long != "" {
		fmt.Fprintf(&b, ".SH DESCRIPTION\n%s\n", strings.ReplaceAll(roff(cmd.Long), "\n\n", "\n.PP\n"))
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString(".SH COMMANDS\n")
		for _, g := range append(cmd.Groups(), &cobra.Group{}) { // the last: commands without a group
			commands(&b, cmd, g)
		}
	}
	options(&b, cmd.NonInheritedFlags())
	if cmd.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(cmd.Example))
	}
	b.WriteString(".SH EXIT STATUS\n0 on success, 1 on failure, 2 on a mistake on the command line.\n")
	seeAlso(&b, cmd)
	return b.Bytes()
}

// commands lists those of a group below cmd, under its title.
func commands(b *bytes.Buffer, cmd *cobra.Command, g *cobra.Group) {
	title := g.Title
	for _, sub := range cmd.Commands() {
		if !documented(sub) || sub.GroupID != g.ID {
			continue
		}
		if title != "" {
			fmt.Fprintf(b, ".SS %s\n", roff(strings.TrimSuffix(title, ":")))
			title = ""
		}
		fmt.Fprintf(b, ".TP\n.B %s\n%s\n", roff(sub.Name()), roff(sub.Short))
	}
}

func options(b *bytes.Buffer, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	b.WriteString(".SH OPTIONS\n")
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden && f.Annotations[params.Parameter] == nil {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		head := "--" + f.Name
		if f.Shorthand != "" {
			head = "-" + f.Shorthand + ", " + head
		}
		if value != "" {
			head += " " + value
		}
		fmt.Fprintf(b, ".TP\n.B %s\n%s\n", roff(head), roff(usage))
	})
}

func seeAlso(b *bytes.Buffer, cmd *cobra.Command) {
	var pages []string
	if cmd.HasParent() {
		pages = append(pages, roff(pageName(cmd.Parent())))
	}
	for _, sub := range cmd.Commands() {
		if documented(sub) {
			pages = append(pages, roff(pageName(sub)))
		}
	}
	if pages != nil {
		fmt.Fprintf(b, ".SH SEE ALSO\n.BR %s (1)\n", strings.Join(pages, " (1),\n.BR "))
	}
}

// roff escapes what roff would take for its own: backslashes, hyphens that
// must stay hyphens, and lines that begin like a request.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}

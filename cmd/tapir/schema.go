package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"tapir/lab/conf"
	"tapir/lab/tool/schema"
	"tapir/lab/tool/show"
	"tapir/lab/tool/usage"
)

func newSchema() *cobra.Command {
	var everything bool
	cmd := &cobra.Command{
		Use:   "schema [COMMAND]...",
		Short: "Describe the JSON that a command prints",
		Long: "Schema prints the JSON Schema of what a command prints with --json; without one it lists the\n" +
			"commands, each with the name and version of its document. The version grows when a member goes,\n" +
			"or changes its type or meaning; new members do not change it. Each of devlink, dcb and vf show\n" +
			"prints what the tool does that it is like.",
		Example: "  tapir schema\n  tapir schema show qp\n  tapir schema lab inspect",
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) (next []string,
			_ cobra.ShellCompDirective) {
			for _, d := range schema.All() {
				if words := strings.Fields(d.Command); len(words) > len(args) &&
					strings.Join(words[:len(args)], " ") == strings.Join(args, " ") {
					next = append(next, words[len(args)])
				}
			}
			return next, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			command := strings.Join(args, " ")
			switch {
			case everything && command != "":
				return usage.Errorf("--all and a command exclude each other")
			case everything:
				return printSchemas(cmd.OutOrStdout())
			case command != "":
				d := schema.Find(command)
				if d == nil {
					return usage.Errorf("there is no schema of %q: %s", command, conf.OneOf(command, documents()))
				}
				return show.JSON(cmd.OutOrStdout(), d.Schema())
			}
			t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "COMMAND\tDOCUMENT")
			for _, d := range schema.All() {
				fmt.Fprintf(t, "%s\t%s\n", d.Command, d.Name())
			}
			return t.Flush()
		},
	}
	cmd.Flags().BoolVar(&everything, "all", false, "print the schemas of all commands, as a list")
	return cmd
}

// printSchemas prints all schemas as a list, each on a line of its own.
func printSchemas(w io.Writer) error {
	before := "[\n"
	for _, d := range schema.All() {
		raw, err := json.Marshal(d.Schema())
		if err == nil {
			_, err = fmt.Fprintf(w, "%s%s", before, raw)
		}
		if err != nil {
			return err
		}
		before = ",\n"
	}
	_, err := fmt.Fprintln(w, "\n]")
	return err
}

// documents are the commands that have a schema.
func documents() (names []string) {
	for _, d := range schema.All() {
		names = append(names, d.Command)
	}
	return names
}

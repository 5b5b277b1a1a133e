package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"tapir/lab/tool/usage"
)

// Group makes cmd a command that only has others below it, words of that kind; alone it prints its help.
func Group(cmd *cobra.Command, kind string, below ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(below...)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return Unknown(cmd, kind, args[0])
		}
		return nil
	}
	return cmd
}

// Unknown says that below cmd there is no word of that kind, and which were meant.
func Unknown(cmd *cobra.Command, kind, word string) error {
	hint := ":"
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(word); len(near) > 0 {
		hint = ", did you mean " + strings.Join(near, " or ") + "?"
	}
	return usage.Errorf("unknown %s %q%s see: %s --help", kind, word, hint, cmd.CommandPath())
}

// AtMost accepts up to n arguments and names the superfluous one.
func AtMost(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return usage.Errorf("unexpected argument %q: see: %s --help", args[n], cmd.CommandPath())
		}
		return nil
	}
}

// AtLeast wants n arguments or more; missing is the message without them.
func AtLeast(n int, missing string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < n {
			return usage.Errorf("%s", missing)
		}
		return nil
	}
}

// ExactlyOne wants one argument; message is what is said otherwise.
func ExactlyOne(message string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usage.Errorf("%s", message)
		}
		return nil
	}
}

// First is the first of args, or nothing.
func First(args []string) string { return strings.Join(args[:min(1, len(args))], "") }

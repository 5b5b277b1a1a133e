// Package cli holds what the definitions of subcommands share: flags, arguments, and groups of verbs.
package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tapir/lab/conf"
	"tapir/lab/tool/usage"
)

// Flag is a flag of a command.
type Flag struct {
	to                 any
	name, short, usage string
}

// F makes a flag. to is a pointer to the variable that the flag sets, whose value is the
// default, or a function that takes the value, or name and value.
func F(to any, name, short, usage string) Flag { return Flag{to, name, short, usage} }

// Toggle takes the value of a flag that may stand without one.
type Toggle func(value string) error

// With adds flags to cmd. Its help sorts them by name.
func With(cmd *cobra.Command, flags ...Flag) *cobra.Command {
	f := cmd.Flags()
	for _, x := range flags {
		switch to := x.to.(type) {
		case *string:
			f.StringVarP(to, x.name, x.short, *to, x.usage)
		case *bool:
			f.BoolVarP(to, x.name, x.short, *to, x.usage)
		case *int:
			f.IntVarP(to, x.name, x.short, *to, x.usage)
		case *int64:
			f.Int64VarP(to, x.name, x.short, *to, x.usage)
		case *uint8:
			f.Uint8VarP(to, x.name, x.short, *to, x.usage)
		case *uint16:
			f.Uint16VarP(to, x.name, x.short, *to, x.usage)
		case *uint64:
			f.Uint64VarP(to, x.name, x.short, *to, x.usage)
		case *time.Duration:
			f.DurationVarP(to, x.name, x.short, *to, x.usage)
		case *[]int:
			f.IntSliceVarP(to, x.name, x.short, *to, x.usage)
		case *[]string:
			f.StringSliceVarP(to, x.name, x.short, *to, x.usage)
		case func(value string) error:
			f.Func(x.name, x.usage, to)
		case func(name, value string) error:
			f.Func(x.name, x.usage, func(value string) error { return to(x.name, value) })
		case Toggle:
			f.BoolFunc(x.name, x.usage, to)
			f.Lookup(x.name).Annotations = map[string][]string{Spaced: {"0", "1"}}
		case pflag.Value:
			f.VarP(to, x.name, x.short, x.usage)
		default:
			panic(fmt.Sprintf("flag --%s: %T", x.name, to))
		}
	}
	return cmd
}

// InOrder is With with flags that the help lists in their order.
func InOrder(cmd *cobra.Command, flags ...Flag) *cobra.Command {
	cmd.Flags().SortFlags = false
	return With(cmd, flags...)
}

// Repeated takes the values of a flag that may be repeated. Unlike those of a
// []string they may have commas.
func Repeated(to *[]string) func(string) error {
	return func(value string) error {
		*to = append(*to, value)
		return nil
	}
}

// JSON asks for output as JSON.
func JSON(to *bool) Flag { return Flag{to, "json", "", "print JSON"} }

// Loaded makes a mistake in a file a usage error.
func Loaded[T any](v T, err error) (T, error) {
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		return v, fmt.Errorf("cannot read the configuration: %w", err)
	}
	return v, usage.Wrap(err)
}

// Mistakes makes what is wrong in a file, but not that it cannot be read, a usage
// error.
func Mistakes[T any](v T, err error) (T, error) {
	if bad := (*conf.Error)(nil); errors.As(err, &bad) {
		err = usage.Wrap(err)
	}
	return v, err
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tapir/lab/conf"
	"tapir/lab/tool/serve"
	"tapir/lab/tool/usage"
)

// flag is a flag of a command.
type flag struct {
	// to is a pointer to the variable that the flag sets, whose value is the
	// default, or a function that takes the value, or name and value.
	to                 any
	name, short, usage string
}

// toggle takes the value of a flag that may stand without one.
type toggle func(value string) error

// withFlags adds flags to cmd. Its help sorts them by name.
func withFlags(cmd *cobra.Command, flags ...flag) *cobra.Command {
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
		case toggle:
			f.BoolFunc(x.name, x.usage, to)
		case pflag.Value:
			f.VarP(to, x.name, x.short, x.usage)
		default:
			panic(fmt.Sprintf("flag --%s: %T", x.name, to))
		}
	}
	return cmd
}

// inOrder is withFlags with flags that the help lists in their order.
func inOrder(cmd *cobra.Command, flags ...flag) *cobra.Command {
	cmd.Flags().SortFlags = false
	return withFlags(cmd, flags...)
}

// repeated takes the values of a flag that may be repeated. Unlike those of a
// []string they may have commas.
func repeated(to *[]string) func(string) error {
	return func(value string) error {
		*to = append(*to, value)
		return nil
	}
}

// jsonFlag asks for output as JSON.
func jsonFlag(to *bool) flag { return flag{to, "json", "", "print JSON"} }

// configs reads what -c names or, without it, makes configurations from the
// other flags, of which only those besides may go with -c.
func configs[C any](cmd *cobra.Command, file string, load func(string) ([]C, error), one func() ([]C, error),
	besides ...string) ([]C, error) {
	if file == "" {
		all, err := one()
		if err != nil {
			return nil, usage.Errorf("%w: see: %s --help", err, cmd.CommandPath())
		}
		return all, nil
	}
	var other []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name != "config" && !slices.Contains(besides, f.Name) {
			other = append(other, "--"+f.Name)
		}
	})
	if other != nil {
		return nil, usage.Errorf("-c and %s exclude each other: write the settings into %s", strings.Join(other, ", "),
			file)
	}
	return loaded(load(file))
}

// foreground runs the nodes that configs returns.
func foreground[C any](cmd *cobra.Command, file string, load func(string) ([]C, error), one func() (C, error),
	run func(context.Context, serve.Options, []C) error) error {
	all, err := configs(cmd, file, load, func() ([]C, error) { c, err := one(); return []C{c}, err })
	if err != nil {
		return err
	}
	o := serving(cmd)
	o.File = file
	return run(cmd.Context(), o, all)
}

// loaded makes a mistake in a file a usage error.
func loaded[T any](v T, err error) (T, error) {
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		return v, fmt.Errorf("cannot read the configuration: %w", err)
	}
	return v, usage.Wrap(err)
}

// mistakes makes what is wrong in a file, but not that it cannot be read, a usage
// error.
func mistakes[T any](v T, err error) (T, error) {
	if bad := (*conf.Error)(nil); errors.As(err, &bad) {
		err = usage.Wrap(err)
	}
	return v, err
}

package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tapir/lab/tool/cli"
	"tapir/lab/tool/serve"
	"tapir/lab/tool/usage"
)

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
	return cli.Loaded(load(file))
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

package demo

import (
	"context"
	"errors"
	"os"
	"os/exec"

	"tapir/lab/host/netns"
	"tapir/lab/tool/usage"
)

// InUserNamespace runs the same command again with the rights that an
// ordinary user has in a user namespace of his own, and with the right to make TAPs if taps.
func InUserNamespace(ctx context.Context, taps bool) error {
	if err := CanOpenTUN(); taps && err != nil {
		return err
	}
	err := netns.Reexec(ctx, os.Args[1:]...)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() > 0 {
		return usage.Exit(exit.ExitCode())
	}
	return err
}

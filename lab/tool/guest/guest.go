// Package guest runs Linux guests as peers of NICs (lab/host/peer), each by a
// name, and commands in them.
package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tapir/lab/host/peer"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/usage"
)

// DefaultName is that of a guest that is not named.
const DefaultName = "peer"

// directory is that of a guest's sockets.
func directory(name string) (string, error) {
	if err := ctl.CheckName(name); err != nil {
		return "", usage.Errorf("the name %q of the guest is not allowed: use letters, digits, '-', '_' and '.'", name)
	}
	return filepath.Join(ctl.Dir(), "peer", name), nil
}

// Open finds the guest called name, which runs.
func Open(name string) (*peer.Handle, error) {
	dir, err := directory(name)
	if err != nil {
		return nil, err
	}
	h, err := peer.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("no guest named %s runs: start one with: tapir peer start --name %[1]s", name)
	}
	return h, nil
}

// Serve runs a guest that is built in a directory, until ctx ends, it is
// stopped, or its time is up. A line on out says that it is ready.
func Serve(ctx context.Context, out, log io.Writer, built string, cfg peer.Config) (err error) {
	if cfg.Dir, err = directory(cfg.Name); err != nil {
		return err
	}
	if _, err := peer.Open(cfg.Dir); err == nil {
		return fmt.Errorf("a guest named %s runs already: end it with: tapir peer stop --name %[1]s", cfg.Name)
	}
	image, err := peer.Build(ctx, built, log)
	if err != nil {
		return err
	}
	// What a guest that was killed has left behind is in the way.
	if err := errors.Join(os.MkdirAll(filepath.Dir(cfg.Dir), 0o700), os.RemoveAll(cfg.Dir)); err != nil {
		return err
	}
	g, err := peer.Start(ctx, image, cfg)
	if err != nil {
		return err
	}
	defer g.Stop()
	at := "bridge=" + cfg.Bridge
	if cfg.Stream != "" {
		at = "stream=" + cfg.Stream
	}
	fmt.Fprintf(out, "ready %s ip=%s %s linux=%s\n", cfg.Name, joined(cfg.IP), at, strings.Fields(image.Linux)[0])
	select {
	case <-ctx.Done():
	case <-g.Ended():
	}
	return nil
}

func joined(list []netip.Prefix) string {
	return strings.Join(strings.Fields(strings.Trim(fmt.Sprint(list), "[]")), ",")
}

// Exec runs a command in a guest: one argument is a line for its shell. The
// error is the exit code, if that is not 0.
func Exec(ctx context.Context, out io.Writer, name string, limit time.Duration, args []string) error {
	h, err := Open(name)
	if err != nil {
		return err
	}
	command := args[0]
	if len(args) > 1 {
		command = quoteAll(args)
	}
	code, err := h.Run(ctx, limit, command, out)
	switch {
	case errors.Is(err, context.Canceled):
		return errors.New("exec was interrupted; the command has been killed")
	case err != nil:
		return err
	}
	return usage.Exit(code)
}

// quoteAll joins arguments so that a shell takes them apart again.
func quoteAll(args []string) string {
	var q []string
	for _, a := range args {
		q = append(q, "'"+strings.ReplaceAll(a, "'", `'\''`)+"'")
	}
	return strings.Join(q, " ")
}

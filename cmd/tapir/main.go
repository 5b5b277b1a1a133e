// Command tapir runs software NICs on Linux TAPs and talks to running ones.
// Each verb is a file of this package; all they share is in root.go.
package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"tapir/lab/tool/cni"
	"tapir/nic/uapi/trap"
)

func main() {
	trap.Launched()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the process at once
	args := os.Args[1:]
	if filepath.Base(os.Args[0]) == cni.Name {
		args = []string{"cni"}
	}
	code := run(ctx, args, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

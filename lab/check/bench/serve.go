package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"tapir/lab/check/bench/result"
	"tapir/lab/node/nicnode"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/uapi"
	"tapir/nic/uapi/relay"
)

// serveChild is a NIC that programs use, as `tapir nic` would be, until it is
// interrupted.
func serveChild(ctx context.Context, spec *nicSpec) (err error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	n, end, err := spec.start(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	control, err := ctl.Listen(n.Name(), "bench")
	if err != nil {
		return err
	}
	defer control.Close()
	run, err := relay.Listen(ctl.RunPath(n.Name()))
	if err != nil {
		return err
	}
	defer run.Close()
	programs := nicnode.NewPrograms()
	programs.Add(n)
	run.Serve(programs.Devices)
	dev := ctl.Device{Device: n.Device, Thread: n, Version: "bench", TAP: n.TAP(), OnStop: stop}
	control.Serve(dev.Served())
	watched, err := spec.watch(n)
	if err != nil {
		return err
	}
	defer watched()
	result.Ready()
	select {
	case <-ctx.Done():
		return nil
	case <-n.Done():
		return n.Err()
	}
}

// runChild is `tapir run`: the arguments are the NIC, the program and its own.
func runChild(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return errors.New("usage: run NIC PROGRAM [ARGUMENT]...")
	}
	code, err := uapi.Run(ctx, uapi.Options{NICs: args[:1], Argv: args[1:], Stdout: os.Stdout, Stderr: os.Stderr,
		Log: os.Stderr})
	if err == nil && code != 0 {
		err = fmt.Errorf("%s: exit code %d", args[1], code)
	}
	return err
}

// served is two NICs for programs.
type served struct {
	bed  *bed
	set  nicSetup
	nics []*child
}

// nicName is what NIC i is called, like its TAP.
func (s *nicSetup) nicName(i int) string {
	if s.frames == "wire" {
		return fmt.Sprint("wire", i)
	}
	return fmt.Sprint("gso", i)
}

// serve starts two NICs. The caller stops them.
func (b *bench) serve(ctx context.Context, name string, set nicSetup) (*served, error) {
	bd, err := b.bed(set.mtu, set.lossy)
	if err != nil {
		return nil, err
	}
	s := &served{bed: bd, set: set}
	for i := range 2 {
		c, err := start(ctx, bd.middle.ns, set.pins.cpu(i), "serve", set.spec(i, b.opt, name))
		if err == nil {
			s.nics = append(s.nics, c)
			err = c.ready()
		}
		if err != nil {
			s.stop()
			return nil, err
		}
	}
	return s, nil
}

// stop ends the NICs in order, so that profiles are written.
func (s *served) stop() {
	for _, c := range s.nics {
		_ = c.cmd.Process.Signal(os.Interrupt) // it may have ended
		kill := time.AfterFunc(endWithin, func() { _ = c.cmd.Process.Kill() })
		_ = c.cmd.Wait()
		kill.Stop()
	}
}

// run starts a program on NIC i.
func (s *served) run(ctx context.Context, i int, argv ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return startProgram(ctx, s.bed.middle.ns, s.set.pins.cpu(i), nil, self,
		append([]string{"run", s.set.nicName(i)}, argv...)...)
}

// listens waits until a program listens on NIC 1.
func (s *served) listens(ctx context.Context) error {
	c, err := ctl.Dial(s.set.nicName(1))
	if err != nil {
		return err
	}
	defer c.Close()
	for {
		var ceps []struct{ Phase string }
		if err := c.Show(ctx, "cep", &ceps); err != nil {
			return err
		}
		for _, cep := range ceps {
			if cep.Phase == "listening" {
				return nil
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
}

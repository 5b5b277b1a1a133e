package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"tapir/lab/conf/nicconf"
	"tapir/lab/host/process"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/serve"
	"tapir/lab/tool/uapi"
	"tapir/nic/verbs"
)

// config is the configuration of a NIC on its TAP.
func (s *nicSpec) config() nicconf.Config {
	cfg := nicconf.Config{Name: s.TAP, TAP: s.TAP, Frames: s.Frames, MTU: s.MTU, IP: []netip.Prefix{s.IP}}
	cfg.NIC.IWARP.InOrder = s.InOrder
	if s.Wire != "" {
		cfg.TAP, cfg.Wire = "", s.Wire
	}
	if s.RoCE {
		cfg.NIC.RDMA.Personality = verbs.RoCE
	}
	return cfg
}

// serveChild is `tapir nic` until it is asked to end.
func serveChild(ctx context.Context, spec *nicSpec) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	end, err := profile(spec.Profile)
	if err != nil {
		return err
	}
	defer end()
	return serve.NICs(ctx, serve.Options{Version: "bench", Out: os.Stdout, Log: os.Stderr},
		[]nicconf.Config{spec.config()}, nil)
}

// runChild is `tapir run`: the arguments are the NIC, the program and its own.
func runChild(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return errors.New("usage: run NIC PROGRAM [ARGUMENT]...")
	}
	code, err := uapi.Run(ctx, uapi.Options{NICs: args[:1], Argv: args[1:], Stdout: os.Stdout, Stderr: os.Stderr,
		Log: os.Stderr})
	return ended(args[1], code, err)
}

// ended is the error of a program that has ended, if it was not content.
func ended(program string, code int, err error) error {
	if err == nil && code != 0 {
		return fmt.Errorf("%s: exit code %d", program, code)
	}
	return err
}

// served is two NICs for programs.
type served struct {
	*measurement
	set  *nicSetup
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
func (m *measurement) serve(ctx context.Context, set *nicSetup) (*served, error) {
	s := &served{measurement: m, set: set}
	for i := range 2 {
		c, err := ready(m.role(ctx, set.pins.cpu(i), "serve", m.spec(set, i)))
		if err != nil {
			s.stop()
			return nil, err
		}
		s.nics = append(s.nics, c)
	}
	return s, nil
}

// stop ends the NICs in order, so that profiles are written.
func (s *served) stop() {
	for _, c := range s.nics {
		c.Stop()
	}
}

// run starts a program on NIC i.
func (s *served) run(ctx context.Context, i int, argv ...string) (*child, error) {
	return start(ctx, s.middle.NS, s.set.pins.cpu(i), nil, append([]string{self, "run", s.set.nicName(i)}, argv...)...)
}

// listens waits until a program listens on NIC 1.
func (s *served) listens(ctx context.Context, program *child) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	c, err := ctl.Dial(s.set.nicName(1))
	if err != nil {
		return err
	}
	defer c.Close()
	return process.Until(ctx, func() (bool, error) {
		if program.HasEnded() {
			return false, errors.New("it has ended")
		}
		var ceps []struct{ Phase string }
		err := c.Show(ctx, "cep", &ceps)
		return slices.Contains(ceps, struct{ Phase string }{"listening"}), err
	})
}

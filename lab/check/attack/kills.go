package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"tapir/lab/host/link"
	"tapir/lab/host/process"
)

func killRows() []row {
	const points = 100
	return []row{
		{name: "kill-nic", what: "kill -9 of a NIC while it starts, and while it is connected to nic0", points: points,
			grows: 64, run: killNIC},
		{name: "kill-run", what: "kill -9 of tapir run while its program uses nic0", points: points, grows: 64,
			run: killRun},
		{name: "kill-lab", what: "kill -9 of tapir lab run at any point of a lab", points: points, run: killLab},
		{name: "kill-em", what: "kill -9 of the Ethernet Manager; the fabric goes on", points: points, grows: 32,
			run: func(ctx context.Context, t *trial) error {
				t.unit = "kills"
				return t.onFabric(ctx, func(f *fabric) error { return f.killManagers(ctx) })
			}},
		{name: "kill-sw", what: "kill -9 of a switch while it starts, and while it forwards", points: points,
			run: killSwitch},
	}
}

// soon waits for a random time below most.
func (t *trial) soon(most time.Duration) { time.Sleep(time.Duration(t.rng.Int64N(int64(most)))) }

// kill kills one process, not its group.
func kill(p *process.Process) {
	_ = syscall.Kill(p.PID(), syscall.SIGKILL)
	<-p.Ended()
}

// gone waits until links are.
func (b *bed) gone(ctx context.Context, names ...string) error {
	for _, name := range names {
		if err := process.Until(ctx, func() (bool, error) { return !b.Net.Exists(name), nil }); err != nil {
			return fmt.Errorf("link %s is left", name)
		}
	}
	return nil
}

func killNIC(ctx context.Context, t *trial) error {
	t.unit = "kills"
	return t.onBed(ctx, func(b *bed) error {
		server, err := b.verifyServer(ctx, 0)
		if err != nil {
			return err
		}
		defer server.Stop()
		for ; t.count < t.n; t.count++ {
			if t.count%2 == 1 {
				client, err := b.start(ctx, "verify", "client", "--nic", nicName(2), nicIP(0), "write:100000:50",
					"echo:4000",
					"read:200000:4", "sleep:1000")
				if err != nil {
					return err
				}
				t.soon(150 * time.Millisecond)
				kill(b.nics[nicName(2)])
				<-client.Ended()
			} else {
				kill(b.nics[nicName(2)])
				if err := b.gone(ctx, tapName(2)); err != nil {
					return err
				}
				p, err := b.start(ctx, nicArgs(2)...)
				if err != nil {
					return err
				}
				t.soon(80 * time.Millisecond)
				kill(p)
			}
			if err := b.gone(ctx, tapName(2)); err != nil {
				return err
			}
			if err := b.startNIC(ctx, 2); err != nil {
				return fmt.Errorf("after a kill: %w", err)
			}
		}
		_, err = b.job(ctx, 2, "verify", "-s", "4096")
		return err
		// By default what the dead held stays for 20 minutes.
	}, "--keepalive", "1s", "--ka-interval", "1s", "--ka-max-probe-cnt", "3")
}

func killRun(ctx context.Context, t *trial) error {
	t.unit = "kills"
	return t.onBed(ctx, func(b *bed) error {
		for ; t.count < t.n; t.count++ {
			p, err := b.fuzzer(ctx, 0, time.Hour)
			if err != nil {
				return err
			}
			t.soon(200 * time.Millisecond)
			kill(p)
			if err := alone(ctx, self+" fuzz"); err != nil {
				return err
			}
		}
		return nil
	})
}

// alone waits until no process has a command line with that text.
func alone(ctx context.Context, text string) error {
	left := ""
	ctx, cancel := context.WithTimeout(ctx, settles)
	defer cancel()
	return process.Until(ctx, func() (bool, error) {
		left = ""
		for _, line := range processes() {
			if strings.Contains(line, text) {
				left = line
			}
		}
		if left != "" && ctx.Err() != nil {
			return false, fmt.Errorf("a process is left: %s", left)
		}
		return left == "", nil
	})
}

const labYAML = `name: attacked
clock: real
nodes:
  a: {kind: nic, ip: 10.0.0.1/24}
  b: {kind: nic, ip: 10.0.0.2/24}
links:
  - [a, b]
steps:
  - {run: ping -c 2 -i 0.1 10.0.0.2, on: a}
  - {perf: verify, server: a, client: b, size: [8, 4096]}
`

func killLab(ctx context.Context, t *trial) error {
	t.unit = "kills"
	b := &bed{t: t, raw: -1}
	var err error
	if b.Space, err = link.NewSpace(nil); err != nil {
		return err
	}
	defer b.drop()
	file := filepath.Join(t.dir, "lab.yaml")
	if err := os.WriteFile(file, []byte(labYAML), 0o600); err != nil {
		return err
	}
	for ; t.count < t.n; t.count++ {
		p, err := b.start(ctx, "lab", "run", file)
		if err != nil {
			return err
		}
		t.soon(700 * time.Millisecond)
		kill(p)
		if left := strangers(); len(left) > 0 {
			return fmt.Errorf("after a kill: processes are left: %s", strings.Join(left, ", "))
		}
	}
	if _, err := b.run(ctx, "lab", "gc"); err != nil {
		return err
	}
	if _, err := b.run(ctx, "lab", "run", file); err != nil {
		return fmt.Errorf("after the kills: %w", err)
	}
	return errors.Join(rundirEmpty(), tempEmpty(t))
}

func (f *fabric) killManagers(ctx context.Context) error {
	for ; f.t.count < f.t.n; f.t.count++ {
		f.t.soon(150 * time.Millisecond)
		kill(f.em)
		if err := f.gone(ctx, "fabem"); err != nil {
			return err
		}
		if f.t.count%10 == 0 { // without a manager
			if err := f.hosts[0].NS.Do(func() error {
				return exec.Command("ping", "-c1", "-W5",
					"10.2.0.2").Run()
			}); err != nil {
				return fmt.Errorf("the hosts, without a manager: %w", err)
			}
		}
		p, err := f.start(ctx, "em", "-c", f.config)
		if err != nil {
			return err
		}
		f.t.soon(50 * time.Millisecond)
		kill(p)
		if err := f.gone(ctx, "fabem"); err != nil {
			return err
		}
		if err := f.manage(ctx); err != nil {
			return fmt.Errorf("after a kill: %w", err)
		}
	}
	return nil
}

// switched is two hosts with a switch between them.
type switched struct {
	bed
	hosts [2]*link.Space
	args  []string
}

func killSwitch(ctx context.Context, t *trial) (err error) {
	t.unit = "kills"
	s := &switched{bed: bed{t: t, raw: -1}, args: []string{"sw", "--mode", "e2e-tc"}}
	if s.Space, err = link.NewSpace(link.Quiet); err != nil {
		return err
	}
	defer s.drop()
	for i := range s.hosts {
		if s.hosts[i], err = link.NewSpace(link.Quiet); err != nil {
			return err
		}
		defer s.hosts[i].Close()
		s.args = append(s.args, "--port", fmt.Sprintf("eth%d@%s/fd/%d", i, pidDir(os.Getpid()), s.hosts[i].NS.Fd()))
	}
	for ; t.count < t.n; t.count++ {
		if err := s.life(ctx, t.count%10 == 0, 20*time.Millisecond); err != nil {
			return err
		}
		p, err := s.start(ctx, s.args...)
		if err != nil {
			return err
		}
		t.soon(30 * time.Millisecond)
		kill(p)
		if err := s.goneAll(ctx); err != nil {
			return err
		}
	}
	return errors.Join(s.life(ctx, true, 0), rundirEmpty())
}

// life starts the switch, lets the hosts ping if so asked, and kills it within the
// time given, or has it end in order.
func (s *switched) life(ctx context.Context, ping bool, killed time.Duration) error {
	p, err := s.start(ctx, s.args...)
	if err == nil {
		err = p.Await(ctx, "ready")
	}
	for i := 0; i < 2 && err == nil; i++ {
		name := fmt.Sprint("eth", i)
		err = errors.Join(s.hosts[i].Net.AddAddr(name, netip.MustParsePrefix(fmt.Sprintf("10.9.0.%d/24", 1+i))),
			s.hosts[i].Net.Up(name))
	}
	if err != nil {
		return fmt.Errorf("start a switch: %w", err)
	}
	if ping {
		if err := s.hosts[0].NS.Do(func() error {
			return exec.CommandContext(ctx, "ping", "-c1", "-W20", "10.9.0.2").Run()
		}); err != nil {
			return fmt.Errorf("ping through the switch: %w; %s", err, p.Tail())
		}
	}
	if killed == 0 {
		p.Stop()
		return errors.Join(p.Err(), noPanic("sw", p), s.goneAll(ctx))
	}
	s.t.soon(killed)
	kill(p)
	return s.goneAll(ctx)
}

func (s *switched) goneAll(ctx context.Context) error {
	for i := range s.hosts {
		if err := (&bed{Space: s.hosts[i]}).gone(ctx, fmt.Sprint("eth", i)); err != nil {
			return err
		}
	}
	return nil
}

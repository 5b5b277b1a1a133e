package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"tapir/lab/check/attack/hostile"
	"tapir/lab/host/process"
	"tapir/lab/tool/ctl"
	"tapir/nic/uapi/runtimedir"
)

func resourceRows() []row {
	return []row{
		{name: "stop-nic", what: "SIGSTOP of a connected NIC", secs: 30, grows: 32, run: stopNIC},
		{name: "stop-run", what: "SIGSTOP of tapir run and its program amid commands", secs: 30, grows: 32,
			run: stopRun},
		{name: "clock", what: "steps of hardware clocks by up to years, with PTP between them", secs: 12, grows: 32,
			run: stepClocks},
		{name: "time-ns", what: "a NIC whose monotonic clock is years off, in a time namespace", points: 5, grows: 32,
			missing: noTimeNamespace, run: timeNamespace},
		{name: "cgroup", what: "a flooded NIC with 48 MiB by its control group", secs: 12, grows: 32,
			missing: noControlGroup,
			run:     memoryLimit},
		{name: "descriptors", what: "idle connections to the three sockets of a NIC with 256 descriptors", secs: 12,
			grows: 32, run: descriptors},
		{name: "full-disk", what: "captures to, and sockets on, a file system that is full", points: 10, grows: 32,
			run: fullDisk},
		{name: "tap-gone", what: "the TAP of a running NIC removed", points: 20, grows: 32, run: removeTAP},
		{name: "bridge-gone", what: "the bridge between running NICs removed and made again", points: 20, grows: 32,
			run: removeBridge},
	}
}

// stopped stops processes for the time of the trial, in which the innocent go on.
func (b *bed) stopped(ctx context.Context, pids ...int) error {
	b.t.count, b.t.unit = len(pids), "processes stopped for "+b.t.d.String()
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			return err
		}
	}
	begun := time.Now()
	err := b.innocent(ctx)
	if rest := b.t.d - time.Since(begun); rest > 0 && err == nil {
		time.Sleep(rest / 2)
		err = b.innocent(ctx)
		time.Sleep(max(0, b.t.d-time.Since(begun)))
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
	return err
}

func stopNIC(ctx context.Context, t *trial) error {
	return t.onBed(ctx, func(b *bed) error {
		server, err := b.verifyServer(ctx, 0)
		if err != nil {
			return err
		}
		defer server.Stop()
		client, err := b.start(ctx, "verify", "client", "--nic", nicName(2), nicIP(0), "write:1000000:100",
			"read:1000000:100",
			"sleep:600000")
		if err != nil {
			return err
		}
		defer client.Kill()
		t.soon(100 * time.Millisecond)
		if err := b.stopped(ctx, b.nics[nicName(2)].PID()); err != nil {
			return err
		}
		client.Kill()
		_, err = b.job(ctx, 2, "verify", "-s", "4096")
		return err
	})
}

func stopRun(ctx context.Context, t *trial) error {
	return t.onBed(ctx, func(b *bed) error {
		p, err := b.fuzzer(ctx, 0, time.Hour)
		if err != nil {
			return err
		}
		defer p.Kill()
		if err := p.Await(ctx, hostile.Ready); err != nil {
			return err
		}
		var pids []int
		for pid, line := range processes() {
			if strings.Contains(line, self+" fuzz") { // the supervisor, whose command line has it, too
				pids = append(pids, pid)
			}
		}
		if err := b.stopped(ctx, pids...); err != nil {
			return err
		}
		p.Kill()
		return alone(ctx, self+" fuzz")
	})
}

func stepClocks(ctx context.Context, t *trial) error {
	t.unit = "steps"
	return t.onBed(ctx, func(b *bed) error {
		var clients [2]*ctl.Client
		var instances []*process.Process
		for i := range clients {
			p, err := b.start(ctx, "ptp", "run", nicName(i), "--priority1", fmt.Sprint(1+i), "--sync-interval", "-3")
			if err != nil {
				return err
			}
			defer p.Stop()
			instances = append(instances, p)
			if clients[i], err = ctl.Dial(nicName(i)); err != nil {
				return err
			}
			defer clients[i].Close()
		}
		for end := time.Now().Add(t.d); ; time.Sleep(5 * time.Millisecond) {
			c := clients[t.rng.IntN(2)]
			by := t.rng.Int64() >> (2 + t.rng.IntN(60))
			if t.rng.IntN(2) == 0 {
				by = -by
			}
			var err error
			switch t.rng.IntN(3) {
			case 0:
				err = c.PHCSetTime(ctx, by)
			case 1:
				err = c.PHCAdjTime(ctx, by)
			default:
				err = c.PHCAdjFine(ctx, by>>20)
			}
			var refused *ctl.Error
			if err != nil && !errors.As(err, &refused) {
				return fmt.Errorf("step a clock: %w", err)
			}
			if t.count++; ctx.Err() != nil || time.Now().After(end) {
				return errors.Join(ctx.Err(), running(instances...))
			}
		}
	})
}

func noTimeNamespace() string {
	if out, err := exec.Command("unshare", "--time", "--fork", "--monotonic", "1000",
		"true").CombinedOutput(); err != nil {
		return "no time namespaces here: " + strings.TrimSpace(string(out))
	}
	return ""
}

func timeNamespace(ctx context.Context, t *trial) error {
	t.unit = "starts"
	return t.onBed(ctx, func(b *bed) error {
		for ; t.count < t.n; t.count++ {
			if err := errors.Join(b.stopNIC(nicName(2)), b.gone(ctx, tapName(2))); err != nil {
				return err
			}
			seconds := strconv.FormatInt(t.rng.Int64N(50*365*86400), 10)
			p, err := b.exec(ctx, append([]string{"unshare", "--time", "--fork", "--kill-child", "--monotonic", seconds,
				"--boottime", seconds, t.tapir}, nicArgs(2)...)...)
			if err != nil {
				return err
			}
			defer p.Kill()
			err = errors.Join(p.Await(ctx, "ready"), b.AddPort(tapName(2), bridge, 1500))
			if err == nil {
				_, err = b.job(ctx, 2, "verify", "-s", "4096")
			}
			if err != nil {
				return fmt.Errorf("with clocks %s s ahead: %w", seconds, err)
			}
			p.Kill()
			if err := errors.Join(b.gone(ctx, tapName(2)), b.startNIC(ctx, 2)); err != nil {
				return err
			}
		}
		return nil
	})
}

// groupLimit is the memory of a control group.
const groupLimit = 48 << 20

func noControlGroup() string {
	if os.Getenv(cgroupEnv) == "" {
		return "no control group with a limit of memory may be made in /sys/fs/cgroup"
	}
	return ""
}

// memoryLimit floods nic2, whose control group has little memory: it goes on, or
// the kernel ends it and it can be started again.
func memoryLimit(ctx context.Context, t *trial) error {
	return t.onBed(ctx, func(b *bed) error {
		group := os.Getenv(cgroupEnv)
		err := errors.Join(os.WriteFile(groupFile(group), strconv.AppendInt(nil, groupLimit, 10), 0),
			os.WriteFile(group+"/cgroup.procs", strconv.AppendInt(nil, int64(b.nics[nicName(2)].PID()), 10), 0))
		if err != nil {
			return err
		}
		clients := make(chan error, 1)
		within, cancel := context.WithTimeout(ctx, t.d)
		defer cancel()
		server, err := b.verifyServer(ctx, 0)
		if err != nil {
			return err
		}
		defer server.Stop()
		go func() { // each connection takes megabytes at nic2
			_, err := b.run(within, "verify", "client", "--nic", nicName(2), nicIP(0), "-c", "40", "write:100000:4",
				"sleep:600000")
			clients <- err
		}()
		t.unit = "frames"
		err = b.inject(within, b.raw, func() []byte {
			f := fragmentFrame(t.rng)
			mac := nicMAC(2)
			copy(f, mac[:])
			return f
		})
		cancel()
		<-clients
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		// No limit any more: who answers now has survived.
		if err := os.WriteFile(groupFile(group), strconv.AppendInt(nil, 1<<40, 10), 0); err != nil {
			return err
		}
		if _, err := b.run(ctx, "show", nicName(2)); err == nil {
			t.note = "the NIC went on"
			return nil
		}
		t.note = "the kernel ended the NIC"
		p := b.nics[nicName(2)]
		if err := p.Wait(ctx); !p.HasEnded() || p.ExitCode() >= 0 {
			return fmt.Errorf("nic2 does not answer: %w", err)
		}
		return errors.Join(b.gone(ctx, tapName(2)), b.startNIC(ctx, 2))
	})
}

// descriptors takes as many connections as there can be to each socket of nic0, and
// keeps them idle.
func descriptors(ctx context.Context, t *trial) error {
	t.unit = "connections"
	const limit, metrics = 256, "9464"
	return t.onBed(ctx, func(b *bed) error {
		var old unix.Rlimit
		if err := unix.Prlimit(b.nic0(), unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: limit}, &old); err != nil {
			return err
		}
		var taken []net.Conn
		letGo := func() {
			for _, c := range taken {
				c.Close()
			}
			taken = nil
		}
		defer letGo()
		targets := []struct{ network, addr string }{
			{"unix", filepath.Join(runtimedir.Path(), nicName(0)+".sock")},
			{"unixpacket", runtimedir.Programs(nicName(0))},
			{"tcp", "127.0.0.1:" + metrics},
		}
		dialer := net.Dialer{Timeout: 100 * time.Millisecond}
		for end := time.Now().Add(t.d); ; time.Sleep(10 * time.Millisecond) {
			for range 200 {
				to := targets[t.rng.IntN(len(targets))]
				err := b.NS.Do(func() error {
					c, err := dialer.DialContext(ctx, to.network, to.addr)
					if err == nil {
						taken = append(taken, c)
						t.count++
					}
					return err
				})
				if err != nil {
					break // all are taken
				}
			}
			if len(taken) > 3000 { // half of them, so that some are old
				for _, c := range taken[:1500] {
					c.Close()
				}
				taken = append(taken[:0], taken[1500:]...)
			}
			if ctx.Err() != nil || time.Now().After(end) {
				break
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if t.calm { // the time that idle connections are kept is over for the oldest
			if err := b.getsIn(ctx); err != nil {
				return err
			}
		}
		letGo()
		return nil
	}, "--metrics", metrics)
}

// getsIn waits until a command and a program reach nic0.
func (b *bed) getsIn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	for _, args := range [][]string{{"show", nicName(0)}, {"run", "--nic", nicName(0), "--", "true"}} {
		err := process.Until(ctx, func() (bool, error) {
			_, err := b.run(ctx, args...)
			if err != nil && ctx.Err() != nil {
				return false, fmt.Errorf("while the connections are there: %w", err)
			}
			return err == nil, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func fullDisk(ctx context.Context, t *trial) error {
	t.unit = "times"
	return t.onBed(ctx, func(b *bed) error {
		disk := filepath.Join(t.dir, "disk")
		err := os.Mkdir(disk, 0o700)
		if err == nil {
			err = unix.Mount("tmpfs", disk, "tmpfs", 0, "size=64k,nr_inodes=8,mode=700")
		}
		if err != nil {
			return fmt.Errorf("mount a small tmpfs: %w", err)
		}
		defer func() { _ = unix.Unmount(disk, unix.MNT_DETACH) }()
		for ; t.count < t.n; t.count++ {
			file := filepath.Join(disk, "capture.pcapng")
			p, err := b.start(ctx, "capture", nicName(0), "-w", file, "-s", "0")
			if err != nil {
				return err
			}
			defer p.Kill()
			_ = process.Until(ctx, func() (bool, error) {
				_, err := os.Stat(file)
				return err == nil || p.HasEnded(), nil
			})
			if _, err := b.job(ctx, 2, "verify", "-s", "100000"); err != nil {
				return err
			}
			p.Stop()
			if p.Err() == nil || !strings.Contains(p.Said(), "space") {
				return fmt.Errorf("a capture to a full disk: %v: %s", p.Err(), p.Tail())
			}
			if err := b.fullRundir(ctx, disk, t.count%2 == 0); err != nil {
				return err
			}
			if err := os.Remove(file); err != nil {
				return err
			}
		}
		return nil
	})
}

// fullRundir starts a NIC whose sockets have no room: it says so, or works.
func (b *bed) fullRundir(ctx context.Context, disk string, inodes bool) error {
	fill := filepath.Join(disk, "fill")
	_ = os.WriteFile(fill, bytes.Repeat([]byte("x"), 64<<10), 0o600) // as far as it goes
	defer os.Remove(fill)
	for i := 0; inodes && i < 8; i++ {
		name := filepath.Join(disk, strconv.Itoa(i))
		_ = os.WriteFile(name, nil, 0o600) // as far as it goes
		defer os.Remove(name)
	}
	p, err := process.Start(ctx, b.NS, process.Options{Argv: append([]string{b.t.tapir}, nicArgs(3)...),
		Env: []string{"XDG_RUNTIME_DIR=" + disk}})
	if err != nil {
		return err
	}
	err = p.Await(ctx, "ready")
	p.Stop()
	if err != nil && !strings.Contains(p.Said(), "space") {
		return fmt.Errorf("a NIC with a full directory of sockets: %w", err)
	}
	return errors.Join(noPanic(nicName(3), p), b.gone(ctx, tapName(3)), onlyThere(filepath.Join(disk, "tapir")))
}

func removeTAP(ctx context.Context, t *trial) error {
	t.unit = "times"
	return t.onBed(ctx, func(b *bed) error {
		for ; t.count < t.n; t.count++ {
			client, err := b.start(ctx, "perf", "write-bw", "--nic", nicName(2), nicIP(1))
			if err != nil {
				return err
			}
			t.soon(50 * time.Millisecond)
			p := b.nics[nicName(2)]
			if err := b.Net.Delete(tapName(2)); err != nil {
				return err
			}
			within, cancel := context.WithTimeout(ctx, answersWithin)
			err = p.Wait(within)
			cancel()
			if !p.HasEnded() {
				return errors.New("a NIC without its TAP does not end")
			}
			if err == nil || !strings.Contains(p.Said(), tapName(2)) {
				return fmt.Errorf("a NIC without its TAP: %v: %s", err, p.Tail())
			}
			client.Stop()
			if err := errors.Join(noPanic(nicName(2), p), b.startNIC(ctx, 2)); err != nil {
				return err
			}
		}
		_, err := b.job(ctx, 2, "verify", "-s", "4096")
		return err
	})
}

func removeBridge(ctx context.Context, t *trial) error {
	t.unit = "times"
	return t.onBed(ctx, func(b *bed) error {
		for ; t.count < t.n; t.count++ {
			err := b.Net.Delete(bridge)
			t.soon(50 * time.Millisecond)
			err = errors.Join(err, b.addBridge(), b.Net.Join(attacker+"p", bridge))
			for i := range 3 {
				err = errors.Join(err, b.Net.Join(tapName(i), bridge))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"tapir/lab/check/attack/fuse"
	"tapir/lab/host/process"
	"tapir/lab/tool/perf"
	"tapir/nic/uapi/ipc"
	"tapir/nic/uapi/relay"
	"tapir/nic/uapi/runtimedir"
	"tapir/nic/umode/proxy"
)

//go:embed testdata/hold.c
var holdSource []byte

func holdRows() []row {
	return []row{
		{name: "userfaultfd",
			what: "a program whose memory is withheld by userfaultfd: a command, the source of a Write, " +
				"the sink of a Read", secs: 20, grows: 48, missing: noHold(noUserfaultfd), run: holdUserfaultfd},
		{name: "fuse",
			what: "the same with memory of a FUSE file that never answers, and that file as memory of a Go program",
			secs: 20, grows: 48, missing: noHold(fuse.Missing), run: holdFUSE},
		{name: "fuse-race",
			what: "a program that serves such a file itself and maps it at the moment of the NIC's access",
			secs: 20, grows: 48, missing: noHold(fuse.Missing), run: raceFUSE},
		{name: "memfd", what: "shared memory of a Go program that it truncates and punches holes into", points: 50,
			grows: 48,
			run:   spoilMemory},
	}
}

// noHold also says that the program cannot be compiled.
func noHold(other func() string) func() string {
	return func() string {
		if _, err := exec.LookPath("gcc"); err != nil {
			return "gcc is missing"
		}
		if _, err := os.Stat("/usr/include/rdma/rdma_verbs.h"); err != nil {
			return "librdmacm-dev is missing"
		}
		return other()
	}
}

func noUserfaultfd() string {
	fd, _, err := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC, 0, 0)
	if err != 0 {
		return fmt.Sprintf("userfaultfd of faults in the kernel: %v", err)
	}
	_ = unix.Close(int(fd))
	return ""
}

func holdUserfaultfd(ctx context.Context, t *trial) error {
	return t.onBed(ctx, func(b *bed) error {
		if err := b.latency(ctx, "before"); err != nil {
			return err
		}
		p, err := b.hold(ctx, "uffd", nicIP(1), "race")
		if err == nil {
			err = b.whileHeld(ctx, p)
		}
		return err
	})
}

func holdFUSE(ctx context.Context, t *trial) error {
	return t.onBed(ctx, func(b *bed) error {
		dir := filepath.Join(t.dir, "fuse")
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		f, err := fuse.Mount(dir)
		if err != nil {
			return err
		}
		defer f.Unmount()
		defer f.Leave()
		memory := filepath.Join(dir, "memory")
		fd, err := unix.Open(memory, unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := share(fd, fuse.Size, nil); err == nil {
			return errors.New("a FUSE file is taken as memory")
		} else if !errors.As(err, new(syscall.Errno)) {
			return err
		}
		if err := b.latency(ctx, "before"); err != nil {
			return err
		}
		p, err := b.hold(ctx, memory, nicIP(1))
		if err == nil {
			err = b.whileHeld(ctx, p)
		}
		t.note += fmt.Sprintf(", %d reads of the file", f.Held.Load())
		return err
	})
}

// raceFUSE has the program serve its file itself, and change mappings while the NIC
// reads them: the NIC's process kills it when a thread of a NIC waits for it.
func raceFUSE(ctx context.Context, t *trial) error {
	t.unit = "programs"
	return t.onBed(ctx, func(b *bed) error {
		killed := 0
		for end := time.Now().Add(t.d); ; {
			dir := filepath.Join(t.dir, fmt.Sprint("fuse", t.count))
			if err := os.Mkdir(dir, 0o700); err != nil {
				return err
			}
			f, err := fuse.Mount(dir)
			if err != nil {
				return err
			}
			p, err := b.hold(ctx, filepath.Join(dir, "memory"), nicIP(1), "race", fmt.Sprint(os.Getpid()),
				fmt.Sprint(f.Descriptor()))
			f.Leave()
			if err == nil {
				select {
				case <-p.Ended():
					killed++
				case <-time.After(min(2*time.Second, t.d)):
				}
				p.Kill()
			}
			f.Unmount()
			if err = errors.Join(err, b.innocent(ctx)); err != nil {
				return err
			}
			t.count++
			t.note = fmt.Sprintf("the NIC's process killed %d", killed)
			if ctx.Err() != nil || time.Now().After(end) {
				return ctx.Err()
			}
		}
	})
}

// hold starts the program on nic0, connected to a server at nic1, and waits until
// its memory is waited for.
func (b *bed) hold(ctx context.Context, how ...string) (*process.Process, error) {
	program := filepath.Join(b.t.dir, "hold")
	if err := os.WriteFile(program+".c", holdSource, 0o600); err != nil {
		return nil, err
	}
	if _, err := os.Stat(program); err == nil {
		// It is compiled already, and the server is there.
	} else if out, err := exec.CommandContext(ctx, "gcc", "-O1", "-o", program, program+".c", "-lrdmacm", "-libverbs",
		"-lpthread").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("gcc: %w: %s", err, out)
	} else if _, err := b.verifyServer(ctx, 1); err != nil { // which ends with its NIC
		return nil, err
	}
	p, err := b.start(ctx, slices.Concat([]string{"run", "--nic", nicName(0), "--", program}, how)...)
	if err == nil {
		within, cancel := context.WithTimeout(ctx, answersWithin)
		defer cancel()
		if err = p.Await(within, "held"); err != nil {
			p.Kill()
		}
	}
	return p, err
}

// whileHeld measures while the program holds its memory back, and ends it.
func (b *bed) whileHeld(ctx context.Context, p *process.Process) error {
	b.t.count, b.t.unit = 1, "program for "+b.t.d.Round(time.Second/10).String()
	begun := time.Now()
	err := b.latency(ctx, "held")
	if err == nil {
		err = b.innocent(ctx)
	}
	time.Sleep(max(0, b.t.d-time.Since(begun)))
	if p.HasEnded() {
		err = errors.Join(err, fmt.Errorf("the program has ended: %s", p.Tail()))
	}
	p.Kill()
	return err
}

// latencyBound is the innocent's, on a machine that is idle otherwise; on others
// what was measured before the attack counts, times three.
const latencyBound = time.Millisecond

// latency measures the 99.9th percentile of a Write between nic0 and nic1: the best
// of some measurements, as other programs of the machine spoil some.
func (b *bed) latency(ctx context.Context, when string) error {
	n, rounds := "2000", 1
	if b.t.calm {
		n, rounds = "20000", 5
	}
	p999 := time.Hour
	for range rounds {
		said, err := b.job(ctx, 1, "write-lat", "-n", n, "--json")
		if err != nil {
			return fmt.Errorf("latency %s: %w", when, err)
		}
		var report perf.Report
		said = said[max(0, strings.Index(said, "{\n")):] // behind lines of progress
		if err := json.Unmarshal([]byte(said), &report); err != nil || report.Latency == nil {
			return fmt.Errorf("latency %s: %w: %s", when, err, said)
		}
		p999 = min(p999, report.Latency.P999)
	}
	if b.t.note == "" {
		b.t.base, b.t.note = p999, fmt.Sprintf("innocent's p99.9 %v", p999.Round(time.Microsecond))
		return nil
	}
	b.t.note += fmt.Sprintf(", %v while held", p999.Round(time.Microsecond))
	if b.t.calm && p999 > max(latencyBound, 3*b.t.base) {
		return errors.New(b.t.note)
	}
	return nil
}

// share offers a file as memory, as a Go program does that uses nic0. then, if not
// nil, goes on with the connection.
func share(fd int, size uint64, then func() error) error {
	conn, _, err := relay.Greet(context.Background(), runtimedir.Programs(nicName(0)),
		relay.Ask{NICs: []string{nicName(0)}, Messages: true})
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	r := proxy.Request{Kind: proxy.Share, Addr: 1 << 32, Size: size}
	if _, _, err := conn.WriteMsgUnix(r.Append(nil), ipc.Rights(fd), nil); err != nil {
		return err
	}
	buf := make([]byte, proxy.MaxMessage)
	n, err := conn.Read(buf)
	if err != nil {
		return fmt.Errorf("share memory: %w", err)
	}
	a, err := proxy.ParseAnswer(buf[:n])
	switch {
	case err != nil:
		return err
	case a.Errno != 0:
		return syscall.Errno(a.Errno)
	case then != nil:
		return then()
	}
	return nil
}

// spoilMemory shares memory that is not sealed, or sealed in part, or of another
// size, and takes it away.
func spoilMemory(ctx context.Context, t *trial) error {
	t.unit = "files"
	return t.onBed(ctx, func(b *bed) error {
		for ; t.count < t.n && ctx.Err() == nil; t.count++ {
			fd, err := unix.MemfdCreate("attack", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
			if err != nil {
				return err
			}
			const size = 1 << 20
			have := []int64{size, size, 0, 4096, 1 << 40}[t.rng.IntN(5)]
			seals := t.rng.IntN(16)
			_ = unix.Ftruncate(fd, have) // as far as it goes
			_, _ = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
			err = share(fd, size, func() error {
				_ = unix.Ftruncate(fd, 0)
				_ = unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, size)
				return nil
			})
			_ = unix.Close(fd)
			if err != nil && !errors.As(err, new(syscall.Errno)) && !strings.Contains(err.Error(), "EOF") {
				return err
			}
		}
		return ctx.Err()
	})
}

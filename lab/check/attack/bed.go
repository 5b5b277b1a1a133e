package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"tapir/lab/host/link"
	"tapir/lab/host/process"
	"tapir/nic/uapi/runtimedir"
	"tapir/wire/ether"
)

// bed is a network namespace with a bridge: nic0, which is attacked, and nic1,
// innocent; the attacker's nic2; and the kernel, the attacker's too, with an
// interface for raw frames.
type bed struct {
	*link.Space
	t    *trial
	nics map[string]*process.Process
	raw  int // socket of the attacker's interface
}

// Names and addresses; NIC number i has 10.0.0.1+i and fd00::1+i.
const (
	bridge   = "br0"
	attacker = "atk"
	kernelIP = "10.0.0.100"
)

func nicIP(i int) string       { return fmt.Sprintf("10.0.0.%d", 1+i) }
func nicMAC(i int) ether.Addr  { return ether.Addr{2, 0, 0, 0, 0, byte(1 + i)} }
func nicName(i int) string     { return "nic" + strconv.Itoa(i) }
func tapName(i int) string     { return "tap" + strconv.Itoa(i) }
func (b *bed) nic0() int       { return b.nics[nicName(0)].PID() }
func mac(a ether.Addr) string  { return net.HardwareAddr(a[:]).String() }
func pidDir(pid int) string    { return "/proc/" + strconv.Itoa(pid) }
func rundirEmpty() error       { return onlyThere(runtimedir.Path()) }
func tempEmpty(t *trial) error { return onlyThere(os.TempDir(), filepath.Base(t.dir)) }

// newBed makes a bed with all NICs. extra are further flags of nic0.
func newBed(ctx context.Context, t *trial, extra ...string) (b *bed, err error) {
	b = &bed{t: t, nics: map[string]*process.Process{}, raw: -1}
	if b.Space, err = link.NewSpace(nil); err != nil {
		return nil, err
	}
	err = errors.Join(b.Net.Up("lo"), b.addBridge(), b.Net.AddVeth(attacker, b.Net, attacker+"p"),
		b.Net.Up(attacker), b.Net.Up(attacker+"p"), b.Net.Join(attacker+"p", bridge))
	if err == nil {
		b.raw, err = b.packetSocket(attacker)
	}
	for i := 0; i < 3 && err == nil; i++ {
		if i == 0 {
			err = b.startNIC(ctx, i, extra...)
		} else {
			err = b.startNIC(ctx, i)
		}
	}
	if err == nil {
		err = b.innocent(ctx) // so that everything that is kept is there
	}
	if err != nil {
		b.drop()
		return nil, err
	}
	t.before = rss(b.nic0())
	return b, nil
}

func (b *bed) addBridge() error {
	return errors.Join(b.Net.AddBridge(bridge), b.Net.AddAddr(bridge, netip.MustParsePrefix(kernelIP+"/24")))
}

// packetSocket returns a socket for whole frames of an interface.
func (b *bed) packetSocket(name string) (fd int, err error) {
	err = b.NS.Do(func() error {
		i, err := net.InterfaceByName(name)
		if err != nil {
			return err
		}
		all := int(syscall.ETH_P_ALL&0xff)<<8 | syscall.ETH_P_ALL>>8 // big-endian
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all); err != nil {
			return err
		}
		wait := unix.Timeval{Usec: 20_000}
		return errors.Join(unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: i.Index, Protocol: uint16(all)}),
			unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait))
	})
	return fd, err
}

// goLimit has Go's runtime collect garbage and give memory back where it needs more:
// what is used beyond is in use.
const goLimit = "GOMEMLIMIT=64MiB"

// start starts tapir in the bed's namespace.
func (b *bed) start(ctx context.Context, args ...string) (*process.Process, error) {
	return b.exec(ctx, append([]string{b.t.tapir}, args...)...)
}

func (b *bed) exec(ctx context.Context, argv ...string) (*process.Process, error) {
	p, err := process.Start(ctx, b.NS, process.Options{Argv: argv, Env: []string{goLimit}})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(argv[0]), err)
	}
	return p, nil
}

// nicArgs is the command line of a NIC.
func nicArgs(i int, extra ...string) []string {
	return append([]string{"nic", "--name", nicName(i), "--tap", tapName(i), "--ip", nicIP(i) + "/24", "--ip6",
		fmt.Sprintf("fd00::%d/64", 1+i), "--mac", mac(nicMAC(i)), "-v"}, extra...)
}

// startNIC starts a NIC and joins its TAP to the bridge.
func (b *bed) startNIC(ctx context.Context, i int, extra ...string) error {
	p, err := b.start(ctx, nicArgs(i, extra...)...)
	if err == nil {
		b.nics[nicName(i)] = p
		err = p.Await(ctx, "ready")
	}
	if err == nil {
		err = b.AddPort(tapName(i), bridge, 1500)
	}
	if err != nil {
		return fmt.Errorf("start %s: %w", nicName(i), err)
	}
	return nil
}

// run runs a command of tapir to its end.
func (b *bed) run(ctx context.Context, args ...string) (string, error) {
	p, err := b.start(ctx, args...)
	if err == nil {
		err = p.Wait(ctx)
	}
	if err != nil {
		if p != nil {
			p.Kill()
			err = fmt.Errorf("tapir %s: %w: %s", strings.Join(args, " "), err, p.Tail())
		}
		return "", err
	}
	return p.Said(), nil
}

// job runs a workload between nic0, which serves, and the client, and returns what
// the client says.
func (b *bed) job(ctx context.Context, client int, test string, flags ...string) (string, error) {
	server, err := b.start(ctx, append([]string{"perf", test, "--nic", nicName(0)}, flags...)...)
	if err != nil {
		return "", err
	}
	defer server.Kill()
	if err := server.Await(ctx, "serves"); err != nil {
		return "", err
	}
	said, err := b.run(ctx, append([]string{"perf", test, "--nic", nicName(client), nicIP(0)}, flags...)...)
	if err != nil {
		return "", fmt.Errorf("%w; the server: %s", err, server.Tail())
	}
	return said, server.Wait(ctx)
}

// answersWithin is how long an attacked NIC may take until it answers again: a
// neighbor's wrong address is found out by RFC 4861 within 8 s, while TCP backs off.
const answersWithin = 2 * time.Minute

// innocent is the first half of the judge: nic0 answers the kernel, and moves
// verified data with nic1.
func (b *bed) innocent(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	for {
		err := b.NS.Do(func() error {
			out, err := exec.CommandContext(ctx, "ping", "-c1", "-W1", nicIP(0)).CombinedOutput()
			if err != nil {
				return fmt.Errorf("ping: %w: %s", err, out)
			}
			return nil
		})
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return err
		}
	}
	said, err := b.job(ctx, 1, "verify", "-s", "8,4096,100000")
	if err == nil && strings.Count(said, "true") != 9 {
		err = fmt.Errorf("verify: %s", said)
	}
	return err
}

// judge ends the bed and tells what the attack has broken.
func (b *bed) judge(ctx context.Context) error {
	defer b.drop()
	err := b.innocent(ctx)
	if ctx.Err() != nil {
		return cmp.Or(err, ctx.Err())
	}
	b.t.after = b.settledRSS()
	if b.t.after > b.t.before+b.t.grows<<10 {
		err = errors.Join(err, fmt.Errorf("memory has grown by %d MiB, at most %d are allowed",
			(b.t.after-b.t.before)>>10, b.t.grows))
	}
	for i := 2; i > 0; i-- { // in order
		err = errors.Join(err, b.stopNIC(nicName(i)))
	}
	err = errors.Join(err, b.dump(), onlyThere(runtimedir.Path(), nicName(0)+".sock", nicName(0)+".run"))
	return errors.Join(err, tempEmpty(b.t))
}

// settledRSS is the memory of nic0 when what was freed has gone back, or does not
// go: the runtime returns it in the background.
func (b *bed) settledRSS() (now int) {
	for deadline := time.Now().Add(settles); ; time.Sleep(100 * time.Millisecond) {
		now = rss(b.nic0())
		if now <= b.t.before+b.t.grows<<10 || time.Now().After(deadline) {
			return now
		}
	}
}

// rss is the resident set of a process in KiB.
func rss(pid int) int {
	text, _ := os.ReadFile(pidDir(pid) + "/status")
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmRSS:" {
			n, _ := strconv.Atoi(f[1])
			return n
		}
	}
	return 0
}

// stopNIC ends a NIC as Ctrl-C does.
func (b *bed) stopNIC(name string) error {
	p := b.nics[name]
	if p == nil {
		return nil
	}
	delete(b.nics, name)
	if p.HasEnded() {
		return fmt.Errorf("%s has ended: %w: %s", name, p.Err(), p.Tail())
	}
	p.Stop()
	return errors.Join(noPanic(name, p), p.Err())
}

// running tells which processes have ended.
func running(list ...*process.Process) (err error) {
	for _, p := range list {
		if p.HasEnded() {
			err = errors.Join(err, fmt.Errorf("a process has ended: %w: %s", p.Err(), p.Tail()))
		}
	}
	return err
}

// noPanic looks for a panic in what a process has said.
func noPanic(name string, p *process.Process) error {
	for _, bad := range []string{"panic: ", "fatal error: ", "runtime error: ", "DATA RACE"} {
		if at := strings.Index(p.Said(), bad); at >= 0 {
			return fmt.Errorf("%s: %s", name, p.Said()[at:min(len(p.Said()), at+1500)])
		}
	}
	return nil
}

// idle is how many goroutines more than its NICs, sockets and the runtime need a
// NIC has that does nothing, at most: those of HTTP that end just now.
const idle = 24

// dump ends nic0 as a panic would: its goroutines are printed, and judged.
func (b *bed) dump() error {
	p := b.nics[nicName(0)]
	delete(b.nics, nicName(0))
	if p.HasEnded() {
		return fmt.Errorf("nic0 has ended: %w: %s", p.Err(), p.Tail())
	}
	err := noPanic("nic0", p)
	_ = syscall.Kill(p.PID(), syscall.SIGQUIT)
	<-p.Ended()
	n := strings.Count(p.Said(), "\ngoroutine ")
	if n == 0 {
		return errors.Join(err, errors.New("nic0 prints no goroutines at SIGQUIT"))
	}
	if n > idle {
		err = errors.Join(err, fmt.Errorf("nic0 has %d goroutines: %s", n, p.Tail()))
	}
	return err
}

// drop ends what is left of a bed.
func (b *bed) drop() {
	for _, p := range b.nics {
		p.Kill()
	}
	if b.raw >= 0 {
		_ = unix.Close(b.raw)
	}
	b.Space.Close()
	b.nics = nil
}

// onlyThere tells of files in dir but for those named.
func onlyThere(dir string, but ...string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if !slices.Contains(but, e.Name()) {
			err = errors.Join(err, fmt.Errorf("%s is left", filepath.Join(filepath.Base(dir), e.Name())))
		}
	}
	return err
}

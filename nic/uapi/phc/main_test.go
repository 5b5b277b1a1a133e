package phc

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tapir/lab/check/linuxptp"
	"tapir/lab/check/testenv"
	"tapir/lab/host/netns"
	"tapir/nic/ptp"
	"tapir/nic/uapi/trap"
	"tapir/nic/uapi/trap/traptest"
	"tapir/ptp/clock"
	"tapir/wire/frame"
)

func TestMain(m *testing.M) { traptest.Main(m, programs, traptest.Nothing) }

// local is a Clock over a PHC of this process, whose engine time is
// CLOCK_REALTIME.
type local struct {
	mu  sync.Mutex
	phc *clock.PHC
}

// newLocal starts a clock that is off by ppb and offset.
func newLocal(t testing.TB, ppb float64, offset time.Duration) *local {
	t.Helper()
	now := frame.Time(time.Now().UnixNano())
	phc, err := clock.New(clock.Config{Oscillator: clock.Oscillator{PPB: ppb, WhiteFM: 0.5}, Start: now, Initial: frame.Stamp(int64(now) + int64(offset))})
	if err != nil {
		t.Fatal(err)
	}
	return &local{phc: phc}
}

func (l *local) on(fn func(now frame.Time)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fn(frame.Time(time.Now().UnixNano()))
}

func (l *local) MaxAdj() (int64, error) { return l.phc.MaxAdj(), nil }

func (l *local) Time() (ns int64, err error) {
	l.on(func(now frame.Time) { ns = int64(l.phc.Now(now)) })
	return ns, nil
}

func (l *local) SetTime(ns int64) (err error) {
	l.on(func(now frame.Time) { err = l.phc.SetTime(now, frame.Stamp(ns)) })
	return err
}

func (l *local) AdjTime(ns int64) (err error) {
	l.on(func(now frame.Time) { err = l.phc.AdjTime(now, time.Duration(ns)) })
	return err
}

func (l *local) AdjFine(f int64) (err error) {
	l.on(func(now frame.Time) { err = l.phc.AdjFine(now, f) })
	if err != nil {
		return unix.ERANGE
	}
	return nil
}

func (l *local) Frequency() (f int64, err error) {
	l.on(func(frame.Time) { f = l.phc.Frequency() })
	return f, nil
}

func (l *local) Samples(n int) (list []Sample, err error) {
	for range n {
		l.on(func(now frame.Time) {
			list = append(list, Sample{int64(now), int64(l.phc.Now(now + 10)), int64(now) + 20})
		})
	}
	return list, nil
}

func (l *local) At(realtime int64) (ns int64, err error) {
	l.on(func(frame.Time) { ns = int64(l.phc.At(frame.Time(realtime))) })
	return ns, nil
}

// offset is how far the clock is ahead of the system's: the truth.
func (l *local) offset() (ns int64) {
	l.on(func(now frame.Time) { ns = int64(l.phc.Now(now)) - int64(now) })
	return ns
}

// world is two namespaces with a veth pair: "sys" keeps the system's time,
// "dut" is where the hardware clock is.
type world struct {
	sys, dut *netns.NS
	clock    *local
	stamps   *Mapped
	handler  *Handler
	device   Device
	via      trap.Via
}

const dutNetdev = "dut0"

func newWorld(t testing.TB, ppb float64, offset time.Duration) *world {
	t.Helper()
	w := &world{clock: newLocal(t, ppb, offset)}
	for _, ns := range []**netns.NS{&w.sys, &w.dut} {
		*ns = testenv.Space(t, nil).NS
	}
	w.ip(t, w.sys, "link add sys0 type veth peer name %s netns /proc/%d/fd/%d", dutNetdev, os.Getpid(), w.dut.Fd())
	for i, ns := range []*netns.NS{w.sys, w.dut} {
		dev := []string{"sys0", dutNetdev}[i]
		for _, s := range []string{"ipv6/conf/all/accept_dad", "ipv6/conf/" + dev + "/accept_dad"} {
			if err := ns.Sysctl(s, "0"); err != nil {
				t.Fatal(err)
			}
		}
		w.ip(t, ns, "addr add 10.9.0.%d/24 dev %s", i+1, dev)
		w.ip(t, ns, "link set %s up", dev)
		w.ip(t, ns, "link set lo up")
	}
	w.serve(ptp.Faults{})
	return w
}

// serve makes the handler anew.
func (w *world) serve(faults ptp.Faults) {
	w.stamps = NewMapped(w.clock, faults)
	w.device = Device{Index: testIndex, Clock: w.clock, Netdevs: map[string]Netdev{dutNetdev: w.stamps}, PPS: true}
	w.handler = New(w.device)
}

// testIndex is far from the numbers that a machine's own clocks have.
const testIndex = 7

func (w *world) ip(t testing.TB, ns *netns.NS, format string, args ...any) {
	t.Helper()
	cmd := exec.Command("ip", strings.Fields(fmt.Sprintf(format, args...))...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	err := ns.Start(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out.String())
	}
}

// program is a running program under the supervisor.
type program struct {
	*trap.Program
	mu    sync.Mutex
	lines []string
	news  chan struct{}
	ended bool
}

// run starts a program in the namespace of the hardware clock. Its end is
// awaited when the test ends; ptp programs are told to end then.
func (w *world) run(t testing.TB, argv ...string) *program {
	t.Helper()
	if strings.HasPrefix(argv[0], traptest.Program) {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		argv = append([]string{self}, argv...)
	}
	file, err := linuxptp.Find(argv[0])
	if err != nil {
		t.Fatal(err)
	}
	r, pw, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	enter := []string{"nsenter", fmt.Sprintf("--net=/proc/%d/fd/%d", os.Getpid(), w.dut.Fd()), "--", file}
	p := &program{news: make(chan struct{}, 1)}
	p.Program, err = trap.Start(trap.Options{Argv: append(enter, argv[1:]...), Dir: t.TempDir(), Stdout: pw, Stderr: pw, Handlers: []trap.Handler{w.handler},
		Via: w.via, Logf: t.Logf})
	pw.Close()
	if err != nil {
		t.Fatal(err)
	}
	go p.read(r)
	t.Cleanup(func() {
		defer testenv.Guard(t, p.PID(), nil)()
		_ = p.Signal(unix.SIGTERM)
		_, _ = p.Wait()
	})
	return p
}

func (p *program) read(r *os.File) {
	defer r.Close()
	for s := bufio.NewScanner(r); s.Scan(); p.poke() {
		p.mu.Lock()
		p.lines = append(p.lines, s.Text())
		p.mu.Unlock()
	}
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.poke()
}

func (p *program) poke() {
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// await waits for a state of the program's output; nil: its end.
func (p *program) await(t testing.TB, what string, done func(linuxptp.Log) bool) linuxptp.Log {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		p.mu.Lock()
		ended := p.ended
		p.mu.Unlock()
		lines := linuxptp.Log(p.text())
		if ended && done == nil || done != nil && done(lines) {
			return lines
		}
		if ended || ctx.Err() != nil {
			t.Fatalf("waiting for %s (%d): ended %v, %v\n%s", what, p.PID(), ended, ctx.Err(), strings.Join(lines, "\n"))
		}
		select {
		case <-p.news:
		case <-ctx.Done():
		}
	}
}

// text is what the program has printed so far.
func (p *program) text() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.lines)
}

// awaitLine waits for a line.
func (p *program) awaitLine(t testing.TB, line string) {
	t.Helper()
	p.await(t, line, func(l linuxptp.Log) bool { return slices.Contains(l, line) })
}

// output runs a program to its end.
func (w *world) output(t testing.TB, argv ...string) string {
	t.Helper()
	return strings.Join(w.run(t, argv...).await(t, "its end", nil), "\n")
}

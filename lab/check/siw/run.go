package siw

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"tapir/lab/conf/perfconf"
	"tapir/lab/tool/perf"
	"tapir/lab/tool/verify"
	"tapir/wire/frame"
)

// An emulated guest is slow, and on a loaded machine may stand still for many
// seconds. patience bounds one cell and stepPatience one step of it.
const (
	patience     = 3 * time.Minute
	stepPatience = time.Minute
)

// linger bounds how long the server ends after the client.
func (c *Cell) linger() time.Duration {
	says := c.GuestSays
	if c.NICServes {
		says = c.NICSays
	}
	if says == anything {
		return 6 * time.Second // it may wait for a better client
	}
	return stepPatience
}

// Result is what a cell came to.
type Result struct {
	Cell    Cell
	Capture string // file, until Judge has seen it
	Took    time.Duration
	NIC     string // the NIC's report, as JSON
	Guest   string // what the guest's program said
	Verdict Verdict
	Err     error // nil: as it should be
}

// guestEnd is how the guest's program ended.
type guestEnd struct {
	code int
	said string
	err  error
}

// nicEnd is how the NIC's side ended.
type nicEnd struct {
	report any
	err    error
}

// Run runs one cell. The capture waits for Judge.
func (w *World) Run(ctx context.Context, c Cell) (r Result) {
	r.Cell = c
	begun := time.Now()
	defer func() { r.Took = time.Since(begun) }()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if r.Err = errors.Join(w.loadDriver(ctx, &c), w.Guest.SetMTU(ctx, c.mtu())); r.Err != nil {
		return r
	}
	port := w.nextPort()
	n, err := w.startNIC(ctx, &c, port)
	if err != nil {
		r.Err = err
		return r
	}
	file := filepath.Join(w.dir, fmt.Sprintf("%d.pcap", port))
	d, err := w.capture(ctx, n.Name(), file, &c)
	if err != nil {
		r.Err = errors.Join(err, n.Close())
		return r
	}
	r.Capture = file
	nic, guest, err := w.tries(ctx, n, &c, port)
	r.Err = errors.Join(err, c.check(nic, guest), n.Close())
	time.Sleep(settle)
	if err := d.Stop(); err != nil {
		r.Err = errors.Join(r.Err, fmt.Errorf("tcpdump %w", err))
	}
	report, _ := json.Marshal(nic.report) // plain structs cannot fail
	r.NIC, r.Guest = string(report), guest.said
	return r
}

// exchange starts the server, then the client, and waits for both.
func (w *World) exchange(ctx context.Context, n *nic, c *Cell, port uint16) (nicEnd, guestEnd) {
	var nic nicEnd
	var guest guestEnd
	inner, stop := context.WithCancel(ctx)
	defer stop()
	p := newProgress(ctx)
	var both sync.WaitGroup
	runGuest := func() { guest = w.runGuest(inner, c, port, p) }
	runNIC := func() { nic = runNIC(inner, n, c, port, p) }
	if c.Program != nil {
		runNIC = func() { nic = w.runProgram(inner, n, c, port, p) }
	}
	server, client := runGuest, runNIC
	if c.NICServes {
		server, client = runNIC, runGuest
	}
	served := make(chan struct{})
	both.Go(func() { defer close(served); server() })
	select {
	case <-p.listening.Done():
		client()
		if c.Program != nil && c.Program.Stays || c.missed(&nic, &guest) {
			stop()
		}
	case <-served:
	}
	// A server that the client has not reached, or that waits for a better
	// one, ends here.
	select {
	case <-served:
	case <-time.After(c.linger()):
		stop()
	}
	both.Wait()
	return nic, guest
}

// progress is what one side waits to see of the other: that the server listens,
// and that the client has finished a step.
type progress struct {
	listening, stepped context.Context // ended by the functions below
	listens, steps     context.CancelFunc
}

func newProgress(ctx context.Context) *progress {
	p := &progress{}
	p.listening, p.listens = context.WithCancel(context.WithoutCancel(ctx))
	p.stepped, p.steps = context.WithCancel(context.WithoutCancel(ctx))
	return p
}

// look is how often a NIC is asked for what is waited for.
const look = 20 * time.Millisecond

// runNIC runs the NIC's side.
func runNIC(ctx context.Context, n *nic, c *Cell, port uint16, p *progress) nicEnd {
	ended := make(chan nicEnd, 1)
	var j job
	var err error
	loopErr := n.DoWait(func(now frame.Time) { j, err = start(n, c, port, now, ended) })
	if err = errors.Join(err, loopErr); err != nil {
		return nicEnd{err: err}
	}
	p.listens()
	var stopped <-chan struct{}
	if c.StopNIC {
		stopped = p.stepped.Done()
	}
	tick := time.NewTicker(look)
	defer tick.Stop()
	for done := ctx.Done(); ; {
		select {
		case e := <-ended:
			return e
		case <-tick.C:
			n.Do(func(frame.Time) {
				if j.steps() > 0 {
					p.steps()
				}
			})
		case <-stopped:
			n.Do(n.Device.Abort)
			stopped = nil
			n.Do(j.cancel)
		case <-done:
			done = nil
			n.Do(j.cancel)
		}
	}
}

// job is what runs on the NIC. Its functions belong to the NIC's loop.
type job struct {
	cancel func(frame.Time)
	steps  func() int // that are finished
}

// start begins the NIC's program on its loop.
func start(n *nic, c *Cell, port uint16, now frame.Time, ended chan<- nicEnd) (job, error) {
	server, _ := c.addresses()
	if c.Rping {
		ping := perfconf.Job{Op: perfconf.Rping, Port: port}
		if !c.NICServes {
			ping.Remote, ping.Size, ping.Iters = server, c.Job.Receives, int64(c.Job.Conns)
		}
		run, err := perf.Start(n.Device, ping, now, func(r perf.Report, err error) { ended <- nicEnd{r, err} }, nil)
		if err != nil {
			return job{}, err
		}
		return job{run.Cancel, func() int { return 0 }}, nil
	}
	todo := c.Job
	if c.NICServes {
		todo = verify.Job{Conns: max(1, c.Job.Conns), IRD: c.ServeIRD, ORD: c.ServeORD}
	} else {
		todo.Remote = server
	}
	todo.Port, todo.Patience = port, stepPatience
	run, err := verify.Start(n.Device, todo, now, func(r verify.Report, err error) { ended <- nicEnd{r, err} })
	if err != nil {
		return job{}, err
	}
	return job{run.Cancel, run.Finished}, nil
}

// watcher keeps what a program in the guest says, and looks at it.
type watcher struct {
	said bytes.Buffer
	p    *progress
}

func (w *watcher) Write(p []byte) (int, error) {
	n, err := w.said.Write(p)
	if strings.Contains(w.said.String(), "listening") {
		w.p.listens()
	}
	if strings.Contains(w.said.String(), " ok\n") { // the end of a step
		w.p.steps()
	}
	return n, err
}

// runGuest runs the guest's side.
func (w *World) runGuest(ctx context.Context, c *Cell, port uint16, p *progress) guestEnd {
	ctx, kill := context.WithCancel(ctx)
	defer kill()
	if c.KillGuest {
		defer context.AfterFunc(p.stepped, kill)()
	}
	out := &watcher{p: p}
	code, err := w.Guest.Run(ctx, patience, c.guestCommand(port), out)
	return guestEnd{code, out.said.String(), err}
}

// guestCommand is the command line of the guest's program.
func (c *Cell) guestCommand(port uint16) string {
	server, _ := c.addresses()
	j := c.Job
	switch {
	case c.Program != nil && c.NICServes:
		return inGuestDir + strings.Join(c.programArgs(false, port), " ")
	case c.Program != nil:
		return inGuestDir + c.announced(port, strings.Join(c.programArgs(true, port), " "))
	case c.Rping && c.NICServes:
		return fmt.Sprintf("rping -c -V -a %v -p %d -C %d -S %d", server, port, j.Conns, j.Receives)
	case c.Rping:
		return c.announced(port, fmt.Sprintf("rping -s -a %v -p %d -C %d -S %d", server, port, j.Conns, j.Receives))
	case !c.NICServes:
		s := fmt.Sprintf("verify server -a %v -p %d -n %d", server, port, max(1, j.Conns))
		if c.ServeIRD > 0 {
			s += fmt.Sprintf(" -i %d -o %d", c.ServeIRD, c.ServeORD)
		}
		return s
	}
	j.Remote = server
	j = j.WithDefaults()
	s := fmt.Sprintf("verify client %v -p %d -i %d -o %d -P %d -R %d -S %d -c %d -W 20 -T %d", server, port,
		max(0, j.IRD), max(0, j.ORD), j.Private, j.Receives, j.RecvKiB, j.Conns, stepPatience.Milliseconds())
	if j.Reject {
		s += " -X"
	}
	if j.SRQ {
		s += " -Q"
	}
	if len(j.Steps) == 0 {
		j.Steps = []string{"write"}
	}
	return s + " " + strings.Join(j.Steps, " ")
}

// announced is the command line of a server that does not itself say when it
// listens.
func (c *Cell) announced(port uint16, command string) string {
	if c.Program != nil && c.Program.Silent {
		return fmt.Sprintf("sh -c '(sleep 3; echo listening) & exec %s'", command)
	}
	seen := fmt.Sprintf("ss -Hltn | grep -q :%d", port)
	if c.RoCE { // udaddy chooses its port by itself
		seen += " || rdma resource show cm_id | grep -q LISTEN"
	}
	return fmt.Sprintf("sh -c '(n=0; until %s || [ $n = 3000 ]; do usleep 20000; n=$((n + 1)); "+
		"done; echo listening) & exec %s'", seen, command)
}

// check compares what both sides report with what the cell expects.
func (c *Cell) check(nic nicEnd, guest guestEnd) error {
	report, _ := json.Marshal(nic.report)
	told := string(report)
	if nic.err != nil {
		told += " " + nic.err.Error()
	}
	var errs []error
	switch {
	case c.NICSays == "" && nic.err != nil:
		errs = append(errs, fmt.Errorf("NIC: %w", nic.err))
	case c.NICSays == "" && c.NICServes && !c.Rping && c.Program == nil:
		for _, conn := range nic.report.(verify.Report).Conns {
			if conn.End != "" {
				errs = append(errs, fmt.Errorf("NIC: %s", conn.End))
			}
		}
	case !says(told, c.NICSays):
		errs = append(errs, fmt.Errorf("NIC: want %q in %s", c.NICSays, told))
	}
	switch {
	case c.GuestSays == "" && guest.err != nil:
		errs = append(errs, fmt.Errorf("guest: %w: %s", guest.err, tail(guest.said)))
	case c.GuestSays == "" && guest.code != 0 && !c.endedWell(guest.code, guest.said):
		errs = append(errs, fmt.Errorf("guest: exit code %d: %s", guest.code, tail(guest.said)))
	case !says(guest.said, c.GuestSays):
		errs = append(errs, fmt.Errorf("guest: want %q in %s", c.GuestSays, tail(guest.said)))
	}
	if r, ok := nic.report.(perf.Report); ok && nic.err == nil && r.Messages != int64(c.Job.Conns) {
		errs = append(errs, fmt.Errorf("NIC: %d pings, want %d", r.Messages, c.Job.Conns))
	}
	return errors.Join(append(errs, c.checkReads(nic.report), c.checkProgram(&nic, &guest))...)
}

// lateThread tells whether a rping has ended well but for the last words of its
// thread for events: when the main one is first, it finds its channel closed
// and ends the program with an error.
func lateThread(code int, said string) bool {
	lines := strings.Split(strings.TrimSpace(said), "\n")
	last := len(lines) - 1
	return code == 255 && lines[last] == "rdma_get_cm_event: Bad file descriptor" &&
		slices.ContainsFunc(lines[max(0, last-2):last], func(line string) bool { // the main thread may have a word, too
			return strings.HasSuffix(line, "DISCONNECT EVENT...")
		})
}

// checkReads looks at the depths of each connection.
func (c *Cell) checkReads(report any) error {
	if c.Reads == nil {
		return nil
	}
	r, _ := report.(verify.Report)
	if len(r.Conns) == 0 {
		return errors.New("NIC: no connection with depths")
	}
	for _, conn := range r.Conns {
		if got := (Reads{conn.IRD, conn.ORD}); got != *c.Reads {
			return fmt.Errorf("NIC: IRD %d and ORD %d, want %d and %d", got.IRD, got.ORD, c.Reads.IRD, c.Reads.ORD)
		}
	}
	return nil
}

// says looks for one of the alternatives.
func says(text, wanted string) bool {
	if wanted == "" || wanted == anything {
		return true
	}
	for alternative := range strings.SplitSeq(wanted, "|") {
		if strings.Contains(text, alternative) {
			return true
		}
	}
	return false
}

// tail is the end of a text on one line.
func tail(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-6):], " | ")
}

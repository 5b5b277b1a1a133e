// Package uapi runs unmodified programs with what running NICs offer, under a
// supervisor that serves the kernel's interface to such hardware: their
// hardware clocks and hardware time stamps (nic/uapi/phc), and their RDMA
// devices (nic/uapi/sysfs, nic/uapi/relay).
package uapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"tapir/lab/tool/ctl"
	"tapir/lab/tool/usage"
	"tapir/nic/ptp"
	"tapir/nic/uapi/netlink"
	"tapir/nic/uapi/phc"
	"tapir/nic/uapi/trap"
)

// Options say which program runs with which NICs.
type Options struct {
	NICs []string // names; none: the only one that runs
	// Netdevs are further netdevs, such as one end of a veth pair, that show a
	// NIC's clock: NAME for the first NIC's, or NIC=NAME. Their stamps are the
	// kernel's, translated to that clock.
	Netdevs []string
	GID     GIDStyle
	PPS     bool // external time stamp input 0 has a pulse at each second of the system's clock
	// KeepSystemClock leaves the program the right to set the machine's clock.
	KeepSystemClock bool
	Via             trap.Via
	Path            string // what --via says, for display
	// NoDoorbells has the program post to RDMA queues by system calls: it does not load
	// the library that spares them (nic/uapi/doorbell).
	NoDoorbells bool
	// ProcMem reads the arguments of system calls by /proc/PID/mem alone.
	ProcMem bool
	// KillAfterPosts has the RDMA program killed (SIGKILL) when it has posted so
	// often to send queues, before it learns of that; 0: it is not.
	KillAfterPosts int
	Argv           []string
	Stdin          *os.File
	Stdout, Stderr *os.File
	Log            io.Writer // what the user should know; nil: nowhere

	library string // that the program loads first; empty: none
}

// Run runs the program to its end and returns its exit code: 128 and the signal's
// number if one killed it. Signals that end programs are passed on to it; if a
// NIC does not answer then, its calls fail. Before the program has started the
// end of ctx ends Run. Errors: of package ctl about the NICs, *trap.NotFoundError,
// why the program cannot be supervised.
func Run(ctx context.Context, o Options) (code int, err error) {
	devices, err := open(ctx, o)
	if err != nil {
		return 0, cmp.Or(interrupted(ctx), err)
	}
	defer func() {
		for _, d := range devices {
			d.close()
		}
	}()
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	logf := func(string, ...any) {}
	if o.Log != nil {
		logf = func(format string, args ...any) { fmt.Fprintf(o.Log, "tapir: "+format+"\n", args...) }
	}
	for _, d := range devices {
		d.logf = logf
	}
	handlers, done, err := serve(ctx, devices, &o)
	if err != nil {
		return 0, cmp.Or(interrupted(ctx), err)
	}
	defer done()
	if err := interrupted(ctx); err != nil { // later signals are the program's
		return 0, err
	}
	p, err := trap.Start(trap.Options{Argv: o.Argv, Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr,
		Handlers: handlers, KeepSystemClock: o.KeepSystemClock, Via: o.Via, ProcMem: o.ProcMem,
		Library: o.library, Logf: logf})
	if err != nil {
		return 0, err
	}
	ended := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { attend(p, devices, signals, ended, logf) })
	defer wg.Wait()
	defer close(ended)
	return p.Wait()
}

// interrupted is why a program is not started when ctx has ended.
func interrupted(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return errors.New("interrupted before the program was started")
}

// checkEvery is how often the NICs are asked for a sign of life.
const checkEvery = 5 * time.Second

// attend passes signals on and tells when a NIC ceases to answer, until ended. A
// program that has a signal to handle does not wait for such a NIC any more.
func attend(p *trap.Program, devices []*device, signals <-chan os.Signal, ended <-chan struct{},
	logf func(string, ...any)) {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for {
		select {
		case s := <-signals:
			pass(p, s.(syscall.Signal))
			for _, d := range devices {
				go d.release(ctx, logf)
			}
		case <-tick.C:
			for _, d := range devices {
				go d.check(ctx, logf)
			}
		case <-ended:
			return
		}
	}
}

// check tells once when the NIC ceases to answer, and when it answers again.
func (d *device) check(ctx context.Context, logf func(string, ...any)) {
	if !d.checking.CompareAndSwap(false, true) {
		return
	}
	defer d.checking.Store(false)
	err := d.client.Ping(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil && !d.missed.Swap(true):
		logf("%v", err)
	case err == nil && d.missed.Swap(false):
		logf("NIC %s answers again", d.name)
	}
}

// releaseAfter is how long a NIC may take for a sign of life when the program has
// a signal to handle.
const releaseAfter = time.Second

// release has the program's calls fail if the NIC does not answer.
func (d *device) release(ctx context.Context, logf func(string, ...any)) {
	short, cancel := context.WithTimeout(ctx, releaseAfter)
	defer cancel()
	if d.client.Ping(short) == nil || ctx.Err() != nil || d.disconnect == nil {
		return
	}
	d.released.Do(func() {
		logf("NIC %s does not answer: the program's calls fail from now on", d.name)
		d.disconnect()
	})
}

// serve makes the handlers for what the NICs have. done lets go of them when
// the program has ended.
func serve(ctx context.Context, devices []*device, o *Options) (handlers []trap.Handler, done func(), err error) {
	var clocks []phc.Device
	var rdma, hfis []*device
	for _, d := range devices {
		if d.Clock != nil {
			clocks = append(clocks, d.Device)
		}
		if d.rdma {
			rdma = append(rdma, d)
		}
		if d.hfi {
			hfis = append(hfis, d)
		}
	}
	sockets := netlink.New()
	registerClocks(sockets, clocks)
	serveDCB(devices, sockets)
	done = func() {}
	if len(rdma)+len(hfis) > 0 {
		if handlers, done, err = serveRDMA(ctx, rdma, hfis, o, sockets); err != nil {
			return nil, nil, err
		}
	}
	files, err := serveVFs(devices, sockets)
	if err != nil {
		done()
		return nil, nil, err
	}
	if files != nil {
		rest := done
		done = func() {
			_ = files.Close() // of directories in memory
			rest()
		}
		handlers = append(handlers, files)
	}
	return append([]trap.Handler{sockets}, append(handlers, phc.New(clocks...))...), done, nil
}

// pass passes a signal on, unless the terminal has sent it to the program too.
func pass(p *trap.Program, s syscall.Signal) {
	if (s == syscall.SIGINT || s == syscall.SIGQUIT) && trap.TerminalSignals() {
		return
	}
	_ = p.Signal(s) // fails if the program has just ended
}

// device is one running NIC.
type device struct {
	phc.Device
	name   string
	client *ctl.Client
	tap    string // the interface that the system knows: the host TAP, else the wire TAP
	rdma   bool
	hfi    bool // it has an Omni-Path port
	logf   func(string, ...any)
	broken sync.Once

	silent     atomic.Bool // the last question was not answered in time
	checking   atomic.Bool
	missed     atomic.Bool // it has not given the last sign of life
	disconnect func()      // has the calls on its device files fail; nil: it has none
	released   sync.Once
}

func (d *device) close() { d.client.Close() }

// open connects to the NICs and gives their clocks free numbers.
func open(ctx context.Context, o Options) (list []*device, err error) {
	names := o.NICs
	if len(names) == 0 {
		names = []string{""}
	}
	defer func() {
		if err != nil {
			for _, d := range list {
				d.close()
			}
			list = nil
		}
	}()
	index := 0
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return list, usage.Errorf("NIC %s is named twice", name)
		}
		c, err := ctl.DialContext(ctx, name)
		if err != nil {
			return list, err
		}
		d := &device{name: c.Hello.Name, client: c, logf: func(string, ...any) {}}
		list = append(list, d)
		if err := d.probeInTime(ctx, o.PPS); err != nil {
			return list, err
		}
		if d.Clock != nil {
			index = freeIndex(index)
			d.Index = index
			index++
		}
	}
	return list, addNetdevs(list, o.Netdevs)
}

// probeInTime is probe of a NIC that may not answer.
func (d *device) probeInTime(ctx context.Context, pps bool) error {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := d.probe(limited, pps)
	if limited.Err() == context.DeadlineExceeded {
		return cmp.Or(d.client.Ping(ctx), err) // which says more
	}
	return err
}

// probe asks what the NIC has.
func (d *device) probe(ctx context.Context, pps bool) error {
	var row struct {
		Kind    string `json:"kind"` // hfi
		TAP     string `json:"tap"`
		HostTAP string `json:"host_tap_name"`
	}
	if err := d.client.Show(ctx, "nic", &row); err != nil {
		return err
	}
	d.tap = cmp.Or(row.HostTAP, row.TAP)
	_, noRDMA := d.attr(MACGID)
	d.rdma = noRDMA == nil
	if !d.rdma {
		_, noPort := d.client.MADPort(ctx)
		d.hfi = noPort == nil
	}
	if _, err := d.client.PHCCaps(ctx); err != nil {
		if d.rdma || d.hfi {
			return nil
		}
		return fmt.Errorf("%s has no hardware clock: %w", d.name, err)
	}
	d.Clock, d.PPS = (*remoteClock)(d), pps
	switch {
	case row.Kind == "hfi":
		return d.probeVNICs(ctx)
	case row.HostTAP != "":
		d.Netdevs = map[string]phc.Netdev{row.HostTAP: (*hostFunction)(d)}
	default:
		d.Netdevs = map[string]phc.Netdev{row.TAP: phc.NewMapped(d.Clock, ptp.Faults{})}
	}
	return nil
}

// probeVNICs asks which virtual NICs an HFI has: each has the clock and the PTP
// unit of the HFI's port.
func (d *device) probeVNICs(ctx context.Context) error {
	var vports []struct {
		TAP string `json:"tap"`
	}
	err := d.client.Show(ctx, "vport", &vports)
	d.Netdevs = map[string]phc.Netdev{}
	for _, v := range vports {
		if v.TAP != "" {
			d.Netdevs[v.TAP] = (*hostFunction)(d)
		}
	}
	return err
}

// freeIndex is the first number from n on that no clock of this machine has.
func freeIndex(n int) int {
	for {
		_, dev := os.Lstat(fmt.Sprintf("/dev/ptp%d", n))
		_, sys := os.Lstat(fmt.Sprintf("/sys/class/ptp/ptp%d", n))
		if dev != nil && sys != nil {
			return n
		}
		n++
	}
}

func addNetdevs(list []*device, netdevs []string) error {
	for _, arg := range netdevs {
		d, name := list[0], arg
		if nic, after, ok := strings.Cut(arg, "="); ok {
			d, name = nil, after
			for _, have := range list {
				if have.name == nic {
					d = have
				}
			}
			if d == nil {
				return usage.Errorf("netdev %s: %s is none of the NICs that are shown", name, nic)
			}
		}
		if name == "" {
			return usage.Errorf("netdev %q has no name", arg)
		}
		for _, have := range list {
			if have.Netdevs[name] != nil {
				return usage.Errorf("netdev %s belongs to %s already", name, have.name)
			}
		}
		d.Netdevs[name] = phc.NewMapped(d.Clock, ptp.Faults{})
	}
	return nil
}

// errnos are those of package ctl.
var errnos = map[string]syscall.Errno{"EBUSY": syscall.EBUSY, "ERANGE": syscall.ERANGE, "EINVAL": syscall.EINVAL,
	"ENODEV": syscall.ENODEV, "EPERM": syscall.EPERM, "EPROTONOSUPPORT": syscall.EPROTONOSUPPORT}

// errno makes an errno of an error of the NIC. One that the program cannot
// tell the user is told once.
func (d *device) errno(err error) error {
	var e *ctl.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e) && errnos[e.Errno] != 0:
		if e.Remedy != "" {
			d.logf("%s: %v", d.name, e)
		}
		return errnos[e.Errno]
	}
	d.broken.Do(func() { d.logf("%s: %v", d.name, err) })
	return syscall.ENODEV
}

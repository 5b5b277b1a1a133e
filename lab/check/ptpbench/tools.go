package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tapir/lab/check/linuxptp"
	"tapir/lab/check/linuxptp/interop"
	"tapir/lab/host/process"
	"tapir/lab/run/result"
	"tapir/lab/tool/ctl"
	unit "tapir/nic/ptp"
	"tapir/ptp"
	"tapir/ptp/clock"
	"tapir/ptp/msg"
	"tapir/wire/frame"
)

// nicName is the name of a NIC in a separate process.
const nicName = "ptpbench"

// nicProcess is a NIC in a separate process, in a namespace whose eth0 is a veth to
// a second namespace.
type nicProcess struct {
	b     *bench
	here  *linuxptp.Host // beside the NIC
	there *linuxptp.Host
	ctl   *ctl.Client
	undo  []func()
}

func (o *nicProcess) close() {
	for _, undo := range slices.Backward(o.undo) {
		undo()
	}
}

// start starts the NIC with more flags.
func (b *bench) start(ctx context.Context, flags ...string) (o *nicProcess, err error) {
	o = &nicProcess{b: b}
	defer func() {
		if err != nil {
			o.close()
		}
	}()
	pair, err := linuxptp.NewPair(nil)
	o.here, o.there = pair[0], pair[1]
	o.undo = append(o.undo, func() { o.here.Close() }, func() { o.there.Close() })
	if err != nil {
		return o, err
	}
	p, err := o.here.Start(ctx, linuxptp.Command{Name: b.tapir,
		Args: append([]string{"nic", "--name", nicName, "--tap", "tap0", "--ip", "10.0.0.1/24"}, flags...)})
	if err == nil {
		err = p.Process.Await(ctx, "ready ")
	}
	if err != nil {
		return o, err
	}
	if o.ctl, err = ctl.Dial(nicName); err == nil {
		o.undo = append(o.undo, func() { o.ctl.Close() })
	}
	return o, err
}

// run is the command line for programs with the NIC's clock.
func (o *nicProcess) run(more ...string) []string {
	return append(append([]string{o.b.tapir, "run", "--nic", nicName}, more...), "--")
}

// trueError is by how much the NIC's clock is ahead of the system's, in ns.
func (o *nicProcess) trueError(ctx context.Context) (float64, error) {
	list, err := o.ctl.PHCSamples(ctx, 5)
	if err != nil {
		return 0, err
	}
	best := slices.MinFunc(list, func(a, b ctl.PHCSample) int {
		return cmp.Compare(a.After-a.Before, b.After-b.Before)
	})
	return float64(best.PHC - best.Before - (best.After-best.Before)/2), nil
}

// fastSync are ptp4l's options for 16 Syncs a second.
func fastSync(more ...string) linuxptp.Options {
	o := linuxptp.Options{"network_transport": "L2", "logAnnounceInterval": "-2", "logSyncInterval": "-4",
		"logMinDelayReqInterval": "-4"}
	for i := 0; i < len(more); i += 2 {
		o[more[i]] = more[i+1]
	}
	return o
}

// follow runs a stock master there and a ptp4l -H here, on eth0.
func (o *nicProcess) follow(ctx context.Context) (*linuxptp.Daemon, error) {
	eth0 := []linuxptp.Section{{Name: "eth0"}}
	if _, err := o.there.PTP4L(ctx, linuxptp.PTP4L{Options: fastSync("priority1", "1"), Sections: eth0}); err != nil {
		return nil, err
	}
	return o.here.PTP4L(ctx, linuxptp.PTP4L{Options: fastSync("slaveOnly", "1"), Sections: eth0, HardwareStamps: true,
		Under: o.run("--netdev", "eth0")})
}

func hardware(ctx context.Context, b *bench) ([]float64, error) {
	o, err := b.start(ctx, "--phc-ppb", "100000")
	if err != nil {
		return nil, err
	}
	defer o.close()
	if err := o.ctl.PHCAdjTime(ctx, int64(1230*time.Microsecond)); err != nil {
		return nil, err
	}
	slave, err := o.follow(ctx)
	if err != nil {
		return nil, err
	}
	if err := slave.Await(ctx, "a settled servo", func(l linuxptp.Log) bool {
		return len(l.Samples()) >= 100
	}); err != nil {
		return nil, err
	}
	var truth []float64
	for range samples {
		e, err := o.trueError(ctx)
		if err != nil {
			return nil, err
		}
		truth = append(truth, e)
		time.Sleep(time.Second / 20)
	}
	s := result.Summarize(truth)
	return []float64{s.RMS, s.P95, s.Max}, nil
}

func chrony(b *bench) (list []check, err error) {
	const ppm, options = 12, " refid NIC0 noselect poll -3 dpoll -5 filter 4 maxsamples 32"
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	o, err := b.start(ctx, "--phc-ppb", strconv.Itoa(ppm*1000))
	if err != nil {
		return nil, err
	}
	defer o.close()
	sock := o.here.Path("sock")
	defer exec.Command("ipcrm", "-M", "0x4e5450f7").Run() // the segment of unit 199
	for _, c := range []struct {
		name, line string
		under      []string
		feed       []string // of tapir ptp refclock
	}{
		{"SOCK", "refclock SOCK " + sock, nil, []string{"--sock", sock}},
		{"SHM", "refclock SHM 199", nil, []string{"--shm", "199"}},
		{"PHC", "refclock PHC /dev/ptp0:nocrossts", o.run(), nil},
	} {
		daemon, err := o.here.ChronyUnder(ctx, c.under, c.line+options)
		if err != nil {
			return list, err
		}
		if c.feed != nil {
			if c.name == "SOCK" {
				if err := process.Until(ctx, func() (bool, error) {
					_, err := os.Stat(sock)
					return err == nil, nil
				}); err != nil {
					return list, err
				}
			}
			feed := linuxptp.Command{Name: b.tapir, Args: append([]string{"ptp", "refclock", nicName, "-i", "30ms"},
				c.feed...), SharedMemory: true}
			p, err := o.here.Start(ctx, feed)
			if err != nil {
				return list, err
			}
			defer p.Stop()
		}
		s, err := daemon.AwaitSamples(ctx, "NIC0", 28)
		if err != nil {
			return list, fmt.Errorf("%s: %w", c.name, err)
		}
		daemon.Stop()
		list = append(list,
			check{what: c.name + ", standard deviation", value: s.StdDev * 1e9, limit: 50, unit: "ns"},
			check{what: c.name + ", error of the frequency", value: math.Abs(math.Abs(s.Frequency) - ppm), limit: 0.01,
				unit: "ppm"})
	}
	return list, nil
}

// cost is what a call of f costs: the time of the fastest of some batches, for
// other programs only ever slow it down, and the allocations.
func cost(f func()) (ns, allocs float64) {
	const batches, calls = 50, 20_000
	ns = math.Inf(1)
	for range batches {
		begin := time.Now()
		for range calls {
			f()
		}
		ns = min(ns, float64(time.Since(begin))/calls)
	}
	return ns, testing.AllocsPerRun(calls, f)
}

func codec(b *bench) ([]check, error) {
	m := msg.Message{Header: msg.Header{Type: msg.Sync, Flags: msg.FlagTwoStep}}
	octets := m.Append(nil)
	ok := true
	decode, allocs := cost(func() { ok = m.Parse(octets) == nil && ok })
	encode, more := cost(func() { octets = m.Append(octets[:0]) })
	if !ok {
		return nil, errors.New("a Sync could not be decoded")
	}
	checks := []check{
		{what: "decode a Sync", value: decode, limit: 60, unit: "ns"},
		{what: "encode it", value: encode, limit: 120, unit: "ns"},
		{what: "allocations of both", value: allocs + more, limit: 0},
	}
	out, err := exec.CommandContext(b.ctx, b.oracle, "-test.run", "^$", "-test.bench", "PTPDecode", "-test.benchtime",
		"300ms").Output()
	if err != nil {
		return checks, fmt.Errorf("%s: %w", b.oracle, err)
	}
	times := map[string]float64{}
	for _, f := range regexp.MustCompile(
		`BenchmarkPTPDecode/(\w+/\w+)\S*\s+\d+\s+([0-9.]+) ns/op`).FindAllStringSubmatch(string(out), -1) {
		times[f[1]], _ = strconv.ParseFloat(f[2], 64)
	}
	least := math.Inf(1)
	for name, t := range times {
		if typ, ours := strings.CutSuffix(name, "/tapir"); ours {
			least = min(least, times[typ+"/facebook"]/t)
		}
	}
	return append(checks, check{what: "decodes faster than facebook/time by", value: least, limit: 8, atLeast: true,
		unit: "times"}), nil
}

func stamp(*bench) ([]check, error) {
	phc, err := clock.New(clock.Config{Oscillator: xo, Jitter: 4, Quantum: 8})
	if err != nil {
		return nil, err
	}
	var now frame.Time
	ns, allocs := cost(func() {
		now += 100
		phc.At(now)
	})
	return []check{
		{what: "of a crystal, with jitter", value: ns, limit: 50, unit: "ns"},
		{what: "allocations", value: allocs, limit: 0},
	}, nil
}

// pmcIDs are the ids that pmc 3.1 can ask for.
var pmcIDs = strings.Fields(`
	NULL_MANAGEMENT CLOCK_DESCRIPTION USER_DESCRIPTION DEFAULT_DATA_SET CURRENT_DATA_SET PARENT_DATA_SET
	TIME_PROPERTIES_DATA_SET PORT_DATA_SET PRIORITY1 PRIORITY2 DOMAIN SLAVE_ONLY LOG_ANNOUNCE_INTERVAL
	ANNOUNCE_RECEIPT_TIMEOUT LOG_SYNC_INTERVAL VERSION_NUMBER CLOCK_ACCURACY TRACEABILITY_PROPERTIES
	TIMESCALE_PROPERTIES DELAY_MECHANISM LOG_MIN_PDELAY_REQ_INTERVAL TIME_STATUS_NP GRANDMASTER_SETTINGS_NP
	PORT_DATA_SET_NP PORT_PROPERTIES_NP PORT_STATS_NP`)

func management(b *bench) ([]check, error) {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	bed, err := interop.NewBed(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer bed.Close()
	if _, err := bed.StartPTP(ptp.DefaultE2E, 1, func(*unit.InstanceConfig) {}); err != nil {
		return nil, err
	}
	answered := 0
	for _, id := range pmcIDs {
		for range 5 { // pmc waits for a tenth of a second only
			replies, err := bed.Host.PMC(ctx, []string{"-2", "-i", "tap0", "-b", "1"}, "GET "+id)
			if err != nil {
				return nil, err
			}
			if len(replies) > 0 && replies[0].Kind == "MANAGEMENT" {
				answered++
				break
			}
		}
	}
	return []check{{what: "GET answered", value: float64(answered), limit: float64(len(pmcIDs)), atLeast: true,
		unit: "ids"}}, nil
}

func scenarios(b *bench) ([]check, error) {
	text, err := os.ReadFile(filepath.Join(b.docs, "ptp-scenarios.md"))
	n := len(regexp.MustCompile(`(?m)^\| \d\d-\w+ \|.*\| Test\w+ \|`).FindAll(text, -1))
	return []check{{what: "repeated by tests (ptp-scenarios.md)", value: float64(n), limit: 30, atLeast: true,
		unit: "scenarios"}}, err
}

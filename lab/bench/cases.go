package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"

	"tapir/lab/perf"
)

// bench is a run: the beds, by MTU, and what is measured on them.
type bench struct {
	opt   options
	beds  map[int]*bed
	cases []*testCase
}

// testCase is one thing that is measured, once per round.
type testCase struct {
	name    string
	run     func(ctx context.Context, b *bench) (sample, error)
	samples []sample
}

const (
	mtu     = 1500
	bigMTU  = 9000
	pinned  = 0  // the CPU of both ends of a ping-pong
	free    = -1 // wherever the scheduler puts them
	mebi    = 1 << 20
	snapLen = 256
)

func newBench(o options) (*bench, error) {
	b := &bench{opt: o, beds: map[int]*bed{}}
	for _, m := range []int{mtu, bigMTU} {
		bd, err := newBed(m)
		if err != nil {
			b.close()
			return nil, err
		}
		b.beds[m] = bd
	}
	for _, c := range allCases() {
		if o.only.MatchString(c.name) {
			b.cases = append(b.cases, c)
		}
	}
	return b, nil
}

func (b *bench) close() {
	for _, bd := range b.beds {
		bd.close()
	}
}

// Names of the cases.
const (
	kernelStream  = "kernel stream"
	kernelOff1500 = "kernel wire 1500"
	kernelOff9000 = "kernel wire 9000"
	kernelPing    = "kernel ping-pong"
	gsoWrite      = "write 1 MiB gso"
	gsoCaptured   = "write 1 MiB gso captured"
	jumboWrite    = "write 1 MiB jumbo"
	gsoWrite64    = "write 64 KiB gso"
	gsoRead       = "read 1 MiB gso"
	wire1500      = "write 1 MiB wire 1500"
	wire9000      = "write 1 MiB wire 9000"
	sendPing      = "send 64 B ping-pong"
	writePing     = "write 8 B ping-pong"
	writeRate     = "write 8 B rate"
	ucxPut64      = "ucx put 64 KiB"
	ucxPut        = "ucx put 1 MiB"
	ucxGet        = "ucx get 1 MiB"
	ucxLat        = "ucx put 8 B latency"
	ucxRate       = "ucx put 8 B rate"
)

// allCases is everything that can be measured, in the order of a round.
func allCases() []*testCase {
	list := []*testCase{
		kernelCase(kernelStream, mtu, "on", false),
		nicCase(gsoWrite, nicSetup{mtu: mtu, frames: "gso"}, perf.Job{Op: perf.WriteBW, Size: mebi}),
		nicCase(gsoCaptured, nicSetup{mtu: mtu, frames: "gso", capture: snapLen}, perf.Job{Op: perf.WriteBW, Size: mebi}),
		nicCase(jumboWrite, nicSetup{mtu: bigMTU, frames: "jumbo"}, perf.Job{Op: perf.WriteBW, Size: mebi}),
		nicCase(gsoWrite64, nicSetup{mtu: mtu, frames: "gso"}, perf.Job{Op: perf.WriteBW, Size: 64 << 10}),
		nicCase(gsoRead, nicSetup{mtu: mtu, frames: "gso"}, perf.Job{Op: perf.ReadBW, Size: mebi, Depth: 16}),
		kernelCase(kernelOff1500, mtu, "off", false),
		nicCase(wire1500, nicSetup{mtu: mtu, frames: "wire"}, perf.Job{Op: perf.WriteBW, Size: mebi}),
		kernelCase(kernelOff9000, bigMTU, "off", false),
		nicCase(wire9000, nicSetup{mtu: bigMTU, frames: "wire"}, perf.Job{Op: perf.WriteBW, Size: mebi}),
		kernelCase(kernelPing, mtu, "on", true),
		nicCase(sendPing, nicSetup{mtu: mtu, frames: "wire", pin: true}, perf.Job{Op: perf.SendLat, Size: pingSize}),
		nicCase(writePing, nicSetup{mtu: mtu, frames: "wire", pin: true}, perf.Job{Op: perf.WriteLat, Size: 8}),
		nicCase(writeRate, nicSetup{mtu: mtu, frames: "gso"}, perf.Job{Op: perf.WriteBW, Size: 8, Depth: 1024}),
	}
	if !haveUCX() {
		return list
	}
	return append(list,
		ucxCase(ucxPut64, "ucp_put_bw", 64<<10, 10000),
		ucxCase(ucxPut, "ucp_put_bw", mebi, 200),
		ucxCase(ucxGet, "ucp_get", mebi, 400),
		ucxCase(ucxLat, "ucp_put_lat", 8, 20000),
		ucxCase(ucxRate, "ucp_put_bw", 8, 100000),
	)
}

// kernelCase is a connection between the kernels of two hosts.
func kernelCase(name string, mtu int, kind string, ping bool) *testCase {
	return &testCase{name: name, run: func(ctx context.Context, b *bench) (sample, error) {
		cpu, bd, d := free, b.beds[mtu], b.opt.duration
		if ping {
			cpu = pinned
		}
		a := addresses[kind+"1"]
		flag := fmt.Sprintf("-ping=%v", ping)
		cr, sr, err := both(
			func() (*child, error) { return start(ctx, bd.hosts[kind+"1"].ns, cpu, "tcp", "-listen", a, flag) },
			func() (*child, error) {
				return start(ctx, bd.hosts[kind+"0"].ns, cpu, "tcp", "-connect", a, flag, "-duration", d.String())
			}, d)
		if ping {
			return combine(cr, sr), err
		}
		return combine(sr, cr), err // the receiver's time counts
	}}
}

// nicSetup says how a pair of NICs is started.
type nicSetup struct {
	mtu     int
	frames  string
	capture int // octets per packet, 0 for none
	pin     bool
}

// nicCase is a job between two NICs.
func nicCase(name string, set nicSetup, job perf.Job) *testCase {
	return &testCase{name: name, run: func(ctx context.Context, b *bench) (sample, error) {
		bd := b.beds[set.mtu]
		spawn := func(i int, job perf.Job) (*child, error) {
			return bd.startNIC(ctx, b.opt, name, set, i, job)
		}
		client := job
		client.Duration = b.opt.duration
		client.Remote = netip.MustParseAddr(nicAddresses[1])
		server := perf.Job{Op: job.Op, Duration: b.opt.duration}
		cr, sr, err := both(
			func() (*child, error) { return spawn(1, server) },
			func() (*child, error) { return spawn(0, client) }, b.opt.duration)
		return combine(cr, sr), err
	}}
}

func (bd *bed) startNIC(ctx context.Context, o options, name string, set nicSetup, i int, job perf.Job) (*child, error) {
	spec, err := json.Marshal(job)
	if err != nil {
		return nil, err
	}
	kind, cpu := "gso", free
	if set.frames == "wire" {
		kind = "wire"
	}
	if set.pin {
		cpu = pinned
	}
	args := []string{"nic", "-tap", fmt.Sprint(kind, i), "-frames", set.frames, "-mtu", fmt.Sprint(set.mtu),
		"-ip", nicAddresses[i] + "/24", "-job", string(spec), "-capture", fmt.Sprint(set.capture)}
	if o.profiles != "" {
		args = append(args, "-profile", filepath.Join(o.profiles, fmt.Sprintf("%s.%d.pprof", name, i)))
	}
	return start(ctx, bd.middle.ns, cpu, args...)
}

func ucxCase(name, test string, size, iters int) *testCase {
	return &testCase{name: name, run: func(ctx context.Context, b *bench) (sample, error) {
		return ucxRun(ctx, b.beds[mtu], test, size, iters)
	}}
}

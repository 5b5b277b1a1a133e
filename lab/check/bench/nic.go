package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime/pprof"
	"time"

	"tapir/lab/check/bench/result"
	"tapir/lab/conf/perfconf"
	"tapir/lab/host/link"
	"tapir/lab/node"
	"tapir/lab/node/nicnode"
	"tapir/lab/tool/capture"
	"tapir/lab/tool/perf"
	"tapir/nic/tap"
	"tapir/wire/frame"
)

// nicSpec is how a NIC of the benchmark is started.
type nicSpec struct {
	TAP     string
	Wire    string // in place of the TAP; empty for none
	Frames  string // frame mode
	MTU     int
	IP      netip.Prefix
	Loss    int    // of the segments that arrive, parts per million
	InOrder bool   // place nothing out of order
	RoCE    bool   // in place of iWARP
	Capture string // which, of captures; empty for none
	Profile string // file for a CPU profile; empty for none
}

// lossSeed decides which segments are lost.
const lossSeed = 1

// start starts the NIC.
func (s *nicSpec) start(ctx context.Context) (*nicnode.Node, error) {
	var env node.Env
	cfg := s.config()
	if s.Loss > 0 {
		// super-frames are cut into their segments, some of which are lost
		q, err := tap.Open(tap.Config{Name: s.TAP, Vnet: s.Frames != "wire"})
		if err != nil {
			return nil, err
		}
		if env.Wire, err = link.Impair(q, link.Impairment{Loss: s.Loss}, link.Impairment{}, lossSeed); err != nil {
			return nil, err
		}
		cfg.TAP = ""
	}
	return nicnode.Start(ctx, cfg, env)
}

// watch begins the capture and the profile that were asked for. end may be
// called once, after the measurement, and returns how many packets the
// capture lost.
func (s *nicSpec) watch(n *nicnode.Node) (end func() int64, err error) {
	uncapture := func() int64 { return 0 }
	if s.Capture != "" {
		if uncapture, err = captureAll(n, captures[s.Capture]); err != nil {
			return nil, err
		}
	}
	stop, err := profile(s.Profile)
	return func() int64 {
		stop()
		return uncapture()
	}, err
}

// profile begins a profile of the processor if a file is named. stop ends it.
func profile(file string) (stop func(), err error) {
	if file == "" {
		return func() {}, nil
	}
	f, err := os.Create(file)
	if err == nil {
		err = pprof.StartCPUProfile(f)
	}
	return func() {
		pprof.StopCPUProfile()
		f.Close()
	}, err
}

// nicJob is a NIC and its side of a job.
type nicJob struct {
	nicSpec
	Job perfconf.Job
}

// nicChild is a NIC on a TAP that runs one side of a job, as `tapir nic` and
// `tapir perf` would.
func nicChild(ctx context.Context, spec *nicJob) error {
	job := spec.Job
	return spec.measure(ctx, job.Duration, func(n *nicnode.Node, now frame.Time,
		done func(result.Result, error)) error {
		_, err := perf.Start(n.Device, job, now, func(rep perf.Report, err error) {
			r := result.Result{Bytes: rep.Bytes, Messages: rep.Messages, Elapsed: rep.Elapsed}
			if rep.Latency != nil {
				r.Latency = rep.Latency.Median
			}
			done(r, err)
		}, nil)
		return err
	})
}

// outcome is how a job ended.
type outcome struct {
	r   result.Result
	err error
}

// job begins one side of a measurement on the NIC's thread; it calls done once.
type job func(n *nicnode.Node, now frame.Time, done func(result.Result, error)) error

// measure runs one side of a measurement that lasts d, and reports it.
func (s *nicSpec) measure(ctx context.Context, d time.Duration, begin job) error {
	n, err := s.start(ctx)
	if err != nil {
		return err
	}
	r, err := s.run(n, d, begin)
	if err := errors.Join(err, n.Close()); err != nil {
		return err
	}
	return r.Print()
}

func (s *nicSpec) run(n *nicnode.Node, d time.Duration, begin job) (r result.Result, err error) {
	end, err := s.watch(n)
	if err != nil {
		return r, err
	}
	defer func() { r.Lost, r.Held = end(), held(n) }()
	done := make(chan outcome, 1)
	var failed error
	cpu := result.CPU()
	err = n.DoWait(func(now frame.Time) {
		failed = begin(n, now, func(r result.Result, err error) {
			r.CPU = result.CPU() - cpu
			done <- outcome{r, err}
		})
	})
	if err := errors.Join(err, failed); err != nil {
		return r, err
	}
	result.Ready()
	select {
	case o := <-done:
		return o.r, o.err
	case <-time.After(d + endWithin):
		return r, errors.New("the job does not end")
	case <-n.Done():
		return r, n.Err()
	}
}

// held is how many octets had to be copied aside until it was their turn.
func held(n *nicnode.Node) (octets int64) {
	_ = n.DoWait(func(frame.Time) { // it may have ended
		for _, c := range n.Device.Counters() {
			if c.Name == "tcp_bytes_held" || c.Name == "rdma_early_held" {
				octets += int64(c.Value)
			}
		}
	})
	return octets
}

// aroundFile writes to a file from its beginning again and again, so that it is
// the capture that is measured and not the disk, nor memory that the kernel
// has to find for the file.
type aroundFile struct {
	f  *os.File
	at int64
}

const aroundAfter = 8 << 20

func (a *aroundFile) Write(b []byte) (int, error) {
	if a.at+int64(len(b)) > aroundAfter {
		a.at = 0
	}
	n, err := a.f.WriteAt(b, a.at)
	a.at += int64(n)
	return n, err
}

// captures are what `tapir capture` does by itself, and with --raw and a
// --snaplen of 256.
var captures = map[string]capture.Options{
	"default": {Bulk: capture.DefaultBulk, Compact: true},
	"raw":     {SnapLen: 256, Raw: true},
}

// captureAll writes every frame of the NIC to a file that is gone afterwards.
func captureAll(n *nicnode.Node, opt capture.Options) (stop func() (lost int64), err error) {
	f, err := os.CreateTemp("", "bench*.pcapng")
	if err != nil {
		return nil, err
	}
	os.Remove(f.Name())
	s := capture.New(&aroundFile{f: f}, capture.Info{Name: n.Name(), Wire: n.TAP()}, opt)
	if err := n.DoWait(func(frame.Time) { n.Device.SetTracer(s) }); err != nil {
		f.Close()
		return nil, fmt.Errorf("capture: %w", err)
	}
	return func() int64 {
		_ = n.DoWait(func(frame.Time) { n.Device.SetTracer(nil) }) // it may have ended
		_ = s.Close()                                              // what it lost is counted, not an error here
		f.Close()
		return int64(s.Stats().Lost)
	}, nil
}

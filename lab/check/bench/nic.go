package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"runtime/pprof"
	"time"

	"tapir/lab/check/bench/result"
	"tapir/lab/host/link"
	"tapir/lab/host/netns"
	"tapir/lab/node"
	"tapir/lab/tool/capture"
	"tapir/lab/tool/perf"
	"tapir/nic/tap"
	"tapir/wire/frame"
)

// nicSpec is how a NIC of the benchmark is started: the flags of a child.
type nicSpec struct {
	cfg     node.Config
	ip      string
	loss    int // of the segments that arrive, parts per million
	seed    uint64
	capture string // which, of captures; empty for none
	profile string
}

func (s *nicSpec) define(flags *flag.FlagSet) {
	flags.StringVar(&s.cfg.TAP, "tap", "", "the TAP")
	flags.StringVar(&s.cfg.Frames, "frames", "wire", "frame mode")
	flags.IntVar(&s.cfg.MTU, "mtu", 1500, "MTU in octets")
	flags.StringVar(&s.ip, "ip", "", "address with prefix length")
	flags.IntVar(&s.loss, "loss", 0, "lose so many parts per million of the segments that arrive")
	flags.Uint64Var(&s.seed, "seed", 1, "decides which")
	flags.StringVar(&s.capture, "capture", "", "capture: default or raw")
	flags.BoolVar(&s.cfg.NIC.IWARP.InOrder, "in-order", false, "place nothing out of order")
	flags.StringVar(&s.profile, "profile", "", "file for a CPU profile")
}

// start starts the NIC and what watches it; stop ends both.
func (s *nicSpec) start(ctx context.Context) (n *node.Node, stop func() error, err error) {
	prefix, err := netip.ParsePrefix(s.ip)
	if err != nil {
		return nil, nil, err
	}
	s.cfg.Name, s.cfg.IP = s.cfg.TAP, []netip.Prefix{prefix}
	if s.loss > 0 {
		if s.cfg.Wire, err = s.badCable(); err != nil {
			return nil, nil, err
		}
		s.cfg.TAP = ""
	}
	if n, err = node.Start(ctx, s.cfg); err != nil {
		return nil, nil, err
	}
	return n, n.Close, nil
}

// badCable is the TAP with losses; super-frames are cut into their segments.
func (s *nicSpec) badCable() (tap.Queue, error) {
	ns, err := netns.Current()
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	links, err := link.In(ns)
	if err != nil {
		return nil, err
	}
	defer links.Close()
	q, err := links.OpenTAP(tap.Config{Name: s.cfg.TAP, Vnet: s.cfg.Frames != "wire"})
	if err != nil {
		return nil, err
	}
	return link.Impair(q, link.Impairment{Loss: s.loss}, link.Impairment{}, s.seed)
}

// watch begins the capture and the profile that were asked for. end may be
// called once, after the measurement, and returns how many packets the
// capture lost.
func (s *nicSpec) watch(n *node.Node) (end func() int64, err error) {
	end = func() int64 { return 0 }
	if s.capture != "" {
		if end, err = captureAll(n, captures[s.capture]); err != nil {
			return nil, err
		}
	}
	if s.profile == "" {
		return end, nil
	}
	f, err := os.Create(s.profile)
	if err == nil {
		err = pprof.StartCPUProfile(f)
	}
	if err != nil {
		end()
		return nil, err
	}
	lost := end
	return func() int64 {
		pprof.StopCPUProfile()
		f.Close()
		return lost()
	}, nil
}

// nicChild is a NIC on a TAP that runs one side of a job, as `tapir nic` and
// `tapir perf` would.
func nicChild(ctx context.Context, args []string) error {
	var spec nicSpec
	var job perf.Job
	flags := flag.NewFlagSet("nic", flag.ContinueOnError)
	spec.define(flags)
	text := flags.String("job", "", "the job, as JSON")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(*text), &job); err != nil {
		return err
	}
	return spec.measure(ctx, job.Duration, func(n *node.Node, now frame.Time, done func(result.Result, error)) error {
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
type job func(n *node.Node, now frame.Time, done func(result.Result, error)) error

// measure runs one side of a measurement that lasts d, and reports it.
func (s *nicSpec) measure(ctx context.Context, d time.Duration, begin job) error {
	n, stop, err := s.start(ctx)
	if err != nil {
		return err
	}
	r, err := s.run(n, d, begin)
	if err := errors.Join(err, stop()); err != nil {
		return err
	}
	return r.Print()
}

func (s *nicSpec) run(n *node.Node, d time.Duration, begin job) (r result.Result, err error) {
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
func held(n *node.Node) (octets int64) {
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
func captureAll(n *node.Node, opt capture.Options) (stop func() (lost int64), err error) {
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

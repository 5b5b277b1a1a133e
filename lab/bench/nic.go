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

	"tapir/lab/capture"
	"tapir/lab/node"
	"tapir/lab/perf"
	"tapir/wire/frame"
)

// nicChild is a NIC on a TAP that runs one side of a job, as `tapir nic` and
// `tapir perf` would.
func nicChild(ctx context.Context, args []string) error {
	var cfg node.Config
	var job perf.Job
	flags := flag.NewFlagSet("nic", flag.ContinueOnError)
	flags.StringVar(&cfg.TAP, "tap", "", "the TAP")
	flags.StringVar(&cfg.Frames, "frames", "wire", "frame mode")
	flags.IntVar(&cfg.MTU, "mtu", 1500, "MTU in octets")
	ip := flags.String("ip", "", "address with prefix length")
	spec := flags.String("job", "", "the job, as JSON")
	snap := flags.Int("capture", 0, "capture with this many octets per packet")
	profile := flags.String("profile", "", "file for a CPU profile")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(*spec), &job); err != nil {
		return err
	}
	prefix, err := netip.ParsePrefix(*ip)
	if err != nil {
		return err
	}
	cfg.Name, cfg.IP = cfg.TAP, []netip.Prefix{prefix}
	n, err := node.Start(ctx, cfg)
	if err != nil {
		return err
	}
	r, err := nicRun(n, job, *snap, *profile)
	if err := errors.Join(err, n.Close()); err != nil {
		return err
	}
	return report(r)
}

// outcome is how a job ended.
type outcome struct {
	rep perf.Report
	err error
}

// endOf is how long the whole of a job may take.
func endOf(job perf.Job) time.Duration { return job.Duration + endWithin }

func nicRun(n *node.Node, job perf.Job, snap int, profile string) (r result, err error) {
	if snap > 0 {
		stop, err := captureAll(n, snap)
		if err != nil {
			return r, err
		}
		defer stop()
	}
	if profile != "" {
		f, err := os.Create(profile)
		if err != nil {
			return r, err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return r, err
		}
		defer pprof.StopCPUProfile()
	}
	done := make(chan outcome, 1)
	var failed error
	cpu := usage()
	err = n.DoWait(func(now frame.Time) {
		_, failed = perf.Start(n.Device, job, now, func(rep perf.Report, err error) { done <- outcome{rep, err} }, nil)
	})
	if err := errors.Join(err, failed); err != nil {
		return r, err
	}
	fmt.Println(readyLine)
	select {
	case o := <-done:
		r = result{Bytes: o.rep.Bytes, Messages: o.rep.Messages, Elapsed: o.rep.Elapsed, CPU: usage() - cpu}
		if o.rep.Latency != nil {
			r.Latency = o.rep.Latency.Median
		}
		return r, o.err
	case <-time.After(endOf(job)):
		return r, errors.New("the job does not end")
	case <-n.Done():
		return r, n.Err()
	}
}

// aroundFile writes to a file from its beginning again and again, so that it is
// the capture that is measured and not the disk, nor memory that the kernel
// has to find for the file.
type aroundFile struct {
	f  *os.File
	at int64
}

const aroundAfter = 64 << 20

func (a *aroundFile) Write(b []byte) (int, error) {
	if a.at+int64(len(b)) > aroundAfter {
		a.at = 0
	}
	n, err := a.f.WriteAt(b, a.at)
	a.at += int64(n)
	return n, err
}

// captureAll writes every frame of the NIC to a file that is gone afterwards.
func captureAll(n *node.Node, snap int) (stop func(), err error) {
	f, err := os.CreateTemp("", "bench*.pcapng")
	if err != nil {
		return nil, err
	}
	s := capture.New(&aroundFile{f: f}, capture.Info{Name: n.Name(), Wire: n.TAP()}, capture.Options{SnapLen: snap})
	if err := n.DoWait(func(frame.Time) { n.Device.SetTracer(s) }); err != nil {
		return nil, err
	}
	return func() {
		_ = n.DoWait(func(frame.Time) { n.Device.SetTracer(nil) }) // it may have ended
		_ = s.Close()                                              // what it lost is counted, not an error here
		f.Close()
		os.Remove(f.Name())
	}, nil
}

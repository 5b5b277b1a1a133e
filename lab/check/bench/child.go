package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"tapir/lab/check/bench/result"
	"tapir/lab/host/netns"
)

// sample is one measurement, both processes together.
type sample struct {
	gbps    float64 // of payload
	rate    float64 // messages per second
	latency float64 // microseconds, half a round trip
	cpu     float64 // nanoseconds per KiB of payload, sender plus receiver
	allocs  float64 // per segment
	memory  float64 // KiB of one object
	lost    float64 // packets that captures could not keep
	held    float64 // KiB that had to be held aside, per MiB of payload
	// interrupts of a NIC per 1000 frames.
	interrupts float64
}

func (s sample) String() string {
	switch {
	case s.memory > 0:
		return fmt.Sprintf("%.1f KiB", s.memory)
	case s.latency > 0:
		return fmt.Sprintf("%.2f µs", s.latency)
	case s.gbps > 0.5:
		return fmt.Sprintf("%.2f Gb/s, %.0f ns/KiB", s.gbps, s.cpu)
	}
	return fmt.Sprintf("%.0f messages/s", s.rate)
}

// childResult is what a child reports.
type childResult = result.Result

// combine makes a sample of the results of both ends. timed is the one whose clock
// counts.
func combine(timed, other result.Result) sample {
	s := sample{latency: float64(timed.Latency) / 1e3, memory: float64(timed.Memory) / 1024,
		lost: float64(timed.Lost + other.Lost)}
	if sec := timed.Elapsed.Seconds(); sec > 0 {
		s.gbps = float64(timed.Bytes) * 8 / sec / 1e9
		s.rate = float64(timed.Messages) / sec
	}
	if timed.Bytes > 0 {
		s.cpu = float64(timed.CPU+other.CPU) / float64(timed.Bytes) * 1024
		s.held = float64(timed.Held+other.Held) / float64(timed.Bytes) * 1024
	}
	return s
}

// child is a process of a measurement.
type child struct {
	cmd *exec.Cmd
	out *bufio.Reader
	err strings.Builder
}

// startWithin bounds a child's start, endWithin what it may take beyond the
// time of its measurement.
const (
	startWithin = time.Minute
	endWithin   = time.Minute
)

// command is the command line of a child of this program in a role.
func command(role string, spec any) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(spec)
	return []string{self, role, string(text)}, err
}

// start runs this program again inside ns, in a role, on the CPU given if that is
// not negative.
func start(ctx context.Context, ns *netns.NS, cpu int, role string, spec any) (*child, error) {
	argv, err := command(role, spec)
	if err != nil {
		return nil, err
	}
	return startProgram(ctx, ns, cpu, nil, argv[0], argv[1:]...)
}

// pair starts a role twice in ns, the server first, and returns what the two
// report. spec is what each does: 1 is the server.
func pair(ctx context.Context, ns *netns.NS, p pins, d time.Duration, role string,
	spec func(i int) any) (cr, sr result.Result, err error) {
	end := func(i int) func() (*child, error) {
		return func() (*child, error) { return start(ctx, ns, p.cpu(i), role, spec(i)) }
	}
	return both(end(1), end(0), d)
}

func startProgram(ctx context.Context, ns *netns.NS, cpu int, env []string, program string,
	args ...string) (*child, error) {
	c := &child{}
	if cpu >= 0 {
		program, args = "taskset", append([]string{"-c", fmt.Sprint(cpu), program}, args...)
	}
	c.cmd = exec.CommandContext(ctx, program, args...)
	c.cmd.Env, c.cmd.Stderr = env, &c.err
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReader(out)
	return c, ns.Start(c.cmd)
}

// ready waits for the child's first line.
func (c *child) ready() error {
	line, err := c.line(startWithin)
	if err == nil && strings.TrimSpace(line) != result.ReadyLine {
		err = fmt.Errorf("unexpected: %s", line)
	}
	if err != nil {
		return c.fail(err)
	}
	return nil
}

func (c *child) line(within time.Duration) (string, error) {
	type got struct {
		s   string
		err error
	}
	ch := make(chan got, 1)
	go func() {
		s, err := c.out.ReadString('\n')
		ch <- got{s, err}
	}()
	select {
	case g := <-ch:
		return g.s, g.err
	case <-time.After(within):
		return "", errors.New("no answer")
	}
}

// result waits for the child's result and its end.
func (c *child) result(within time.Duration) (r result.Result, err error) {
	line, err := c.line(within + endWithin)
	if err == nil {
		err = json.Unmarshal([]byte(line), &r)
	}
	if err != nil {
		return r, c.fail(err)
	}
	return r, c.cmd.Wait()
}

// all waits for the child's end and returns what it has printed.
func (c *child) all() (string, error) {
	b, err := io.ReadAll(c.out)
	if err := errors.Join(err, c.cmd.Wait()); err != nil {
		return "", fmt.Errorf("%s: %w: %s", c.cmd.Path, err, c.err.String())
	}
	return string(b), nil
}

func (c *child) fail(err error) error {
	c.stop()
	return fmt.Errorf("%s: %w: %s", strings.Join(c.cmd.Args[1:], " "), err, strings.TrimSpace(c.err.String()))
}

// stop ends the child if it still runs.
func (c *child) stop() {
	_ = c.cmd.Process.Kill() // it may have ended
	_ = c.cmd.Wait()
}

// both runs server, then client, and returns what they report.
func both(server, client func() (*child, error), d time.Duration) (cr, sr result.Result, err error) {
	s, err := server()
	if err != nil {
		return cr, sr, err
	}
	if err := s.ready(); err != nil {
		return cr, sr, err
	}
	c, err := client()
	if err == nil {
		err = c.ready()
	}
	if err == nil {
		cr, err = c.result(d)
	}
	if err != nil {
		s.stop()
		return cr, sr, err
	}
	sr, err = s.result(d)
	return cr, sr, err
}

// roundTrips calls trip again and again for d and reports how long one took: half
// of the median is the latency.
func roundTrips(d time.Duration, trip func() error) (r result.Result, err error) {
	trips := make([]time.Duration, 0, 1<<20)
	begin := time.Now()
	for at := begin; at.Before(begin.Add(d)); {
		if err := trip(); err != nil {
			return r, err
		}
		now := time.Now()
		trips = append(trips, now.Sub(at))
		at = now
	}
	r = result.Result{Messages: int64(len(trips)), Elapsed: time.Since(begin)}
	r.Latency = half(trips)
	return r, nil
}

// half is half of the median of round trips, which it sorts.
func half(trips []time.Duration) time.Duration {
	slices.Sort(trips)
	return trips[len(trips)/2] / 2
}

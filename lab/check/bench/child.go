package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"tapir/lab/check/bench/result"
	"tapir/lab/host/netns"
	"tapir/lab/host/process"
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
	setup   float64 // seconds to make all objects
	held    float64 // KiB that had to be held aside, per MiB of payload
	// interrupts of a NIC per 1000 frames.
	interrupts float64
	ratio      float64 // of its frames to those of another, in turns
	connects   float64 // connections made per second
	fairness   float64 // Jain's index of what queue pairs got
	points     float64 // largest difference of a class from its share, in percentage points
	drops      float64 // frames that a switch dropped
}

func (s sample) String() string {
	switch {
	case s.points > 0 || s.drops > 0:
		return fmt.Sprintf("%.3f Gb/s, %.1f points from the shares, %.0f frames dropped", s.gbps, s.points, s.drops)
	case s.ratio > 0:
		return fmt.Sprintf("%.0f messages/s, %.3f of the other's per CPU time", s.rate, s.ratio)
	case s.fairness > 0:
		return fmt.Sprintf("%.1f KiB, %.0f connections/s, fairness %.3f", s.memory, s.connects, s.fairness)
	case s.memory > 0:
		return fmt.Sprintf("%.1f KiB", s.memory)
	case s.latency > 0:
		return fmt.Sprintf("%.2f µs", s.latency)
	case s.gbps > 0.5:
		return fmt.Sprintf("%.2f Gb/s, %.0f ns/KiB", s.gbps, s.cpu)
	}
	return fmt.Sprintf("%.0f messages/s", s.rate)
}

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
	*process.Process
	name string // in messages
}

// startWithin bounds a child's start, endWithin what it may take beyond the
// time of its measurement.
const (
	startWithin = time.Minute
	endWithin   = time.Minute
)

// self is this program's file.
var self, _ = os.Executable()

// command is the command line of a child of this program in a role.
func command(role string, spec any) []string {
	text, _ := json.Marshal(spec) // plain structs cannot fail
	return []string{self, role, string(text)}
}

// start starts a program in ns, on the processor given if that is not negative.
// env is added to the environment.
func start(ctx context.Context, ns *netns.NS, cpu int, env []string, argv ...string) (*child, error) {
	name := strings.Join(argv[1:], " ")
	if cpu >= 0 {
		argv = append([]string{"taskset", "-c", fmt.Sprint(cpu)}, argv...)
	}
	p, err := process.Start(ctx, ns, process.Options{Argv: argv, Env: env})
	return &child{p, name}, err
}

// ready waits until a child that has been started says that it is ready.
func ready(c *child, err error) (*child, error) {
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	if err := c.Await(ctx, result.ReadyLine); err != nil {
		c.Kill()
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	return c, nil
}

// output waits for the end of a child, whose measurement lasts for some time, and
// returns what it has printed.
func (c *child) output(within time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), within+endWithin)
	defer cancel()
	if err := c.Wait(ctx); err != nil {
		c.Kill()
		return "", fmt.Errorf("%s: %w: %s", c.name, err, c.Tail())
	}
	return c.Said(), nil
}

// result waits for the child's result and its end.
func (c *child) result(within time.Duration) (r result.Result, err error) {
	if _, err := c.output(within); err != nil {
		return r, err
	}
	if err := json.Unmarshal([]byte(c.Line(`{"bytes":`)), &r); err != nil {
		return r, fmt.Errorf("%s: %w: %s", c.name, err, c.Tail())
	}
	return r, nil
}

// client runs end 1, the server, then end 0, the client, and returns what that
// reports. The server runs on, unless there is an error.
func client(d time.Duration, start func(i int) (*child, error)) (r result.Result, server *child, err error) {
	if server, err = ready(start(1)); err != nil {
		return r, nil, err
	}
	c, err := ready(start(0))
	if err == nil {
		r, err = c.result(d)
	}
	if err != nil {
		server.Kill()
	}
	return r, server, err
}

// both runs a server and a client, and returns what they report.
func both(d time.Duration, start func(i int) (*child, error)) (cr, sr result.Result, err error) {
	cr, server, err := client(d, start)
	if err == nil {
		sr, err = server.result(d)
	}
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

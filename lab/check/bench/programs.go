package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// perftest is a test of the distribution's perftest between two NICs.
type perftest struct {
	args  string // the program and its options
	iters int    // in half a second, roughly
	lat   bool
}

// attempts bounds how often a test is begun whose client comes before the
// server listens for its second connection: perftest does not try again.
const (
	attempts     = 5
	perftestMiss = "RDMA_CM_EVENT_REJECTED; error: -111"
)

// perftestCase runs both ends of p unmodified, each on a NIC.
func perftestCase(name string, set nicSetup, p perftest) *testCase {
	return &testCase{name: name, run: func(ctx context.Context, b *bench) (s sample, err error) {
		argv := strings.Fields(p.args)
		if _, err := exec.LookPath(argv[0]); err != nil {
			return s, fmt.Errorf("%w: %s is not installed", errNotHere, argv[0])
		}
		argv = append(argv, "-R", "-F", "-n", strconv.Itoa(iterations(p.iters, b.opt.duration)))
		if !p.lat {
			argv = append(argv, "--report_gbits")
		}
		nics, err := b.serve(ctx, name, set)
		if err != nil {
			return s, err
		}
		defer nics.stop()
		for range attempts {
			var text string
			text, err = nics.perftest(ctx, argv, b.opt.duration)
			if err == nil {
				return parsePerftest(text, p.lat)
			}
			if !strings.Contains(err.Error(), perftestMiss) {
				break
			}
		}
		return s, err
	}}
}

// iterations scales what is done in half a second; a hundred are the least.
func iterations(inHalf int, d time.Duration) int {
	return max(100, int(int64(inHalf)*int64(d)/int64(time.Second/2)))
}

func (n *served) perftest(ctx context.Context, argv []string, d time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, d+2*endWithin)
	defer cancel()
	server, err := n.run(ctx, 1, argv...)
	if err != nil {
		return "", err
	}
	defer server.stop()
	if err := n.listens(ctx); err != nil {
		return "", server.fail(fmt.Errorf("the server does not listen: %w", err))
	}
	client, err := n.run(ctx, 0, append(slices.Clone(argv), nicAddresses[1])...)
	if err != nil {
		return "", err
	}
	return client.all()
}

// parsePerftest reads the line below the one that names the columns: octets
// and iterations, then peak and average in Gb/s, or the least, the largest and
// the median half round trip in microseconds.
func parsePerftest(text string, lat bool) (s sample, err error) {
	_, below, found := strings.Cut(text, "#bytes")
	_, below, _ = strings.Cut(below, "\n")
	f := strings.Fields(below)
	if !found || len(f) < 5 {
		return s, fmt.Errorf("perftest: cannot read %q", text)
	}
	if lat {
		s.latency, err = strconv.ParseFloat(f[4], 64)
	} else {
		s.gbps, err = strconv.ParseFloat(f[3], 64)
	}
	return s, err
}

// fabricProgram is libfabric's ping-pong, a reference where it is installed.
const fabricProgram = "fi_pingpong"

// fabricCase is fi_pingpong over the kernel's TCP, between the hosts.
func fabricCase(name string, size, inHalf int) *testCase {
	return &testCase{name: name, run: func(ctx context.Context, b *bench) (s sample, err error) {
		if _, err := exec.LookPath(fabricProgram); err != nil {
			return s, fmt.Errorf("%w: %s is not installed", errNotHere, fabricProgram)
		}
		bd, err := b.bed(mtu, false)
		if err != nil {
			return s, err
		}
		args := []string{"-p", "tcp", "-e", "msg", "-S", strconv.Itoa(size), "-I",
			strconv.Itoa(iterations(inHalf, b.opt.duration))}
		text, err := againstSilent(ctx, bd, os.Environ(), fabricProgram, args,
			append(slices.Clone(args), addresses["on1"]))
		if err != nil {
			return s, err
		}
		return parseFabric(text)
	}}
}

// parseFabric reads the last but one figure of the last line, microseconds per
// transfer: half a round trip.
func parseFabric(text string) (s sample, err error) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	f := strings.Fields(lines[len(lines)-1])
	if len(f) < 8 {
		return s, errors.New(fabricProgram + ": cannot read " + strconv.Quote(text))
	}
	s.latency, err = strconv.ParseFloat(f[len(f)-2], 64)
	return s, err
}

// againstSilent runs a program as client of itself, whose server does not say
// when it is ready, between the hosts with offloads, and returns what the
// client says.
func againstSilent(ctx context.Context, b *bed, env []string, program string, server,
	client []string) (text string, err error) {
	s, err := startProgram(ctx, b.hosts["on1"].ns, anywhere, env, program, server...)
	if err != nil {
		return "", err
	}
	defer s.stop()
	for deadline := time.Now().Add(startWithin); ; time.Sleep(100 * time.Millisecond) {
		c, err := startProgram(ctx, b.hosts["on0"].ns, anywhere, env, program, client...)
		if err != nil {
			return "", err
		}
		if text, err := c.all(); err == nil || time.Now().After(deadline) {
			return text, err
		}
	}
}

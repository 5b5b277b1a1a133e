package main

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// installed is errNotHere without a program.
func installed(program string) error {
	if _, err := exec.LookPath(program); err != nil {
		return fmt.Errorf("%w: %s is not installed", errNotHere, program)
	}
	return nil
}

// ucx is UCX's own benchmark, a reference where it is installed.
const ucx = "ucx_perftest"

// ucxCase is one test of ucx_perftest over its TCP transport between the
// hosts with offloads: the figures of its last line.
func ucxCase(name, test string, size, iters int) *testCase {
	return silentCase(name, ucx, parseUCX, func(*measurement) (server, client []string) {
		return nil, []string{addresses["on1"], "-t", test, "-s", strconv.Itoa(size), "-n", strconv.Itoa(iters),
			"-w", strconv.Itoa(iters / 10), "-f", "-v"}
	})
}

// ucxEnv has UCX speak TCP between the hosts.
var ucxEnv = []string{"UCX_TLS=tcp", "UCX_NET_DEVICES=eth0", "UCX_LOG_LEVEL=fatal"}

// parseUCX reads the last line of comma-separated figures: iterations,
// latency (percentile, average, overall) in microseconds, bandwidth (average,
// overall) in MiB/s, messages per second (average, overall).
func parseUCX(text string) (sample, error) {
	line := strings.ReplaceAll(lastLine(text), ",", " ")
	var v [8]float64
	if _, err := fmt.Sscan(line, &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7]); err != nil {
		return sample{}, fmt.Errorf("%s: cannot read %q: %w", ucx, line, err)
	}
	return sample{latency: v[3], gbps: v[5] * (1 << 20) * 8 / 1e9, rate: v[7]}, nil
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

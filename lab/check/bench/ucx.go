package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// ucx is UCX's own benchmark, a reference where it is installed.
const ucx = "ucx_perftest"

func haveUCX() bool {
	_, err := exec.LookPath(ucx)
	return err == nil
}

// ucxRun runs one test of ucx_perftest over its TCP transport between the
// hosts with offloads, and takes the figures of its last line.
func ucxRun(ctx context.Context, b *bed, test string, size, iters int) (s sample, err error) {
	args := []string{"-t", test, "-s", strconv.Itoa(size), "-n", strconv.Itoa(iters), "-w", strconv.Itoa(iters / 10),
		"-f", "-v"}
	env := append(os.Environ(), "UCX_TLS=tcp", "UCX_NET_DEVICES=eth0", "UCX_LOG_LEVEL=fatal")
	text, err := againstSilent(ctx, b, env, ucx, nil, append([]string{addresses["on1"]}, args...))
	if err != nil {
		return s, err
	}
	return parseUCX(text)
}

// parseUCX reads the last line of comma-separated figures: iterations,
// latency (percentile, average, overall) in microseconds, bandwidth (average,
// overall) in MiB/s, messages per second (average, overall).
func parseUCX(text string) (s sample, err error) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	fields := strings.Split(lines[len(lines)-1], ",")
	if len(fields) < 8 {
		return s, fmt.Errorf("%s: cannot read %q", ucx, lines[len(lines)-1])
	}
	var v [8]float64
	for i := range v {
		if v[i], err = strconv.ParseFloat(strings.TrimSpace(fields[i]), 64); err != nil {
			return s, fmt.Errorf("%s: %w", ucx, err)
		}
	}
	return sample{latency: v[3], gbps: v[5] * (1 << 20) * 8 / 1e9, rate: v[7]}, nil
}

package main

import (
	"context"
	"errors"
	"fmt"
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
	return set.on(name, func(ctx context.Context, m *measurement) (s sample, err error) {
		argv := strings.Fields(p.args)
		if err := installed(argv[0]); err != nil {
			return s, err
		}
		argv = append(argv, "-F", "-n", strconv.Itoa(m.iterations(p.iters)))
		if !set.roce {
			argv = append(argv, "-R")
		}
		if !p.lat {
			argv = append(argv, "--report_gbits")
		}
		nics, err := m.serve(ctx, &set)
		if err != nil {
			return s, err
		}
		defer nics.stop()
		text, err := nics.perftest(ctx, argv)
		for n := 1; n < attempts && err != nil && strings.Contains(err.Error(), perftestMiss); n++ {
			text, err = nics.perftest(ctx, argv)
		}
		if err != nil {
			return s, err
		}
		return parsePerftest(text, p.lat)
	})
}

// fewest is the least number of iterations. `ib_send_bw -e` over iWARP may wait for
// ever with 128 or fewer: it has used up its receive credits and asked for no
// completion yet.
const fewest = 300

// iterations scales what is done in half a second.
func (m *measurement) iterations(inHalf int) int {
	return max(fewest, int(int64(inHalf)*int64(m.duration)/int64(time.Second/2)))
}

func (n *served) perftest(ctx context.Context, argv []string) (string, error) {
	server, err := n.run(ctx, 1, argv...)
	if err != nil {
		return "", err
	}
	defer server.Kill()
	listens, remote := n.listens, nicAddresses[1]
	if n.set.roce { // the queue pairs' numbers go by a socket of the system
		listens, remote = listensTCP, rocePrograms
	}
	if err := listens(ctx, server); err != nil {
		return "", fmt.Errorf("the server does not listen: %w: %s", err, server.Tail())
	}
	client, err := n.run(ctx, 0, append(slices.Clone(argv), remote)...)
	if err != nil {
		return "", err
	}
	return client.output(n.duration)
}

// parsePerftest reads the line below the one that names the columns: octets
// and iterations, then peak and average in Gb/s and millions of messages a second, or the least, the largest and
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
		if err == nil {
			s.rate, err = strconv.ParseFloat(f[4], 64)
			s.rate *= 1e6
		}
	}
	return s, err
}

// fabricProgram is libfabric's ping-pong, a reference where it is installed.
const fabricProgram = "fi_pingpong"

// fabricCase is fi_pingpong over the kernel's TCP, between the hosts.
func fabricCase(name string, size, inHalf int) *testCase {
	return silentCase(name, fabricProgram, parseFabric, func(m *measurement) (server, client []string) {
		args := []string{"-p", "tcp", "-e", "msg", "-S", strconv.Itoa(size), "-I", strconv.Itoa(m.iterations(inHalf))}
		return args, append(slices.Clone(args), addresses["on1"])
	})
}

// parseFabric reads the last but one figure of the last line, microseconds per
// transfer: half a round trip.
func parseFabric(text string) (s sample, err error) {
	f := strings.Fields(lastLine(text))
	if len(f) < 8 {
		return s, errors.New(fabricProgram + ": cannot read " + strconv.Quote(text))
	}
	s.latency, err = strconv.ParseFloat(f[len(f)-2], 64)
	return s, err
}

// silentCase runs a program as client of itself, whose server does not say when
// it is ready, between the hosts with offloads, and reads what the client says.
func silentCase(name, program string, parse func(text string) (sample, error),
	args func(m *measurement) (server, client []string)) *testCase {
	return &testCase{name: name, on: bedKind{mtu: mtu}, run: func(ctx context.Context, m *measurement) (s sample,
		err error) {
		if err := installed(program); err != nil {
			return s, err
		}
		server, client := args(m)
		spawn := func(host string, args []string) (*child, error) {
			return start(ctx, m.hosts[host].NS, anywhere, ucxEnv, append([]string{program}, args...)...)
		}
		serving, err := spawn("on1", server)
		if err != nil {
			return s, err
		}
		defer serving.Kill()
		for deadline := time.Now().Add(startWithin); ; time.Sleep(100 * time.Millisecond) {
			c, err := spawn("on0", client)
			if err != nil {
				return s, err
			}
			if text, err := c.output(m.duration); err == nil {
				return parse(text)
			} else if time.Now().After(deadline) {
				return s, err
			}
		}
	}}
}

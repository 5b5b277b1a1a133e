package main

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"tapir/lab/check/figures"
	"tapir/lab/conf/nicconf"
	"tapir/lab/host/link"
	"tapir/lab/node"
	"tapir/lab/node/nicnode"
	"tapir/nic"
	"tapir/nic/fastlinq"
)

// Addresses of NICs in networks of their own.
var nicNets = [2][]netip.Prefix{{netip.MustParsePrefix("10.6.8.1/24")}, {netip.MustParsePrefix("10.6.9.1/24")}}

// startVFs starts a NIC with two VFs: what the host TAP of one sends, that of the other
// gets.
func startVFs(ctx context.Context, s *link.Space, w way) (forwarder, error) {
	to, err := far(s, w)
	if err != nil {
		return nil, err
	}
	n, err := nicnode.Start(ctx, nicconf.Config{Name: "bench", TAP: opaFabric, IP: nicNets[0], MTU: opaMTU,
		Frames: w.frames(),
		SRIOV:  &nicconf.SRIOV{VFs: []nicconf.VF{{HostTAP: opaHost}, {Policies: []string{"mac", to.String()}}}}},
		node.Env{NS: s.NS})
	return throughNIC{n, toVF}, err
}

// toVF is what VF 1 has received.
func toVF(d *nic.Device) uint64 {
	for _, c := range d.Counters() {
		if c.Name == "vf1_rx_packets" {
			return c.Value
		}
	}
	return 0
}

// cabled are two NICs with a host TAP each, and a bridge between their wire TAPs.
type cabled struct {
	throughNIC // the far one
	near       *nicnode.Node
}

// Close ends both NICs.
func (c cabled) Close() error { return errors.Join(c.near.Close(), c.throughNIC.Close()) }

// startCable starts two NICs: what the host TAP of one sends, that of the other gets.
func startCable(ctx context.Context, s *link.Space, w way) (forwarder, error) {
	to, err := far(s, w)
	if err != nil {
		return nil, err
	}
	start := func(i int, wire, host string, mac net.HardwareAddr) (*nicnode.Node, error) {
		cfg := nicconf.Config{Name: wire, TAP: wire, HostTAP: host, IP: nicNets[i], MTU: opaMTU,
			Frames: w.frames()}
		copy(cfg.MAC[:], mac)
		n, err := nicnode.Start(ctx, cfg, node.Env{NS: s.NS})
		return n, errors.Join(err, s.AddPort(wire, bridge, opaMTU))
	}
	if err := s.Net.AddBridge(bridge); err != nil {
		return nil, err
	}
	near, err := start(0, opaFabric, opaHost, nil)
	if err != nil {
		return nil, err
	}
	const farHost = "host1"
	n, err := start(1, "fab1", farHost, to)
	if err := errors.Join(err, s.Net.Up(farHost)); err != nil {
		return nil, errors.Join(err, near.Close())
	}
	return cabled{throughNIC{n, toHost}, near}, nil
}

// A turn is how long one of some NICs forwards until it is the next one's turn: the speed
// of a machine changes more slowly.
const turn = 10 * time.Millisecond

// idleVFs is how many VFs a NIC has that do nothing.
const idleVFs = 16

// control names the comparison of two NICs that are alike, which tells what a comparison
// is worth.
const control = ": two without"

// idleVFCases compare a NIC with idle VFs to one without, and another one without to the
// same. Each round makes new ones, in another order.
func idleVFCases(name string, w way) []*testCase {
	var rounds int
	var ref sample
	with, plain := throughNICOf(nic.Config{}, idleVFs), throughNICOf(nic.Config{}, 0)
	return []*testCase{
		{name: name, run: func(ctx context.Context, m *measurement) (got sample, err error) {
			turns, err := inTurns(ctx, w, m.duration, rounds, with, plain, plain)
			if err != nil {
				return got, err
			}
			rounds++
			got, ref = compared(w, turns, 0, 1), compared(w, turns, 2, 1)
			return got, nil
		}},
		{name: name + control, run: func(context.Context, *measurement) (sample, error) { return ref, nil }},
	}
}

// compared is what forwarder i passed on, and the median, over its turns, of its frames in a
// second of processor time to those of forwarder ref in the turn beside.
func compared(w way, turns [][]tally, i, ref int) sample {
	var all tally
	var ratios []float64
	for k, n := range turns[i] {
		all.add(n)
		ratios = append(ratios, n.perCPU()/turns[ref][k].perCPU())
	}
	got := all.sample(w)
	got.ratio = figures.Median(ratios)
	return got
}

// perCPU is how many frames were passed on in a second of processor time.
func (n tally) perCPU() float64 { return float64(n.frames) / n.cpu.Seconds() }

// inTurns has forwarders pass frames on in turns, each for time d in all: what each did in
// each of its turns. They are made in another order in another round. So are the turns.
func inTurns(ctx context.Context, w way, d time.Duration, round int, starts ...startForwarder) ([][]tally, error) {
	fs, sends, turns := make([]forwarder, len(starts)), make([]func(), len(starts)), make([][]tally, len(starts))
	for k := range starts {
		i := (k + round) % len(starts)
		s, err := link.NewSpace(link.Quiet)
		if err != nil {
			return nil, err
		}
		defer s.Close()
		if fs[i], err = starts[i](ctx, s, w); err != nil {
			return nil, err
		}
		defer fs[i].Close()
		if sends[i], err = flooder(s, w); err != nil {
			return nil, err
		}
	}
	time.Sleep(settle)
	for k := range max(1, int(d/turn)) {
		for j := range fs {
			if k%2 == 1 { // as often after its neighbour as before it
				j = len(fs) - 1 - j
			}
			i := (j + k/2) % len(fs)
			n, err := during(fs[i], turn/4, turn, sends[i])
			if err != nil {
				return nil, err
			}
			turns[i] = append(turns[i], n)
		}
	}
	return turns, nil
}

// manyVFs makes as many VFs as there can be.
func manyVFs(ctx context.Context, _ *measurement) (got sample, err error) {
	s, err := link.NewSpace(link.Quiet)
	if err != nil {
		return got, err
	}
	defer s.Close()
	n, err := nicnode.Start(ctx, nicconf.Config{Name: "bench", TAP: opaFabric, IP: nicNets[0], MTU: opaMTU,
		SRIOV: &nicconf.SRIOV{Total: fastlinq.MaxVFs}}, node.Env{NS: s.NS})
	if err != nil {
		return got, err
	}
	before, err := resident()
	begun := time.Now()
	err = errors.Join(err, n.SetNumVFs(fastlinq.MaxVFs))
	got.setup = time.Since(begun).Seconds()
	after, failed := resident()
	got.memory = max(0, float64(after-before)) / fastlinq.MaxVFs / 1024
	return got, errors.Join(err, failed, n.Close())
}

// resident is the memory of this process that is in use once all is quiet, in octets.
func resident() (int, error) {
	time.Sleep(settle)
	debug.FreeOSMemory()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	pages, err := strconv.Atoi(strings.Fields(string(b))[1]) // as proc(5) has it
	return pages * os.Getpagesize(), err
}

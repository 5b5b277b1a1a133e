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

	"tapir/lab/conf/nicconf"
	"tapir/lab/host/link"
	"tapir/lab/node"
	"tapir/lab/node/nicnode"
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
	return throughNIC{n, "vf1_rx_packets"}, err
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
	return cabled{throughNIC{n, "host_tx_packets"}, near}, nil
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

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tapir/lab/run/real"
	"tapir/lab/run/result"
	"tapir/lab/run/steps"
	"tapir/lab/tool/capture"
	"tapir/lab/tool/perf"
	"tapir/lab/topo"
	"tapir/wire/pause"
	"tapir/wire/pcapng"
)

// Names of the cases of a lossless fabric: labs by the real clock, of NICs on TAPs and `tapir
// sw`. The port that all have to share has 100 Mb/s, which the processors do not limit.
const (
	etsShares   = "ETS 50:30:20"
	incastDCTCP = "incast, iWARP with DCTCP"
	incastDCQCN = "incast, RoCE with DCQCN"
	incastPFC   = "incast, RoCE with PFC"
)

const sharesLab = `
nodes:
  a: {kind: nic, ip: 10.0.0.1/24, dcbx: ieee, dcbx_static: true,
    dcb_app: "ethtype:0:1", prio_pfc: "1:on", personality: roce}
  b: {kind: nic, ip: 10.0.0.2/24, dcbx: ieee, dcbx_static: true,
    dcb_app: "ethtype:0:2", prio_pfc: "2:on", personality: roce}
  c: {kind: nic, ip: 10.0.0.3/24, dcbx: ieee, dcbx_static: true,
    dcb_app: "ethtype:0:3", prio_pfc: "3:on", personality: roce}
  t: {kind: nic, ip: 10.0.0.5/24, media: base-t, link_speed: 100M, personality: roce}
  s: {kind: switch, speed: 10G, tc_tsa: "1:ets,2:ets,3:ets", tc_bw: "1:50,2:30,3:20", prio_pfc: "1:on,2:on,3:on",
    pfc_xoff: 100K}
links: [{between: [a, s], capture: false}, {between: [b, s], capture: false}, {between: [c, s], capture: false},
  {between: [t, s], capture: false}]
steps: [{perf: write-bw, client: [a, b, c], server: t, duration: 1500ms, size: 16384, depth: 64}]
`

// incastLab has three senders; SENDER and SWITCH stand for settings.
const incastLab = `
nodes:
  a: {kind: nic, ip: 10.0.0.1/24, SENDER}
  b: {kind: nic, ip: 10.0.0.2/24, SENDER}
  c: {kind: nic, ip: 10.0.0.3/24, SENDER}
  t: {kind: nic, ip: 10.0.0.5/24, media: base-t, link_speed: 100M, SENDER}
  s: {kind: switch, speed: 10G, queue: 100, SWITCH}
links: [[a, s], {between: [b, s], capture: false}, {between: [c, s], capture: false}, {between: [t, s], capture: false}]
steps: [{perf: write-bw, client: [a, b, c], server: t, duration: 1s, size: 16384, depth: 4}]
`

const marking = "ecn_kmin: 5K, ecn_kmax: 50K, ecn_pmax: 10%"

// losslessCases are those of the set lossless.
func losslessCases() []*testCase {
	incast := func(name, sender, sw string) *testCase {
		return labCase(name, strings.NewReplacer("SENDER", sender, "SWITCH", sw).Replace(incastLab), incastOf)
	}
	return []*testCase{
		labCase(etsShares, sharesLab, sharesOf),
		incast(incastDCTCP, "pause: none, congestion: dctcp", marking),
		incast(incastDCQCN, "pause: none, personality: roce, roce_enable_dcqcn: true", marking),
		incast(incastPFC, `personality: roce, prio_pfc: "0:on"`, `prio_pfc: "0:on", pfc_xoff: 50K`),
	}
}

func losslessRows() []*row {
	points, drops := func(s sample) float64 { return s.points }, func(s sample) float64 { return s.drops }
	return []*row{
		{"lossless", "`tapir sw`: classes with 50, 30 and 20 % of a port, over 1 s: largest difference, in points",
			etsShares, "", points, "", 3, 1, true},
		{"lossless", "3:1 incast of `wire` frames, RoCE with PFC: frames dropped",
			incastPFC, "", drops, "", 0, 0, true},
		{"lossless", "from a PFC frame to the last data frame before the pause, 99 %", incastPFC, "", latency, "µs",
			noLimit, noLimit, true},
		{"lossless", "3:1 incast, iWARP with DCTCP : RoCE with PFC",
			incastDCTCP, incastPFC, gbps, "Gb/s", noLimit, noLimit, false},
		{"lossless", "3:1 incast, RoCE with DCQCN : RoCE with PFC",
			incastDCQCN, incastPFC, gbps, "Gb/s", noLimit, noLimit, false},
	}
}

// labCase runs a lab and has its result, and the directory of its capture, judged.
func labCase(name, text string, judge func(r *result.Result, dir string) (sample, error)) *testCase {
	return &testCase{name: name, run: func(ctx context.Context, m *measurement) (s sample, err error) {
		if _, err := os.Stat(m.opt.tapir); err != nil {
			return s, fmt.Errorf("%w: %s: make build", errNotHere, m.opt.tapir)
		}
		lab, err := topo.Parse("lab.yaml", []byte(text))
		if err != nil {
			return s, err
		}
		dir, err := os.MkdirTemp("", "bench-lab")
		if err != nil {
			return s, err
		}
		defer os.RemoveAll(dir)
		r, err := real.Run(ctx, lab, real.Options{Options: steps.Options{Out: dir}, Tapir: m.opt.tapir})
		if err == nil && r.Verdict != result.Passed {
			err = errors.New(r.Why())
		}
		if err != nil {
			return s, err
		}
		return judge(r, dir)
	}}
}

// sharesOf is how far the shares of three flows are from 50, 30 and 20 percent, over the second
// in the middle of their time, in points.
func sharesOf(r *result.Result, _ string) (s sample, err error) {
	p := r.Steps[0].Perf
	s.gbps = p.Gbps
	var moved [3]float64
	sum := 0.0
	for i := range moved {
		points := p.Flows[i].Progress
		moved[i] = movedBy(points, 1250*time.Millisecond) - movedBy(points, 250*time.Millisecond)
		sum += moved[i]
	}
	for i, share := range [3]float64{50, 30, 20} {
		s.points = max(s.points, math.Abs(100*moved[i]/sum-share))
	}
	return s, nil
}

// movedBy is what a flow had moved by a time, in octets.
func movedBy(points []perf.Progress, at time.Duration) float64 {
	var last perf.Progress
	for _, p := range points {
		if p.Elapsed >= at {
			part := float64(at-last.Elapsed) / float64(p.Elapsed-last.Elapsed)
			return float64(last.Bytes) + part*float64(p.Bytes-last.Bytes)
		}
		last = p
	}
	return float64(last.Bytes)
}

// incastOf is the rate of an incast, the frames that the switch dropped, and how fast the first
// sender obeyed PFC.
func incastOf(r *result.Result, dir string) (s sample, err error) {
	s.gbps = r.Steps[0].Perf.Gbps
	for _, n := range r.Nodes {
		for _, c := range n.Counters {
			full := strings.HasSuffix(c.Name, "_tx_drop_transmit_queue_full") || strings.HasSuffix(c.Name, "_discards")
			if n.Name == "s" && full {
				s.drops += float64(c.Value)
			}
		}
	}
	f, err := os.Open(filepath.Join(dir, capture.LabFile))
	if err != nil {
		return s, err
	}
	defer f.Close()
	all, err := reactions(f, "a-s:a")
	if len(all) > 0 {
		slices.Sort(all)
		s.latency = float64(all[len(all)*99/100]) / 1e3
	}
	return s, err
}

// reactions are, for each pause of priority 0 that PFC frames began at an interface of a
// capture, the nanoseconds from the frame that began it to the last data frame that left
// before it ended; 0: none did.
func reactions(r io.Reader, iface string) (all []int64, err error) {
	const data = 200 // octets, more than an acknowledgement has
	in := pcapng.NewReader(r)
	var names []string
	var from, last, until int64
	end := func() {
		if until > 0 {
			all = append(all, max(0, last-from))
		}
		until = 0
	}
	for {
		b, err := in.Next()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		if i, ok := b.(*pcapng.Interface); ok {
			names = append(names, i.Name)
		}
		p, ok := b.(*pcapng.Packet)
		if !ok || names[p.Interface] != iface {
			continue
		}
		if p.Stamp > until {
			end()
		}
		if p.Flags&3 == pcapng.Outbound {
			if until > 0 && len(p.Data) > data {
				last = p.Stamp
			}
			continue
		}
		c, err := pause.Parse(p.Data)
		switch {
		case err != nil || !c.PFC || c.Enabled&1 == 0:
		case c.Timers[0] == 0:
			end()
		default:
			if until == 0 {
				from, last = p.Stamp, p.Stamp
			}
			until = p.Stamp + int64(pause.Duration(c.Timers[0], 10_000))
		}
	}
}

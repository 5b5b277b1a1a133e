package main

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

type direction int

const (
	less direction = iota
	more
)

// row is one lab that both programs run. Without a result its figure is the
// processor time of the lab with all its processes, divided by the work.
type row struct {
	name   string
	unit   string
	real   bool // by the real clock, on TAPs
	nic    string
	count  int    // NICs a beside b, if not one
	link   string // its faults
	nodes  string // all nodes and links, if not NICs
	step   string
	work   float64
	result *regexp.Regexp // finds the figure in what the lab prints
	better direction
}

var (
	rate    = regexp.MustCompile(`, ([0-9.]+) Gb/s`)
	latency = regexp.MustCompile(`, median ([0-9.]+[nµm]?s)`)
)

const (
	perKiB     = "ns of CPU per KiB"
	perMessage = "ns of CPU per message"
)

// rows begins with those in virtual time, which depend least on the machine.
var rows = []row{
	{name: "write", unit: perKiB, work: 600 * 1024,
		step: "perf: write-bw, size: 1048576, iters: 600, depth: 16, client: a, server: b"},
	{name: "write-gso", unit: perKiB, work: 3000 * 1024, nic: ", frames: gso",
		step: "perf: write-bw, size: 1048576, iters: 3000, depth: 16, client: a, server: b"},
	{name: "read", unit: perKiB, work: 8000 * 64,
		step: "perf: read-bw, size: 65536, iters: 8000, depth: 16, client: a, server: b"},
	{name: "lossy", unit: perKiB, work: 8000 * 64, link: ", loss: 1%",
		step: "perf: write-bw, size: 65536, iters: 8000, depth: 16, client: a, server: b"},
	{name: "small", unit: perMessage, work: 1e6,
		step: "perf: write-bw, size: 64, iters: 1000000, depth: 64, client: a, server: b"},
	{name: "ping-pong", unit: perMessage, work: 2 * 200e3,
		step: "perf: send-lat, size: 64, iters: 200000, client: a, server: b"},
	{name: "connections", unit: "ns of CPU per connection", work: 1024,
		step: "perf: write-bw, size: 4096, iters: 2, depth: 1, qps: 1024, client: a, server: b"},
	{name: "nics", unit: "ns of CPU per NIC", work: 200, count: 200,
		step: "perf: write-bw, size: 64, iters: 1, client: a, server: b"},
	{name: "vnic", unit: perMessage, work: 2 * 40000, nodes: vnics,
		step: "wait: {node: em, in_sync: true}}\n  - {run: ping -q -c 40000 -i 0.001 10.2.0.2, on: h1"},
	{name: "tap-host", unit: "ns of CPU per ping", real: true, work: 20000,
		step: "run: ping -q -f -c 20000 -s 1400 10.0.255.1, on: a"},
	{name: "tap-write", unit: "Gb/s", real: true, result: rate, better: more,
		step: "perf: write-bw, size: 65536, duration: 1s, depth: 16, client: a, server: b"},
	{name: "tap-gso", unit: "Gb/s", real: true, nic: ", frames: gso", result: rate, better: more,
		step: "perf: write-bw, size: 65536, duration: 1s, depth: 16, client: a, server: b"},
	{name: "tap-latency", unit: "ns", real: true, result: latency,
		step: "perf: send-lat, size: 64, duration: 1s, client: a, server: b"},
}

// vnics are two virtual NICs of Omni-Path.
const vnics = `nodes:
  h1: {kind: hfi, vnics: [{vesw: 2, ip: 10.2.0.1/24}]}
  h2: {kind: hfi, vnics: [{vesw: 2, ip: 10.2.0.2/24}]}
  em: {kind: manager, vesws: [{name: blue, id: 2, members: [h1, h2]}]}
  s: {kind: switch}
links:
  - {between: [h1, s], capture: false}
  - {between: [h2, s], capture: false}
  - {between: [em, s], capture: false}
`

// lab is the row's topology file.
func (r *row) lab() string {
	clock, nodes := "virtual", r.nodes
	if r.real {
		clock = "real"
	}
	if nodes == "" {
		nodes = r.nics()
	}
	return fmt.Sprintf("clock: %s\n%ssteps:\n  - {%s}\n", clock, nodes, r.step)
}

func (r *row) nics() string {
	count, link, more := "", "[a, b]", ""
	if r.count > 0 {
		count, link, more = fmt.Sprintf(", count: %d", r.count), "[a, s]", "  - {between: [b, s], capture: false}\n"
	}
	nodes := fmt.Sprintf("nodes:\n  a: {kind: nic%s, ip: 10.0.0.1/16%s}\n  b: {kind: nic, ip: 10.0.255.1/16%s}\n",
		count, r.nic, r.nic)
	if r.count > 0 {
		nodes += "  s: {kind: switch}\n"
	}
	return nodes + fmt.Sprintf("links:\n  - {between: %s, capture: false%s}\n%s", link, r.link, more)
}

// printed finds the figure in the lab's output: a rate, or a time in nanoseconds.
func (r *row) printed(out string) (float64, error) {
	m := r.result.FindStringSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("no figure in\n%s", out)
	}
	if d, err := time.ParseDuration(m[1]); err == nil {
		return float64(d), nil
	}
	return strconv.ParseFloat(m[1], 64)
}

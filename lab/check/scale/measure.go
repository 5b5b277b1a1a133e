package main

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"time"

	benchresult "tapir/lab/check/bench/result"
	"tapir/lab/run/result"
	"tapir/lab/run/virtual"
	"tapir/lab/topo"
)

// rack is how many NICs a switch has. One switch for all would send what is
// for everybody, such as ARP requests, to everybody.
const rack = 10

// work is a lab: racks of NICs each of which writes to the next one in its
// rack, all at once.
type work struct {
	hardware         string
	nics, qps, iters int // qps and iters of each NIC and queue pair
}

// cost is what it took.
type cost struct {
	work
	messages int64
	events   uint64
	cpu      time.Duration
	idle     int // octets of heap that the lab takes before its step
	most     int // at most, as far as it was looked at
	left     int // behind the step, with connections closed
}

// lab is the work as a topology.
func (w work) lab() (*topo.Lab, error) {
	var nodes, links, steps bytes.Buffer
	for i := range w.nics / rack {
		fmt.Fprintf(&nodes, "  r%d: {kind: nic, count: %d, ip: 10.%d.%d.1/24, hardware: %s}\n  s%d: {kind: switch}\n",
			i, rack, i/256, i%256, w.hardware, i)
		fmt.Fprintf(&links, "  - [r%d, s%d]\n", i, i)
		fmt.Fprintf(&steps, "  - {perf: write-bw, client: r%d, server: r%d, size: 64, qps: %d, depth: 8, iters: %d}\n",
			i, i, w.qps, w.iters)
	}
	l, err := topo.Parse("scale.yaml", fmt.Appendf(nil, "clock: virtual\nnodes:\n%slinks:\n%ssteps:\n%s", &nodes,
		&links, &steps))
	if err != nil {
		return nil, err
	}
	for i := range l.Steps[1:] { // all racks side by side
		l.Steps[0].Pairs = append(l.Steps[0].Pairs, l.Steps[i+1].Pairs...)
	}
	l.Steps = l.Steps[:1]
	return l, nil
}

// measure runs the lab.
func measure(ctx context.Context, w work) (cost, error) {
	c := cost{work: w}
	plan, err := w.lab()
	if err != nil {
		return c, err
	}
	before, begun := heap(), benchresult.CPU()
	l, err := virtual.Up(ctx, plan, virtual.Options{})
	if err != nil {
		return c, err
	}
	c.idle = heap() - before
	stop := make(chan struct{})
	most := make(chan int)
	go func() { most <- watch(stop) }()
	r := l.Steps(ctx)
	close(stop)
	c.most = <-most - before
	c.left = heap() - before
	err = l.Finish(ctx, r)
	c.cpu, c.events = benchresult.CPU()-begun, l.Events()
	if err == nil && r.Verdict != result.Passed {
		err = fmt.Errorf("%d NICs: %s %s", w.nics, r.Error, r.Steps[0].Error)
	}
	if err != nil {
		return c, err
	}
	c.messages = r.Steps[0].Perf.Messages
	return c, nil
}

// heap is how many octets are in use.
func heap() int {
	runtime.GC()
	return allocated()
}

func allocated() int {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// watch returns the most heap that it saw until stop.
func watch(stop <-chan struct{}) (most int) {
	for tick := time.Tick(100 * time.Millisecond); ; {
		most = max(most, allocated())
		select {
		case <-stop:
			return most
		case <-tick:
		}
	}
}

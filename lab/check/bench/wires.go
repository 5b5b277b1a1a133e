package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"tapir/lab/check/bench/result"
	"tapir/lab/conf/perfconf"
	"tapir/nic/loop"
	"tapir/nic/tap"
	"tapir/nic/tap/wires"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// wireSetup says on which wire two NICs are.
type wireSetup struct {
	nicSetup
	kind string // shm, vxlan or dev; empty: TAPs on a bridge
}

// ends are the texts of both ends and the hosts in which they lie, "" for the middle.
func (w wireSetup) ends(dir string) (texts, hosts [2]string) {
	for i := range 2 {
		switch host := fmt.Sprint("on", i); w.kind {
		case "shm":
			texts[i] = "shm:" + filepath.Join(dir, "cable")
		case "vxlan":
			hosts[i] = host
			texts[i] = fmt.Sprintf("vxlan:7,%s,%s", addresses[fmt.Sprint("on", 1-i)], addresses[host])
		case "dev":
			if w.frames == "wire" {
				host = fmt.Sprint("off", i)
			}
			hosts[i], texts[i] = host, "dev:"+pairEnd
		}
	}
	return texts, hosts
}

// onWire starts a role at both ends of the wire, the server first.
func (m *measurement) onWire(ctx context.Context, set *wireSetup, role string,
	spec func(i int, wire string) any) (cr, sr result.Result, err error) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return cr, sr, err
	}
	defer os.RemoveAll(dir)
	texts, hosts := set.ends(dir)
	return both(m.duration, func(i int) (*child, error) {
		ns := m.middle.NS
		if hosts[i] != "" {
			ns = m.hosts[hosts[i]].NS
		}
		return start(ctx, ns, set.pins.cpu(i), nil, command(role, spec(i, texts[i]))...)
	})
}

// wireCase is a job between two NICs on a wire.
func wireCase(name string, set wireSetup, job perfconf.Job) *testCase {
	return set.on(name, func(ctx context.Context, m *measurement) (sample, error) {
		client, server := job, perfconf.Job{Op: job.Op, Duration: m.duration}
		client.Duration, client.Remote = m.duration, netip.MustParseAddr(nicAddresses[1])
		cr, sr, err := m.onWire(ctx, &set, "nic", func(i int, wire string) any {
			spec := m.spec(&set.nicSetup, i)
			if spec.Wire = wire; set.kind == "vxlan" {
				spec.MTU = 0 // that of the way
			}
			return &nicJob{spec, []perfconf.Job{client, server}[i]}
		})
		return combine(cr, sr), err
	})
}

// floodSpec is one end of a wire without a NIC: end 0 sends frames of 1,514 octets as fast
// as the wire takes them, end 1 counts.
type floodSpec struct {
	Wire, TAP string // one of them
	End       int
	Duration  time.Duration
}

// floodCase is frames from one end of a wire to the other, without a NIC.
func floodCase(name string, set wireSetup) *testCase {
	return set.on(name, func(ctx context.Context, m *measurement) (sample, error) {
		cr, sr, err := m.onWire(ctx, &set, "flood", func(i int, wire string) any {
			s := &floodSpec{Wire: wire, End: i, Duration: m.duration}
			if wire == "" {
				s.TAP = set.nicName(i)
			}
			return s
		})
		return combine(sr, cr), err // the receiver's time counts
	})
}

// flooding is an engine that sends or counts.
type flooding struct {
	spec  *floodSpec
	pool  frame.Pool
	out   *loop.Port
	met   bool       // the other end has sent something
	until frame.Time // the end
	first frame.Time // when the first counted frame came
	count int64
	octet int64
	done  chan result.Result // nil: reported
	cpu   time.Duration
}

// floodMAC is the address of an end.
func floodMAC(end int) ether.Addr { return ether.Addr{2, 0, 0, 0, 0xf1, byte(end)} }

const (
	floodFrame = opaMTU + ether.HeaderLen
	helloEvery = frame.Time(time.Millisecond)
)

func (e *flooding) Receive(_ frame.Port, frames []*frame.Frame, now frame.Time) {
	for _, f := range frames {
		h, _, err := ether.Parse(f.Bytes())
		if ours := err == nil && h.Dst == floodMAC(e.spec.End); ours {
			if !e.met {
				e.met = true
				e.until = now.Add(e.spec.Duration)
				e.cpu = result.CPU()
				e.first = now
			}
			e.count++
			e.octet += int64(f.Len())
		}
		f.Release()
	}
}

func (e *flooding) Dispatch(frame.Time) bool { return false }

// send sends a frame of n octets to the other end.
func (e *flooding) send(n int) bool {
	f := e.pool.Get(n)
	if f == nil {
		return false
	}
	f.Extend(n)
	ether.Header{Dst: floodMAC(1 - e.spec.End), Src: floodMAC(e.spec.End), Type: 0x88b5}.Put(f.Bytes())
	e.out.Transmit(f)
	return true
}

// Poll says hello from end 1 until frames come, and sends from end 0 from then on, somewhat
// longer than they are counted.
func (e *flooding) Poll(now frame.Time) frame.Time {
	switch {
	case !e.met && e.spec.End == 1:
		e.send(ether.HeaderLen + 46)
		return now + helloEvery
	case !e.met:
		return frame.Never
	}
	if now >= e.until && e.done != nil {
		e.done <- result.Result{Bytes: e.octet, Messages: e.count, Elapsed: now.Sub(e.first), CPU: result.CPU() - e.cpu}
		e.done = nil
	}
	if e.done == nil || e.spec.End == 1 {
		return max(e.until, now+helloEvery)
	}
	for e.out.Room() > 0 && e.send(floodFrame) {
	}
	return e.until
}

func (e *flooding) TxDone(_ uint64, _, _ frame.Time) bool { return false }

// queue opens the end.
func (s *floodSpec) queue() (tap.Queue, error) {
	if s.Wire == "" {
		return tap.Open(tap.Config{Name: s.TAP})
	}
	return wires.Open(s.Wire, false)
}

// floodChild is one end.
func floodChild(ctx context.Context, spec *floodSpec) error {
	q, err := spec.queue()
	if err != nil {
		return err
	}
	l, err := loop.New(loop.Config{})
	if err != nil {
		return errors.Join(err, q.Close())
	}
	done := make(chan result.Result, 1)
	e := &flooding{spec: spec, pool: l.Pool(), out: l.AddQueue(frame.Wire, q, opaMTU+ether.MaxHeaderLen), done: done}
	if spec.End == 0 { // it sends until the other has counted
		spec.Duration += spec.Duration / 4
	}
	l.SetEngine(e)
	ctx, cancel := context.WithTimeout(ctx, spec.Duration+endWithin)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	result.Ready()
	select {
	case r := <-done:
		cancel()
		return errors.Join(<-ended, r.Print())
	case err := <-ended:
		return errors.Join(err, errors.New("the other end does not answer"))
	}
}

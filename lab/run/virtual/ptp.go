package virtual

import (
	"context"
	"fmt"
	"time"

	"tapir/lab/run/result"
	"tapir/lab/run/virtual/vtime"
	"tapir/lab/tool/ptprun"
	"tapir/ptp"
	"tapir/ptp/clock"
	"tapir/wire/frame"
)

// realtime is the time of day as the world's systems show it.
type realtime struct{ world *vtime.World }

// Realtime implements ptprun.System.
func (r realtime) Realtime(at frame.Time) int64 { return int64(r.world.At(at)) }

// startPTP starts the PTP instance of a NIC or HFI, if it has one.
func (n *node) startPTP() {
	if n.PTP == nil {
		return
	}
	job := ptprun.Job{Op: ptprun.Op, File: "ptp of " + n.Name, YAML: string(n.PTP), Interval: time.Second}
	var err error
	n.timed, err = ptprun.Start(n.clock(), realtime{n.lab.world}, job, n.lab.world.Now(), func(ptprun.Report) {},
		func(ptprun.Report, error) {})
	if err != nil && n.lab.err == nil {
		n.lab.err = fmt.Errorf("%s: PTP: %w", n.Name, err)
	}
}

// clock is the PTP unit of a NIC or HFI.
func (n *node) clock() ptprun.Node {
	if n.hfi != nil {
		return ptprun.Node{Name: n.Name, PTP: n.hfi.PTP, Schedule: n.hfi.Schedule}
	}
	return ptprun.Of(n.dev)
}

// stopPTP ends it.
func (n *node) stopPTP() {
	if n.timed != nil && !n.dead {
		n.timed.Cancel(n.lab.world.Now())
	}
	n.timed = nil
}

// instance is the PTP instance of a NIC or switch, with its clock.
func (n *node) instance() (*ptp.Instance, *clock.PHC) {
	if n.dev != nil || n.hfi != nil {
		return n.clock().PTP.Instance(), n.clock().PTP.PHC()
	}
	return n.sw.Instance(), n.phc
}

// clocksEvery is how often clocks are sampled at first.
const clocksEvery = 10 * time.Millisecond

// watchClocks begins to sample the clocks of PTP nodes, if the lab is recorded.
func (l *lab) watchClocks() {
	var names []string
	for _, n := range l.nodes {
		if n.PTP != nil || n.sw != nil && n.sw.Instance() != nil {
			names = append(names, n.Name)
		}
	}
	if l.opt.Out != "" {
		l.clocks = result.NewClocks(names, l.Now(), clocksEvery)
	}
}

// sampleClocks takes the sample that is due by end at the latest; false: none is.
func (l *lab) sampleClocks(end frame.Time) bool {
	if l.clocks == nil || frame.Time(l.clocks.Next()) > end {
		return false
	}
	l.world.Run(frame.Time(l.clocks.Next()))
	l.clocks.Take(func(name string) (*ptp.Snapshot, int64) {
		if l.node(name).dead {
			return nil, 0
		}
		s, truth, _ := l.PTP(context.Background(), name)
		return s, truth
	})
	return true
}

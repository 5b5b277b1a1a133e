package virtual

import (
	"fmt"
	"time"

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

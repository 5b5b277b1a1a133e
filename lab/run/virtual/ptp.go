package virtual

import (
	"fmt"
	"time"

	"tapir/lab/run/vtime"
	"tapir/lab/tool/ptprun"
	"tapir/lab/topo"
	"tapir/ptp"
	"tapir/wire/frame"
)

// realtime is the time of day as the world's systems show it.
type realtime struct{ world *vtime.World }

// Realtime implements ptprun.System.
func (r realtime) Realtime(at frame.Time) int64 { return int64(r.world.At(at)) }

// startPTP starts the PTP instance of a NIC, if it has one.
func (n *node) startPTP() {
	if n.PTP == nil {
		return
	}
	job := ptprun.Job{Op: ptprun.Op, File: "ptp of " + n.Name, YAML: string(n.PTP), Interval: time.Second}
	var err error
	n.timed, err = ptprun.Start(n.dev, realtime{n.lab.world}, job, n.lab.world.Now(), func(ptprun.Report) {}, func(ptprun.Report, error) {})
	if err != nil && n.lab.err == nil {
		n.lab.err = fmt.Errorf("%s: PTP: %w", n.Name, err)
	}
}

// stopPTP ends it.
func (n *node) stopPTP() {
	if n.timed != nil && !n.dead {
		n.timed.Cancel(n.lab.world.Now())
	}
	n.timed = nil
}

// instance is the PTP instance of a NIC or switch.
func (n *node) instance() *ptp.Instance {
	if n.dev != nil {
		return n.dev.PTP()
	}
	return n.sw.Instance()
}

// keepsTime says why a node's PTP instance is not as c wants it.
func (n *node) keepsTime(c *topo.Condition) error {
	i := n.instance()
	if i == nil {
		return fmt.Errorf("%s runs no PTP instance", n.Name)
	}
	phc := n.phc
	if n.dev != nil {
		phc = n.dev.PHC()
	}
	s := i.Snapshot()
	clock := ptprun.ClockOf(phc, realtime{n.lab.world}, n.lab.world.Now())
	return c.KeepsTime(&s, clock.TrueOffset)
}

// Package ptprun runs the PTP instance of a NIC: a report each interval while it
// runs, its status, and changes of its settings.
package ptprun

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"tapir/lab/conf/ptpconf"
	"tapir/nic"
	unit "tapir/nic/ptp"
	"tapir/ptp"
	"tapir/ptp/msg"
	"tapir/wire/frame"
)

// Op is Job.Op.
const Op = "ptp"

// Job is what a client asks for.
type Job struct {
	Op       string            `json:"op"`
	File     string            `json:"file,omitempty"` // name of the configuration, for messages
	YAML     string            `json:"yaml,omitempty"` // its content
	Settings []ptpconf.Setting `json:"settings,omitempty"`
	Interval time.Duration     `json:"interval,omitempty"` // between two reports; 0: 1 s
	Count    int               `json:"count,omitempty"`    // end after so many; 0: never
	// path of the socket for pmc; empty: beside the control socket
	UDS string `json:"uds,omitempty"`
}

// ParseJob reads a job.
func ParseJob(raw json.RawMessage) (j Job, err error) {
	if err := json.Unmarshal(raw, &j); err != nil {
		return j, err
	}
	if j.Interval == 0 {
		j.Interval = time.Second
	}
	if j.Interval < 10*time.Millisecond || j.Interval > time.Hour || j.Count < 0 {
		return j, fmt.Errorf("interval %v, count %d: expected 10ms to 1h, and no negative count", j.Interval, j.Count)
	}
	return j, nil
}

// Report is what happened in one interval. Offsets are those of the NIC's
// clock from its master, as the instance measured them; TrueOffset is the
// truth: how far the clock is from the system's CLOCK_REALTIME.
type Report struct {
	Elapsed    time.Duration    `json:"elapsed"` // since the start
	State      string           `json:"state"`
	Servo      string           `json:"servo"`
	Samples    int              `json:"samples"`
	RMS        float64          `json:"rms_ns"`
	Max        float64          `json:"max_ns"`
	Freq       float64          `json:"freq_ppb"` // correction in force
	Delay      float64          `json:"delay_ns"` // path or link, of the last sample
	TrueOffset int64            `json:"true_offset_ns"`
	Events     []string         `json:"events,omitempty"` // changes of state
	Parent     msg.PortIdentity `json:"parent"`
}

// System relates a NIC's time to the system's.
type System interface {
	// Realtime is what CLOCK_REALTIME showed at a time of the NIC's loop.
	Realtime(at frame.Time) int64
}

// Node is a port with a PTP unit: that of a NIC, or of an HFI.
type Node struct {
	Name     string
	PTP      *unit.Service
	Schedule func(at frame.Time, fn func(now frame.Time)) (cancel func())
}

// Of is the wire port of a NIC.
func Of(d *nic.Device) Node { return Node{d.Config().Name, d.PTP, d.Schedule} }

// Run is an instance that runs.
type Run struct {
	d        Node
	system   System
	instance *ptp.Instance
	job      Job
	begun    frame.Time
	reports  int
	progress func(Report)
	done     func(Report, error)
	cancel   func() // of the next report
	interval Report // that grows
	squares  float64
}

// Start runs an instance on d as job says. progress is called each interval,
// done after the last one. Everything happens on the NIC's thread.
func Start(d Node, system System, job Job, now frame.Time, progress func(Report),
	done func(Report, error)) (*Run, error) {
	c, err := ptpconf.Configure(d.PTP.DefaultInstance, job.File, []byte(job.YAML), job.Settings)
	if err != nil {
		return nil, err
	}
	r := &Run{d: d, system: system, job: job, begun: now, progress: progress, done: done}
	if r.instance, err = d.PTP.Start(c, now); err != nil {
		return nil, err
	}
	r.instance.Observe(r)
	r.schedule(now)
	return r, nil
}

func (r *Run) schedule(now frame.Time) { r.cancel = r.d.Schedule(now.Add(r.job.Interval), r.report) }

// PortState implements ptp.Observer.
func (r *Run) PortState(_ int, from, to msg.PortState, why string, _ frame.Time) {
	r.interval.Events = append(r.interval.Events, fmt.Sprintf("%v to %v: %s", from, to, why))
}

// Measured implements ptp.Observer.
func (r *Run) Measured(s ptp.Sample) {
	v := &r.interval
	ns := float64(s.Offset)
	v.Samples++
	r.squares += float64(ns * ns)
	v.Max = max(v.Max, math.Abs(ns))
	v.Delay = float64(s.Delay) / 65536
}

// take ends an interval.
func (r *Run) take(now frame.Time) Report {
	v := r.interval
	if v.Samples > 0 {
		v.RMS = math.Sqrt(r.squares / float64(v.Samples))
	}
	snapshot := r.instance.Snapshot()
	v.Elapsed, v.State, v.Servo, v.Freq = now.Sub(r.begun), snapshot.Ports[0].StateName, snapshot.Servo.State,
		snapshot.Servo.Freq
	v.Parent = snapshot.Parent.Port
	v.TrueOffset = int64(r.d.PTP.PHC().Now(now)) - r.system.Realtime(now)
	r.interval, r.squares = Report{Delay: v.Delay}, 0
	return v
}

func (r *Run) report(now frame.Time) {
	v := r.take(now)
	r.reports++
	if r.reports == r.job.Count {
		r.end()
		r.done(v, nil)
		return
	}
	r.progress(v)
	r.schedule(now)
}

// Cancel ends the instance without a last report.
func (r *Run) Cancel(frame.Time) { r.end() }

func (r *Run) end() {
	r.cancel()
	if r.d.PTP.Instance() == r.instance {
		r.d.PTP.Stop()
	}
}

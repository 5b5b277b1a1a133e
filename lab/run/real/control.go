package real

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"tapir/lab/run/steps"
	"tapir/lab/tool/capture"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/schema"
)

var (
	_ = schema.Add("show", 1, []labRow{})
	_ = schema.Add("show nic", 1, labRow{})
	_ = schema.Add("show link", 1, []LinkRow{})
)

// stepCommand is the command by which a lab that is up takes a step.
const stepCommand = "lab.step"

// asked is what it takes.
type asked struct {
	Step string `json:"step"` // in the words of the file
}

// control is a lab for its control socket.
type control struct {
	ctl.NotRDMA
	*Bed
}

// serve opens the control socket of the lab, under its name. Without one the lab is up,
// too: another may have the name.
func (b *Bed) serve() {
	if b.bed.opt.Control == "" {
		return
	}
	s, err := ctl.Listen(b.Lab.Name, b.bed.opt.Control)
	if err != nil {
		b.Log.Printf("lab %s has no control socket: %v", b.Lab.Name, err)
		return
	}
	b.control = s
	s.Serve(&control{ctl.NotRDMA{Who: b.Lab.Name + " is a lab", Hardware: "lab"}, b})
}

// unserve closes the control socket.
func (b *Bed) unserve() {
	if b.control != nil {
		b.control.Close()
		b.control = nil
	}
}

// labRow is what Show tells of the lab itself.
type labRow struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"`
	File    string `json:"file"`
	Seconds string `json:"seconds"` // since its start
	Nodes   int    `json:"nodes"`
	Links   int    `json:"links"`
	Steps   int    `json:"steps"`
	Out     string `json:"out"`
	PID     int    `json:"pid"`
	Version string `json:"version"`
}

// LinkRow is what Show tells of a link, in both directions together.
type LinkRow struct {
	Name       string `json:"name"`
	A          string `json:"a"`
	B          string `json:"b"`
	State      string `json:"state"` // up or down
	Fault      string `json:"fault"` // in force, of chance
	Frames     uint64 `json:"frames"`
	Octets     uint64 `json:"octets"` // that left
	Lost       uint64 `json:"lost"`
	Duplicated uint64 `json:"duplicated"`
	Corrupted  uint64 `json:"corrupted"`
	Reordered  uint64 `json:"reordered"`
	Refused    uint64 `json:"refused"`
	// How late frames left, in microseconds.
	LateP50  float64  `json:"late_us_p50"`
	LateP99  float64  `json:"late_us_p99"`
	LateP999 float64  `json:"late_us_p999"`
	LateMax  float64  `json:"late_us_max"`
	Rules    []string `json:"rules"` // what they struck, such as drop fpdu 3: 1 of 1
}

// Show implements ctl.NIC.
func (c *control) Show(kind string) (any, error) {
	switch kind {
	case ctl.Kinds[0]:
		return labRow{Name: c.Lab.Name, Kind: "lab", File: c.Lab.File,
			Seconds: fmt.Sprintf("%.3f", c.bed.Now().Seconds()),
			Nodes:   len(c.Lab.Nodes), Links: len(c.Lab.Links), Steps: len(c.Lab.Steps), Out: c.bed.opt.Out,
			PID: os.Getpid(), Version: c.bed.opt.Control}, nil
	case "link":
		return c.links(), nil
	case "log":
		lines, _ := c.Log.Since(0)
		return lines, nil
	}
	return nil, ctl.NoTable(c.Who, kind, []string{ctl.Kinds[0], "link", "log"})
}

func (c *control) links() []LinkRow {
	rows := []LinkRow{}
	for _, k := range c.bed.cables {
		n := k.counts()
		octets, late := k.wire.Delivered()
		us := func(d time.Duration) float64 { return float64(d) / 1e3 }
		r := LinkRow{Name: k.Name, A: k.Ends[0], B: k.Ends[1], Frames: n.Frames, Octets: octets,
			Lost: n.Lost, Duplicated: n.Duplicated, Corrupted: n.Corrupted, Reordered: n.Reordered, Refused: n.Refused,
			LateP50: us(late.Quantile(.5)), LateP99: us(late.Quantile(.99)),
			LateP999: us(late.Quantile(.999)), LateMax: us(late.Max), Rules: []string{}}
		for _, x := range n.Rules {
			r.Rules = append(r.Rules, fmt.Sprintf("%s: %d of %d", x.Name, x.Struck, x.Matched))
		}
		now := c.bed.linkNow(k)
		r.State, r.Fault = now.State, now.Fault
		rows = append(rows, r)
	}
	return rows
}

// linkNow is what a link does now.
func (b *bed) linkNow(k *cable) steps.LinkRow {
	b.changing.Lock()
	defer b.changing.Unlock()
	return steps.LinkState(k.counts(), k.down, [2]string{k.fault[0].String(), k.fault[1].String()}, k.Ends)
}

// Follow implements ctl.NIC: it knows the log.
func (c *control) Follow(kind string, since uint64) (any, uint64, error) {
	if kind != "log" {
		return c.NotRDMA.Follow(kind, since)
	}
	lines, next := c.Log.Since(since)
	return lines, next, nil
}

// Command implements ctl.Commander.
func (c *control) Command(ctx context.Context, name string, args json.RawMessage) (any, error) {
	if name != stepCommand {
		return c.NotRDMA.Command(ctx, name, args)
	}
	var a asked
	if err := json.Unmarshal(args, &a); err != nil {
		return nil, ctl.BadRequest(err)
	}
	return struct{}{}, c.Act(ctx, a.Step)
}

// CaptureInfo implements ctl.NIC.
func (c *control) CaptureInfo() capture.Info {
	return capture.Info{Application: "tapir " + c.bed.opt.Control, Hardware: runtime.GOARCH, Name: c.Lab.Name}
}

// CannotCapture points at what does.
func (c *control) CannotCapture() error {
	return c.Unable("is captured by: tapir lab run --out DIR " + c.Lab.File)
}

// Attach implements ctl.NIC.
func (c *control) Attach(*capture.Session, bool) (detach func(), err error) {
	return nil, c.CannotCapture()
}

// Stop ends the lab as Ctrl-C does.
func (c *control) Stop() { _ = syscall.Kill(os.Getpid(), syscall.SIGTERM) }

// Metrics are those of links.
func (c *control) Metrics() (all []ctl.Metric, err error) {
	for _, k := range c.bed.cables {
		n := k.counts()
		of := []ctl.Label{{Name: "lab", Value: c.Lab.Name}, {Name: "link", Value: k.Name}}
		for _, m := range []struct {
			name string
			v    uint64
		}{{"frames", n.Frames}, {"lost", n.Lost}, {"duplicated", n.Duplicated}, {"corrupted", n.Corrupted},
			{"reordered", n.Reordered}, {"refused", n.Refused}} {
			all = append(all, ctl.Metric{Name: "tapir_lab_link_" + m.name + "_total",
				Help: m.name + " frames of the link", Value: float64(m.v), Labels: of})
		}
		octets, late := k.wire.Delivered()
		all = append(all, ctl.Metric{Name: "tapir_lab_link_octets_total", Help: "octets that left the link",
			Value: float64(octets), Labels: of})
		all = append(all, ctl.Metric{Name: "tapir_lab_link_late_seconds",
			Help: "time between when a frame was due to leave the link and when it left", Labels: of,
			Histogram: &ctl.Histogram{Count: late.Count, Sum: late.Sum.Seconds(), Buckets: late.Buckets()}})
	}
	return all, nil
}

// Step does now what a step says, in the words of the lab's file, such as
// {fault: a-b, loss: 10%}.
func (r *Running) Step(ctx context.Context, text string) error {
	c, err := ctl.DialContext(ctx, r.Name)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Command(ctx, stepCommand, asked{text}, nil)
}

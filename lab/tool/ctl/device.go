package ctl

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"tapir/nic/port"
	unit "tapir/nic/ptp"

	"tapir/lab/conf/perfconf"
	"tapir/lab/tool/capture"
	"tapir/lab/tool/perf"
	"tapir/lab/tool/ptprun"
	"tapir/lab/tool/ptpuds"
	"tapir/lab/tool/siwt"
	"tapir/mpa"
	"tapir/nic"
	"tapir/nic/cm"
	"tapir/nic/fastlinq"
	"tapir/nic/msglog"
	"tapir/nic/param"
	"tapir/nic/view"
	"tapir/rdmap"
	"tapir/wire/frame"
)

// Thread is the way onto the thread of a NIC's event loop; loop.Loop is one.
type Thread interface {
	// Do queues fn; false means that the loop has ended.
	Do(fn func(now frame.Time)) bool
	// DoWait returns after fn has run, or with an error if the loop ended.
	DoWait(fn func(now frame.Time)) error
	// Now is the loop's time.
	Now() frame.Time
	// Realtime is what CLOCK_REALTIME showed at a time of the loop, and
	// FromRealtime the reverse. Both are called on the thread only.
	Realtime(at frame.Time) int64
	FromRealtime(ns int64) frame.Time
}

// Device is the NIC that a server serves in a real process: a nic.Device with
// its thread, and what only its maker knows.
type Device struct {
	Device  *nic.Device
	Thread  Thread
	Version string // of the binary
	TAP     string // the wire TAP's name
	HostTAP string // empty: none
	OnStop  func() // begins the orderly end; must not wait for it

	tee capture.Tee // belongs to the thread
}

// nicRow is what Show tells of the NIC itself.
type nicRow struct {
	view.Info
	TAP     string `json:"tap"`
	HostTAP string `json:"host_tap_name,omitempty"`
	PID     int    `json:"pid"`
	Version string `json:"version"`
}

// rdmaKinds are those of Kinds that such a NIC has.
var rdmaKinds = append(slices.Clone(Kinds[:slices.Index(Kinds, "tlv")+1]), "vport", "queue", "ethtool")

// Served returns d as a server wants it.
func (d *Device) Served() NIC { return (*served)(d) }

// served keeps the server's methods apart from the fields of Device.
type served Device

func (d *served) Show(kind string) (v any, err error) {
	if !slices.Contains(rdmaKinds, kind) {
		return nil, NoTable(d.Device.Config().Name+" is an RDMA NIC", kind, rdmaKinds)
	}
	var failed error
	err = d.on(func(now frame.Time) {
		switch kind {
		case "nic":
			v = nicRow{Info: d.Device.ShowNIC(), TAP: d.TAP, HostTAP: d.HostTAP, PID: os.Getpid(), Version: d.Version}
		case "device":
			v = d.Device.ShowDevice()
		case "qp":
			v = rows(d.Device.ShowQP())
		case "cq":
			v = rows(d.Device.ShowCQ())
		case "mr":
			v = rows(d.Device.ShowMR())
		case "mw":
			v = rows(d.Device.ShowMW())
		case "cep":
			v = rows(d.Device.ShowCEP())
		case "counters":
			v = d.Device.Counters()
		case "params":
			v = d.Device.ShowParams()
		case "stats":
			v = d.Device.ShowStats()
		case "events":
			v = d.Device.ShowEvents(0)
		case "log":
			v = d.Device.ShowLog(0)
		case "ethtool":
			e := d.Device.ShowEthtool()
			e.Version, e.BusInfo = d.Version, d.TAP
			v = e
		default:
			v, failed = d.showFastLinQ(kind, now)
		}
	})
	return v, cmp.Or(err, failed)
}

// showFastLinQ are the tables that only FastLinQ hardware has.
func (d *served) showFastLinQ(kind string, now frame.Time) (any, error) {
	h := fastlinq.Of(d.Device.Hardware)
	if h == nil {
		return nil, d.lacks(kind + " table")
	}
	switch kind {
	case "irq":
		return h.ShowIRQ(), nil
	case "vport":
		return rows(h.ShowVport()), nil
	case "queue":
		return rows(h.ShowQueues()), nil
	case "link":
		return h.ShowLink(), nil
	case "mfw":
		return h.ShowMFW(now), nil
	case "nvm":
		return h.ShowNVM(), nil
	}
	return h.ShowTLV(now), nil
}

// rows keeps an empty table an array in JSON.
func rows[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// on runs fn on the NIC's thread.
func (d *served) on(fn func(now frame.Time)) error {
	if err := d.Thread.DoWait(fn); err != nil {
		return &Error{What: fmt.Sprintf("NIC %s is ending: %v", d.Device.Config().Name, err)}
	}
	return nil
}

func (d *served) Follow(kind string, since uint64) (list any, next uint64, err error) {
	err = d.on(func(frame.Time) {
		if kind == "events" {
			events := d.Device.ShowEvents(since)
			list, next = events, since
			if n := len(events); n > 0 {
				next = events[n-1].Seq + 1
			}
			return
		}
		lines := d.Device.ShowLog(since)
		list, next = lines, since
		if n := len(lines); n > 0 {
			next = lines[n-1].Seq + 1
		}
	})
	return list, next, err
}

func (d *served) Set(settings []Setting) (err error) {
	list := make([]nic.Setting, len(settings))
	for i, s := range settings {
		list[i] = nic.Setting{Name: s.Name, Value: s.Value}
	}
	if derr := d.on(func(frame.Time) {
		if err = cmp.Or(unchanged(d.Device, settings), d.known(settings)); err != nil {
			return
		}
		if err = d.Device.Set(list...); err != nil {
			err = &Error{Status: http.StatusBadRequest, What: err.Error()}
		}
	}); derr != nil {
		return derr
	}
	return err
}

// known refuses settings of FastLinQ hardware for a NIC of another kind.
func (d *served) known(settings []Setting) error {
	cfg := d.Device.Config()
	others := (&fastlinq.Config{}).Params()
	for _, s := range settings {
		if cfg.Param(s.Name) == nil && param.Find(others, s.Name) != nil {
			return d.lacks("setting " + s.Name)
		}
	}
	return nil
}

// unchanged fails if a setting is no longer what the client made its value of.
func unchanged(d *nic.Device, settings []Setting) error {
	c := d.Config()
	rows := c.Params()
	for _, s := range settings {
		p := param.Find(rows, s.Name)
		if s.Was == "" || p == nil {
			continue
		}
		if is := p.Get(); is != s.Was {
			return &Error{Status: http.StatusConflict, What: fmt.Sprintf("%s: is %s by now, not %s", s.Name, is, s.Was)}
		}
	}
	return nil
}

func (d *served) Perf(raw json.RawMessage, progress func(any), done func(any, error)) (cancel func(), err error) {
	var kind struct{ Op string }
	if json.Unmarshal(raw, &kind) == nil && kind.Op == siwt.Op {
		return d.siwt(raw, done)
	}
	if kind.Op == ptprun.Op {
		return d.ptp(raw, progress, done)
	}
	var job perfconf.Job
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&job); err != nil {
		return nil, &Error{What: fmt.Sprintf("the job cannot be read: %v", err),
			Remedy: "use the tapir binary that started the NIC"}
	}
	var run *perf.Run
	var startErr error
	err = d.on(func(now frame.Time) {
		run, startErr = perf.Start(d.Device, job, now,
			func(r perf.Report, err error) { done(r, explain(job.Op, err)) },
			func(p perf.Progress) { progress(p) })
	})
	if err != nil {
		return nil, err
	}
	if startErr != nil {
		return nil, startErr
	}
	return func() { d.Thread.Do(run.Cancel) }, nil
}

// siwt starts a job of package siwt. Its report counts also when it failed.
func (d *served) siwt(raw json.RawMessage, done func(any, error)) (cancel func(), err error) {
	var job siwt.Job
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&job); err != nil {
		return nil, &Error{What: fmt.Sprintf("the job cannot be read: %v", err),
			Remedy: "use the tapir binary that started the NIC"}
	}
	var run *siwt.Run
	var startErr error
	err = d.on(func(now frame.Time) {
		run, startErr = siwt.Start(d.Device, job, now, func(r siwt.Report, _ error) {
			done(r, nil) // an error is part of the report
		})
	})
	if err == nil {
		err = startErr
	}
	if err != nil {
		return nil, err
	}
	return func() { d.Thread.Do(run.Cancel) }, nil
}

// ptp runs a PTP instance until the client leaves.
func (d *served) ptp(raw json.RawMessage, progress func(any), done func(any, error)) (cancel func(), err error) {
	job, err := ptprun.ParseJob(raw)
	if err != nil {
		return nil, &Error{Status: http.StatusBadRequest, What: err.Error()}
	}
	if job.UDS == "" {
		job.UDS = PTPSocket(d.Device.Config().Name)
	}
	runs := false
	if err := d.on(func(frame.Time) { runs = d.Device.PTP.Instance() != nil }); err != nil {
		return nil, err
	}
	if runs {
		return nil, ptpError(unit.ErrPTPRuns)
	}
	uds, err := ptpuds.Listen(job.UDS)
	if err != nil {
		return nil, &Error{What: err.Error(), Remedy: "choose another path with --uds"}
	}
	var run *ptprun.Run
	var startErr error
	err = d.on(func(now frame.Time) {
		run, startErr = ptprun.Start(d.Device, d.Thread, job, now, func(r ptprun.Report) {
			progress(r)
		}, func(r ptprun.Report, err error) {
			go func() { // Close waits for the thread that calls us
				_ = uds.Close()
				done(r, err)
			}()
		})
		if startErr == nil {
			d.Device.PTP.Manager().SetLocal(uds)
		}
	})
	if err == nil {
		err = ptpError(startErr)
	}
	if err != nil {
		_ = uds.Close() // the error that counts is the other
		return nil, err
	}
	uds.Serve(d.Thread.Do, pmc{d.Device})
	return func() {
		d.Thread.Do(run.Cancel)
		_ = uds.Close() // the socket is gone, whatever it says
	}, nil
}

// PTPSocket is the path of the socket by which linuxptp's pmc manages the PTP
// instance of a NIC, unless its start named another.
func PTPSocket(nic string) string { return filepath.Join(Dir(), nic+".ptp") }

// pmc hands what comes by such a socket to the instance that runs.
type pmc struct{ d *nic.Device }

func (p pmc) Local(client string, b []byte, now frame.Time) {
	if m := p.d.PTP.Manager(); m != nil {
		m.Local(client, b, now)
	}
}

// explain adds how to mend what the engine can only name.
func explain(op perfconf.Op, err error) error {
	remedy := ""
	protocol := (*rdmap.Error)(nil)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, cm.ErrRefused) && op == perfconf.Rping:
		remedy = "start the server there first: tapir rping -s"
	case errors.Is(err, cm.ErrRefused):
		remedy = fmt.Sprintf("start the server there first: tapir perf %s", op)
	case errors.Is(err, &mpa.Error{Code: mpa.Startup}):
		remedy = "check the port: what listens there speaks no iWARP"
	case errors.As(err, &protocol):
		remedy = "capture the next try to see the FPDU: tapir capture -w f.pcapng"
	case errors.Is(err, cm.ErrUnreachable):
		remedy = "check the address, and that both TAPs are on one network"
	}
	return &Error{What: err.Error(), Remedy: remedy}
}

func (d *served) CaptureInfo() capture.Info {
	cfg := d.Device.Config()
	return capture.Info{
		Application: "tapir " + d.Version, OS: osName(), Hardware: runtime.GOARCH,
		Name: cfg.Name, MAC: cfg.MAC, MTU: cfg.MTU, Speed: port.Speed * 1_000_000,
		Wire: d.TAP, Host: d.HostTAP, Frames: cfg.Frames.String(),
	}
}

// osName is the kernel's name and release, as uname(1) gives them.
func osName() string {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return runtime.GOOS
	}
	return "Linux " + strings.TrimSpace(string(release))
}

func (d *served) Attach(s *capture.Session, context bool) (detach func(), err error) {
	err = d.on(func(frame.Time) {
		if context {
			d.Device.Replay(s)
		}
		s.Live()
		d.tee.Add(s)
		d.Device.SetTracer(&d.tee)
		d.listen()
	})
	if err != nil {
		return nil, err
	}
	return func() {
		// If the loop has ended, no further call to s can happen either.
		_ = d.on(func(frame.Time) {
			if d.tee.Remove(s) == 0 {
				d.Device.SetTracer(nil)
			}
			d.listen()
		})
	}, nil
}

// listen gives the captures the lines of the log that they want.
func (d *served) listen() {
	d.Device.Log().Listen(d.tee.Topics(), func(t msglog.Topic, at frame.Time, text []byte) {
		d.tee.Line(t, d.Device.System(at), text)
	})
}

func (d *served) Stop() { d.OnStop() }

package ctl

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"

	"tapir/lab/conf/perfconf"
	"tapir/lab/tool/capture"
	"tapir/lab/tool/perf"
	"tapir/lab/tool/ptprun"
	"tapir/lab/tool/verify"
	"tapir/mpa"
	"tapir/nic"
	"tapir/nic/cm"
	"tapir/nic/fastlinq"
	"tapir/nic/msglog"
	"tapir/nic/param"
	"tapir/nic/port"
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
	// TAP and HostTAP are the names of the TAPs, which may be renamed. Nil, or
	// empty: there is none.
	TAP, HostTAP func() string
	// LocalMAD hands a datagram to the agent of queue pair qp at a LID of the RDMA
	// port and returns its answer, on the thread; nil: the NIC has no such port.
	LocalMAD func(qp uint32, lid uint16, mad []byte) ([]byte, error)
	Commands map[string]Answer // that others answer
	Jobs     map[string]Job    // that others run, by Op
	// Tables are those that others show, by kind: lists of flat structs, on the thread.
	Tables map[string]func() any
	// Counted is what others count at the NIC, on the thread; nil: nothing.
	Counted func() []view.Counter
	Clients func() any // the programs that use the NIC, flat structs
	Wire    func() any // what its wire counts, flat structs, on the thread; nil: nothing
	OnStop  func()     // begins the orderly end; must not wait for it

	tee capture.Tee // belongs to the thread
}

// name is what a name is now; without one, empty.
func name(of func() string) string {
	if of == nil {
		return ""
	}
	return of()
}

// nicRow is what Show tells of the NIC itself.
type nicRow struct {
	view.Info
	TAP     string `json:"tap"`
	HostTAP string `json:"host_tap_name,omitempty"`
	PID     int    `json:"pid"`
	Version string `json:"version"`
	// Captures is how many captures run.
	Captures int `json:"captures"`
}

// table is a table of a NIC, by kind; it is made on the NIC's thread.
type table func(d *served, now frame.Time) (any, error)

var tables = map[string]table{
	"nic": func(d *served, _ frame.Time) (any, error) {
		return nicRow{d.Device.ShowNIC(), name(d.TAP), name(d.HostTAP), os.Getpid(), d.Version,
			d.tee.Len()}, nil
	},
	"device": one((*nic.Device).ShowDevice),
	"qp": func(d *served, now frame.Time) (any, error) {
		if d.Device.RoCE != nil {
			return list((*nic.Device).ShowRoCEQP)(d, now)
		}
		return list((*nic.Device).ShowQP)(d, now)
	},
	"gid":      list((*nic.Device).ShowGID),
	"ah":       list((*nic.Device).ShowAH),
	"cq":       list((*nic.Device).ShowCQ),
	"mr":       list((*nic.Device).ShowMR),
	"mw":       list((*nic.Device).ShowMW),
	"cep":      list((*nic.Device).ShowCEP),
	"resource": list((*nic.Device).ShowResources), "neigh": list((*nic.Device).ShowNeighbors),
	"clients": func(d *served, _ frame.Time) (any, error) { return d.Clients(), nil },
	"wire": func(d *served, _ frame.Time) (any, error) {
		if d.Wire == nil {
			return []struct{}{}, nil
		}
		return d.Wire(), nil
	},
	"counters": func(d *served, _ frame.Time) (any, error) { return d.counters(), nil },
	"iscsi":    ofOthers("iscsi"),
	"nvme":     ofOthers("nvme"),
	"fcoe":     ofOthers("fcoe"),
	"params":   one((*nic.Device).ShowParams),
	"stats":    one((*nic.Device).ShowStats),
	"events":   one(func(d *nic.Device) []view.EventInfo { return d.ShowEvents(0) }),
	"log":      one(func(d *nic.Device) []view.LineInfo { return d.ShowLog(0) }),
	"ethtool": func(d *served, _ frame.Time) (any, error) {
		e := d.Device.ShowEthtool()
		e.Version, e.BusInfo = d.Version, name(d.TAP)
		return e, nil
	},
	"irq": ofFastLinQ("irq", func(h *fastlinq.Device, _ frame.Time) any { return h.ShowIRQ() }),
	"vport": ofFastLinQ("vport", func(h *fastlinq.Device, _ frame.Time) any {
		return append([]view.VportInfo{}, h.ShowVport()...)
	}),
	"queue": ofFastLinQ("queue", func(h *fastlinq.Device, _ frame.Time) any {
		return append([]view.QueueInfo{}, h.ShowQueues()...)
	}),
	"link": ofFastLinQ("link", func(h *fastlinq.Device, _ frame.Time) any { return h.ShowLink() }),
	"lldp": ofFastLinQ("lldp", func(h *fastlinq.Device, now frame.Time) any { return h.ShowLLDP(now) }),
	"dcb":  ofFastLinQ("dcb", func(h *fastlinq.Device, _ frame.Time) any { return h.ShowDCB() }),
	"mfw":  ofFastLinQ("mfw", func(h *fastlinq.Device, now frame.Time) any { return h.ShowMFW(now) }),
	"ll2":  ofFastLinQ("ll2", func(h *fastlinq.Device, _ frame.Time) any { return h.ShowLL2() }),
	"vf":   ofFastLinQ("vf", func(h *fastlinq.Device, _ frame.Time) any { return h.ShowVF() }),
	"nvm":  ofFastLinQ("nvm", func(h *fastlinq.Device, _ frame.Time) any { return h.ShowNVM() }),
	"tlv":  ofFastLinQ("tlv", func(h *fastlinq.Device, now frame.Time) any { return h.ShowTLV(now) }),
}

// TablesOf are the tables of a NIC without a process, by kind, as far as they are recorded.
func TablesOf(dev *nic.Device, now frame.Time) map[string]any {
	d, all := &served{Device: dev}, map[string]any{}
	for _, kind := range Recorded {
		if show := tables[kind]; show != nil {
			if v, err := show(d, now); err == nil { // else its hardware has no such table
				all[kind] = v
			}
		}
	}
	all["nic"] = dev.ShowNIC()
	return all
}

// one is a table that is never nil.
func one[T any](show func(*nic.Device) T) table {
	return func(d *served, _ frame.Time) (any, error) { return show(d.Device), nil }
}

// list is a table that is an array in JSON, also if it is empty.
func list[T any](show func(*nic.Device) []T) table {
	return func(d *served, _ frame.Time) (any, error) { return append([]T{}, show(d.Device)...), nil }
}

// ofOthers is a table of what runs at the NIC, empty if nothing does.
func ofOthers(kind string) table {
	return func(d *served, _ frame.Time) (any, error) {
		if show := d.Tables[kind]; show != nil {
			return show(), nil
		}
		return []struct{}{}, nil
	}
}

// counters are those of the NIC and of what runs at it.
func (d *served) counters() []view.Counter {
	all := d.Device.Counters()
	if d.Counted != nil {
		all = append(all, d.Counted()...)
	}
	return all
}

// ofFastLinQ is a table that only FastLinQ hardware has.
func ofFastLinQ(kind string, show func(h *fastlinq.Device, now frame.Time) any) table {
	return func(d *served, now frame.Time) (any, error) {
		h := fastlinq.Of(d.Device.Hardware)
		if h == nil {
			return nil, d.lacks(kind + " table")
		}
		return show(h, now), nil
	}
}

// Served returns d as a server wants it.
func (d *Device) Served() NIC { return (*served)(d) }

// served keeps the server's methods apart from the fields of Device.
type served Device

func (d *served) Show(kind string) (v any, err error) {
	show := tables[kind]
	if show == nil {
		known := slices.DeleteFunc(slices.Clone(Kinds), func(k string) bool { return tables[k] == nil })
		return nil, NoTable(d.Device.Config().Name+" is an RDMA NIC", kind, known)
	}
	err = d.on(func(now frame.Time) (err error) {
		v, err = show(d, now)
		return err
	})
	return v, err
}

// on runs fn on the NIC's thread and returns its error.
func (d *served) on(fn func(now frame.Time) error) error {
	return onThread(d.Thread, d.Device.Config().Name, fn)
}

// onThread is on of any NIC.
func onThread(t Thread, name string, fn func(now frame.Time) error) (err error) {
	if ended := t.DoWait(func(now frame.Time) { err = fn(now) }); ended != nil {
		return &Error{What: fmt.Sprintf("NIC %s is ending: %v", name, ended)}
	}
	return err
}

func (d *served) Follow(kind string, since uint64) (list any, next uint64, err error) {
	err = d.on(func(frame.Time) error {
		if kind == "events" {
			list, next = following(d.Device.ShowEvents(since), since, func(e view.EventInfo) uint64 { return e.Seq })
		} else {
			list, next = following(d.Device.ShowLog(since), since, func(l view.LineInfo) uint64 { return l.Seq })
		}
		return nil
	})
	return list, next, err
}

// following returns list and the number behind it.
func following[T any](list []T, since uint64, number func(T) uint64) (any, uint64) {
	if n := len(list); n > 0 {
		since = number(list[n-1]) + 1
	}
	return list, since
}

func (d *served) Set(settings []Setting) error {
	list := make([]nic.Setting, len(settings))
	for i, s := range settings {
		list[i] = nic.Setting{Name: s.Name, Value: s.Value}
	}
	return d.on(func(frame.Time) error {
		if err := cmp.Or(unchanged(d.Device, settings), d.known(settings)); err != nil {
			return err
		}
		return BadRequest(d.Device.Set(list...))
	})
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
	_ = json.Unmarshal(raw, &kind) // what is wrong with a job, its reader says
	switch kind.Op {
	case verify.Op:
		return perform(d, raw, func(job verify.Job, now frame.Time) (*verify.Run, error) {
			// An error is part of the report.
			return verify.Start(d.Device, job, now, func(r verify.Report, _ error) { done(r, nil) })
		})
	case ptprun.Op:
		return d.clock().Perf(raw, progress, done)
	}
	if job := d.Jobs[kind.Op]; job != nil {
		return job(raw, progress, done)
	}
	return perform(d, raw, func(job perfconf.Job, now frame.Time) (*perf.Run, error) {
		return perf.Start(d.Device, job, now, func(r perf.Report, err error) {
			done(r, explain(job.Op, err, d.Device.IP.Conflicts()))
		},
			func(p perf.Progress) { progress(p) })
	})
}

// canceller is a workload that runs.
type canceller interface{ Cancel(now frame.Time) }

// perform reads a job and starts it.
func perform[J any, R canceller](d *served, raw json.RawMessage, start func(job J, now frame.Time) (R, error)) (
	cancel func(), err error) {
	job, err := decodeStrictly[J](raw)
	if err != nil {
		return nil, &Error{What: fmt.Sprintf("the job cannot be read: %v", err),
			Remedy: "use the tapir binary that started the NIC"}
	}
	var run R
	err = d.on(func(now frame.Time) (err error) {
		run, err = start(job, now)
		return err
	})
	return func() { d.Thread.Do(run.Cancel) }, err
}

// decodeStrictly refuses fields that T does not have.
func decodeStrictly[T any](raw json.RawMessage) (v T, err error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	err = dec.Decode(&v)
	return v, err
}

// explain adds how to mend what the engine can only name. Conflicts counts messages of stations
// that use an address of the NIC.
func explain(op perfconf.Op, err error, conflicts uint64) error {
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
	case errors.Is(err, cm.ErrUnreachable) && conflicts > 0:
		remedy = "another station has the MAC or IP address of this NIC: set another by --mac or --ip"
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
		Wire: name(d.TAP), Host: name(d.HostTAP), Frames: cfg.Frames.String(),
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
	err = d.on(func(frame.Time) error {
		if context {
			d.Device.Replay(s)
		}
		s.Live()
		d.tee.Add(s)
		d.Device.SetTracer(&d.tee)
		d.listen()
		return nil
	})
	return func() {
		// If the loop has ended, no further call to s can happen either.
		_ = d.Thread.DoWait(func(frame.Time) {
			if d.tee.Remove(s) == 0 {
				d.Device.SetTracer(nil)
			}
			d.listen()
		})
	}, err
}

// listen gives the captures the lines of the log that they want.
func (d *served) listen() {
	d.Device.Log().Listen(d.tee.Topics(), func(t msglog.Topic, at frame.Time, text []byte) {
		d.tee.Line(t, d.Device.System(at), text)
	})
}

func (d *served) Stop() { d.OnStop() }

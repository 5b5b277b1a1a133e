// Package emnode runs an Ethernet Manager in real time, on an HFI port of its
// own.
package emnode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"tapir/lab/conf/hficonf"
	"tapir/lab/node"
	"tapir/lab/node/hfinode"
	"tapir/lab/node/nodectl"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/schema"
	"tapir/opa/em"
	"tapir/opa/mad"
	"tapir/opa/sa"
	"tapir/wire/frame"
)

var (
	_ = schema.Add("show", 1, []emRow{})
	_ = schema.Add("show nic", 1, emRow{})
	_ = schema.Results("show vesw", 1, (*em.Manager).VESWs)
	_ = schema.Results("em show vesw", 1, (*em.Manager).VESWs)
	_ = schema.Results("show port", 1, (*em.Manager).Ports)
	_ = schema.Results("em show port", 1, (*em.Manager).Ports)
	_ = schema.Results("show member", 1, (*em.Manager).VPorts)
	_ = schema.Results("em show member", 1, (*em.Manager).VPorts)
	_ = schema.Results("show mac", 1, (*em.Manager).MACs)
	_ = schema.Results("em show mac", 1, (*em.Manager).MACs)
	_ = schema.Results("show traffic", 1, (*em.Manager).Traffic)
	_ = schema.Results("em show traffic", 1, (*em.Manager).Traffic)
	_ = schema.Results("show congestion", 1, (*em.Manager).Congestion)
	_ = schema.Results("em show congestion", 1, (*em.Manager).Congestion)
	_ = schema.Results("show switch", 1, (*em.Manager).Switches)
	_ = schema.Results("em show switch", 1, (*em.Manager).Switches)
	_ = schema.Results("show audit", 1, (*em.Manager).Events)
	_ = schema.Results("em show audit", 1, (*em.Manager).Events)
	_ = schema.Results("show counters", 1, ManagerCounters)
	_ = schema.Results("em show counters", 1, ManagerCounters)
)

// EM is an Ethernet Manager that runs, on an HFI port of its own.
type EM struct {
	*hfinode.Node
	cfg     hficonf.EMConfig
	path    string // of its file; empty: it cannot be read again
	mgr     *em.Manager
	guests  *guests
	fe      *frontEnd // nil without
	audit   *auditFile
	reloads sync.Mutex
}

// guests are agents that come and go; they belong to the loop's thread.
type guests struct{ list []mad.Agent }

func (g *guests) Receive(b []byte, from mad.Address, now frame.Time, send mad.Send) {
	for _, a := range g.list {
		a.Receive(b, from, now, send)
	}
}

func (g *guests) Poll(now frame.Time, send mad.Send) frame.Time {
	next := frame.Never
	for _, a := range g.list {
		next = min(next, a.Poll(now, send))
	}
	return next
}

// Start runs the manager that cfg describes, from the file at path. Close ends
// it; the fabric stays as it is.
func Start(ctx context.Context, path string, cfg hficonf.EMConfig, env node.Env) (m *EM, err error) {
	m = &EM{cfg: cfg, path: path, guests: &guests{}}
	if m.audit, err = openAudit(cfg.Audit, cfg.Port.ControlName(), env); err != nil {
		return nil, err
	}
	if m.mgr, err = NewManager(cfg, m.audit.note); err != nil {
		return nil, errors.Join(err, m.audit.close())
	}
	agents := []mad.Agent{m.mgr, sa.New(m.mgr), m.guests}
	if cfg.FE != "" {
		if m.fe, err = listenFE(cfg.FE, m.warn); err != nil {
			return nil, errors.Join(err, m.audit.close())
		}
		agents = append(agents, m.fe)
	}
	m.Node, err = hfinode.Start(ctx, cfg.Port, env, agents...)
	if err != nil {
		m.fe.close()
		return nil, errors.Join(err, m.audit.close())
	}
	m.fe.serve(m.Node)
	return m, nil
}

func (m *EM) warn(format string, args ...any) { m.audit.warn(fmt.Sprintf(format, args...)) }

// NewManager returns the manager that cfg describes, an agent of the HFI of
// cfg.Port. note is told what it does.
func NewManager(cfg hficonf.EMConfig, note func(em.Event)) (*em.Manager, error) {
	o := options(&cfg)
	o.OnEvent = note
	return em.New(cfg.Fabric, o)
}

func options(c *hficonf.EMConfig) em.Options {
	o := em.Options{GUID: c.Port.GUID, Priority: c.Priority, Timing: c.Timing}
	if c.Standby {
		o.Priority = 0
	}
	return o
}

// observer returns a manager that reads the fabric and changes nothing.
func observer(c *hficonf.EMConfig, fabric em.Config, transactions uint32) (*em.Manager, error) {
	o := options(c)
	o.Observe, o.Transactions = true, transactions
	return em.New(fabric, o)
}

// Close ends the manager.
func (m *EM) Close() error {
	m.fe.close()
	return errors.Join(m.Node.Close(), m.audit.close())
}

// Ready is the line for scripts that says that the manager runs.
func (m *EM) Ready() string {
	line := m.cfg.Ready(m.TAP())
	if m.fe != nil {
		line += " fe=" + m.fe.addr()
	}
	return line
}

// Reload reads the file again and puts what it says of the fabric in force.
func (m *EM) Reload() error {
	m.reloads.Lock()
	defer m.reloads.Unlock()
	cfg, err := hficonf.LoadEM(m.path)
	if err != nil {
		return err
	}
	old, now := m.cfg.Port, cfg.Port
	if old.TAP != now.TAP || old.GUID != now.GUID || old.Name != now.Name || old.Framing != now.Framing ||
		old.ICRC != now.ICRC {
		return fmt.Errorf(
			"%s: name, fabric_tap, guid, framing and icrc cannot change while the manager runs: start it again", m.path)
	}
	var failed error
	if err := m.DoWait(func(frame.Time) { failed = m.mgr.Reconfigure(cfg.Fabric) }); err != nil {
		return err
	}
	return failed
}

// observing marks the MADs of an observer beside the manager of the port.
const observing = 0x706c616e

// planEvery is how often a plan is looked at.
const planEvery = 20 * time.Millisecond

// Plan says what cfg would change on the fabric, a line each, and changes
// nothing. It takes the time to read the fabric.
func (m *EM) Plan(ctx context.Context, cfg em.Config) ([]string, error) {
	watcher, err := observer(&m.cfg, cfg, observing)
	if err != nil {
		return nil, err
	}
	err = m.DoWait(func(frame.Time) { m.guests.list = append(m.guests.list, watcher) })
	if err != nil {
		return nil, err
	}
	defer m.DoWait(func(frame.Time) {
		m.guests.list = slices.DeleteFunc(m.guests.list, func(a mad.Agent) bool { return a == mad.Agent(watcher) })
	})
	return awaitPlan(ctx, m.Node, watcher)
}

func awaitPlan(ctx context.Context, n *hfinode.Node, observer *em.Manager) (lines []string, err error) {
	tick := time.Tick(planEvery)
	for {
		ready := false
		if err := n.DoWait(func(frame.Time) { lines, ready = observer.Plan() }); err != nil || ready {
			return lines, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick:
		}
	}
}

// DryRun says what the manager would change on the fabric, without one that
// runs.
func DryRun(ctx context.Context, cfg hficonf.EMConfig, env node.Env) ([]string, error) {
	watcher, err := observer(&cfg, cfg.Fabric, 0)
	if err != nil {
		return nil, err
	}
	n, err := hfinode.Start(ctx, cfg.Port, env, watcher)
	if err != nil {
		return nil, err
	}
	lines, err := awaitPlan(ctx, n, watcher)
	return lines, errors.Join(err, n.Close())
}

// auditFile appends the audit log to a file, and tells the node's log.
type auditFile struct {
	name    string
	env     node.Env
	file    *os.File // nil: none
	mu      sync.Mutex
	waiting []auditEntry
	wake    chan struct{}
	done    chan struct{}
}

type auditEntry struct {
	Time time.Time `json:"time"`
	Seq  uint64    `json:"seq"`
	Text string    `json:"text"`
}

func openAudit(path, name string, env node.Env) (a *auditFile, err error) {
	a = &auditFile{name: name, env: env, wake: make(chan struct{}, 1), done: make(chan struct{})}
	if path != "" {
		if a.file, err = os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
			return nil, fmt.Errorf("audit log: %w", err)
		}
	}
	go a.write()
	return a, nil
}

// note takes an entry on the loop's thread, which never waits for a disk.
func (a *auditFile) note(e em.Event) {
	a.mu.Lock()
	a.waiting = append(a.waiting, auditEntry{time.Now(), e.Seq, e.Text})
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

func (a *auditFile) write() {
	defer close(a.done)
	for range a.wake {
		a.flush()
	}
	a.flush()
}

func (a *auditFile) flush() {
	a.mu.Lock()
	list := a.waiting
	a.waiting = nil
	a.mu.Unlock()
	for _, e := range list {
		a.warn(e.Text)
		if a.file == nil {
			continue
		}
		lines := json.NewEncoder(a.file)
		lines.SetEscapeHTML(false)
		if err := lines.Encode(e); err != nil {
			a.warn("audit log: " + err.Error())
		}
	}
}

func (a *auditFile) warn(text string) { a.env.Warn(a.name, text) }

// close writes what waits; nobody notes any more.
func (a *auditFile) close() error {
	close(a.wake)
	<-a.done
	if a.file == nil {
		return nil
	}
	return a.file.Close()
}

// emRow is what Show tells of the manager itself.
type emRow struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	LID  string `json:"lid"`
	TAP  string `json:"tap"`
	em.Status
	PID     int    `json:"pid"`
	Version string `json:"version"`
}

// Served is the manager as a control server wants it; stop begins its
// orderly end and must not wait for it.
func (m *EM) Served(stop func()) ctl.NIC {
	mgr := m.mgr
	c := nodectl.New(&m.Base, "an Ethernet Manager", "Ethernet Manager", stop,
		nodectl.Row("nic", func() emRow {
			return emRow{Name: m.Name(), Kind: "em", LID: m.HFI().Port().LID().String(), TAP: m.TAP(),
				Status: mgr.Status(), PID: os.Getpid(), Version: m.Env().Version}
		}),
		nodectl.List("vesw", mgr.VESWs), nodectl.List("port", mgr.Ports), nodectl.List("member", mgr.VPorts),
		nodectl.List("mac", func() []em.MACRecord { return mgr.MACs(0) }), nodectl.List("traffic", mgr.Traffic),
		nodectl.List("congestion", mgr.Congestion),
		nodectl.List("switch", mgr.Switches),
		nodectl.List("audit", func() []em.Event { return mgr.Events(0) }),
		nodectl.List("counters", func() []nodectl.Counter { return ManagerCounters(mgr) }))
	return &control{m.ControlOf(c), m}
}

type control struct {
	hfinode.Control
	em *EM
}

// Metrics are those of the port, and of the manager.
func (s *control) Metrics() ([]ctl.Metric, error) {
	m := nodectl.Metrics{Of: ctl.Label{Name: "em", Value: s.em.Name()}}
	var err error
	if m.All, err = s.Control.Metrics(); err != nil {
		return nil, err
	}
	err = s.em.DoWait(func(frame.Time) {
		for _, c := range ManagerCounters(s.em.mgr) {
			m.Counter("tapir_em_"+c.Name, c.Name+" of the Ethernet Manager", c.Value)
		}
		for _, v := range s.em.mgr.VESWs() {
			labels := []ctl.Label{{Name: "vesw", Value: fmt.Sprint(v.ID)}, {Name: "name", Value: v.Name}}
			m.Gauge("tapir_em_members", "members declared", v.Members, labels...)
			m.Gauge("tapir_em_members_in_sync", "members that are as declared", v.InSync, labels...)
		}
	})
	return m.All, err
}

// Command runs `reload`, which reads the file again, and `plan`, which says
// what the configuration in the file at hand would change.
func (s *control) Command(ctx context.Context, name string, args json.RawMessage) (any, error) {
	switch name {
	case "reload":
		return struct{}{}, s.em.Reload()
	case "plan":
		var file struct{ Path, Text string }
		if err := json.Unmarshal(args, &file); err != nil {
			return nil, &ctl.Error{What: "the configuration cannot be read: " + err.Error()}
		}
		cfg, err := hficonf.ParseEM(file.Path, []byte(file.Text))
		if err != nil {
			return nil, err
		}
		lines, err := s.em.Plan(ctx, cfg.Fabric)
		return append([]string{}, lines...), err
	}
	return s.Control.Command(ctx, name, args)
}

// ManagerCounters are those of an Ethernet Manager.
func ManagerCounters(m *em.Manager) []nodectl.Counter {
	c := m.Counters()
	return []nodectl.Counter{
		nodectl.Count("mads_sent", c.Sent), nodectl.Count("mads_received", c.Received),
		nodectl.Count("retries", c.Retries), nodectl.Count("timeouts", c.Timeouts),
		nodectl.Count("refused", c.Refused), nodectl.Count("unexpected", c.Unexpected),
		nodectl.Count("malformed", c.Malformed), nodectl.Count("traps", c.Traps),
		nodectl.Count("unknown_traps", c.UnknownTraps), nodectl.Count("sets", c.Sets),
		nodectl.Count("takeovers", c.Takeovers), nodectl.Count("ports_down", c.PortsDown),
		nodectl.Count("agent_restarts", c.Restarts), nodectl.Count("duplicate_macs", c.DuplicateMACs),
		nodectl.Count("refused_macs", c.RefusedMACs), nodectl.Count("duplicate_lids", c.DuplicateLIDs),
		nodectl.Count("table_overflows", c.TableOverflows), nodectl.Count("reconfigurations", c.Reconfigurations),
	}
}

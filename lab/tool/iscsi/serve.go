package iscsi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"tapir/lab/conf/targetconf"
	"tapir/lab/host/netns"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/disk"
	"tapir/lab/tool/schema"
	"tapir/nic"
	"tapir/nic/al"
	"tapir/nic/iscsi"
	"tapir/nic/iser"
	"tapir/nic/scsi"
	"tapir/nic/secret"
	"tapir/nic/toe"
	"tapir/nic/view"
	"tapir/wire/frame"
)

var (
	_ = schema.Add("iscsi show", 1, []report{})
	_ = schema.Add("iscsi function", 1, []connReport{})
	_ = schema.Add("iscsi initiator", 1, disk.Outcome{})
	_ = schema.Add("show iscsi", 1, []iscsi.Session{})
)

// NIC is a NIC that can serve targets, and use those of others.
type NIC struct {
	Device *nic.Device
	Thread ctl.Thread
	Files  disk.Files
	CA     *al.CA    // nil: the NIC has no RDMA
	Host   *netns.NS // where the operating system has the NIC's addresses; nil: nowhere

	runs   []*run        // belongs to the thread
	past   iscsi.Stats   // of targets that have ended
	random secret.Source // the challenges of all sessions, so that none comes twice
}

// Jobs are those of the NIC's control server.
func (n *NIC) Jobs() map[string]ctl.Job {
	return map[string]ctl.Job{Op: n.job, InitiatorOp: n.initiate}
}

// showCommand lists targets with their sessions.
const showCommand = "iscsi"

// Commands are those of the NIC's control server.
func (n *NIC) Commands() map[string]ctl.Answer {
	return map[string]ctl.Answer{showCommand: n.show, functionCommand: n.operate}
}

// source is where challenges come from.
func (n *NIC) source() secret.Source {
	if n.random == nil {
		n.random = n.Device.Config().Secret.For("iscsi").Source()
	}
	return n.random
}

// report is what is told of a target.
type report struct {
	Port     uint16          `json:"port"`
	ISER     bool            `json:"iser"` // by RDMA
	Targets  []Node          `json:"targets"`
	Sessions []iscsi.Session `json:"sessions"`
	Counters []disk.Counter  `json:"counters"`
}

// run is a job.
type run struct {
	nic      *NIC
	job      Job
	target   *iscsi.Target
	listener *toe.Listener
	server   *iser.Server // in place of listener
	workers  disk.Workers
	timer    func()
	open     int    // connections
	refused  uint64 // sessions that the iSCSI function has not taken
	over     bool
}

// pollEvery is how often a target looks after its timers, at least.
const pollEvery = time.Second

// job starts a target.
func (n *NIC) job(raw json.RawMessage, _ func(any), _ func(any, error)) (cancel func(), err error) {
	var job Job
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&job); err != nil {
		return nil, &ctl.Error{What: fmt.Sprintf("the job cannot be read: %v", err),
			Remedy: "use the tapir binary that started the NIC"}
	}
	for i := range job.Targets {
		if t := &job.Targets[i]; t.Name == "" {
			t.Name = defaultName + n.Device.Config().Name
		}
	}
	if err := job.validate(); err != nil {
		return nil, ctl.BadRequest(err)
	}
	if job.ISER && n.CA == nil {
		return nil, ctl.BadRequest(errNoRDMA)
	}
	r := &run{nic: n, job: job, workers: disk.Workers{}, timer: func() {}}
	nodes, err := r.nodes()
	if err == nil {
		lost := n.Thread.DoWait(func(now frame.Time) { err = r.start(nodes, now) })
		if err == nil && lost == nil && r.server != nil {
			lost = n.Thread.DoWait(func(now frame.Time) {
				if err = r.server.Err; err != nil {
					r.cancel(now)
				}
			})
		}
		if lost != nil {
			err = lost
		}
	}
	if err != nil {
		r.release()
		return nil, &ctl.Error{What: err.Error()}
	}
	return func() { n.Thread.Do(r.cancel) }, nil
}

// nodes opens the LUNs.
func (r *run) nodes() (nodes []*iscsi.Node, err error) {
	for i := range r.job.Targets {
		t := &r.job.Targets[i]
		node := &iscsi.Node{Name: t.Name, Initiators: t.Initiators}
		if len(t.CHAP) >= 2 {
			node.CHAP.User, node.CHAP.Secret = t.CHAP[0], t.CHAP[1]
		}
		if len(t.CHAP) == 4 {
			node.CHAP.MyUser, node.CHAP.MySecret = t.CHAP[2], t.CHAP[3]
		}
		for k := range t.LUNs {
			u, w, err := r.nic.unit(&t.LUNs[k], fmt.Sprintf("%s-%d", t.Name, k))
			if err != nil {
				return nil, err
			}
			if w != nil {
				r.workers[u] = w
			}
			node.Units = append(node.Units, u)
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}

// unit makes the unit of a LUN. w is nil if its store never blocks.
func (n *NIC) unit(l *disk.LUN, serial string) (u *scsi.Unit, w *disk.Worker, err error) {
	store, w, err := n.Files.Open(l)
	if err != nil {
		return nil, nil, err
	}
	cfg := scsi.Config{Size: l.Size, Block: l.Block, Physical: l.Block, ReadOnly: l.ReadOnly,
		Thin:   l.Kind != targetconf.File,
		Serial: serial, Store: store}
	if l.Kind != targetconf.Mem {
		cfg.Physical = 4096
	}
	if u, err = scsi.New(cfg); err != nil && w != nil {
		w.Stop()
	}
	return u, w, err
}

// start listens.
func (r *run) start(nodes []*iscsi.Node, now frame.Time) (err error) {
	dev := r.nic.Device
	cfg := iscsi.Config{Nodes: nodes, Random: r.nic.source(), Offload: r.offload,
		Notes: &r.nic.Device.Common.Notes}
	if r.job.Offload {
		f, err := r.nic.function(true)
		if err != nil {
			return err
		}
		cfg.Window = f.Params().CmdQEntries
	}
	r.target = iscsi.NewTarget(cfg)
	local := netip.AddrPortFrom(netip.IPv6Unspecified(), r.job.Port)
	if r.job.ISER {
		r.server = &iser.Server{Device: r.nic.CA.Name(), Address: local, Target: r.target}
		r.server.Start(r.nic.CA.Layer()) // what comes of it, job asks
		r.nic.runs = append(r.nic.runs, r)
		return nil
	}
	if r.listener, err = dev.TCP().Listen(local, 16, r.accept); err != nil {
		return err
	}
	r.listener.SetMaxConns(128)
	r.nic.runs = append(r.nic.runs, r)
	r.poll(now)
	return nil
}

// errNoRDMA refuses iSER.
var errNoRDMA = errors.New("the NIC has no RDMA, which iSER needs: start it with --personality iwarp or roce")

// poll looks after timers.
func (r *run) poll(now frame.Time) {
	next := r.target.Poll(now)
	if r.over && r.open == 0 {
		r.forget()
		return
	}
	r.timer = r.nic.Device.Schedule(min(next, now.Add(pollEvery)), r.poll)
}

// forget drops a target that has ended; its counters stay.
func (r *run) forget() {
	r.nic.past.Add(r.target.Stats())
	r.nic.runs = slices.DeleteFunc(r.nic.runs, func(o *run) bool { return o == r })
}

// offload has a worker do what may block.
func (r *run) offload(u *scsi.Unit, work, done func()) {
	r.workers.Offload(u, work, func() { r.nic.Thread.Do(func(frame.Time) { done() }) }, done)
}

// cancel ends the target.
func (r *run) cancel(now frame.Time) {
	r.over = true
	if r.server != nil {
		r.server.Stop(now)
		r.forget()
	} else {
		r.target.Stop()
		r.listener.Close()
	}
	r.release()
}

// release ends the workers, which close the files.
func (r *run) release() { r.workers.Stop() }

// link is a connection of the NIC's TCP, and the target's.
type link struct {
	r   *run
	c   *iscsi.Conn
	tcp *toe.Conn
	// offered: the iSCSI function was to take the session over.
	offered bool
}

// accept takes a connection.
func (r *run) accept(c *toe.Conn, now frame.Time) toe.Handler {
	r.open++
	return &link{r: r, c: r.target.Accept(c.Local(), c.Remote(), c, now), tcp: c, offered: !r.job.Offload}
}

// Next implements toe.Source.
func (l *link) Next(off uint64, limit int) int { return l.c.Next(off, limit) }

// Render implements toe.Source.
func (l *link) Render(off uint64, p []byte) { l.c.Render(off, p) }

// Established implements toe.Handler.
func (l *link) Established(*toe.Conn, frame.Time) {}

// Receive implements toe.Handler.
func (l *link) Receive(_ *toe.Conn, data []byte, now frame.Time) {
	l.c.Receive(data, now)
	if l.offered {
		return
	}
	if _, l.offered = l.c.Agreed(); l.offered {
		l.r.nic.offload(l.c, true, l.tcp, l, now, func(c *toe.Conn, err error, _ frame.Time) {
			if l.tcp = c; err != nil {
				l.r.refused++
			}
		})
	}
}

// Acked implements toe.Handler.
func (l *link) Acked(_ *toe.Conn, off uint64, _ frame.Time) { l.c.Acked(off) }

// PeerClosed implements toe.Handler.
func (l *link) PeerClosed(*toe.Conn, frame.Time) { l.c.PeerClosed() }

// Closed implements toe.Handler.
func (l *link) Closed(*toe.Conn, error, frame.Time) {
	l.r.open--
	l.c.Gone()
}

// Tables are those of the NIC's control server: the sessions.
func (n *NIC) Tables() map[string]func() any {
	return map[string]func() any{showCommand: func() any {
		list := []iscsi.Session{}
		for _, r := range n.runs {
			list = append(list, r.target.Sessions()...)
		}
		return list
	}}
}

// Counters are those of all targets together, those that have ended too. On the NIC's thread.
func (n *NIC) Counters() (list []view.Counter) {
	all := n.past
	for _, r := range n.runs {
		all.Add(r.target.Stats())
	}
	for i, v := range all {
		list = append(list, view.Counter{Name: "iscsi_" + iscsi.Counter(i).String(), Value: v})
	}
	return list
}

// show tells of all targets.
func (n *NIC) show(_ context.Context, _ json.RawMessage) (any, error) {
	list := []report{}
	lost := n.Thread.DoWait(func(frame.Time) {
		for _, r := range n.runs {
			if !r.over {
				list = append(list, r.report())
			}
		}
	})
	return list, lost
}

func (r *run) report() report {
	rep := report{Port: r.job.Port, ISER: r.job.ISER, Sessions: r.target.Sessions()}
	for _, t := range r.job.Targets {
		t.CHAP = nil // secrets stay here
		rep.Targets = append(rep.Targets, t)
	}
	for i, v := range r.target.Stats() {
		rep.Counters = append(rep.Counters, disk.Counter{Name: iscsi.Counter(i).String(), Value: v})
	}
	rep.Counters = append(rep.Counters, disk.Counter{Name: "offloads_refused", Value: r.refused})
	return rep
}

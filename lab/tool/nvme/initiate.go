package nvme

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"tapir/lab/conf/targetconf"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/disk"
	"tapir/nic/al"
	"tapir/nic/nvme"
	"tapir/wire/frame"
	wire "tapir/wire/nvme"
)

// Limits of an initiator.
const (
	maxPaths = 8
	patience = 30 * time.Second // without any path
	retry    = time.Second
	slack    = 2 * time.Second // for an orderly end
)

// session is a job of an initiator. It belongs to the NIC's thread, and is a client of the
// access layer.
type session struct {
	nic    *NIC
	task   Task
	done   func(any, error)
	leave  func() // unregisters; on another thread
	dev    *al.Device
	ctx    *al.Context
	paths  []*path
	parked []*disk.IO // commands that wait for a path
	run    *disk.Runner
	out    disk.Outcome
	err    error
	ended  bool
	lost   int        // how often a path was
	begun  bool       // a path has been ready
	last   frame.Time // that there was a path
	block  int
}

// path is an address of the subsystem.
type path struct {
	s     *session
	addr  netip.AddrPort
	host  *nvme.Host
	ready bool
	used  bool // it was ready
}

// initiate starts a job.
func (n *NIC) initiate(raw json.RawMessage, _ func(any), done func(any, error)) (cancel func(), err error) {
	var task Task
	if err := decode(raw, &task); err != nil {
		return nil, err
	}
	if task.Name == "" {
		task.Name = defaultName + n.Device.Config().Name
	}
	if err := task.validate(); err != nil {
		return nil, ctl.BadRequest(err)
	}
	if err := n.hasRDMA(); err != nil {
		return nil, err
	}
	s := &session{nic: n, task: task, done: done, out: disk.Outcome{Verb: task.Verb}}
	for _, a := range task.Portals {
		s.paths = append(s.paths, &path{s: s, addr: a})
	}
	s.leave = n.Layer.RegisterClient(s)
	err = n.Thread.DoWait(func(now frame.Time) {
		s.last = now
		for _, p := range s.paths {
			p.connect(now)
		}
	})
	if err != nil {
		s.leave()
		return nil, err
	}
	return func() { n.Thread.Do(func(now frame.Time) { s.finish(errInterrupted, now) }) }, nil
}

// Add implements al.Client.
func (s *session) Add(d *al.Device, _ frame.Time) {
	if d.GUID() != s.nic.Device.Verbs.Identity().GUID {
		return
	}
	ctx, err := d.Open(nil, nil)
	if err != nil {
		s.err = err
		return
	}
	s.dev, s.ctx = d, ctx
}

// Remove implements al.Client: what the session has of the device goes.
func (s *session) Remove(d *al.Device, now frame.Time) {
	if d != s.dev {
		return
	}
	for _, p := range s.paths {
		if p.host != nil {
			p.host.Abort(errors.New("the NIC was removed"), now)
		}
	}
	s.finish(errors.New("the NIC was removed"), now)
	ctx := s.ctx
	s.dev, s.ctx = nil, nil
	_ = ctx.Reclaim(now) // outside of callbacks it cannot fail
}

// connect begins an association.
func (p *path) connect(now frame.Time) {
	s := p.s
	if s.ended || p.host != nil {
		return
	}
	if s.ctx == nil {
		s.finish(errors.Join(errors.New("the NIC has no RDMA device"), s.err), now)
		return
	}
	id := derived(s.task.Name)
	cfg := nvme.HostConfig{Device: s.dev, Context: s.ctx, Remote: p.addr, NQN: s.task.NQN, Name: s.task.Name,
		ID: [16]byte(id[:16]), Depth: max(s.task.Depth, 1), KeepAlive: s.task.KeepAlive, Ready: p.up, Lost: p.lost}
	h, err := nvme.Connect(cfg, now)
	if err != nil {
		p.failed(err, now)
		return
	}
	p.host = h
}

// up takes a path into use.
func (p *path) up(now frame.Time) {
	s := p.s
	p.ready, p.used = true, true
	s.last = now
	switch {
	case s.ended:
	case s.task.Verb == disk.Discover:
		p.host.Discover(s.discovered, now)
	case s.begun:
		s.unpark(now)
	default:
		s.begun = true
		p.host.Namespace(s.task.NSID, s.identified, now)
	}
}

// lost goes on without a path, and tries it again.
func (p *path) lost(err error, now frame.Time) {
	s := p.s
	if p.used && !s.ended {
		s.lost++
	}
	p.ready, p.used, p.host = false, false, nil
	if s.ended {
		s.settle()
		return
	}
	if err == nil {
		err = nvme.ErrLost
	}
	p.failed(err, now)
}

// failed gives up if there never was a path, or none for long.
func (p *path) failed(err error, now frame.Time) {
	s := p.s
	if p.others() {
		s.last = now
	}
	if s.run == nil && !p.others() || now.Sub(s.last) >= patience {
		s.finish(fmt.Errorf("%v: %w", p.addr, err), now)
		return
	}
	s.dev.Schedule(now.Add(retry), p.connect)
}

// others tells whether there is another path that is ready or becomes so.
func (p *path) others() bool {
	for _, o := range p.s.paths {
		if o != p && o.host != nil {
			return true
		}
	}
	return false
}

// discovered takes a discovery log.
func (s *session) discovered(list []wire.Entry, err error, now frame.Time) {
	for _, e := range list {
		s.out.Targets = append(s.out.Targets, fmt.Sprintf("%s %v", e.NQN, e.Addr))
	}
	s.finish(err, now)
}

// identified begins the work on a namespace.
func (s *session) identified(n wire.NamespaceInfo, err error, now frame.Time) {
	if s.ended {
		return
	}
	if errors.Is(err, nvme.ErrLost) { // the next path asks again
		s.begun = false
		return
	}
	if err == nil && n.Blocks > targetconf.MaxSize/512 {
		n.Blocks = targetconf.MaxSize / 512
	}
	if err == nil {
		s.block = n.BlockLen
		s.run, err = disk.NewRunner(s.task.Work, int64(n.Blocks)*int64(n.BlockLen), n.BlockLen, s.submit, s.finish)
	}
	if err != nil {
		s.finish(fmt.Errorf("namespace %d: %w", s.task.NSID, err), now)
		return
	}
	s.run.Start(now)
}

// command is a command of the work.
type command struct {
	nvme.Request
	io *disk.IO
	p  *path
}

// submit sends a command of the work by the first path that is ready, or keeps it until one is.
func (s *session) submit(t *disk.IO, now frame.Time) {
	c, ok := t.Tag.(*command)
	if !ok {
		c = &command{io: t}
		c.Done = func(_ *nvme.Request, err error, now frame.Time) { s.complete(c, err, now) }
		t.Tag = c
	}
	c.p = nil
	for _, p := range s.paths {
		if p.ready {
			c.p = p
			break
		}
	}
	if c.p == nil {
		s.parked = append(s.parked, t)
		return
	}
	op := wire.Read
	if t.Write {
		op = wire.Write
	}
	c.Cmd.Set(op, 0)
	c.Cmd.SetNSID(s.task.NSID)
	c.Cmd.SetLBA(uint64(t.Off)/uint64(s.block), len(t.Data)/s.block)
	c.Data, c.Write = t.Data, t.Write
	c.p.host.Submit(&c.Request, now)
}

// complete takes the end of a command. One that was on a path that is lost goes another way.
func (s *session) complete(c *command, err error, now frame.Time) {
	switch {
	case s.ended:
	case errors.Is(err, nvme.ErrLost):
		c.p.ready = false
		s.submit(c.io, now)
	case err != nil:
		s.run.Done(c.io, fmt.Errorf("command at octet %d: %w", c.io.Off, err), now)
	default:
		s.run.Done(c.io, nil, now)
	}
}

// unpark sends what waits for a path.
func (s *session) unpark(now frame.Time) {
	list := s.parked
	s.parked = nil
	for _, t := range list {
		s.submit(t, now)
	}
}

// finish ends the job. The result is told when nothing is left of it.
func (s *session) finish(err error, now frame.Time) {
	if s.ended {
		return
	}
	s.ended, s.err = true, err
	if s.run != nil {
		s.run.Stop(err, now)
		s.out = s.run.Outcome
		s.out.PathsLost = s.lost
	}
	for _, p := range s.paths {
		switch {
		case p.host == nil:
		case p.ready && err == nil:
			p.host.Close(now)
			h := p.host
			s.dev.Schedule(now.Add(slack), func(now frame.Time) { h.Abort(nvme.ErrLost, now) })
		default:
			p.host.Abort(nvme.ErrLost, now)
		}
	}
	s.settle()
}

// settle tells the result when all associations have ended.
func (s *session) settle() {
	for _, p := range s.paths {
		if p.host != nil {
			return
		}
	}
	if s.done == nil {
		return
	}
	done, leave := s.done, s.leave
	s.done = nil
	s.nic.later(func() {
		if leave != nil {
			leave()
		}
		if s.err != nil {
			done(nil, &ctl.Error{What: s.err.Error()})
			return
		}
		done(s.out, nil)
	})
}

package iscsi

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"tapir/lab/conf/targetconf"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/disk"
	"tapir/nic"
	"tapir/nic/iscsi"
	"tapir/nic/iser"
	"tapir/nic/scsi"
	"tapir/nic/toe"
	"tapir/wire/frame"
	wire "tapir/wire/iscsi"
)

// InitiatorOp is the kind of the job of an initiator.
const InitiatorOp = "iscsi-initiator"

// Task is what an initiator is to do.
type Task struct {
	Op      string
	Portal  netip.AddrPort
	Paths   []netip.AddrPort // further portals of the same disk
	ISER    bool             // by RDMA
	Target  string
	LUN     int
	Name    string // of the initiator
	CHAP    []string
	Digests bool
	Offload bool // the NIC's iSCSI function takes the session over after the login
	// FromKernel: a socket of the operating system logs in, and the NIC takes its connection.
	FromKernel bool
	disk.Work
}

// How long a target may be silent.
const (
	patience = 30 * time.Second // without an answer
	slack    = 5 * time.Second  // for an orderly end
)

func (k *Task) validate() error {
	if k.Verb == disk.Discover { // which is a session without a target
		k.Target = ""
	}
	switch {
	case !k.Portal.IsValid() || k.Portal.Port() == 0:
		return errors.New("the address of the target is missing")
	case k.Verb != disk.Discover && (k.Target == "" || k.LUN < 0 || k.LUN > 255):
		return errors.New("the target or its LUN is missing")
	case len(k.CHAP) != 0 && len(k.CHAP) != 2 && len(k.CHAP) != 4:
		return errors.New("CHAP needs user and secret")
	case k.ISER && (k.Offload || k.FromKernel):
		return errISEROffload
	}
	if err := k.validatePaths(); err != nil {
		return err
	}
	return k.Work.Validate()
}

// session is a job of an initiator. It belongs to the NIC's thread.
type session struct {
	nic    *NIC
	task   Task
	done   func(any, error)
	link   iscsi.Link
	i      *iscsi.Initiator
	timer  func()
	heard  frame.Time
	ended  bool // the result is there; the connection ends
	out    disk.Outcome
	err    error
	block  int
	run    *disk.Runner // nil: the work has not begun
	probe  iscsi.Request
	probes int
	path   *path // nil: the session is the job
	kernel *kernel
	over   bool
}

// initiate starts a job.
func (n *NIC) initiate(raw json.RawMessage, _ func(any), done func(any, error)) (cancel func(), err error) {
	var task Task
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&task); err != nil {
		return nil, &ctl.Error{What: fmt.Sprintf("the job cannot be read: %v", err),
			Remedy: "use the tapir binary that started the NIC"}
	}
	if task.ISER && n.CA == nil {
		return nil, ctl.BadRequest(errNoRDMA)
	}
	if task.Name == "" {
		task.Name = defaultName + n.Device.Config().Name
	}
	if err := task.validate(); err != nil {
		return nil, ctl.BadRequest(err)
	}
	if len(task.Paths) > 0 {
		p := &paths{nic: n, task: task, done: done}
		return n.start(p.begin, p.stop)
	}
	s := &session{nic: n, task: task, done: done, timer: func() {}, out: disk.Outcome{Verb: task.Verb}}
	return n.start(s.connect, s.finish)
}

// start begins a job of an initiator; stop ends it.
func (n *NIC) start(begin func(frame.Time) error, stop func(error, frame.Time)) (cancel func(), err error) {
	lost := n.Thread.DoWait(func(now frame.Time) { err = begin(now) })
	if err = errors.Join(lost, err); err != nil {
		return nil, &ctl.Error{What: err.Error()}
	}
	return func() {
		n.Thread.Do(func(now frame.Time) { stop(errors.New("the initiator was interrupted"), now) })
	}, nil
}

// source is the NIC's address for a peer.
func source(d *nic.Device, to netip.Addr) (from netip.Addr, err error) {
	for _, p := range d.Config().Addrs {
		if p.Contains(to) {
			return p.Addr(), nil
		}
		if !from.IsValid() && p.Addr().Is4() == to.Is4() {
			from = p.Addr()
		}
	}
	if !from.IsValid() {
		return from, fmt.Errorf("%s has no address of the family of %s", d.Config().Name, to)
	}
	return from, nil
}

func (s *session) connect(now frame.Time) error {
	if s.task.Offload {
		if _, err := s.nic.function(false); err != nil {
			return err
		}
	}
	s.heard = now
	dial := s.dial
	switch {
	case s.task.ISER:
		dial = s.dialISER
	case s.task.FromKernel:
		dial = s.dialKernel
	}
	if err := dial(now); err != nil {
		return err
	}
	s.tick(now)
	return nil
}

// dial connects by TCP.
func (s *session) dial(now frame.Time) error {
	from, err := source(s.nic.Device, s.task.Portal.Addr())
	if err != nil {
		return err
	}
	c, err := s.nic.Device.TCP().Connect(netip.AddrPortFrom(from, 0), s.task.Portal, s, now)
	s.link = c
	return err
}

// tick gives up on a target that is silent.
func (s *session) tick(now frame.Time) {
	limit := patience
	switch {
	case s.over:
		return
	case s.ended:
		limit = slack
	case s.path != nil && s.path.up && len(s.path.out) == 0:
		s.heard = now // nothing is expected
	case s.path != nil:
		limit = silence
	}
	if now.Sub(s.heard) > limit {
		s.finish(fmt.Errorf("no answer from %s for %v", s.task.Portal, limit), now)
		s.link.Abort()
	}
	if c, ok := s.link.(*iser.Conn); ok && now.Sub(s.heard) >= pollEvery {
		c.Probe()
	}
	s.timer = s.nic.Device.Schedule(now.Add(pollEvery), s.tick)
}

// finish ends the job: with a logout where there is a session. The result is told when the
// connection has ended.
func (s *session) finish(err error, now frame.Time) {
	if s.ended {
		return
	}
	s.ended, s.err, s.heard = true, err, now
	if s.run != nil {
		s.run.Stop(err, now)
		s.out = s.run.Outcome
	}
	if s.i == nil || s.kernel.has() {
		s.link.Abort()
		return
	}
	s.i.Logout()
}

// Established implements toe.Handler.
func (s *session) Established(*toe.Conn, frame.Time) { s.login() }

// login begins the session.
func (s *session) login() {
	s.i = iscsi.NewInitiator(iscsi.InitiatorConfig{Name: s.task.Name, Target: s.task.Target, Digests: s.task.Digests,
		CHAP: s.chap(), Random: s.nic.source(), Ready: s.ready, Failed: s.finish,
		Notes: &s.nic.Device.Common.Notes}, s.link)
}

func (s *session) chap() (c iscsi.CHAP) {
	if len(s.task.CHAP) >= 2 {
		c.User, c.Secret = s.task.CHAP[0], s.task.CHAP[1]
	}
	if len(s.task.CHAP) == 4 {
		c.MyUser, c.MySecret = s.task.CHAP[2], s.task.CHAP[3]
	}
	return c
}

// Next implements toe.Source.
func (s *session) Next(off uint64, limit int) int {
	if s.i == nil {
		return 0
	}
	return s.i.Next(off, limit)
}

// Render implements toe.Source.
func (s *session) Render(off uint64, p []byte) { s.i.Render(off, p) }

// Receive implements toe.Handler.
func (s *session) Receive(_ *toe.Conn, data []byte, now frame.Time) {
	s.heard = now
	s.i.Receive(data, now)
}

// Acked implements toe.Handler.
func (s *session) Acked(_ *toe.Conn, off uint64, _ frame.Time) { s.i.Acked(off) }

// PeerClosed implements toe.Handler.
func (s *session) PeerClosed(c *toe.Conn, now frame.Time) {
	s.finish(iscsi.ErrClosed, now)
	c.CloseBoth()
}

// Closed implements toe.Handler.
func (s *session) Closed(_ *toe.Conn, err error, now frame.Time) { s.closed(err, now) }

// closed tells the result when the connection has ended.
func (s *session) closed(err error, now frame.Time) {
	if !s.ended {
		s.ended, s.err = true, fmt.Errorf("connection to %s: %w", s.task.Portal, err)
	}
	if s.i != nil {
		s.i.Gone(now)
	}
	s.timer()
	s.over = true
	if s.path != nil {
		s.path.gone(s.err, now)
		return
	}
	if s.err != nil {
		s.done(nil, &ctl.Error{What: s.err.Error()})
		return
	}
	s.done(s.out, nil)
}

// ready begins the work of a session.
func (s *session) ready(now frame.Time) {
	if s.kernel.has() {
		s.kernel.until = now.Add(quietWithin)
		return
	}
	if s.task.Offload {
		s.nic.offload(s.i, false, s.link.(*toe.Conn), s, now, func(c *toe.Conn, err error, now frame.Time) {
			if s.link = c; err != nil {
				s.finish(err, now)
			}
		})
	}
	if s.task.Verb == disk.Discover {
		s.i.Targets(func(list []wire.Pair, now frame.Time) {
			for _, p := range list {
				switch n := len(s.out.Targets); {
				case p.Key == "TargetName":
					s.out.Targets = append(s.out.Targets, p.Value)
				case p.Key == "TargetAddress" && n > 0:
					s.out.Targets[n-1] += " " + p.Value
				}
			}
			s.finish(nil, now)
		})
		return
	}
	s.probe = iscsi.Request{LUN: uint64(s.task.LUN) << 48, In: make([]byte, 32), Done: s.capacity}
	s.probe.CDB[0], s.probe.CDB[1], s.probe.CDB[13] = 0x9e, 0x10, 32
	s.i.Submit(&s.probe)
}

// capacity reads the size of the unit. Attentions come before.
func (s *session) capacity(r *iscsi.Request, now frame.Time) {
	if s.probes++; r.Status != scsi.Good && s.probes < 5 {
		s.i.Submit(&s.probe)
		return
	}
	if r.Status != scsi.Good {
		s.finish(failure("READ CAPACITY", r), now)
		return
	}
	blocks := binary.BigEndian.Uint64(r.In) + 1
	s.block = int(binary.BigEndian.Uint32(r.In[8:]))
	size := int64(min(blocks, targetconf.MaxSize/512+1)) * int64(s.block)
	if s.path != nil {
		s.path.ready(size, s.block, now)
		return
	}
	run, err := disk.NewRunner(s.task.Work, size, s.block, s.submit, s.finish)
	if err != nil {
		s.finish(err, now)
		return
	}
	s.run = run
	run.Start(now)
}

// command is a command of the work.
type command struct {
	iscsi.Request
	io      *disk.IO
	session *session
}

// submit sends a command of the work.
func (s *session) submit(t *disk.IO, _ frame.Time) {
	c, ok := t.Tag.(*command)
	if !ok {
		c = &command{io: t}
		c.Done = func(_ *iscsi.Request, now frame.Time) { c.session.complete(c, now) }
		t.Tag = c
	}
	c.session = s
	c.LUN, c.CDB, c.In, c.Out = uint64(s.task.LUN)<<48, [16]byte{0x88}, t.Data, nil
	if t.Write {
		c.In, c.Out, c.CDB[0] = nil, t.Data, 0x8a
	}
	binary.BigEndian.PutUint64(c.CDB[2:], uint64(t.Off)/uint64(s.block))
	binary.BigEndian.PutUint32(c.CDB[10:], uint32(len(t.Data)/s.block))
	s.i.Submit(&c.Request)
}

// complete takes the end of a command.
func (s *session) complete(c *command, now frame.Time) {
	var err error
	if c.Status != scsi.Good {
		err = failure(fmt.Sprintf("command %#x", c.CDB[0]), &c.Request)
	}
	if s.path != nil {
		s.path.complete(c.io, err, now)
		return
	}
	s.run.Done(c.io, err, now)
}

// failure says how a command has ended.
func failure(what string, r *iscsi.Request) error {
	if len(r.Sense) < 14 {
		return fmt.Errorf("%s: status %#02x", what, uint8(r.Status))
	}
	return fmt.Errorf("%s: sense %02x/%02x/%02x", what, r.Sense[2]&0xf, r.Sense[12], r.Sense[13])
}

// ParseURL reads iscsi://ADDRESS[:PORT] or iser://ADDRESS[:PORT] with /TARGET/LUN behind it for a disk.
func ParseURL(text string) (portal netip.AddrPort, target string, lun int, err error) {
	bad := fmt.Errorf("%q: expected iscsi://ADDRESS[:PORT]/TARGET/LUN, or iser:// for RDMA", text)
	scheme, rest, ok := strings.Cut(text, "://")
	ok = ok && (scheme == "iscsi" || scheme == iserScheme)
	host, path, disk := strings.Cut(rest, "/")
	if portal, err = netip.ParseAddrPort(host); err != nil || !ok {
		addr, aerr := netip.ParseAddr(strings.Trim(host, "[]"))
		if !ok || aerr != nil {
			return portal, "", 0, bad
		}
		portal = netip.AddrPortFrom(addr, wire.Port)
	}
	if !disk {
		return portal, "", 0, nil
	}
	at := strings.LastIndexByte(path, '/')
	if at <= 0 {
		return portal, "", 0, bad
	}
	if _, err := fmt.Sscanf(path[at+1:], "%d", &lun); err != nil || lun < 0 || lun > 255 {
		return portal, "", 0, bad
	}
	return portal, path[:at], lun, nil
}

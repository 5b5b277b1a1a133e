package fcoe

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tapir/lab/conf/targetconf"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/disk"
	"tapir/nic/fcoe"
	"tapir/nic/scsi"
	"tapir/wire/frame"
)

// Times of an initiator.
const (
	patience  = 30 * time.Second // without a session
	discovery = 3 * time.Second  // and up to longest while a login is on its way
	longest   = 15 * time.Second
	lookEvery = time.Second
)

// session is the job of an initiator: its commands go in turn by the ports of the disk that there
// are sessions with. It belongs to the NIC's thread.
type session struct {
	nic    *NIC
	task   Task
	done   func(any, error)
	paths  []*fcoe.Remote // in the order in which they came
	turn   int
	parked []*disk.IO // commands that wait for a path
	run    *disk.Runner
	out    disk.Outcome
	begun  frame.Time
	last   frame.Time // when there was a path
	lost   int        // how often one of several was
	probe  fcoe.Request
	probes int
	block  int
	ended  bool
	timer  func()
}

// attention is the sense key of what a unit tells each initiator once.
const attention = 6

var errInterrupted = errors.New("the initiator was interrupted")

// initiate starts a job.
func (n *NIC) initiate(raw json.RawMessage, _ func(any), done func(any, error)) (cancel func(), err error) {
	s := &session{nic: n, done: done, timer: func() {}}
	if err := decode(raw, &s.task); err != nil {
		return nil, err
	}
	if err := s.task.validate(); err != nil {
		return nil, ctl.BadRequest(err)
	}
	cfg := fcoe.Config{VN2VN: s.task.VN2VN, Ports: []fcoe.PortConfig{{Port: s.task.Name, Initiator: true}}}
	if s.task.NPIV != 0 {
		cfg.Ports[0].Initiator = false
		cfg.Ports = append(cfg.Ports, fcoe.PortConfig{Port: s.task.NPIV, Initiator: true})
	}
	lost := n.Thread.DoWait(func(now frame.Time) {
		if err = n.free(); err == nil {
			s.begun, s.last, s.out.Verb = now, now, s.task.Verb
			n.Device.FCoE.Start(cfg, fcoe.Env{Changed: s.changed}, now)
			s.look(now)
		}
	})
	if lost != nil {
		err = lost
	}
	if err != nil {
		return nil, err
	}
	return func() { n.Thread.Do(func(now frame.Time) { s.finish(errInterrupted, now) }) }, nil
}

// changed hears that a session has begun or ended.
func (s *session) changed(r *fcoe.Remote, now frame.Time) {
	if s.ended {
		return
	}
	if r.State() != fcoe.Ready {
		if i := slices.Index(s.paths, r); i >= 0 {
			s.paths, s.last = slices.Delete(s.paths, i, i+1), now
			s.lost++
		}
		return
	}
	if !r.Target() || !s.task.wants(r.Name) || s.task.Target == 0 && len(s.paths) > 0 && s.task.Verb != disk.Discover {
		return
	}
	s.paths = append(s.paths, r)
	if s.task.Verb == disk.Discover {
		return
	}
	if s.task.Target == 0 { // any is one for good
		s.task.Target = r.Name
	}
	if s.block == 0 && s.probe.CDB[0] == 0 {
		s.probe = fcoe.Request{LUN: uint64(s.task.LUN) << 48, In: make([]byte, 32), Done: s.capacity}
		s.probe.CDB[0], s.probe.CDB[1], s.probe.CDB[13] = 0x9e, 0x10, 32
		r.Submit(&s.probe, now)
	}
	parked := s.parked
	s.parked = nil
	for _, t := range parked {
		s.submit(t, now)
	}
}

// look ends a discovery, and gives up on a fabric without the target.
func (s *session) look(now frame.Time) {
	switch {
	case s.ended:
		return
	case s.task.Verb == disk.Discover && now.Sub(s.begun) >= discovery && (!s.meeting() ||
		now.Sub(s.begun) >= longest):
		for _, r := range s.paths {
			s.out.Targets = append(s.out.Targets, fmt.Sprintf("%v %v", r.Name, r.ID))
		}
		s.finish(nil, now)
		return
	case s.task.Verb == disk.Discover:
	case len(s.paths) > 0:
		s.last = now
	case now.Sub(s.last) >= patience:
		s.finish(s.absent(), now)
		return
	}
	s.timer = s.nic.Device.Schedule(now.Add(lookEvery), s.look)
}

// meeting tells whether there are ports without a session yet.
func (s *session) meeting() bool {
	node := s.nic.Device.FCoE.Node()
	if node == nil {
		return false
	}
	i := 0
	if s.task.NPIV != 0 {
		i = 1
	}
	return slices.ContainsFunc(node.Port(i).Remotes(), func(r *fcoe.Remote) bool { return r.State() != fcoe.Ready })
}

// absent says why there is no session.
func (s *session) absent() error {
	what := "no target"
	if s.task.Target != 0 {
		what = fmt.Sprintf("no session with %v", s.task.Target)
	}
	node := s.nic.Device.FCoE.Node()
	if node == nil {
		return fmt.Errorf("%s: the node has ended", what)
	}
	i := node.Info()
	var why []string
	if !s.task.VN2VN && len(i.FCFs) == 0 {
		why = append(why, "no FCF has answered (a switch with fcf; or give --vn2vn)")
	}
	for _, p := range i.Ports {
		if p.Refused != nil {
			why = append(why, fmt.Sprintf("port %v was refused: %v", p.Port, *p.Refused))
		}
	}
	if len(why) == 0 {
		return fmt.Errorf("%s within %v", what, patience)
	}
	return fmt.Errorf("%s within %v: %s", what, patience, strings.Join(why, "; "))
}

// capacity takes the size of the unit. Attentions come before.
func (s *session) capacity(q *fcoe.Request, now frame.Time) {
	if s.ended {
		return
	}
	s.probes++
	switch {
	case errors.Is(q.Err, fcoe.ErrGone): // the next session asks again
		s.probe.CDB[0] = 0
		return
	case (q.Err != nil || q.Status != scsi.Good) && s.probes < 5 && len(s.paths) > 0:
		s.paths[0].Submit(q, now)
		return
	case failure(q) != nil:
		s.finish(fmt.Errorf("READ CAPACITY of LUN %d: %w", s.task.LUN, failure(q)), now)
		return
	}
	blocks := binary.BigEndian.Uint64(q.In) + 1
	s.block = int(binary.BigEndian.Uint32(q.In[8:]))
	size := int64(min(blocks, targetconf.MaxSize/512+1)) * int64(s.block)
	run, err := disk.NewRunner(s.task.Work, size, s.block, s.submit, s.finish)
	if err != nil {
		s.finish(err, now)
		return
	}
	s.run = run
	run.Start(now)
}

// submit sends a command of the work by the next path, or keeps it until there is one.
func (s *session) submit(t *disk.IO, now frame.Time) {
	if len(s.paths) == 0 {
		s.parked = append(s.parked, t)
		return
	}
	q, ok := t.Tag.(*fcoe.Request)
	if !ok {
		q = &fcoe.Request{}
		q.Done = func(q *fcoe.Request, now frame.Time) { s.complete(t, q, now) }
		t.Tag = q
	}
	q.LUN, q.CDB, q.In, q.Out = uint64(s.task.LUN)<<48, [16]byte{0x88}, t.Data, nil
	if t.Write {
		q.In, q.Out, q.CDB[0] = nil, t.Data, 0x8a
	}
	binary.BigEndian.PutUint64(q.CDB[2:], uint64(t.Off)/uint64(s.block))
	binary.BigEndian.PutUint32(q.CDB[10:], uint32(len(t.Data)/s.block))
	s.turn++
	s.paths[s.turn%len(s.paths)].Submit(q, now)
}

// complete takes the end of a command. One that was with a session that has ended goes again, by
// another path if there is one.
func (s *session) complete(t *disk.IO, q *fcoe.Request, now frame.Time) {
	switch {
	case s.ended:
	case errors.Is(q.Err, fcoe.ErrGone):
		s.paths = slices.DeleteFunc(s.paths, func(r *fcoe.Remote) bool {
			gone := r.State() != fcoe.Ready
			if gone {
				s.last, s.lost = now, s.lost+1
			}
			return gone
		})
		s.submit(t, now)
	case q.Status == scsi.CheckCondition && len(q.Sense) > 2 && q.Sense[2]&0xf == attention: // of a new session
		s.submit(t, now)
	case failure(q) != nil:
		s.run.Done(t, fmt.Errorf("command %#x at octet %d: %w", q.CDB[0], t.Off, failure(q)), now)
	default:
		s.run.Done(t, nil, now)
	}
}

// failure says how a command has ended; nil: well.
func failure(q *fcoe.Request) error {
	switch {
	case q.Err != nil:
		return q.Err
	case q.Status == scsi.Good:
		return nil
	case len(q.Sense) < 14:
		return fmt.Errorf("status %#02x", uint8(q.Status))
	}
	return fmt.Errorf("sense %02x/%02x/%02x", q.Sense[2]&0xf, q.Sense[12], q.Sense[13])
}

// finish logs out and tells the result.
func (s *session) finish(err error, now frame.Time) {
	if s.ended {
		return
	}
	s.ended = true
	s.timer()
	if s.run != nil {
		s.run.Stop(err, now)
		s.out = s.run.Outcome
		if len(s.task.Paths) > 0 {
			s.out.PathsLost = s.lost
		}
	}
	s.nic.Device.FCoE.Stop(now)
	s.nic.settled(func() {
		if err != nil {
			s.done(nil, &ctl.Error{What: err.Error()})
			return
		}
		s.done(s.out, nil)
	}, now)
}

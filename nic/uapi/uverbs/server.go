package uverbs

import (
	"fmt"
	"slices"

	"tapir/nic/al"
	"tapir/nic/msglog"
	"tapir/nic/ring"
	"tapir/nic/uapi/abi"
	"tapir/nic/uapi/eventpipe"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// Server is the verbs device of one NIC, a client of the access layer: what
// programs have open are contexts of the client. It belongs to the NIC's thread.
type Server struct {
	ca      *al.CA
	client  *al.Device     // nil: the device is not there, or leaves
	qps     map[uint32]*qp // by number
	hook    func(TracePoint)
	later   func(func())      // nil: at once
	untold  []*eventpipe.Pipe // that have completion events to write, in the order of these
	telling func()
}

// New returns the server of a registered device, and registers it as a client
// for devices of that vendor and part.
func New(ca *al.CA) *Server {
	s := &Server{ca: ca, qps: map[uint32]*qp{}}
	id := ca.Verbs().Identity()
	ca.Layer().RegisterClient(s, al.ID{VendorID: id.VendorID, PartID: id.VendorPartID})
	return s
}

// TellBy has completion events be written when later, such as Tell of nic/loop, calls
// what it is given.
func (s *Server) TellBy(later func(func())) { s.later, s.telling = later, s.tell }

// toTell has the events of a pipe be written.
func (s *Server) toTell(p *eventpipe.Pipe) {
	switch {
	case s.later == nil:
		p.Flush()
		return
	case len(s.untold) == 0:
		s.later(s.telling)
	}
	if !slices.Contains(s.untold, p) {
		s.untold = append(s.untold, p)
	}
}

// tell writes what waits. A program that waits for one channel after the other waits for
// that with the oldest event, and finds the others' when it is woken.
func (s *Server) tell() {
	for i := len(s.untold) - 1; i >= 0; i-- {
		s.untold[i].Flush()
		s.untold[i] = nil
	}
	s.untold = s.untold[:0]
}

// Client is the server's handle of the device, under which the objects of its
// programs are made (sol_uverbs_get_clnt_hdl); nil while the device is not there.
func (s *Server) Client() *al.Device { return s.client }

// Add implements al.Client: of the devices of that kind, one is the server's.
func (s *Server) Add(d *al.Device, _ frame.Time) {
	if d.CA() == s.ca {
		s.client = d
	}
}

// Remove implements al.Client: programs are told DEVICE_FATAL, and what they have
// made goes.
func (s *Server) Remove(d *al.Device, now frame.Time) {
	if d != s.client {
		return
	}
	s.client = nil
	for _, c := range slices.Clone(s.ca.Contexts()) {
		if f, ours := c.Value.(*File); ours && c.Client() == d {
			f.AsyncEvent(al.Event{Type: al.DeviceFatal, Context: c, Err: al.ErrLeaving}, now)
		}
	}
}

// View is what programs see of the device otherwise than the NIC does.
type View struct {
	IPGIDs bool   // of the GID table, those of IP addresses alone; else that of the MAC address
	Netdev uint32 // index of the device's network interface; 0: none
}

// Open makes a File that shows the device as it is; it is an abi.Opener.
func (s *Server) Open(c abi.Caller, flags int) (abi.File, int, error) {
	return s.OpenAs(View{})(c, flags)
}

// OpenAs returns the abi.Opener of files that show the device by v.
func (s *Server) OpenAs(v View) abi.Opener {
	return func(c abi.Caller, _ int) (abi.File, int, error) { return s.open(c, v) }
}

func (s *Server) open(c abi.Caller, v View) (abi.File, int, error) {
	arena, err := ring.NewArena()
	if err != nil {
		return nil, -1, err
	}
	fd, err := arena.Program()
	if err != nil {
		arena.Close()
		return nil, -1, err
	}
	f := &File{server: s, arena: arena, view: v, pids: []int{c.Process()}, revoke: func() {}}
	f.req.f = f
	return f, fd, nil
}

// QP returns the queue pair with that number if process pid has made it, or
// works on the file that it was made through; nil otherwise.
func (s *Server) QP(pid int, qpn uint32) *verbs.QP {
	q := s.qps[qpn]
	if q == nil || !slices.Contains(q.f.pids, pid) {
		return nil
	}
	return q.v
}

// Step is a point on a command's way: steps 3 to 8 of the HCA kit's list
// "Allocating CQ memory in user mode", behind the pre-trigger and in front of
// the post-trigger, which are the program's.
type Step uint8

const (
	StepProxy    Step = iota // the command and its provider's buffer have arrived
	StepAccess               // handles are authenticated, the access layer is called
	StepDriver               // the device is called with the provider's buffer
	StepCreated              // the device has made the object
	StepTracked              // the object is on record
	StepAnswered             // its events have a target, and the answer is written
)

var stepNames = [...]string{"proxy", "access layer", "driver", "created", "tracked", "answered"}

func (s Step) String() string { return stepNames[s] }

// kitStep is the kit's number of StepProxy.
const kitStep = 3

// TracePoint is what a trace hook is told.
type TracePoint struct {
	Step    Step
	Command string // "CREATE_CQ"
	Process int
	Err     error // of StepAnswered: what the command failed with
}

// OnTrace sets a hook that is called at every step of every command; nil takes
// it back.
func (s *Server) OnTrace(hook func(TracePoint)) { s.hook = hook }

func (r *request) trace(step Step) { r.traceErr(step, nil) }

func (r *request) traceErr(step Step, err error) {
	s := r.f.server
	if s.hook != nil {
		s.hook(TracePoint{Step: step, Command: r.cmd.name, Process: r.c.Process(), Err: err})
	}
	if log := s.ca.Verbs().Log(); log.On(msglog.Cmd) {
		log.Append(msglog.Cmd, func(b []byte) []byte {
			b = fmt.Appendf(b, "process %d %s %d %v", r.c.Process(), r.cmd.name, kitStep+step, step)
			if err != nil {
				b = fmt.Appendf(b, ": %v", err)
			}
			return b
		})
	}
}

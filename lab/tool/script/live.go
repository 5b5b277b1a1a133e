package script

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"tapir/nic"
	"tapir/nic/buf"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// Cable is the script's end of the link to a live machine, and of the channel
// to the application on it.
type Cable struct {
	Frames        <-chan []byte        // from the machine
	Send          func(b []byte) error // to the machine; borrows b
	Agent         net.Conn             // to the application, new for each run; closed by the run
	MAC, Station  ether.Addr           // of the machine and of the peer that the script plays
	Local, Remote netip.Addr           // their addresses
	Port, First   uint16               // the machine's port; that of the peer's first connection, others follow
	// Inside runs a function on the thread of a NIC of this process, for what its
	// application cannot tell; nil: the machine is a Linux with siw or rxe.
	Inside func(look func(dev *nic.Device)) error
}

// Machine is what a live run is against.
type Machine uint8

const (
	Linux Machine = iota // siw or rxe in a guest
	NIC                  // a NIC of this process, with a program under tapir run
)

func (c *Cable) machine() Machine {
	if c.Inside != nil {
		return NIC
	}
	return Linux
}

// State is what a run against a live machine came to.
type State uint8

const (
	Holds         State = iota // every statement that could be judged is so
	Differs                    // at least one is not
	NotApplicable              // the script cannot be run against the machine
)

func (s State) String() string { return [...]string{"holds", "differs", "n/a"}[s] }

// Outcome is the result of a run against a live machine.
type Outcome struct {
	Frames, Inside State    // what the machine has sent; what its application was told, and its memory
	Why            []string // the differences, or why the script cannot be run
	Unseen         int      // statements about the inside of the machine that nothing tells of
}

// State is the outcome as a whole.
func (o *Outcome) State() State { return max(o.Frames, o.Inside) }

// How long a live machine may take. A guest that is emulated on a loaded
// machine may stand still for seconds; what must not come is waited for only
// until all that was sent is acknowledged and the application has been asked.
const (
	patience   = 10 * time.Second
	ackIn      = 500 * time.Millisecond
	afterwards = 150 * time.Millisecond // in which the end of a script shows what is too much
	answersIn  = 30 * time.Second
)

// errSilent is a machine that does not answer any more.
var errSilent = errors.New("the machine does not answer")

// liveBench is the peer's side of a live run, between the frames and the script.
type liveBench interface {
	begin() error                         // makes what each script has, with an application that answers
	ours(b []byte) bool                   // tells whether a frame of the machine is about this script
	sent(f *frame.Frame)                  // takes it
	answer() bool                         // delivers what the peer's side says without being asked
	acked() bool                          // tells whether the machine has acknowledged what was sent
	look() error                          // looks at the machine's memory
	decided(e *expectation, p *peer) bool // tells whether waiting would change nothing
	skip(e *expectation, p *peer)         // takes what has come instead
	hangUp()                              // ends what is still open
	unclaimed() string
}

// live is a run in real time.
type live struct {
	r      *runner
	cable  *Cable
	bench  liveBench
	guest  *guest
	start  time.Time
	skew   time.Duration // how much later than the script says everything is
	out    Outcome
	asyncs []stated // judged at the end
	dead   error
}

// stated is an expectation of connection p.
type stated struct {
	*expectation
	p *peer
}

// RunLive runs the script against a live machine, in real time. What differs
// from the script is in the outcome; an error says that the machine does not
// answer.
func (s *Script) RunLive(cable Cable, trace io.Writer) (Outcome, error) {
	if why := s.NotLive(cable.machine()); why != "" {
		cable.Agent.Close()
		return Outcome{Frames: NotApplicable, Inside: NotApplicable, Why: []string{why}}, nil
	}
	r := s.runner(trace)
	r.pool = buf.NewPool(1<<14, 0)
	r.local, r.remote, r.port, r.first = cable.Local, cable.Remote, cable.Port, cable.First
	v := &live{r: r, cable: &cable, start: time.Now()}
	r.live = v
	v.guest = newGuest(v)
	defer v.guest.close()
	if s.set.proto == roceProtocol {
		v.bench = newRoCEGuest(v)
	} else {
		r.world = &world{r: r, machine: v.guest, mac: cable.MAC, station: cable.Station}
		v.bench, v.guest.ear = r.world, v.guest
	}
	err := v.guest.greet()
	if err == nil {
		err = v.bench.begin()
	}
	if err != nil {
		return v.out, err
	}
	v.start = time.Now()
	wrong := r.steps()
	if wrong == nil {
		wrong = v.finish()
	}
	v.bench.hangUp()
	v.bench.answer()
	if v.dead != nil {
		return v.out, v.dead
	}
	if wrong != nil {
		v.differ(&v.out.Frames, wrong.Msg, wrong.Got)
	}
	return v.out, nil
}

// differ notes a difference in the frames or inside: what was stated, and what
// is so.
func (v *live) differ(where *State, what, got string) {
	*where = Differs
	got = stamp.ReplaceAllString(got, "")
	what = stamp.ReplaceAllString(what, "")
	if got != "" {
		what += ": " + got
	}
	v.out.Why = append(v.out.Why, what)
	v.r.tracef("!", "DIFFERS "+what, v.r.at)
}

// stamp is a time of a report, which is another in each run.
var stamp = regexp.MustCompile(`^[0-9.]+ > | until [0-9.]+$`)

// now is the time of the script.
func (v *live) now() time.Duration { return time.Since(v.start) - v.skew }

// late lets the script's time stand still: a step was due at a time that has
// passed.
func (v *live) late(at time.Duration) {
	v.skew += v.r.at - at
	v.r.at = at
}

// window is when a packet may come: a long wait may end somewhat sooner than
// stated, as timers of Linux do, and anything may come late.
func (v *live) window(from, until, base time.Duration) (time.Duration, time.Duration) {
	return from - (until-base)/4, until + patience
}

// tolerate leaves out of what differs that which says nothing about a peer:
// an end of the stream is one by FIN or by RST, for Linux sends the latter
// if it has not read all. A message of the right kind with another field is a
// difference, but the script goes on.
func (v *live) tolerate(diffs []difference, got *packet) []difference {
	if len(diffs) == 0 {
		return nil
	}
	ends := got.unit != nil && (got.unit.fin || got.unit.rst)
	hard := slices.ContainsFunc(diffs, func(d difference) bool {
		return strings.HasPrefix(d.name, "message:") && !ends || d.name == "opcode" || d.name == got.broken
	})
	if hard || ends && !strings.HasSuffix(diffs[0].name, "fin") && !strings.HasSuffix(diffs[0].name, "rst") {
		return diffs
	}
	v.differ(&v.out.Frames, "wrong "+names(diffs), got.text())
	return nil
}

// until lets the time pass, up to the end or until it is enough.
func (v *live) until(end time.Duration, enough func() bool) {
	for v.dead == nil {
		v.poll()
		v.r.at = max(v.r.at, v.now())
		if v.r.at >= end || enough() {
			return
		}
		v.wait(end - v.r.at)
	}
	v.r.at = max(v.r.at, end)
}

// soon waits until it is so, within the patience.
func (v *live) soon(so func() bool) bool { return v.within(patience, so) }

func (v *live) within(d time.Duration, so func() bool) (ok bool) {
	v.until(v.r.at+d, func() bool {
		ok = so()
		return ok
	})
	return ok
}

// wait sleeps until the machine says something, at most that long.
func (v *live) wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case b, ok := <-v.cable.Frames:
		v.frame(b, ok)
	case line, ok := <-v.guest.lines:
		v.guest.told(line, ok)
	case <-timer.C:
	}
}

// poll takes what has come, and answers it.
func (v *live) poll() {
	for more := true; more && v.dead == nil; {
		select {
		case b, ok := <-v.cable.Frames:
			v.frame(b, ok)
		case line, ok := <-v.guest.lines:
			v.guest.told(line, ok)
		default:
			more = false
		}
	}
	v.bench.answer()
}

// fail ends the run: the machine is beyond reach.
func (v *live) fail(err error) {
	if v.dead == nil {
		v.dead = err
	}
}

// frame takes a frame of the machine, unless it is about something else than
// this script.
func (v *live) frame(b []byte, ok bool) {
	if !ok {
		v.fail(errors.New("the link to the machine has gone"))
		return
	}
	if !v.bench.ours(b) {
		return
	}
	v.r.at = max(v.r.at, v.now())
	f := v.r.pool.Get(len(b))
	copy(f.Extend(len(b)), b)
	v.bench.sent(f)
}

// send gives frames to the machine.
func (v *live) send(frames []*frame.Frame) {
	for _, f := range frames {
		if err := v.cable.Send(f.Bytes()); err != nil {
			v.fail(fmt.Errorf("the link to the machine: %w", err))
		}
		f.Release()
	}
}

// settle waits until the machine has acknowledged what was sent, its
// application has told what it knows, and its memory has been looked at.
func (v *live) settle() {
	v.within(ackIn, v.bench.acked)
	v.guest.sync()
}

// finish judges what is left at the end of a script.
func (v *live) finish() *Error {
	v.until(v.r.at+afterwards, func() bool { return false })
	v.settle()
	last := v.r.script.steps[len(v.r.script.steps)-1]
	if err := v.r.silent(last, moreInAll); err != nil {
		return err
	}
	for _, e := range v.asyncs {
		if ok, _ := e.holds(v.r, e.p); !ok {
			v.differ(&v.out.Inside, "no "+strings.TrimPrefix(e.word.text, "expect "), "")
		}
	}
	if left := v.bench.unclaimed(); left != "" {
		v.differ(&v.out.Inside, "more has happened than the script says", left)
	}
	return nil
}

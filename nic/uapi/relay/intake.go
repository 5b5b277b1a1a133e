package relay

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/abi"
	"tapir/nic/uapi/ipc"
	"tapir/nic/uapi/trap"
	"tapir/wire/frame"
)

// intake receives the calls of a run's programs on the thread of a NIC. A
// command of a file whose home this is, is served there and then, so that what
// it sends leaves at once. It is answered after that: the program then finds the
// completion of a short request instead of going to sleep until it comes. What is
// not for a device file goes back to the supervisor.
type intake struct {
	s *session
	l *trap.Listener

	// Of the thread that receives.
	stop func() // the receiving; nil: it has ended
	proc procPath
	next *caller // for the next call; nil: there is none that is free
	due  *caller // whose call is to be answered
	last func()  // answer, made once
	away int     // commands in a row whose files belong to another thread
	seen [8]seen // by thread id

	mu     sync.Mutex
	home   Thread // that receives; nil: none yet
	ledger *ipc.Ledger
	calls  int  // not yet answered
	ending bool // the receiving must not begin again
	over   bool // the last answer closes all
}

// seen is what a thread's descriptor was found to be. To look at /proc takes
// longer than most commands, so it is believed for seenFor. Meanwhile nobody can
// be given the thread's id, and the calls that put another file at a number of the
// range, dup2(2) and F_DUPFD, are trapped: each other call has everything forgotten.
type seen struct {
	thread, fd int
	file       *file // of this home; nil: nothing is known
	process    int   // 0: not yet looked up
	until      frame.Time
}

const seenFor = 10 * time.Millisecond

// moveAfter is how many commands in a row must be of files that are at home
// elsewhere until that thread receives: a hop to it costs more than a command.
const moveAfter = 64

// listenerLink is what /proc says of a listener of seccomp.
const listenerLink = "anon_inode:seccomp notify"

// newIntake takes the descriptors of a listener and a ledger.
func newIntake(s *session, fd, paper int, terms string) (*intake, error) {
	var t trap.Terms
	if err := json.Unmarshal([]byte(terms), &t); err != nil {
		return nil, err
	}
	if link, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd)); err != nil || link != listenerLink {
		return nil, unix.EINVAL // it could be one that a read waits for
	}
	l, err := ipc.OpenLedger(paper)
	if err != nil {
		return nil, err
	}
	in := &intake{s: s, l: trap.NewListener(fd, t), ledger: l}
	in.last = in.answer
	return in, nil
}

// assign has a thread receive from the next thing on that it does.
func (in *intake) assign(home Thread) {
	in.mu.Lock()
	in.home = home
	in.mu.Unlock()
	home.Do(func(frame.Time) { in.start() })
}

// start begins on the calling thread, home.
func (in *intake) start() {
	in.mu.Lock()
	home, ending := in.home, in.ending
	in.mu.Unlock()
	clear(in.seen[:])
	if !ending {
		in.stop = home.AddSource(in.l.Fd(), in.serve, in.lost)
	}
}

// move has another thread receive.
func (in *intake) move(to Thread) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.ending {
		in.home, in.away = to, 0
		in.end()
		to.Do(func(frame.Time) { in.start() })
	}
}

// lost comes when the NIC's loop ends: the supervisor receives again.
func (in *intake) lost() {
	in.stop = nil
	in.s.link.send(&message{Kind: back}, "", -1)
}

func (in *intake) serve(now frame.Time, hungUp bool) {
	if hungUp { // no process is left
		in.end()
		return
	}
	in.answer() // a loop that is late looks at its sources more than once in an iteration
	if in.next == nil {
		in.next = &caller{s: in.s, in: in}
	}
	c := in.next
	made := &c.own
	if ok, err := in.l.ReceiveTo(made); !ok || err != nil {
		return // its thread is gone
	}
	slot, ok := in.enter(made.Notification().ID)
	if !ok {
		made.Finish(trap.Fail(unix.EAGAIN))
		return
	}
	known := &in.seen[made.Thread()%len(in.seen)]
	if !in.knows(known, made, now) {
		in.parse(known, made, now)
	}
	f := known.file
	if f == nil {
		clear(in.seen[:])
		in.foreign(made)
		in.leave(slot)
		return
	}
	c.file, c.made, c.slot, c.thread, c.fd, c.process = f, made, slot, made.Thread(), made.Int(0), known.process
	addr, n := argument(made)
	c.ioctl = made.Nr() == unix.SYS_IOCTL
	if f.home != in.home {
		in.next = nil
		known.file = nil // what happens to it is not seen here
		f.home.Do(func(frame.Time) { f.serve(c, addr, n) })
		if in.away++; in.away == moveAfter {
			in.move(f.home)
		}
		return
	}
	in.away = 0
	c.atEnd = true
	f.serve(c, addr, n)
	c.atEnd = false
	known.process = c.process
	in.next = nil
	if !c.parked && !c.opens {
		in.due = c
		in.home.AtEnd(in.last)
	}
}

// answer ends the call that is due.
func (in *intake) answer() {
	c := in.due
	if c == nil {
		return
	}
	in.due = nil
	c.end(c.answer)
	c.answered, c.opened, c.process, c.space = false, false, 0, nil
	in.next = c
}

// knows tells whether a call is known to be a command.
func (in *intake) knows(k *seen, made *trap.Call, now frame.Time) bool {
	return k.file != nil && k.thread == made.Thread() && k.fd == made.Int(0) && now < k.until && !k.file.ended &&
		!k.file.closed &&
		commands(made)
}

// commands tells whether a call may carry a command.
func commands(made *trap.Call) bool {
	return made.Native() && (made.Nr() == unix.SYS_WRITE ||
		made.Nr() == unix.SYS_IOCTL && uint32(made.Arg(1)) == abi.VerbsIoctl)
}

// parse finds out which file a call is a command for, nil if it is another call.
func (in *intake) parse(k *seen, made *trap.Call, now frame.Time) {
	*k = seen{}
	if !commands(made) {
		return
	}
	id, ok := in.proc.fileID(made.Thread(), made.Int(0))
	if !ok {
		return
	}
	in.s.mu.Lock()
	defer in.s.mu.Unlock()
	*k = seen{thread: made.Thread(), fd: made.Int(0), file: in.s.byID[id], until: now.Add(seenFor)}
}

// foreign gives a call to the supervisor.
func (in *intake) foreign(made *trap.Call) {
	n := made.Notification()
	n.PID = uint32(in.s.below.inner(int(n.PID)))
	b, _ := binary.Append(nil, binary.NativeEndian, n) // it is of fixed size
	if !in.s.link.send(&message{Kind: foreign}, string(b), -1) {
		made.Finish(trap.Pass()) // nobody else answers it
	}
}

// notification is what came with a foreign call.
func notification(tail string) (n trap.Notification) {
	_, _ = binary.Decode([]byte(tail), binary.NativeEndian, &n) // a short one names no call
	return n
}

// enter notes a call in the ledger.
func (in *intake) enter(id uint64) (slot uint32, ok bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if slot, ok = in.ledger.Enter(id); ok {
		in.calls++
	}
	return slot, ok
}

// leave forgets a call that was answered.
func (in *intake) leave(slot uint32) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.ledger.Leave(slot)
	in.calls--
	in.closeUnused()
}

// end stops the receiving, on its thread.
func (in *intake) end() {
	if in.stop != nil {
		in.stop()
		in.stop = nil
	}
}

// close ends the receiving, and lets go of the listener when no call is left.
func (in *intake) close() {
	in.mu.Lock()
	in.ending = true
	home := in.home
	in.mu.Unlock()
	if home != nil {
		ended := make(chan struct{})
		home.Do(func(frame.Time) { in.end(); close(ended) })
		<-ended
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.over = true
	in.closeUnused()
}

func (in *intake) closeUnused() {
	if in.over && in.calls == 0 {
		unix.Close(in.l.Fd())
		in.ledger.Close()
	}
}

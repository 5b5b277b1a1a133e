package relay

import (
	"errors"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/abi"
	"tapir/nic/uapi/errno"
	"tapir/nic/uapi/ipc"
	"tapir/nic/uapi/procmaps"
	"tapir/nic/uapi/trap"
	"tapir/wire/frame"
)

// patience is how long a NIC's thread waits for a supervisor at most: one that
// was stopped must not hold up others.
const patience = time.Second

// maxCommand is the longest command in octets: what the lengths in the header
// of an extended one can say.
const maxCommand = 24 + 2*8*0xffff

// session is the run of a program.
type session struct {
	link       *link
	ask        Ask
	devices    map[string]Device
	below      depth // the supervisor
	supervisor int   // its process
	mounts     *procmaps.Filesystems
	equal      bool          // the supervisor has all rights that this process has
	stalled    func(pid int) // a process was killed because it made the NIC wait

	mu        sync.Mutex
	gone      bool // the supervisor
	serial    uint64
	files     map[uint64]*file
	byID      map[trap.FileID]*file
	calls     map[uint64]*caller // not yet answered, by the supervisor's number
	spaces    map[int]*space
	questions map[uint64]chan answer

	// Of the goroutine that run occupies.
	ledger int     // its descriptor, until the listener comes; -1: none
	intake *intake // nil: the supervisor receives
	fresh  bool    // intake waits for the thread of the first device
}

// answer is the supervisor's to a question.
type answer struct {
	message
	fd int
}

// file is an open device file. What follows File belongs to its home.
type file struct {
	s        *session
	token    uint64
	id       trap.FileID
	home     Thread
	name     string        // of its device
	opener   int           // the process that opened it
	belled   atomic.Bool   // it has doorbells
	commands atomic.Uint64 // that were served
	abi.File
	stop    func() // the watch for its end
	buf     []byte // of its last command
	process int    // that made it; 0: not known
	proc    procPath
	parked  []*caller  // whose commands were answered Later
	bells   *fileBells // nil: the program has not asked for them
	ended   bool       // no process has it any more
	closed  bool
}

func newSession(l *link, a Ask, devices map[string]Device, pid int, stalled func(pid int)) *session {
	return &session{link: l, stalled: stalled, ask: a, devices: devices, below: depthOf(pid), supervisor: pid,
		mounts: procmaps.NewFilesystems(pid), equal: hasOurRights(pid),
		files: map[uint64]*file{},
		byID:  map[trap.FileID]*file{},
		calls: map[uint64]*caller{}, spaces: map[int]*space{}, questions: map[uint64]chan answer{}, ledger: -1}
}

// homes are the threads that have files of the program.
func (s *session) homes() (all []Thread) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.files {
		if !slices.Contains(all, f.home) {
			all = append(all, f.home)
		}
	}
	return all
}

// suspects are the program's processes.
func (s *session) suspects() (all []suspect) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for pid, sp := range s.spaces {
		own := []int{int(sp.mem.Fd()), int(sp.maps.Fd())}
		if sp.bulk != nil {
			own = append(own, int(sp.bulk.pagemap.Fd()))
		}
		all = append(all, suspect{pid, sp.process, own})
	}
	return all
}

// run serves until the supervisor is gone, and then closes all files.
func (s *session) run() {
	ended := make(chan struct{})
	defer close(ended)
	go (&watchdog{s.homes, s.suspects, s.stalled}).watch(ended)
	for {
		m, tail, fd, err := s.link.receive()
		if err != nil {
			break
		}
		s.take(m, tail, fd)
	}
	s.mu.Lock()
	s.gone = true
	var left []*file
	for _, f := range s.files {
		left = append(left, f)
	}
	for _, q := range s.questions {
		close(q)
	}
	s.questions = nil
	s.mu.Unlock()
	var wait sync.WaitGroup
	for _, f := range left {
		wait.Add(1)
		f.home.Do(func(frame.Time) { defer wait.Done(); f.close() })
	}
	wait.Wait()
	if s.intake != nil {
		s.intake.close() // calls that no one serves any more fail with ENOSYS
	}
	ipc.Close(s.ledger)
}

func (s *session) take(m message, tail string, fd int) {
	if m.Kind == open || m.Kind == command {
		m.Thread = int32(s.below.outer(int(m.Thread), fd))
	}
	switch m.Kind {
	case reply:
		s.mu.Lock()
		q := s.questions[m.ID]
		delete(s.questions, m.ID)
		s.mu.Unlock()
		if q != nil {
			q <- answer{m, fd}
			return
		}
	case open:
		d, ok := s.devices[tail]
		if !ok {
			s.link.send(&message{Kind: opened, ID: m.ID, Errno: uint32(unix.ENODEV)}, "", -1)
			break
		}
		if s.fresh {
			s.fresh = false
			s.intake.assign(d.Thread)
		}
		d.Thread.Do(func(frame.Time) { s.open(&m, tail, d) })
	case paper:
		ipc.Close(s.ledger)
		s.ledger = fd
		return
	case take:
		s.receive(fd, tail)
		return
	case command:
		s.mu.Lock()
		f := s.files[m.File]
		s.mu.Unlock()
		if f == nil {
			s.link.send(&message{Kind: done, ID: m.ID, Errno: uint32(unix.ENODEV)}, "", -1)
			break
		}
		c := newCaller(s, f, &m)
		f.home.Do(func(frame.Time) { f.serve(c, m.Addr, m.Len) })
	case cancel:
		s.mu.Lock()
		c := s.calls[m.ID]
		s.mu.Unlock()
		if c != nil {
			c.file.home.Do(func(frame.Time) { c.cancel() })
		}
	}
	ipc.Close(fd)
}

// receive takes the listener over, which the thread of the next device that is
// opened then polls.
func (s *session) receive(fd int, terms string) {
	if s.intake != nil { // it has been given back
		s.intake.close()
	}
	var err error
	s.intake, err = newIntake(s, fd, s.ledger, terms)
	s.fresh = err == nil
	ipc.Close(s.ledger)
	s.ledger = -1
	if err != nil {
		s.intake = nil
		ipc.Close(fd)
		s.link.send(&message{Kind: back}, "", -1)
	}
}

// open opens a device file on its thread.
func (s *session) open(m *message, name string, d Device) {
	answer := message{Kind: opened, ID: m.ID, Flags: m.Flags}
	c := newCaller(s, nil, m)
	f, fd, err := d.Open(c, int(m.Flags))
	if err == nil {
		answer.File, err = s.add(fd, &file{s: s, File: f, home: d.Thread, name: name, opener: c.Process()})
	}
	answer.Errno = uint32(errno.Of(err))
	if err != nil {
		fd = -1
	}
	s.link.send(&answer, "", fd)
	ipc.Close(fd)
}

// add makes a file known. fd is still ours, so it has not ended.
func (s *session) add(fd int, f *file) (token uint64, err error) {
	home := f.home
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil {
		f.id = trap.FileID{Dev: st.Dev, Ino: st.Ino}
		f.stop, err = trap.Watch(fd, func() { home.Do(func(frame.Time) { f.end() }) })
	}
	s.mu.Lock()
	s.serial++
	f.token = s.serial
	if s.gone {
		err = unix.ENODEV
	}
	if err == nil {
		s.files[f.token], s.byID[f.id] = f, f
	}
	s.mu.Unlock()
	if err != nil {
		ipc.Close(fd)
		f.close()
		return 0, err
	}
	return f.token, nil
}

// serve serves a command on the home of the file.
func (f *file) serve(c *caller, addr, n uint64) {
	switch {
	case f.closed:
		c.finish(unix.ENODEV)
		return
	case n > maxCommand:
		c.finish(unix.EINVAL)
		return
	}
	switch b, err := f.read(c, addr, n); {
	case err == errLeft && !c.opened:
		c.openSpace(addr, n)
		return
	case err != nil:
		c.finish(unix.EFAULT)
	default:
		f.carryOut(c, addr, b)
	}
}

// read reads a command into the file's buffer. Errors: EFAULT, errLeft.
func (f *file) read(c *caller, addr, n uint64) ([]byte, error) {
	if !c.ioctl {
		b := f.room(n)
		return b, c.move(addr, b, false)
	}
	b := f.room(abi.IoctlHeaderLen)
	err := c.move(addr, b, false)
	if n := abi.IoctlLen(b); err == nil && n > len(b) {
		b = f.room(uint64(n))
		err = c.move(addr, b, false)
	}
	return b, err
}

// room is the file's buffer for n octets.
func (f *file) room(n uint64) []byte {
	if uint64(cap(f.buf)) < n {
		f.buf = make([]byte, n)
	}
	return f.buf[:n]
}

// carryOut serves the command b, which was read from addr.
func (f *file) carryOut(c *caller, addr uint64, b []byte) {
	if !c.begin() { // what was read may be another program's
		if c.forget() {
			c.end(trap.Restart())
		}
		return
	}
	f.look()
	f.commands.Add(1)
	var err error
	switch {
	case c.ioctl:
		err = f.Ioctl(c, addr, b)
	case asksForBells(b):
		err = f.giveBells(c, b)
	default:
		err = f.Command(c, b)
	}
	if !errors.Is(err, abi.Later) {
		c.finish(err)
	} else if !c.answered {
		c.park()
	}
}

// end comes when no process has the file. A command that still waits keeps it,
// as a thread inside of write(2) keeps a file of the kernel's.
func (f *file) end() {
	if !f.ended {
		f.ended = true
		f.s.link.send(&message{Kind: ended, File: f.token}, "", -1)
	}
	if len(f.parked) == 0 {
		f.close()
	}
}

func (f *file) close() {
	if f.closed {
		return
	}
	f.closed = true
	if f.stop != nil {
		f.stop()
	}
	f.s.mu.Lock()
	delete(f.s.files, f.token)
	delete(f.s.byID, f.id)
	f.s.mu.Unlock()
	for _, c := range slices.Clone(f.parked) { // the supervisor is gone
		f.Cancel(c)
		c.finish(unix.ENODEV)
	}
	f.endBells()
	f.File.Close()
}

// question asks the supervisor and waits for its answer. Errors: errnos;
// ETIMEDOUT if none comes.
func (s *session) question(m *message, fd int) (answer, error) {
	q := make(chan answer, 1)
	s.mu.Lock()
	if s.gone {
		s.mu.Unlock()
		return answer{}, unix.ESRCH
	}
	s.serial++
	m.ID = s.serial
	s.questions[m.ID] = q
	s.mu.Unlock()
	s.link.send(m, "", fd)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case a, ok := <-q:
		switch {
		case !ok:
			return answer{}, unix.ESRCH
		case a.Errno != 0:
			ipc.Close(a.fd)
			return answer{}, unix.Errno(a.Errno)
		}
		return a, nil
	case <-timer.C:
	}
	s.mu.Lock()
	delete(s.questions, m.ID)
	s.mu.Unlock()
	return answer{}, unix.ETIMEDOUT
}

// procFile asks for a file of /proc/PID. It waits, and so must no NIC's thread
// call it.
func (s *session) procFile(k kind, pid int) (*os.File, error) {
	a, err := s.question(&message{Kind: k, Thread: int32(s.below.inner(pid))}, -1)
	if err != nil {
		return nil, err
	}
	name, mode := "mem", uint32(0o600)
	if k == maps {
		name, mode = "maps", 0o444
	}
	if !isProcFile(a.fd, name, mode) {
		ipc.Close(a.fd)
		return nil, unix.EFAULT
	}
	return os.NewFile(uintptr(a.fd), name), nil
}

// space is the memory of process pid, nil if it has not been opened.
func (s *session) space(pid int) *space {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spaces[pid]
}

// openSpace opens the memory of process pid, unless somebody else has done so
// since old was all there was.
func (s *session) openSpace(pid int, old *space) error {
	if now := s.space(pid); now != nil && now != old {
		return nil
	}
	var b *bulk
	if s.equal {
		b = newBulk(pid)
	}
	var made *space
	made, err := newSpace(pid, s.mounts, b, s.procFile, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.spaces[pid] == made {
			delete(s.spaces, pid)
		}
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spaces[pid] = made // what it replaces ends with its last region
	return nil
}

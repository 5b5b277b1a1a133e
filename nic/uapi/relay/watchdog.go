package relay

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/ipc"
	"tapir/nic/uapi/trap"
	"tapir/wire/frame"
)

// stallLook is how often a thread of a NIC is asked for a sign of life. One that
// has given none for two looks may be held up by a program.
const stallLook = 100 * time.Millisecond

// A watchdog ends programs that hold up a thread of a NIC. Nothing that such a
// thread does waits for a program in the ordinary course of things; but a program
// can have the kernel hold a lock that the NIC needs, of its mappings or of a
// pipe, for as long as it likes.
type watchdog struct {
	homes    func() []Thread  // whose threads are watched
	suspects func() []suspect // who may hold them up
	killed   func(pid int)
}

// suspect is a process of a program.
type suspect struct {
	pid     int
	process *os.File // pidfd
	own     []int    // descriptors of ours that are its alone
}

// watch looks after the threads until ended.
func (d *watchdog) watch(ended <-chan struct{}) {
	ticks := time.NewTicker(stallLook)
	defer ticks.Stop()
	l := looks{last: time.Now(), signs: map[Thread]*sign{}}
	for {
		select {
		case <-ended:
			return
		case <-ticks.C:
		}
		if l.late(time.Now(), d.homes()) {
			d.end()
		}
	}
}

// looks are what a watchdog has seen.
type looks struct {
	last  time.Time // the last look
	signs map[Thread]*sign
}

// sign is the sign of life that a thread was asked for.
type sign struct {
	given atomic.Bool
	looks int
}

// late tells whether a thread has given no sign of life for two looks, and asks those that have
// for the next. A look that comes late itself tells nothing of the threads: the machine stood still.
func (l *looks) late(now time.Time, homes []Thread) (late bool) {
	inTime := now.Sub(l.last) < 2*stallLook
	l.last = now
	for _, home := range homes {
		s := l.signs[home]
		if s == nil || s.given.Load() {
			s = new(sign)
			l.signs[home] = s
			home.Do(func(frame.Time) { s.given.Store(true) })
		} else if inTime {
			s.looks++
			late = late || s.looks >= 2
		}
	}
	return late
}

// end kills the suspects that a thread of this process waits for.
func (d *watchdog) end() {
	for _, w := range ipc.Sleepers() {
		for _, s := range d.suspects() {
			if (w.PID == s.pid || w.PID == 0 && s.has(w.FD)) &&
				unix.PidfdSendSignal(int(s.process.Fd()), unix.SIGKILL, nil, 0) == nil {
				d.killed(s.pid)
			}
		}
	}
}

// has tells whether the file that our descriptor fd is open on is one of the
// process's.
func (s *suspect) has(fd int) bool {
	if slices.Contains(s.own, fd) {
		return true
	}
	var st unix.Stat_t
	link, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil || strings.HasPrefix(link, "anon_inode:") || unix.Fstat(fd, &st) != nil { // these share an inode
		return false
	}
	theirs, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.pid)) // none if it is gone
	var proc procPath
	for _, e := range theirs {
		n, _ := strconv.Atoi(e.Name()) // the kernel writes numbers
		if id, ok := proc.fileID(s.pid, n); ok && id == (trap.FileID{Dev: st.Dev, Ino: st.Ino}) {
			return true
		}
	}
	return false
}

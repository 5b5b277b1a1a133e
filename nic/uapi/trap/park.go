package trap

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// lookEvery is how often parked calls are looked at: with newer kernels
// nothing but its answer wakes a trapped thread, whatever signals it has.
const lookEvery = 10 * time.Millisecond

// parking is where calls wait for something, looked at by one goroutine while
// there are any.
var parking struct {
	mu    sync.Mutex
	calls map[*Parked]bool
}

// Parked is a call that waits.
type Parked struct {
	c     *Call
	woken func()
	over  atomic.Bool
}

// Park looks after a call that was answered Later. As soon as its thread is
// gone or has a signal to handle, woken is called, once and from another
// goroutine, unless it is nil: it ends the call, mostly with Restart.
func Park(c *Call, woken func()) *Parked {
	p := &Parked{c: c, woken: woken}
	parking.mu.Lock()
	defer parking.mu.Unlock()
	if parking.calls == nil {
		parking.calls = map[*Parked]bool{}
		go watchParked()
	}
	parking.calls[p] = true
	return p
}

// Unpark ends that. False: it was woken.
func (p *Parked) Unpark() bool {
	parking.mu.Lock()
	defer parking.mu.Unlock()
	was := parking.calls[p]
	delete(parking.calls, p)
	return was
}

// Woken tells whether the call's thread is gone or has a signal to handle.
func (p *Parked) Woken() bool { return p.over.Load() }

func watchParked() {
	for {
		time.Sleep(lookEvery)
		parking.mu.Lock()
		if len(parking.calls) == 0 {
			parking.calls = nil
			parking.mu.Unlock()
			return
		}
		var list []*Parked
		for p := range parking.calls {
			list = append(list, p)
		}
		parking.mu.Unlock()
		for _, p := range list {
			if (!p.c.Valid() || p.c.Interrupted()) && p.Unpark() {
				p.over.Store(true)
				if p.woken != nil {
					p.woken()
				}
			}
		}
	}
}

// Interrupted tells whether a signal that the calling thread handles is
// waiting for it. A call that waits must then end with Restart: with newer
// kernels nothing but its answer wakes the thread.
func (c *Call) Interrupted() bool {
	s, err := readSignals(c.proc("status"))
	if err != nil {
		return true
	}
	if c.conn != nil {
		s.blocked = c.blocked // the library blocks all while it waits
		s.ignored |= ignoredUnlessCaught &^ s.caught
	}
	handled := ^s.blocked &^ s.ignored
	switch shared := s.shared & handled; {
	case s.thread&handled != 0:
		return true
	case shared == 0:
		c.unsure = 0
		return false
	default:
		return c.conn != nil || c.chosen(s, shared)
	}
}

// ignoredUnlessCaught are the signals whose default is that nothing happens.
const ignoredUnlessCaught = 1<<(unix.SIGCHLD-1) | 1<<(unix.SIGURG-1) | 1<<(unix.SIGWINCH-1) | 1<<(unix.SIGCONT-1)

// unsureLooks is how many looks find the same doubt before it is resolved.
const unsureLooks = 10

// chosen tells whether the kernel has chosen this thread to handle one of the
// process's pending signals. No other may end its call with Restart, which only
// a thread with a signal turns into EINTR or a new call. The kernel chooses
// (complete_signal) the main thread unless that blocks the signal, else any
// one that does not. Where several do not, it is ours if nobody takes it.
func (c *Call) chosen(s signals, pending uint64) bool {
	if s.tgid == c.Thread() {
		return true
	}
	tasks := fmt.Sprintf("/proc/%d/task/", s.tgid)
	list, err := os.ReadDir(tasks)
	if err != nil {
		return true
	}
	only := pending
	for _, t := range list {
		if t.Name() == strconv.Itoa(c.Thread()) {
			continue
		}
		other, err := readSignals(tasks + t.Name() + "/status")
		if err != nil || other.dead {
			continue
		}
		if t.Name() == strconv.Itoa(s.tgid) {
			pending &= other.blocked
		}
		only &= other.blocked
	}
	if pending == 0 {
		c.unsure = 0
		return false
	}
	c.unsure++
	return only != 0 || c.unsure >= unsureLooks
}

// signals are those of a thread, from bit 0 for signal 1.
type signals struct {
	tgid                     int
	dead                     bool
	thread, shared           uint64 // pending
	blocked, ignored, caught uint64
}

// readSignals reads a status file of proc(5).
func readSignals(name string) (s signals, err error) {
	fields, err := ProcFields(name)
	if err != nil {
		return s, err
	}
	bits := func(key string) uint64 {
		v, _ := strconv.ParseUint(fields[key], 16, 64)
		return v
	}
	s = signals{dead: strings.HasPrefix(fields["State"], "Z") || strings.HasPrefix(fields["State"], "X"),
		thread: bits("SigPnd"), shared: bits("ShdPnd"), blocked: bits("SigBlk"), ignored: bits("SigIgn"),
		caught: bits("SigCgt")}
	s.tgid, _ = strconv.Atoi(fields["Tgid"])
	return s, nil
}

// ProcFields reads a file of proc(5) with lines of key and value.
func ProcFields(name string) (map[string]string, error) {
	text, err := os.ReadFile(name)
	fields := map[string]string{}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(line, ":")
		fields[key] = strings.TrimSpace(value)
	}
	return fields, err
}

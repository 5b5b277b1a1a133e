// Package listen accepts connections for as long as a listener is open. A
// process without free descriptors refuses clients and serves them again later,
// and no peer has more than its share of the connections.
package listen

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/ipc"
)

// Options say how a listener is used.
type Options struct {
	Name string // of the listener, for messages, such as "the metrics"
	// Total is how many connections there are at once; 0: as many as there are
	// descriptors, without shares.
	Total int
	// PerPeer is how many of them one peer has: a process by a Unix socket, an
	// IPv4 address or an IPv6 /64 by TCP. The processes of one user together have
	// three quarters of Total.
	PerPeer int
	// Refuse tells a client why it is not served. It must not block. The
	// connection is closed afterwards. Nil: the client sees the end alone.
	Refuse func(c net.Conn, why *Refusal)
	Logf   func(format string, args ...any) // nil: nobody is told
}

// Refusal is why a client is not served, and what to do.
type Refusal struct{ What, Remedy string }

// Error implements error.
func (r *Refusal) Error() string { return r.What + ": " + r.Remedy }

// Share is how many connections one listener of a process has by default: an
// eighth of the descriptors, at least 4, at most 256.
func Share() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 256
	}
	return int(min(max(limit.Cur/8, 4), 256))
}

// Listener accepts the connections of another listener.
type Listener struct {
	net.Listener
	o       Options
	closed  chan struct{}
	closing sync.Once

	// Of Accept, which one goroutine at a time calls.
	reserve *os.File // a descriptor for refusing when there is no other
	pause   time.Duration

	mu     sync.Mutex
	serial uint64
	conns  map[*Conn]bool
	told   time.Time // when Logf was last told of trouble
	untold int       // refusals since then
}

// Conn is a connection that counts until it is closed.
type Conn struct {
	net.Conn
	l     *Listener
	peers []peer
	// Of the listener's lock.
	busy  bool
	since uint64
}

// peer is one whom a share belongs to.
type peer struct {
	name  string
	share int
}

// New returns a listener that accepts from l, which it takes.
func New(l net.Listener, o Options) *Listener {
	w := &Listener{Listener: l, o: o, closed: make(chan struct{}), conns: map[*Conn]bool{}}
	w.reserveAgain()
	return w
}

// Close ends Accept. Connections stay.
func (l *Listener) Close() error {
	l.closing.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// retryMin and retryMax bound how long Accept pauses after an error.
const retryMin, retryMax = 5 * time.Millisecond, time.Second

// pollStep bounds a wait for a client without free descriptors.
const pollStep = 100 * time.Millisecond

// Accept waits for a client that is served, a *Conn. Its only error is that the
// listener is closed.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if outOfDescriptors(err) { // also without a client
			l.awaitClient()
			c, err = l.Listener.Accept()
		}
		switch {
		case err == nil:
			l.pause = 0
			if made := l.admit(c); made != nil {
				return made, nil
			}
		case l.isClosed() || errors.Is(err, net.ErrClosed):
			l.letGo()
			return nil, net.ErrClosed
		case outOfDescriptors(err) && l.reserve != nil:
			l.tell("%s: %s", l.o.Name, explain(err))
			if made := l.acceptByReserve(explain(err)); made != nil {
				return made, nil
			}
		default:
			l.tell("%s: cannot accept: %s", l.o.Name, explain(err))
			l.wait()
			l.reserveAgain()
		}
	}
}

// awaitClient waits until a client connects or the listener is closed.
func (l *Listener) awaitClient() {
	l.reserveAgain()
	s, ok := l.Listener.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := s.SyscallConn()
	for n := 0; err == nil && n <= 0 && !l.isClosed(); { // in steps, so that Close need not wait for long
		err = raw.Control(func(fd uintptr) {
			n, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(pollStep/time.Millisecond))
		})
	}
}

// acceptByReserve accepts a client by the descriptor kept for that. It is served
// if another connection is idle and can be closed for it, else refused.
func (l *Listener) acceptByReserve(why *Refusal) net.Conn {
	l.letGo()
	c, err := l.Listener.Accept()
	if err != nil { // someone else took the descriptor, or the listener is closed
		l.wait()
		l.reserveAgain()
		return nil
	}
	if l.evictAny() {
		l.reserveAgain()
	}
	if l.reserve != nil {
		if made := l.admit(c); made != nil {
			return made
		}
		return nil
	}
	l.refuse(c, why)
	l.reserveAgain()
	if l.reserve == nil {
		l.wait()
	}
	return nil
}

// wait pauses before the next attempt, longer each time.
func (l *Listener) wait() {
	l.pause = min(max(2*l.pause, retryMin), retryMax)
	select {
	case <-time.After(l.pause):
	case <-l.closed:
	}
}

func (l *Listener) isClosed() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

func (l *Listener) reserveAgain() {
	if l.reserve == nil {
		l.reserve, _ = os.Open(os.DevNull) // else the next attempt to accept tries again
	}
}

func (l *Listener) letGo() {
	if l.reserve != nil {
		l.reserve.Close()
		l.reserve = nil
	}
}

func outOfDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// explain says what the user can do about an error of accept(2).
func explain(err error) *Refusal {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return &Refusal{What: err.Error(), Remedy: "try again"}
	}
	r := &Refusal{What: errno.Error(), Remedy: "try again"}
	switch errno {
	case syscall.EMFILE:
		r.Remedy = "raise ulimit -n"
	case syscall.ENFILE:
		r.Remedy = "raise the sysctl fs.file-max"
	case syscall.ENOMEM, syscall.ENOBUFS:
		r.Remedy = "free memory"
	}
	return r
}

// admit counts a client. Nil: it was refused.
func (l *Listener) admit(c net.Conn) *Conn {
	made := &Conn{Conn: c, l: l, peers: l.peersOf(c)}
	l.mu.Lock()
	victims, why := l.makeRoom(made)
	if why == nil {
		l.serial++
		made.since = l.serial
		l.conns[made] = true
	}
	l.mu.Unlock()
	for _, v := range victims {
		v.Close()
	}
	if why != nil {
		l.tell("%s: a client is refused: %s", l.o.Name, why.What)
		l.refuse(c, why)
		return nil
	}
	return made
}

func (l *Listener) refuse(c net.Conn, why *Refusal) {
	if l.o.Refuse != nil {
		l.o.Refuse(c, why)
	}
	c.Close()
}

// makeRoom chooses which idle connections end for a new one, the oldest of those
// whose share is used up. An error says that none is idle.
func (l *Listener) makeRoom(made *Conn) (victims []*Conn, why *Refusal) {
	if l.o.Total == 0 {
		return nil, nil
	}
	for _, p := range append(slices.Clone(made.peers), peer{"", l.o.Total}) {
		of := func(c *Conn) bool {
			return !slices.Contains(victims, c) && (p.name == "" || slices.Contains(c.peers, p))
		}
		n := 0
		for c := range l.conns {
			if of(c) {
				n++
			}
		}
		if n < p.share {
			continue
		}
		v := l.oldestIdle(of)
		if v == nil && p.name == "" {
			return nil, &Refusal{fmt.Sprintf("all %d connections of %s are in use", p.share, l.o.Name),
				"end other clients, or raise ulimit -n"}
		}
		if v == nil {
			return nil, &Refusal{fmt.Sprintf("%s has %d connections of %s in use", p.name, n, l.o.Name),
				"close some of them"}
		}
		victims = append(victims, v)
	}
	return victims, nil
}

func (l *Listener) oldestIdle(of func(*Conn) bool) (oldest *Conn) {
	for c := range l.conns {
		if !c.busy && of(c) && (oldest == nil || c.since < oldest.since) {
			oldest = c
		}
	}
	return oldest
}

// evictAny closes the oldest idle connection. False: none is idle.
func (l *Listener) evictAny() bool {
	l.mu.Lock()
	v := l.oldestIdle(func(*Conn) bool { return true })
	l.mu.Unlock()
	if v == nil {
		return false
	}
	v.Close()
	return true
}

// peersOf tells who has the other end.
func (l *Listener) peersOf(c net.Conn) []peer {
	if l.o.Total == 0 {
		return nil
	}
	switch c := c.(type) {
	case *net.UnixConn:
		cred, err := ipc.Peer(c)
		if err != nil {
			return nil
		}
		return []peer{{fmt.Sprintf("process %d of user %d", cred.Pid, cred.Uid), l.o.PerPeer},
			{fmt.Sprintf("user %d", cred.Uid), max(l.o.Total*3/4, 1)}}
	case *net.TCPConn:
		a, ok := c.RemoteAddr().(*net.TCPAddr)
		if !ok {
			return nil
		}
		ip := a.AddrPort().Addr().Unmap()
		bits := 32
		if ip.Is6() {
			bits = 64
		}
		net, _ := ip.WithZone("").Prefix(bits) // both are within the address
		return []peer{{"the peer at " + net.Addr().String(), l.o.PerPeer}}
	}
	return nil
}

// SetBusy says whether the peer is being served. A connection that is idle, as
// each is first, may be closed when a newer one finds no room.
func (c *Conn) SetBusy(busy bool) {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	c.busy = busy
	if !busy {
		c.l.serial++
		c.since = c.l.serial
	}
}

// Close closes the connection, which then does not count any more.
func (c *Conn) Close() error {
	c.l.mu.Lock()
	delete(c.l.conns, c)
	c.l.mu.Unlock()
	return c.Conn.Close()
}

// tellEvery is how often trouble is reported at most.
const tellEvery = 10 * time.Second

// tell reports trouble, and how much of it was not reported since the last time.
func (l *Listener) tell(format string, args ...any) {
	if l.o.Logf == nil {
		return
	}
	l.mu.Lock()
	if !l.told.IsZero() && time.Since(l.told) < tellEvery {
		l.untold++
		l.mu.Unlock()
		return
	}
	n := l.untold
	l.told, l.untold = time.Now(), 0
	l.mu.Unlock()
	if n > 0 {
		format += fmt.Sprintf(" (%d times more in the meantime)", n)
	}
	l.o.Logf(format, args...)
}

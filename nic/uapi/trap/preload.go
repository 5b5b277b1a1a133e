package trap

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/ipc"
	"tapir/nic/uapi/listen"
	"tapir/nic/uapi/rundir"
	"tapir/nic/uapi/trap/library"
)

// The second front end: a small library, preloaded into the program
// (ld.so(8), LD_PRELOAD), stands before libc's system calls and asks here by a
// connection per thread. The rules are the same, and it applies them itself.

// preloadSocket names, in the program's environment, the socket where the
// library calls.
const preloadSocket = "TAPIR_PRELOAD"

// libraryCall is what the library sends, its struct call.
type libraryCall struct {
	Nr      uint64
	Args    [6]uint64
	Blocked uint64 // the thread's signal mask, from bit 0 for signal 1
	Thread  uint64
}

// askRules is the number of the call that asks for the rules.
const askRules = ^uint64(0)

// libraryAnswer is its struct answer. A result below zero is an errno; a
// descriptor's value is its flags.
type libraryAnswer struct {
	Kind, Value int64
	First, Last int64 // which numbers answerInstall may use; Last is 0 if any
}

const (
	answerPass = iota
	answerResult
	answerDescriptor
	answerInstall // a descriptor, and a pipe that its number is to be written into; the call goes on
)

// maxRuleWords is the library's room for rules.
const maxRuleWords = 4096

// encodeRules lays rules out as the library reads them, in order of number:
// 32-bit words of number, count, and count times argument, mask, first and last
// value.
func encodeRules(rules []Rule) ([]byte, error) {
	var words []uint32
	sorted := slices.Clone(rules)
	slices.SortStableFunc(sorted, func(a, b Rule) int { return cmp.Compare(a.Nr, b.Nr) })
	for _, r := range sorted {
		words = append(words, r.Nr, uint32(len(r.When)))
		for _, c := range r.When {
			words = append(words, uint32(c.Arg), c.Mask, c.Value, max(c.Value, c.Last))
		}
	}
	if len(words) > maxRuleWords {
		return nil, fmt.Errorf("%d rules are more than the preloaded library has room for", len(rules))
	}
	return binary.Append(nil, binary.NativeEndian, words)
}

// preload is the supervisor's side of the library.
type preload struct {
	remove   func() // the directory of this run alone
	listener *listen.Listener
	library  string // its file
	rules    []byte
}

func newPreload(s *Supervisor, path string) (*preload, error) {
	libc, err := library.Of(path)
	if err != nil {
		return nil, err
	}
	rules, err := encodeRules(s.rules)
	if err != nil {
		return nil, err
	}
	dir, remove, err := rundir.Make("tapir-run-") // mode 0700: only this user's programs call
	if err != nil {
		return nil, err
	}
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Net: "unixpacket", Name: filepath.Join(dir, "calls")})
	if err != nil {
		remove()
		return nil, err
	}
	p := &preload{remove: remove, rules: rules,
		listener: listen.New(l, listen.Options{Name: "the calls of the preloaded library", Logf: s.logf})}
	if p.library, err = library.Compiled(dir, libc); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// close ends the service when no process is left.
func (p *preload) close() {
	p.listener.Close()
	p.remove()
}

// loop takes the connections of the program's threads until close.
func (p *preload) loop(s *Supervisor) error {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return nil // closed
		}
		go func() {
			defer c.Close()
			p.serve(s, &connection{c: c.(*listen.Conn).Conn.(*net.UnixConn)})
		}()
	}
}

// connection is that of a thread, which makes one call at a time.
type connection struct {
	c       *net.UnixConn
	mu      sync.Mutex
	waiting uint64 // the call that waits for its answer, from 1; 0: none
}

func (p *preload) serve(s *Supervisor, conn *connection) {
	defer conn.waitFor(0)
	cred, err := ipc.Peer(conn.c)
	if err != nil {
		return
	}
	var m libraryCall
	for id := uint64(1); ; id++ {
		if n, err := conn.c.Read(octets(&m)); err != nil || n != len(octets(&m)) {
			return
		}
		if m.Nr == askRules {
			_, _ = conn.c.Write(p.rules) // who is gone needs none
			continue
		}
		thread := uint32(m.Thread)
		if _, err := os.Stat(fmt.Sprintf("/proc/%d/task/%d", cred.Pid, thread)); err != nil {
			thread = uint32(cred.Pid) // it counts in a PID namespace of its own
		}
		conn.waitFor(id)
		s.serve(&Call{l: s.Listener, conn: conn, blocked: m.Blocked,
			n: Notification{ID: id, PID: thread, Nr: int32(m.Nr), Arch: nativeArch, Args: m.Args}})
	}
}

func (c *connection) waitFor(id uint64) {
	c.mu.Lock()
	c.waiting = id
	c.mu.Unlock()
}

func (c *connection) waitsFor(id uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting == id
}

// finish answers the call that waits. A thread that is gone needs no answer.
func (c *connection) finish(call *Call, a Answer) {
	var m libraryAnswer
	var rights []byte
	switch {
	case a.kind == descriptor && a.where == InReserved:
		n, err := call.Install(int(a.value), a.flags, a.where)
		if err != nil {
			c.finish(call, Fail(err))
			return
		}
		m = libraryAnswer{Kind: answerResult, Value: int64(n)}
	case a.kind == descriptor:
		defer unix.Close(int(a.value))
		m, rights = libraryAnswer{Kind: answerDescriptor, Value: int64(a.flags)}, unix.UnixRights(int(a.value))
	case a.kind == pass:
		m.Kind = answerPass
	case a.errno != 0:
		m = libraryAnswer{Kind: answerResult, Value: -int64(a.errno)}
	default:
		m = libraryAnswer{Kind: answerResult, Value: a.value}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting == call.n.ID {
		c.waiting = 0
		_, _, _ = c.c.WriteMsgUnix(octets(&m), rights, nil)
	}
}

// processes are those of which a thread has something alone.
type processes struct {
	mu   sync.Mutex
	held map[int]chan struct{} // closed when it is let go
}

// lock waits until no other thread of the process has it. Threads of other processes do not
// wait: a tracer may make calls while its tracee, stopped by it, has the lock.
func (p *processes) lock(process int) (unlock func()) {
	mine := make(chan struct{})
	for {
		p.mu.Lock()
		other := p.held[process]
		if other == nil {
			p.held[process] = mine
			p.mu.Unlock()
			break
		}
		p.mu.Unlock()
		<-other
	}
	return func() {
		p.mu.Lock()
		delete(p.held, process)
		p.mu.Unlock()
		close(mine)
	}
}

// install gives the waiting thread a duplicate of fd and learns its number.
func (c *connection) install(call *Call, fd, flags int, where Place) (int, error) {
	m := libraryAnswer{Kind: answerInstall, Value: int64(flags & unix.O_CLOEXEC)}
	if where == InReserved {
		process, err := call.Process()
		if err != nil {
			return -1, err
		}
		defer call.l.raised.lock(process)() // whose limit is not what it was meanwhile
		r := call.l.terms.Reserved
		restore, err := r.raise(call)
		if err != nil {
			return -1, err
		}
		defer restore()
		m.First, m.Last = int64(r.First), int64(r.Last)
	}
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return -1, err
	}
	defer unix.Close(pipe[0])
	c.mu.Lock()
	err := error(unix.ESRCH)
	if c.waiting == call.n.ID {
		_, _, err = c.c.WriteMsgUnix(octets(&m), unix.UnixRights(fd, pipe[1]), nil)
	}
	c.mu.Unlock()
	unix.Close(pipe[1])
	if err != nil {
		return -1, unix.ESRCH
	}
	var number int32
	for {
		switch n, err := unix.Read(pipe[0], octets(&number)); {
		case err == unix.EINTR:
		case n != len(octets(&number)) && c.waitsFor(call.n.ID): // no room for two descriptors
			return -1, unix.EMFILE
		case n != len(octets(&number)):
			return -1, unix.ESRCH
		case number < 0:
			return -1, unix.Errno(-number)
		default:
			return int(number), nil
		}
	}
}

// environment is what the program needs to find the library and the socket.
func (p *preload) environment() []byte {
	return []byte(p.library + "\x00" + p.listener.Addr().String())
}

// withLibrary adds it to an environment.
func withLibrary(env []string, found string) []string {
	library, socket, _ := strings.Cut(found, "\x00")
	env = slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, preloadSocket+"=") })
	return append(loading(env, library), preloadSocket+"="+socket)
}

// beParent is the launcher's second half: it starts the program as a child,
// outlives all that the program starts, and ends with the program's exit code.
// It dies with the supervisor, and the program with it.
func beParent(sock int, path string, argv []string, found string) {
	if os.Geteuid() != 0 { // a set-user-ID program does without the library, so it must not be one
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			say(sock, stepPrivileges, err, -1)
			return
		}
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		say(sock, stepPrivileges, err, -1)
		return
	}
	signals := make(chan os.Signal, 1)
	if err := endWithSupervisor(signals, found); err != nil {
		say(sock, stepPrivileges, err, -1)
		return
	}
	pid, err := syscall.ForkExec(path, argv, &syscall.ProcAttr{Env: environment(withLibrary(os.Environ(), found)),
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}})
	if err != nil {
		say(sock, stepExec, err, -1)
		return
	}
	signal.Notify(signals, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM) // the program's, not ours
	started := binary.NativeEndian.AppendUint32([]byte{stepStarted, 0}, uint32(pid))
	if _, err := unix.Write(sock, started); err != nil {
		return
	}
	if _, err := unix.Read(sock, started); err != nil {
		return
	}
	closeStreams()
	code := 0
	for {
		var ws unix.WaitStatus
		ended, err := unix.Wait4(-1, &ws, 0, nil)
		switch {
		case err == unix.EINTR:
		case err != nil: // ECHILD: nobody is left
			os.Exit(code)
		case ended == pid && ws.Signaled():
			code = 128 + int(ws.Signal())
		case ended == pid:
			code = ws.ExitStatus()
		}
	}
}

// endWithSupervisor has SIGHUP in place of SIGKILL say that the supervisor was
// killed: its directory must be removed first. Other signals do nothing.
func endWithSupervisor(signals chan os.Signal, found string) error {
	_, socket, _ := strings.Cut(found, "\x00")
	supervisor := os.Getppid()
	signal.Notify(signals, syscall.SIGHUP)
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGHUP), 0, 0, 0); err != nil {
		return err
	}
	go func() {
		for range signals {
			if os.Getppid() != supervisor {
				os.RemoveAll(filepath.Dir(socket))
				os.Exit(128 + int(unix.SIGKILL))
			}
		}
	}()
	return nil
}

// closeStreams lets go of the program's streams, whose end others wait for.
func closeStreams() {
	null, err := unix.Open(os.DevNull, unix.O_RDWR, 0)
	if err != nil {
		return
	}
	for fd := range 3 {
		_ = unix.Dup3(null, fd, 0) // between open descriptors it cannot fail
	}
}

// adopt speaks with the launcher until the program runs and returns the
// program.
func (p *preload) adopt(sock int, path string) (*os.Process, error) {
	msg := make([]byte, 6)
	n, err := unix.Read(sock, msg)
	switch {
	case err != nil || n < 2:
		return nil, fmt.Errorf("start the program: its launcher ended: %v", err)
	case msg[0] == stepExec:
		return nil, &NotFoundError{Name: path, Err: unix.Errno(msg[1])}
	case msg[0] != stepStarted || n != len(msg):
		return nil, explain(msg[0], unix.Errno(msg[1]))
	}
	program, err := os.FindProcess(int(binary.NativeEndian.Uint32(msg[2:]))) // not yet reaped, so it is the one
	if err != nil {
		return nil, err
	}
	if _, err := unix.Write(sock, []byte{0}); err != nil {
		return nil, fmt.Errorf("start the program: %w", err)
	}
	return program, nil
}

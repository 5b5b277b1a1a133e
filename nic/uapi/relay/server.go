package relay

import (
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tapir/nic/uapi/abi"
	"tapir/nic/uapi/ipc"
	"tapir/nic/uapi/listen"
	"tapir/nic/umode/proxy"
)

// Thread is the loop of a NIC.
type Thread interface {
	proxy.Thread
	// AtEnd is that of nic/loop: it runs fn on the thread, when what serve has
	// begun has been sent.
	AtEnd(fn func())
}

// Device is a device file that programs can open. Its files have Thread as
// their home.
type Device struct {
	Open   abi.Opener
	Thread Thread
}

// UCMA names the connection manager's device.
const UCMA = "rdma_cm"

// Uverbs names the verbs device of a NIC.
func Uverbs(nic string) string { return "uverbs/" + nic }

// Devices finds the device files of a run by name. Error: a *Refused.
type Devices func(a Ask) (map[string]Device, error)

// Server serves the supervisors of programs in the process that has the NICs.
type Server struct {
	// Log is told what the user should know, such as programs that are refused;
	// nil: nobody is. It is set before Serve.
	Log      io.Writer
	l        *net.UnixListener
	served   chan struct{} // closed when nobody is accepted any more; nil before Serve
	mu       sync.Mutex
	sessions map[*session]bool // the runs of programs
	direct   map[any]int       // processes of programs without a supervisor
	open     map[any]func()    // who is served, and what ends that
	closing  bool
	wait     sync.WaitGroup
	stalls   atomic.Uint64 // programs killed because they made a NIC wait
}

// Listen makes the socket at path, which nothing else uses: what lies there is
// left over and replaced.
func Listen(path string) (*Server, error) {
	_ = os.Remove(path)
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Net: "unixpacket", Name: path})
	if err != nil {
		return nil, fmt.Errorf("cannot make the socket of tapir run: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return &Server{l: l, open: map[any]func(){}, sessions: map[*session]bool{},
		direct: map[any]int{}}, nil
}

// Serve serves supervisors on goroutines of its own until Close. It is called
// at most once.
func (s *Server) Serve(devices Devices) {
	s.served = make(chan struct{})
	total := listen.Share()
	l := listen.New(s.l, listen.Options{Name: "the socket of tapir run", Total: total, PerPeer: max(total/4, 2),
		Refuse: refuse,
		Logf:   s.logf})
	go func() {
		defer close(s.served)
		for {
			c, err := l.Accept()
			if err != nil {
				return // closed
			}
			s.wait.Go(func() { s.serve(c.(*listen.Conn), devices) })
		}
	}()
}

func (s *Server) logf(format string, args ...any) {
	if s.Log != nil {
		fmt.Fprintf(s.Log, format+"\n", args...)
	}
}

// stalled reports a program that was killed.
func (s *Server) stalled(pid int) {
	s.logf("killed process %d, which held up the NIC for more than %v by a lock on its memory or a pipe (%d since "+
		"the start)", pid, stallLook, s.stalls.Add(1))
}

// Close ends all sessions, with their programs' files, and removes the socket.
func (s *Server) Close() {
	s.l.Close()
	if s.served != nil {
		<-s.served
	}
	s.mu.Lock()
	s.closing = true
	for _, end := range s.open {
		end()
	}
	s.mu.Unlock()
	s.wait.Wait()
}

// refuse answers a supervisor that is about to ask.
func refuse(c net.Conn, why *listen.Refusal) {
	_ = c.SetWriteDeadline(time.Now().Add(time.Second)) // there is room for it
	_ = say(c, Hello{Version: Version, Refused: &Refused{What: why.What, Remedy: why.Remedy}})
}

// greetTimeout bounds how long a supervisor takes to ask, and to hear the answer.
const greetTimeout = 5 * time.Second

func (s *Server) serve(counted *listen.Conn, devices Devices) {
	defer counted.Close()
	c := counted.Conn.(*net.UnixConn)
	if !s.enter(c, func() { c.Close() }) { // who never asks must not keep us from ending
		return
	}
	defer s.leave(c)
	_ = c.SetDeadline(time.Now().Add(greetTimeout)) // fails if it is closed
	var a Ask
	if err := hear(c, &a); err != nil {
		return
	}
	counted.SetBusy(true)
	pid, found, err := admit(c, a, devices)
	h := Hello{Version: Version}
	if err != nil {
		h.Refused = err
	} else {
		h.Below = depthOf(pid) > 0
	}
	for name := range found {
		h.Devices = append(h.Devices, name)
	}
	slices.Sort(h.Devices)
	if say(c, h) != nil || err != nil || c.SetDeadline(time.Time{}) != nil {
		return
	}
	if a.Messages {
		s.serveMessages(c, pid, found)
		return
	}
	run := newSession(newLink(c), a, found, pid, s.stalled)
	s.note(func() { s.sessions[run] = true })
	run.run()
	s.note(func() { delete(s.sessions, run) })
}

// note changes what Clients looks at.
func (s *Server) note(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// enter notes who is served, and what ends that. False: nobody is any more.
func (s *Server) enter(who any, end func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closing {
		s.open[who] = end
	}
	return !s.closing
}

func (s *Server) leave(who any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, who)
}

// admit looks who, the process pid, asks for what.
func admit(c *net.UnixConn, a Ask, devices Devices) (pid int, found map[string]Device, r *Refused) {
	if r := checkVersion(Version, a.Version); r != nil {
		return 0, nil, r
	}
	cred, err := ipc.Peer(c)
	switch {
	case err != nil:
		return 0, nil, &Refused{What: fmt.Sprintf("the supervisor cannot be told: %v", err), Remedy: "try again"}
	case cred.Uid != 0 && int(cred.Uid) != os.Getuid():
		return 0, nil, &Refused{What: "the NIC belongs to another user",
			Remedy: "run the program as the user who started the NIC, or as root"}
	case cred.Pid == 0:
		return 0, nil, &Refused{What: "the program's PID namespace cannot be seen from the NIC's process",
			Remedy: "start the NIC in the same or an outer PID namespace"}
	}
	found, err = devices(a)
	if err == nil {
		return int(cred.Pid), found, nil
	}
	if r, ok := err.(*Refused); ok {
		return 0, nil, r
	}
	return 0, nil, &Refused{What: err.Error(), Remedy: "see: tapir doctor"}
}

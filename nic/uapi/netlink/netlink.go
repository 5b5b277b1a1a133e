// Package netlink stands between programs under a supervisor (nic/uapi/trap) and
// the kernel's netlink protocols (netlink(7)), so that tools find NICs that the
// kernel does not know. A package that has something to show registers a Service
// for types of messages; every other request goes to the kernel, which answers as
// ever:
//
//	p := netlink.New()
//	p.Register(unix.NETLINK_ROUTE, addresses, unix.RTM_GETADDR)   // adds to the kernel's dump
//	p.Own(unix.NETLINK_RDMA, devices, ...)                         // without the kernel
//	trap.Start(trap.Options{Handlers: []trap.Handler{p, ...}, ...})
//
//	socket(2)   makes a served socket                             netlink.go
//	bind(2), getsockname(2), options: of the socket behind it     calls.go
//	send(2)     requests, to services or the kernel               socket.go, kernel.go
//	recv(2)     answers; poll(2) works without us                 socket.go, calls.go
//
// What the program has is the end of a pipe, which is readable while an answer
// waits, at a number of the reserved range (trap.Reserved). Behind it is a socket of
// the kernel, for addresses, options, groups, and requests that are passed on.
// Only sockets of the supervisor's own network namespace are served; in others the
// program talks to the kernel alone, but for protocols that the kernel has not.
package netlink

import (
	"fmt"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/trap"
)

// Request is a request of a program.
type Request struct {
	Message
	// Admin says that the caller has CAP_NET_ADMIN.
	Admin bool
	// Kernel asks what the services registered before, and in the end the kernel,
	// answer to Message as it is then. Errors are errnos.
	Kernel func() ([]Message, error)
}

// Dump tells whether a list is asked for.
func (q *Request) Dump() bool { return q.Flags&unix.NLM_F_DUMP == unix.NLM_F_DUMP }

// Refusal is an errno with the text that tools print of it (NLMSGERR_ATTR_MSG).
type Refusal struct {
	Errno syscall.Errno
	Text  string
}

func (r *Refusal) Error() string { return r.Text }

// Unwrap returns the errno.
func (r *Refusal) Unwrap() error { return r.Errno }

// Service answers a request, borrowed, with messages, of which Type, Flags and Body
// count; the end of a list and acknowledgements are added. It runs on a goroutine of
// the socket and may wait. Errors are errnos.
type Service func(q *Request) ([]Message, error)

// Proxy is a trap.Handler that serves netlink sockets.
type Proxy struct {
	files     *trap.Files
	reserved  trap.Range
	protocols []*protocol
}

// protocol is one that is served.
type protocol struct {
	number   int
	kernel   bool // it is the kernel's too
	services map[uint16]Service
}

// New returns a proxy that serves nothing yet.
func New() *Proxy {
	p := &Proxy{files: trap.NewFiles(), reserved: trap.Reserved()}
	p.files.ServeWrites()
	return p
}

// Register has s answer requests of these types in a protocol of the kernel. What
// was registered for them before is what Request.Kernel asks. It must not be called
// after trap.Start, and so must Own.
func (p *Proxy) Register(number int, s Service, types ...uint16) { p.add(number, true, s, types) }

// Own has s answer requests of these types in a protocol that programs are not to
// talk to the kernel about. Other types of it are EINVAL.
func (p *Proxy) Own(number int, s Service, types ...uint16) { p.add(number, false, s, types) }

func (p *Proxy) add(number int, kernel bool, s Service, types []uint16) {
	of := p.protocol(number)
	if of == nil {
		of = &protocol{number, kernel, map[uint16]Service{}}
		p.protocols = append(p.protocols, of)
	}
	for _, t := range types {
		below := of.services[t]
		of.services[t] = func(q *Request) ([]Message, error) {
			if kernel := q.Kernel; below != nil {
				q.Kernel = func() ([]Message, error) { return below(&Request{q.Message, q.Admin, kernel}) }
			}
			return s(q)
		}
	}
}

func (p *Proxy) protocol(number int) *protocol {
	i := slices.IndexFunc(p.protocols, func(of *protocol) bool { return of.number == number })
	if i < 0 {
		return nil
	}
	return p.protocols[i]
}

// Rules implements trap.Handler.
func (p *Proxy) Rules() []trap.Rule {
	rules := p.files.Rules()
	for _, of := range p.protocols {
		rules = append(rules, trap.Rule{Nr: unix.SYS_SOCKET, When: []trap.Cond{
			{Arg: 0, Mask: ^uint32(0), Value: unix.AF_NETLINK},
			{Arg: 2, Mask: ^uint32(0), Value: uint32(of.number)}}})
	}
	for nr := range calls {
		rules = append(rules, trap.Rule{Nr: nr, When: []trap.Cond{p.reserved.Cond(0)}})
	}
	return rules
}

// Serve implements trap.Handler.
func (p *Proxy) Serve(c *trap.Call) trap.Answer {
	if c.Nr() == unix.SYS_SOCKET {
		if of := p.protocol(c.Int(2)); c.Int(0) == unix.AF_NETLINK && of != nil {
			return p.socket(c, of)
		}
		return trap.Pass()
	}
	serve := calls[c.Nr()]
	if serve == nil {
		return p.files.Serve(c)
	}
	if fd := uint32(c.Int(0)); fd < p.reserved.First || fd > p.reserved.Last {
		return trap.Pass()
	}
	if f, ok := p.files.Lookup(c, c.Int(0)); ok {
		return serve(f.(*socket), c)
	}
	return trap.Pass()
}

// socket serves socket(2).
func (p *Proxy) socket(c *trap.Call, of *protocol) trap.Answer {
	if of.kernel && !ours(c, "net") {
		return trap.Pass()
	}
	switch c.Int(1) &^ (unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK) {
	case unix.SOCK_RAW, unix.SOCK_DGRAM:
	default:
		return trap.Fail(unix.ESOCKTNOSUPPORT)
	}
	s, err := newSocket(of, c.Int(1))
	if err != nil {
		return trap.Fail(err)
	}
	flags := 0
	if c.Int(1)&unix.SOCK_CLOEXEC != 0 {
		flags = unix.O_CLOEXEC
	}
	return p.files.Give(s, trap.Stat{Mode: unix.S_IFSOCK | 0o777}, flags)
}

// ours tells whether the caller is in this process's namespace of a kind. What
// cannot be told is not.
func ours(c *trap.Call, kind string) bool {
	caller, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", c.Thread(), kind))
	mine, err2 := os.Readlink("/proc/self/ns/" + kind)
	return err == nil && err2 == nil && caller == mine
}

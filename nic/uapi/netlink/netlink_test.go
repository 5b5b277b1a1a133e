package netlink

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"tapir/lab/check/testenv"
	"tapir/nic/uapi/trap"
	"tapir/nic/uapi/trap/traptest"
)

func TestMain(m *testing.M) {
	traptest.Main(m, map[string]func(){"requests": requests, "bound": bound}, traptest.Nothing)
}

// The types that toy answers.
const (
	toyEcho = 0x1401 + iota
	toyFail
	toyMany
	toyAdmin
)

// toy registers a protocol of its own.
func toy() *Proxy {
	p := New()
	p.Own(unix.NETLINK_RDMA, func(q *Request) ([]Message, error) {
		switch q.Type {
		case toyFail:
			return nil, unix.ENOENT
		case toyAdmin:
			return nil, map[bool]error{false: unix.EPERM}[q.Admin]
		case toyMany:
			var list []Message
			for i := range 100 {
				list = append(list, Message{Type: toyMany, Body: bytes.Repeat([]byte{byte(i)}, 100)})
			}
			return list, nil
		}
		return []Message{{Type: toyEcho, Body: q.Body}}, nil
	}, toyEcho, toyFail, toyMany, toyAdmin)
	return p
}

// run runs a program of this binary and returns what it wrote.
func run(t *testing.T, p *Proxy, name string) string {
	t.Helper()
	argv := []string{"/proc/self/exe", traptest.Program + name}
	return traptest.Output(t, trap.Options{Argv: argv, Handlers: []trap.Handler{p}}, testenv.Guard)
}

// ask sends one request of a type and body.
func ask(fd int, kind, flags uint16, body string) error {
	m := Message{Type: kind, Flags: flags | unix.NLM_F_REQUEST, Seq: 77, Body: []byte(body)}
	return unix.Sendto(fd, m.append(nil), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
}

// hear prints the messages of a datagram.
func hear(fd int) {
	b := make([]byte, 1<<16)
	n, _, flags, from, err := unix.Recvmsg(fd, b, nil, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	at, ok := from.(*unix.SockaddrNetlink)
	fmt.Print(n, " from the kernel: ", ok && at.Pid == 0, ", flags ", flags)
	for m := range messages(b[:n]) {
		fmt.Printf(", type %#x flags %#x seq %d: %q", m.Type, m.Flags, m.Seq, m.Body[:min(len(m.Body), 40)])
	}
	fmt.Println()
}

func requests() {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_RDMA)
	fmt.Println(err, fd >= 900)
	hear(fd)
	fmt.Println(ask(fd, toyEcho, unix.NLM_F_ACK, "body"))
	ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(ready, 10000)
	fmt.Println("readable", n, err)
	n, _, err = unix.Recvfrom(fd, make([]byte, 4), unix.MSG_PEEK|unix.MSG_TRUNC)
	fmt.Println("long", n, err)
	_ = unix.SetNonblock(fd, false)
	hear(fd)
	hear(fd)
	n, err = unix.Poll(ready, 0)
	fmt.Println("readable", n, err)
	fmt.Println(ask(fd, toyFail, 0, "why"))
	hear(fd)
	fmt.Println(unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1), ask(fd, 0x1fff, 0, "what"))
	hear(fd)
	fmt.Println(ask(fd, toyMany, unix.NLM_F_DUMP, ""))
	b, count, datagrams := make([]byte, 1<<16), 0, 0
	for done := false; !done; datagrams++ {
		n, _, err := unix.Recvfrom(fd, b, 0)
		if err != nil {
			fmt.Println(err)
			return
		}
		for m := range messages(b[:n]) {
			count++
			done = m.Type == unix.NLMSG_DONE
		}
	}
	fmt.Println(count, "messages in several datagrams:", datagrams > 2)
	dup, err := unix.Dup(fd)
	fmt.Println(dup >= 900, err)
	hostile := Message{Type: toyEcho, Flags: unix.NLM_F_REQUEST}
	long := hostile.append(nil)
	native.PutUint32(long, 1<<30)
	n, err = unix.Write(dup, append(hostile.append(nil), long...)) // the second message is ignored
	fmt.Println(n, err)
	hear(dup)
	fmt.Println(unix.Sendto(fd, nil, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Pid: 1}))
	patience := unix.Timeval{Usec: 1000}
	fmt.Println(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &patience))
	hear(fd)
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{}) // the next answer may take its time
	fmt.Println(ask(fd, toyAdmin, unix.NLM_F_ACK, ""))
	hear(fd)
}

// TestRequests: a socket behaves as the kernel's.
func TestRequests(t *testing.T) {
	want := `<nil> true
resource temporarily unavailable
<nil>
readable 1 <nil>
long 20 <nil>
20 from the kernel: true, flags 0, type 0x1401 flags 0x0 seq 77: "body"
36 from the kernel: true, flags 0, type 0x2 flags 0x100 seq 77: "\x00\x00\x00\x00\x14\x00\x00\x00\x01\x14\x05\x00M\x00\x00\x00\x00\x00\x00\x00"
readable 0 <nil>
<nil>
40 from the kernel: true, flags 0, type 0x2 flags 0x0 seq 77: "\xfe\xff\xff\xff\x13\x00\x00\x00\x02\x14\x01\x00M\x00\x00\x00\x00\x00\x00\x00why\x00"
<nil> <nil>
36 from the kernel: true, flags 0, type 0x2 flags 0x100 seq 77: "\xea\xff\xff\xff\x14\x00\x00\x00\xff\x1f\x01\x00M\x00\x00\x00\x00\x00\x00\x00"
<nil>
101 messages in several datagrams: true
true <nil>
32 <nil>
16 from the kernel: true, flags 0, type 0x1401 flags 0x0 seq 0: ""
connection refused
<nil>
resource temporarily unavailable
<nil>
36 from the kernel: true, flags 0, type 0x2 flags 0x100 seq 77: "\x00\x00\x00\x00\x10\x00\x00\x00\x04\x14\x05\x00M\x00\x00\x00\x00\x00\x00\x00"
`
	if os.Getuid() != 0 {
		t.Skip("needs root, whose program may administer the network")
	}
	if got := run(t, toy(), "requests"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// bound asks the kernel for something by the address that it has chosen.
func bound() {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM, unix.NETLINK_ROUTE)
	port := uint32(os.Getpid()) + 5<<22
	fmt.Println(err, unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Pid: port}))
	at, err := unix.Getsockname(fd)
	fmt.Println(at.(*unix.SockaddrNetlink).Pid == port, err)
	for _, kind := range []uint16{unix.RTM_GETLINK, unix.RTM_GETNEIGH} { // the kernel alone; a service before it
		seen := map[uint16]bool{}
		fmt.Println(ask(fd, kind, unix.NLM_F_DUMP, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
		for b := make([]byte, 1<<16); !seen[unix.NLMSG_DONE]; {
			n, _, err := unix.Recvfrom(fd, b, 0)
			if err != nil {
				fmt.Println(err)
				return
			}
			for m := range messages(b[:n]) {
				seen[m.Type] = true
				if m.Port != port || m.Seq != 77 {
					fmt.Println("another's", m.Port, m.Seq)
				}
			}
		}
		fmt.Println(seen[unix.RTM_NEWLINK], seen[unix.RTM_NEWNEIGH])
	}
}

// TestKernel: what no service answers, the kernel does, and services add to it.
func TestKernel(t *testing.T) {
	p := New()
	add := func(q *Request) ([]Message, error) {
		list, err := q.Kernel()
		return append(list, Message{Type: unix.RTM_NEWNEIGH, Body: make([]byte, 12)}), err
	}
	p.Register(unix.NETLINK_ROUTE, add, unix.RTM_GETNEIGH)
	p.Register(unix.NETLINK_ROUTE, add, unix.RTM_GETNEIGH)
	if got, want := run(t, p, "bound"), "<nil> <nil>\ntrue <nil>\n<nil>\ntrue false\n<nil>\nfalse true\n"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestAttributes: what is put is found, and a wrong length is an error.
func TestAttributes(t *testing.T) {
	var a Attributes
	a.Uint8(1, 2)
	a.Nest(0x8000|3, func(a *Attributes) { a.String(4, "five") })
	found, err := ParseAttributes(a)
	if err != nil || len(found) != 2 || !bytes.Equal(found[1], []byte{2}) {
		t.Fatalf("%v %v", found, err)
	}
	if inner, err := ParseAttributes(found[3]); err != nil || string(inner[4]) != "five\x00" {
		t.Errorf("%v %v", inner, err)
	}
	for _, bad := range [][]byte{{1}, {3, 0, 1, 0}, {9, 0, 1, 0, 0, 0, 0, 0}} {
		if _, err := ParseAttributes(bad); !errors.Is(err, unix.EINVAL) {
			t.Errorf("%x: %v", bad, err)
		}
	}
}

// FuzzDatagram: a program sends anything. Every request that asks for an answer has
// one, and the next request is answered.
func FuzzDatagram(f *testing.F) {
	f.Add((&Message{Type: toyEcho, Flags: unix.NLM_F_REQUEST | unix.NLM_F_ACK, Body: []byte("body")}).append(nil), true)
	f.Add((&Message{Type: toyMany, Flags: unix.NLM_F_REQUEST | unix.NLM_F_DUMP}).append(nil), false)
	f.Add((&Message{Type: 3, Flags: unix.NLM_F_REQUEST | unix.NLM_F_ACK}).append(nil), false)
	p := toy()
	f.Fuzz(func(t *testing.T, datagram []byte, admin bool) {
		s, err := newSocket(p.protocols[0], unix.SOCK_RAW)
		if err != nil {
			t.Fatal(err)
		}
		r, _ := s.Descriptor()
		defer unix.Close(r)
		defer s.Release()
		for m := range messages(datagram) {
			s.request(m, admin)
			if s.queued > maxQueued/2 {
				s.queue, s.queued = nil, 0
			}
			if m.Flags&unix.NLM_F_ACK != 0 && m.Flags&unix.NLM_F_DUMP != unix.NLM_F_DUMP && len(s.queue) == 0 {
				t.Fatalf("%+v is not answered", m)
			}
		}
		s.queue, s.queued = nil, 0
		s.request(Message{Type: toyEcho, Flags: unix.NLM_F_REQUEST}, false)
		if len(s.queue) != 1 {
			t.Fatalf("%d answers to one request", len(s.queue))
		}
	})
}

// Package umad serves the kernel's interface to management datagrams (MADs),
// the character device /dev/infiniband/umadN, to programs under a supervisor
// (nic/uapi/trap), so that stock libibumad reaches the agents of a port that the
// kernel does not know:
//
//	agents     REGISTER_AGENT, REGISTER_AGENT2, UNREGISTER_AGENT, ENABLE_PKEY     ioctl.go
//	write(2)   a request leaves under a transaction id of its agent's            file.go
//	read(2)    its response, or itself with ETIMEDOUT, or a request for an
//	           agent that wants such, one for each call                          read.go
//	segments   messages longer than a datagram (RMPP), for agents that leave
//	           them to the kernel                                                rmpp.go
//
// Layouts are those of include/uapi/rdma/ib_user_mad.h, version 5, errnos those
// of the kernel's drivers/infiniband/core/user_mad.c.
package umad

import (
	"context"
	"sync"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/trap"
)

// Address is the far end of a datagram.
type Address struct {
	QP   uint32 // 0: subnet management; 1: all other classes
	LID  uint16
	SL   uint8
	PKey uint16 // index of the P_Key table, of what is sent
}

// Link is a file's way to a port. Its methods are called from any goroutine.
type Link interface {
	// Session is the upper half of the upper half of the transaction ids that the
	// port lets pass.
	Session() uint16
	// Send lets a datagram leave, which may be lost. It does not keep b.
	Send(to Address, b []byte)
	// Close ends it. What is received then is dropped.
	Close()
}

// Port is one port of a device.
type Port struct {
	Path string // of the device file
	Stat trap.Stat
	// Open begins the use of the port by a file, whose receive takes datagrams (and
	// keeps them) from any goroutine. Errors are errnos.
	Open func(receive func(from Address, b []byte)) (Link, error)
}

// New returns a handler for these ports.
func New(ports ...Port) *trap.Files {
	var requests []trap.Cond
	for _, req := range []uint32{registerAgent, unregisterAgent, enablePKey, registerAgent2} {
		requests = append(requests, trap.Cond{Arg: 1, Mask: ^uint32(0), Value: req})
	}
	files := trap.NewFiles(requests...)
	files.ServeReads()
	for i := range ports {
		files.Add(ports[i].Path, node{&ports[i]})
	}
	return files
}

// node is the device file of a port.
type node struct{ port *Port }

// Stat implements trap.Node.
func (n node) Stat() trap.Stat { return n.port.Stat }

// Open implements trap.Node.
func (n node) Open(flags int) (trap.File, error) {
	p, err := trap.NewPackets(flags)
	if err != nil {
		return nil, err
	}
	r, w := p.Descriptor()
	_, _ = unix.FcntlInt(uintptr(w), unix.F_SETPIPE_SZ, maxUnread*pipePage) // else there is less room
	f := &file{Pipe: p, header: oldHeaderLen}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	if f.link, err = n.port.Open(f.receive); err != nil {
		unix.Close(r)
		f.Pipe.Release()
		return nil, err
	}
	return f, nil
}

// Local is the Open of a port whose agents are all there is: exchange returns what
// they answer to a datagram, nil: nothing. It may be called from any goroutine and
// keeps neither.
func Local(exchange func(ctx context.Context, to Address, b []byte) []byte) func(func(Address, []byte)) (Link, error) {
	return func(receive func(Address, []byte)) (Link, error) {
		l := &local{exchange: exchange, receive: receive}
		l.ctx, l.cancel = context.WithCancel(context.Background())
		return l, nil
	}
}

type local struct {
	exchange func(ctx context.Context, to Address, b []byte) []byte
	receive  func(Address, []byte)
	ctx      context.Context
	cancel   func()
	wg       sync.WaitGroup
}

// Session implements Link.
func (l *local) Session() uint16 { return 0 }

// Send implements Link.
func (l *local) Send(to Address, b []byte) {
	b = append([]byte(nil), b...)
	l.wg.Go(func() {
		if answer := l.exchange(l.ctx, to, b); answer != nil && l.ctx.Err() == nil {
			l.receive(to, answer)
		}
	})
}

// Close implements Link.
func (l *local) Close() {
	l.cancel()
	l.wg.Wait()
}

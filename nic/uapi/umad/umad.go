// Package umad serves the kernel's interface to management datagrams (MADs),
// the character device /dev/infiniband/umadN, to programs under a supervisor
// (nic/uapi/trap), so that stock libibumad reaches the agents of a port that the
// kernel does not know:
//
//	agents     REGISTER_AGENT, REGISTER_AGENT2, UNREGISTER_AGENT, ENABLE_PKEY     ioctl.go
//	write(2)   a request leaves under a transaction id of its agent's            file.go
//	read(2)    its response, or itself with ETIMEDOUT, one for each call          file.go
//
// Layouts are those of include/uapi/rdma/ib_user_mad.h, version 5, errnos those
// of the kernel's drivers/infiniband/core/user_mad.c. Nobody sends a program
// what it has not asked for: agents may register for that, and hear nothing.
package umad

import (
	"context"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/trap"
)

// Address is the far end of a datagram.
type Address struct {
	QP  uint32 // 0: subnet management; 1: all other classes
	LID uint16
	SL  uint8
}

// Port is one port of a device.
type Port struct {
	Path string // of the device file
	Stat trap.Stat
	// Exchange sends a request, b, and returns the response; nil: none has come
	// before the end of ctx. It is called from any goroutine and keeps neither.
	Exchange func(ctx context.Context, to Address, b []byte) []byte
}

// New returns a handler for these ports.
func New(ports ...Port) *trap.Files {
	var requests []trap.Cond
	for _, req := range []uint32{registerAgent, registerAgent2, unregisterAgent, enablePKey} {
		requests = append(requests, trap.Cond{Arg: 1, Mask: ^uint32(0), Value: req})
	}
	files := trap.NewFiles(requests...)
	files.ServeWrites()
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
	_, w := p.Descriptor()
	_, _ = unix.FcntlInt(uintptr(w), unix.F_SETPIPE_SZ, maxUnread*pipePage) // else there is less room
	f := &file{Pipe: p, port: n.port, header: oldHeaderLen}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return f, nil
}

package ctl

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
)

// mayUse tells whether the process at the other end of c runs as our own user
// or root (SO_PEERCRED, unix(7)).
func mayUse(c net.Conn) bool {
	cred, err := credentials(c)
	return err == nil && allowed(int(cred.Uid), os.Getuid())
}

// credentials are those of the process at the other end of a Unix socket: of the
// listener, those of the process that listens.
func credentials(c net.Conn) (cred *syscall.Ucred, err error) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.New("not a Unix socket")
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return nil, err
	}
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	return cred, errors.Join(err, credErr)
}

// PID is the process of the NIC, as this process's PID namespace numbers it. Error: it
// cannot be reached, or it is in a PID namespace that this process does not see.
func (c *Client) PID(ctx context.Context) (int, error) {
	conn, err := c.dial(ctx, "", "")
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	cred, err := credentials(conn)
	if err == nil && cred.Pid == 0 {
		err = errors.New("its process is in another PID namespace: run the command where that is visible")
	}
	if err != nil {
		return 0, err
	}
	return int(cred.Pid), nil
}

func allowed(peer, own int) bool { return peer == own || peer == 0 }

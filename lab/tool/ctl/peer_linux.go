package ctl

import (
	"net"
	"os"
	"syscall"
)

// mayUse tells whether the process at the other end of c runs as our own user
// or root (SO_PEERCRED, unix(7)).
func mayUse(c net.Conn) bool {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return false
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return false
	}
	var cred *syscall.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); err != nil || credErr != nil {
		return false
	}
	return allowed(int(cred.Uid), os.Getuid())
}

func allowed(peer, own int) bool { return peer == own || peer == 0 }

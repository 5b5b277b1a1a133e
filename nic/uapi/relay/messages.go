package relay

import (
	"net"
	"os"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/abi"
	"tapir/nic/umode/proxy"
)

// serveMessages serves a program that needs no supervisor, until it goes. It has
// asked for one NIC, whose thread all devices share; else it has none.
func (s *Server) serveMessages(c *net.UnixConn, pid int, found map[string]Device) {
	var home Thread
	devices := map[string]abi.Opener{}
	for name, d := range found {
		if home != nil && d.Thread != home {
			return
		}
		home, devices[name] = d.Thread, d.Open
	}
	if home == nil {
		return
	}
	conn, err := c.File() // which the runtime does not poll
	if err != nil {
		return
	}
	c.Close()
	gone := make(chan struct{})
	if pidfd, err := unix.PidfdOpen(pid, 0); err == nil { // else it has gone
		client := []suspect{{pid: pid, process: os.NewFile(uintptr(pidfd), "process")}}
		go (&watchdog{func() []Thread { return []Thread{home} }, func() []suspect { return client },
			s.stalled}).watch(gone)
	}
	hangUp := proxy.Serve(home, conn, pid, devices, func() { close(gone) })
	if !s.enter(gone, hangUp) {
		hangUp()
	}
	s.note(func() { s.direct[gone] = pid })
	<-gone
	s.note(func() { delete(s.direct, gone) })
	s.leave(gone)
}

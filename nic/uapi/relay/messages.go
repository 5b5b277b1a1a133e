package relay

import (
	"net"

	"tapir/nic/umode/proxy"
	"tapir/wire/frame"
)

// requestsPerTurn bounds what one program is served in an iteration.
const requestsPerTurn = 8

// serveMessages serves a program that needs no supervisor: on its NIC's thread
// if it uses one NIC, so that nothing is handed from thread to thread.
func (s *Server) serveMessages(c *net.UnixConn, pid int, found map[string]Device) {
	home := oneThread(found)
	var conn proxy.Conn = c
	if home != nil {
		f, err := c.File() // which the runtime does not poll
		if err != nil {
			return
		}
		c.Close()
		conn = f
	}
	o, err := proxy.NewSession(conn, pid, func(name string) (proxy.Device, bool) {
		d, ok := found[name]
		switch {
		case !ok:
			return proxy.Device{}, false
		case home != nil:
			return proxy.Device{Open: d.Open}, true // the thread that polls
		}
		return proxy.Device{Open: d.Open, Do: d.Thread.Do}, true
	})
	if err != nil || !s.enter(o, o.HangUp) {
		conn.Close()
		return
	}
	defer s.leave(o)
	if home == nil {
		_ = o.Serve() // says only how the program broke the rules
		return
	}
	o.AllowBells(home.AddBell)
	gone := make(chan struct{})
	end := func() {
		o.End()
		close(gone)
	}
	home.Do(func(frame.Time) {
		raw, err := conn.SyscallConn()
		if err == nil {
			err = raw.Control(func(fd uintptr) { poll(home, int(fd), o, end) })
		}
		if err != nil {
			end()
		}
	})
	<-gone
}

// poll has the program's requests served when there are some, until it goes.
func poll(home Thread, fd int, o *proxy.Session, end func()) {
	var remove func()
	remove = home.AddSource(fd, func(frame.Time, bool) {
		for range requestsPerTurn {
			served, more := o.Step()
			if !more {
				remove()
				end()
			}
			if !served || !more {
				return
			}
		}
	}, end)
}

// oneThread is the thread of all devices, nil if there are several.
func oneThread(found map[string]Device) (one Thread) {
	for _, d := range found {
		if one != nil && d.Thread != one {
			return nil
		}
		one = d.Thread
	}
	return one
}

package mirror

import (
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/trap"
)

// intake is a pipe of which a program writes one end, as if it were a file of
// a Mirror. A pipe needs no trapped write(2), so that a shell may give the
// descriptor any number.
type intake struct {
	mu   sync.Mutex
	r    int
	take func(text []byte) error
}

// feed opens a file for writing.
func (m *Mirror) feed(c *trap.Call, name string, flags int) trap.Answer {
	m.mu.Lock()
	defer m.mu.Unlock()
	take := m.taken[name]
	if take == nil || flags&unix.O_ACCMODE == unix.O_RDONLY {
		return trap.Fail(unix.EACCES)
	}
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_DIRECT); err != nil { // a write is a packet
		return trap.Fail(err)
	}
	_ = unix.SetNonblock(p[0], true) // a pipe can
	in := &intake{r: p[0], take: take}
	m.fed = append(m.fed, in)
	if !m.refuses {
		go m.follow(in, nil)
		return trap.Install(p[1], flags)
	}
	var st unix.Stat_t
	_ = unix.Fstat(p[1], &st) // it is open
	id := trap.FileID{Dev: st.Dev, Ino: st.Ino}
	m.writes.Put(id, in)
	c.Finish(trap.InstallReserved(p[1], flags))
	go m.follow(in, func() { m.writes.Take(id) })
	return trap.Later()
}

// write serves write(2) to a file that may refuse it.
func (m *Mirror) write(c *trap.Call) trap.Answer {
	in := m.writes.Find(c, c.Int(0))
	if in == nil {
		return trap.Pass()
	}
	text := make([]byte, min(c.Arg(2), pathMax))
	if err := c.Read(c.Arg(1), text); err != nil {
		return trap.Fail(err)
	}
	go func() {
		in.drain() // what came before
		in.mu.Lock()
		defer in.mu.Unlock()
		c.Finish(trap.Result(int64(len(text)), in.take(text)))
	}()
	return trap.Later()
}

// follow takes what is written until nobody can write any more, and calls ended then.
func (m *Mirror) follow(in *intake, ended func()) {
	fds := []unix.PollFd{{Fd: int32(in.r), Events: unix.POLLIN}}
	for fds[0].Revents&unix.POLLHUP == 0 {
		if _, err := unix.Poll(fds, -1); err != nil && err != unix.EINTR {
			break
		}
		in.drain()
	}
	if ended != nil {
		ended()
	}
	m.mu.Lock()
	m.fed = slices.DeleteFunc(m.fed, func(o *intake) bool { return o == in })
	m.mu.Unlock()
	in.mu.Lock() // whoever found it in the list is done
	defer in.mu.Unlock()
	unix.Close(in.r)
	in.r = -1
}

func (in *intake) drain() {
	in.mu.Lock()
	defer in.mu.Unlock()
	for in.r >= 0 {
		var b [pathMax]byte
		n, err := unix.Read(in.r, b[:])
		if err == unix.EINTR {
			continue
		}
		if n <= 0 {
			return
		}
		_ = in.take(b[:n]) // the program has gone on
	}
}

// digest takes what was written before now.
func (m *Mirror) digest() {
	m.mu.Lock()
	fed := slices.Clone(m.fed)
	m.mu.Unlock()
	for _, in := range fed {
		in.drain()
	}
}

package ucma

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// tokens make a file readable for poll(2) and its kin while events wait: a
// pipe that holds an octet for each, as far as it has room. The program has
// its read end, opened again, so that the end of its descriptors can be told
// from ours.
type tokens struct {
	read, write int // not blocking
	n           int // octets in the pipe
}

// open makes the pipe and returns the descriptor for the program.
func (t *tokens) open(flags int) (fd int, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return -1, err
	}
	fd, err = unix.Open("/proc/self/fd/"+strconv.Itoa(p[0]), unix.O_RDONLY|unix.O_CLOEXEC|flags&unix.O_NONBLOCK, 0)
	if err != nil {
		unix.Close(p[0])
		unix.Close(p[1])
		return -1, err
	}
	t.read, t.write = p[0], p[1]
	return fd, nil
}

// set makes it as many tokens as events, if the pipe has room for them.
func (t *tokens) set(events int) {
	var buf [64]byte
	for t.n < events {
		n, _ := unix.Write(t.write, buf[:min(events-t.n, len(buf))])
		if n <= 0 {
			return
		}
		t.n += n
	}
	for t.n > events {
		n, _ := unix.Read(t.read, buf[:min(t.n-events, len(buf))])
		if n <= 0 { // the program has read them itself
			t.n = events
			return
		}
		t.n -= n
	}
}

func (t *tokens) close() {
	unix.Close(t.read)
	unix.Close(t.write)
}

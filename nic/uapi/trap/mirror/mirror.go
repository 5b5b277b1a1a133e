// Package mirror has a supervised program (nic/uapi/trap) see files of a
// directory of ours at other paths.
package mirror

import (
	"fmt"
	"os"
	"path"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/rundir"
	"tapir/nic/uapi/trap"
)

// pathMax is the longest path with its final zero, PATH_MAX of the kernel.
const pathMax = 4096

// Mirror is a trap.Handler that has the program see, at chosen paths, what a
// directory of ours holds: /sys/class/x is DIR/sys/class/x. A path need not
// exist for the program, nor any directory above it, and its own root
// directory may be another one. What it opens is the real file or directory,
// which it reads, and opens others from, without us.
type Mirror struct {
	// First, if not nil, is called when the program first names a path that is
	// shown. It must not block.
	First func()
	// Before, if not nil, is called before the program is answered about a path that is
	// shown: it may bring the files up to date.
	Before func()

	remove func() // root, of Make; nil: it is not ours
	root   string
	fd     int // of root

	mu    sync.Mutex
	asked bool
	owned map[string]bool
	made  map[string]func() ([]byte, error)
	taken map[string]func(text []byte) error
	fed   []*intake

	refuses bool // some files refuse what is written to them
	writes  trap.ByFile[intake]
}

// New returns a mirror of dir, which must have no symbolic link in its
// path, that shows nothing yet. Close lets go of it.
func New(dir string) (*Mirror, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	return &Mirror{root: dir, fd: fd, owned: map[string]bool{}, made: map[string]func() ([]byte, error){},
		taken: map[string]func([]byte) error{}}, nil
}

// Make is New of a directory of its own, in memory if that is possible, whose name begins with
// prefix. Close removes it; that of a process that was killed is removed by the next one's
// Make.
func Make(prefix string) (*Mirror, error) {
	dir, remove, err := rundir.Make(prefix, "/dev/shm", os.TempDir()) // memory first
	if err != nil {
		return nil, err
	}
	m, err := New(dir)
	if err != nil {
		remove()
		return nil, err
	}
	m.remove = remove
	return m, nil
}

// Root is the directory of ours.
func (m *Mirror) Root() string { return m.root }

// Close ends the mirror, which must not be asked any more: all that was written
// has been taken.
func (m *Mirror) Close() error {
	m.digest()
	err := unix.Close(m.fd)
	if m.remove != nil {
		m.remove()
	}
	return err
}

// Show has the program see path, which must be absolute and clean, and
// all below it.
func (m *Mirror) Show(path string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.owned[path] = true
}

// Make has the file at path say, whenever it is opened, what text then
// returns. text is called from any goroutine; its errors are errnos.
func (m *Mirror) Make(path string, text func() ([]byte, error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.made[path] = text
}

// Take has the program write to the file at path: take gets what it writes, by
// one call for each write(2), from any goroutine, but before the program's next
// call on a path is answered. The program is told of no error.
func (m *Mirror) Take(path string, take func(text []byte)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.taken[path] = func(text []byte) error {
		take(text)
		return nil
	}
}

// TakeOrRefuse is Take by a function whose error, an errno, is what write(2) returns. That is
// so of writes of at most shortest octets by the descriptor that open(2) has returned, and by
// standard output: of others the program is told of no error.
func (m *Mirror) TakeOrRefuse(path string, take func(text []byte) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.taken[path], m.refuses = take, true
}

// shortest is the mask of the length of writes to standard output that are served: those of
// most programs are longer, and are not delayed.
const shortest = 15

// Rules implements trap.Handler.
func (m *Mirror) Rules() []trap.Rule {
	rules := append(trap.PathRules(), trap.Rule{Nr: unix.SYS_GETCWD})
	if !m.refuses {
		return rules
	}
	return append(rules, trap.Rule{Nr: unix.SYS_WRITE, When: []trap.Cond{trap.Reserved().Cond(0)}},
		trap.Rule{Nr: unix.SYS_WRITE, When: []trap.Cond{{Arg: 0, Mask: ^uint32(0), Value: 1},
			{Arg: 2, Mask: ^uint32(shortest)}}})
}

// Serve implements trap.Handler.
func (m *Mirror) Serve(c *trap.Call) trap.Answer {
	switch c.Nr() {
	case unix.SYS_WRITE:
		return m.write(c)
	case unix.SYS_GETCWD:
		return m.workingDirectory(c)
	}
	p, ok, err := c.PathCall()
	if !ok || err != nil {
		return trap.Pass() // the kernel says it better
	}
	m.digest()
	name, err := c.Path(p.Dir, p.Path)
	if err != nil {
		return trap.Pass()
	}
	shown, text := m.find(name)
	if shown && m.Before != nil {
		m.Before()
	}
	switch {
	case !shown && p.Kind != trap.OpenPath && m.above(c, p):
		return m.query(c, p, name)
	case !shown:
		return trap.Pass()
	case p.Kind == trap.OpenPath:
		return m.open(c, name, text, int(p.Arg))
	}
	return m.query(c, p, name)
}

// workingDirectory serves getcwd(2): the program is in a directory of ours since fchdir(2).
func (m *Mirror) workingDirectory(c *trap.Call) trap.Answer {
	name, err := c.Dir(unix.AT_FDCWD)
	if err != nil {
		return trap.Pass()
	}
	if shown, _ := m.find(name); !shown {
		return trap.Pass()
	}
	if uint64(len(name)) >= c.Arg(1) {
		return trap.Fail(unix.ERANGE)
	}
	return trap.Result(int64(len(name))+1, c.Write(c.Arg(0), append([]byte(name), 0)))
}

// find tells whether the mirror answers for name, and how the file is made if
// it is.
func (m *Mirror) find(name string) (shown bool, text func() ([]byte, error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for above := name; above != ""; above = above[:strings.LastIndexByte(above, '/')] {
		if m.owned[above] {
			if !m.asked && m.First != nil {
				m.First()
			}
			m.asked = true
			return true, m.made[name]
		}
	}
	return false, nil
}

// above tells whether the program names, by "..", a directory above one that
// is shown: the kernel does not know the way.
func (m *Mirror) above(c *trap.Call, p trap.PathCall) bool {
	text, err := c.Text(p.Path)
	if err != nil {
		return false
	}
	below, up := strings.CutSuffix(text, "/..")
	if !up || !path.IsAbs(text) {
		return false
	}
	shown, _ := m.find(path.Clean(below))
	return shown
}

func (m *Mirror) open(c *trap.Call, name string, text func() ([]byte, error), flags int) trap.Answer {
	const kept = unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_NONBLOCK
	fd, err := unix.Openat(m.fd, name[1:], flags&kept|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	changes := flags&unix.O_ACCMODE != unix.O_RDONLY || flags&unix.O_TRUNC != 0
	switch {
	case err == unix.ENOENT && flags&unix.O_CREAT != 0:
		return trap.Fail(unix.EACCES)
	case err != nil:
		return trap.Fail(err)
	case flags&(unix.O_CREAT|unix.O_EXCL) == unix.O_CREAT|unix.O_EXCL:
		err = unix.EEXIST
	case changes && flags&unix.O_PATH == 0: // the files of a kernel refuse root too
		name = m.real(fd, name)
		unix.Close(fd)
		return m.feed(c, name, flags)
	case text != nil:
		go func() {
			unix.Close(fd)
			c.Finish(made(name, text, flags))
		}()
		return trap.Later()
	default:
		return trap.Install(fd, flags)
	}
	unix.Close(fd)
	return trap.Fail(err)
}

// real is the name of an open file of ours without symbolic links on the way.
func (m *Mirror) real(fd int, name string) string {
	if at, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err == nil {
		if below, ok := strings.CutPrefix(at, m.root); ok {
			return below
		}
	}
	return name
}

// made opens a file whose text is made now.
func made(name string, text func() ([]byte, error), flags int) trap.Answer {
	b, err := text()
	if err != nil {
		return trap.Fail(err)
	}
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return trap.Fail(err)
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, b); err != nil {
		return trap.Fail(err)
	}
	if err := unix.Fchmod(fd, 0o444); err != nil {
		return trap.Fail(err)
	}
	readOnly, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return trap.Fail(err)
	}
	return trap.Install(readOnly, flags)
}

// query answers what the program asks about a file without opening it.
func (m *Mirror) query(c *trap.Call, p trap.PathCall, name string) trap.Answer {
	nofollow := 0
	if text, _ := c.Text(p.Path); !strings.HasSuffix(text, "/") && // which follows
		(p.Kind == trap.ReadlinkPath || p.Flags&unix.AT_SYMLINK_NOFOLLOW != 0) {
		nofollow = unix.O_NOFOLLOW
	}
	fd, err := unix.Openat(m.fd, name[1:], unix.O_PATH|unix.O_CLOEXEC|nofollow, 0)
	if err != nil {
		return trap.Fail(err)
	}
	defer unix.Close(fd)
	switch p.Kind {
	case trap.StatPath:
		var st unix.Stat_t
		if err = unix.Fstat(fd, &st); err == nil {
			err = trap.Put(c, p.Arg, &st)
		}
	case trap.StatxPath:
		var st unix.Statx_t
		if err = unix.Statx(fd, "", unix.AT_EMPTY_PATH, p.Size, &st); err == nil {
			err = trap.Put(c, p.Arg, &st)
		}
	case trap.AccessPath:
		err = permitted(fd, int(p.Arg))
	case trap.ReadlinkPath:
		return m.readlink(c, fd, p.Arg, p.Size)
	case trap.XattrPath:
		err = unix.EOPNOTSUPP
	}
	return trap.Result(0, err)
}

// permitted judges as the modes say, for whoever asks.
func permitted(fd, want int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if want&unix.W_OK != 0 && (st.Mode&0o222 == 0 || st.Mode&unix.S_IFMT == unix.S_IFDIR) ||
		want&unix.X_OK != 0 && st.Mode&0o111 == 0 {
		return unix.EACCES
	}
	return nil
}

func (m *Mirror) readlink(c *trap.Call, fd int, addr uint64, room int) trap.Answer {
	if room <= 0 {
		return trap.Fail(unix.EINVAL)
	}
	b := make([]byte, min(room, pathMax))
	n, err := unix.Readlinkat(fd, "", b)
	if err == unix.ENOENT { // no link
		err = unix.EINVAL
	}
	if err == nil {
		err = c.Write(addr, b[:n])
	}
	return trap.Result(int64(n), err)
}

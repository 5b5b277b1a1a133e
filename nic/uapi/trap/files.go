package trap

import (
	"errors"
	"sync"

	"golang.org/x/sys/unix"
)

// Node is a served path, such as a device.
type Node interface {
	// Stat is what stat(2) says of it: type, permissions and device number.
	Stat() Stat
	// Open makes an open file of it. Errors are errnos.
	Open(flags int) (File, error)
}

// Stat is the identity of a served file.
type Stat struct {
	Mode uint32 // S_IFCHR and permissions
	Rdev uint64 // unix.Mkdev
}

// File is a served file that some process has open: what the program gets is
// a real descriptor, on which read, poll and mmap work without us. Files
// calls its methods from any goroutine, one at a time.
type File interface {
	// Descriptor is what the program gets; the caller takes it. It must be of
	// an inode of its own: a pipe, a socket or a memfd. held stays the File's:
	// the other end of a pipe or socket, which polls as POLLERR or POLLHUP once
	// no process has the program's, or the memfd, of which the program's was
	// opened again (/proc/self/fd/N).
	Descriptor() (fd, held int)
	// Ioctl serves ioctl(2). It must not block.
	Ioctl(c *Call, req uint32, arg uint64) Answer
	// Release is called once, when the last descriptor of the last process is
	// closed, however that came about.
	Release()
}

// Writer is a File whose write(2) is served, which a command device is. Its
// descriptors have numbers of the reserved range, also after dup(2) and
// fcntl(2) F_DUPFD. A write natively made, by a number outside of the range
// that dup2(2) or a message gave it, must fail: by a file offset at the end of
// a sealed memfd for example.
type Writer interface {
	File
	// Write serves write(2) of n octets at addr. It must not block.
	Write(c *Call, addr, n uint64) Answer
}

// Reader is a Writer whose read(2) is served, as far as Pass does not leave it to
// the descriptor. What is read by a number outside of the reserved range is.
type Reader interface {
	Writer
	// Read serves read(2) of up to n octets to addr. It must not block.
	Read(c *Call, addr, n uint64) Answer
}

// OpenServer is a Node whose opening is answered by itself, perhaps later and
// by another process, in place of Open. What it opens may be told by Adopt.
type OpenServer interface {
	Node
	ServeOpen(c *Call, flags int) Answer
}

// Files is a Handler for paths that do not exist and descriptors that come
// from opening them. It knows an open file by its inode, so that dup, fork,
// execve, close-on-exec and passing a descriptor in a message need no care.
type Files struct {
	ioctls []Cond
	writes bool
	reads  bool
	nodes  map[string]Node
	open   ByFile[openFile]
}

type openFile struct {
	File
	mu   sync.Mutex
	stat Stat
}

// NewFiles returns a handler for no path yet. ioctls are conditions on the
// arguments of ioctl(2), of which one must hold for it to be trapped: a
// device's requests, by their type for example.
func NewFiles(ioctls ...Cond) *Files {
	return &Files{ioctls: ioctls, nodes: map[string]Node{}}
}

// Add serves path, which must be absolute and clean, from now on. It must not
// be called after Start.
func (f *Files) Add(path string, n Node) { f.nodes[path] = n }

// ServeWrites has Writers served. It must not be called after Start.
func (f *Files) ServeWrites() { f.writes = true }

// ServeReads has Readers served, too. It must not be called after Start.
func (f *Files) ServeReads() { f.writes, f.reads = true, true }

// Adopt serves a file that was opened elsewhere, until Forget.
func (f *Files) Adopt(id FileID, file File, st Stat) {
	f.open.Put(id, &openFile{File: file, stat: st})
}

// Forget serves an open file no more.
func (f *Files) Forget(id FileID) { f.open.Take(id) }

// Rules implements Handler.
func (f *Files) Rules() []Rule {
	rules := append(PathRules(), Rule{Nr: unix.SYS_FSTAT})
	for _, c := range f.ioctls {
		rules = append(rules, Rule{Nr: unix.SYS_IOCTL, When: []Cond{c}})
	}
	if f.writes {
		rules = append(rules, writeRules()...)
	}
	if f.reads {
		rules = append(rules, Rule{Nr: unix.SYS_READ, When: []Cond{Reserved().Cond(0)}})
	}
	return rules
}

// Serve implements Handler.
func (f *Files) Serve(c *Call) Answer {
	if p, ok, err := c.PathCall(); err != nil {
		return Pass() // the kernel says it better
	} else if ok {
		return f.servePath(c, p)
	}
	switch c.Nr() {
	case unix.SYS_FSTAT:
		if o := f.open.Find(c, c.Int(0)); o != nil {
			return o.stat.write(c, c.Arg(1))
		}
	case unix.SYS_IOCTL:
		if o := f.open.Find(c, c.Int(0)); o != nil {
			o.mu.Lock()
			defer o.mu.Unlock()
			return o.Ioctl(c, uint32(c.Arg(1)), c.Arg(2))
		}
	case unix.SYS_WRITE:
		if o := f.open.Find(c, c.Int(0)); o != nil {
			if w, ok := o.File.(Writer); ok {
				o.mu.Lock()
				defer o.mu.Unlock()
				return w.Write(c, c.Arg(1), c.Arg(2))
			}
		}
	case unix.SYS_READ:
		if o := f.open.Find(c, c.Int(0)); o != nil {
			if r, ok := o.File.(Reader); ok {
				o.mu.Lock()
				defer o.mu.Unlock()
				return r.Read(c, c.Arg(1), c.Arg(2))
			}
		}
	case unix.SYS_DUP, unix.SYS_FCNTL:
		if o := f.open.Find(c, c.Int(0)); o != nil {
			return c.dup()
		}
	}
	return Pass()
}

// Lookup finds the served file behind a descriptor of the caller.
func (f *Files) Lookup(c *Call, fd int) (File, bool) {
	o := f.open.Find(c, fd)
	if o == nil {
		return nil, false
	}
	return o.File, true
}

func (f *Files) servePath(c *Call, p PathCall) Answer {
	if (p.Kind == StatPath || p.Kind == StatxPath) && p.Flags&unix.AT_EMPTY_PATH != 0 {
		if o := f.open.Find(c, p.Dir); o != nil && emptyPath(c, p.Path) {
			return o.stat.answer(c, p)
		}
		return Pass()
	}
	name, err := c.Path(p.Dir, p.Path)
	if err != nil {
		return Pass() // the kernel says it better
	}
	n, ok := f.nodes[name]
	if !ok {
		return Pass()
	}
	switch p.Kind {
	case OpenPath:
		return f.openNode(c, n, int(p.Arg))
	case AccessPath:
		if p.Arg&unix.X_OK != 0 {
			return Fail(unix.EACCES)
		}
		return Return(0)
	case ReadlinkPath:
		return Fail(unix.EINVAL)
	case XattrPath:
		return Fail(unix.EOPNOTSUPP)
	}
	return n.Stat().answer(c, p)
}

// emptyPath tells whether the path is empty, which AT_EMPTY_PATH allows and
// does not demand.
func emptyPath(c *Call, addr uint64) bool {
	if addr == 0 {
		return true
	}
	name, err := c.Text(addr)
	return err == nil && name == ""
}

func (f *Files) openNode(c *Call, n Node, flags int) Answer {
	switch {
	case flags&(unix.O_CREAT|unix.O_EXCL) == unix.O_CREAT|unix.O_EXCL:
		return Fail(unix.EEXIST)
	case flags&unix.O_DIRECTORY != 0:
		return Fail(unix.ENOTDIR)
	}
	if s, ok := n.(OpenServer); ok {
		return s.ServeOpen(c, flags)
	}
	file, err := n.Open(flags)
	if err != nil {
		return Fail(err)
	}
	return f.Give(file, n.Stat(), flags)
}

// Give answers the call with a new descriptor for a file, which is served from now on.
// Of flags, O_CLOEXEC is used.
func (f *Files) Give(file File, st Stat, flags int) Answer {
	fd, held := file.Descriptor()
	answer := Install(fd, flags)
	if _, ok := file.(Writer); ok {
		answer = InstallReserved(fd, flags)
	}
	var own, other unix.Stat_t
	if err := errors.Join(unix.Fstat(fd, &own), unix.Fstat(held, &other)); err != nil {
		unix.Close(fd)
		file.Release()
		return Fail(unix.EIO)
	}
	id := FileID{own.Dev, own.Ino}
	f.Adopt(id, file, st)
	if other.Mode&unix.S_IFMT != unix.S_IFREG {
		go f.releaseAfter(held, id) // it has fd until the caller has it
		return answer
	}
	if _, err := Watch(held, func() { f.release(id) }); err != nil {
		unix.Close(fd)
		f.release(id)
		return Fail(unix.EMFILE)
	}
	return answer
}

// releaseAfter waits until no process has the descriptor any more.
func (f *Files) releaseAfter(held int, id FileID) {
	p := []unix.PollFd{{Fd: int32(held)}}
	for {
		if _, err := unix.Poll(p, -1); err != unix.EINTR {
			break
		}
	}
	f.release(id)
}

func (f *Files) release(id FileID) {
	o := f.open.Take(id)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.Release()
}

// nodeIno and nodeDev are the inode of a served file as stat shows it: of no
// real file system.
const nodeIno, nodeDev = 1, 0xfffff

func (s Stat) answer(c *Call, p PathCall) Answer {
	if p.Kind == StatxPath {
		return s.writeStatx(c, p.Arg)
	}
	return s.write(c, p.Arg)
}

func (s Stat) write(c *Call, addr uint64) Answer {
	st := unix.Stat_t{Dev: nodeDev, Ino: nodeIno, Nlink: 1, Mode: s.Mode, Rdev: s.Rdev, Blksize: 4096}
	return Result(0, Put(c, addr, &st))
}

func (s Stat) writeStatx(c *Call, addr uint64) Answer {
	st := unix.Statx_t{Mask: unix.STATX_BASIC_STATS, Blksize: 4096, Nlink: 1, Mode: uint16(s.Mode), Ino: nodeIno,
		Rdev_major: unix.Major(s.Rdev), Rdev_minor: unix.Minor(s.Rdev), Dev_major: unix.Major(nodeDev),
		Dev_minor: unix.Minor(nodeDev)}
	return Result(0, Put(c, addr, &st))
}

// Pipe is the simplest descriptor of a served file: the program holds its
// read end, where it reads and polls what Put gives it.
type Pipe struct{ r, w int }

// NewPipe makes a pipe; of flags, O_NONBLOCK is used.
func NewPipe(flags int) (*Pipe, error) { return newPipe(flags, 0) }

// NewPackets is NewPipe for a program that gets one record of each read(2).
func NewPackets(flags int) (*Pipe, error) { return newPipe(flags, unix.O_DIRECT) }

func newPipe(flags, mode int) (*Pipe, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK|mode); err != nil {
		return nil, err
	}
	_ = unix.SetNonblock(p[0], flags&unix.O_NONBLOCK != 0) // a pipe can
	return &Pipe{p[0], p[1]}, nil
}

// Descriptor is that of File.
func (p *Pipe) Descriptor() (fd, held int) { return p.r, p.w }

// Put gives the program a record of at most PIPE_BUF octets, whole or, if it
// has not read enough of the former ones, not at all: EAGAIN.
func (p *Pipe) Put(record []byte) error {
	_, err := unix.Write(p.w, record)
	return err
}

// Release closes our end.
func (p *Pipe) Release() { unix.Close(p.w) }

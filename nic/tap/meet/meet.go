// Package meet is how the two ends of a wire find each other at a stream socket. The
// end that comes first listens, and the other connects. An end that loses its peer waits
// for the next one. A Point never blocks: it does its work in Turn, when its descriptor
// polls readable.
package meet

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// retry is how long an end without a peer waits before it tries again.
const retry = 100 * time.Millisecond

// maxPath is the longest path of a Unix socket, in octets.
const maxPath = 107

// Role says which end listens.
type Role uint8

// The roles. Either is of Unix sockets alone.
const (
	Either Role = iota // listen if nobody else does
	Connect
	Listen
)

// Config says where the ends meet.
type Config struct {
	Path string         // of a Unix socket; empty: TCP at Addr
	Addr netip.AddrPort // of the end that listens
	Role Role
	From netip.Addr // a listener at TCP hears this address alone; the zero value: all
}

// Check finds what is wrong with c, in one line.
func (c Config) Check() error {
	switch {
	case len(c.Path) > maxPath:
		return fmt.Errorf("path %q: a Unix socket's has at most %d octets", c.Path, maxPath)
	case c.Path != "":
		return nil
	case !c.Addr.Addr().IsValid() || c.Addr.Port() == 0:
		return errors.New("expected a path with a slash, or an address and a port")
	case c.Role == Listen && !c.Addr.Addr().IsLoopback() && !c.From.IsValid():
		return fmt.Errorf("%v is open to strangers: name the peer's address", c.Addr)
	}
	return nil
}

// place finds why no socket can be at the path, whoever else comes.
func (c Config) place() error {
	if c.Path == "" {
		return nil
	}
	if info, err := os.Stat(filepath.Dir(c.Path)); err != nil || !info.IsDir() {
		return fmt.Errorf("there is no directory %s", filepath.Dir(c.Path))
	}
	if info, err := os.Lstat(c.Path); err == nil && info.Mode()&os.ModeSocket == 0 {
		return errors.New("this file is there already, and is no socket")
	}
	return nil
}

// Stats counts what happened at a Point.
type Stats struct {
	Joined  uint64 // peers that came
	Left    uint64 // peers that went
	Refused uint64 // strangers, and those who came while there was a peer
}

// Point is one end. It belongs to one goroutine.
type Point struct {
	cfg             Config
	epoll, timer    int
	listener, conn  int // -1: none
	connecting      bool
	accepted        bool // the peer connected to us
	device, inode   uint64
	stats           Stats
	wantsRoom, down bool
	paused          bool
	events          [4]unix.EpollEvent
}

// Open begins to look for the peer. An error is one line.
func Open(cfg Config) (*Point, error) {
	if err := errors.Join(cfg.Check(), cfg.place()); err != nil {
		return nil, err
	}
	p := &Point{cfg: cfg, timer: -1, listener: -1, conn: -1}
	var err error
	if p.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	p.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err == nil {
		err = p.watch(p.timer, unix.EPOLLIN|unix.EPOLLET)
	}
	if err == nil {
		p.setTimer(true)
		if err = p.seek(); absent(err) {
			err = nil
		}
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// absent tells that nobody is there yet.
func absent(err error) bool {
	for _, e := range []unix.Errno{unix.ECONNREFUSED, unix.ENOENT, unix.EAGAIN, unix.EADDRINUSE, unix.EEXIST,
		unix.ETIMEDOUT, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.ECONNRESET} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Fd polls readable when Turn has something to do.
func (p *Point) Fd() int { return p.epoll }

// Conn is the socket to the peer, -1 if there is none. The Point closes it.
func (p *Point) Conn() int {
	if p.connecting {
		return -1
	}
	return p.conn
}

// Pending reports whether a peer is about to be there.
func (p *Point) Pending() bool { return p.conn >= 0 }

// Accepted reports whether the peer connected to this end.
func (p *Point) Accepted() bool { return p.accepted }

// Stats returns the counts so far.
func (p *Point) Stats() Stats { return p.stats }

func (p *Point) watch(fd int, events uint32) error {
	return p.control(unix.EPOLL_CTL_ADD, fd, events)
}

func (p *Point) control(op, fd int, events uint32) error {
	if err := unix.EpollCtl(p.epoll, op, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)}); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	return nil
}

// WantRoom has Turn tell, by Ready, when the peer's socket has room again; or no more.
func (p *Point) WantRoom(yes bool) {
	if p.wantsRoom == yes || p.Conn() < 0 {
		return
	}
	p.wantsRoom = yes
	events := uint32(unix.EPOLLIN | unix.EPOLLRDHUP)
	if yes {
		events |= unix.EPOLLOUT
	}
	_ = p.control(unix.EPOLL_CTL_MOD, p.conn, events) // it is watched, and the arguments are good
}

func (p *Point) setTimer(on bool) {
	var spec unix.ItimerSpec
	if on {
		spec.Value = unix.NsecToTimespec(int64(retry))
	}
	_ = unix.TimerfdSettime(p.timer, 0, &spec, nil) // the arguments are good
}

// Pause lets go of the peer and looks for none, or looks for one again.
func (p *Point) Pause(on bool) {
	if p.paused == on || p.down {
		return
	}
	if p.paused = on; on {
		p.Drop()
		p.stopListening(true)
		p.setTimer(false)
		return
	}
	p.setTimer(true)
	_ = p.seek() // it is tried again
}

// Turn does what there is to do: peers come and go, which Conn and Stats tell. ready: the
// peer's socket may have something to read, or room. It never blocks.
func (p *Point) Turn() (ready bool) {
	n, err := unix.EpollWait(p.epoll, p.events[:], 0)
	if err != nil {
		return false
	}
	// The peer's end first: whoever takes its place may be waiting already.
	for _, ev := range p.events[:n] {
		if int(ev.Fd) == p.conn {
			ready = p.look(ev.Events)
		}
	}
	for _, ev := range p.events[:n] {
		switch int(ev.Fd) {
		case p.listener:
			p.accept()
		case p.timer:
			if p.conn < 0 && !p.paused {
				p.setTimer(true) // the kernel begins the next interval when it is asked
				_ = p.seek()
			}
		}
	}
	return ready
}

// look looks at what the peer's socket has.
func (p *Point) look(events uint32) (ready bool) {
	if p.connecting {
		n, err := unix.GetsockoptInt(p.conn, unix.SOL_SOCKET, unix.SO_ERROR)
		if err != nil || n != 0 || events&(unix.EPOLLERR|unix.EPOLLHUP) != 0 {
			p.drop()
			return false
		}
		p.connecting = false
		p.join(unix.EPOLL_CTL_MOD)
		return false
	}
	if events&(unix.EPOLLIN|unix.EPOLLOUT) == 0 {
		p.Drop()
		return false
	}
	return true
}

// Drop lets go of the peer, because its socket has ended or it misbehaves. The Point then
// looks for the next one.
func (p *Point) Drop() {
	if p.Conn() >= 0 {
		p.stats.Left++
	}
	p.drop()
}

func (p *Point) drop() {
	if p.conn < 0 {
		return
	}
	_ = unix.Close(p.conn)
	p.conn, p.connecting, p.wantsRoom = -1, false, false
	p.setTimer(true)
}

// seek connects to the peer, or listens for it.
func (p *Point) seek() error {
	if p.listener >= 0 {
		if p.cfg.Path == "" || p.ours() {
			return nil
		}
		p.stopListening(false) // another end has taken the path over
	}
	if p.cfg.Role == Listen {
		return p.listen()
	}
	err := p.connect()
	if p.cfg.Role == Connect || err == nil {
		return err
	}
	if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ECONNREFUSED) {
		return err
	}
	return p.listen()
}

func (p *Point) socket() (fd int, to unix.Sockaddr, err error) {
	family := unix.AF_UNIX
	switch a := p.cfg.Addr; {
	case p.cfg.Path != "":
		to = &unix.SockaddrUnix{Name: p.cfg.Path}
	case a.Addr().Is4():
		family, to = unix.AF_INET, &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	default:
		family, to = unix.AF_INET6, &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
	}
	if fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0); err != nil {
		return -1, nil, fmt.Errorf("socket: %w", err)
	}
	return fd, to, nil
}

// where names the place.
func (p *Point) where() string { return cmp.Or(p.cfg.Path, p.cfg.Addr.String()) }

func (p *Point) connect() error {
	fd, to, err := p.socket()
	if err != nil {
		return err
	}
	err = unix.Connect(fd, to)
	if err != nil && err != unix.EINPROGRESS {
		_ = unix.Close(fd)
		return fmt.Errorf("connect to %s: %w", p.where(), err)
	}
	p.conn, p.connecting, p.accepted = fd, err != nil, false
	if p.connecting {
		return p.watch(fd, unix.EPOLLOUT)
	}
	p.join(unix.EPOLL_CTL_ADD)
	return nil
}

func (p *Point) listen() error {
	fd, at, err := p.socket()
	if err != nil {
		return err
	}
	if p.cfg.Path == "" {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	} else {
		err = unix.Fchmod(fd, 0o600) // of the file that bind makes
		p.removeStale()
	}
	if err == nil {
		err = unix.Bind(fd, at)
	}
	if err == nil {
		err = unix.Listen(fd, 4)
	}
	if err == nil {
		err = p.watch(fd, unix.EPOLLIN)
	}
	if err != nil {
		_ = unix.Close(fd)
		return fmt.Errorf("listen at %s: %w", p.where(), err)
	}
	p.listener = fd
	p.device, p.inode = p.identity()
	return nil
}

// removeStale removes a socket at which nobody listens, and nothing else.
func (p *Point) removeStale() {
	info, err := os.Lstat(p.cfg.Path)
	if err != nil || info.Mode()&os.ModeSocket == 0 {
		return
	}
	fd, to, err := p.socket()
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if unix.Connect(fd, to) == unix.ECONNREFUSED {
		_ = os.Remove(p.cfg.Path) // bind tells
	}
}

// identity is that of the file at the path.
func (p *Point) identity() (device, inode uint64) {
	var st unix.Stat_t
	if p.cfg.Path == "" || unix.Lstat(p.cfg.Path, &st) != nil {
		return 0, 0
	}
	return uint64(st.Dev), st.Ino
}

// ours reports whether the file at the path is still the socket of this end.
func (p *Point) ours() bool {
	device, inode := p.identity()
	return inode != 0 && device == p.device && inode == p.inode
}

func (p *Point) stopListening(remove bool) {
	if p.listener < 0 {
		return
	}
	if remove && p.ours() {
		_ = os.Remove(p.cfg.Path)
	}
	_ = unix.Close(p.listener)
	p.listener = -1
}

// accept takes in who came, unless there is a peer or it is a stranger.
func (p *Point) accept() {
	fd, from, err := unix.Accept4(p.listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	if err != nil {
		return
	}
	if p.conn >= 0 || !p.welcome(from) {
		_ = unix.Close(fd)
		p.stats.Refused++
		return
	}
	p.conn, p.accepted = fd, true
	p.join(unix.EPOLL_CTL_ADD)
}

func (p *Point) welcome(from unix.Sockaddr) bool {
	var a netip.Addr
	switch s := from.(type) {
	case *unix.SockaddrInet4:
		a = netip.AddrFrom4(s.Addr)
	case *unix.SockaddrInet6:
		a = netip.AddrFrom16(s.Addr).Unmap()
	default:
		return true
	}
	return !p.cfg.From.IsValid() || a == p.cfg.From
}

// join begins with a peer that is there.
func (p *Point) join(op int) {
	if p.cfg.Path != "" && !p.trusted() {
		p.stats.Refused++
		p.drop()
		return
	}
	if p.cfg.Path == "" {
		_ = unix.SetsockoptInt(p.conn, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1) // slower without
	}
	if p.control(op, p.conn, unix.EPOLLIN|unix.EPOLLRDHUP) != nil {
		p.drop()
		return
	}
	p.setTimer(false)
	p.stats.Joined++
}

// trusted reports whether the process behind a Unix socket is of this user or root.
func (p *Point) trusted() bool {
	cred, err := unix.GetsockoptUcred(p.conn, unix.SOL_SOCKET, unix.SO_PEERCRED)
	return err == nil && (cred.Uid == 0 || int(cred.Uid) == os.Geteuid())
}

// Close ends the search and removes the socket's file.
func (p *Point) Close() {
	if p.down {
		return
	}
	p.down = true
	p.drop()
	p.stopListening(true)
	if p.timer >= 0 {
		_ = unix.Close(p.timer)
	}
	_ = unix.Close(p.epoll)
}

// IsPath reports whether a text names a Unix socket: it has a slash.
func IsPath(text string) bool { return strings.Contains(text, "/") }

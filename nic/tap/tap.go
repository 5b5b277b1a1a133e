// Package tap opens Linux TAP queues and moves frames through them. A plain
// queue carries exactly the frames of the wire; a queue with virtio-net
// headers also carries partial checksums and 64 KiB TCP super-frames.
package tap

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"

	"github.com/songgao/water"
	"golang.org/x/sys/unix"

	"tapir/wire/frame"
	"tapir/wire/virtio"
)

// What a queue can answer. ErrAgain asks to wait until the descriptor polls
// ready; ErrOversize and ErrRefused concern the one frame; any other error
// ends the queue's life.
var (
	ErrAgain    = errors.New("tap: not ready")
	ErrOversize = errors.New("tap: the frame is longer than the buffer")
	ErrRefused  = errors.New("tap: the kernel refused the frame")
	ErrGone     = errors.New("the TAP was removed")
	ErrRemoved  = errors.New("the interface was removed")

	// ErrNoDriver says that this host or container has no /dev/net/tun.
	ErrNoDriver = errors.New("no /dev/net/tun: load the driver with `modprobe tun`; " +
		"a container needs `--device /dev/net/tun --cap-add NET_ADMIN`")
)

// Queue is one queue of a TAP, or what stands in for it. It belongs to one
// goroutine.
type Queue interface {
	// Fd is the descriptor to poll: POLLIN before Read, POLLOUT before Write.
	Fd() int
	// Read fills f, which must be empty, with the next frame from the kernel
	// side. It never blocks; see the package's errors.
	Read(f *frame.Frame) error
	// Write sends f, borrowed, to the kernel side. After ErrAgain the same
	// frame must be written next.
	Write(f *frame.Frame) error
	// Close gives the queue back. A TAP that this process created disappears
	// with its last queue.
	Close() error
	// Name is the name of the network interface.
	Name() string
	// Vnet reports whether frames may carry a frame.Offload.
	Vnet() bool
}

// Buffered is a Queue that may hold frames while its descriptor does not poll ready.
type Buffered interface {
	// Buffered reports whether Read has such a frame.
	Buffered() bool
}

// Batcher is a Queue that can hold long frames back, so that one system call sends several.
type Batcher interface {
	// Batch has Write hold frames back from now on, until Flush or a short frame.
	Batch()
	// Flush sends what Write holds back. After ErrAgain it goes on where it was.
	Flush() error
}

// Sleeper is a Queue whose descriptor polls readable only for those who said that they
// sleep, and stands for reading and writing alike.
type Sleeper interface {
	// Ready reports whether Read or, with write, the Write that answered ErrAgain may have
	// success now. sleep: if not, the descriptor polls readable as soon as that changes.
	Ready(sleep, write bool) bool
}

// Ring is a Queue in memory that the other end writes: Buffered tells of its next frame
// without a system call.
type Ring interface {
	Buffered
	// InMemory does nothing.
	InMemory()
}

// Wire is a Queue whose other end another process has, without an interface of the kernel.
type Wire interface {
	Queue
	// MTU is the longest IP packet, in octets, that the way to the other end takes; 0: any.
	MTU() int
	// Counters are what the wire counts.
	Counters() []Counter
}

// Counter is something that a Wire counts.
type Counter struct {
	Name  string `json:"name"`
	Value uint64 `json:"value"`
}

// Plugged is a Wire with a link state: whether the other end is there.
type Plugged interface {
	// OnCarrier has fn called, on the thread that uses the wire, when the other end comes
	// or goes, and returns whether it is there or about to be.
	OnCarrier(fn func(up bool)) (expected bool)
}

// Carrier is a Queue that can pull its end out, which the other end notices, and plug it in again.
type Carrier interface {
	// SetCarrier belongs to the thread that uses the queue.
	SetCarrier(on bool) error
}

// Config says which TAP to open and how.
type Config struct {
	// Name of the TAP to make or find, at most 15 octets. Empty lets the
	// kernel choose a name.
	Name string
	// FD is a ready TAP descriptor, taken over (0 = none). Its name and flags
	// are read from the kernel.
	FD int
	// Vnet asks for virtio-net headers with checksum and TCP segmentation
	// offload in both directions.
	Vnet bool
	// MultiQueue makes a TAP to which AddQueue can add queues.
	MultiQueue bool
}

// TAP is a Queue of a kernel TAP.
type TAP struct {
	fd      int
	name    string
	renamed atomic.Pointer[string]
	vnet    bool
	uso     bool // the kernel takes super-frames of UDP
	multi   bool // multi_queue
	created bool
	sent    int // segments of the frame in hand that are out already
	split   virtio.Splitter
}

// Open opens a TAP queue in the network namespace of the calling thread. An
// error is one line that says what to do.
func Open(cfg Config) (*TAP, error) {
	if cfg.FD > 0 {
		return adopt(cfg)
	}
	if err := CheckName(cfg.Name); err != nil {
		return nil, err
	}
	found := exists(cfg.Name)
	t, err := open(cfg, found, cfg.MultiQueue)
	if found && errors.Is(err, unix.EINVAL) {
		t, err = open(cfg, found, !cfg.MultiQueue) // a TAP stays as it was made
	}
	if err != nil {
		return nil, explain(cfg.Name, err)
	}
	t.created = !found
	return t, nil
}

// AddQueue opens one more queue of t, in the network namespace of the calling
// thread. The kernel spreads flows over the queues. It fails if t has not been
// made for several.
func (t *TAP) AddQueue() (*TAP, error) {
	if !t.multi {
		return nil, fmt.Errorf("TAP %s was made with one queue: delete it or make it with `ip tuntap add dev %s "+
			"mode tap multi_queue`", t.name, t.name)
	}
	q, err := open(Config{Name: t.Name(), Vnet: t.vnet}, !t.created, true)
	if err != nil {
		return nil, explain(t.name, err)
	}
	return q, nil
}

func open(cfg Config, found, multi bool) (t *TAP, err error) {
	if cfg.Vnet {
		t, err = openVnet(cfg.Name, multi)
	} else {
		t, err = openPlain(cfg.Name, found, multi)
	}
	if err != nil {
		return nil, err
	}
	t.multi = multi
	return t, nil
}

// CheckName reports whether name can be that of a network interface. Empty
// is allowed.
func CheckName(name string) error {
	if len(name) >= unix.IFNAMSIZ || name == "." || name == ".." || strings.ContainsAny(name, "/: \t\n%") {
		return fmt.Errorf("TAP name %q: expected at most %d characters, without space, slash, colon or percent sign",
			name, unix.IFNAMSIZ-1)
	}
	return nil
}

func exists(name string) bool {
	if name == "" {
		return false
	}
	_, err := net.InterfaceByName(name)
	return err == nil
}

// openPlain goes through water. A TAP that is found was made persistent by
// someone and must stay so: water clears the mark unless asked not to.
func openPlain(name string, found, multi bool) (*TAP, error) {
	w, err := water.New(water.Config{DeviceType: water.TAP, PlatformSpecificParams: water.PlatformSpecificParams{
		Name: name, Persist: found, MultiQueue: multi,
	}})
	if err != nil {
		return nil, err
	}
	defer w.Close()
	fd, err := duplicate(w.ReadWriteCloser.(*os.File))
	if err != nil {
		return nil, err
	}
	if err := setOffload(fd, 0); err != nil { // a found TAP remembers its last holder's
		unix.Close(fd)
		return nil, err
	}
	return &TAP{fd: fd, name: w.Name()}, nil
}

// duplicate takes a descriptor of file's open description out of the reach of
// Go's own poller, which would be woken by every frame.
func duplicate(file *os.File) (fd int, err error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return -1, err
	}
	ctlErr := raw.Control(func(f uintptr) {
		fd, err = unix.FcntlInt(f, unix.F_DUPFD_CLOEXEC, 3)
	})
	return fd, errors.Join(ctlErr, err)
}

func openVnet(name string, multi bool) (*TAP, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	uso := false
	flags := uint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	if multi {
		flags |= unix.IFF_MULTI_QUEUE
	}
	ifr, err := unix.NewIfreq(name)
	if err == nil {
		ifr.SetUint16(flags)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr)
	}
	if err == nil {
		uso, err = setVnet(fd, true)
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &TAP{fd: fd, name: ifr.Name(), vnet: true, uso: uso}, nil
}

// setVnet fixes the header's length and says what the kernel may leave to us; uso: super-frames of
// UDP, too, in both directions.
func setVnet(fd int, offload bool) (uso bool, err error) {
	if err := unix.IoctlSetPointerInt(fd, unix.TUNSETVNETHDRSZ, virtio.HeaderLen); err != nil {
		return false, fmt.Errorf("TUNSETVNETHDRSZ: %w", err)
	}
	flags := 0
	if offload {
		flags = unix.TUN_F_CSUM | unix.TUN_F_TSO4 | unix.TUN_F_TSO6
		// Super-frames of UDP come with Linux 6.2; before, the kernel cuts them.
		if setOffload(fd, flags|unix.TUN_F_USO4|unix.TUN_F_USO6) == nil {
			return true, nil
		}
	}
	return false, setOffload(fd, flags)
}

func setOffload(fd, flags int) error {
	if err := unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, flags); err != nil {
		return fmt.Errorf("TUNSETOFFLOAD: %w", err)
	}
	return nil
}

// adopt takes over a descriptor that someone else opened.
func adopt(cfg Config) (*TAP, error) {
	ifr, err := unix.NewIfreq("")
	if err != nil {
		return nil, err
	}
	if err := unix.IoctlIfreq(cfg.FD, unix.TUNGETIFF, ifr); err != nil {
		return nil, fmt.Errorf("file descriptor %d is not an attached TAP queue: open /dev/net/tun, attach it with "+
			"TUNSETIFF and let the NIC inherit it: %w", cfg.FD, err)
	}
	name, flags := ifr.Name(), ifr.Uint16()
	if flags&unix.IFF_TAP == 0 || flags&unix.IFF_NO_PI == 0 {
		return nil, fmt.Errorf("file descriptor %d (%s): expected a TAP opened with IFF_TAP and IFF_NO_PI", cfg.FD,
			name)
	}
	if cfg.Name != "" && cfg.Name != name {
		return nil, fmt.Errorf("file descriptor %d belongs to %s, not to %s", cfg.FD, name, cfg.Name)
	}
	t := &TAP{fd: cfg.FD, name: name, vnet: flags&unix.IFF_VNET_HDR != 0}
	if cfg.Vnet && !t.vnet {
		return nil, fmt.Errorf("file descriptor %d (%s) was opened without IFF_VNET_HDR: use `frames: wire` or open "+
			"it with that flag", cfg.FD, name)
	}
	if t.vnet {
		t.uso, err = setVnet(t.fd, cfg.Vnet)
	} else {
		err = setOffload(t.fd, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := unix.SetNonblock(t.fd, true); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	unix.CloseOnExec(t.fd)
	return t, nil
}

// Fd is the descriptor to poll.
func (t *TAP) Fd() int { return t.fd }

// Name is the interface's name, as far as Rename was told.
func (t *TAP) Name() string {
	if name := t.renamed.Load(); name != nil {
		return *name
	}
	return t.name
}

// Rename notes that somebody has given the interface another name.
func (t *TAP) Rename(name string) { t.renamed.Store(&name) }

// Vnet reports whether frames may carry an offload.
func (t *TAP) Vnet() bool { return t.vnet }

// Created reports whether Open made the TAP, rather than finding it.
func (t *TAP) Created() bool { return t.created }

// SetCarrier says whether the kernel sees a carrier on the TAP; a new one has
// it.
func (t *TAP) SetCarrier(on bool) error {
	v := 0
	if on {
		v = 1
	}
	if err := unix.IoctlSetPointerInt(t.fd, unix.TUNSETCARRIER, v); err != nil {
		return fmt.Errorf("%s: TUNSETCARRIER: %w", t.name, err)
	}
	return nil
}

// Moved returns the name that the interface has now and the network namespace that it is in,
// which the caller closes: it may have been moved and renamed there.
func (t *TAP) Moved() (name string, ns *os.File, err error) {
	ifr, err := unix.NewIfreq("")
	if err == nil {
		err = unix.IoctlIfreq(t.fd, unix.TUNGETIFF, ifr)
	}
	if err != nil {
		return "", nil, fmt.Errorf("%s: TUNGETIFF: %w", t.name, err)
	}
	fd, err := unix.IoctlRetInt(t.fd, unix.TUNGETDEVNETNS)
	if err != nil {
		return "", nil, fmt.Errorf("%s: TUNGETDEVNETNS: %w", t.name, err)
	}
	return ifr.Name(), os.NewFile(uintptr(fd), "netns"), nil
}

// Close closes the queue; a TAP that Open made goes with it.
func (t *TAP) Close() error {
	if t.fd < 0 {
		return nil
	}
	fd := t.fd
	t.fd = -1
	return unix.Close(fd)
}

package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"tapir/lab/conf/nicconf"
	"tapir/lab/host/link"
	"tapir/lab/host/peer"
	"tapir/lab/node"
	"tapir/lab/node/nicnode"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/script"
	"tapir/lab/tool/serve"
	"tapir/lab/tool/uapi"
	"tapir/nic"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// NICs is where scripts run against NICs of this process, in real time and without privileges:
// each has a NIC of its own on a wire in memory, whose other end the script plays. The
// application is the same program as in a guest, under tapir run.
type NICs struct {
	lanes   int
	via     uapi.Options // how the program reaches the NIC
	program string
	runs    atomic.Int32
}

// NewNICs compiles the program if that has not been done; up to lanes scripts run at a time.
func NewNICs(ctx context.Context, lanes int, via uapi.Options) (*NICs, error) {
	program, err := peer.Application(ctx)
	return &NICs{lanes: lanes, via: via, program: program}, err
}

// Run runs the scripts, each lane one at a time. An error says that a NIC or the program does
// not answer any more; then results are missing.
func (w *NICs) Run(ctx context.Context, scripts []*script.Script, trace bool, done func(Result)) error {
	return inLanes(ctx, w.lanes, applicable(scripts, script.NIC, done), trace, done,
		func(_ int, s *script.Script, to io.Writer) (script.Outcome, error) { return w.run(ctx, s, to) })
}

// station is the Ethernet address of the peer.
var station = ether.Addr{2, 0, 0, 0, 0, 2}

// run runs one script.
func (w *NICs) run(ctx context.Context, s *script.Script, trace io.Writer) (out script.Outcome, err error) {
	cfg := configOf(s.NIC())
	cfg.Name = fmt.Sprintf("script-%d-%d", os.Getpid(), w.runs.Add(1))
	near, far, err := link.NewWire(cfg.Name, "peer", false)
	if err != nil {
		return out, err
	}
	control, err := ctl.Listen(cfg.Name, "")
	if err != nil {
		return out, errors.Join(err, near.Close(), far.Close())
	}
	defer control.Close()
	n, err := serve.StartNIC(ctx, &serve.Options{}, cfg, node.Env{Wire: near}, nicnode.NewPrograms())
	if err != nil {
		return out, errors.Join(err, far.Close())
	}
	control.Serve(n.Served(func() {}))
	defer func() { err = errors.Join(err, n.Close()) }()
	end, err := newPlug(far)
	if err != nil {
		return out, errors.Join(err, far.Close())
	}
	defer end.close()
	c := script.Cable{Frames: end.frames, Send: end.send, Station: station, Local: s.NIC().Addrs[0].Addr(),
		Remote: s.Remote(), Port: s.Port(), First: script.FirstPort,
		Inside: func(look func(*nic.Device)) error { return n.DoWait(func(frame.Time) { look(n.Device) }) }}
	if err := c.Inside(func(dev *nic.Device) { c.MAC = dev.Config().MAC }); err != nil {
		return out, err
	}
	agent, theirs, err := socketPair()
	if err != nil {
		return out, err
	}
	c.Agent = agent
	said := &said{}
	var program sync.WaitGroup
	var ended error
	program.Go(func() {
		defer theirs.Close()
		o := w.via
		o.NICs, o.Argv, o.Stdin, o.Stdout, o.Log = []string{cfg.Name}, []string{w.program, "-"}, theirs, theirs, said
		if s.RXE() {
			o.GID = uapi.IPGID
		}
		code, err := uapi.Run(ctx, o)
		if ended = err; err == nil && code != 0 {
			ended = fmt.Errorf("the program ended with exit code %d", code)
		}
	})
	out, err = s.RunLive(c, trace)
	program.Wait()
	if err = errors.Join(err, ended); err != nil && said.String() != "" {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(said.String()))
	}
	return out, err
}

// said is what tapir run says.
type said struct {
	mu sync.Mutex
	strings.Builder
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Builder.Write(p)
}

// configOf is the configuration of a NIC as tapir nic has it.
func configOf(n nic.Config) nicconf.Config {
	cfg := nicconf.Config{MTU: n.MTU, Seed: &n.Seed, NIC: n}
	for _, a := range n.Addrs {
		if a.Addr().Is4() {
			cfg.IP = append(cfg.IP, a)
		} else {
			cfg.IP6 = append(cfg.IP6, a)
		}
	}
	return cfg
}

// socketPair is a connection with the program: this end, and the program's standard input.
func socketPair() (net.Conn, *os.File, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "agent"), os.NewFile(uintptr(fds[1]), "program")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		theirs.Close()
	}
	return conn, theirs, err
}

// plug is the script's end of a wire in memory.
type plug struct {
	wire   *link.WireEnd
	ready  *os.File // readable while frames wait
	frames chan []byte
	over   sync.WaitGroup
}

// newPlug begins to read the wire, which it takes.
func newPlug(wire *link.WireEnd) (*plug, error) {
	fd, err := syscall.Dup(wire.Fd())
	if err != nil {
		return nil, err
	}
	p := &plug{wire: wire, ready: os.NewFile(uintptr(fd), wire.Name()), frames: make(chan []byte, 4096)}
	p.over.Go(p.read)
	return p, nil
}

func (p *plug) read() {
	defer close(p.frames)
	f := frame.New(make([]byte, frame.DefaultHeadroom+maxFrame), nil)
	for count := make([]byte, 8); ; {
		if _, err := p.ready.Read(count); err != nil {
			return
		}
		for f.Reset(); p.wire.Read(f) == nil; f.Reset() {
			select {
			case p.frames <- append([]byte(nil), f.Bytes()...):
			default: // nobody listens, and has not for long
			}
		}
	}
}

// send gives a frame, borrowed, to the NIC.
func (p *plug) send(b []byte) error {
	f := frame.New(make([]byte, frame.DefaultHeadroom+len(b)), nil)
	f.Append(b)
	return p.wire.Write(f)
}

func (p *plug) close() {
	p.ready.Close()
	p.over.Wait()
	p.wire.Close()
}

package peer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"tapir/lab/conf"
	"tapir/lab/host/link"
	"tapir/lab/host/netns"
	"tapir/nic/tap"
)

// Defaults and limits of a guest.
const (
	DefaultLife   = 15 * time.Minute
	defaultMemory = 512 // MiB
	standardMTU   = 1500

	channels  = 4               // commands that run at a time
	bootsIn   = 8 * time.Minute // on a machine without KVM that has other work too; one that dies is noticed at once
	setsIn    = time.Minute     // likewise
	diesIn    = 5 * time.Second
	extraFile = 3 // number of the first of exec.Cmd's ExtraFiles in the child

	imageFiles = 2 // kernel and initrd come before the TAPs
)

// Config describes a guest.
type Config struct {
	Name   string // default "peer"
	Bridge string // that the guest's TAP joins
	// Stream is the path of a Unix socket in place of a bridge: the other end is a NIC on
	// the wire stream:PATH, and the guest needs neither a TAP nor a right.
	Stream string
	More   []string       // bridges of further interfaces eth1, eth2, ..., which have no address and are down
	IP     []netip.Prefix // of the guest, IPv4 and IPv6
	MTU    int            // octets of IP; 0: that of the bridge
	// Siw are parameters of the siw driver, such as "peer_to_peer=1". Without
	// any, the driver is the stock one, which has none.
	Siw    []string
	Memory int // MiB; 0: 512
	// KVM runs the guest on the processor. Without it the guest is emulated:
	// an order of magnitude slower, but also inside machines that only seem to
	// have KVM.
	KVM  bool
	Life time.Duration // after which the guest ends in any case; 0: 15 minutes
	// Dir is a directory for the sockets of the guest, made and removed; empty:
	// a temporary one. Open finds the guest by it.
	Dir string
	// NS is the namespace of the bridge, borrowed; nil: that of the caller.
	NS *netns.NS
}

func (c Config) withDefaults() Config {
	if c.Name == "" {
		c.Name = "peer"
	}
	if c.Memory == 0 {
		c.Memory = defaultMemory
	}
	if c.Life == 0 {
		c.Life = DefaultLife
	}
	return c
}

func (c *Config) validate() error {
	switch {
	case (c.Bridge == "") == (c.Stream == ""):
		return errors.New("guest: the bridge to join, or the path of a stream wire, is missing")
	case c.Stream != "" && strings.ContainsAny(c.Stream, ",\n"):
		return fmt.Errorf("guest: path %q: QEMU takes none with a comma", c.Stream)
	case len(c.IP) == 0:
		return errors.New("guest: an address is missing")
	case c.MTU != 0 && (c.MTU < 576 || c.MTU > 65535):
		return fmt.Errorf("guest: MTU %d: want 576 to 65535", c.MTU)
	case c.Life < time.Second:
		return fmt.Errorf("guest: life %v: want at least a second", c.Life)
	}
	for _, p := range c.Siw {
		if err := conf.ModuleParameter(p); err != nil {
			return fmt.Errorf("guest: siw parameter %w", err)
		}
	}
	return nil
}

// Guest is a running guest. Its methods may be called from any goroutine.
type Guest struct {
	Handle
	Image Image
	TAP   string // a port of the bridge

	cfg     Config
	cmd     *exec.Cmd
	life    net.Conn // the guest powers off when this closes
	ended   chan struct{}
	err     error // of QEMU, valid after ended
	madeDir bool
}

// Start starts a guest and returns when its siw device is there. ctx bounds
// the start only.
func Start(ctx context.Context, image Image, cfg Config) (*Guest, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	g := &Guest{Image: image, cfg: cfg, ended: make(chan struct{})}
	if err := g.makeDir(); err != nil {
		return nil, err
	}
	if err := g.boot(ctx); err != nil {
		tail := g.console()
		g.Stop()
		return nil, fmt.Errorf("guest %s: %w%s", cfg.Name, err, tail)
	}
	return g, nil
}

func (g *Guest) makeDir() (err error) {
	if g.cfg.Dir == "" {
		g.cfg.Dir, err = os.MkdirTemp("", "tapir-peer")
	} else {
		err = os.Mkdir(g.cfg.Dir, 0o700)
	}
	g.madeDir = err == nil
	g.Handle = Handle{dir: g.cfg.Dir}
	return err
}

func (g *Guest) path(name string) string { return filepath.Join(g.cfg.Dir, name) }

func (g *Guest) boot(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, bootsIn)
	defer cancel()
	var wires []*os.File
	defer func() {
		for _, w := range wires {
			w.Close()
		}
	}()
	if g.cfg.Stream != "" {
		g.cfg.MTU = cmp.Or(g.cfg.MTU, standardMTU)
	}
	for _, bridge := range g.bridges() {
		wire, err := g.wire(bridge)
		if err != nil {
			return err
		}
		wires = append(wires, wire)
	}
	err := g.launch(wires)
	if err != nil {
		return err
	}
	if g.life, err = g.attach(ctx, "life.sock"); err != nil {
		return err
	}
	ctx, cancel = context.WithCancel(ctx)
	defer cancel()
	go func() { // no need to wait for a guest that has died
		select {
		case <-g.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	var said strings.Builder
	_, err = g.Run(ctx, bootsIn, "while [ ! -e /run/ready ]; do sleep 0.1; done; cat /run/ready", &said)
	switch {
	case g.over():
		return fmt.Errorf("QEMU ended: %v", g.err)
	case err != nil:
		return fmt.Errorf("not up in %v: %w", bootsIn, err)
	case !strings.Contains(said.String(), "siw0"):
		return fmt.Errorf("no siw device: %s", oneLine(said.String()))
	}
	return nil
}

// bridges are those that have a TAP of the guest.
func (g *Guest) bridges() []string {
	if g.cfg.Stream != "" {
		return nil
	}
	return append([]string{g.cfg.Bridge}, g.cfg.More...)
}

// wire makes a TAP of the guest a port of the bridge and returns its descriptor:
// the TAP goes when QEMU does.
func (g *Guest) wire(bridge string) (*os.File, error) {
	ns := g.cfg.NS
	if ns == nil {
		here, err := netns.Current()
		if err != nil {
			return nil, err
		}
		defer here.Close()
		ns = here
	}
	links, err := link.In(ns)
	if err != nil {
		return nil, err
	}
	defer links.Close()
	mtu, err := links.MTU(bridge)
	if err != nil {
		return nil, err
	}
	if g.cfg.MTU == 0 {
		g.cfg.MTU = mtu
	}
	t, err := links.OpenTAP(tap.Config{})
	if err != nil {
		return nil, err
	}
	defer t.Close()
	if g.TAP == "" {
		g.TAP = t.Name()
	}
	fd, err := unix.FcntlInt(uintptr(t.Fd()), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), t.Name())
	if err := errors.Join(links.SetMTU(t.Name(), g.cfg.MTU), links.Join(t.Name(), bridge), links.Up(t.Name())); err !=
		nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// launch starts QEMU under a limit of time that holds whatever becomes of us.
func (g *Guest) launch(wires []*os.File) error {
	limit := fmt.Sprint(int((g.cfg.Life + bootsIn).Seconds()))
	g.cmd = exec.Command("timeout", append([]string{"-s", "KILL", limit, "qemu-system-x86_64"}, g.arguments()...)...)
	g.cmd.ExtraFiles = append([]*os.File{g.Image.Kernel, g.Image.Initrd}, wires...)
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log, err := os.Create(g.path("qemu.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	g.cmd.Stdout, g.cmd.Stderr = log, log
	if err := g.cmd.Start(); err != nil {
		return fmt.Errorf("%w: apt-get install -y qemu-system-x86", err)
	}
	go func() {
		g.err = g.cmd.Wait()
		close(g.ended)
	}()
	return nil
}

func (g *Guest) arguments() []string {
	words := []string{
		"console=ttyS0 quiet loglevel=4 panic=-1 oops=panic no_timer_check mitigations=off nokaslr net.ifnames=0",
		fmt.Sprintf("peer.ip=%s peer.mtu=%d peer.life=%d", joinPrefixes(g.cfg.IP), g.cfg.MTU,
			int(g.cfg.Life.Seconds())),
	}
	if len(g.cfg.Siw) > 0 {
		words = append(words, "peer.siw="+strings.Join(g.cfg.Siw, ","))
	}
	// Without offloads what a capture on the bridge shows is what was sent.
	off := ""
	for _, f := range []string{"csum", "gso", "guest_csum", "guest_tso4", "guest_tso6", "guest_ecn", "guest_ufo",
		"host_tso4", "host_tso6", "host_ecn", "host_ufo"} {
		off += "," + f + "=off"
	}
	accel := "tcg,thread=multi"
	if g.cfg.KVM {
		accel = "kvm"
	}
	// For a machine that can have one processor alone, QEMU 7.2 leaves out the memory
	// barriers that its devices need: a queue of the network device can stop for ever.
	args := []string{
		"-smp", "1,maxcpus=2",
		"-nodefaults", "-no-reboot", "-display", "none", "-machine", "q35,i8042=off", "-m", fmt.Sprint(g.cfg.Memory),
		"-accel", accel, "-cpu", "max",
		"-kernel", inherited(0), "-initrd", inherited(1), "-append", strings.Join(words, " "),
		"-chardev", "file,id=console,path=" + g.path("console.log"), "-serial", "chardev:console",
		"-device", "virtio-serial-pci",
		"-object", "rng-random,id=random,filename=/dev/urandom", "-device", "virtio-rng-pci,rng=random",
	}
	for i := range max(1, len(g.bridges())) {
		wire := fmt.Sprintf("tap,id=wire%d,fd=%d", i, extraFile+imageFiles+i)
		if g.cfg.Stream != "" {
			wire = fmt.Sprintf("stream,id=wire%d,server=on,addr.type=unix,addr.path=%s", i, g.cfg.Stream)
		}
		args = append(args, "-netdev", wire,
			"-device", fmt.Sprintf("virtio-net-pci,netdev=wire%d,mac=%v,romfile=", i, g.mac(i))+off)
	}
	var ports []string
	for i := range channels {
		ports = append(ports, fmt.Sprint(i))
	}
	// QEMU makes the sockets in this order: once the last is there, all are.
	for _, p := range append(ports, "life") {
		args = append(args, "-chardev", fmt.Sprintf("socket,id=c%s,path=%s,server=on,wait=off", p, g.path(p+".sock")),
			"-device", fmt.Sprintf("virtserialport,chardev=c%s,name=peer.%s", p, p))
	}
	return args
}

// inherited is the name that QEMU has for one of the files that it inherits.
func inherited(i int) string { return fmt.Sprintf("/proc/self/fd/%d", extraFile+i) }

// mac is that of eth0, eth1, ...: it follows from the guest's first address, stable, and not that of another
// guest on the bridge.
func (g *Guest) mac(i int) net.HardwareAddr {
	a := g.cfg.IP[0].Addr().As16()
	return net.HardwareAddr{0x52, 0x54 + byte(i), a[12], a[13], a[14], a[15]}
}

func joinPrefixes(list []netip.Prefix) string {
	var s []string
	for _, p := range list {
		s = append(s, p.String())
	}
	return strings.Join(s, ",")
}

// MAC is the Ethernet address of the guest's interface.
func (g *Guest) MAC() net.HardwareAddr { return g.mac(0) }

// over tells whether QEMU has ended.
func (g *Guest) over() bool {
	select {
	case <-g.ended:
		return true
	default:
		return false
	}
}

// Ended is closed when the guest is gone.
func (g *Guest) Ended() <-chan struct{} { return g.ended }

// LoadSiw reloads the siw driver with other parameters, unless they are in force
// already; see Config.Siw.
func (g *Guest) LoadSiw(ctx context.Context, parameters ...string) error {
	if slices.Equal(g.cfg.Siw, parameters) {
		return nil
	}
	if err := g.must(ctx, "siw-load "+strings.Join(parameters, " ")); err != nil {
		return err
	}
	g.cfg.Siw = parameters
	return nil
}

// LoadRXE replaces siw by rxe, the kernel's software RoCEv2, as device rxe0. LoadSiw
// with other parameters brings siw back.
func (g *Guest) LoadRXE(ctx context.Context) error {
	if slices.Equal(g.cfg.Siw, []string{rxe}) {
		return nil
	}
	if err := g.must(ctx, "rxe-load"); err != nil {
		return err
	}
	g.cfg.Siw = []string{rxe}
	return nil
}

// rxe stands in Config.Siw for no siw at all.
const rxe = "(rxe)"

// SetMTU changes the MTU of the guest's interface if it is another one; the
// bridge stays the caller's. Below 1280 octets the kernel takes IPv6 addresses
// away, so they are given again.
func (g *Guest) SetMTU(ctx context.Context, mtu int) error {
	if g.cfg.MTU == mtu {
		return nil
	}
	command := fmt.Sprintf("ip link set eth0 mtu %d", mtu)
	for _, p := range g.cfg.IP {
		if p.Addr().Is6() && mtu >= 1280 {
			command += fmt.Sprintf(" && ip addr replace %v dev eth0 nodad", p)
		}
	}
	if err := g.must(ctx, command); err != nil {
		return err
	}
	g.cfg.MTU = mtu
	return nil
}

func (g *Guest) must(ctx context.Context, command string) error {
	var said strings.Builder
	code, err := g.Run(ctx, setsIn, command, &said)
	if err == nil && code != 0 {
		err = fmt.Errorf("exit code %d: %s", code, oneLine(said.String()))
	}
	if err != nil {
		return fmt.Errorf("guest %s: %s: %w", g.cfg.Name, command, err)
	}
	return nil
}

// Stop ends the guest and removes what Start made.
func (g *Guest) Stop() {
	if g.life != nil {
		g.life.Close()
	}
	if g.cmd != nil && g.cmd.Process != nil {
		_ = syscall.Kill(-g.cmd.Process.Pid, syscall.SIGTERM) // QEMU needs no shutdown of the guest
		select {
		case <-g.ended:
		case <-time.After(diesIn):
			_ = syscall.Kill(-g.cmd.Process.Pid, syscall.SIGKILL)
			<-g.ended
		}
	}
	if g.madeDir {
		os.RemoveAll(g.cfg.Dir)
	}
}

// console is the end of what QEMU and the kernel said, for an error.
func (g *Guest) console() string {
	s := ""
	for _, name := range []string{"qemu.log", "console.log"} {
		if b, err := os.ReadFile(g.path(name)); err == nil && len(b) > 0 {
			s += "; " + name + ": " + lastLines(b)
		}
	}
	return s
}

// Console is what the guest's kernel has said so far.
func (g *Guest) Console() (string, error) {
	b, err := os.ReadFile(g.path("console.log"))
	return string(b), err
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// attach connects to one of the guest's sockets as soon as QEMU has made it.
func (g *Guest) attach(ctx context.Context, name string) (net.Conn, error) {
	for {
		conn, err := net.Dial("unix", g.path(name))
		if err == nil {
			return conn, nil
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-g.ended:
			return nil, fmt.Errorf("QEMU ended: %v", g.err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

package siw

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tapir/lab/conf/nicconf"
	"tapir/lab/host/link"
	"tapir/lab/host/peer"
	"tapir/lab/host/process"
	"tapir/lab/node"
	"tapir/lab/node/nicnode"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/serve"
	"tapir/nic/tap"
	"tapir/wire/ether"
)

// The links and addresses of a World.
const (
	bridge = "br0"
	most   = 9000 // octets of IP
)

var (
	nic4   = netip.MustParsePrefix("10.78.0.1/24")
	nic6   = netip.MustParsePrefix("fd78::1/64")
	guest4 = netip.MustParsePrefix("10.78.0.2/24")
	guest6 = netip.MustParsePrefix("fd78::2/64")
)

// nicMAC is that of every cell's NIC: the guest remembers it.
var nicMAC = ether.Addr{2, 0, 0, 78, 0, 1}

// World is a namespace with a guest on a bridge; each cell adds its NIC.
type World struct {
	*link.Space
	Guest *peer.Guest
	Tapir string // the program, for cells with a stock program

	stream string // path of the socket at which guest and NIC meet; empty: the bridge joins them

	image peer.Image
	life  time.Duration
	dir   string // of captures
	port  uint16
}

// NewWorld makes the namespace and boots a guest, which lives for that long.
func NewWorld(ctx context.Context, image peer.Image, life time.Duration, stream bool) (w *World, err error) {
	w = &World{image: image, life: life, port: 7300}
	if err = w.build(ctx, stream); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

func (w *World) build(ctx context.Context, stream bool) (err error) {
	if w.dir, err = os.MkdirTemp("", "tapir-siw"); err != nil {
		return err
	}
	if stream {
		w.stream = filepath.Join(w.dir, "cable")
	}
	if w.Space, err = link.NewBridge(bridge, most); err != nil {
		return err
	}
	return w.boot(ctx)
}

func (w *World) boot(ctx context.Context) (err error) {
	at := bridge
	if w.stream != "" {
		at = ""
	}
	w.Guest, err = peer.Start(ctx, w.image, peer.Config{
		NS: w.NS, Bridge: at, Stream: w.stream, IP: []netip.Prefix{guest4, guest6}, Life: w.life,
		Dir: filepath.Join(w.dir, "guest"),
	})
	return err
}

// Reboot replaces a guest that has died or is beyond help.
func (w *World) Reboot(ctx context.Context) error {
	w.Guest.Stop()
	return w.boot(ctx)
}

// Close ends everything.
func (w *World) Close() {
	if w.Guest != nil {
		w.Guest.Stop()
	}
	w.Space.Close()
	os.RemoveAll(w.dir)
}

// patient are settings of every cell's NIC: a guest may stand still for longer
// than the defaults allow.
var patient = []string{"mpa_request_timeout=1m", "mpa_reply_timeout=1m", "close_timeout=1m", "send_first=1s"}

// startNIC puts the cell's NIC on the bridge.
func (w *World) startNIC(ctx context.Context, c *Cell, port uint16) (*nic, error) {
	// A name of its own: a program that is just being started may still hold
	// the TAP of the cell before.
	wire := fmt.Sprintf("nic%d", port)
	// tapir run finds it by its name, so no other NIC of the machine may have the same.
	name := fmt.Sprintf("siw%d-%d", os.Getpid(), port)
	cfg := nicconf.Config{Name: name, MAC: nicMAC, TAP: wire, IP: []netip.Prefix{nic4}, MTU: c.mtu()}
	if c.IPv6 {
		cfg.IP, cfg.IP6 = nil, []netip.Prefix{nic6}
	}
	if w.stream != "" {
		cfg.TAP, cfg.Wire = "", "stream:"+w.stream
	}
	settings := append(slices.Clone(patient), c.NIC...)
	if c.RoCE {
		settings = append(slices.Clone(c.NIC), "personality=roce", fmt.Sprintf("vlan_ip=%s=%v", vlan, nicVLAN))
	}
	for _, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		if err := cfg.Set(name, value); err != nil {
			return nil, err
		}
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	control, err := ctl.Listen(name, "")
	if err != nil {
		return nil, err
	}
	n := &nic{control: control}
	env := node.Env{NS: w.NS}
	if c.Cable != (link.Impairment{}) {
		cfg.TAP = ""
		if env.Wire, err = w.badCable(wire, c, uint64(port)); err != nil {
			control.Close()
			return nil, err
		}
	}
	if n.NIC, err = serve.StartNIC(ctx, &serve.Options{}, cfg, env, nicnode.NewPrograms()); err != nil {
		control.Close()
		return nil, err
	}
	control.Serve(n.Served(func() {}))
	if w.stream == "" {
		err = w.Net.Join(wire, bridge)
	}
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// badCable is a TAP behind what the cell wants to happen to its frames.
func (w *World) badCable(name string, c *Cell, seed uint64) (tap.Queue, error) {
	t, err := w.Net.OpenTAP(tap.Config{Name: name})
	if err != nil {
		return nil, err
	}
	q, err := link.Impair(t, c.Cable, c.Cable, seed)
	if err == nil {
		err = errors.Join(w.Net.SetMTU(name, c.mtu()), w.Net.Up(name))
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	return q, nil
}

// nic is the NIC of a cell with its sockets.
type nic struct {
	*serve.NIC
	control *ctl.Server
}

// Close ends the NIC.
func (n *nic) Close() error {
	err := n.NIC.Close()
	n.control.Close()
	return err
}

// addresses are those of the server and the client of a cell.
func (c *Cell) addresses() (server, client netip.Addr) {
	own, guest := nic4.Addr(), guest4.Addr()
	if c.VLAN {
		own, guest = nicVLAN.Addr(), guestVLAN.Addr()
	}
	if c.IPv6 {
		own, guest = nic6.Addr(), guest6.Addr()
	}
	if c.NICServes {
		return own, guest
	}
	return guest, own
}

// nextPort is a TCP port that no cell has used yet, so that captures cannot
// be confused and nothing waits for an old connection.
func (w *World) nextPort() uint16 {
	w.port++
	if w.port > 30000 {
		w.port = 7300
	}
	return w.port
}

// settle is how long the last frames may take to reach the capture.
const settle = 150 * time.Millisecond

// capture is tcpdump on the guest's TAP: the bridge itself shows a frame after
// it has passed it on, at times behind the answer. The kernel's buffer has a slot
// of the length given by -s for each frame: the smaller they are, the more frames
// may wait; the link header takes less than 64 octets.
// On a stream there is no TAP, and the NIC captures.
func (w *World) capture(ctx context.Context, name, file string, c *Cell) (interface{ Stop() error }, error) {
	if w.stream != "" {
		p, err := process.Start(ctx, w.NS, process.Options{
			Argv: []string{w.Tapir, "capture", name, "--no-context", "-s", "0", "--bulk", "0", "-w", file}})
		if err != nil {
			return nil, err
		}
		return recorder{p}, p.Await(ctx, "capturing "+name)
	}
	what := "tcp"
	if c.RoCE {
		what = "udp port 4791 or ip proto 2"
	}
	return process.Tcpdump(ctx, w.NS, w.Guest.TAP, file, "-s", fmt.Sprint(c.mtu()+64), "--immediate-mode",
		"-B", "131072", what)
}

// recorder is a NIC's own capture.
type recorder struct{ *process.Process }

// Stop ends it.
func (r recorder) Stop() error {
	r.Process.Stop()
	return r.Err()
}

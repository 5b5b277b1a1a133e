package real

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"tapir/lab/host/link"
	"tapir/lab/host/netns"
	"tapir/lab/host/process"
	"tapir/lab/topo"
	"tapir/nic/tap"
	"tapir/nic/tap/wires"
)

// Names of a node's interfaces.
const (
	kernelSide = "eth0" // of NICs and hosts: the operating system's
	nicTAP     = "tap0"
)

// node is a node of the lab.
type node struct {
	*topo.Node
	ns        *netns.NS
	net       *link.Net
	proc      *process.Process // nil of a host
	ports     []string         // TAPs of a switch, or that of a NIC or HFI; or wires
	names     []string         // of their interfaces; or again wires, which have none
	ptp       chan error       // how the PTP instance of a NIC ended; nil: there is none
	lans      int              // Ethernet links of a gateway, guest or host
	stream    string           // path of a guest's link in their place; empty: it has none
	flags     []string         // of the process, besides the node's own
	err       error            // why it ended early, or what it left over
	again     []string         // flags of a NIC that was killed, for its restart
	lives     int              // how often it did
	functions []*node          // of a card
	dead      atomic.Bool      // it was killed
	enter     []string         // command that enters the namespaces of a node that was found running
	away      bool             // it has another root directory

	captured *cable  // its last link that is; nil if none
	parts    []*part // what its processes captured, one after the other
}

// farEnd is the cable's end of a node's port.
func farEnd(port int) string { return fmt.Sprint("link", port) }

// wire is the TAP on which a NIC or HFI sends.
func (n *node) wire() string {
	if n.fabric() {
		return topo.FabricTAP
	}
	return nicTAP
}

// addNode makes a node's namespace.
func (b *bed) addNode(t *topo.Node) (*node, error) {
	if t.Card != "" { // it lives in that of the card
		card := b.nodes[t.Card]
		n := &node{Node: t, ns: card.ns, net: card.net}
		card.functions = append(card.functions, n)
		return n, nil
	}
	s, err := link.NewSpace(nil)
	if err != nil {
		return nil, err
	}
	b.undo.Add(s.Close)
	n := &node{Node: t, ns: s.NS, net: s.Net}
	if err := n.net.Up("lo"); err != nil {
		return nil, err
	}
	if t.Kind != topo.Host {
		return n, errors.Join(link.Quiet(n.ns), n.sysctls(kernelPorts))
	}
	return n, n.configureIP()
}

// kernelPorts leave to a NIC the ports from 49152 on, which it takes where it
// shares no address with a kernel: stock dissectors claim many of those below.
var kernelPorts = [2]string{"ipv4/ip_local_port_range", "16384 49151"}

// configureIP lets the kernel use its IPv6 addresses at once and keeps it from
// sending unsolicited packets or answering on other interfaces.
func (n *node) configureIP() error {
	return n.sysctls(
		[2]string{"ipv6/conf/default/disable_ipv6", "0"},
		[2]string{"ipv6/conf/default/accept_dad", "0"},
		[2]string{"ipv6/conf/default/router_solicitations", "0"},
		[2]string{"ipv4/conf/all/arp_ignore", "1"})
}

// sysctls sets what may be set here.
func (n *node) sysctls(list ...[2]string) error {
	for _, s := range list {
		if err := n.ns.Sysctl(s[0], s[1]); err != nil && !errors.Is(err, syscall.EROFS) &&
			!errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("set net.%s: %w", s[0], err)
		}
	}
	return nil
}

// vnet tells whether the node's port wants super-frames.
func (n *node) vnet() bool {
	if n.Kind == topo.Card {
		return n.functions[0].vnet()
	}
	return n.Kind == topo.NIC && (n.NIC.Frames == "gso" || n.NIC.Frames == "jumbo")
}

// mtu is what the node needs of a link, in octets of IP.
func (n *node) mtu(l *topo.Link) int {
	switch {
	case n.fabric() && l.Fabric:
		return n.FabricMTU()
	case n.Kind == topo.Card:
		most := 0
		for _, f := range n.functions {
			most = max(most, f.NIC.WithDefaults().MTU)
		}
		return most
	case n.Kind != topo.NIC:
		return 0
	case n.NIC.MTU == 0 && n.NIC.Frames == "jumbo":
		return 9000
	}
	return n.NIC.MTU
}

// plug makes the node's port at a link. It returns the name that the node has for it, empty if
// it is the kernel's own, and the cable's end.
func (b *bed) plug(n *node, l *topo.Link, mtu int, vnet bool) (name string, far tap.Queue, err error) {
	switch {
	case n.Kind == topo.Host:
		far, err = n.plugHost(l, mtu, vnet)
		return "", far, err
	case n.Kind == topo.Peer && b.lab.WireOf(l, n.Node) == topo.Stream:
		far, err = b.plugStream(n, mtu, vnet)
		return "", far, err
	case n.Kind == topo.Peer, n.Kind == topo.Gateway && !l.Fabric:
		far, err = n.plugLAN(mtu, vnet)
		return "", far, err
	}
	port := topo.SwitchPort(len(n.ports))
	if n.Kind != topo.Switch && n.Kind != topo.Card {
		port = n.wire()
	}
	if kind := b.lab.WireOf(l, n.Node); kind != topo.TAP {
		return b.plugWire(n, kind, port, mtu, vnet)
	}
	far, err = n.plugTAP(port, mtu, vnet)
	return port, far, err
}

// plugTAP makes a port that is a TAP, bridged to the cable's end.
func (n *node) plugTAP(port string, mtu int, vnet bool) (tap.Queue, error) {
	i := len(n.ports)
	bridge, far := fmt.Sprint("br", i), farEnd(i)
	n.ports, n.names = append(n.ports, port), append(n.names, port)
	if err := errors.Join(n.net.AddTAP(port, n.vnet()), n.net.AddCable(bridge)); err != nil {
		return nil, err
	}
	return n.openTAP(far, vnet, func() error {
		return errors.Join(n.bridge(port, mtu, bridge), n.bridge(far, mtu, bridge), n.net.PassPause(port, far),
			n.net.PassPause(far, port))
	})
}

// openTAP opens a TAP and has prepare make it ready.
func (n *node) openTAP(name string, vnet bool, prepare func() error) (tap.Queue, error) {
	t, err := n.net.OpenTAP(tap.Config{Name: name, Vnet: vnet})
	if err != nil {
		return nil, err
	}
	if err := prepare(); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// bridge makes an interface a port of a bridge.
func (n *node) bridge(name string, mtu int, bridge string) error {
	return errors.Join(n.net.SetMTU(name, mtu), n.net.Join(name, bridge), n.net.Up(name))
}

// plugHost makes the interface of a host at a link: eth0, eth1 and so on.
func (n *node) plugHost(l *topo.Link, mtu int, vnet bool) (tap.Queue, error) {
	name, addrs := fmt.Sprint("eth", n.lans), n.IP
	n.lans++
	if n.At != nil {
		addrs = n.At[l.Name]
	}
	return n.openTAP(name, vnet, func() error {
		err := errors.Join(n.net.SetMTU(name, mtu), n.net.Up(name))
		for _, p := range addrs {
			err = errors.Join(err, n.net.AddAddr(name, p))
		}
		return err
	})
}

// start starts the node's process and waits until it is ready and its ports
// carry frames.
func (n *node) start(ctx context.Context, b *bed) (err error) {
	argv := []string{b.opt.Tapir}
	if n.Card != "" {
		return nil // the card does it
	}
	switch n.Kind {
	case topo.Host:
		return nil
	case topo.NIC:
		if err := n.configureIP(); err != nil { // of the host TAP
			return err
		}
		argv = append(argv, "nic", "--name", n.Name, n.portFlag())
		if n.hasKernelSide() {
			argv = append(argv, "--host-tap", kernelSide)
		} else {
			b.log.Printf("%s: no /dev/net/tun: without %s: programs have its RDMA device alone", n.Name, kernelSide)
		}
		argv = append(argv, n.Flags...)
		more, err := n.VFFlags(func(host string) string {
			return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), b.nodes[host].ns.Fd())
		})
		if err != nil {
			return err
		}
		argv = append(argv, more...)
	case topo.Peer:
		argv = append(argv, n.peerArgs()...)
	default:
		if n.Kind == topo.Card {
			if err := n.configureIP(); err != nil {
				return err
			}
		}
		more, err := n.fileArgs(b.dir)
		if err != nil {
			return err
		}
		argv = append(argv, more...)
	}
	argv = slices.Concat(argv, n.flags, n.again)
	if n.proc, err = b.spawn(n, n.Name, argv); err != nil {
		return err
	}
	if err := n.ready(ctx); err != nil {
		return err
	}
	if n.Kind == topo.NIC && n.hasKernelSide() {
		if err := n.net.Up(kernelSide); err != nil {
			return err
		}
	}
	if err := n.awaitPorts(); err != nil {
		return err
	}
	return b.recordNode(ctx, n)
}

// ready waits until the node's process says that it is, a card for each function.
func (n *node) ready(ctx context.Context) error {
	if n.Kind != topo.Card {
		return n.proc.Await(ctx, "ready "+n.Name)
	}
	for i, f := range n.functions {
		f.proc = n.proc
		if err := errors.Join(n.proc.Await(ctx, "ready "+f.Name), n.net.Up(topo.HostTAP(i))); err != nil {
			return err
		}
	}
	return nil
}

// carrierWithin is longer than the kernel holds the news of a carrier back, on a busy machine, too.
const carrierWithin = 30 * time.Second

func (n *node) awaitPorts() error {
	for deadline := time.Now().Add(carrierWithin); ; time.Sleep(time.Millisecond) {
		live := true
		for i, p := range n.names {
			if wires.Is(p) {
				continue // the node waits for the other end
			}
			for _, name := range []string{p, farEnd(i)} {
				info, err := n.net.Get(name)
				if err != nil {
					return err
				}
				live = live && info.Live
			}
		}
		if live {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("its ports have no carrier after %v", carrierWithin)
		}
	}
}

// unplug takes the node's side of a link down, or up again. A switch does not
// notice.
func (n *node) unplug(c *cable, end int, down bool) error {
	switch port := c.ports[end]; {
	case n.Kind == topo.Switch:
		return nil
	case port == "", wires.Is(port):
		return c.wire.SetCarrier(end, !down)
	case down:
		return n.net.Down(port)
	default:
		return n.net.Up(port)
	}
}

// lost says why a node ended that should run.
func (n *node) lost() error {
	if n.dead.Load() || !n.proc.HasEnded() {
		return nil
	}
	return fmt.Errorf("%s has ended: %v: %s", n.Name, n.proc.Err(), n.proc.Tail())
}

// leaks are what a NIC found left over when it ended.
func (n *node) leaks() error {
	if n.proc != nil && n.Card == "" {
		if left := n.proc.Line("left at the end"); left != "" {
			return errors.New(left)
		}
	}
	return nil
}

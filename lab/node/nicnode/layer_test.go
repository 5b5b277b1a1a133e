package nicnode

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"tapir/lab/host/link"
	"tapir/lab/node"
	"tapir/nic/al"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// log collects what several threads say.
type log struct {
	mu   sync.Mutex
	said []string
}

func (l *log) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = append(l.said, fmt.Sprintf(format, args...))
}

// take returns what was said since the last call.
func (l *log) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	said := l.said
	l.said = nil
	return said
}

func (l *log) expect(t *testing.T, what string, want ...string) {
	t.Helper()
	if got := l.take(); !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// await waits until exactly that was said.
func (l *log) await(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	for end := time.Now().Add(time.Minute); len(got) < len(want); time.Sleep(time.Millisecond) {
		got = append(got, l.take()...)
		if time.Now().After(end) {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// client opens each device, and closes it on removal unless it is careless.
type client struct {
	log
	careless bool
	slow     time.Duration // to notice that a context is closed
	contexts map[string]*al.Context
}

func newClient() *client { return &client{contexts: map[string]*al.Context{}} }

func (c *client) Add(d *al.Device, _ frame.Time) {
	ctx, err := d.Open(c, nil)
	if err != nil {
		c.add("open: %v", err)
		return
	}
	c.mu.Lock()
	c.contexts[d.Name()] = ctx
	c.mu.Unlock()
	c.add("add %s", d.Name())
}

func (c *client) Remove(d *al.Device, _ frame.Time) {
	c.add("remove %s", d.Name())
	if c.careless {
		return
	}
	c.mu.Lock()
	ctx := c.contexts[d.Name()]
	c.mu.Unlock()
	ctx.CloseAsync(func(err error) {
		time.Sleep(c.slow)
		c.add("closed %v", err)
	})
}

func (c *client) AsyncEvent(ev al.Event, _ frame.Time) { c.add("%v", ev.Type) }

// pair starts two NICs on a wire in memory that share an access layer.
func pair(t *testing.T, l *node.Layer) (nodes [2]*Node) {
	t.Helper()
	a, b, err := link.NewWire("a", "b", false)
	must(t, err)
	for i, wire := range []*link.WireEnd{a, b} {
		cfg := Config{Name: fmt.Sprint("nic", i), IP: prefixes(fmt.Sprintf("10.0.0.%d/24", i+1))}
		nodes[i], err = Start(t.Context(), cfg, node.Env{Wire: wire, Layer: l})
		must(t, err)
		t.Cleanup(func() { nodes[i].Close() })
	}
	return nodes
}

func TestLayer(t *testing.T) {
	l, c := node.NewLayer(), newClient()
	nodes := pair(t, l)
	unregister := l.RegisterClient(c)
	said := c.take()
	slices.Sort(said) // of two threads
	if !slices.Equal(said, []string{"add nic0", "add nic1"}) || len(l.Devices()) != 2 {
		t.Errorf("%q", said)
	}
	ctx, err := l.OpenName("nic1", nil, "mine")
	must(t, err)
	same, err := l.OpenCA(verbs.GUIDFromMAC(nodes[1].Device.Config().MAC), nil, nil)
	must(t, err)
	if ctx.CA() != same.CA() || ctx.Value != "mine" {
		t.Error("name and GUID differ")
	}
	for _, err := range []error{l.CloseContext(ctx), l.CloseContext(same)} {
		must(t, err)
	}
	if _, err := l.OpenCA(verbs.GUID{9}, nil, nil); !errors.Is(err, al.ErrNoDevice) {
		t.Error(err)
	}
	if _, err := l.OpenName("nic9", nil, nil); !errors.Is(err, al.ErrNoDevice) {
		t.Error(err)
	}
	must(t, nodes[0].Close())
	c.expect(t, "the end of a node", "remove nic0", "closed <nil>")
	unregister()
	c.expect(t, "the end of the client", "remove nic1", "closed <nil>")
	must(t, nodes[1].Close())
	for _, n := range nodes {
		if len(n.Leaks()) != 0 {
			t.Errorf("%s leaked %v", n.Name(), n.Leaks())
		}
	}
}

// Who unregisters is not overtaken by what he asked for.
func TestUnregisterWaits(t *testing.T) {
	l, c := node.NewLayer(), newClient()
	c.slow = 20 * time.Millisecond
	n := pair(t, l)[1]
	unregister := l.RegisterClient(c)
	c.take()
	must(t, n.Close())
	c.expect(t, "the end of a node", "remove nic1", "closed <nil>")
	unregister()
	c.expect(t, "the end of the client", "remove nic0", "closed <nil>")
}

func TestUnplug(t *testing.T) {
	l, c := node.NewLayer(), newClient()
	nodes := pair(t, l)
	defer l.RegisterClient(c)()
	c.take()
	nodes[0].Unplug()
	c.expect(t, "unplugged", "DEVICE_FATAL", "PORT_ERR", "remove nic0", "closed <nil>")
	if err := nodes[0].Close(); !errors.Is(err, ErrUnplugged) {
		t.Error(err)
	}
	select {
	case <-nodes[0].Done():
	default:
		t.Error("it runs on")
	}
	if len(l.Devices()) != 1 || len(nodes[0].Leaks()) != 0 {
		t.Errorf("devices %v, leaks %v", l.Devices(), nodes[0].Leaks())
	}
}

// A client that keeps its device does not keep the node from ending; what it
// left is named.
func TestLeaksAreNamed(t *testing.T) {
	l, c := node.NewLayer(), newClient()
	c.careless = true
	nodes := pair(t, l)
	leave := l.RegisterClient(c)
	must(t, nodes[1].DoWait(func(frame.Time) {
		if _, err := c.contexts["nic1"].AllocPD(); err != nil {
			t.Error(err)
		}
		if _, err := nodes[1].Device.Verbs.CreateCQ(1, nil); err != nil {
			t.Error(err)
		}
	}))
	must(t, nodes[1].Close())
	var got []string
	for _, l := range nodes[1].Leaks() {
		got = append(got, l.String())
	}
	if !slices.Equal(got, []string{"PD 1 of context 1", "context 1", "CQ 1 (0 completions)"}) {
		t.Errorf("leaks %q", got)
	}
	c.careless = false
	leave()
}

// The port follows the kernel's link; a TAP that is deleted takes the device
// from its clients, who give everything back although the loop has ended.
func TestPortFollowsTheTAP(t *testing.T) {
	ns, links := room(t)
	l, c := node.NewLayer(), newClient()
	n, err := Start(t.Context(), Config{TAP: "tap0", IP: prefixes("10.0.0.1/24")}, node.Env{NS: ns, Layer: l})
	must(t, err)
	defer n.Close()
	until(t, n, "the port is active", func() bool { return n.Device.Verbs.PortAttr().State == verbs.PortActive })
	leave := l.RegisterClient(c)
	c.await(t, "add nic0")
	must(t, links.Down("tap0"))
	c.await(t, "PORT_ERR")
	must(t, links.Up("tap0"))
	c.await(t, "PORT_ACTIVE")
	must(t, n.DoWait(func(now frame.Time) { must(t, n.Device.AddAddr(prefixes("10.0.0.2/24")[0], now)) }))
	c.await(t, "GID_CHANGE")
	must(t, links.Delete("tap0"))
	<-n.Done()
	said := c.take()
	if i := slices.Index(said, "DEVICE_FATAL"); i < 0 || !slices.Equal(said[len(said)-2:], []string{"remove nic0", "closed <nil>"}) {
		t.Errorf("removed: %q", said)
	}
	if n.Err() == nil || len(l.Devices()) != 0 {
		t.Errorf("%v, devices %v", n.Err(), l.Devices())
	}
	leave()
	if n.Close() == nil || len(n.Leaks()) != 0 {
		t.Errorf("leaks %v", n.Leaks())
	}
}

// A NIC of the Ethernet personality is no RDMA device.
func TestEthernetPersonality(t *testing.T) {
	a, b, err := link.NewWire("a", "b", false)
	must(t, err)
	defer b.Close()
	l := node.NewLayer()
	cfg := Config{IP: prefixes("10.0.0.1/24")}
	must(t, cfg.Set("personality", "eth"))
	n := start(t, cfg, node.Env{Wire: a, Layer: l})
	if len(l.Devices()) != 0 {
		t.Errorf("devices %v", l.Devices())
	}
	must(t, n.DoWait(func(frame.Time) {
		if _, err := n.Device.Verbs.AllocPD(); !errors.Is(err, verbs.ErrNotStarted) {
			t.Error(err)
		}
	}))
}

package node

import (
	"fmt"
	"strings"
	"sync"

	"tapir/nic/al"
	"tapir/nic/uapi/relay"
	"tapir/nic/uapi/ucma"
	"tapir/nic/uapi/uverbs"
	"tapir/wire/frame"
)

// Programs offers the RDMA devices of the nodes of one process to the programs
// of tapir run. A program that was given some of them has a connection manager
// that knows these alone; those who were given the same share one, with its
// ports.
type Programs struct {
	mu    sync.Mutex
	nodes map[string]*verbsDevice
	cms   map[string]*connections // by the names of their NICs
}

// NewPrograms returns one without nodes.
func NewPrograms() *Programs {
	return &Programs{nodes: map[string]*verbsDevice{}, cms: map[string]*connections{}}
}

// verbsDevice is a node's; a plain Ethernet NIC has no Server.
type verbsDevice struct {
	*uverbs.Server
	n *Node
}

// Add offers a node that runs.
func (p *Programs) Add(n *Node) {
	d := &verbsDevice{n: n}
	if n.ca != nil {
		d.Server = uverbs.New(n.ca)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nodes[n.Name()] = d
}

// Devices implements relay.Devices: the verbs device of each NIC and the
// connection manager's.
func (p *Programs) Devices(a relay.Ask) (map[string]relay.Device, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := map[string]relay.Device{}
	var devices []*verbsDevice
	for _, name := range a.NICs {
		d := p.nodes[name]
		if d == nil {
			return nil, &relay.Refused{What: fmt.Sprintf("NIC %s is not of the same process", name), Remedy: "start the NICs of a program together: tapir nic -c FILE"}
		}
		if d.Server != nil {
			found[relay.Uverbs(name)] = relay.Device{Open: d.Open, Thread: loopThread{d.n}}
			devices = append(devices, d)
		}
	}
	if cm := p.connections(devices).first(devices); cm != nil {
		found[relay.UCMA] = *cm
	}
	return found, nil
}

// connections is the connection manager of these devices.
func (p *Programs) connections(devices []*verbsDevice) *connections {
	var names []string
	for _, d := range devices {
		names = append(names, d.n.Name())
	}
	key := strings.Join(names, ",")
	if p.cms[key] == nil {
		c := &connections{cm: ucma.NewServer(), of: map[*Node]*ucma.Device{}}
		p.cms[key] = c
		for _, d := range devices {
			d.n.cfg.Layer.RegisterClient(&connected{c: c, d: d}) // until the node ends
		}
	}
	return p.cms[key]
}

// connections is a connection manager, with the NICs that it knew first.
type connections struct {
	cm *ucma.Server
	mu sync.Mutex
	of map[*Node]*ucma.Device
}

// first is the device of the first NIC that was not gone; nil: all were.
func (c *connections) first(devices []*verbsDevice) *relay.Device {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range devices {
		if cm := c.of[d.n]; cm != nil {
			return &relay.Device{Open: cm.Open, Thread: loopThread{d.n}}
		}
	}
	return nil
}

// connected is a NIC of a connection manager. It is an al.Client.
type connected struct {
	c  *connections
	d  *verbsDevice
	cm *ucma.Device
}

// Add implements al.Client: one of the layer's devices is this NIC's.
func (o *connected) Add(d *al.Device, _ frame.Time) {
	n := o.d.n
	if d.GUID() != n.ca.GUID() {
		return
	}
	o.cm = o.c.cm.Attach(ucma.NIC{Verbs: n.Device.Verbs, CM: d.CM(), Network: n.Device, QP: o.d.QP, Now: n.Now, Schedule: d.Schedule, Do: d.Do})
	o.c.mu.Lock()
	defer o.c.mu.Unlock()
	o.c.of[n] = o.cm
}

// Remove implements al.Client.
func (o *connected) Remove(d *al.Device, _ frame.Time) {
	if d.GUID() == o.d.n.ca.GUID() {
		o.cm.Detach()
	}
}

// loopThread is a NIC's thread as the relay needs it.
type loopThread struct{ n *Node }

func (t loopThread) Do(fn func(now frame.Time)) { t.n.thread.do(fn) }

func (t loopThread) AddSource(fd int, serve func(now frame.Time, hungUp bool), lost func()) (remove func()) {
	s := t.n.loop.AddSource(fd, serve, lost)
	return func() { t.n.loop.RemoveSource(s) }
}

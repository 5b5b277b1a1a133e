package nicnode

import (
	"fmt"
	"strings"
	"sync"

	"tapir/lab/node"
	"tapir/nic/al"
	"tapir/nic/uapi/relay"
	"tapir/nic/uapi/ucma"
	"tapir/nic/uapi/uverbs"
	"tapir/nic/umode/proxy"
	"tapir/wire/frame"
)

// Programs offers the RDMA devices of the nodes of one process to the programs
// of tapir run, with a connection manager that knows those NICs that a program
// was given.
type Programs struct {
	cm   *ucma.Server
	mu   sync.Mutex
	nics map[string]*offer
	// servers are the sockets by which programs come; any may use several NICs.
	servers []*relay.Server
}

// NewPrograms returns one without nodes.
func NewPrograms() *Programs {
	return &Programs{cm: ucma.NewServer(), nics: map[string]*offer{}}
}

// Serve serves supervisors of programs by r.
func (p *Programs) Serve(r *relay.Server) {
	r.Serve(p.Devices)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.servers = append(p.servers, r)
}

// Clients lists the device files of the NIC of that name, and of the connection
// manager, that programs have open.
func (p *Programs) Clients(nic string) []relay.ClientInfo {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := []relay.ClientInfo{}
	for _, r := range p.servers {
		for _, c := range r.Clients() {
			if c.File == relay.Uverbs(nic) || !strings.HasPrefix(c.File, relay.Uverbs("")) {
				list = append(list, c)
			}
		}
	}
	return list
}

// CA is the node's device as the access layer has it; nil for a plain Ethernet NIC.
func (n *Node) CA() *al.CA { return n.ca }

// LocalMAD is al.CA.MADTo of the node's device, for its thread; nil for a plain
// Ethernet NIC.
func (n *Node) LocalMAD() func(qp uint32, lid uint16, mad []byte) ([]byte, error) {
	if n.ca == nil {
		return nil
	}
	return n.ca.MADTo
}

// Layer is the access layer that the node's device is registered with.
func (n *Node) Layer() *node.Layer { return n.layer }

// offer is what programs can have of a node. It is an al.Client. A plain
// Ethernet NIC offers nothing.
type offer struct {
	p     *Programs
	n     *Node
	verbs *uverbs.Server
	cm    *ucma.Device // nil: there is none, or the NIC is gone
}

// Add offers a node that runs.
func (p *Programs) Add(n *Node) {
	o := &offer{p: p, n: n}
	if n.ca != nil {
		o.verbs = uverbs.New(n.ca)
		o.verbs.TellBy(n.Loop.Tell)
		n.layer.RegisterClient(o) // until the node ends
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nics[n.Name()] = o
}

// Add implements al.Client: of the layer's devices, one is the node's.
func (o *offer) Add(d *al.Device, _ frame.Time) {
	if d.GUID() == o.n.ca.GUID() {
		dev, client := o.n.Device, o.verbs.Client() // under which the programs' queue pairs are made
		o.set(o.p.cm.Attach(ucma.NIC{Verbs: dev.Verbs, CM: client.CM(), Network: dev.IP, QP: o.verbs.QP, Now: o.n.Now,
			Schedule: client.Schedule, Do: client.Do}))
	}
}

func (o *offer) set(cm *ucma.Device) {
	o.p.mu.Lock()
	defer o.p.mu.Unlock()
	o.cm = cm
}

// Remove implements al.Client.
func (o *offer) Remove(d *al.Device, _ frame.Time) {
	if d.GUID() == o.n.ca.GUID() {
		o.cm.Detach()
		o.set(nil)
	}
}

// Devices implements relay.Devices: the verbs device of each NIC and the
// connection manager's.
func (p *Programs) Devices(a relay.Ask) (map[string]relay.Device, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := map[string]relay.Device{}
	var cms []*ucma.Device
	var home loopThread // of the connection manager's files
	end := &killer{left: a.KillAfterPosts}
	for i, name := range a.NICs {
		o := p.nics[name]
		if o == nil {
			return nil, &relay.Refused{What: fmt.Sprintf("NIC %s is not of the same process", name),
				Remedy: "start the NICs of a program together: tapir nic -c FILE"}
		}
		if o.cm == nil {
			continue
		}
		thread := loopThread{o.n}
		view := uverbs.View{IPGIDs: a.IPGIDs}
		if i < len(a.Netdevs) {
			view.Netdev = a.Netdevs[i]
		}
		open := o.verbs.OpenAs(view)
		if a.KillAfterPosts > 0 {
			open = end.open(open)
		}
		found[relay.Uverbs(name)] = relay.Device{Open: open, Thread: thread}
		if cms = append(cms, o.cm); len(cms) == 1 {
			home = thread
		}
	}
	if len(cms) > 0 {
		found[relay.UCMA] = relay.Device{Open: cms[0].OpenWith(cms[1:]...), Thread: home}
	}
	return found, nil
}

// loopThread is a NIC's thread as the relay needs it.
type loopThread struct{ n *Node }

func (t loopThread) Do(fn func(now frame.Time)) { t.n.thread.do(fn) }

func (t loopThread) AddSource(fd int, serve func(now frame.Time, hungUp bool), lost func()) (remove func()) {
	s := t.n.Loop.AddSource(fd, serve, lost)
	return func() { t.n.Loop.RemoveSource(s) }
}

func (t loopThread) AddBell(fd int, b proxy.Doorbells) (remove func()) {
	return t.n.Loop.AddBell(fd, b, func() {})
}

func (t loopThread) AtEnd(fn func()) { t.n.Loop.AtEnd(fn) }

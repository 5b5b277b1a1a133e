package virtual

import (
	"fmt"
	"slices"
	"strings"

	"tapir/lab/conf/swconf"
	lifecycle "tapir/lab/node"
	"tapir/lab/node/sw"
	"tapir/lab/run/result"
	"tapir/lab/run/virtual/station"
	"tapir/lab/run/virtual/vtime"
	"tapir/lab/tool/capture"
	"tapir/lab/tool/ptprun"
	"tapir/lab/topo"
	"tapir/nic"
	"tapir/ptp/clock"
	"tapir/wire/frame"
)

// node is a node of the lab: the engine that a world runs.
type node struct {
	*topo.Node
	engine
	lab     *lab
	place   *vtime.Place
	ends    []*end
	dev     *nic.Device   // of a NIC
	sw      *sw.Switch    // of a switch
	phc     *clock.PHC    // of a switch
	timed   *ptprun.Run   // nil: the NIC has no PTP instance
	hfi     *hfi          // of an HFI or manager
	host    *station.Host // of a host or HFI: the operating system
	again   bool          // Poll has to be called again at this time
	blocked bool          // a link could not take a frame
	card    *card         // of a card and its functions
	disks   *disks        // see storage
	dead    bool          // it was killed
	lives   int           // how often it was restarted
	said    *capture.Join // takes the log of a NIC; nil: its link is not captured
	sampled uint64        // turns of place when the tables were sampled last
}

// engine is what nodes of all kinds have in common.
type engine interface {
	Receive(port frame.Port, frames []*frame.Frame, now frame.Time)
	Dispatch(now frame.Time) bool
	Poll(now frame.Time) frame.Time
	TxDone(id uint64, at, now frame.Time) bool
}

// vnet tells whether the node's port takes super-frames.
func (n *node) vnet() bool {
	if n.Kind == topo.Card {
		return n.lab.topo.FunctionsOf(n.Name)[0].NIC.Vnet()
	}
	return n.Kind == topo.NIC && n.NIC.Vnet()
}

// mtu is what the node needs of its links, in octets of IP; 0: nothing special.
func (n *node) mtu() int {
	switch n.Kind {
	case topo.NIC:
		return n.NIC.Device("").MTU
	case topo.HFI, topo.Manager:
		return n.FabricMTU()
	case topo.Card:
		return n.mtuOfCard()
	}
	return 0
}

// build makes the engine, once the links are known.
func (n *node) build() error {
	switch n.Kind {
	case topo.Switch:
		return n.buildSwitch()
	case topo.HFI, topo.Manager:
		return n.buildHFI()
	case topo.Host:
		n.buildHost()
		return nil
	case topo.Card:
		return n.buildCard()
	}
	return n.buildNIC()
}

func (n *node) buildNIC() error {
	cfg := n.NIC.Device("tap0")
	if n.Card != "" {
		n.ends = n.lab.node(n.Card).ends[n.NIC.Port:][:1]
	}
	if mtu := n.ends[0].link.MTU; n.NIC.MTU == 0 && mtu != 0 {
		cfg.MTU = mtu
	}
	if n.dev != nil { // the last one was killed; who begins anew does not draw the same numbers
		cfg.MAC = n.dev.Config().MAC
		cfg.Seed += uint64(n.lives)
	}
	if n.Card != "" {
		return n.join(cfg)
	}
	var err error
	n.dev, err = nic.New(cfg, nic.Env{Pool: n.lab.world.Pool, Wire: n.ends[0], Clock: n.lab.world})
	n.engine = n.dev
	return err
}

func (n *node) buildSwitch() error {
	cfg := n.Switch
	links := make([]frame.Link, len(n.ends))
	cfg.Ports = make([]swconf.PortConfig, len(n.ends))
	for i, e := range n.ends {
		links[i] = e
		cfg.Ports[i].TAP = fmt.Sprint("p", i)
	}
	hw := cfg.Hardware
	hw.Start, hw.Initial = n.lab.world.Now(), n.lab.world.At(n.lab.world.Now())
	var err error
	if n.phc, err = clock.New(hw); err != nil {
		return err
	}
	n.sw, err = sw.New(cfg, sw.Env{Pool: n.lab.world.Pool, Links: links, Clock: n.phc})
	n.engine = n.sw
	return err
}

// begin starts the node.
func (n *node) begin() {
	if n.dev != nil {
		n.listen()
	}
	if !slices.ContainsFunc(n.ends, func(e *end) bool { return e.link.down }) {
		n.carrier(true)
	}
	for _, e := range n.ends {
		e.link.negotiate(n.lab.world.Now())
	}
	n.startPTP()
	n.lab.world.Touch(n.place)
	if line := n.ready(); line != "" {
		n.lab.log.Printf("%s | %s", n.Name, line)
	}
}

// carrier sets the link state of the node. Switches and hosts ignore it.
func (n *node) carrier(up bool) {
	switch now := n.lab.world.Now(); {
	case n.dead:
		return
	case n.dev != nil:
		lifecycle.SetCarrier(n.dev, up, now)
	case n.hfi != nil:
		lifecycle.SetCarrier(n.hfi.Port(), up, now)
	default:
		return
	}
	n.lab.world.Touch(n.place)
}

// ready is the line that a node logs when it is up; empty: none.
func (n *node) ready() string {
	switch {
	case n.hfi != nil:
		return n.hfi.ready()
	case n.dev == nil:
		return ""
	}
	c := n.dev.Config()
	ips := strings.Join(lifecycle.Texts(c.Addrs), ",")
	return fmt.Sprintf("ready %s mac=%v ip=%s frames=%v", n.Name, c.MAC, ips, c.Frames)
}

// Receive implements vtime.Engine.
func (n *node) Receive(port frame.Port, frames []*frame.Frame, now frame.Time) {
	if n.dead {
		for _, f := range frames {
			f.Release()
		}
		return
	}
	n.engine.Receive(port, frames, now)
}

// counters are those that the node has.
func (n *node) counters() (list []result.Counter) {
	switch {
	case n.dead:
	case n.dev != nil:
		for _, c := range n.dev.Counters() {
			list = append(list, result.Counter{Name: c.Name, Value: c.Value})
		}
		for _, c := range n.storage().counters() {
			list = append(list, result.Counter(c))
		}
	case n.hfi != nil:
		for _, c := range n.hfi.counters() {
			list = append(list, result.Counter(c))
		}
	case n.sw != nil:
		for _, c := range n.sw.Counters() {
			list = append(list, result.Counter(c))
		}
	}
	return append(list, n.hostDrops()...)
}

// maxTurns is how often a node may ask for another turn at the same time.
const maxTurns = 100_000

// Poll implements vtime.Engine: it runs the node until it rests.
func (n *node) Poll(now frame.Time) frame.Time {
	if n.dead {
		return frame.Never
	}
	e := n.engine
	for range maxTurns {
		n.again, n.blocked = false, false
		again := e.Dispatch(now)
		next := e.Poll(now)
		if n.again || again {
			continue
		}
		if n.blocked {
			return min(max(next, now+1), n.linkFree())
		}
		if next > now {
			n.renegotiate(now)
			return next
		}
	}
	if n.lab.err == nil {
		n.lab.err = fmt.Errorf("%s does not come to rest at %v", n.Name, n.lab.Now())
	}
	return frame.Never
}

// linkFree is when the first of the busy links takes frames again.
func (n *node) linkFree() frame.Time {
	at := frame.Never
	for _, e := range n.ends {
		if r := e.freeAt(); r > n.lab.world.Now() {
			at = min(at, r)
		}
	}
	return at
}

// leaks are the RDMA objects that a NIC still has at the end.
func (n *node) leaks() error {
	if n.dev == nil || n.dead {
		return nil
	}
	left, _ := n.dev.Verbs.Stop() // fails in callbacks only
	if len(left) == 0 {
		return nil
	}
	return fmt.Errorf("%s: left at the end: %s", n.Name, strings.Join(lifecycle.Texts(left), ", "))
}

// unload removes the NIC's function, back to hw_remove of its driver core. The
// error tells what prevented it.
func (n *node) unload(now frame.Time) error {
	if n.dev == nil || n.dead {
		return nil
	}
	if err := n.dev.Close(now); err != nil {
		return fmt.Errorf("%s: unload: %w", n.Name, err)
	}
	return nil
}

package fcoe

import (
	"slices"
	"time"

	"tapir/nic/scsi"
	"tapir/wire/ether"
	"tapir/wire/fc"
	"tapir/wire/fcoe"
	"tapir/wire/fip"
	"tapir/wire/frame"
	"tapir/wire/timer"
)

// Limits of a node.
const (
	MaxPorts   = 1 + 64 // one of its own and virtual ones
	maxRemotes = 256
	maxTasks   = 2048
	maxHeld    = 128 << 20
	maxControl = 4096
	maxTries   = 8 // of a command
)

// Times (FC-FS-3, FC-BB-6 table 44).
const (
	edTOV      = 2 * time.Second
	raTOV      = 10 * time.Second
	retryAfter = 2 * time.Second // after a login or query that failed
)

// Config says what a node is.
type Config struct {
	MAC        ether.Addr
	VLAN       uint16 // of the NIC, whose frames are tagged; 0: the one that an FCF offers
	VN2VN      bool
	Map        fip.Map // of the fabric; 0: any
	MaxPayload int     // of a frame of Fibre Channel, in octets: a multiple of 4, up to fc.MaxPayload
	Ports      []PortConfig
}

// PortConfig is a port of a node: the first is its own, the others are virtual ones, which a
// fabric gives addresses to (NPIV).
type PortConfig struct {
	Port, Node fc.WWN
	Units      []*scsi.Unit // that it serves, by LUN; nil: it is no target
	Hosts      []fc.WWN     // initiators that may log in; empty: all
	Initiator  bool
}

// Env is the world of a node.
type Env struct {
	// Send sends a frame; it borrows what follows the header. Room is how many more it takes
	// in this Poll.
	Send func(h ether.Header, body []byte, now frame.Time)
	Room func() int
	// Stations is told the addresses and groups that the node receives besides its own address,
	// and the VLAN that an FCF has offered, in which all its frames are; 0: none.
	Stations func(vlan uint16, list []ether.Addr)
	// Wake asks for a Poll.
	Wake func()
	// Random staggers beacons, and picks identifiers where those are taken.
	Random interface{ Uint64() uint64 }
	// Sessions are those of the hardware; nil: there is no limit.
	Sessions Sessions
	// Offload has work done on another thread, in the order of a unit's calls, and then
	// done on the node's. nil: work is done at once.
	Offload func(u *scsi.Unit, work, done func())
	// Changed is told that a session with a remote port has begun or ended.
	Changed func(r *Remote, now frame.Time)
}

// Session is a pair of ports that are logged in, as the hardware has to know it.
type Session struct {
	Source, Dest       ether.Addr
	SID, DID           fc.ID
	TxPayload, Payload int // longest payloads in octets: sent, received
	EDTOV              time.Duration
}

// Sessions are the sessions that hardware has place for.
type Sessions interface {
	// Offload begins one. Terminate ends it.
	Offload(s Session) (handle int, err error)
	Terminate(handle int)
	// Task tells that a command begins; false: there are too many. Done tells that it has ended.
	Task(handle int, target bool) bool
	Done(handle int)
	// Traffic counts a frame of the session.
	Traffic(handle int, r fc.RCtl, octets int, sent bool)
	// Dropped counts a frame that is dropped.
	Dropped(r frame.DropReason)
	Queues
}

// Hardware is the part of a device in FCoE: sessions, and the way of what is not data.
type Hardware interface {
	Sessions
	// Room is how many frames of FIP and of Fibre Channel's services Send takes. Send sends
	// one; it borrows what follows the header.
	Room() int
	Send(h ether.Header, body []byte)
	// MaxPayload is the longest payload of its frames, in octets.
	MaxPayload() int
}

// Unlimited are the Sessions of hardware that has no part in them.
type Unlimited struct{}

func (Unlimited) Offload(Session) (int, error)    { return 0, nil } // Offload implements Sessions.
func (Unlimited) Terminate(int)                   {}                // Terminate implements Sessions.
func (Unlimited) Task(int, bool) bool             { return true }   // Task implements Sessions.
func (Unlimited) Done(int)                        {}                // Done implements Sessions.
func (Unlimited) Traffic(int, fc.RCtl, int, bool) {}                // Traffic implements Sessions.
func (Unlimited) Dropped(frame.DropReason)        {}                // Dropped implements Sessions.

// Node is an end node.
type Node struct {
	cfg       Config
	env       Env
	ports     []*Port
	timers    timer.Heap[*alarm]
	alarms    uint64
	exchanges map[uint16]*exchange // by OX_ID
	oxid      uint16
	rxid      uint16
	fabric    fabric
	vn        vn2vn
	control   []packet   // frames that wait
	senders   []sender   // of data, in turn
	sleeping  []*Request // that wait for the hardware
	waking    alarm
	scratch   []byte
	tasks     int
	held      int // octets
	stats     Stats
	stopped   bool
}

// packet is a frame that waits.
type packet struct {
	h      ether.Header
	body   []byte
	posted bool // in the send queue of a session
	done   bool // it ends a task
	handle int  // of the session
}

// sender has data to send.
type sender interface {
	// send sends one frame and tells whether there are more.
	send(now frame.Time) (more bool)
}

// alarm runs a function at a time.
type alarm struct {
	timer.Entry[*alarm]
	fn func(now frame.Time)
}

// set runs fn at a time, in place of what the alarm was set to.
func (n *Node) set(a *alarm, at frame.Time, fn func(now frame.Time)) {
	if a.Owner == nil {
		n.alarms++
		a.Owner, a.ID = a, n.alarms
	}
	a.fn = fn
	n.timers.Set(&a.Entry, at)
	n.env.Wake()
}

func (n *Node) cancel(a *alarm) { n.timers.Remove(&a.Entry) }

// New makes a node. It sends nothing before Start.
func New(cfg Config, env Env) *Node {
	if env.Sessions == nil {
		env.Sessions = Unlimited{}
	}
	if env.Changed == nil {
		env.Changed = func(*Remote, frame.Time) {}
	}
	n := &Node{cfg: cfg, env: env, exchanges: map[uint16]*exchange{}}
	for i, c := range cfg.Ports {
		p := &Port{n: n, cfg: c, index: i}
		p.take = p.took
		n.ports = append(n.ports, p)
	}
	n.fabric.n, n.vn.n = n, n
	return n
}

// Start begins with FIP.
func (n *Node) Start(now frame.Time) {
	n.stations()
	if n.cfg.VN2VN {
		n.vn.start(now)
	} else {
		n.fabric.discover(now)
	}
}

// Stop logs out everywhere. What it sends leaves with the next Poll, the last one.
func (n *Node) Stop(now frame.Time) {
	n.halt(true, now)
	n.stopped = true
}

// LinkDown ends all sessions, for the carrier is gone; Start begins again.
func (n *Node) LinkDown(now frame.Time) {
	n.control = nil
	n.halt(false, now)
	n.fabric.leaveVLAN()
}

// Has tells whether the node has a station address and longest payload.
func (n *Node) Has(mac ether.Addr, payload int) bool {
	return n.cfg.MAC == mac && n.cfg.MaxPayload == payload
}

// Move ends all sessions and gives the node another station address and longest payload, in
// octets. If the link is up it begins again.
func (n *Node) Move(mac ether.Addr, payload int, up bool, now frame.Time) {
	n.halt(up, now)
	if n.cfg.MAC, n.cfg.MaxPayload = mac, payload; up {
		n.Start(now)
	}
}

// halt ends all sessions, with logouts if that is orderly.
func (n *Node) halt(orderly bool, now frame.Time) {
	for _, p := range slices.Backward(n.ports) {
		p.down(orderly, now)
	}
	for _, o := range n.vn.neighbors {
		n.cancel(&o.expiry)
		n.cancel(&o.login)
	}
	for _, a := range []*alarm{&n.fabric.timer, &n.fabric.beat, &n.fabric.watch, &n.vn.timer} {
		n.cancel(a)
	}
	n.fabric.fcf, n.fabric.fcfs = nil, nil
	n.vn.stage, n.vn.neighbors, n.vn.collisions = idle, nil, 0
	n.stations()
	n.env.Wake()
}

// stations tells which addresses are wanted.
func (n *Node) stations() {
	list := []ether.Addr{fip.AllENodes}
	if n.cfg.VN2VN {
		list = []ether.Addr{fip.AllVN2VN}
	}
	for _, p := range n.ports {
		if !p.mac.IsZero() {
			list = append(list, p.mac)
		}
	}
	n.env.Stations(n.fabric.vlan, list)
}

// Poll does what is due, and sends as much as there is room for. It returns the next
// deadline; with frames left to send that is now, or when there is room again.
func (n *Node) Poll(now frame.Time) (next frame.Time, waiting bool) {
	for !n.stopped {
		a, ok := n.timers.Pop(now)
		if !ok {
			break
		}
		a.fn(now)
	}
	for n.env.Room() > 0 {
		switch {
		case len(n.control) > 0:
			p := n.control[0]
			n.control = n.control[1:]
			n.left(&p)
			n.env.Send(p.h, p.body, now)
		case len(n.senders) > 0:
			s := n.senders[0]
			n.senders = n.senders[1:]
			if s.send(now) {
				n.senders = append(n.senders, s)
			}
		default:
			return n.timers.Next(), false
		}
	}
	return n.timers.Next(), true
}

// queue has a frame sent that is not data.
func (n *Node) queue(p packet) {
	if len(n.control) >= maxControl {
		n.stats[TxQueueFull]++
		n.left(&p)
		return
	}
	n.control = append(n.control, p)
	n.env.Wake()
}

// sendFIP sends a FIP frame from the node's own address, or a port's.
func (n *Node) sendFIP(src, dst ether.Addr, body []byte) {
	n.stats[FIPOut]++
	n.queue(packet{h: ether.Header{Dst: dst, Src: src, Type: fip.EtherType}, body: body})
}

// frame sends a frame of a port that is not data.
func (p *Port) frame(to ether.Addr, h fc.Header, payload []byte) {
	p.n.count(&h, len(payload), true)
	p.n.queue(packet{h: p.header(to), body: fcoe.Append(nil, h, payload)})
}

// header is that of a frame of Fibre Channel.
func (p *Port) header(to ether.Addr) ether.Header {
	return ether.Header{Dst: to, Src: p.mac, Type: fcoe.EtherType}
}

// data sends a frame of data at once.
func (p *Port) data(to ether.Addr, h fc.Header, payload []byte, now frame.Time) {
	p.n.count(&h, len(payload), true)
	p.n.scratch = fcoe.Append(p.n.scratch[:0], h, payload)
	p.n.env.Send(p.header(to), p.n.scratch, now)
}

// macOf is where frames for an identifier go.
func (n *Node) macOf(id fc.ID) ether.Addr {
	if n.cfg.VN2VN {
		return fip.VN2VNMap.MAC(id)
	}
	if n.fabric.fcf == nil {
		return ether.Addr{}
	}
	return n.fabric.fcf.MAC
}

// maxSize is the longest FCoE frame in octets, without its Ethernet header.
func (n *Node) maxSize() uint16 { return uint16(n.cfg.MaxPayload + fcoe.Overhead) }

// port is the port with an identifier, or nil.
func (n *Node) port(id fc.ID) *Port {
	i := slices.IndexFunc(n.ports, func(p *Port) bool { return p.id == id && p.state > portLogin })
	if i < 0 {
		return nil
	}
	return n.ports[i]
}

// Port is a port of the node.
func (n *Node) Port(i int) *Port { return n.ports[i] }

package iscsi

import (
	"net/netip"
	"slices"
	"time"

	"tapir/nic/iscsi/keys"
	"tapir/nic/scsi"
	"tapir/wire/frame"
)

// Times of a connection.
const (
	loginWithin = 15 * time.Second // a login takes at most
	lingerFor   = 2 * time.Second  // after a logout in iSER, for the initiator to close
	pingAfter   = 30 * time.Second // silence before a NOP-In, and until the connection ends then
)

// Limits of a connection.
const (
	window       = 64              // commands outstanding
	maxImmediate = keys.Unexpected // more of them that are immediate
	maxHeld      = 128 << 20       // octets of their data
	maxWaiting   = 4096            // PDUs without data that wait for the peer
	maxText      = keys.MaxText
	maxEarly     = 4 << 20 // of PDUs that came before their turn
	maxSegment   = keys.MaxSegment
	loginSegment = keys.LoginSegment
)

// CHAP is who has to prove what.
type CHAP = keys.CHAP

// Node is a target: what TargetName names.
type Node struct {
	Name       string
	Units      []*scsi.Unit // by LUN; nil: none
	Initiators []string     // who may log in; empty: everybody
	CHAP       CHAP
}

// Config says what a Target has.
type Config struct {
	Nodes  []*Node
	Random interface{ Uint64() uint64 } // challenges of CHAP
	// Offload has work done on another thread, in the order of a unit's calls, and then
	// done on the target's. nil: work is done at once.
	Offload func(u *scsi.Unit, work, done func())
	// Window is how many commands a session may have outstanding, at most 64; 0: as many.
	Window int
	// Notes are those of the NIC's capture; nil: none.
	Notes *frame.Notes
}

// Link is the connection that a Conn sends by. One that is an RDMA too carries iSER.
type Link interface {
	Kick()      // there is something to send
	CloseBoth() // close in order, when all is sent
	Abort()     // reset
}

// Target serves nodes on one portal.
type Target struct {
	cfg     Config
	conns   []*Conn
	tsih    uint16
	stats   Stats
	pool    pool
	stopped bool
}

// NewTarget makes a target.
func NewTarget(cfg Config) *Target { return &Target{cfg: cfg} }

// Stats are the counters.
func (t *Target) Stats() Stats { return t.stats }

// Accept begins a connection that has been made. What its peer sends goes to Receive;
// what is to be sent is behind Next, Render and Acked; with RDMA, PDUs go to Control and Send. Gone
// is the last call.
func (t *Target) Accept(local, remote netip.AddrPort, link Link, now frame.Time) *Conn {
	c := &Conn{t: t, local: local, remote: remote, link: link, heard: now, par: keys.Defaults(),
		tasks: map[uint32]*task{}}
	c.rd.Max = loginSegment
	c.out.notes = t.cfg.Notes
	c.move = stream{c}
	if r, ok := link.(RDMA); ok {
		c.iser, c.move = true, rdma{c, r}
	}
	t.stats[Connections]++
	t.conns = append(t.conns, c)
	return c
}

// Stop tells all initiators that their sessions end, and closes the connections.
func (t *Target) Stop() {
	t.stopped = true
	for _, c := range slices.Clone(t.conns) {
		if c.phase == fullFeature {
			c.async(eventDropSession)
		}
		c.close()
	}
}

// Poll does what is due. It returns the next deadline.
func (t *Target) Poll(now frame.Time) (next frame.Time) {
	next = frame.Never
	for _, c := range slices.Clone(t.conns) {
		if c.phase != ended {
			next = min(next, c.poll(now))
		}
	}
	return next
}

// window is how many commands a session may have outstanding.
func (t *Target) window() int {
	if w := t.cfg.Window; w > 0 {
		return min(w, window)
	}
	return window
}

// node is the target of that name, or nil.
func (t *Target) node(name string) *Node {
	i := slices.IndexFunc(t.cfg.Nodes, func(n *Node) bool { return n.Name == name })
	if i < 0 {
		return nil
	}
	return t.cfg.Nodes[i]
}

// sessionOf is the connection of a session of the same initiator port, or nil.
func (t *Target) sessionOf(c *Conn) *Conn {
	for _, o := range t.conns {
		same := o != c && o.node == c.node && o.initiator == c.initiator && o.isid == c.isid
		if same && o.phase == fullFeature && !o.closing {
			return o
		}
	}
	return nil
}

// Session is what is known of one.
type Session struct {
	Initiator    string         `json:"initiator"`
	Target       string         `json:"target"` // empty: discovery
	Remote       netip.AddrPort `json:"remote"`
	TSIH         uint16         `json:"tsih"`
	Tasks        int            `json:"tasks"`
	HeaderDigest bool           `json:"header_digest"`
	DataDigest   bool           `json:"data_digest"`
	ISER         bool           `json:"iser"` // by RDMA
}

// Sessions lists the sessions, in the order of their connections.
func (t *Target) Sessions() []Session {
	list := []Session{}
	for _, c := range t.conns {
		if c.phase != fullFeature || c.closing {
			continue
		}
		s := Session{Initiator: c.initiator, Remote: c.remote, TSIH: c.tsih, Tasks: len(c.tasks),
			HeaderDigest: c.rd.Header, DataDigest: c.rd.Digests.Data, ISER: c.iser}
		if c.node != nil {
			s.Target = c.node.Name
		}
		list = append(list, s)
	}
	return list
}

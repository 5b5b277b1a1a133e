package ptpsim

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"time"

	"tapir/lab/node/sw"
	"tapir/lab/run/result"
	"tapir/lab/run/virtual/vtime"
	"tapir/ptp"
	"tapir/ptp/clock"
	"tapir/ptp/msg"
	"tapir/ptp/servo"
	"tapir/ptp/transport"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/pcapng"
)

// Node is a clock with its ports, or a switch.
type Node struct {
	Name     string
	Clock    *clock.PHC
	Instance *ptp.Instance // nil of a switch
	Switch   *sw.Switch    // nil of a clock
	Series   result.Series // its offsets so far
	Heard    time.Duration // since when it follows a master

	s      *Sim
	index  int
	cfg    *NodeConfig
	place  *vtime.Place
	ends   []*end
	ports  []portState
	down   bool
	belief ptp.Sample
	known  bool // belief is one
	servo  servo.State
	stamps txStamps
	packet uint64 // of the capture
}

// portState is the carriage and the log state of a port.
type portState struct {
	carry transport.Port
	state msg.PortState
	label string
	drops Drops
}

// Drops counts frames that a port did not take.
type Drops struct {
	NotPTP   uint64 // not a PTP message, or a checksum that is wrong
	NotOurs  uint64 // unicast to another
	WrongTag uint64 // of another VLAN
	Down     uint64 // the node is down
}

func newNode(s *Sim, i int) *Node {
	n := &Node{Name: s.cfg.Nodes[i].Name, s: s, index: i, cfg: &s.cfg.Nodes[i]}
	n.Series = result.Series{Name: n.Name, Tau: s.cfg.Sample}
	return n
}

// mac is the address of a port.
func (n *Node) mac(port int) ether.Addr {
	return ether.Addr{0x02, 0x50, byte(n.index >> 8), byte(n.index), byte(port >> 8), byte(port)}
}

// ip is the address of a port over UDP.
func (n *Node) ip(port int) netip.Addr {
	if n.cfg.Transport == transport.UDPv6 {
		return netip.AddrFrom16([16]byte{0: 0xfd, 12: byte(n.index >> 8), 13: byte(n.index), 14: byte(port >> 8),
			15: byte(port + 1)})
	}
	return netip.AddrFrom4([4]byte{10, byte(n.index >> 8), byte(n.index), byte(port + 1)})
}

// hop is the MAC address behind an IP address. Addresses are known: nobody
// asks by ARP.
func (n *Node) hop(a netip.Addr) ether.Addr {
	for _, o := range n.s.nodes {
		for p := range o.ports {
			if o.ports[p].carry.IP == a {
				return o.ports[p].carry.MAC
			}
		}
	}
	return ether.Broadcast
}

// build makes the clock and the instance, once the links are known.
func (n *Node) build() (err error) {
	c := n.cfg.Clock
	c.Start, c.Initial = n.s.world.Now(), Epoch+frame.Stamp(n.cfg.Offset)
	c.Oscillator.Seed = cmp.Or(c.Oscillator.Seed, n.seed())
	if n.Clock, err = clock.New(c); err != nil {
		return err
	}
	if n.cfg.Switch != nil {
		return n.buildSwitch()
	}
	return n.buildClock()
}

func (n *Node) buildClock() (err error) {
	cfg := n.cfg.PTP
	cfg.Ports = slices.Clone(cfg.Ports)
	if len(cfg.Ports) == 1 {
		cfg.Ports = slices.Repeat(cfg.Ports, max(1, len(n.ends)))
	}
	if len(cfg.Ports) != len(n.ends) {
		return errors.New("it has not as many ports as links")
	}
	cfg.ClockIdentity, cfg.Seed = cmp.Or(cfg.ClockIdentity, msg.IdentityOf(n.mac(0))), cmp.Or(cfg.Seed, n.seed())
	for p := range n.ends {
		n.ports[p].carry = transport.Port{Kind: n.cfg.Transport, MAC: n.mac(p), IP: n.ip(p), Local: n.cfg.Local}
		if n.cfg.VLAN != 0 {
			n.ports[p].carry.Tag, n.ports[p].carry.Tagged = ether.Tag{TPID: ether.TypeVLAN, TCI: n.cfg.VLAN}, true
		}
	}
	if err := n.negotiate(cfg.Ports); err != nil {
		return err
	}
	n.stamps.late = n.cfg.TxStampDelay
	if n.Instance, err = ptp.New(cfg, n.Clock, n); err != nil {
		return err
	}
	n.Instance.Observe((*observer)(n))
	return nil
}

// negotiate fills the unicast master tables.
func (n *Node) negotiate(ports []ptp.PortConfig) error {
	for _, name := range n.cfg.UnicastMasters {
		m := n.s.Node(name)
		if m == nil {
			return fmt.Errorf("unicast masters: there is no node %s", name)
		}
		a := transport.Addr{MAC: m.mac(0)}
		if n.cfg.Transport != transport.Ethernet {
			a = transport.Addr{IP: m.ip(0)}
		}
		for i := range ports {
			u := &ports[i].Unicast
			u.Masters = append(u.Masters[:len(u.Masters):len(u.Masters)], a)
		}
	}
	return nil
}

// seed is the node's share of the simulation's chance.
func (n *Node) seed() uint64 { return n.s.cfg.Seed<<16 + uint64(n.index) + 1 }

// Receive implements engine.
func (n *Node) Receive(port frame.Port, frames []*frame.Frame, now frame.Time) {
	for i, f := range frames {
		if n.down {
			n.ports[port].drops.Down++
			f.Release()
			continue
		}
		n.tap(n.ends[port], f.Bytes(), pcapng.Inbound, now)
		if n.Switch != nil {
			n.Switch.Receive(port, frames[i:i+1], now)
			continue
		}
		n.receive(int(port), f.Bytes(), now)
		f.Release()
	}
}

func (n *Node) receive(port int, b []byte, now frame.Time) {
	p, err := transport.Decapsulate(b)
	carry, drops := &n.ports[port].carry, &n.ports[port].drops
	switch {
	case err != nil || p.Kind != carry.Kind:
		drops.NotPTP++
		return
	case p.Header.Dst != carry.MAC && !p.Header.Dst.IsMulticast():
		drops.NotOurs++
		return
	case p.Header.NTags > 0 != carry.Tagged || carry.Tagged && p.Header.Tags[0].TCI&0xfff != carry.Tag.TCI:
		drops.WrongTag++
		return
	}
	meta := ptp.Meta{Src: p.Src, Now: now}
	if p.Event {
		meta.Stamp, meta.Stamped = n.Clock.At(now), true
	}
	n.Instance.Receive(port, p.Body, meta)
}

// Poll implements engine.
func (n *Node) Poll(now frame.Time) frame.Time {
	if n.Switch != nil {
		return n.Switch.Poll(now)
	}
	next := n.stamps.deliver(n, now)
	if n.down {
		return next
	}
	return min(next, n.Instance.Poll(now))
}

// TxDone implements engine. An instance's stamps are reported by Send.
func (n *Node) TxDone(id uint64, at, now frame.Time) bool {
	return n.Switch != nil && n.Switch.TxDone(id, at, now)
}

// Send implements ptp.Lower.
func (n *Node) Send(port int, m ptp.Outgoing) {
	now := n.s.world.Now()
	carry := &n.ports[port].carry
	f := n.s.world.Pool.Get(carry.Len(m.Body))
	var hop ether.Addr
	if m.Dst.IP.IsValid() && !m.Dst.IsMulticast() {
		hop = n.hop(m.Dst.IP)
	}
	carry.Append(f.Extend(carry.Len(m.Body))[:0], m.Body, m.Dst, hop)
	stamp := n.Clock.At(now)
	if m.OneStep {
		transport.OneStep(f.Bytes(), stamp, m.Since)
	}
	n.ends[port].Transmit(f)
	if m.ID != 0 {
		n.stamps.sent(n, port, m.ID, stamp, now)
	}
}

// sample appends a point to the node's series.
func (n *Node) sample(now frame.Time, truth clock.Exact) {
	if n.Instance == nil {
		return
	}
	p := result.Point{
		At: time.Duration(now), True: n.Clock.Exact(now).Sub(truth), State: n.State().String(),
		Believed: math.NaN(), Delay: math.NaN(), Freq: float64(n.Clock.Frequency()) / 65.536,
	}
	if n.known && following(n.State()) {
		p.Believed, p.Delay = float64(n.belief.Offset), float64(n.belief.Delay)/65536
	}
	n.Series.Points = append(n.Series.Points, p)
}

// following tells that a port in state s follows a master.
func following(s msg.PortState) bool { return s == msg.StateSlave || s == msg.StateUncalibrated }

// State is the state of the port that follows a master or, without one, of
// the first.
func (n *Node) State() msg.PortState {
	for _, p := range n.ports {
		if following(p.state) {
			return p.state
		}
	}
	if len(n.ports) == 0 {
		return 0
	}
	return n.ports[0].state
}

// Drops are the frames that a port did not let through to the instance.
func (n *Node) Drops(port int) Drops { return n.ports[port].drops }

// observer receives the events of a node's instance.
type observer Node

// PortState implements ptp.Observer.
func (o *observer) PortState(port int, from, to msg.PortState, why string, now frame.Time) {
	o.ports[port].state = to
	if to == msg.StateUncalibrated && o.Heard == 0 {
		o.Heard = time.Duration(now)
	}
	o.s.log.port(now, o.ports[port].label, from.String()+" -> "+to.String(), why)
}

// Measured implements ptp.Observer.
func (o *observer) Measured(m ptp.Sample) {
	if !o.known || m.Servo != o.servo {
		o.s.log.servo(m.Now, o.ports[m.Port].label, o.servo, m)
	}
	o.belief, o.known, o.servo = m, true, m.Servo
}

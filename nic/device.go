// Package nic is the big picture: Device composes a port, the Ethernet and IP
// layers, the TCP offload engine, the RDMA objects and iWARP into one NIC.
//
// A Device is a pure state machine. Frames and the time go in through Receive,
// all output happens in Poll, which returns the next deadline, and handlers of
// applications run in Dispatch. It has no clock, goroutine or lock: a loop in
// real time, a lab in virtual time or a test script calls it on one thread.
//
// receive.go holds the way in, transmit.go the way out, in packet order.
package nic

import (
	"errors"
	"fmt"
	"net/netip"

	"tapir/nic/cm"
	"tapir/nic/iwarp"
	"tapir/nic/msglog"
	"tapir/nic/toe"
	"tapir/nic/verbs"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/icmp"
)

// Device is one NIC.
type Device struct {
	// Verbs and CM are the faces for applications: RDMA objects and
	// connections.
	Verbs *verbs.Device
	CM    *cm.Manager

	cfg       Config
	pool      frame.Pool
	stamping  stamping
	instance  *instance // of PTP; nil: none
	clock     func() frame.Time
	system    frame.Clock
	toe       *toe.Engine
	iwarp     *iwarp.Engine
	addrs     []netip.Prefix // configured and link-local
	groups    []ether.Addr   // multicast stations that we listen to
	allNodes  ether.Addr
	header    ether.Header // of our frames: source and tag
	permanent ether.Addr   // the station address at the start

	wire, host port // host.link is nil without a host TAP
	function   *function
	coupled    *engines // nil: there is one
	now        frame.Time
	stopped    bool // Shutdown was called
	polling    bool // inside Poll, when frames may leave
	in         inbound
	notes      frame.Notes
	log        msglog.Log
	tracer     frame.Tracer
	record     frame.Record

	looped        loopback
	neighbors     neighbors
	resolving     []*resolution
	redirects     []redirect
	fragments     reassembler
	limiter       limiter
	ipID          uint16
	fragID        uint32
	scratch       []byte
	drops         frame.Drops
	linkChanges   uint64
	conflicts     uint64 // messages of stations that use our address
	neighborsLost uint64
	lost          []lost
	icmpIn        uint64
	icmpOut       uint64

	timers     timers
	pollers    []*poller
	interrupts interrupts
	selftest   selftesting
	management management
	core       driverCore
	identify   identifying
	late       lateReceives
}

// allNodes is the group of all IPv6 stations on the link.
var allNodes = netip.MustParseAddr("ff02::1")

// New returns a NIC that lives in env. It sends nothing before LinkUp or the
// first frame.
func New(cfg Config, env Env) (*Device, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("NIC %s: %w", cfg.Name, err)
	}
	switch {
	case env.Pool == nil || env.Wire == nil:
		return nil, errors.New("nic: Env needs a Pool and a Wire link")
	case (env.Host == nil) != (env.Reserver == nil):
		return nil, errors.New("nic: Env needs both of Host and Reserver, or neither")
	}
	if env.Host == nil {
		if err := cfg.needHost(); err != nil {
			return nil, fmt.Errorf("NIC %s: %w", cfg.Name, err)
		}
	}
	if env.Clock == nil {
		env.Clock = engineClock{}
	}
	seed := cfg.seed()
	d := &Device{
		cfg: cfg, pool: env.Pool, clock: env.Now, system: env.Clock,
		addrs: cfg.addresses(), allNodes: icmp.MulticastMAC(allNodes),
		header:    ether.Header{Src: cfg.MAC},
		permanent: cfg.MAC,
		wire:      port{name: frame.Wire, link: env.Wire, gathers: frame.Gathers(env.Wire)},
		host:      port{name: frame.Host, link: env.Host},
		neighbors: neighbors{byIP: map[netip.Addr]*neighbor{}, next: frame.Never},
		ipID:      uint16(seed >> 7), fragID: uint32(seed >> 23),
	}
	if cfg.VLAN != 0 {
		d.header.NTags, d.header.Tags[0] = 1, ether.Tag{TPID: ether.TypeVLAN, TCI: cfg.VLAN}
	}
	d.setGroups()
	if err := d.stamping.init(&d.cfg, &env); err != nil {
		return nil, fmt.Errorf("NIC %s: %w", cfg.Name, err)
	}
	if err := d.compose(seed, env.Reserver); err != nil {
		return nil, fmt.Errorf("NIC %s: %w", cfg.Name, err)
	}
	if env.Host != nil {
		if err := d.newFunction(); err != nil {
			return nil, fmt.Errorf("NIC %s: %w", cfg.Name, err)
		}
	}
	if cfg.Engines > 1 {
		if err := d.newCoupled(env.Second); err != nil {
			return nil, fmt.Errorf("NIC %s: %w", cfg.Name, err)
		}
	}
	if err := d.composeMFW(env.Light); err != nil {
		return nil, fmt.Errorf("NIC %s: %w", cfg.Name, err)
	}
	return d, nil
}

// setGroups lists the multicast stations that stand for our addresses, and
// those of PTP.
func (d *Device) setGroups() {
	d.groups = nil
	for _, p := range d.addrs {
		if p.Addr().Is6() {
			d.groups = append(d.groups, icmp.MulticastMAC(icmp.SolicitedNode(p.Addr())))
		}
	}
	if d.instance != nil {
		d.groups = append(d.groups, d.instance.groups[0].GroupMAC(), d.instance.groups[1].GroupMAC())
	}
}

// Config returns the configuration with its defaults filled in.
func (d *Device) Config() Config { return d.cfg }

// TCP is the engine below iWARP, for those who want plain streams over the
// NIC: connections and listeners of theirs live beside those of CM.
func (d *Device) TCP() *toe.Engine { return d.toe }

// Addrs returns the addresses in use, the link-local one included, borrowed.
func (d *Device) Addrs() []netip.Prefix { return d.addrs }

// Poll does all output that is due and returns the time at which it wants to
// be called again, frame.Never if only a frame can change anything. While a
// link has no room it must be called again as soon as there is some.
func (d *Device) Poll(now frame.Time) frame.Time {
	d.now, d.polling = now, true
	d.timers.run(now)
	d.pollInterrupts()
	d.fragments.expire(d)
	d.pollNeighbors()
	d.flush(&d.wire)
	second := d.pollCoupled()
	if d.function != nil {
		d.function.poll(d)
	}
	d.reportLost()
	next := d.pollStamps() // before what fills the link
	d.iwarp.Poll(now)
	next = min(next, d.toe.Poll(now), d.iwarp.Deadline(), d.late.poll(d.Verbs, now), d.reportSent())
	d.polling = false
	if d.turnBack() || d.turnBackPort(&d.wire) || d.Verbs.Pending() || len(d.lost) > 0 || d.function.due(d) {
		return now
	}
	next = min(next, d.pollSelftest(now)) // it may schedule something
	return min(next, second, d.function.nextTx(), d.timers.next(), d.fragments.next(), d.neighbors.next)
}

// Dispatch runs the pollers and the queued handlers of applications and
// reports whether any handler ran.
func (d *Device) Dispatch(now frame.Time) bool {
	d.now = now
	for _, p := range d.pollers {
		p.fn(now)
	}
	return d.Verbs.Dispatch(now)
}

// TxDone reports when the wire frame with number id left, frame.Never if that
// is lost. True asks for another Poll: a stamp has changed what there is to do.
func (d *Device) TxDone(id uint64, at frame.Time) (again bool) {
	again = d.stamping.on && d.reported(id, at)
	if at != frame.Never {
		d.wire.stamped++
		d.wire.lastSent = at
	}
	return again
}

// SetTracer hands every frame that passes a port to t from now on; nil stops.
func (d *Device) SetTracer(t frame.Tracer) {
	t = d.coupled.setTracer(t)
	d.tracer = t
	d.notes.On = t != nil
	d.notes.Take()
}

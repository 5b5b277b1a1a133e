// Package fcf is the FCoE forwarder of the fabric switch (FC-BB-6): a fabric of
// Fibre Channel with one switch, whose ports are virtual links over Ethernet.
//
// A frame's way through it:
//
//  1. Receive: frames of FIP come in by their group address, or as those of FCoE by the MAC
//     address of the FCF. All others are bridged.
//  2. FIP: discovery of VLANs and of the FCF; logins, which give an N_Port its FC_ID and
//     its MAC address; keep-alives.
//  3. FCoE: the source must be a logged-in N_Port at the port and MAC address that it logged
//     in by. The fabric controller and the directory server answer what is for them; the
//     rest goes to the N_Port that D_ID names, with the MAC addresses of its virtual link.
//  4. Poll: advertisements; logins whose keep-alives are missing end; state changes are told.
//
// FCF is pure: Send takes out what it says itself, and Receive tells where a frame goes.
package fcf

import (
	"encoding/binary"
	"time"

	"tapir/lab/conf/swconf"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/fc"
	"tapir/wire/fcoe"
	"tapir/wire/fip"
	"tapir/wire/frame"
)

// Env is what an FCF lives in.
type Env struct {
	MAC   ether.Addr
	Ports int
	// Priority and FIPPriority are those of tagged frames that the FCF sends.
	Priority, FIPPriority uint8
	// Send sends a frame (borrowed) by a port.
	Send func(port int, b []byte, now frame.Time)
}

// Timers of the fabric (FC-FS-3, FC-BB-6 clause 7.9.8).
const (
	edTOV = 2 * time.Second
	raTOV = 10 * time.Second
	// vnPeriod is how often a VN_Port sends a keep-alive.
	vnPeriod = 90 * time.Second
)

// missing is after how long a sender of keep-alives, or of advertisements, is gone.
func missing(period time.Duration) time.Duration { return period * 5 / 2 }

// Counts counts what an FCF did.
type Counts struct {
	Advertisements, Solicitations, VLANRequests uint64
	FLOGIs, FDISCs, LOGOs                       uint64 // accepted
	Refused                                     uint64 // FLOGIs, FDISCs and LOGOs
	KeepAlives                                  uint64 // received
	Expired                                     uint64 // N_Ports without keep-alives
	Cleared                                     uint64 // N_Ports that a Clear Virtual Links named
	Queries, Rejected                           uint64 // of the directory server
	RSCNs, RSCNsLost                            uint64 // sent; given up after retries
	Frames, Octets                              uint64 // from N_Port to N_Port
}

// FCF is an FCoE forwarder. Its methods belong to the thread of the switch.
type FCF struct {
	cfg    swconf.FCF
	env    Env
	name   fc.WWN // of the switch
	nodes  []*node
	nports []*nport // ordered by FC_ID
	past   []lease
	down   []bool // by port
	counts Counts

	advertise frame.Time // when that is due
	due       frame.Time // no login or state change has to be looked at before
	oxid      uint16     // of the last exchange that the FCF began
	buf, body []byte     // scratch
}

// New returns the FCF of a configuration with its defaults.
func New(cfg swconf.FCF, env Env) *FCF {
	return &FCF{cfg: cfg, env: env, name: swconf.SwitchName(env.MAC), down: make([]bool, env.Ports), due: frame.Never}
}

// Where Receive wants a frame to go, unless it is a port.
const (
	Bridge = -1 // it is none of the FCF, or for others too
	Taken  = -2
)

// Receive looks at a frame (borrowed) that came in by a port. It returns the port that the
// frame goes out by, with MAC addresses that Receive has changed then, Bridge or Taken, or why
// it is dropped.
func (f *FCF) Receive(in int, b []byte, now frame.Time) (out int, why frame.DropReason) {
	h, n, err := ether.Parse(b)
	if err != nil || h.Type != fip.EtherType && h.Type != fcoe.EtherType {
		return Bridge, frame.DropNone
	}
	switch {
	case h.Src == f.env.MAC: // a loop, or a liar
		return Taken, drop.Source
	case h.Type == fip.EtherType:
		return f.fip(in, &h, b[n:], now)
	case h.Dst != f.env.MAC:
		return Bridge, frame.DropNone
	case !f.inVLAN(&h):
		return Taken, drop.WrongVLAN
	}
	return f.fcoe(in, &h, b, n, now)
}

// inVLAN tells that a frame is in the VLAN of the fabric.
func (f *FCF) inVLAN(h *ether.Header) bool { return vlan(h) == f.cfg.VLAN }

func vlan(h *ether.Header) uint16 {
	if h.NTags == 0 {
		return 0
	}
	return h.Tags[0].VID()
}

// fcoe takes a frame for the FCF.
func (f *FCF) fcoe(in int, h *ether.Header, b []byte, n int, now frame.Time) (out int, why frame.DropReason) {
	_, _, fr, err := fcoe.Parse(b[n:])
	switch err {
	case nil:
	case fcoe.ErrCRC:
		return Taken, drop.FCCRC
	default:
		return Taken, drop.Malformed
	}
	src, dst := fc.ID(binary.BigEndian.Uint32(fr[4:])&0xffffff), fc.ID(binary.BigEndian.Uint32(fr)&0xffffff)
	from := f.find(src)
	to := f.find(dst)
	switch {
	case from == nil:
		return Taken, drop.FCLogin
	case from.mac != h.Src || from.node.port != in:
		return Taken, drop.FCSource
	case dst.WellKnown():
		return Taken, f.serve(from, fr, now)
	case to == nil:
		return Taken, DropNoPort
	case !f.zoned(from, to):
		return Taken, DropZone
	}
	copy(b, to.mac[:])
	copy(b[6:], f.env.MAC[:])
	f.counts.Frames++
	f.counts.Octets += uint64(len(b))
	return to.node.port, frame.DropNone
}

// zoned tells that two N_Ports see each other.
func (f *FCF) zoned(a, b *nport) bool {
	if len(f.cfg.Zones) == 0 || a == b {
		return true
	}
	for _, z := range f.cfg.Zones {
		if z.Has(a.name) && z.Has(b.name) {
			return true
		}
	}
	return false
}

// Poll does what is due and returns the next deadline.
func (f *FCF) Poll(now frame.Time) frame.Time {
	if now >= f.advertise {
		for port := range f.down {
			f.announce(port, now)
		}
		f.advertise = now.Add(f.cfg.Period)
	}
	if now >= f.due {
		f.expire(now)
		f.tell(now)
		f.due = f.next()
	}
	return min(f.advertise, f.due)
}

// wake has Poll look at logins and state changes at a time.
func (f *FCF) wake(at frame.Time) { f.due = min(f.due, at) }

// next is when Poll has to do that again, if nothing else happens.
func (f *FCF) next() (at frame.Time) {
	at = frame.Never
	for _, n := range f.nodes {
		at = min(at, n.until)
	}
	for _, p := range f.nports {
		at = min(at, p.until, p.changes.next())
	}
	return at
}

// SetLink tells whether a port has a link. Without, its logins end.
func (f *FCF) SetLink(port int, up bool, now frame.Time) {
	was := !f.down[port]
	f.down[port] = !up
	switch {
	case up && !was:
		f.announce(port, now)
	case !up && was:
		f.endAll(func(n *node) bool { return n.port == port }, now)
	}
}

// Leave clears all virtual links.
func (f *FCF) Leave(now frame.Time) {
	for _, n := range f.nodes {
		f.clear(n, now, n.nports...)
	}
	f.endAll(func(*node) bool { return true }, now)
}

// Counts are what was counted.
func (f *FCF) Counts() Counts { return f.counts }

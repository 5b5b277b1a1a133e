// Package swconf is the configuration of the fabric switch: the flags of `tapir
// sw` and the entries of a switches.yaml.
package swconf

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"net/netip"
	"path"
	"slices"
	"time"

	"tapir/lab/conf"
	"tapir/nic/dcbx"
	"tapir/nic/linkmode"
	"tapir/nic/tap"
	"tapir/ptp"
	"tapir/ptp/clock"
	"tapir/ptp/msg"
	"tapir/ptp/transport"
	"tapir/wire/enum"
	"tapir/wire/ether"
)

// Mode is what a switch does with PTP messages.
type Mode uint8

// Modes of a switch.
const (
	Plain          Mode = iota // forwards them like any others
	E2ETransparent             // corrects Syncs and Delay_Reqs
	P2PTransparent             // corrects Syncs, measures its links
	Boundary                   // ends them: slave on one port, master on the others
	numModes
)

var modeNames = [numModes]string{"plain", "e2e-tc", "p2p-tc", "bc"}

func (m Mode) String() string {
	return enum.Name(modeNames[:], m, "unknown")
}

// ParseMode reads the name of a mode.
func ParseMode(s string) (Mode, error) {
	return enum.Parse[Mode](modeNames[:], s, "mode %q: there are plain, e2e-tc, p2p-tc and bc")
}

// Config describes a switch, as the flags of `tapir sw` and the entries of a
// switches.yaml do. The zero value of every field means its default.
type Config struct {
	Name  string // default sw0
	Mode  Mode
	Ports []PortConfig // at least two

	Delay Delay // of every egress queue
	Queue int   // frames that an egress queue holds; default 512. PFC bounds its priorities itself
	// Speed is the fastest that a port has; 0: 100 Gb/s. Pause: ports send PAUSE frames
	// and obey them, where there is nobody to agree with.
	Speed linkmode.Speeds
	Pause bool
	// Packets of Omni-Path that meet congestion get FECN. FECNThreshold is 0 for none,
	// else from 1, for an egress queue that is nearly full, to 15, for one that is a
	// sixteenth full. Packets of fewer octets than FECNSize are left alone, and so are
	// FECNRate packets after each that was marked.
	FECNThreshold, FECNSize, FECNRate int

	// Queues are the traffic classes of each port, each with an egress queue.
	Queues
	// LLDP tells neighbors of the switch, and DCBX agrees with them on the traffic classes.
	LLDP LLDP
	Routing
	FCF FCF // the fabric of Fibre Channel over Ethernet
	// ECN has packets of IP whose sender is ECN-capable marked; ports may have numbers of
	// their own.
	ECN ECN

	Seed   uint64 // of the delays and marks
	Ageing time.Duration
	MACs   int // addresses that are learned at most; default 4096
	// GroupFwdMask lets the link-local group 01-80-C2-00-00-0n pass if bit n is
	// set, as group_fwd_mask of a Linux bridge does. Groups 00 to 02 never do.
	GroupFwdMask uint16

	// Of a transparent or boundary clock.
	OneStep        bool // messages are corrected as they leave, not by a Follow_Up
	Syntonize      bool // residence in the unit of the master's clock
	Domain         uint8
	PdelayInterval int8           // log2 of s
	Transport      transport.Kind // of messages of its own
	IP             netip.Addr     // their source on UDP; default a link-local one
	Hardware       clock.Config   // the clock's faults; Start and Initial are filled in
	// PTP configures a boundary clock; the first of its Ports stands for those
	// that are not given. Nil: the default profile.
	PTP *ptp.Config
}

// PortConfig describes one port.
type PortConfig struct {
	Name      string // default the TAP's with its namespace, or port0 and so on
	TAP       string // made or found
	TAPFD     int    // a ready descriptor, taken over
	Wire      string // in place of a TAP: a text that wires.Check accepts
	Delay     *Delay // instead of the switch's
	Asymmetry time.Duration
	ECN       ECN    // what is not 0 stands instead of the switch's
	Netns     string // namespace of this TAP: a name of ip netns, or a path; empty: the switch's
}

// ECN says when an egress queue marks packets with CE (RFC 3168), as DCQCN's paper has it:
// never while at most Kmin octets wait, always beyond Kmax, and between them by a chance
// that rises to Pmax.
type ECN struct {
	Kmin, Kmax int // octets; Kmax 0: nothing is marked
	Pmax       int // parts per million
}

// PortBits is how many bits the number of a port takes.
const PortBits = 12

// Bounds and defaults.
const (
	maxPorts       = 1 << PortBits
	defaultQueue   = 512
	neverForwarded = 7 // of GroupFwdMask
	fecnSteps      = 16
)

func (c Config) WithDefaults() Config {
	c.Name, c.Queue = cmp.Or(c.Name, "sw0"), cmp.Or(c.Queue, defaultQueue)
	c.LLDP = c.LLDP.withDefaults()
	c.Queues = c.Queues.withDefaults(c.LLDP.DCBX != dcbx.Disabled)
	c.FCF = c.FCF.withDefaults(c.FCFMAC())
	c.Ports = slices.Clone(c.Ports)
	for i := range c.Ports {
		p := &c.Ports[i]
		if p.Name == "" && p.Netns != "" {
			p.Name = p.TAP + "@" + path.Base(p.Netns)
		}
		p.Name = cmp.Or(p.Name, p.TAP, p.Wire, fmt.Sprint("port", i))
	}
	return c
}

// Validate tells the first thing that is wrong with c, in one line.
func (c Config) Validate() error {
	c = c.WithDefaults()
	ofPTP, ports, apps := 1, len(c.Ports), len(c.Administered().Apps)
	if c.PTP != nil {
		ofPTP = len(c.PTP.Ports)
	}
	problem := cmp.Or(
		conf.Problem(ports < 2 || ports > maxPorts, "%d ports: a switch has 2 to %d, such as --port tap0 --port tap1",
			ports, maxPorts),
		conf.Problem(c.Mode >= numModes, "mode %d: there are %d", c.Mode, numModes),
		conf.Problem(c.Mode == Plain && (c.OneStep || c.Syntonize),
			"one_step and syntonize are of clocks: choose another mode than plain"),
		conf.Problem(c.Mode == Boundary && c.Syntonize,
			"syntonize is of transparent clocks: a boundary clock follows its master in any case"),
		c.Queues.problem(),
		c.LLDP.problem(),
		c.Routing.problem(&c),
		c.FCF.problem(&c),
		conf.Problem(c.LLDP.DCBX != dcbx.Disabled && apps > dcbx.MaxApps,
			"dcb_app and dscp_prio: %d entries; the application table has room for %d", apps, dcbx.MaxApps),
		conf.Problem(c.ECN.Kmin > c.ECN.Kmax, "ecn_kmin %d is beyond ecn_kmax %d", c.ECN.Kmin, c.ECN.Kmax),
		conf.Problem(c.Queue < 1 || c.Queue > 1<<16, "queue %d: 1 to 65536 frames", c.Queue),
		conf.Problem(c.GroupFwdMask&neverForwarded != 0, "group_fwd_mask: groups 00 to 02 are never forwarded"),
		conf.Problem(c.IP.IsValid() &&
			(c.Transport == transport.Ethernet || c.IP.Is4() != (c.Transport == transport.UDPv4)),
			"ip %v does not go with transport %v", c.IP, c.Transport),
		conf.Problem(ofPTP < 1 || ofPTP > ports, "ptp: %d ports of %d are configured", ofPTP, ports),
	)
	for i, p := range c.Ports {
		if slices.ContainsFunc(c.Ports[:i], func(o PortConfig) bool { return o.Name == p.Name }) {
			problem = fmt.Sprintf("two ports are called %s", p.Name)
		}
		low, high := cmp.Or(p.ECN.Kmin, c.ECN.Kmin), cmp.Or(p.ECN.Kmax, c.ECN.Kmax)
		if low > high {
			problem = fmt.Sprintf("port %s: ecn_kmin %d is beyond ecn_kmax %d", p.Name, low, high)
		}
		if err := tap.CheckName(p.TAP); err != nil {
			problem = err.Error()
		}
	}
	if problem != "" {
		return fmt.Errorf("%s: %s", c.Name, problem)
	}
	return nil
}

// Ability is what a port offers to the other end of its cable: all speeds up to its
// own, pause, and EEE.
func (c *Config) Ability() linkmode.Ability {
	a := linkmode.Ability{EEE: linkmode.AllEEE}
	for s := linkmode.Speeds(1); s <= linkmode.AllSpeeds; s <<= 1 {
		if c.Speed == 0 || s.Mbps() <= c.Speed.Mbps() {
			a.Speeds |= s
		}
	}
	return a
}

// Congested tells whether an egress queue of a size with that many frames is congested, by
// a threshold from 1 to 15.
func Congested(threshold, frames, size int) bool {
	return frames*fecnSteps >= (fecnSteps-threshold)*size
}

// ControlName is the name of the switch's control socket.
func (c *Config) ControlName() string { return c.WithDefaults().Name }

// Forwards tells whether frames to dst may leave by another port: link-local
// groups may not (IEEE 802.1Q section 8.6.3), unless GroupFwdMask says so.
func (c *Config) Forwards(dst ether.Addr) bool {
	if [5]byte(dst[:5]) != [5]byte{0x01, 0x80, 0xc2, 0, 0} || dst[5] > 0x0f {
		return true
	}
	return c.GroupFwdMask>>dst[5]&1 != 0
}

// MAC is the address of a port: locally administered, made of the switch's
// name.
func (c *Config) MAC(port int) ether.Addr {
	h := fnv.New32a()
	h.Write([]byte(c.Name))
	a := ether.Addr{0x02, 0x53}
	binary.BigEndian.PutUint32(a[2:], h.Sum32())
	a[5] += uint8(port)
	return a
}

// Identity is that of the switch's clock.
func (c *Config) Identity() msg.ClockIdentity { return msg.IdentityOf(c.MAC(0)) }

// Carriage is that of a port's own messages.
func (c *Config) Carriage(port int) transport.Port {
	local := c.PTP != nil && (c.PTP.Profile == ptp.GPTP || c.PTP.Profile == ptp.Automotive)
	return transport.Port{Kind: c.Transport, MAC: c.MAC(port), IP: c.ip(port), Local: local}
}

// ip is the source address of a port's own messages.
func (c *Config) ip(port int) netip.Addr {
	if c.IP.IsValid() {
		return c.IP
	}
	mac := c.MAC(port)
	if c.Transport == transport.UDPv6 {
		a := [16]byte{0: 0xfe, 1: 0x80, 8: mac[0] ^ 2, 9: mac[1], 10: mac[2], 11: 0xff, 12: 0xfe, 13: mac[3],
			14: mac[4], 15: mac[5]}
		return netip.AddrFrom16(a)
	}
	return netip.AddrFrom4([4]byte{169, 254, 1 + mac[4]%254, mac[5]}) // RFC 3927
}

// Instance is the configuration of the boundary clock: that of the first port
// stands for those that are not given.
func (c *Config) Instance() ptp.Config {
	cfg := ptp.NewConfig(ptp.DefaultE2E, c.Identity(), len(c.Ports))
	if c.PTP != nil {
		cfg = *c.PTP
		cfg.Ports = slices.Clone(cfg.Ports)
		for len(cfg.Ports) < len(c.Ports) {
			cfg.Ports = append(cfg.Ports, cfg.Ports[0])
		}
	}
	cfg.ClockIdentity = cmp.Or(cfg.ClockIdentity, c.Identity())
	cfg.Seed, cfg.Domain = cmp.Or(cfg.Seed, c.Seed), cmp.Or(c.Domain, cfg.Domain)
	for i := range cfg.Ports {
		if a := c.Ports[i].Asymmetry; a != 0 {
			cfg.Ports[i].DelayAsymmetry = msg.IntervalOf(a)
		}
	}
	cfg.TwoStep = cfg.TwoStep && !c.OneStep
	return cfg
}

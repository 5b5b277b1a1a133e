// Package tc is a transparent clock (IEEE 1588-2019 clause 10): it measures how
// long event messages stay in a switch and puts that into their
// correctionField, or into that of the general message that belongs to them.
// End-to-end and peer-to-peer, one and two steps, on Ethernet and UDP; all
// other octets of a message, unknown TLVs too, stay what they are.
//
// The switch shows it every frame that comes in (Receive) and hands it those
// that it tagged, or copies of them, as they leave (Depart). It does no I/O
// and owns no clock; frames leave through Lower.
package tc

import (
	"fmt"
	"time"

	"tapir/ptp/msg"
	"tapir/ptp/transport"
	"tapir/wire/frame"
)

// Config describes a transparent clock. DefaultConfig has good values.
type Config struct {
	Identity msg.ClockIdentity
	Ports    []PortConfig
	// PeerDelay makes it a peer-to-peer clock: it measures the delay of its
	// links, adds that of the ingress link to Syncs, and neither passes on
	// Pdelay messages nor Delay_Req.
	PeerDelay bool
	// OneStep corrects event messages as they leave; Env.Clock must then show
	// the true time of departure. Otherwise a Sync's residence goes into its
	// Follow_Up and a Delay_Req's into its Delay_Resp.
	OneStep bool
	// Syntonize expresses residence times in the unit of the clock whose Syncs
	// pass in Domain, not in that of the own oscillator.
	Syntonize bool
	Domain    uint8  // of syntonisation and of the own Pdelay messages
	SdoID     uint16 // of the same; 12 bits
	// LogPdelayInterval is the interval of the own Pdelay_Reqs, log2 of s.
	LogPdelayInterval int8

	Entries  int           // event messages whose residence is kept
	Expiry   time.Duration // for how long
	Held     int           // general messages that wait for a residence
	HoldTime time.Duration // for how long
}

// PortConfig describes one port.
type PortConfig struct {
	Carriage transport.Port // of the own messages
	// DelayAsymmetry is how much longer than the mean the way in is; it is
	// added on ingress and subtracted on egress (section 11.6).
	DelayAsymmetry msg.TimeInterval
}

// DefaultConfig is a two-step end-to-end clock that runs free.
func DefaultConfig(identity msg.ClockIdentity, ports []PortConfig) Config {
	return Config{Identity: identity, Ports: ports, Entries: 1024, Expiry: 4 * time.Second, Held: 64,
		HoldTime: 200 * time.Millisecond}
}

// Validate tells the first thing that is wrong with c.
func (c *Config) Validate() error {
	switch {
	case len(c.Ports) < 2 || len(c.Ports) > 0xfffe:
		return fmt.Errorf("transparent clock: %d ports, at least 2", len(c.Ports))
	case c.Identity == msg.ClockIdentity{} || c.Identity == msg.AllClocks:
		return fmt.Errorf("transparent clock: clock identity %v is reserved", c.Identity)
	case c.SdoID > 0xfff:
		return fmt.Errorf("transparent clock: sdoId %#x has more than 12 bits", c.SdoID)
	case c.LogPdelayInterval < -7 || c.LogPdelayInterval > 5:
		return fmt.Errorf("transparent clock: Pdelay interval: 2^%d s is not in 2^-7..2^5 s", c.LogPdelayInterval)
	case c.Entries < 1 || c.Held < 1 || c.Expiry <= 0 || c.HoldTime <= 0:
		return fmt.Errorf("transparent clock: entries, expiry, held frames and hold time must be positive")
	}
	for i := range c.Ports {
		if err := c.Ports[i].Carriage.Validate(); err != nil && c.PeerDelay {
			return fmt.Errorf("transparent clock: port %d: %w", i+1, err)
		}
	}
	return nil
}

// Env is what a clock lives in.
type Env struct {
	Pool  frame.Pool
	Clock frame.Clock
	Lower Lower
}

// Lower sends frames.
type Lower interface {
	// Send takes f out of a port. If f.ID is not 0, TxStamp is to be told when
	// it left, once.
	Send(port int, f *frame.Frame)
}

// Counts counts what a clock did.
type Counts struct {
	Corrected  uint64 // messages whose correctionField was changed
	Made       uint64 // Follow_Ups made for one-step messages
	HeldFrames uint64 // general messages that had to wait
	Unstamped  uint64 // event messages without ingress stamp, dropped
	LostStamps uint64 // egress stamps that never came
	Duplicates uint64 // event messages that have passed before
	Unmatched  uint64 // general messages without a residence, dropped
	HoldFull   uint64 // of these, because too many waited
	NoDelay    uint64 // Syncs on a link whose delay is not known yet, dropped
	Evicted    uint64 // residences pushed out by newer ones
	Malformed  uint64 // PTP messages that cannot be read, passed on as they are
	Pdelay     PdelayCounts
}

// Verdict is what is to be done with a received frame.
type Verdict uint8

const (
	// Forward it. Unless the tag is zero it must come back through Depart.
	Forward Verdict = iota
	// Consumed: it was for the clock.
	Consumed
	// Discard it: its time cannot be told, or peer-to-peer clocks do not pass
	// it on.
	Discard
)

// Tag is what Receive found out about a frame. It goes with every copy of it.
type Tag struct {
	event   bool // an event message; else one that takes a residence
	ingress int
	at      frame.Stamp
	key     key // egress is filled in by Depart
	extra   msg.TimeInterval
}

// IsZero reports whether the frame is none of the clock's business.
func (t Tag) IsZero() bool { return t == Tag{} }

// Clock is a transparent clock. Ports count from 0.
type Clock struct {
	cfg    Config
	env    Env
	table  table
	held   []hold
	made   []uint64 // records whose Follow_Up can leave
	follow syntonizer
	links  []link
	counts Counts
	body   []byte // of the message in hand
	frame  []byte
}

// New returns a clock.
func New(cfg Config, env Env) (*Clock, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Clock{cfg: cfg, env: env, table: newTable(cfg.Entries, cfg.Expiry)}
	return c, c.openLinks()
}

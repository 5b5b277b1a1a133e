package ptp

import (
	"fmt"
	"time"

	"tapir/ptp/bmca"
	"tapir/ptp/discipline"
	"tapir/ptp/msg"
	"tapir/ptp/timescale"
	"tapir/ptp/unicast"
)

// Role fixes a port's state without BMCA (IEEE 802.1AS externalPortConfiguration,
// Avnu automotive profile).
type Role uint8

const (
	Dynamic    Role = iota // BMCA decides
	MasterRole             // always MASTER
	SlaveRole              // always SLAVE, of whoever sends Syncs
)

const (
	// MaxPorts is how many ports an instance may have.
	MaxPorts = 1024
	// Intervals lie between these powers of two of a second.
	MinLogInterval, MaxLogInterval = -10, 15
)

// Config describes a PTP instance. NewConfig fills one with a profile's
// values; New checks it.
type Config struct {
	Profile       Profile
	ClockIdentity msg.ClockIdentity
	Domain        uint8  // domainNumber
	SdoID         uint16 // majorSdoId in bits 8-11, minorSdoId below
	// MinorVersion is sent as minorVersionPTP: 0 for IEEE 1588-2008 receivers
	// that refuse 2.1. What others send there is ignored.
	MinorVersion  uint8
	Priority1     uint8
	Priority2     uint8
	LocalPriority uint8 // of the clock; telecom profiles
	Quality       msg.ClockQuality
	// GrandmasterCapable clocks may be grandmaster (gmCapable of IEEE 802.1AS).
	// A boundary clock that is not still is master of those behind it.
	GrandmasterCapable bool
	// SlaveOnly instances never become master.
	SlaveOnly bool
	// TwoStep sends Follow_Ups. Otherwise Syncs are one-step, which Lower must
	// be able to stamp. Both are received in any case.
	TwoStep bool
	// P2POneStep answers Pdelay_Req in one step.
	P2POneStep bool
	// FreeRunning measures and never touches the clock.
	FreeRunning bool

	Algorithm        bmca.Algorithm
	ForeignThreshold int    // Announces that qualify a master: 2, or 1 in IEEE 802.1AS
	MaxStepsRemoved  uint16 // Announces at least so far away are refused
	MaxClockClass    uint8  // grandmasters of a higher clockClass are refused
	PathTrace        bool   // PATH_TRACE TLVs are checked and extended
	// Power, if its Year is not 0, goes with the Announces of a grandmaster
	// (IEEE C37.238); of a boundary clock, what the grandmaster said does.
	Power           msg.Power
	FollowUpInfo    bool          // Follow_Ups carry the information TLV of IEEE 802.1AS
	HoldoverTime    time.Duration // how long a clock that lost its master keeps HoldoverQuality; 0 never
	HoldoverQuality msg.ClockQuality
	Time            timescale.Properties // what this clock says of its time as grandmaster
	Description     string               // user description, at most 128 octets

	Servo  discipline.Config
	Ports  []PortConfig
	Limits Limits
	// Seed makes the random parts of intervals and timeouts repeatable.
	Seed uint64
}

// PortConfig describes one port of an instance. Intervals are log2 of seconds.
type PortConfig struct {
	DelayMechanism msg.DelayMechanism
	// AutoDelay begins with E2E, whatever DelayMechanism says, and changes to P2P
	// when the neighbor sends a Pdelay_Req.
	AutoDelay bool
	Role      Role
	// MasterOnly ports never become slave (masterOnly, G.8275.1 notSlave).
	MasterOnly    bool
	Disabled      bool  // starts in state DISABLED
	LocalPriority uint8 // telecom profiles

	LogAnnounceInterval     int8
	LogSyncInterval         int8
	LogMinDelayReqInterval  int8
	LogMinPdelayReqInterval int8
	AnnounceReceiptTimeout  uint8 // announce intervals
	SyncReceiptTimeout      uint8 // sync intervals; 0 not watched

	DelayAsymmetry msg.TimeInterval // added to what comes in: the way in is longer than the mean by this
	IngressLatency msg.TimeInterval // from the time-stamp point to the stamp; subtracted from what comes in
	EgressLatency  msg.TimeInterval // from the stamp to the time-stamp point; added to what goes out

	Unicast unicast.Config
	// NoMulticast masters send Announce and Sync to unicast clients only.
	NoMulticast bool
	// HybridE2E sends Delay_Req by unicast to the master, and answers such requests
	// without a grant.
	HybridE2E bool
	// AsCapable is a link known to be capable (IEEE 802.1AS), without measuring.
	AsCapable bool
	// NeighborPropDelayThresh is the longest link that is asCapable (IEEE
	// 802.1AS); 0 lets every link be.
	NeighborPropDelayThresh time.Duration
	// OperLogSyncInterval is what a slave that has locked asks its master for,
	// and OperLogPdelayReqInterval what it then uses itself;
	// msg.IntervalUnchanged for neither (Avnu automotive).
	OperLogSyncInterval, OperLogPdelayReqInterval int8
	AllowedLostResponses                          uint8 // Pdelay exchanges in a row that may fail

	TxTimestampTimeout time.Duration // until a stamp that does not come is lost
	FaultReset         time.Duration // from FAULTY to the next try; 0 stays
}

// Limits bound what others can make an instance do.
type Limits struct {
	RequestRate int // Delay_Req and Pdelay_Req answered per second and port
	Requests    int // answers waiting for Poll, per port
}

// Validate tells the first thing that is wrong with c.
func (c *Config) Validate() error {
	switch {
	case c.Profile >= numProfiles:
		return fmt.Errorf("profile: unknown value %d", c.Profile)
	case c.ClockIdentity == (msg.ClockIdentity{}) || c.ClockIdentity == msg.AllClocks:
		return fmt.Errorf("clock identity: %v is reserved", c.ClockIdentity)
	case c.SdoID > 0xfff:
		return fmt.Errorf("sdoId: %#x has more than 12 bits", c.SdoID)
	case c.MinorVersion > 15:
		return fmt.Errorf("minor version: %d has more than 4 bits", c.MinorVersion)
	case c.MaxStepsRemoved < 2 || c.MaxStepsRemoved > 255:
		return fmt.Errorf("max steps removed: %d is not in 2..255", c.MaxStepsRemoved)
	case c.ForeignThreshold < 1 || c.ForeignThreshold > bmca.Window:
		return fmt.Errorf("foreign master threshold: %d is not in 1..%d", c.ForeignThreshold, bmca.Window)
	case c.Algorithm > bmca.Telecom:
		return fmt.Errorf("data set comparison: unknown value %d", c.Algorithm)
	case c.SlaveOnly && c.Quality.Class < 128:
		return fmt.Errorf("clockClass %d is of a clock that is never slave, but it is slave-only", c.Quality.Class)
	case c.Power.Year != 0 && c.Power.Year != 2011 && c.Power.Year != 2017:
		return fmt.Errorf("power profile: there are those of 2011 and 2017, not of %d", c.Power.Year)
	case c.HoldoverTime < 0:
		return fmt.Errorf("holdover time: %v is negative", c.HoldoverTime)
	case len(c.Description) > 128:
		return fmt.Errorf("description: %d octets, at most 128", len(c.Description))
	case len(c.Ports) == 0 || len(c.Ports) > MaxPorts:
		return fmt.Errorf("ports: %d, must be 1..%d", len(c.Ports), MaxPorts)
	case c.SlaveOnly && len(c.Ports) > 1:
		return fmt.Errorf("ports: a slave-only clock has one, not %d", len(c.Ports))
	case c.Limits.RequestRate < 1 || c.Limits.Requests < 1 || c.Limits.Requests > 1<<16:
		return fmt.Errorf("limits: request rate %d and queue %d must be positive, the queue at most 65536",
			c.Limits.RequestRate, c.Limits.Requests)
	}
	if err := c.checkProfile(); err != nil {
		return err
	}
	for i := range c.Ports {
		if err := c.Ports[i].validate(c); err != nil {
			return fmt.Errorf("port %d: %w", i+1, err)
		}
	}
	return nil
}

// checkProfile checks what a profile prescribes and others leave open.
func (c *Config) checkProfile() error {
	switch {
	case c.Profile.is8021as() && c.SdoID>>8 != 1:
		return fmt.Errorf("profile %v: majorSdoId is 1, not %d", c.Profile, c.SdoID>>8)
	case c.Profile == G8275x1 && (c.Domain < 24 || c.Domain > 43):
		return fmt.Errorf("profile %v: domain %d is not in 24..43", c.Profile, c.Domain)
	case c.Profile == G8275x2 && (c.Domain < 44 || c.Domain > 63):
		return fmt.Errorf("profile %v: domain %d is not in 44..63", c.Profile, c.Domain)
	case c.Profile.telecom() && c.Priority1 != 128:
		return fmt.Errorf("profile %v: priority1 is 128, not %d", c.Profile, c.Priority1)
	case c.Profile.telecom() && c.LocalPriority == 0:
		return fmt.Errorf("profile %v: local priority 0 is reserved", c.Profile)
	}
	return nil
}

func (p *PortConfig) validate(c *Config) error {
	for _, iv := range []struct {
		name string
		log  int8
	}{
		{"announce interval", p.LogAnnounceInterval}, {"sync interval", p.LogSyncInterval},
		{"delay request interval", p.LogMinDelayReqInterval},
		{"peer delay request interval", p.LogMinPdelayReqInterval},
	} {
		if iv.log < MinLogInterval || iv.log > MaxLogInterval {
			return fmt.Errorf("%s: 2^%d s is not in 2^%d..2^%d s", iv.name, iv.log, MinLogInterval, MaxLogInterval)
		}
	}
	switch p.DelayMechanism {
	case msg.DelayE2E, msg.DelayP2P, msg.DelayNone:
	default:
		return fmt.Errorf("delay mechanism: unknown value %#x", uint8(p.DelayMechanism))
	}
	if err := p.Unicast.Validate(); err != nil {
		return err
	}
	switch {
	case c.Profile.is8021as() && p.DelayMechanism != msg.DelayP2P:
		return fmt.Errorf("profile %v: the delay mechanism is P2P", c.Profile)
	case p.AnnounceReceiptTimeout < 2:
		return fmt.Errorf("announce receipt timeout: %d intervals, at least 2", p.AnnounceReceiptTimeout)
	case p.Role > SlaveRole:
		return fmt.Errorf("role: unknown value %d", p.Role)
	case p.Role == MasterRole && c.SlaveOnly, p.MasterOnly && c.SlaveOnly:
		return fmt.Errorf("a port of a slave-only clock cannot be master only")
	case p.Role == SlaveRole && p.MasterOnly:
		return fmt.Errorf("role slave and master only exclude each other")
	case p.HybridE2E && p.DelayMechanism != msg.DelayE2E:
		return fmt.Errorf("hybrid E2E needs the E2E delay mechanism")
	case p.TxTimestampTimeout <= 0:
		return fmt.Errorf("tx timestamp timeout: %v is not positive", p.TxTimestampTimeout)
	case p.FaultReset < 0, p.NeighborPropDelayThresh < 0:
		return fmt.Errorf("fault reset and neighbor propagation delay threshold cannot be negative")
	}
	return nil
}

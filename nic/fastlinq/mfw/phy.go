package mfw

import "tapir/nic/linkmode"

// PHYConfig is what a driver wants of its port (eth_phy_cfg), 20 octets,
// little-endian.
type PHYConfig struct {
	Speed     uint32 // Mb/s; 0: negotiate
	Pause     Pause
	Advertise Speeds
	Loopback  Loopback
	EEE       EEEConfig
}

// Pause are the pause bits of a PHYConfig.
type Pause uint32

// The bits. With PauseAutoneg the others are what is advertised.
const (
	PauseAutoneg Pause = 1 << iota
	PauseRx
	PauseTx
)

// EEEConfig are the EEE bits of a PHYConfig, the LPI timer in us in the upper
// 28.
type EEEConfig uint32

// The bits.
const (
	EEEEnabled EEEConfig = 1 << iota
	EEETxLPI
	EEEAdv1G
	EEEAdv10G
	eeeTimerShift = 4
)

// EEETimerMax is the longest LPI timer, in us.
const EEETimerMax = 1<<28 - 1

// Presets of the LPI timer, in us.
const (
	EEETimerBalanced   = 0xa00
	EEETimerAggressive = 0x100
	EEETimerLatency    = 0x6000
)

// WithTimer is c with an LPI timer in us.
func (c EEEConfig) WithTimer(us uint32) EEEConfig {
	return c&(1<<eeeTimerShift-1) | EEEConfig(us<<eeeTimerShift)
}

// Timer is the LPI timer in us.
func (c EEEConfig) Timer() uint32 { return uint32(c >> eeeTimerShift) }

// eeeSpeeds are the two speeds that EEE knows, in each of its notations.
var eeeSpeeds = [...]struct {
	adv   EEEConfig
	caps  EEECaps
	speed Speeds
}{{EEEAdv1G, linkmode.EEE1G, linkmode.Speed1G}, {EEEAdv10G, linkmode.EEE10G, linkmode.Speed10G}}

// Caps are the speeds that the bits of c name, whether EEE is enabled or not.
func (c EEEConfig) Caps() (caps EEECaps) {
	for _, e := range eeeSpeeds {
		if c&e.adv != 0 {
			caps |= e.caps
		}
	}
	return caps
}

// adv is what is advertised.
func (c EEEConfig) adv() EEECaps {
	if c&EEEEnabled == 0 {
		return 0
	}
	return c.Caps()
}

// PHYConfigLen is the length of an encoded PHYConfig.
const PHYConfigLen = 20

// Encode writes the configuration.
func (c *PHYConfig) Encode(b []byte) { encode(b, c) }

// DecodePHYConfig reads a configuration.
func DecodePHYConfig(b []byte) PHYConfig { return decode[PHYConfig](b) }

// Bits of Port.LinkStatus.
const (
	LinkUp             = 0x1
	linkSpeedShift     = 1
	linkSpeedMask      = 0x1e
	linkAutoneg        = 0x20
	linkAutonegDone    = 0x40
	linkParallel       = 0x80
	linkPFC            = 0x100
	linkPartnerHalf    = 0x400
	linkPartnerPause   = 18
	linkSFPFault       = 0x100000
	linkTxPause        = 0x200000
	linkRxPause        = 0x400000
	linkSignal         = 0x800000
	linkLocalFault     = 0x1000000
	linkUnsupported    = 0x4000000
	linkPartnerPauseIs = 3
	codeHalfDuplex     = 1 // speed: 1G, half duplex
)

// LinkStatus is Port.LinkStatus taken apart.
type LinkStatus struct {
	Up, Autoneg, AutonegDone, ParallelDetection, PFC bool
	Speed                                            uint32 // Mb/s
	HalfDuplex                                       bool
	Partner                                          PartnerSpeeds
	PartnerPause                                     uint8 // 0 none, 1 symmetric, 2 asymmetric, 3 both
	SFPFault, TxPause, RxPause, Signal               bool
	LocalFault, UnsupportedSpeed                     bool
}

// flags are the fields of a link status that have one bit.
func (s *LinkStatus) flags() map[uint32]*bool {
	return map[uint32]*bool{
		LinkUp: &s.Up, linkAutoneg: &s.Autoneg, linkAutonegDone: &s.AutonegDone, linkParallel: &s.ParallelDetection,
		linkPFC: &s.PFC, linkSFPFault: &s.SFPFault, linkTxPause: &s.TxPause, linkRxPause: &s.RxPause,
		linkSignal: &s.Signal, linkLocalFault: &s.LocalFault, linkUnsupported: &s.UnsupportedSpeed,
	}
}

// DecodeLinkStatus takes a link status apart.
func DecodeLinkStatus(w uint32) LinkStatus {
	s := LinkStatus{PartnerPause: uint8(w >> linkPartnerPause & linkPartnerPauseIs)}
	for bit, on := range s.flags() {
		*on = w&bit != 0
	}
	code := w & linkSpeedMask >> linkSpeedShift
	if code == codeHalfDuplex {
		s.Speed, s.HalfDuplex = 1000, true
	}
	for _, e := range speeds {
		if e.code == code {
			s.Speed = e.bit.Mbps()
		}
		if w&e.status != 0 {
			s.Partner |= e.partner
		}
	}
	if w&linkPartnerHalf != 0 {
		s.Partner |= Partner1GHalf
	}
	return s
}

// encode is the reverse.
func (s *LinkStatus) encode() (w uint32) {
	w = uint32(s.PartnerPause)<<linkPartnerPause | b2u(s.Partner&Partner1GHalf != 0)*linkPartnerHalf
	for bit, on := range s.flags() {
		w |= b2u(*on) * bit
	}
	for _, e := range speeds {
		w |= b2u(s.Up && !s.HalfDuplex && e.bit.Mbps() == s.Speed) * e.code << linkSpeedShift
		w |= b2u(s.Partner&e.partner != 0) * e.status
	}
	return w | b2u(s.HalfDuplex)*codeHalfDuplex<<linkSpeedShift
}

// EEEStatus is Port.EEEStatus taken apart.
type EEEStatus struct {
	Active             bool
	Adv, Partner, Caps EEECaps
}

// DecodeEEEStatus takes an EEE status apart.
func DecodeEEEStatus(w uint32) EEEStatus {
	return EEEStatus{w&1 != 0, EEECaps(w >> 4 & 0xf), EEECaps(w >> 8 & 0xf), EEECaps(w >> 12 & 0xf)}
}

func (s EEEStatus) encode() uint32 {
	return b2u(s.Active) | uint32(s.Adv)<<4 | uint32(s.Partner)<<8 | uint32(s.Caps)<<12
}

// The reasons for which a link had to flap (Port.LFAStatus).
const (
	LFALinkDown         = 0x1
	LFAForceInit        = 0x2
	LFALoopback         = 0x4
	LFASpeed            = 0x8
	LFAFlowControl      = 0x10
	LFAAdvertisedSpeed  = 0x20
	LFAEEE              = 0x40
	initPHYForce        = 0x1
	transceiverTypeBits = 8
)

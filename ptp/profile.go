package ptp

import (
	"fmt"
	"time"

	"tapir/ptp/bmca"
	"tapir/ptp/discipline"
	"tapir/ptp/msg"
	"tapir/ptp/servo"
	"tapir/ptp/timescale"
	"tapir/ptp/unicast"
	"tapir/wire/enum"
)

// Profile is a set of values and rules for a Config.
type Profile uint8

const (
	DefaultE2E Profile = iota // IEEE 1588-2019 annex I.3
	DefaultP2P                // annex I.4
	GPTP                      // IEEE 802.1AS-2020
	Automotive                // the same with static roles, Avnu
	G8275x1                   // ITU-T G.8275.1, full timing support
	G8275x2                   // ITU-T G.8275.2, partial timing support, unicast
	Power                     // IEEE C37.238 and IEC 61850-9-3
	numProfiles
)

var profileNames = [numProfiles]string{"default-e2e", "default-p2p", "gptp", "automotive", "g8275.1", "g8275.2",
	"power"}

func (p Profile) String() string {
	return enum.Name(profileNames[:], p, "unknown")
}

// Identity is profileIdentity, as CLOCK_DESCRIPTION has it; of some profiles it
// is not known here and zero.
func (p Profile) Identity() [6]byte {
	return [numProfiles][6]byte{
		DefaultE2E: {0x00, 0x1b, 0x19, 0, 1, 0}, DefaultP2P: {0x00, 0x1b, 0x19, 0, 2, 0},
		GPTP: {0x00, 0x80, 0xc2, 0, 1, 0}, Automotive: {0x00, 0x80, 0xc2, 0, 1, 0},
	}[p]
}

// ParseProfile returns the profile of that name.
func ParseProfile(name string) (Profile, error) {
	for p, n := range profileNames {
		if n == name {
			return Profile(p), nil
		}
	}
	return 0, fmt.Errorf("unknown PTP profile %q (known: %v)", name, profileNames)
}

// telecom tells that the profile is one of ITU-T G.8275.
func (p Profile) telecom() bool { return p == G8275x1 || p == G8275x2 }

// is8021as tells that the rules of IEEE 802.1AS hold.
func (p Profile) is8021as() bool { return p == GPTP || p == Automotive }

// NewConfig returns a profile's configuration of a clock with so many ports.
func NewConfig(p Profile, id msg.ClockIdentity, ports int) Config {
	cfg := Config{
		Profile: p, ClockIdentity: id, MinorVersion: 1,
		Priority1: 128, Priority2: 128, LocalPriority: 128,
		Quality:            msg.ClockQuality{Class: 248, Accuracy: 0xfe, Variance: 0xffff},
		TwoStep:            true,
		GrandmasterCapable: true,
		ForeignThreshold:   bmca.Threshold,
		MaxStepsRemoved:    255,
		MaxClockClass:      255,
		Time: timescale.Properties{UTCOffset: 37, PTPTimescale: true,
			TimeSource: msg.SourceInternalOscillator},
		Servo: discipline.Config{Config: servo.DefaultConfig(),
			DelayFilterLength: servo.DefaultFilterLength, SanityFreqLimit: 200_000_000},
		Limits:          Limits{RequestRate: 4096, Requests: 256},
		Power:           msg.Power{GrandmasterID: uint16(id[6])<<8 | uint16(id[7])},
		HoldoverQuality: msg.ClockQuality{Class: 7, Accuracy: 0xfe, Variance: 0xffff},
	}
	port := PortConfig{
		DelayMechanism: msg.DelayE2E, LocalPriority: 128,
		LogAnnounceInterval: 1, AnnounceReceiptTimeout: 3,
		AllowedLostResponses: 3, OperLogSyncInterval: msg.IntervalUnchanged,
		OperLogPdelayReqInterval: msg.IntervalUnchanged,
		Unicast:                  unicast.Config{Limits: unicast.DefaultLimits()},
		TxTimestampTimeout:       10 * time.Millisecond, FaultReset: 16 * time.Second,
	}
	switch p {
	case DefaultP2P:
		port.DelayMechanism = msg.DelayP2P
	case GPTP, Automotive:
		cfg.SdoID, cfg.Priority1, cfg.Priority2 = 0x100, 246, 248
		cfg.PathTrace, cfg.FollowUpInfo, cfg.ForeignThreshold = true, true, 1
		port.DelayMechanism, port.LogAnnounceInterval, port.LogSyncInterval = msg.DelayP2P, 0, -3
		port.SyncReceiptTimeout, port.AllowedLostResponses = 3, 9
		port.NeighborPropDelayThresh = 800 * time.Nanosecond
	case G8275x1:
		cfg.Algorithm, cfg.Domain = bmca.Telecom, 24
		port.LogAnnounceInterval, port.LogSyncInterval, port.LogMinDelayReqInterval = -3, -4, -4
	case G8275x2:
		cfg.Algorithm, cfg.Domain = bmca.Telecom, 44
		port.LogAnnounceInterval, port.LogSyncInterval, port.LogMinDelayReqInterval = 0, -4, -4
		port.AnnounceReceiptTimeout = 2
		port.NoMulticast, port.Unicast.Listen = true, true
	case Power:
		port.DelayMechanism, port.LogAnnounceInterval = msg.DelayP2P, 0
		cfg.Domain, cfg.Power.Year = 254, 2017
	}
	for range ports {
		cfg.Ports = append(cfg.Ports, port)
	}
	return cfg
}

package ptp

import (
	"errors"

	"tapir/ptp/msg"
	"tapir/ptp/transport"
	"tapir/wire/enum"
)

// RxFilter says which received packets are stamped. The values are those of
// HWTSTAMP_FILTER in linux/net_tstamp.h.
type RxFilter int

const (
	FilterNone RxFilter = iota
	FilterAll
	FilterSome
	FilterV1L4Event
	FilterV1L4Sync
	FilterV1L4DelayReq
	FilterV2L4Event
	FilterV2L4Sync
	FilterV2L4DelayReq
	FilterV2L2Event
	FilterV2L2Sync
	FilterV2L2DelayReq
	FilterV2Event
	FilterV2Sync
	FilterV2DelayReq
	FilterNTPAll
	numFilters
)

// FilterNames are the names of ethtool -T, in the order of the values.
var FilterNames = [numFilters]string{"none", "all", "some", "ptpv1-l4-event", "ptpv1-l4-sync", "ptpv1-l4-delay-req",
	"ptpv2-l4-event", "ptpv2-l4-sync", "ptpv2-l4-delay-req", "ptpv2-l2-event", "ptpv2-l2-sync", "ptpv2-l2-delay-req",
	"ptpv2-event", "ptpv2-sync", "ptpv2-delay-req", "ntp-all"}

func (f RxFilter) String() string {
	return enum.Name(FilterNames[:], f, "filter %d")
}

// Filters are those that the unit offers: none, and the twelve of PTP.
func Filters() []RxFilter {
	list := []RxFilter{FilterNone}
	for f := FilterV1L4Event; f <= FilterV2DelayReq; f++ {
		list = append(list, f)
	}
	return list
}

// TxType says which sent packets are stamped. The values are those of
// HWTSTAMP_TX in linux/net_tstamp.h.
type TxType int

const (
	TxOff TxType = iota
	TxOn
	TxOneStepSync
	TxOneStepP2P
	numTxTypes
)

// TxNames are the names of ethtool -T, in the order of the values.
var TxNames = [numTxTypes]string{"off", "on", "one-step-sync", "one-step-p2p"}

func (t TxType) String() string {
	return enum.Name(TxNames[:], t, "tx type %d")
}

// HWConfig is what SIOCSHWTSTAMP asks for, and what it answers.
type HWConfig struct {
	Flags  int      `json:"flags"`
	TxType TxType   `json:"tx_type"`
	Filter RxFilter `json:"rx_filter"`
}

// Errors of the unit; a driver answers them as EBUSY, ERANGE, EINVAL and
// ENODEV.
var (
	ErrBusy     = errors.New("ptp: another function of the port owns PTP")
	ErrRange    = errors.New("ptp: not among the unit's time stamping modes")
	ErrInvalid  = errors.New("ptp: invalid time stamping request")
	ErrDisabled = errors.New("ptp: PTP is not enabled")
)

// programme is what the driver writes for a filter: into the enable register
// the bits on, version 1 and version 2; into the rule mask a 1 for each rule
// that does not count.
type programme struct{ enable, rules uint32 }

// Values of the mask registers. A parameter mask of 0x70f leaves ports and
// Ethernet type to be compared, but no address, so that unicast counts too.
const (
	paramsOff, paramsOn = 0x7ff, 0x70f
	rulesOff            = 0x3fff
	enableOn            = 1 << 0
	enableV1            = 1 << 1
	enableV2            = 1 << 2
)

// Rules by number: port 319 over IPv4 to the primary and the peer group, over
// IPv6 likewise, and Ethernet to the two groups.
const (
	ruleIPv4, ruleIPv4Peer = 0, 2
	ruleIPv6, ruleIPv6Peer = 4, 6
	ruleL2, ruleL2Peer     = 8, 9
)

var off = programme{0, rulesOff}

// programmes are those of the driver, by the filter that was asked for.
var programmes = [numFilters]programme{
	FilterNone:         off,
	FilterAll:          {7, 0x3caa},
	FilterSome:         {7, 0x3caa},
	FilterNTPAll:       {7, 0x3caa},
	FilterV1L4Event:    {3, 0x3ffa},
	FilterV1L4Sync:     {3, 0x3ffe},
	FilterV1L4DelayReq: {3, 0x3ffe},
	FilterV2L4Event:    {5, 0x3faa},
	FilterV2L4Sync:     {5, 0x3fee},
	FilterV2L4DelayReq: {5, 0x3fee},
	FilterV2L2Event:    {5, 0x3cff},
	FilterV2L2Sync:     {5, 0x3eff},
	FilterV2L2DelayReq: {5, 0x3eff},
	FilterV2Event:      {5, 0x3caa},
	FilterV2Sync:       {5, 0x3eee},
	FilterV2DelayReq:   {5, 0x3eee},
}

// grant is what the driver answers to a request for f: it widens to all event
// messages, and cannot stamp all packets.
func grant(f RxFilter) RxFilter {
	switch f {
	case FilterV1L4Sync, FilterV1L4DelayReq:
		return FilterV1L4Event
	case FilterV2L4Sync, FilterV2L4DelayReq:
		return FilterV2L4Event
	case FilterV2L2Sync, FilterV2L2DelayReq:
		return FilterV2L2Event
	case FilterV2Sync, FilterV2DelayReq:
		return FilterV2Event
	case FilterAll, FilterSome, FilterNTPAll:
		return FilterNone
	}
	return f
}

// ID tells PTP messages apart.
type ID struct {
	Type     msg.Type
	Sequence uint16
	Source   msg.PortIdentity
}

// Packet is what the unit sees of a PTP message.
type Packet struct {
	ID
	Kind    transport.Kind // what it travels in
	Version uint8          // versionPTP, 1 or 2
	Event   bool           // type 0 to 3; over UDP, sent to port 319
}

// matches tells whether the registers say to stamp p.
func (g *programme) matches(p Packet) bool {
	version := uint32(enableV2)
	if p.Version == 1 {
		version = enableV1
	}
	if g.enable&enableOn == 0 || g.enable&version == 0 || !p.Event {
		return false
	}
	rule, peer := ruleL2, ruleL2Peer
	switch p.Kind {
	case transport.UDPv4:
		rule, peer = ruleIPv4, ruleIPv4Peer
	case transport.UDPv6:
		rule, peer = ruleIPv6, ruleIPv6Peer
	}
	return g.rules&(1<<rule) == 0 || g.rules&(1<<peer) == 0
}

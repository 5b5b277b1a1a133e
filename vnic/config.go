package vnic

import (
	"cmp"
	"fmt"
	"slices"

	"tapir/opa"
	"tapir/wire/ether"
)

// State is the state of a vport as VESWPORT_INFO carries it.
type State uint8

const (
	DropAll    State = 1 // nothing passes
	Forwarding State = 3
)

func (s State) String() string {
	return cmp.Or(map[State]string{DropAll: "DROP_ALL", Forwarding: "FORWARDING"}[s], fmt.Sprintf("state %d", uint8(s)))
}

// Bounds of a vport.
const (
	MinMTU     = 68    // octets of Ethernet payload
	MaxMTU     = 10240 // octets of Ethernet payload
	DefaultMTU = 1500
	// DefaultPorts is the number of places for default ports.
	DefaultPorts = 16
)

// Config is what the Ethernet Manager sets of a vport: the writable part of
// VESWPORT_INFO.
type Config struct {
	FabricID    uint16 // 10 bits
	VESWID      uint16 // 12 bits; 0: none, the interface cannot be opened
	PKey        uint16
	DefPortMask uint16                // which of UcastDLID are default ports
	UcastDLID   [DefaultPorts]opa.LID // default ports, for unknown unicast
	McastDLID   opa.LID               // for multicast and broadcast
	RC          opa.RCWord
	EthMTU      uint16 // octets of Ethernet payload; less than MinMTU means MinMTU

	PortNum     uint32 // of the vESW
	BaseMAC     ether.Addr
	ConfigState State
	EncapSLID   opa.LID // source of packets; 0: the port's LID
	QoS         opa.QoS
}

// PowerOn is the configuration of a vport that nobody has set.
func PowerOn() Config { return Config{ConfigState: DropAll, EthMTU: DefaultMTU} }

// ConfigError says which field of a Config holds an impossible value.
type ConfigError struct {
	Field string // of Config
	Value any
	Want  string
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("vnic: %s %v: expected %s", e.Field, e.Value, e.Want)
}

// Check returns a *ConfigError for a value that no vport can have. packet is
// the longest 16B packet of the port, in octets: frames of EthMTU with a VLAN
// tag must fit.
func (c *Config) Check(packet int) error {
	const station = "0 or a unicast LID"
	err := cmp.Or(
		expect(c.FabricID <= opa.MaxFabric, "FabricID", c.FabricID, "at most 1023"),
		expect(c.VESWID <= opa.MaxVESW, "VESWID", c.VESWID, "at most 4095"),
		expect(c.ConfigState == DropAll || c.ConfigState == Forwarding, "ConfigState", uint8(c.ConfigState),
			"1 (DROP_ALL) or 3 (FORWARDING)"),
		expect(c.EthMTU <= MaxMTU, "EthMTU", c.EthMTU, "at most 10240"),
		expect(opa.Size(int(c.EthMTU)+encapsulated) <= packet, "EthMTU", c.EthMTU,
			fmt.Sprintf("packets of at most %d octets", packet)),
		expect(!c.BaseMAC.IsMulticast(), "BaseMAC", c.BaseMAC, "an address of one station"),
		expect(c.EncapSLID == 0 || c.EncapSLID.IsUnicast(), "EncapSLID", c.EncapSLID, station),
		expect(c.McastDLID == 0 || c.McastDLID.IsMulticast() || c.McastDLID.IsUnicast(), "McastDLID", c.McastDLID,
			"0, a multicast LID or a unicast LID"),
	)
	for i, lid := range c.UcastDLID {
		err = cmp.Or(err, expect(lid == 0 || lid.IsUnicast(), fmt.Sprintf("UcastDLID[%d]", i), lid, station))
	}
	return cmp.Or(err, lanes("QoS.Unicast", &c.QoS.Unicast), lanes("QoS.Multicast", &c.QoS.Multicast))
}

// expect returns a *ConfigError unless ok.
func expect(ok bool, field string, value any, want string) error {
	if ok {
		return nil
	}
	return &ConfigError{field, value, want}
}

func lanes(field string, l *opa.Lanes) error {
	sc, vl := max(slices.Max(l.SC[:]), l.UntaggedSC), max(slices.Max(l.VL[:]), l.UntaggedVL)
	return expect(l.Valid(), field, fmt.Sprintf("SC %d, VL %d", sc, vl), "SCs and VLs of at most 31")
}

// mtu is the Ethernet MTU that the configuration allows.
func (c *Config) mtu() int { return max(int(c.EthMTU), MinMTU) }

// encapsulated is what an Ethernet frame has more than its payload: header and
// one VLAN tag.
const encapsulated = ether.HeaderLen + ether.TagLen

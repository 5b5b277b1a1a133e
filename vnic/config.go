package vnic

import (
	"fmt"

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
	switch s {
	case DropAll:
		return "DROP_ALL"
	case Forwarding:
		return "FORWARDING"
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// Bounds of a vport.
const (
	MinMTU     = 68    // octets of Ethernet payload
	MaxMTU     = 10240 // octets of Ethernet payload
	DefaultMTU = 1500
	// DefaultPorts is the number of places for default ports.
	DefaultPorts = 16
	maxSC        = 31
	maxVL        = 31
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
	bad := func(field string, value any, want string) error { return &ConfigError{field, value, want} }
	switch {
	case c.FabricID > opa.MaxFabric:
		return bad("FabricID", c.FabricID, "at most 1023")
	case c.VESWID > opa.MaxVESW:
		return bad("VESWID", c.VESWID, "at most 4095")
	case c.ConfigState != DropAll && c.ConfigState != Forwarding:
		return bad("ConfigState", uint8(c.ConfigState), "1 (DROP_ALL) or 3 (FORWARDING)")
	case c.EthMTU > MaxMTU:
		return bad("EthMTU", c.EthMTU, "at most 10240")
	case opa.Size(int(c.EthMTU)+encapsulated) > packet:
		return bad("EthMTU", c.EthMTU, fmt.Sprintf("packets of at most %d octets", packet))
	case c.BaseMAC.IsMulticast():
		return bad("BaseMAC", c.BaseMAC, "an address of one station")
	case c.EncapSLID != 0 && !c.EncapSLID.IsUnicast():
		return bad("EncapSLID", c.EncapSLID, "0 or a unicast LID")
	case c.McastDLID != 0 && !c.McastDLID.IsMulticast() && !c.McastDLID.IsUnicast():
		return bad("McastDLID", c.McastDLID, "0, a multicast LID or a unicast LID")
	}
	for i, lid := range c.UcastDLID {
		if lid != 0 && !lid.IsUnicast() {
			return bad(fmt.Sprintf("UcastDLID[%d]", i), lid, "0 or a unicast LID")
		}
	}
	for _, l := range []struct {
		field string
		lanes *opa.Lanes
	}{{"QoS.Unicast", &c.QoS.Unicast}, {"QoS.Multicast", &c.QoS.Multicast}} {
		if sc, vl := highest(l.lanes.SC, l.lanes.UntaggedSC), highest(l.lanes.VL, l.lanes.UntaggedVL); sc > maxSC ||
			vl > maxVL {
			return bad(l.field, fmt.Sprintf("SC %d, VL %d", sc, vl), "SCs and VLs of at most 31")
		}
	}
	return nil
}

func highest(list [8]uint8, one uint8) uint8 {
	for _, v := range list {
		one = max(one, v)
	}
	return one
}

// mtu is the Ethernet MTU that the configuration allows.
func (c *Config) mtu() int { return max(int(c.EthMTU), MinMTU) }

// encapsulated is what an Ethernet frame has more than its payload: header and
// one VLAN tag.
const encapsulated = ether.HeaderLen + ether.TagLen

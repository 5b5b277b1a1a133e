// Package lldp reads and writes LLDPDUs (IEEE 802.1AB-2016 clause 8) with the
// TLVs of DCBX, IEEE (802.1Q-2018 annex D) and CEE 1.01, and the MAC/PHY TLV
// of IEEE 802.3 (79.3.1). All fields are big-endian on the wire.
package lldp

import (
	"encoding/binary"
	"errors"
	"fmt"

	"tapir/wire/ether"
)

// Destination addresses of the three scopes (IEEE 802.1AB-2016 table 7-1).
var (
	NearestBridge   = ether.Addr{0x01, 0x80, 0xc2, 0, 0, 0x0e}
	NearestNonTPMR  = ether.Addr{0x01, 0x80, 0xc2, 0, 0, 0x03}
	NearestCustomer = ether.Addr{0x01, 0x80, 0xc2, 0, 0, 0x00}
)

// MaxPDU is the longest LLDPDU, in octets: what an Ethernet frame carries.
const MaxPDU = 1500

// What is wrong with an LLDPDU. Parse wraps one of these.
var (
	ErrTruncated = errors.New("lldp: a TLV is longer than the LLDPDU")
	ErrMandatory = errors.New("lldp: Chassis ID, Port ID and TTL do not come first, in this order, once each")
	ErrLength    = errors.New("lldp: wrong length")
	ErrValue     = errors.New("lldp: value out of range")
	ErrDuplicate = errors.New("lldp: TLV comes twice")
)

// TLV types (IEEE 802.1AB-2016 table 8-1).
const (
	TypeEnd          = 0
	TypeChassisID    = 1
	TypePortID       = 2
	TypeTTL          = 3
	TypePortDesc     = 4
	TypeSystemName   = 5
	TypeSystemDesc   = 6
	TypeCapabilities = 7
	TypeManagement   = 8
	TypeOrg          = 127
)

// MaxTLV is the longest value of a TLV, in octets.
const MaxTLV = 511

// Subtypes of Chassis ID and Port ID that a NIC uses (tables 8-2 and 8-3).
const (
	ChassisMAC   = 4
	ChassisNet   = 5
	ChassisLocal = 7
	PortMAC      = 3
	PortIface    = 5
	PortLocal    = 7
)

// ID is a Chassis ID or a Port ID: 1 to 255 octets after the subtype.
type ID struct {
	Subtype uint8
	Value   string
}

// MACID is the ID of a subtype whose value is a MAC address.
func MACID(subtype uint8, a ether.Addr) ID { return ID{subtype, string(a[:])} }

// MAC is the address that an ID with 6 octets has; false: it has none.
func (i ID) MAC() (a ether.Addr, ok bool) {
	if len(i.Value) != len(a) {
		return a, false
	}
	return ether.Addr([]byte(i.Value)), true
}

// String returns a MAC address with colons, text as it is, and other octets in
// hexadecimal.
func (i ID) String() string {
	if a, ok := i.MAC(); ok && (i.Subtype == ChassisMAC || i.Subtype == PortMAC) {
		return a.String()
	}
	for _, c := range []byte(i.Value) {
		if c < ' ' || c > '~' {
			return fmt.Sprintf("%x", i.Value)
		}
	}
	return i.Value
}

// Capabilities of a system (table 8-4): those that it has, and those in use.
type Capabilities struct{ Has, Enabled uint16 }

// Bits of Capabilities.
const (
	CapBridge  = 1 << 2
	CapStation = 1 << 7
)

// PDU is an LLDPDU. Optional TLVs are absent when nil or empty.
type PDU struct {
	Chassis, Port ID
	TTL           uint16 // seconds; 0: the sender is going away

	PortDesc, SystemName, SystemDesc string
	Capabilities                     *Capabilities
	Management                       []byte // the value of the first Management Address TLV

	MACPHY *MACPHY
	ETS    *ETS // configuration
	ETSRec *ETS // recommendation, whose Willing, CBS and MaxTCs are absent
	PFC    *PFC
	App    *App
	CEE    *CEE

	// Extra are TLVs as octets. AppendTo writes them in front of End; Parse
	// leaves those there that have no field, in the order of the LLDPDU.
	Extra []byte
}

// Next cuts the first TLV from b: its type, its value, and what follows it.
// ErrTruncated: b ends inside of it.
func Next(b []byte) (typ uint8, value, rest []byte, err error) {
	if len(b) < 2 {
		return 0, nil, nil, ErrTruncated
	}
	head := binary.BigEndian.Uint16(b)
	n := 2 + int(head&MaxTLV)
	if len(b) < n {
		return 0, nil, nil, ErrTruncated
	}
	return uint8(head >> 9), b[2:n], b[n:], nil
}

// AppendTLV appends a TLV to b; value has at most MaxTLV octets.
func AppendTLV(b []byte, typ uint8, value ...byte) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(typ)<<9|uint16(len(value)&MaxTLV))
	return append(b, value...)
}

// Parse reads an LLDPDU, what follows the EtherType. The PDU keeps nothing of b.
// Octets after the End TLV are padding, and an LLDPDU may end without one (IEEE
// 802.1AB-2016 clause 8.5.1). An LLDPDU with a wrong TLV is refused as a whole.
func Parse(b []byte) (*PDU, error) {
	p := &PDU{}
	for n := 0; len(b) > 0; n++ {
		typ, value, rest, err := Next(b)
		if err != nil {
			return nil, err
		}
		if inFront := typ >= TypeChassisID && typ <= TypeTTL; inFront != (n < 3) || n < 3 && int(typ) != n+1 {
			return nil, ErrMandatory
		}
		if typ == TypeEnd {
			if len(value) != 0 {
				return nil, fmt.Errorf("%w: End of LLDPDU", ErrLength)
			}
			return p, nil
		}
		if err := p.take(typ, value, b[:2+len(value)]); err != nil {
			return nil, err
		}
		b = rest
		if n >= 2 && len(b) == 0 {
			return p, nil
		}
	}
	return nil, ErrMandatory
}

// take adds a TLV, with whole as its octets.
func (p *PDU) take(typ uint8, v, whole []byte) error {
	switch typ {
	case TypeChassisID:
		return p.Chassis.take("Chassis ID", v)
	case TypePortID:
		return p.Port.take("Port ID", v)
	case TypeTTL:
		if len(v) < 2 {
			return fmt.Errorf("%w: Time To Live", ErrLength)
		}
		p.TTL = binary.BigEndian.Uint16(v)
	case TypePortDesc:
		return text(&p.PortDesc, "Port Description", v)
	case TypeSystemName:
		return text(&p.SystemName, "System Name", v)
	case TypeSystemDesc:
		return text(&p.SystemDesc, "System Description", v)
	case TypeCapabilities:
		switch {
		case len(v) != 4:
			return fmt.Errorf("%w: System Capabilities", ErrLength)
		case p.Capabilities != nil:
			return fmt.Errorf("%w: System Capabilities", ErrDuplicate)
		}
		p.Capabilities = &Capabilities{binary.BigEndian.Uint16(v), binary.BigEndian.Uint16(v[2:])}
	case TypeManagement:
		if len(v) < 9 || len(v) > 167 || int(v[0]) > len(v)-7 {
			return fmt.Errorf("%w: Management Address", ErrLength)
		}
		if p.Management == nil { // several are allowed
			p.Management = append([]byte(nil), v...)
		}
	case TypeOrg:
		if len(v) < 4 {
			return fmt.Errorf("%w: organizationally specific TLV", ErrLength)
		}
		known, err := p.takeOrg([4]byte(v), v[4:])
		if known || err != nil {
			return err
		}
		fallthrough
	default:
		p.Extra = append(p.Extra, whole...)
	}
	return nil
}

func (i *ID) take(name string, v []byte) error {
	if len(v) < 2 || len(v) > 256 {
		return fmt.Errorf("%w: %s", ErrLength, name)
	}
	*i = ID{v[0], string(v[1:])}
	return nil
}

// text takes a string, which may come once. One without octets is as none.
func text(to *string, name string, v []byte) error {
	switch {
	case len(v) > 255:
		return fmt.Errorf("%w: %s", ErrLength, name)
	case *to != "":
		return fmt.Errorf("%w: %s", ErrDuplicate, name)
	}
	*to = string(v)
	return nil
}

// AppendTo appends the LLDPDU with its End TLV to b. Texts are cut to 255 octets.
func (p *PDU) AppendTo(b []byte) []byte {
	b = AppendTLV(b, TypeChassisID, p.Chassis.octets()...)
	b = AppendTLV(b, TypePortID, p.Port.octets()...)
	b = AppendTLV(b, TypeTTL, byte(p.TTL>>8), byte(p.TTL))
	for i, s := range []string{p.PortDesc, p.SystemName, p.SystemDesc} {
		if s != "" {
			b = AppendTLV(b, TypePortDesc+uint8(i), []byte(s[:min(len(s), 255)])...)
		}
	}
	if c := p.Capabilities; c != nil {
		b = AppendTLV(b, TypeCapabilities, byte(c.Has>>8), byte(c.Has), byte(c.Enabled>>8), byte(c.Enabled))
	}
	if p.Management != nil {
		b = AppendTLV(b, TypeManagement, p.Management...)
	}
	b = p.appendOrg(b)
	b = append(b, p.Extra...)
	return AppendTLV(b, TypeEnd)
}

func (i ID) octets() []byte { return append([]byte{i.Subtype}, i.Value[:min(len(i.Value), 255)]...) }

package msg

import "encoding/binary"

// RequestUnicast asks for unicast messages of one type (section 16.1.4.1).
type RequestUnicast struct {
	Type        Type   // Announce, Sync, Delay_Resp or Pdelay_Resp
	LogInterval int8   // log2 of the time between messages in s
	Duration    uint32 // in s
}

// Parse reads the value of a TLVRequestUnicast.
func (r *RequestUnicast) Parse(v []byte) error {
	if len(v) != 6 {
		return ErrValueLength
	}
	*r = RequestUnicast{Type(v[0] >> 4), int8(v[1]), binary.BigEndian.Uint32(v[2:])}
	return nil
}

// Append appends the TLV.
func (r *RequestUnicast) Append(b []byte) []byte {
	b = append(openTLV(b, TLVRequestUnicast), uint8(r.Type<<4), uint8(r.LogInterval))
	b = binary.BigEndian.AppendUint32(b, r.Duration)
	return closeTLV(b, len(b)-TLVHeaderLen-6)
}

// GrantUnicast answers a RequestUnicast (section 16.1.4.2).
type GrantUnicast struct {
	Type        Type
	LogInterval int8
	Duration    uint32 // in s; 0: denied
	Renewal     bool   // another request is likely to be granted
}

// Parse reads the value of a TLVGrantUnicast.
func (g *GrantUnicast) Parse(v []byte) error {
	if len(v) != 8 {
		return ErrValueLength
	}
	*g = GrantUnicast{Type(v[0] >> 4), int8(v[1]), binary.BigEndian.Uint32(v[2:]), v[7]&1 != 0}
	return nil
}

// Append appends the TLV.
func (g *GrantUnicast) Append(b []byte) []byte {
	b = append(openTLV(b, TLVGrantUnicast), uint8(g.Type<<4), uint8(g.LogInterval))
	b = binary.BigEndian.AppendUint32(b, g.Duration)
	b = append(b, 0, bit(g.Renewal, 0))
	return closeTLV(b, len(b)-TLVHeaderLen-8)
}

// CancelUnicast ends unicast messages of one type, and acknowledges that
// (sections 16.1.4.3 and 16.1.4.4).
type CancelUnicast struct {
	Type            Type
	MaintainRequest bool // of TLVCancelUnicast: the grantor shall go on
	MaintainGrant   bool // the requester shall go on asking
}

// Parse reads the value of a TLVCancelUnicast or TLVAckCancelUnicast.
func (c *CancelUnicast) Parse(v []byte) error {
	if len(v) != 2 {
		return ErrValueLength
	}
	*c = CancelUnicast{Type(v[0] >> 4), v[0]&1 != 0, v[0]&2 != 0}
	return nil
}

// Append appends the TLV as type t, TLVCancelUnicast or TLVAckCancelUnicast.
func (c *CancelUnicast) Append(b []byte, t TLVType) []byte {
	b = append(openTLV(b, t), uint8(c.Type<<4)|bit(c.MaintainRequest, 0)|bit(c.MaintainGrant, 1), 0)
	return closeTLV(b, len(b)-TLVHeaderLen-2)
}

func bit(v bool, n int) uint8 {
	if v {
		return 1 << n
	}
	return 0
}

// NetworkProtocol tells what kind of address a PortAddress is (table 3).
type NetworkProtocol uint16

// The network protocols.
const (
	NetworkUDPv4    NetworkProtocol = 1
	NetworkUDPv6    NetworkProtocol = 2
	NetworkEthernet NetworkProtocol = 3
)

// PortAddress is the address of a port (section 5.3.6).
type PortAddress struct {
	Protocol NetworkProtocol
	Address  []byte // borrowed
}

// parse reads the address at the front of v and returns the octets it takes.
func (p *PortAddress) parse(v []byte) (int, error) {
	if len(v) < 4 {
		return 0, ErrValueLength
	}
	end := 4 + int(binary.BigEndian.Uint16(v[2:]))
	if len(v) < end {
		return 0, ErrValueLength
	}
	*p = PortAddress{NetworkProtocol(binary.BigEndian.Uint16(v)), v[4:end:end]}
	return end, nil
}

func (p *PortAddress) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(p.Protocol))
	b = binary.BigEndian.AppendUint16(b, uint16(len(p.Address)))
	return append(b, p.Address...)
}

// Parse reads the value of a TLVProtocolAddress (section 16.9).
func (p *PortAddress) Parse(v []byte) error {
	n, err := p.parse(v)
	if err == nil && n != len(v) && n+1 != len(v) {
		err = ErrValueLength
	}
	return err
}

// Append appends a TLVProtocolAddress.
func (p *PortAddress) Append(b []byte) []byte {
	start := len(b)
	return closeTLV(p.append(openTLV(b, TLVProtocolAddress)), start)
}

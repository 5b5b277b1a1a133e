package l2

import (
	"encoding/binary"

	"tapir/nic/fastlinq/status"
	"tapir/wire/enum"
	"tapir/wire/ether"
	"tapir/wire/geneve"
	"tapir/wire/ip"
)

// TunnelType is a kind of tunnel.
type TunnelType uint8

// The kinds.
const (
	NoTunnel TunnelType = iota
	VXLAN
	L2Geneve
	IPGeneve
	L2GRE
	IPGRE
	numTunnels
)

func (t TunnelType) String() string {
	return enum.Name([]string{"none", "vxlan", "geneve", "ip-geneve", "gretap", "gre"}, t, "TunnelType(%d)")
}

// TunnelClass says what filters compare of a tunnel's packets.
type TunnelClass uint8

// The classes: the frame's own address and VLAN, or those of the frame in it.
const (
	ClassMACVLAN TunnelClass = iota
	ClassInnerMACVLAN
	numClasses
)

// The ports of tunnels over UDP when nobody chooses others.
const (
	VXLANPort  uint16 = 4789
	GenevePort uint16 = geneve.Port
)

// TunnelParams say which tunnels the function knows: one UDP port of each kind.
type TunnelParams struct {
	Enable     [numTunnels]bool // by type
	Class      [numTunnels]TunnelClass
	VXLANPort  uint16 // 0: no such tunnel
	GenevePort uint16
}

// Tunnel is what the device sees of a tunnel's packet.
type Tunnel struct {
	Type  TunnelType
	VNI   uint32 // or the key of GRE
	inner int    // where the inner frame, or packet, begins
}

// Check refuses, with INVAL, unknown classes, two kinds on one port, and inner
// addresses of tunnels that carry none.
func (p *TunnelParams) Check() error {
	for t, c := range p.Class {
		if c >= numClasses || c != ClassMACVLAN && (TunnelType(t) == IPGeneve || TunnelType(t) == IPGRE) {
			return status.Inval.Errorf("class %d of %v tunnels", c, TunnelType(t))
		}
	}
	if p.VXLANPort != 0 && p.VXLANPort == p.GenevePort {
		return status.Inval.Errorf("UDP port %d for two kinds of tunnels", p.VXLANPort)
	}
	return nil
}

// SetTunnels sets the tunnels that the function knows. The errors are those of
// Check.
func (fn *Function) SetTunnels(p TunnelParams) error {
	if err := p.Check(); err != nil {
		return err
	}
	p.Enable[NoTunnel] = false
	fn.tunnels = p
	fn.tunnelled, fn.inside = p.Enable != [numTunnels]bool{}, false
	fn.foreign = [2]uint64{noStation, noStation}
	for t, on := range p.Enable {
		fn.inside = fn.inside || on && p.Class[t] != ClassMACVLAN
	}
	return nil
}

// Tunnels are those that the function knows.
func (fn *Function) Tunnels() TunnelParams { return fn.tunnels }

// tunnelOf is the tunnel that a packet belongs to.
func (fn *Function) tunnelOf(p *packet) Tunnel {
	if !fn.tunnelled || p.dst.IsZero() {
		return Tunnel{}
	}
	n := p.network()
	if n.Version == 0 || n.Fragment {
		return Tunnel{}
	}
	b := p.Frame[n.L4:n.End]
	var t Tunnel
	switch n.Proto {
	case ip.ProtoUDP:
		t = fn.overUDP(b)
	case protoGRE:
		t = overGRE(b)
	}
	if t.Type == NoTunnel || !fn.tunnels.Enable[t.Type] {
		return Tunnel{}
	}
	t.inner += n.L4
	return t
}

const (
	udpHeader   = 8
	vxlanHeader = 8
	protoGRE    = 47
)

// overUDP recognizes VXLAN (RFC 7348 section 5) and Geneve (RFC 8926).
func (fn *Function) overUDP(b []byte) (t Tunnel) {
	if len(b) < udpHeader+vxlanHeader {
		return t
	}
	port, body := binary.BigEndian.Uint16(b[2:]), b[udpHeader:]
	switch {
	case port == 0:
	case port == fn.tunnels.VXLANPort && body[0]&0x08 != 0:
		return Tunnel{VXLAN, binary.BigEndian.Uint32(body[4:]) >> 8, udpHeader + vxlanHeader}
	case port == fn.tunnels.GenevePort:
		h, _, payload, err := geneve.Parse(body)
		if err != nil {
			return t
		}
		t = Tunnel{IPGeneve, h.VNI, len(b) - len(payload)}
		if h.Protocol == geneve.TypeEthernet {
			t.Type = L2Geneve
		}
	}
	return t
}

// overGRE recognizes GRE version 0 (RFC 2784, RFC 2890).
func overGRE(b []byte) Tunnel {
	if len(b) < 4 || b[1]&7 != 0 {
		return Tunnel{}
	}
	t := Tunnel{Type: IPGRE, inner: 4}
	if binary.BigEndian.Uint16(b[2:]) == geneve.TypeEthernet {
		t.Type = L2GRE
	}
	if b[0]&0x80 != 0 { // a checksum
		t.inner += 4
	}
	if b[0]&0x20 != 0 { // a key
		if len(b) < t.inner+4 {
			return Tunnel{}
		}
		t.VNI = binary.BigEndian.Uint32(b[t.inner:])
		t.inner += 4
	}
	if b[0]&0x10 != 0 { // a sequence number
		t.inner += 4
	}
	if len(b) < t.inner {
		return Tunnel{}
	}
	return t
}

// station is what filters compare of the packet in hand: its destination and VLAN,
// or those of the frame inside, if the tunnel's class says so.
func (fn *Function) station(p *packet) (dst ether.Addr, vid uint16) {
	dst, vid = p.dst, p.vid()
	if !fn.inside {
		return dst, vid
	}
	t := fn.tunnelOf(p)
	if t.Type == NoTunnel || fn.tunnels.Class[t.Type] == ClassMACVLAN {
		return dst, vid
	}
	h, _, err := ether.Parse(p.Frame[t.inner:])
	if err != nil {
		return dst, vid
	}
	vid = 0
	if h.NTags > 0 {
		vid = h.Tags[0].VID()
	}
	return h.Dst, vid
}

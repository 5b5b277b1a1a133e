package ib

import "encoding/binary"

// GRHLen is the length in octets of a global route header.
const GRHLen = 40

// GRH is a global route header (section 8.3). Its layout is that of an IPv6
// header.
type GRH struct {
	TrafficClass uint8
	FlowLabel    uint32 // 20 bits
	PayloadLen   uint16 // octets behind the GRH up to and including the ICRC
	NextHeader   uint8
	HopLimit     uint8
	SGID, DGID   [16]byte
}

// Put writes h to the front of b, which has GRHLen octets.
func (h *GRH) Put(b []byte) {
	_ = b[GRHLen-1]
	binary.BigEndian.PutUint32(b, 6<<28|uint32(h.TrafficClass)<<20|h.FlowLabel&0xfffff)
	binary.BigEndian.PutUint16(b[4:], h.PayloadLen)
	b[6], b[7] = h.NextHeader, h.HopLimit
	copy(b[8:], h.SGID[:])
	copy(b[24:], h.DGID[:])
}

// ParseGRH reads the header at the front of b and returns what PayloadLen says
// is behind it, borrowed. It checks lengths, version and next header.
func ParseGRH(b []byte) (h GRH, payload []byte, err error) {
	if len(b) < GRHLen {
		return h, nil, ErrShort
	}
	v := binary.BigEndian.Uint32(b)
	h = GRH{
		TrafficClass: uint8(v >> 20), FlowLabel: v & 0xfffff, PayloadLen: binary.BigEndian.Uint16(b[4:]),
		NextHeader: b[6], HopLimit: b[7], SGID: [16]byte(b[8:]), DGID: [16]byte(b[24:]),
	}
	end := GRHLen + int(h.PayloadLen)
	switch {
	case v>>28 != 6 || h.NextHeader != NextHeader:
		return h, nil, ErrVersion
	case end > len(b):
		return h, nil, ErrShort
	}
	return h, b[GRHLen:end:end], nil
}

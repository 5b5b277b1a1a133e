package msg

import "encoding/binary"

// Organization is an organization extension (section 14.3): TLVOrganization,
// TLVOrganizationPropagate or TLVOrganizationDoNotPropagate.
type Organization struct {
	ID      [3]byte // OUI or CID
	Subtype [3]byte
	Data    []byte // borrowed
}

const organizationLen = 6

// Parse reads the value of an organization extension.
func (o *Organization) Parse(v []byte) error {
	if len(v) < organizationLen {
		return ErrValueLength
	}
	*o = Organization{[3]byte(v[:3]), [3]byte(v[3:6]), v[organizationLen:]}
	return nil
}

// Append appends the extension as type t.
func (o *Organization) Append(b []byte, t TLVType) []byte {
	start := len(b)
	b = append(append(openTLV(b, t), o.ID[:]...), o.Subtype[:]...)
	return closeTLV(append(b, o.Data...), start)
}

// kind is the OUI and the subtype at the front of an organization extension.
type kind [organizationLen]byte

var (
	kindFollowUpInfo    = kind{0x00, 0x80, 0xc2, 0, 0, 1}
	kindIntervalRequest = kind{0x00, 0x80, 0xc2, 0, 0, 2}
	kindGPTPCapable     = kind{0x00, 0x80, 0xc2, 0, 0, 4}
	kindPower2011       = kind{0x1c, 0x12, 0x9d, 0, 0, 1}
	kindPower2017       = kind{0x1c, 0x12, 0x9d, 0, 0, 2}
	kindInterfaceRate   = kind{0x00, 0x19, 0xa7, 0, 0, 2}
)

// is checks the kind and the length of the value v.
func (k kind) is(v []byte, length int) error {
	switch {
	case len(v) < organizationLen || kind(v[:organizationLen]) != k:
		return ErrOrganization
	case len(v) != length:
		return ErrValueLength
	}
	return nil
}

func (k kind) open(b []byte, t TLVType) []byte { return append(openTLV(b, t), k[:]...) }

// ScaledNs is a signed number of nanoseconds of 96 bits, 16 of them a fraction
// (IEEE 802.1AS section 6.4.3.1).
type ScaledNs struct {
	MSB      uint16 // bits 64 to 79 of the nanoseconds
	LSB      uint64 // bits 0 to 63
	Fraction uint16
}

func (s *ScaledNs) parse(b []byte) {
	be := binary.BigEndian
	*s = ScaledNs{be.Uint16(b), be.Uint64(b[2:]), be.Uint16(b[10:])}
}

func (s *ScaledNs) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, s.MSB)
	b = binary.BigEndian.AppendUint64(b, s.LSB)
	return binary.BigEndian.AppendUint16(b, s.Fraction)
}

// FollowUpInfo is the Follow_Up information of gPTP, a TLVOrganization (IEEE
// 802.1AS section 11.4.4.3).
type FollowUpInfo struct {
	CumulativeRateOffset int32 // (rate ratio - 1) * 2^41
	TimeBaseIndicator    uint16
	LastPhaseChange      ScaledNs
	LastFreqChange       int32 // (frequency ratio - 1) * 2^41
}

const followUpInfoLen = 28

// Parse reads the value of a TLVOrganization; ErrOrganization if it is another.
func (f *FollowUpInfo) Parse(v []byte) error {
	if err := kindFollowUpInfo.is(v, followUpInfoLen); err != nil {
		return err
	}
	be := binary.BigEndian
	f.CumulativeRateOffset, f.TimeBaseIndicator = int32(be.Uint32(v[6:])), be.Uint16(v[10:])
	f.LastPhaseChange.parse(v[12:])
	f.LastFreqChange = int32(be.Uint32(v[24:]))
	return nil
}

// Append appends the TLV.
func (f *FollowUpInfo) Append(b []byte) []byte {
	start := len(b)
	b = kindFollowUpInfo.open(b, TLVOrganization)
	b = binary.BigEndian.AppendUint32(b, uint32(f.CumulativeRateOffset))
	b = binary.BigEndian.AppendUint16(b, f.TimeBaseIndicator)
	b = f.LastPhaseChange.append(b)
	b = binary.BigEndian.AppendUint32(b, uint32(f.LastFreqChange))
	return closeTLV(b, start)
}

// Values of an IntervalRequest that are no intervals (IEEE 802.1AS table
// 10-13).
const (
	IntervalUnchanged int8 = -128
	IntervalInitial   int8 = 126
	IntervalStop      int8 = 127
)

// IntervalRequest asks a gPTP neighbor for other message intervals (IEEE
// 802.1AS section 10.6.4.3). Intervals are log2 of seconds or one of the
// values above.
type IntervalRequest struct {
	LinkDelay, TimeSync, Announce int8
	// Whether the neighbor shall compute its neighborRateRatio and
	// meanLinkDelay.
	ComputeRateRatio, ComputeLinkDelay bool
}

// Parse reads the value of a TLVOrganization; ErrOrganization if it is another.
func (r *IntervalRequest) Parse(v []byte) error {
	if err := kindIntervalRequest.is(v, 12); err != nil {
		return err
	}
	*r = IntervalRequest{int8(v[6]), int8(v[7]), int8(v[8]), v[9]&1 != 0, v[9]&2 != 0}
	return nil
}

// Append appends the TLV.
func (r *IntervalRequest) Append(b []byte) []byte {
	start := len(b)
	b = append(kindIntervalRequest.open(b, TLVOrganization), uint8(r.LinkDelay), uint8(r.TimeSync), uint8(r.Announce))
	return closeTLV(append(b, bit(r.ComputeRateRatio, 0)|bit(r.ComputeLinkDelay, 1), 0, 0), start)
}

// GPTPCapable tells a neighbor that this port speaks gPTP, a
// TLVOrganizationDoNotPropagate (IEEE 802.1AS-2020 section 10.6.4.4).
type GPTPCapable struct {
	LogInterval int8 // to the next of these
	Flags       uint8
}

// Parse reads the value of a TLVOrganizationDoNotPropagate; ErrOrganization if
// it is another.
func (g *GPTPCapable) Parse(v []byte) error {
	if err := kindGPTPCapable.is(v, 12); err != nil {
		return err
	}
	*g = GPTPCapable{int8(v[6]), v[7]}
	return nil
}

// Append appends the TLV.
func (g *GPTPCapable) Append(b []byte) []byte {
	start := len(b)
	b = append(kindGPTPCapable.open(b, TLVOrganizationDoNotPropagate), uint8(g.LogInterval), g.Flags, 0, 0, 0, 0)
	return closeTLV(b, start)
}

// Power is the extension of the power profile, in Announce (IEEE C37.238).
type Power struct {
	Year          int // 2011 or 2017
	GrandmasterID uint16
	// In ns; what grandmaster and network may be wrong by (2011), and both
	// together (2017).
	GrandmasterInaccuracy, NetworkInaccuracy, TotalInaccuracy uint32
}

// Parse reads the value of a TLVOrganization; ErrOrganization if it is another.
func (p *Power) Parse(v []byte) error {
	year, be := 2011, binary.BigEndian
	err := kindPower2011.is(v, 18)
	if err == ErrOrganization {
		year, err = 2017, kindPower2017.is(v, 18)
	}
	if err != nil {
		return err
	}
	*p = Power{Year: year, GrandmasterID: be.Uint16(v[6:])}
	if year == 2011 {
		p.GrandmasterInaccuracy, p.NetworkInaccuracy = be.Uint32(v[8:]), be.Uint32(v[12:])
	} else {
		p.TotalInaccuracy = be.Uint32(v[12:])
	}
	return nil
}

// Append appends the TLV in the form of its year.
func (p *Power) Append(b []byte) []byte {
	start, k, first, second := len(b), kindPower2017, uint32(0), p.TotalInaccuracy
	if p.Year == 2011 {
		k, first, second = kindPower2011, p.GrandmasterInaccuracy, p.NetworkInaccuracy
	}
	b = binary.BigEndian.AppendUint16(k.open(b, TLVOrganization), p.GrandmasterID)
	b = binary.BigEndian.AppendUint32(b, first)
	b = binary.BigEndian.AppendUint32(b, second)
	return closeTLV(append(b, 0, 0), start)
}

// InterfaceRate is the interface rate extension of the telecom profiles, for
// links whose two ends run at different rates (ITU-T G.8275.2 annex D).
type InterfaceRate struct {
	BitPeriod             uint64 // in 10^-18 s
	BitsBefore, BitsAfter uint16 // the time-stamp point, in a message
}

// Parse reads the value of a TLVOrganization; ErrOrganization if it is another.
func (r *InterfaceRate) Parse(v []byte) error {
	if err := kindInterfaceRate.is(v, 18); err != nil {
		return err
	}
	be := binary.BigEndian
	*r = InterfaceRate{be.Uint64(v[6:]), be.Uint16(v[14:]), be.Uint16(v[16:])}
	return nil
}

// Append appends the TLV.
func (r *InterfaceRate) Append(b []byte) []byte {
	start := len(b)
	b = binary.BigEndian.AppendUint64(kindInterfaceRate.open(b, TLVOrganization), r.BitPeriod)
	b = binary.BigEndian.AppendUint16(b, r.BitsBefore)
	return closeTLV(binary.BigEndian.AppendUint16(b, r.BitsAfter), start)
}

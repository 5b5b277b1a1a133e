package msg

import "encoding/binary"

// PathTrace is the value of a TLVPathTrace, borrowed: the clocks that an
// Announce message has come through, the grandmaster first (section 16.2).
type PathTrace []byte

const clockIdentityLen = 8

// ParsePathTrace reads the value of a TLVPathTrace.
func ParsePathTrace(v []byte) (PathTrace, error) {
	if len(v)%clockIdentityLen != 0 {
		return nil, ErrValueLength
	}
	return v, nil
}

// Len is the number of clocks.
func (p PathTrace) Len() int { return len(p) / clockIdentityLen }

// At is clock i, counted from 0.
func (p PathTrace) At(i int) ClockIdentity {
	return ClockIdentity(p[i*clockIdentityLen:][:clockIdentityLen])
}

// Contains reports whether the message has come through c: it runs in a circle.
func (p PathTrace) Contains(c ClockIdentity) bool {
	for i := range p.Len() {
		if p.At(i) == c {
			return true
		}
	}
	return false
}

// AppendPathTrace appends a TLVPathTrace of path and then, if it is not zero,
// own.
func AppendPathTrace(b []byte, path []ClockIdentity, own ClockIdentity) []byte {
	start := len(b)
	b = openTLV(b, TLVPathTrace)
	for i := range path {
		b = append(b, path[i][:]...)
	}
	if own != (ClockIdentity{}) {
		b = append(b, own[:]...)
	}
	return closeTLV(b, start)
}

// AlternateTimeOffset tells of another timescale, such as local time (section
// 16.3).
type AlternateTimeOffset struct {
	Key           uint8
	CurrentOffset int32  // alternate time less the grandmaster's, in s
	JumpSeconds   int32  // how far it will jump next, forward if positive; 0: never
	NextJump      uint64 // 48 bits: when, in s of the grandmaster's time
	Name          []byte // text in UTF-8, borrowed, at most 255 octets; 10 symbols by the standard
}

const alternateTimeOffsetLen = 16 // to the length of the name

// Parse reads the value of a TLVAlternateTimeOffset.
func (a *AlternateTimeOffset) Parse(v []byte) error {
	if len(v) < alternateTimeOffsetLen {
		return ErrValueLength
	}
	end := alternateTimeOffsetLen + int(v[15])
	if len(v) != end && len(v) != end+1 {
		return ErrValueLength
	}
	be := binary.BigEndian
	*a = AlternateTimeOffset{v[0], int32(be.Uint32(v[1:])), int32(be.Uint32(v[5:])), be.Uint64(v[7:]) & MaxSeconds,
		v[alternateTimeOffsetLen:end:end]}
	return nil
}

// Append appends the TLV.
func (a *AlternateTimeOffset) Append(b []byte) []byte {
	start, be := len(b), binary.BigEndian
	b = append(openTLV(b, TLVAlternateTimeOffset), a.Key)
	b = be.AppendUint32(b, uint32(a.CurrentOffset))
	b = be.AppendUint32(b, uint32(a.JumpSeconds))
	b = be.AppendUint16(b, uint16(a.NextJump>>32))
	b = be.AppendUint32(b, uint32(a.NextJump))
	b = append(b, uint8(len(a.Name)))
	return closeTLV(append(b, a.Name...), start)
}

// L1Sync is what a port says of its layer-1 synchronization (annex L).
type L1Sync struct {
	Flags    uint8 // TCR, RCR, CR, OPE from bit 0
	State    uint8 // ITC, IRC, IC from bit 0
	Extended bool  // the rest is present; goes with OPE
	Optional uint8 // TCT, POV, FOV from bit 0
	// Transmit phase and frequency offsets with the times they hold for.
	Phase     TimeInterval
	PhaseAt   Timestamp
	Frequency TimeInterval
	FreqAt    Timestamp
}

// Parse reads the value of a TLVL1Sync.
func (l *L1Sync) Parse(v []byte) error {
	if len(v) != 2 && len(v) != 40 {
		return ErrValueLength
	}
	*l = L1Sync{Flags: v[0], State: v[1]}
	if len(v) == 2 {
		return nil
	}
	l.Extended, l.Optional = true, v[2]
	l.Phase = TimeInterval(binary.BigEndian.Uint64(v[3:]))
	l.PhaseAt.parse(v[11:])
	l.Frequency = TimeInterval(binary.BigEndian.Uint64(v[21:]))
	l.FreqAt.parse(v[29:])
	return nil
}

// Append appends the TLV.
func (l *L1Sync) Append(b []byte) []byte {
	start := len(b)
	b = append(openTLV(b, TLVL1Sync), l.Flags, l.State)
	if l.Extended {
		b = append(b, l.Optional)
		b = binary.BigEndian.AppendUint64(b, uint64(l.Phase))
		b = l.PhaseAt.append(b)
		b = binary.BigEndian.AppendUint64(b, uint64(l.Frequency))
		b = l.FreqAt.append(b)
	}
	return closeTLV(b, start)
}

// PortAvailability is how a port has Sync and Delay_Resp, by multicast, unicast
// or both, as bits (section 16.9).
type PortAvailability struct{ Sync, DelayResp uint8 }

// Parse reads the value of a TLVPortAvailability.
func (p *PortAvailability) Parse(v []byte) error {
	if len(v) != 2 {
		return ErrValueLength
	}
	*p = PortAvailability{v[0], v[1]}
	return nil
}

// Append appends the TLV.
func (p *PortAvailability) Append(b []byte) []byte {
	return append(b, uint8(TLVPortAvailability>>8), uint8(TLVPortAvailability&0xff), 0, 2, p.Sync, p.DelayResp)
}

// CumulativeRateRatio is (rate ratio - 1) * 2^41 of a clock against its
// grandmaster (section 16.10).
type CumulativeRateRatio int32

// Parse reads the value of a TLVCumulativeRateRatio.
func (c *CumulativeRateRatio) Parse(v []byte) error {
	if len(v) != 4 {
		return ErrValueLength
	}
	*c = CumulativeRateRatio(binary.BigEndian.Uint32(v))
	return nil
}

// Append appends the TLV.
func (c CumulativeRateRatio) Append(b []byte) []byte {
	b = append(b, uint8(TLVCumulativeRateRatio>>8), uint8(TLVCumulativeRateRatio&0xff), 0, 4)
	return binary.BigEndian.AppendUint32(b, uint32(c))
}

// Authentication secures a message (section 16.14). How Rest divides into
// disclosed key, sequence number, reserved field and integrity check value is
// agreed on outside the protocol.
type Authentication struct {
	SPP       uint8 // security parameter pointer
	Indicator uint8 // which of the optional fields are present
	KeyID     uint32
	Rest      []byte // borrowed
}

const authenticationLen = 6

// Parse reads the value of a TLVAuthentication.
func (a *Authentication) Parse(v []byte) error {
	if len(v) < authenticationLen {
		return ErrValueLength
	}
	*a = Authentication{v[0], v[1], binary.BigEndian.Uint32(v[2:]), v[authenticationLen:]}
	return nil
}

// Append appends the TLV.
func (a *Authentication) Append(b []byte) []byte {
	start := len(b)
	b = append(openTLV(b, TLVAuthentication), a.SPP, a.Indicator)
	b = binary.BigEndian.AppendUint32(b, a.KeyID)
	return closeTLV(append(b, a.Rest...), start)
}

package msg

import (
	"encoding/binary"
	"errors"
	"iter"
)

// What can be wrong with the value of a TLV.
var (
	ErrValueLength  = errors.New("msg: TLV value of impossible length")
	ErrOrganization = errors.New("msg: organization extension of another kind")
)

// TLVType is the type of a TLV (table 52).
type TLVType uint16

// The TLV types.
const (
	TLVManagement                 TLVType = 0x0001
	TLVManagementErrorStatus      TLVType = 0x0002
	TLVOrganization               TLVType = 0x0003
	TLVRequestUnicast             TLVType = 0x0004
	TLVGrantUnicast               TLVType = 0x0005
	TLVCancelUnicast              TLVType = 0x0006
	TLVAckCancelUnicast           TLVType = 0x0007
	TLVPathTrace                  TLVType = 0x0008
	TLVAlternateTimeOffset        TLVType = 0x0009
	TLVOrganizationPropagate      TLVType = 0x4000
	TLVEnhancedAccuracyMetrics    TLVType = 0x4001
	TLVOrganizationDoNotPropagate TLVType = 0x8000
	TLVL1Sync                     TLVType = 0x8001
	TLVPortAvailability           TLVType = 0x8002
	TLVProtocolAddress            TLVType = 0x8003
	TLVSlaveRxSyncTiming          TLVType = 0x8004
	TLVSlaveRxSyncComputed        TLVType = 0x8005
	TLVSlaveTxEventTimestamps     TLVType = 0x8006
	TLVCumulativeRateRatio        TLVType = 0x8007
	TLVPad                        TLVType = 0x8008
	TLVAuthentication             TLVType = 0x8009
)

// Propagates reports whether a boundary clock that does not know type t passes
// it on in Announce messages (section 14.2.2.2).
func (t TLVType) Propagates() bool { return t >= 0x4000 && t < 0x8000 }

// TLVHeaderLen is the length in octets of a TLV's type and length.
const TLVHeaderLen = 4

// TLV is one TLV. Value is borrowed from the message.
type TLV struct {
	Type  TLVType
	Value []byte
}

// TLVs is a sequence of encoded TLVs.
type TLVs []byte

// Next splits off the first TLV; false if there is none or it is cut short.
func (ts TLVs) Next() (t TLV, rest TLVs, ok bool) {
	if len(ts) < TLVHeaderLen {
		return t, nil, false
	}
	end := TLVHeaderLen + int(binary.BigEndian.Uint16(ts[2:]))
	if len(ts) < end {
		return t, nil, false
	}
	return TLV{TLVType(binary.BigEndian.Uint16(ts)), ts[TLVHeaderLen:end:end]}, ts[end:], true
}

// All are the TLVs in order.
func (ts TLVs) All() iter.Seq[TLV] {
	return func(yield func(TLV) bool) {
		for t, rest, ok := ts.Next(); ok && yield(t); t, rest, ok = rest.Next() {
		}
	}
}

// Find is the value of the first TLV of type t, false if there is none.
func (ts TLVs) Find(t TLVType) ([]byte, bool) {
	for tlv := range ts.All() {
		if tlv.Type == t {
			return tlv.Value, true
		}
	}
	return nil, false
}

// check tells what is wrong with the sequence.
func (ts TLVs) check() error {
	for len(ts) > 0 {
		t, rest, ok := ts.Next()
		if !ok {
			return ErrTLV
		}
		if len(t.Value)%2 != 0 {
			return ErrTLVLength
		}
		ts = rest
	}
	return nil
}

// AppendTLV appends a TLV to b. A value of odd length gets a zero octet more.
func AppendTLV(b []byte, t TLVType, value []byte) []byte {
	start := len(b)
	return closeTLV(append(openTLV(b, t), value...), start)
}

// openTLV appends the header of a TLV, whose length closeTLV fills in.
func openTLV(b []byte, t TLVType) []byte {
	return append(b, uint8(t>>8), uint8(t), 0, 0)
}

// closeTLV ends the TLV that starts at start: makes it even and sets its length.
func closeTLV(b []byte, start int) []byte {
	if (len(b)-start)%2 != 0 {
		b = append(b, 0)
	}
	binary.BigEndian.PutUint16(b[start+2:], uint16(len(b)-start-TLVHeaderLen))
	return b
}

// AppendPad appends a PAD TLV that makes a message longer by n octets, an even
// number from 4 (section 16.13).
func AppendPad(b []byte, n int) []byte {
	start := len(b)
	b = openTLV(b, TLVPad)
	for range n - TLVHeaderLen {
		b = append(b, 0)
	}
	return closeTLV(b, start)
}

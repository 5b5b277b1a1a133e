package msg

import "encoding/binary"

// SlaveRxSyncTiming reports what a slave port has received, by message
// (section 16.11.4.1).
type SlaveRxSyncTiming struct {
	Source  PortIdentity // of the Sync messages
	Records []RxSyncTiming
}

// RxSyncTiming is one record of SlaveRxSyncTiming.
type RxSyncTiming struct {
	Sequence   uint16
	Origin     Timestamp
	Correction TimeInterval // of Sync and Follow_Up together
	RateOffset int32        // scaledCumulativeRateOffset: (ratio - 1) * 2^41
	Ingress    Timestamp
}

// SlaveRxSyncComputed reports what a slave port has computed from that
// (section 16.11.4.2).
type SlaveRxSyncComputed struct {
	Source PortIdentity
	// Which values of the records are valid.
	RateRatioValid, MeanPathDelayValid, OffsetValid bool
	Records                                         []RxSyncComputed
}

// RxSyncComputed is one record of SlaveRxSyncComputed.
type RxSyncComputed struct {
	Sequence         uint16
	OffsetFromMaster TimeInterval
	MeanPathDelay    TimeInterval
	RateRatio        int32 // scaledNeighborRateRatio: (ratio - 1) * 2^41
}

// SlaveTxEvents reports when event messages of one type were sent (section
// 16.11.4.3).
type SlaveTxEvents struct {
	Source  PortIdentity // the sender
	Type    Type
	Records []TxEvent
}

// TxEvent is one record of SlaveTxEvents.
type TxEvent struct {
	Sequence uint16
	Egress   Timestamp
}

// Lengths of the records in octets.
const (
	rxSyncTimingLen   = 34
	rxSyncComputedLen = 22
	txEventLen        = 12
)

// records reads what follows the first head octets of v.
func records[T any](v []byte, head, length int, parse func(*T, []byte)) ([]T, error) {
	if len(v) < head || (len(v)-head)%length != 0 {
		return nil, ErrValueLength
	}
	list := make([]T, (len(v)-head)/length)
	for i := range list {
		parse(&list[i], v[head+i*length:])
	}
	return list, nil
}

// Parse reads the value of a TLVSlaveRxSyncTiming.
func (s *SlaveRxSyncTiming) Parse(v []byte) (err error) {
	if s.Records, err = records(v, PortIdentityLen, rxSyncTimingLen, (*RxSyncTiming).parse); err == nil {
		s.Source.parse(v)
	}
	return err
}

func (r *RxSyncTiming) parse(b []byte) {
	be := binary.BigEndian
	r.Sequence = be.Uint16(b)
	r.Origin.parse(b[2:])
	r.Correction, r.RateOffset = TimeInterval(be.Uint64(b[12:])), int32(be.Uint32(b[20:]))
	r.Ingress.parse(b[24:])
}

// Append appends the TLV.
func (s *SlaveRxSyncTiming) Append(b []byte) []byte {
	start, be := len(b), binary.BigEndian
	b = s.Source.append(openTLV(b, TLVSlaveRxSyncTiming))
	for i := range s.Records {
		r := &s.Records[i]
		b = r.Origin.append(be.AppendUint16(b, r.Sequence))
		b = be.AppendUint64(b, uint64(r.Correction))
		b = r.Ingress.append(be.AppendUint32(b, uint32(r.RateOffset)))
	}
	return closeTLV(b, start)
}

// Parse reads the value of a TLVSlaveRxSyncComputed.
func (s *SlaveRxSyncComputed) Parse(v []byte) (err error) {
	if s.Records, err = records(v, PortIdentityLen+2, rxSyncComputedLen, (*RxSyncComputed).parse); err == nil {
		s.Source.parse(v)
		flags := v[PortIdentityLen]
		s.RateRatioValid, s.MeanPathDelayValid, s.OffsetValid = flags&1 != 0, flags&2 != 0, flags&4 != 0
	}
	return err
}

func (r *RxSyncComputed) parse(b []byte) {
	be := binary.BigEndian
	*r = RxSyncComputed{be.Uint16(b), TimeInterval(be.Uint64(b[2:])), TimeInterval(be.Uint64(b[10:])),
		int32(be.Uint32(b[18:]))}
}

// Append appends the TLV.
func (s *SlaveRxSyncComputed) Append(b []byte) []byte {
	start, be := len(b), binary.BigEndian
	b = s.Source.append(openTLV(b, TLVSlaveRxSyncComputed))
	b = append(b, bit(s.RateRatioValid, 0)|bit(s.MeanPathDelayValid, 1)|bit(s.OffsetValid, 2), 0)
	for i := range s.Records {
		r := &s.Records[i]
		b = be.AppendUint64(be.AppendUint16(b, r.Sequence), uint64(r.OffsetFromMaster))
		b = be.AppendUint32(be.AppendUint64(b, uint64(r.MeanPathDelay)), uint32(r.RateRatio))
	}
	return closeTLV(b, start)
}

// Parse reads the value of a TLVSlaveTxEventTimestamps.
func (s *SlaveTxEvents) Parse(v []byte) (err error) {
	if s.Records, err = records(v, PortIdentityLen+2, txEventLen, (*TxEvent).parse); err == nil {
		s.Source.parse(v)
		s.Type = Type(v[PortIdentityLen] & 15)
	}
	return err
}

func (r *TxEvent) parse(b []byte) {
	r.Sequence = binary.BigEndian.Uint16(b)
	r.Egress.parse(b[2:])
}

// Append appends the TLV.
func (s *SlaveTxEvents) Append(b []byte) []byte {
	start := len(b)
	b = append(s.Source.append(openTLV(b, TLVSlaveTxEventTimestamps)), uint8(s.Type), 0)
	for i := range s.Records {
		b = s.Records[i].Egress.append(binary.BigEndian.AppendUint16(b, s.Records[i].Sequence))
	}
	return closeTLV(b, start)
}

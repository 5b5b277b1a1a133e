// Package keys negotiates the keys of a login in iSCSI and iSER (RFC 7143 sections 6 and 13, RFC 7145
// section 6), for both sides, and has each prove who it is by CHAP (RFC 7143 section 12.1.3).
package keys

import (
	"errors"
	"strconv"

	"tapir/wire/iscsi"
)

// Limits that sides declare. Lengths are in octets.
const (
	MaxText      = 64 << 10 // of a negotiation
	MaxSegment   = 256 << 10
	LoginSegment = 8192 // section 13.12: before it is negotiated
	// ControlData is how many octets of data a control-type PDU of iSER has at most.
	ControlData = 8192
	// Unexpected is how many PDUs a side in iSER may send that the other one does not expect.
	Unexpected = 16
)

// Params are what was negotiated. Lengths are in octets.
type Params struct {
	Send                      int // the longest data segment that the other side takes
	Burst, First              int
	InitialR2T, ImmediateData bool
	Digests                   iscsi.Digests

	ISER   bool // at all
	Tagged bool // advertised memory begins behind the data that comes without being asked for
	Hello  bool // the session begins with a Hello
	// Unexpected is how many PDUs the initiator takes that it does not expect; 0: any number.
	Unexpected int
}

// Defaults are the values of keys that nobody has negotiated (RFC 7143 section 13).
func Defaults() Params {
	return Params{Send: LoginSegment, Burst: 262144, First: 65536, InitialR2T: true, ImmediateData: true}
}

// Offer are the operational keys that an initiator begins with, of a session that is normal or one of
// discovery.
func (p *Params) Offer(asked, normal, rdma bool) (text []byte) {
	digests := "None"
	if rdma && normal {
		text = p.offerISER(text)
	}
	if asked && !rdma {
		digests = "CRC32C"
	}
	for _, k := range []iscsi.Pair{{Key: "HeaderDigest", Value: digests}, {Key: "DataDigest", Value: digests},
		{Key: "MaxRecvDataSegmentLength", Value: strconv.Itoa(MaxSegment)}} {
		text = iscsi.AppendText(text, k.Key, k.Value)
	}
	if !normal {
		return text
	}
	for _, k := range []iscsi.Pair{{Key: "InitialR2T", Value: yes}, {Key: "ImmediateData", Value: yes},
		{Key: "MaxBurstLength", Value: "1048576"}, {Key: "FirstBurstLength", Value: strconv.Itoa(MaxSegment)},
		{Key: "MaxOutstandingR2T", Value: "1"}, {Key: "MaxConnections", Value: "1"},
		{Key: "ErrorRecoveryLevel", Value: "0"}, {Key: "DefaultTime2Wait", Value: "2"},
		{Key: "DefaultTime2Retain", Value: "0"}} {
		text = iscsi.AppendText(text, k.Key, k.Value)
	}
	return text
}

// offerISER are the keys of iSER that an initiator begins with.
func (p *Params) offerISER(text []byte) []byte {
	p.Tagged = true
	for _, k := range []iscsi.Pair{{Key: "RDMAExtensions", Value: yes},
		{Key: "TargetRecvDataSegmentLength", Value: strconv.Itoa(ControlData)},
		{Key: "InitiatorRecvDataSegmentLength", Value: strconv.Itoa(ControlData)},
		{Key: "MaxOutstandingUnexpectedPDUs", Value: strconv.Itoa(Unexpected)},
		{Key: "TaggedBufferForSolicitedDataOnly", Value: yes}} {
		text = iscsi.AppendText(text, k.Key, k.Value)
	}
	return text
}

// Answered reads what a target has decided: digests, which count from the end of the login on, are asked for,
// and the connection is RDMA's, or not.
func (p *Params) Answered(pairs []iscsi.Pair, digests *iscsi.Digests, asked, rdma bool) error {
	for _, k := range pairs {
		n, number := 0, false
		if v, err := strconv.ParseUint(k.Value, 0, 24); err == nil {
			n, number = int(v), v >= 512
		}
		ok := true
		switch k.Key {
		case "HeaderDigest":
			digests.Header = k.Value == "CRC32C"
			ok = k.Value == "None" || asked && digests.Header
		case "DataDigest":
			digests.Data = k.Value == "CRC32C"
			ok = k.Value == "None" || asked && digests.Data
		case "MaxRecvDataSegmentLength":
			if ok = number; !rdma {
				p.Send = n
			}
		case "MaxBurstLength":
			p.Burst, ok = n, number
		case "FirstBurstLength":
			p.First, ok = n, number
		case "ImmediateData":
			p.ImmediateData, ok = k.Value == yes, k.Value == yes || k.Value == no
		case "RDMAExtensions":
			p.ISER = k.Value == yes && rdma
		case "TargetRecvDataSegmentLength":
			p.Send, ok = n, number && n <= ControlData
		case "TaggedBufferForSolicitedDataOnly":
			p.Tagged = false // it is not understood
		}
		if !ok {
			return errors.New("iscsi: the target answers " + k.Key + "=" + k.Value)
		}
	}
	return nil
}

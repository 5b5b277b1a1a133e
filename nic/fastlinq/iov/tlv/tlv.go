// Package tlv has the messages between VFs and their PF: byte for byte those of
// ecore_vfpf_if.h. All numbers are little-endian. A message is a list of TLVs, of
// which the first has the address for the reply, and the last is ListEnd.
package tlv

import (
	"encoding/binary"
	"fmt"

	"tapir/nic/fastlinq/status"
	"tapir/wire/enum"
)

// BufferSize is the most octets of a message or a reply (TLV_BUFFER_SIZE).
const BufferSize = 1024

// Type is that of a TLV (CHANNEL_TLV_*).
type Type uint16

// The types. Those from 29 to 60 belong to RDMA in VFs, which PFs refuse.
const (
	None Type = iota
	Acquire
	VportStart
	VportUpdate
	VportTeardown
	StartRxq
	StartTxq
	StopRxqs
	StopTxqs
	UpdateRxq
	IntCleanup
	Close
	Release
	ListEnd
	UcastFilter
	UpdateActivate
	UpdateTxSwitch
	UpdateVLANStrip
	UpdateMcast
	UpdateAcceptParam
	UpdateRSS
	UpdateAcceptAnyVLAN
	UpdateSGETPA
	UpdateTunnParam
	CoalesceUpdate
	QID
	CoalesceRead
	BulletinUpdateMAC
	UpdateMTU
	RDMAFirst
	RDMALast Type = 60
	SoftFLR  Type = 61
	// MaxType is the first that is not known.
	MaxType Type = 62
)

var typeNames = [...]string{
	"NONE", "ACQUIRE", "VPORT_START", "VPORT_UPDATE", "VPORT_TEARDOWN", "START_RXQ", "START_TXQ", "STOP_RXQS",
	"STOP_TXQS", "UPDATE_RXQ", "INT_CLEANUP", "CLOSE", "RELEASE", "LIST_END", "UCAST_FILTER", "VPORT_UPDATE_ACTIVATE",
	"VPORT_UPDATE_TX_SWITCH", "VPORT_UPDATE_VLAN_STRIP", "VPORT_UPDATE_MCAST", "VPORT_UPDATE_ACCEPT_PARAM",
	"VPORT_UPDATE_RSS", "VPORT_UPDATE_ACCEPT_ANY_VLAN", "VPORT_UPDATE_SGE_TPA", "UPDATE_TUNN_PARAM",
	"COALESCE_UPDATE", "QID", "COALESCE_READ", "BULLETIN_UPDATE_MAC", "UPDATE_MTU", SoftFLR: "SOFT_FLR",
}

// String is the type's name.
func (t Type) String() string {
	if t >= RDMAFirst && t <= RDMALast {
		return fmt.Sprintf("RDMA(%d)", t)
	}
	return enum.Name(typeNames[:], t, "TLV(%d)")
}

// Status is the PF's answer (PFVF_STATUS_*).
type Status uint8

// The statuses. Waiting is what the driver of a VF sets before it asks.
const (
	Waiting Status = iota
	Success
	Failure
	NotSupported
	NoResource
	Forced
	Malicious
	Acquired
)

var statusNames = [...]string{"WAITING", "SUCCESS", "FAILURE", "NOT_SUPPORTED", "NO_RESOURCE", "FORCED", "MALICIOUS",
	"ACQUIRED"}

// String is the status's name.
func (s Status) String() string { return enum.Name(statusNames[:], s, "Status(%d)") }

// Header begins each TLV. Length counts it.
type Header struct {
	Type   Type
	Length uint16
}

// First begins a request.
type First struct {
	Header
	Pad   uint32
	Reply uint64 // address for the reply
}

// Reply begins a reply.
type Reply struct {
	Header
	Status Status
	Pad    [3]byte
}

// End ends a list.
type End struct {
	Header
	Pad [4]byte
}

// Sizes of TLVs that have no structure of their own.
const (
	HeaderLen = 4
	FirstLen  = 16
	ReplyLen  = 8
	EndLen    = 8
)

// Size is that of a TLV's structure, in octets.
func Size(v any) int { return binary.Size(v) }

// Append appends TLVs, structures of this package, as they are.
func Append(b []byte, tlvs ...any) []byte {
	for _, v := range tlvs {
		var err error
		if b, err = binary.Append(b, binary.LittleEndian, v); err != nil {
			panic(err) // not a structure of this package
		}
	}
	return b
}

// Decode reads a structure from the beginning of b. INVAL: b is too short.
func Decode(b []byte, v any) error {
	if _, err := binary.Decode(b, binary.LittleEndian, v); err != nil {
		return status.Inval.Errorf("%d octets: want %d", len(b), Size(v))
	}
	return nil
}

// Request completes a message to a PF: the header of its first TLV, which begins with
// a First, the address for the reply, other TLVs and the end. It returns the message.
func Request(t Type, reply uint64, first any, more ...any) []byte {
	b := Append(nil, first)
	Append(b[:0], First{Header: Header{t, uint16(len(b))}, Reply: reply})
	b = Append(b, more...)
	return Append(b, End{Header: Header{ListEnd, EndLen}})
}

// List takes a message apart into its TLVs, each with its header, without ListEnd.
// What follows ListEnd is not looked at. INVAL: no room for a header, a length that is
// shorter than one, a TLV beyond the message, no ListEnd.
func List(b []byte) (list [][]byte, err error) {
	if len(b) > BufferSize {
		return nil, status.Inval.Errorf("message of %d octets: at most %d", len(b), BufferSize)
	}
	for at := 0; ; {
		rest := b[at:]
		if len(rest) < HeaderLen {
			return nil, status.Inval.Errorf("message of %d octets without its end", len(b))
		}
		n := int(binary.LittleEndian.Uint16(rest[2:]))
		switch t := TypeOf(rest); {
		case n < HeaderLen:
			return nil, status.Inval.Errorf("%v at octet %d: length %d", t, at, n)
		case n > len(rest):
			return nil, status.Inval.Errorf("%v at octet %d: length %d beyond a message of %d octets", t, at, n,
				len(b))
		case t == ListEnd:
			return list, nil
		}
		list = append(list, rest[:n:n])
		at += n
	}
}

// TypeOf is the type of a TLV, or of a message's first. It needs two octets.
func TypeOf(b []byte) Type { return Type(binary.LittleEndian.Uint16(b)) }

// Response is a reply: its first TLV, which begins with a Reply, nil for that alone,
// other TLVs and the end.
func Response(t Type, s Status, first any, more ...any) []byte {
	if first == nil {
		first = Reply{}
	}
	b := Append(nil, first)
	Append(b[:0], Reply{Header: Header{t, uint16(len(b))}, Status: s})
	b = Append(b, more...)
	return Append(b, End{Header: Header{ListEnd, EndLen}})
}

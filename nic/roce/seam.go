package roce

import (
	"tapir/nic/roce/dcqcn"
	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
	"tapir/wire/frame"
)

// Output is where the engine's packets go: the internet layer of the NIC, which
// resolves the station address on the VLAN of the hop and adds the Ethernet header and tag.
type Output interface {
	// Transmit takes f. With RoCE v2 f begins with an IP header and is complete, its ICRC
	// included; f.Offload may ask for UDP segmentation (frame.GSOUDP), which
	// numbers the segments' IP identification from that of f on. With RoCE v1
	// f begins with a GRH and belongs in a frame of EtherType 0x8915.
	Transmit(f *frame.Frame, hop *Hop, now frame.Time)
	// Room is how many frames Transmit takes now. Who has said 0 must see to
	// it that Poll is called again when there is room.
	Room() int
}

// Hop says where a packet goes.
type Hop struct {
	Dst, Src verbs.GID // IPv4 is mapped into IPv6; Dst may be a group
	V1       bool      // RoCE v1: f begins with a GRH
	VLAN     uint16    // of the local GID: 802.1Q id of the frame; 0: untagged
	// SL is the service level of the path, 0 to 7: the priority (PCP) of a tagged frame, as
	// drivers of Linux have it. A frame without a VLAN carries none: hardware adds a tag with
	// VLAN 0 only where DCB has given RoCE a priority.
	SL uint8
	// TClass is the traffic class (TOS) of the IP header.
	TClass uint8
}

// Env is what an engine needs of the NIC around it. GIDs and partition keys are those of
// the port of the verbs.Device.
type Env struct {
	Pool  frame.Pool
	Out   Output
	Notes *frame.Notes // nil: no capture notes
	// MTU is the largest path MTU that the link carries, in octets of payload: 256 to 4096.
	MTU func() int
	// Segments is how many packets a super-frame holds at most; 1: no
	// segmentation offload.
	Segments func() int
	// Holds tells whether packets of a hop have to wait for their traffic class, as PFC holds it
	// back or it is full; nil: never. The engine asks again in each Poll.
	Holds func(*Hop) bool
	// DCQCN sets up congestion control; Speed is the link's in Mb/s.
	DCQCN dcqcn.Params
	Speed func() int
}

// Datagram is what queue pair 1, which carries management datagrams, receives.
type Datagram struct {
	From      qpattr.Path // the way back to the sender
	To        verbs.GID   // destination address: the local GID, or a group
	SrcQP     uint32
	PKeyIndex uint16 // of this port's key that the datagram's matches
	Payload   []byte // borrowed
}

// GSI receives the datagrams of queue pair 1 and offers those to be sent.
type GSI interface {
	// Datagram takes what came in for queue pair 1 with the right Q_Key.
	Datagram(d *Datagram, now frame.Time)
}

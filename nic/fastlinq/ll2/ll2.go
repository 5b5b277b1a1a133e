// Package ll2 is the light L2 of the driver core (ecore_ll2): queues by which the
// driver itself, not an upper one, sends and receives frames. Both halves are here.
// The driver's, Manager and Conn, has connections with buffers, callbacks and their
// life cycle; the firmware's, Firmware, executes the ramrods of protocol CORE and
// moves frames. They share rings, and tell each other by doorbells and protocol
// indices. Neither has a clock or a lock.
//
// Each buffer that a connection is given comes back by exactly one callback: as
// complete, or as released when the connection is terminated.
package ll2

import (
	"strings"

	"tapir/nic/fastlinq/status"
	"tapir/wire/enum"
	"tapir/wire/ether"
)

// Type is what a connection is for (ecore_ll2_conn_type).
type Type uint8

// The types. Number 4 is reserved.
const (
	FCoE Type = iota
	ISCSI
	Test
	OOO
	reserved
	RoCE
	IWARP
	NumTypes
)

var typeNames = [NumTypes]string{FCoE: "FCOE", ISCSI: "ISCSI", Test: "TEST", OOO: "OOO", RoCE: "ROCE", IWARP: "IWARP"}

// String is the type's name.
func (t Type) String() string { return enum.Name(typeNames[:], t, "Type(%d)") }

// etherTypes are the frames that the firmware gives to a connection of a type, by
// filters of the port (LLH) that stand as long as it is established. Those of the
// others the firmware knows itself.
var etherTypes = [NumTypes][]uint16{FCoE: {0x8906, 0x8914}, Test: {ether.TypeLoopback}, RoCE: {0x8915}}

// Dest is where what a connection sends goes (ecore_ll2_tx_dest).
type Dest uint8

// The destinations.
const (
	Network  Dest = iota
	Loopback      // the function's own receiver: the operating system
	Drop
	numDests
)

var destNames = [numDests]string{"NW", "LB", "DROP"}

// String is the destination's name.
func (d Dest) String() string { return enum.Name(destNames[:], d, "Dest(%d)") }

// ParseDest reads a name. INVAL.
func ParseDest(s string) (Dest, error) {
	for d, name := range destNames {
		if strings.EqualFold(s, name) {
			return Dest(d), nil
		}
	}
	return 0, status.Inval.Errorf("LL2 destination %q: use nw, lb or drop", s)
}

// OnError is what the firmware does about a packet that a connection cannot take
// (core_error_handle).
type OnError uint8

// The actions.
const (
	DropPacket OnError = iota // it is dropped and counted
	DoNothing                 // it is not the connection's
	Assert                    // the firmware asserts
	numOnErrors
)

// Limits (QED_LL2_..., CORE_LL2_TX_MAX_BDS_PER_PACKET).
const (
	MaxConns = 4  // of a function
	MaxBDs   = 12 // buffers of a packet
	MaxDescs = 1 << 15
	// MaxOOOBuffers is the most that an OOO connection asks for.
	MaxOOOBuffers = 2 * 16384
	// HeaderLen is the longest Ethernet header of a packet.
	HeaderLen = ether.MaxHeaderLen
)

// Params are a connection's (ecore_ll2_acquire_data_inputs).
type Params struct {
	Type       Type
	MTU        int  // the longest packet is HeaderLen more
	RxDescs    int  // buffers that the receive ring holds
	OOOBuffers int  // of an OOO connection; 0: 2*RxDescs
	TxDescs    int  // buffers, not packets, that the transmit ring holds
	MaxBDs     int  // buffers of a packet; 0: MaxBDs
	RemoveVLAN bool // the tag comes out of band
	TxDest     Dest // of packets that name none
	TooBig     OnError
	NoBuffer   OnError
}

// Callbacks tell a connection's user what has become of buffers; all are needed.
// They run in the slowpath's interrupt, or in Terminate.
type Callbacks struct {
	RxComplete func(rx Rx)
	RxRelease  func(cookie any, buf []byte)
	// TxComplete is called once for a packet, with what its first buffer came with.
	TxComplete func(cookie any, first []byte)
	TxRelease  func(cookie any, first []byte)
}

// Rx is a received packet.
type Rx struct {
	Cookie any
	Buf    []byte // as it was posted
	Len    int    // octets of the packet in it
	Tagged bool   // a tag was taken out
	TCI    uint16 // of that
	Flags  Flags
}

// Flags are what the parser says of the checksum of a packet's TCP or UDP.
type Flags uint8

// The flags.
const (
	L4Valid   Flags = 1 << iota // it was verified
	L4Partial                   // it holds only the sum of the pseudo-header: the packet never left this machine
)

// Tx is a packet to be sent. Its buffers stay the caller's, and must not change
// before it has completed.
type Tx struct {
	Cookie any
	First  []byte
	BDs    int   // buffers, the first included
	Dest   *Dest // nil: the connection's
	Tagged bool  // a tag is put in
	TCI    uint16
}

// validate checks what the guide's sanity checks do. INVAL.
func (p *Params) validate(cb *Callbacks) error {
	switch {
	case p.Type >= NumTypes || p.Type == reserved:
		return status.Inval.Errorf("LL2 connection of type %v", p.Type)
	case cb.RxComplete == nil || cb.RxRelease == nil || cb.TxComplete == nil || cb.TxRelease == nil:
		return status.Inval.Errorf("LL2 connection of type %v without all four callbacks", p.Type)
	case p.RxDescs < 1 || p.RxDescs > MaxDescs || p.TxDescs < 1 || p.TxDescs > MaxDescs:
		return status.Inval.Errorf("LL2 connection with %d receive and %d transmit descriptors: 1 to %d", p.RxDescs,
			p.TxDescs, MaxDescs)
	case p.MTU < 1 || p.MTU > 0xffff-HeaderLen:
		return status.Inval.Errorf("LL2 connection with MTU %d", p.MTU)
	case p.MaxBDs < 0 || p.MaxBDs > MaxBDs:
		return status.Inval.Errorf("LL2 connection with packets of %d buffers: at most %d", p.MaxBDs, MaxBDs)
	case p.TxDest >= numDests || p.TooBig >= numOnErrors || p.NoBuffer >= numOnErrors:
		return status.Inval.Errorf("LL2 connection to destination %v", p.TxDest)
	case p.OOOBuffers < 0 || p.OOOBuffers > MaxOOOBuffers || p.OOOBuffers > 0 && p.Type != OOO:
		return status.Inval.Errorf("LL2 connection of type %v with %d buffers for what comes out of order", p.Type,
			p.OOOBuffers)
	}
	return nil
}

// Stats are the firmware's counters of a connection.
type Stats struct {
	RxUcast   Traffic `json:"rx_ucast"`
	RxMcast   Traffic `json:"rx_mcast"`
	RxBcast   Traffic `json:"rx_bcast"`
	TxUcast   Traffic `json:"tx_ucast"`
	TxMcast   Traffic `json:"tx_mcast"`
	TxBcast   Traffic `json:"tx_bcast"`
	TxDropped uint64  `json:"tx_dropped"` // packets to destination DROP
	TxFailed  uint64  `json:"tx_failed"`  // that found no frame, or nobody at their destination
	TooBig    uint64  `json:"too_big"`
	NoBuffer  uint64  `json:"no_buffer"`
}

// Traffic counts packets and their octets.
type Traffic struct {
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
}

// Rx and Tx are the sums over all kinds of addresses.
func (s *Stats) Rx() Traffic { return sum(s.RxUcast, s.RxMcast, s.RxBcast) }

// Tx is the sum of what was sent.
func (s *Stats) Tx() Traffic { return sum(s.TxUcast, s.TxMcast, s.TxBcast) }

func sum(list ...Traffic) (t Traffic) {
	for _, one := range list {
		t.Packets, t.Bytes = t.Packets+one.Packets, t.Bytes+one.Bytes
	}
	return t
}

// count takes note of a packet of n octets to a destination.
func count(dst ether.Addr, ucast, mcast, bcast *Traffic, n int) {
	t := ucast
	switch {
	case dst.IsBroadcast():
		t = bcast
	case dst.IsMulticast():
		t = mcast
	}
	t.Packets++
	t.Bytes += uint64(n)
}

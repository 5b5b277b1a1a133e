// Package message holds the messages of RDMA as judges of the protocols above it take
// them, over iWARP and RoCE alike.
package message

import "tapir/lab/tool/inspect/clause"

// Kind is what a message does.
type Kind uint8

// Kinds.
const (
	Send Kind = iota
	SendInvalidate
	Write
	Read   // the request
	Answer // to the oldest Read of the peer
)

var names = [...]string{"Send", "Send with Invalidate", "RDMA Write", "RDMA Read", "RDMA Read Response"}

// String is its name.
func (k Kind) String() string { return names[k] }

// Message is a whole message, in the order in which its side sent it.
type Message struct {
	Kind   Kind
	Side   int
	Packet int
	Octets uint64 // that it carries, or that a Read asks for
	Data   []byte // of a Send; nil: the capture does not have all of it
	Key    uint32 // STag or R_Key of the peer: of the memory, or to be invalidated
	Addr   uint64 // in the memory of a Write or Read
}

// Within tells whether the memory that m is about lies in length octets from base on.
func (m *Message) Within(base, length uint64) bool {
	return m.Addr >= base && m.Addr-base <= length && m.Octets <= length-(m.Addr-base)
}

// Reporter is told what a connection shows. Sides are 0 and 1.
type Reporter interface {
	// Violate says that a packet of a side breaks a rule.
	Violate(side, packet int, r *clause.Rule, detail string)
	// PDU tells of a whole PDU: its name, its fields in a line, and the octets of its data.
	PDU(side, packet int, name, detail string, octets int)
	// Part says why the connection is judged only in part.
	Part(packet int, why string)
	// Seen tells whether the capture has all that the side has sent so far.
	Seen(side int) bool
}

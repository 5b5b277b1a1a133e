package ib

import "fmt"

// Opcode is the operation of a packet: its transport in the upper three bits,
// the operation in the lower five (section 9.2.1).
type Opcode uint8

// Transports of an Opcode.
const (
	TransportRC  Opcode = 0x00 // reliable connection
	TransportUC  Opcode = 0x20 // unreliable connection
	TransportUD  Opcode = 0x60 // unreliable datagram
	TransportCNP Opcode = 0x80 // congestion notification (annex A17)
	TransportXRC Opcode = 0xa0 // extended reliable connection (annex A14)
)

// Operations, without their transport.
const (
	OpSendFirst          Opcode  = 0x00
	OpSendMiddle         Opcode  = 0x01
	OpSendLast           Opcode  = 0x02
	OpSendLastImm        Opcode  = 0x03
	OpSendOnly           Opcode  = 0x04
	OpSendOnlyImm        Opcode  = 0x05
	OpWriteFirst         Opcode  = 0x06
	OpWriteMiddle        Opcode  = 0x07
	OpWriteLast          Opcode  = 0x08
	OpWriteLastImm       Opcode  = 0x09
	OpWriteOnly          Opcode  = 0x0a
	OpWriteOnlyImm       Opcode  = 0x0b
	OpReadRequest        Opcode  = 0x0c
	OpReadResponseFirst  Opcode  = 0x0d
	OpReadResponseMiddle Opcode  = 0x0e
	OpReadResponseLast   Opcode  = 0x0f
	OpReadResponseOnly   Opcode  = 0x10
	OpAcknowledge        Opcode  = 0x11
	OpAtomicAcknowledge  Opcode  = 0x12
	OpCompareSwap        Opcode  = 0x13
	OpFetchAdd           Opcode  = 0x14
	OpSendLastInvalidate Opcode  = 0x16
	OpSendOnlyInvalidate Opcode  = 0x17
	numOperations                = 0x18
	operationMask        Opcode  = 0x1f
	transportMask        Opcode  = 0xe0
	CNP                  Opcode  = TransportCNP | 0x01
	UDSendOnly                   = TransportUD | OpSendOnly
	UDSendOnlyImm                = TransportUD | OpSendOnlyImm
	cnpReserved                  = 16 // octets behind the BTH of a CNP
	firstRCOnly                  = OpReadRequest
	headersOfDatagram    Headers = HasDETH
)

// BeginsSend tells whether a packet is the first or the only one of a Send.
func (o Opcode) BeginsSend() bool {
	switch o.Op() {
	case OpSendFirst, OpSendOnly, OpSendOnlyImm, OpSendOnlyInvalidate:
		return true
	}
	return false
}

// Headers is the set of extension headers behind a BTH, in the order in which
// they stand in the packet.
type Headers uint8

// Extension headers.
const (
	HasXRCETH Headers = 1 << iota
	HasDETH
	HasRETH
	HasAtomicETH
	HasAETH
	HasAtomicAckETH
	HasImm
	HasIETH
)

// Place is where a packet stands in its message.
type Place uint8

// Places.
const (
	Only  Place = iota // the message has one packet
	First              // of several
	Middle
	Last
)

// Operation is what the opcode table says of an operation.
type Operation struct {
	Name    string
	Headers Headers // without XRCETH and DETH, which the transport adds
	Place   Place
	Payload bool // may carry payload
	Request bool // goes to the responder
}

var operations = [numOperations]Operation{
	OpSendFirst:          {"SEND First", 0, First, true, true},
	OpSendMiddle:         {"SEND Middle", 0, Middle, true, true},
	OpSendLast:           {"SEND Last", 0, Last, true, true},
	OpSendLastImm:        {"SEND Last with Immediate", HasImm, Last, true, true},
	OpSendOnly:           {"SEND Only", 0, Only, true, true},
	OpSendOnlyImm:        {"SEND Only with Immediate", HasImm, Only, true, true},
	OpWriteFirst:         {"RDMA WRITE First", HasRETH, First, true, true},
	OpWriteMiddle:        {"RDMA WRITE Middle", 0, Middle, true, true},
	OpWriteLast:          {"RDMA WRITE Last", 0, Last, true, true},
	OpWriteLastImm:       {"RDMA WRITE Last with Immediate", HasImm, Last, true, true},
	OpWriteOnly:          {"RDMA WRITE Only", HasRETH, Only, true, true},
	OpWriteOnlyImm:       {"RDMA WRITE Only with Immediate", HasRETH | HasImm, Only, true, true},
	OpReadRequest:        {"RDMA READ Request", HasRETH, Only, false, true},
	OpReadResponseFirst:  {"RDMA READ response First", HasAETH, First, true, false},
	OpReadResponseMiddle: {"RDMA READ response Middle", 0, Middle, true, false},
	OpReadResponseLast:   {"RDMA READ response Last", HasAETH, Last, true, false},
	OpReadResponseOnly:   {"RDMA READ response Only", HasAETH, Only, true, false},
	OpAcknowledge:        {"Acknowledge", HasAETH, Only, false, false},
	OpAtomicAcknowledge:  {"ATOMIC Acknowledge", HasAETH | HasAtomicAckETH, Only, false, false},
	OpCompareSwap:        {"CmpSwap", HasAtomicETH, Only, false, true},
	OpFetchAdd:           {"FetchAdd", HasAtomicETH, Only, false, true},
	OpSendLastInvalidate: {"SEND Last with Invalidate", HasIETH, Last, true, true},
	OpSendOnlyInvalidate: {"SEND Only with Invalidate", HasIETH, Only, true, true},
}

// Transport is the transport of o, with operation 0.
func (o Opcode) Transport() Opcode { return o & transportMask }

// Op is the operation of o, as RC has it.
func (o Opcode) Op() Opcode { return o & operationMask }

// Operation returns the entry of the opcode table; nil if the transport does
// not have the operation. A CNP is not in the table.
func (o Opcode) Operation() *Operation { return opcodes[o].operation }

// Headers is the set of extension headers of o; ok is false if there is no
// such opcode.
func (o Opcode) Headers() (h Headers, ok bool) { return opcodes[o].headers, opcodes[o].known }

// opcodes are all operations of all transports.
var opcodes = func() (all [256]struct {
	operation *Operation
	headers   Headers
	known     bool
}) {
	for i := range all {
		o, at := Opcode(i), &all[i]
		op := o.operation()
		if at.known = op != nil || o == CNP; op == nil {
			continue
		}
		at.operation, at.headers = op, op.Headers
		switch {
		case o&transportMask == TransportUD:
			at.headers |= headersOfDatagram
		case o&transportMask == TransportXRC && op.Request:
			at.headers |= HasXRCETH
		}
	}
	return all
}()

// operation finds the operation of o.
func (o Opcode) operation() *Operation {
	op := o & operationMask
	if op >= numOperations || operations[op].Name == "" {
		return nil
	}
	switch o & transportMask {
	case TransportRC, TransportXRC:
	case TransportUC:
		if op >= firstRCOnly {
			return nil
		}
	case TransportUD:
		if op != OpSendOnly && op != OpSendOnlyImm {
			return nil
		}
	default:
		return nil
	}
	return &operations[op]
}

var transportNames = map[Opcode]string{TransportRC: "RC", TransportUC: "UC", TransportUD: "UD", TransportXRC: "XRC"}

// String is the transport and the operation, such as "RC SEND Only".
func (o Opcode) String() string {
	if op := o.Operation(); op != nil {
		return transportNames[o&transportMask] + " " + op.Name
	}
	if o == CNP {
		return "CNP"
	}
	return fmt.Sprintf("opcode 0x%02x", uint8(o))
}

// Len is the length in octets of the headers of h.
func (h Headers) Len() int { return int(headersLen[h]) }

var headersLen = func() (all [256]uint8) {
	one := [...]uint8{4, DETHLen, RETHLen, AtomicETHLen, AETHLen, AtomicAckETHLen, 4, 4}
	for h := range all {
		for i, n := range one {
			if h>>i&1 != 0 {
				all[h] += n
			}
		}
	}
	return all
}()

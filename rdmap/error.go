package rdmap

import (
	"cmp"
	"fmt"

	"tapir/ddp"
	"tapir/wire/enum"
)

// Layer is the layer that found an error, RFC 5040 section 4.8.
type Layer uint8

// The layers.
const (
	LayerRDMA Layer = 0
	LayerDDP  Layer = 1
	LayerLLP  Layer = 2 // MPA
)

// String is the layer's protocol.
func (l Layer) String() string {
	return enum.Name([]string{"RDMAP", "DDP", "MPA"}, l, "unknown layer")
}

// Error types of layer RDMA, RFC 5040 section 4.8.
const (
	TypeCatastrophic uint8 = 0 // local catastrophic; any code
	TypeProtection   uint8 = 1 // remote protection
	TypeOperation    uint8 = 2 // remote operation
)

// Error codes of layer RDMA, RFC 5040 section 4.8.
const (
	InvalidSTag         uint8 = 0x00 // protection
	Bounds              uint8 = 0x01 // protection: base or bounds violation
	AccessRights        uint8 = 0x02 // protection
	NotAssociated       uint8 = 0x03 // protection: STag not associated with the stream
	TOWrap              uint8 = 0x04 // protection
	InvalidVersion      uint8 = 0x05 // operation
	UnexpectedOpcode    uint8 = 0x06 // operation
	CatastrophicStream  uint8 = 0x07 // operation: localized to the stream
	CatastrophicGlobal  uint8 = 0x08 // operation
	CannotBeInvalidated uint8 = 0x09 // protection and operation
	Unspecified         uint8 = 0xff // protection and operation
)

var rdmaNames = map[[2]uint8]string{
	{TypeProtection, InvalidSTag}:         "invalid STag",
	{TypeProtection, Bounds}:              "base or bounds violation",
	{TypeProtection, AccessRights}:        "access rights violation",
	{TypeProtection, NotAssociated}:       "STag not associated with the stream",
	{TypeProtection, TOWrap}:              "TO wrap",
	{TypeProtection, CannotBeInvalidated}: "STag cannot be invalidated",
	{TypeProtection, Unspecified}:         "unspecified protection error",
	{TypeOperation, InvalidVersion}:       "invalid RDMAP version",
	{TypeOperation, UnexpectedOpcode}:     "unexpected opcode",
	{TypeOperation, CatastrophicStream}:   "catastrophic error, localized to the stream",
	{TypeOperation, CatastrophicGlobal}:   "catastrophic error, global",
	{TypeOperation, CannotBeInvalidated}:  "STag cannot be invalidated",
	{TypeOperation, Unspecified}:          "unspecified operation error",
}

// llpNames are the MPA error codes of RFC 5044 section 8 and RFC 6581 section
// 8, all of error type 0.
var llpNames = [...]string{1: "TCP connection lost", 2: "CRC error", 3: "marker and length disagree",
	4: "invalid start-up frame", 5: "local catastrophic error", 6: "insufficient IRD resources",
	7: "no matching RTR option"}

// Error is the one error of an RDMAP stream, whichever layer found it. It maps
// one to one to a Terminate message and to a completion status. errors.Is
// matches on Layer, Type and Code.
type Error struct {
	Layer      Layer
	Type, Code uint8
	Remote     bool   // the peer reported it in a Terminate
	Offset     uint64 // octets of the message placed before the error, where known
}

// Name describes an error number, "" if it is unassigned.
func Name(l Layer, typ, code uint8) string {
	switch {
	case l == LayerRDMA && typ == TypeCatastrophic:
		return "local catastrophic error"
	case l == LayerRDMA:
		return rdmaNames[[2]uint8{typ, code}]
	case l == LayerDDP:
		return ddp.Name(typ, code)
	case l == LayerLLP && typ == 0 && int(code) < len(llpNames):
		return llpNames[code]
	}
	return ""
}

func (e *Error) Error() string {
	where := "here"
	if e.Remote {
		where = "reported by the peer"
	}
	name := cmp.Or(Name(e.Layer, e.Type, e.Code), "unassigned error")
	return fmt.Sprintf("%s (%v type %d code %#02x, %s)", name, e.Layer, e.Type, e.Code, where)
}

// Is reports whether target is an *Error of the same layer, type and code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Layer == e.Layer && t.Type == e.Type && t.Code == e.Code
}

// FromDDP maps an error of the DDP layer.
func FromDDP(e *ddp.Error) *Error {
	return &Error{Layer: LayerDDP, Type: e.Type, Code: e.Code}
}

// Terminate returns the Terminate message that reports e, without headers.
func (e *Error) Terminate() Terminate {
	return Terminate{Layer: e.Layer, Type: e.Type, Code: e.Code}
}

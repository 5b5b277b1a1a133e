package ddp

import (
	"errors"
	"fmt"
)

// ErrTruncated is a segment too short for the header it begins with. RFC 5041
// gives it no number: the layers below delivered what no sender may send.
var ErrTruncated = errors.New("ddp: segment shorter than its header")

// Error types, RFC 5041 section 7.2.
const (
	TypeCatastrophic uint8 = 0 // local catastrophic
	TypeTagged       uint8 = 1 // tagged buffer error
	TypeUntagged     uint8 = 2 // untagged buffer error
)

// Codes of tagged buffer errors.
const (
	InvalidSTag   uint8 = 0
	Bounds        uint8 = 1 // base or bounds violation
	NotAssociated uint8 = 2 // STag not associated with the DDP stream
	TOWrap        uint8 = 3
	TaggedVersion uint8 = 4 // invalid DDP version
)

// Codes of untagged buffer errors.
const (
	InvalidQN       uint8 = 1
	NoBuffer        uint8 = 2 // invalid MSN: no buffer available
	InvalidMSN      uint8 = 3 // invalid MSN: range is not valid
	InvalidMO       uint8 = 4
	TooLong         uint8 = 5 // message too long for the available buffer
	UntaggedVersion uint8 = 6 // invalid DDP version
)

// Error is an error of section 7.2 together with the segment that caused it.
// errors.Is matches on Type and Code.
type Error struct {
	Type, Code uint8
	Header     Header // of the offending segment
	Length     int    // of the offending segment, header included
}

var names = map[[2]uint8]string{
	{TypeCatastrophic, 0}:           "local catastrophic error",
	{TypeTagged, InvalidSTag}:       "invalid STag",
	{TypeTagged, Bounds}:            "base or bounds violation",
	{TypeTagged, NotAssociated}:     "STag not associated with the stream",
	{TypeTagged, TOWrap}:            "TO wrap",
	{TypeTagged, TaggedVersion}:     "invalid DDP version (tagged)",
	{TypeUntagged, InvalidQN}:       "invalid QN",
	{TypeUntagged, NoBuffer}:        "invalid MSN, no buffer available",
	{TypeUntagged, InvalidMSN}:      "invalid MSN, range not valid",
	{TypeUntagged, InvalidMO}:       "invalid MO",
	{TypeUntagged, TooLong}:         "message too long for the buffer",
	{TypeUntagged, UntaggedVersion}: "invalid DDP version (untagged)",
}

// Name is the description of an error number in section 7.2, "" if it has
// none.
func Name(typ, code uint8) string { return names[[2]uint8{typ, code}] }

func (e *Error) Error() string {
	if n := Name(e.Type, e.Code); n != "" {
		return "ddp: " + n
	}
	return fmt.Sprintf("ddp: error type %d code %#02x", e.Type, e.Code)
}

// Is reports whether target is an *Error of the same type and code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Type == e.Type && t.Code == e.Code
}

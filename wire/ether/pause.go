package ether

import "encoding/binary"

// Frames of the MAC control sublayer (IEEE 802.3 clause 31 and annex 31B). They
// concern the two ends of a link, and no bridge forwards them.
const (
	TypeMACControl uint16 = 0x8808
	opcodePause    uint16 = 1
	// PauseLen is the length of a PAUSE frame in octets, without FCS.
	PauseLen = 60
	// PauseQuantum is the unit of a pause, in bit times.
	PauseQuantum = 512
)

// PauseGroup is the address of PAUSE frames, 01-80-C2-00-00-01.
var PauseGroup = Addr{0x01, 0x80, 0xc2, 0, 0, 1}

// IsMACControl tells whether b, a frame, is one of the MAC control sublayer.
func IsMACControl(b []byte) bool {
	return len(b) >= HeaderLen && b[12] == byte(TypeMACControl>>8) && b[13] == byte(TypeMACControl&0xff)
}

// PutPause writes a PAUSE frame of src into b, which has PauseLen octets: the other
// end shall not send for so many quanta; 0 lets it send again.
func PutPause(b []byte, src Addr, quanta uint16) {
	clear(b[:PauseLen])
	copy(b, PauseGroup[:])
	copy(b[6:], src[:])
	binary.BigEndian.PutUint16(b[12:], TypeMACControl)
	binary.BigEndian.PutUint16(b[14:], opcodePause)
	binary.BigEndian.PutUint16(b[16:], quanta)
}

// ParsePause reads the quanta of a PAUSE frame; false: b is none, or cut off.
func ParsePause(b []byte) (quanta uint16, ok bool) {
	if len(b) < 18 || !IsMACControl(b) || binary.BigEndian.Uint16(b[14:]) != opcodePause {
		return 0, false
	}
	return binary.BigEndian.Uint16(b[16:]), true
}

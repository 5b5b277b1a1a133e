package ether

// TypeMACControl is the EtherType of the MAC control sublayer (IEEE 802.3 clause 31).
const TypeMACControl uint16 = 0x8808

// IsMACControl tells whether b, a frame, is one of the MAC control sublayer.
func IsMACControl(b []byte) bool {
	return len(b) >= HeaderLen && b[12] == byte(TypeMACControl>>8) && b[13] == byte(TypeMACControl&0xff)
}

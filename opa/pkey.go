package opa

// P_Keys with a meaning of their own, without the membership bit.
const (
	PKeyManagement uint16 = 0x7fff
	PKeyDefault    uint16 = 0x0001
	// PKeyFull is the membership bit: two limited members must not talk.
	PKeyFull uint16 = 0x8000
)

// PKeyMatch reports whether ports with P_Keys a and b may talk: the same
// partition other than 0, and not both limited members.
func PKeyMatch(a, b uint16) bool {
	return (a^b)&^PKeyFull == 0 && a&^PKeyFull != 0 && (a|b)&PKeyFull != 0
}

// PKeyAllowed is the ingress rule of a port: some entry of its table matches
// the packet's P_Key; on SC 15 only the management partition may travel.
func PKeyAllowed(table []uint16, pkey uint16, sc uint8) bool {
	if sc == SCManagement && pkey&^PKeyFull != PKeyManagement {
		return false
	}
	for _, own := range table {
		if PKeyMatch(own, pkey) {
			return true
		}
	}
	return false
}

package nvm

import (
	"bytes"
	"fmt"
)

// Lengths of the factory's images.
const (
	mfwLen     = 512
	mbiLen     = 256
	configLen  = 512
	vpdLen     = 128
	mdumpLen   = 1024
	mfwVersion = 0 // where an MFW image has its version: four octets
)

// Factory is a flash as it is delivered, with a firmware of version a.b.c.d.
func Factory(version uint32) []byte {
	mfw := bytes.Repeat([]byte{0xff}, mfwLen)
	for i := range 4 {
		mfw[mfwVersion+i] = byte(version >> (24 - 8*i))
	}
	mbi := bytes.Repeat([]byte{0xff}, mbiLen)
	copy(mbi, "MBI 8.59.1")
	vpd := make([]byte, vpdLen)
	copy(vpd, fmt.Sprintf("\x82\x0d\x00Tapir FastNIC\x90\x10\x00PN\x05TAPIRSN\x05%05d\x78", 1))
	erased := bytes.Repeat([]byte{0xff}, mdumpLen)
	b, err := New(Size, []Part{{TypeMFW, mfw}, {TypeMBI, mbi}, {TypeConfig, encodeOptions(nil)},
		{TypeDefault, encodeOptions(nil)},
		{TypeVPD, vpd}, {TypeMdump, erased}})
	if err != nil {
		panic("nvm: " + err.Error()) // a constant that is wrong
	}
	return b
}

// MFWVersion is the version in an image of the firmware; false: it is too
// short for one.
func MFWVersion(b []byte) (uint32, bool) {
	if len(b) < mfwVersion+4 {
		return 0, false
	}
	return word(b, mfwVersion), true
}

package opa

import (
	"bytes"
	"encoding/binary"
	"errors"
)

const (
	// FEPort is the TCP port of a fabric manager's front end, which carries
	// MADs out of band.
	FEPort = 3245
	// FEHeaderLen is the length in octets of what stands before each MAD.
	FEHeaderLen = 24
	// MinFEMAD is what a MAD is never cut below: common and RMPP header, and
	// the four octets with the vendor's OUI.
	MinFEMAD = 40

	feMagic   = 0x31e0cc01
	feVersion = 0x80
)

// ErrFE means that a stream does not follow the front end's framing; there is
// no way to find the next message.
var ErrFE = errors.New("opa: not the framing of a front end")

// AppendFE appends to b the message that carries mad: magic number, length of
// the message, version, length of the MAD, 8 reserved octets, all big-endian,
// then the MAD. Zeros at its end are left out, to a multiple of 8 octets, so
// that a message fits a TCP segment, as dissectors expect.
func AppendFE(b, mad []byte) []byte {
	n := min(len(mad), max(MinFEMAD, (len(bytes.TrimRight(mad, "\x00"))+7)&^7))
	b, _ = binary.Append(b, binary.BigEndian, [...]uint32{feMagic, uint32(FEHeaderLen + n), feVersion, uint32(n), 0, 0})
	return append(b, mad[:n]...)
}

// ParseFE reads the message at the front of the stream b and returns its MAD,
// borrowed, and its length; a length of 0 means that the message is not yet
// complete. Zeros that the sender left out at the end of the MAD are not put
// back. It fails with ErrFE for another magic number or version, for lengths
// that contradict each other, and for a MAD longer than MaxMAD or shorter than
// MinFEMAD.
func ParseFE(b []byte) (mad []byte, n int, err error) {
	if len(b) < FEHeaderLen {
		if magic := binary.BigEndian.AppendUint32(nil, feMagic); !bytes.HasPrefix(magic, b[:min(len(b), 4)]) {
			return nil, 0, ErrFE
		}
		return nil, 0, nil
	}
	n = int(binary.BigEndian.Uint32(b[4:]))
	if binary.BigEndian.Uint32(b) != feMagic || binary.BigEndian.Uint32(b[8:]) != feVersion ||
		n < FEHeaderLen+MinFEMAD || n > FEHeaderLen+MaxMAD || int(binary.BigEndian.Uint32(b[12:])) != n-FEHeaderLen {
		return nil, 0, ErrFE
	}
	if len(b) < n {
		return nil, 0, nil
	}
	return b[FEHeaderLen:n:n], n, nil
}

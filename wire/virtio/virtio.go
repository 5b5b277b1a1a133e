// Package virtio encodes and decodes the virtio-net header that a TAP opened
// with IFF_VNET_HDR puts in front of each frame, and does the work that the
// header leaves to the device: completing checksums and cutting TCP and UDP
// super-frames into true segments (virtio 1.2 section 5.1.6).
package virtio

import (
	"encoding/binary"
	"errors"

	"tapir/wire/frame"
)

// HeaderLen is the length in octets of struct virtio_net_hdr, without the
// num_buffers field of merged receive buffers.
const HeaderLen = 10

// Header flags.
const (
	flagNeedsCsum = 1 << 0
	flagDataValid = 1 << 1
)

// What can be wrong with a header or with the frame behind it.
var (
	ErrTruncated = errors.New("virtio: frame ends before its headers say")
	ErrGSOType   = errors.New("virtio: segmentation of this kind was not offered")
	ErrMalformed = errors.New("virtio: headers and offload do not fit together")
)

// Parse reads the header at the front of b. Multi-octet fields are
// little-endian. It fails with ErrTruncated, or with ErrGSOType for a kind of
// segmentation other than plain TCPv4, TCPv6 and UDP. Unknown flags are ignored,
// as the standard asks.
func Parse(b []byte) (frame.Offload, error) {
	if len(b) < HeaderLen {
		return frame.Offload{}, ErrTruncated
	}
	off := frame.Offload{
		NeedsCsum:  b[0]&flagNeedsCsum != 0,
		DataValid:  b[0]&flagDataValid != 0,
		GSO:        frame.GSO(b[1]),
		HdrLen:     binary.LittleEndian.Uint16(b[2:]),
		GSOSize:    binary.LittleEndian.Uint16(b[4:]),
		CsumStart:  binary.LittleEndian.Uint16(b[6:]),
		CsumOffset: binary.LittleEndian.Uint16(b[8:]),
	}
	switch off.GSO {
	case frame.GSONone, frame.GSOTCPv4, frame.GSOTCPv6, frame.GSOUDP:
		return off, nil
	}
	return frame.Offload{}, ErrGSOType
}

// Put writes off to the first HeaderLen octets of b and returns HeaderLen.
func Put(b []byte, off frame.Offload) int {
	_ = b[HeaderLen-1]
	b[0] = 0
	if off.NeedsCsum {
		b[0] |= flagNeedsCsum
	}
	if off.DataValid {
		b[0] |= flagDataValid
	}
	b[1] = byte(off.GSO)
	binary.LittleEndian.PutUint16(b[2:], off.HdrLen)
	binary.LittleEndian.PutUint16(b[4:], off.GSOSize)
	binary.LittleEndian.PutUint16(b[6:], off.CsumStart)
	binary.LittleEndian.PutUint16(b[8:], off.CsumOffset)
	return HeaderLen
}

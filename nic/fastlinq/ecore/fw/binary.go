package fw

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// A binary begins with the marker. Offsets count from behind it, where for
// each section its offset and length stand, 4 octets each, little endian. The
// sections follow in their order, each filled up with zeros to a multiple of 4.
const (
	marker     = "TFW1"
	headersLen = 8 * numSections
	baseLen    = len(marker) + headersLen // where FW_VER_INFO lies in the file
)

// binary is the file.
func (s *sections) binary() []byte {
	b := []byte(marker)
	at := uint32(headersLen)
	for _, data := range s.data {
		b = binary.LittleEndian.AppendUint32(b, at)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(data)))
		at += padded(len(data))
	}
	for _, data := range s.data {
		b = append(b, data...)
		b = append(b, make([]byte, int(padded(len(data)))-len(data))...)
	}
	return b
}

func padded(n int) uint32 { return uint32(n+3) &^ 3 }

// parseBinary finds the sections of a binary.
func parseBinary(b []byte) (*sections, error) {
	if len(b) < baseLen {
		return nil, refuse(fmt.Sprintf("offset %#x", len(b)), "it ends within the table of sections")
	}
	s := sections{isBinary: true}
	end := uint64(headersLen)
	for i := range numSections {
		line := len(marker) + 8*i
		off, n := binary.LittleEndian.Uint32(b[line:]), binary.LittleEndian.Uint32(b[line+4:])
		if uint64(off) != end {
			return nil, refuse(fmt.Sprintf("offset %#x", line), "section %s lies at %#x, not at %#x", sectionNames[i],
				off, end)
		}
		at := uint64(off) + uint64(len(marker))
		end += (uint64(n) + 3) &^ 3
		if end+uint64(len(marker)) > uint64(len(b)) {
			return nil, refuse(fmt.Sprintf("offset %#x", len(b)),
				"it ends within section %s, which has %d octets from %#x on", sectionNames[i], n, at)
		}
		s.data[i], s.where[i] = b[at:at+uint64(n)], fmt.Sprintf("offset %#x", at)
		if fill := b[at+uint64(n) : end+uint64(len(marker))]; len(bytes.Trim(fill, "\x00")) > 0 {
			return nil, refuse(fmt.Sprintf("offset %#x", at+uint64(n)), "what fills up section %s is not zero",
				sectionNames[i])
		}
	}
	if end += uint64(len(marker)); end != uint64(len(b)) {
		return nil, refuse(fmt.Sprintf("offset %#x", end), "%d octets too many", uint64(len(b))-end)
	}
	return &s, nil
}

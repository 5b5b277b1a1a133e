package capture

import (
	"encoding/binary"

	"tapir/opa"
	"tapir/wire/frame"
	"tapir/wire/pcapng"
)

// Link types of captures that hold fabric packets without Ethernet around them
// (tcpdump.org/linktypes.html).
const (
	linkUser0 = 147 // here: bare 16B packets
	linkERF   = 197
)

// An ERF record of Omni-Path, as Intel's opapacketcapture writes it: the ERF
// header, a header that says which way the packet passed the HFI and what the
// HFI had to say of it, the packet.
const (
	erfHeaderLen  = 16
	sncHeaderLen  = 16
	erfTypeSnC    = 28
	erfVarying    = 4 // flag: varying record length
	sncOut, sncIn = 0, 1

	// Of a packet that goes out the quadword is the PBC, else the RHF.
	pbcBypass  = 1 << 28
	rhfTypeAt  = 12
	rhfTypeIB  = 2 // 9B
	rhfBypass  = 4
	rhfICRCErr = 1 << 63
	sncWords   = 0xfff // of both: the length in words of 4 octets
)

// appendERF appends the record of packet p, stamped in nanoseconds.
func appendERF(b []byte, p []byte, format opa.Format, out, icrcGood bool, stamp int64) []byte {
	sec, ns := stamp/1e9, stamp%1e9
	b = binary.LittleEndian.AppendUint64(b, uint64(sec)<<32|uint64(ns)<<32/1e9)
	n := erfHeaderLen + sncHeaderLen + len(p)
	b = append(b, erfTypeSnC, erfVarying)
	b = binary.BigEndian.AppendUint16(b, uint16(n))
	b = append(b, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(n-erfHeaderLen))
	direction, word := byte(sncIn), uint64(len(p)/4)&sncWords
	switch {
	case out:
		direction = sncOut
		if format == opa.Format16B {
			word |= pbcBypass
		}
	case format == opa.Format16B:
		word |= rhfBypass << rhfTypeAt
	default:
		word |= rhfTypeIB << rhfTypeAt
	}
	if !out && !icrcGood {
		word |= rhfICRCErr
	}
	b = append(b, 1, direction, 0, 0, 0, 0, 0, 0) // port 1
	b = binary.LittleEndian.AppendUint64(b, word)
	return append(b, p...)
}

// parseERF returns the packet of an ERF record, its format and which way it
// went, and false for a record of another kind.
func parseERF(b []byte) (p []byte, format opa.Format, flags pcapng.Flags, ok bool) {
	if len(b) < erfHeaderLen+sncHeaderLen || b[8] != erfTypeSnC {
		return nil, 0, 0, false
	}
	snc := b[erfHeaderLen:]
	word := binary.LittleEndian.Uint64(snc[8:])
	bypass := false
	switch snc[1] {
	case sncOut:
		flags, bypass = pcapng.Outbound, word&pbcBypass != 0
	case sncIn:
		flags, bypass = pcapng.Inbound, word>>rhfTypeAt&7 == rhfBypass
	}
	if !bypass {
		format = opa.Format9B
	}
	return snc[sncHeaderLen:], format, flags, true
}

// FabricPacket is the fabric packet in a captured frame of the link type, which
// way it went where that is known, and false if there is none. The packet is a
// copy if the link type is Ethernet.
func FabricPacket(link uint16, b []byte) (p []byte, format opa.Format, flags pcapng.Flags, ok bool) {
	switch link {
	case pcapng.LinkEthernet:
		f := frame.New(make([]byte, frame.DefaultHeadroom+len(b)), nil)
		f.Append(b)
		format, drop := opa.Unwrap(f)
		return f.Bytes(), format, 0, drop == frame.DropNone
	case linkUser0:
		return b, opa.Format16B, 0, true
	case linkERF:
		return parseERF(b)
	}
	return nil, 0, 0, false
}

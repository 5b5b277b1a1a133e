package tlv

import (
	"hash/crc32"

	"tapir/nic/fastlinq/status"
	"tapir/wire/ether"
)

// BulletinLen is the size of a bulletin, in octets.
const BulletinLen = 80

// Bits of Bulletin.Valid (VFPF_BULLETIN_*).
const (
	MACForced = 1 << iota
	ChannelInvalid
	VLANForced
	UntaggedDefault
	UntaggedDefaultForced
	MACValid // a suggestion
)

// Bulletin is the board by which a PF tells a VF what there is: always all of it.
type Bulletin struct {
	CRC, Version  uint32
	Valid         uint64
	MAC           ether.Addr
	OnlyUntagged  uint8
	Pad           uint8
	LinkParams    LinkParams
	LinkState     LinkState
	VXLANPort     uint16
	GenevePort    uint16
	Pad2          [2]byte
	Speed         uint32 // Mb/s
	PartnerSpeeds uint32
	Capability    uint32
	PVID          uint16
	Pad3          [2]byte
}

// LinkParams are what was asked of the link.
type LinkParams struct {
	Autoneg, AutonegPause, ForcedRx, ForcedTx uint8
	Pad                                       [4]byte
	AdvSpeeds, ForcedSpeed, Loopback          uint32
	Pad2                                      [4]byte
}

// LinkState is what the link has come to; the flags are 0 or 1.
type LinkState struct {
	Up, FullDuplex, Autoneg, AutonegDone, ParallelDetection, PFC uint8
	PartnerTxPause, PartnerRxPause, PartnerPause, SFPTxFault     uint8
}

// Bit is a truth value of a bulletin or message.
func Bit(on bool) uint8 {
	if on {
		return 1
	}
	return 0
}

// BulletinCRC is the CRC of a bulletin's octets behind the field for it: reflected
// 0xEDB88320, seed 0, not inverted.
func BulletinCRC(b []byte) uint32 { return ^crc32.Update(^uint32(0), crc32.IEEETable, b) }

// AppendBulletin appends the first size octets of a bulletin with their CRC, or zeros
// behind what there is of it.
func AppendBulletin(dst []byte, p *Bulletin, size int) []byte {
	at := len(dst)
	dst = Append(dst, p)
	for len(dst) < at+size {
		dst = append(dst, 0)
	}
	b := dst[at : at+size]
	Append(b[:0], BulletinCRC(b[4:]))
	return dst[:at+size]
}

// DecodeBulletin reads a bulletin of the agreed size. AGAIN: its CRC is wrong, as the
// PF is writing it.
func DecodeBulletin(b []byte) (p Bulletin, err error) {
	full := make([]byte, max(BulletinLen, len(b)))
	copy(full, b)
	if err := Decode(full, &p); err != nil || len(b) < 8 {
		return Bulletin{}, status.Inval.Errorf("bulletin of %d octets", len(b))
	}
	if crc := BulletinCRC(b[4:]); crc != p.CRC {
		return Bulletin{}, status.Again.Errorf("bulletin with CRC %#08x: want %#08x", p.CRC, crc)
	}
	return p, nil
}

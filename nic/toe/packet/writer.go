// Package packet makes IP packets of TCP segments, gathers those that no
// connection keeps, and records how a connection began.
package packet

import (
	"encoding/binary"
	"net/netip"

	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/tcp"
)

// Writer writes packets to frames of a pool.
type Writer struct {
	Pool frame.Pool
	TTL  uint8
	// Partial leaves checksums partial, as super-frames need it.
	Partial bool
}

// New returns a frame that holds the IP and TCP headers and room for n octets
// of payload, nil if the pool has none. id is the IPv4 identification.
func (w *Writer) New(src, dst netip.Addr, th *tcp.Header, n int, id uint16, tos uint8) *frame.Frame {
	h := ip.Header{
		Version: 6, TOS: tos, TTL: w.TTL, Proto: ip.ProtoTCP, Src: src, Dst: dst,
		PayloadLen: th.Len() + n,
	}
	if src.Is4() {
		h.Version, h.DF, h.ID = 4, true, id
	}
	hl := h.HeaderLen()
	f := w.Pool.Get(hl + h.PayloadLen)
	if f == nil {
		return nil
	}
	b := f.Extend(hl + th.Len())
	h.Put(b)
	th.Put(b[hl:])
	return f
}

// HeaderLen is the length of the IP header that New writes.
func HeaderLen(a netip.Addr) int {
	if a.Is4() {
		return ip.HeaderLen4
	}
	return ip.HeaderLen6
}

// Seal makes the checksum of f complete, or partial with the rest described in
// f.Offload. gso is the payload of each segment, 0 for a frame that is one
// segment.
func (w *Writer) Seal(f *frame.Frame, src, dst netip.Addr, gso int) {
	b, hl := f.Bytes(), HeaderLen(src)
	if !w.Partial {
		PutChecksum(b[hl:], src, dst)
		return
	}
	partial := ip.Fold(ip.PseudoSum(src, dst, ip.ProtoTCP, f.Len()-hl))
	binary.BigEndian.PutUint16(b[hl+tcp.ChecksumOffset:], partial)
	f.Offload = frame.Offload{NeedsCsum: true, CsumStart: uint16(hl), CsumOffset: tcp.ChecksumOffset}
	if gso > 0 {
		f.GSO = frame.GSOTCPv6
		if src.Is4() {
			f.GSO = frame.GSOTCPv4
		}
		f.GSOSize = uint16(gso)
		f.HdrLen = uint16(hl + int(b[hl+12]>>4)*4)
	}
}

// PutChecksum computes the checksum of the TCP segment seg in place.
func PutChecksum(seg []byte, src, dst netip.Addr) {
	field := seg[tcp.ChecksumOffset:]
	binary.BigEndian.PutUint16(field, 0)
	binary.BigEndian.PutUint16(field, ip.Checksum(seg, ip.PseudoSum(src, dst, ip.ProtoTCP, len(seg))))
}

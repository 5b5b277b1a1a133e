package capture

import (
	"tapir/wire/frame"
	"tapir/wire/pcapng"
)

// inHand is the record in hand while its packets are encoded.
type inHand struct {
	pkt   pcapng.Packet
	start int    // of the block in hand, in the buffer
	extra []byte // one more comment
}

// take sets what the packets of r have in common.
func (h *inHand) take(iface uint32, r *frame.Record) {
	h.pkt = pcapng.Packet{Interface: iface, Stamp: int64(systemTime(r)), Has: pcapng.HasFlags, Flags: flags(r),
		ID: r.ID}
	if r.ID != 0 { // replayed packets have none
		h.pkt.Has |= pcapng.HasID
	}
	h.extra = h.extra[:0]
	if r.Drop != frame.DropNone {
		h.extra = append(append(h.extra, dropPrefix...), r.Drop.String()...)
	}
}

// leftWhole says why a super-frame stays as it is.
func (h *inHand) leftWhole(err error) {
	if len(h.extra) > 0 {
		h.extra = append(h.extra, "; "...)
	}
	h.extra = append(append(h.extra, "left whole: "...), err.Error()...)
}

// tail ends the block in hand with its comments, the notes with how often they
// hold if times says so.
func (h *inHand) tail(b []byte, notes []frame.Note, times bool) []byte {
	for _, n := range notes {
		if n.Times > 1 && times {
			var line [256]byte
			b = pcapng.AppendComment(b, n.AppendTo(line[:0]))
		} else {
			b = pcapng.AppendComment(b, n.Text)
		}
	}
	if len(h.extra) > 0 {
		b = pcapng.AppendComment(b, h.extra)
	}
	return h.pkt.AppendTail(b, h.start)
}

// systemTime is when a frame passed, by the system's time of day if that is known.
func systemTime(r *frame.Record) frame.Stamp {
	if r.System != 0 {
		return r.System
	}
	return r.Stamp
}

// dropPrefix begins the comment on a frame that was dropped.
const dropPrefix = "dropped: "

func flags(r *frame.Record) pcapng.Flags {
	f := pcapng.Inbound
	if r.Dir == frame.Outbound {
		f = pcapng.Outbound
	}
	if len(r.Data) < 6 {
		return f
	}
	switch {
	case [6]byte(r.Data) == [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}:
		return f | pcapng.Broadcast
	case r.Data[0]&1 != 0:
		return f | pcapng.Multicast
	}
	return f | pcapng.Unicast
}

package inspect

import (
	"bytes"
	"net/netip"

	"tapir/ddp"
	"tapir/mpa"
	"tapir/rdmap"
	"tapir/wire/ether"
	"tapir/wire/ip"
	"tapir/wire/pcapng"
	"tapir/wire/tcp"
)

// talk writes down a conversation, as it might be captured.
type talk struct {
	list   []Packet
	seq    [2]tcp.Seq
	isn    tcp.Seq // of another conversation on the same ports
	change func(*tcp.Header)
	layout mpa.Layout
	pos    [2]uint64 // in the full operation stream
	msn    [2][rdmap.NumQueues]uint32
}

// payloadAt is where the payload of a talk's segments begins.
const payloadAt = ether.HeaderLen + ip.HeaderLen4 + tcp.HeaderLen

var ends = [2]netip.AddrPort{netip.MustParseAddrPort("10.9.0.1:50000"), netip.MustParseAddrPort("10.9.0.2:7174")}

// segment adds a TCP segment of a side.
func (k *talk) segment(side int, flags tcp.Flags, payload []byte) {
	k.segmentAs(side, flags, payload, k.change)
}

// segmentAs is segment with an altered header.
func (k *talk) segmentAs(side int, flags tcp.Flags, payload []byte, change func(*tcp.Header)) {
	t := tcp.Header{SrcPort: ends[side].Port(), DstPort: ends[1-side].Port(), Seq: k.seq[side], Ack: k.seq[1-side], Flags: flags, Window: 0xffff}
	if change != nil {
		change(&t)
	}
	h := ip.Header{Version: 4, TTL: 64, Proto: ip.ProtoTCP, Src: ends[side].Addr(), Dst: ends[1-side].Addr(), PayloadLen: t.Len() + len(payload)}
	b := ether.Header{Dst: ether.Addr{2, 0, 0, 0, 0, byte(2 - side)}, Src: ether.Addr{2, 0, 0, 0, 0, byte(1 + side)}, Type: ether.TypeIPv4}.AppendTo(nil)
	n := len(b)
	b = append(b, make([]byte, h.HeaderLen()+t.Len())...)
	h.Put(b[n:])
	t.Put(b[n+h.HeaderLen():])
	b = append(b, payload...)
	mendTCP(b)
	k.seq[side] = k.seq[side].Add(len(payload))
	if flags.Has(tcp.SYN) || flags.Has(tcp.FIN) {
		k.seq[side]++
	}
	number := len(k.list) + 1
	k.list = append(k.list, Packet{Number: number, Time: int64(number) * 1000, Link: pcapng.LinkEthernet, Data: b, OrigLen: len(b)})
}

// start opens the connection.
func (k *talk) start(q, r mpa.Frame) {
	k.seq = [2]tcp.Seq{0xfffffe00 + k.isn, 77 + k.isn}
	for side := range 2 {
		for n := range k.msn[side] {
			k.msn[side][n] = 1
		}
	}
	k.segment(0, tcp.SYN, nil)
	k.segment(1, tcp.SYN|tcp.ACK, nil)
	k.segment(0, tcp.ACK, nil)
	k.segment(0, tcp.ACK, q.AppendTo(nil))
	k.segment(1, tcp.ACK, r.AppendTo(nil))
	k.layout = mpa.Layout{CRC: q.CRC || r.CRC, Markers: q.Markers}
}

// fpdu adds a DDP segment in a TCP segment of its own.
func (k *talk) fpdu(side int, h ddp.Header, payload []byte) {
	u := append(h.AppendTo(nil), payload...)
	b := make([]byte, k.layout.FPDULen(k.pos[side], len(u)))
	k.layout.Put(b, k.pos[side], u)
	k.pos[side] += uint64(len(b))
	k.segment(side, tcp.ACK|tcp.PSH, b)
}

// untagged adds a message of one segment to a queue.
func (k *talk) untagged(side int, o rdmap.Opcode, payload []byte) {
	n := &k.msn[side][o.Queue()]
	k.fpdu(side, rdmap.UntaggedHeader(o, true, 0, *n, 0), payload)
	*n++
}

// tagged adds a Write, or a Read Response, of two segments.
func (k *talk) tagged(side int, o rdmap.Opcode, stag uint32, to uint64, first, second []byte) {
	k.fpdu(side, rdmap.TaggedHeader(o, false, stag, to), first)
	k.fpdu(side, rdmap.TaggedHeader(o, true, stag, to+uint64(len(first))), second)
}

func (k *talk) finish() []Packet {
	k.segment(0, tcp.ACK|tcp.FIN, nil)
	k.segment(1, tcp.ACK|tcp.FIN, nil)
	k.segment(0, tcp.ACK, nil)
	return k.list
}

// withMarkers is a conversation with CRC and markers both ways, and where its
// markers lie.
func withMarkers() (list []Packet, markers []place) {
	k := &talk{}
	words := mpa.Enhanced{IRD: 4, ORD: 4}.AppendTo(nil)
	q := mpa.Frame{Kind: mpa.Request, Markers: true, CRC: true, Enhanced: true, Rev: 2, PrivateData: words}
	r := q
	r.Kind = mpa.Reply
	k.start(q, r)
	for n := range 10 {
		k.tagged(0, rdmap.Write, 7, uint64(n)<<12, bytes.Repeat([]byte{1}, 1200), bytes.Repeat([]byte{2}, 301))
		k.untagged(0, rdmap.Send, bytes.Repeat([]byte{3}, 700+n))
		read := rdmap.ReadRequest{SinkSTag: 9, SinkTO: 64, Size: 1500, SourceSTag: 5}
		k.untagged(0, rdmap.ReadRequestOp, read.AppendTo(nil))
		k.tagged(1, rdmap.ReadResponse, 9, 64, bytes.Repeat([]byte{4}, 1200), bytes.Repeat([]byte{5}, 300))
	}
	return k.finish(), k.places()
}

// places finds the markers, of which the first of a direction lies in front of
// its first FPDU.
func (k *talk) places() (list []place) {
	var pos [2]uint64
	for n, p := range k.list[5:] {
		side := 0
		if p.Data[11] == 2 {
			side = 1
		}
		for x := payloadAt; x < len(p.Data); x++ {
			if pos[side]%mpa.MarkerInterval == 0 {
				list = append(list, place{packet: n + 5, layer: onMarker, crc: true, at: x, n: mpa.MarkerLen})
			}
			pos[side]++
		}
	}
	return list
}

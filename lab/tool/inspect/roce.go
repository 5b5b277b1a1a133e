package inspect

import (
	"fmt"
	"net/netip"
	"strings"

	"tapir/wire/ib"
	"tapir/wire/ip"
	"tapir/wire/udp"
)

// roceAddr is one end of a queue pair's connection, or of queue pair 1.
type roceAddr struct {
	iface int
	end   string // of a link, in a lab's capture
	addr  netip.Addr
	qpn   uint32
}

// roceKey names the packets of one direction: from an address to a queue pair.
type roceKey struct {
	to    roceAddr
	src   netip.Addr
	class ib.Opcode
}

// roceState is what the inspector knows of RoCE.
type roceState struct {
	dirs  map[roceKey]*roceDir
	order []*roceDir
	peers map[roceAddr]roceAddr // by messages of communication management
	start map[roceAddr]roceStart
	calls map[roceCallKey]*roceCall
	mads  map[roceKey]*Flow
	above map[roceAddr]*roceAbove // by the queue pair that takes the messages
}

func newRoCEState() roceState {
	return roceState{dirs: map[roceKey]*roceDir{}, peers: map[roceAddr]roceAddr{}, start: map[roceAddr]roceStart{},
		calls: map[roceCallKey]*roceCall{}, mads: map[roceKey]*Flow{}, above: map[roceAddr]*roceAbove{}}
}

// roceStart is what the ends of a connection have agreed on about requests to a queue pair.
type roceStart struct {
	psn   uint32
	mtu   uint32
	retry uint8
}

// rocePacket is the packet in hand.
type rocePacket struct {
	ib.Packet
	in       *Packet
	src, dst netip.Addr
	protocol string
	size     int    // octets of payload on the wire, also if the capture has cut it
	cut      bool   // by the capture
	hash     uint64 // of the frame
}

// roceV1 takes what follows the Ethernet header of RoCE v1.
func (i *Inspector) roceV1(p *Packet, b []byte) {
	h, body, err := ib.ParseGRH(b)
	switch {
	case err == ib.ErrVersion:
		i.violate(roceGRH, p.Number, nil, "version %d, next header %#x", b[0]>>4, b[6])
		return
	case err != nil && len(b) >= ib.GRHLen && len(p.Data) < p.OrigLen:
		body = b[ib.GRHLen:]
	case err != nil:
		i.violate(roceGRH, p.Number, nil, "%d octets, less than the payload length says", len(b))
		return
	}
	src, dst := netip.AddrFrom16(h.SGID).Unmap(), netip.AddrFrom16(h.DGID).Unmap()
	r := &rocePacket{in: p, src: src, dst: dst, protocol: "RoCEv1"}
	i.rocePacket(r, ib.ICRCGRH(b[:ib.GRHLen]), body, int(h.PayloadLen))
}

// roceV2 takes a UDP datagram to port 4791.
func (i *Inspector) roceV2(p *Packet, h *ip.Header, b []byte) {
	r := &rocePacket{in: p, src: h.Src, dst: h.Dst, protocol: "RoCEv2"}
	total := h.PayloadLen - udp.HeaderLen
	raw := make([]byte, h.HeaderLen()+udp.HeaderLen)
	h.Put(raw)
	copy(raw[h.HeaderLen():], b[:udp.HeaderLen])
	start := ib.ICRCIPv6
	if h.Version == 4 {
		start = ib.ICRCIPv4
	}
	if h.HeaderLen() > ip.HeaderLen4 && h.Version == 4 {
		i.violate(roceOptions, p.Number, nil, "")
		return
	}
	if n := int(b[4])<<8 | int(b[5]); n != h.PayloadLen {
		i.violate(roceUDPLength, p.Number, nil, "%d octets in the UDP header, %d in the IP header", n, h.PayloadLen)
		return
	}
	i.rocePacket(r, start(raw), b[udp.HeaderLen:], total)
}

// rocePacket takes a packet of total octets, from its BTH to its ICRC, of which b was captured.
func (i *Inspector) rocePacket(r *rocePacket, c ib.ICRC, b []byte, total int) {
	p := r.in
	whole := len(b) >= total
	if whole {
		b = b[:max(total, 0)]
	}
	if total < ib.BTHLen+ib.ICRCLen || len(b) < ib.BTHLen {
		i.violate(roceShort, p.Number, nil, "%d octets", total)
		return
	}
	if total > ib.MaxHeaders+4096+3+ib.ICRCLen {
		i.note(p.Number, "super-frames of RoCE packets: not replayed")
		return
	}
	r.hash = hash(p.Data)
	if whole && !c.Check(b) {
		i.violate(roceICRC, p.Number, nil, "%s", ib.ParseBTH(b).Opcode)
		return
	}
	r.cut = !whole
	if !i.roceHeader(r, b[:min(len(b), total-ib.ICRCLen)], total) {
		return
	}
	switch {
	case r.Opcode == ib.CNP:
		if r.PSN != 0 || !r.BECN {
			i.violate(roceCNP, p.Number, nil, "PSN %d", r.PSN)
		}
		i.report.Other++
	case r.Opcode.Transport() == ib.TransportUD:
		i.roceDatagram(r)
	default:
		i.roceConnected(r)
	}
}

// roceHeader judges what a packet's headers show by themselves.
func (i *Inspector) roceHeader(r *rocePacket, b []byte, total int) bool {
	p := r.in
	bth := ib.ParseBTH(b)
	if bth.Version != 0 {
		i.violate(roceVersion, p.Number, nil, "%d", bth.Version)
		return false
	}
	if _, ok := bth.Opcode.Headers(); !ok {
		if op := bth.Opcode.Op(); bth.Opcode >= 0xc0 || bth.Opcode.Transport() == 0x40 || op == 0x1c || op == 0x1d {
			i.note(p.Number, "reliable datagrams, FLUSH, ATOMIC WRITE and opcodes of vendors: not replayed")
			return false
		}
		i.violate(roceOpcode, p.Number, nil, "%#02x", uint8(bth.Opcode))
		return false
	}
	full := b
	if lacks := total - ib.ICRCLen - len(b); lacks > 0 {
		h := ib.Packet{BTH: bth}
		if len(b) < h.HeaderLen() && total-ib.ICRCLen >= h.HeaderLen() {
			i.note(p.Number, "the capture has cut RoCE packets in their headers: not replayed")
			return false
		}
		full = append(b[:len(b):len(b)], make([]byte, lacks)...)
	}
	if err := r.Parse(full); err != nil {
		i.violate(roceShort, p.Number, nil, "%s in %d octets, pad %d", bth.Opcode, total, bth.Pad)
		return false
	}
	r.size = len(r.Payload)
	switch {
	case total%4 != 0:
		i.violate(rocePad, p.Number, nil, "%d octets, pad %d", total, bth.Pad)
	case bth.Reserved != 0 || b[4]&0x3f != 0:
		i.violate(roceReserved, p.Number, nil, "%#x, %#x", b[4]&0x3f, bth.Reserved)
	}
	op := bth.Opcode.Operation()
	if op != nil && !op.Payload && r.size > 0 {
		i.violate(roceNoPayload, p.Number, nil, "%d octets in %s", r.size, bth.Opcode)
		return false
	}
	if h, _ := bth.Opcode.Headers(); h&ib.HasRETH != 0 && r.RETH.Len > 1<<31 {
		i.violate(roceDMALen, p.Number, nil, "%d octets", r.RETH.Len)
		return false
	}
	return true
}

// roceDatagram takes an unreliable datagram.
func (i *Inspector) roceDatagram(r *rocePacket) {
	p := r.in
	key := roceKey{to: roceAddr{p.Interface, p.End, r.dst, 0}, src: r.src, class: ib.TransportUD}
	if r.src.Compare(r.dst) > 0 {
		key.to.addr, key.src = r.src, r.dst
	}
	f := i.roce.mads[key]
	if f == nil {
		f = &Flow{Number: len(i.report.Flows) + 1, Protocol: r.protocol + " datagrams", A: r.src.String(),
			B: r.dst.String(), First: p.Number, State: Replayed, Sides: make([]Side, 2)}
		i.roce.mads[key] = f
		i.addFlow(p, f)
	}
	side := 0
	if f.A != r.src.String() {
		side = 1
	}
	i.roceCount(r, f, side)
	if r.DestQP == 0 || r.DestQP == ib.QP1 && r.DETH.QKey != ib.QKeyQP1 {
		i.violate(roceQKey, p.Number, f, "Q_Key %#x to queue pair %d", r.DETH.QKey, r.DestQP)
		return
	}
	if r.DestQP == ib.QP1 {
		i.roceMAD(r, f, side)
		return
	}
	f.Sides[side].message(r.Opcode.String(), uint64(r.size))
	i.roceEvent(r, f, r.Opcode.String(),
		fmt.Sprintf("queue pair %#x to %#x, %d octets", r.DETH.SrcQP, r.DestQP, r.size))
}

// roceCount counts a packet.
func (i *Inspector) roceCount(r *rocePacket, f *Flow, side int) {
	f.Packets++
	f.Last = r.in.Number
	f.Sides[side].Packets++
	f.Sides[side].Octets += uint64(r.size)
}

func (i *Inspector) roceEvent(r *rocePacket, f *Flow, name, detail string) {
	if f.of != nil {
		return
	}
	i.event(Event{Packet: r.in.Number, Flow: f.Number, From: r.src.String(), To: r.dst.String(), Name: name,
		Detail: detail}, r.in.Time)
}

// roceConnected takes a packet between two connected queue pairs.
func (i *Inspector) roceConnected(r *rocePacket) {
	p := r.in
	if r.DestQP < 2 || r.DestQP == ib.QPMulticast {
		i.violate(roceDestQP, p.Number, nil, "%s to queue pair %#x", r.Opcode, r.DestQP)
		return
	}
	to := roceAddr{p.Interface, p.End, r.dst, r.DestQP}
	d := i.roceDir(roceKey{to: to, src: r.src, class: r.Opcode.Transport()})
	if !d.flowed {
		d.join(i, r)
	}
	i.roceCount(r, d.flow, d.side)
	d.partition(i, r)
	op := r.Opcode.Operation()
	detail := fmt.Sprintf("queue pair %#x, PSN %d", r.DestQP, r.PSN)
	h, _ := r.Opcode.Headers()
	switch {
	case h&ib.HasAETH != 0:
		detail += fmt.Sprintf(", %v, MSN %d", r.AETH.Syndrome, r.AETH.MSN)
	case h&ib.HasRETH != 0:
		detail += fmt.Sprintf(", R_Key %#x, VA %#x, %d octets", r.RETH.RKey, r.RETH.VA, r.RETH.Len)
	}
	if op.Payload {
		detail += fmt.Sprintf(", %d octets of payload", r.size)
	}
	i.roceEvent(r, d.flow, r.Opcode.String(), detail)
	if op.Request {
		d.request(i, r)
		return
	}
	d.response(i, r)
}

// roceDir is the direction with that key, new at its first packet.
func (i *Inspector) roceDir(k roceKey) *roceDir {
	d := i.roce.dirs[k]
	if d != nil {
		return d
	}
	d = &roceDir{key: k, recs: map[uint32]*roceRec{}, ends: map[uint32]*roceRec{}}
	if s, ok := i.roce.start[k.to]; ok {
		d.known, d.mtu, d.retry, d.first, d.high, d.una = true, s.mtu, int(s.retry), s.psn, s.psn, s.psn
		if k.class == ib.TransportRC {
			d.fed = s.psn
			i.roce.above[k.to].joins(d)
		}
	}
	i.roce.dirs[k] = d
	i.roce.order = append(i.roce.order, d)
	if o, ok := i.roce.peers[k.to]; ok {
		if peer := i.roce.dirs[roceKey{to: o, src: k.to.addr, class: k.class}]; peer != nil {
			d.pair(peer)
		}
	}
	return d
}

// join gives d its flow: that of its peer, or a new one.
func (d *roceDir) join(i *Inspector, r *rocePacket) {
	if d.peer == nil && !r.Opcode.Operation().Request {
		i.findPeer(d, r)
	}
	d.flowed = true
	if d.peer != nil && d.peer.flowed {
		d.flow, d.side = d.peer.flow, 1-d.peer.side
		return
	}
	service := strings.Fields(r.Opcode.String())[0]
	d.flow = &Flow{Number: len(i.report.Flows) + 1, Protocol: r.protocol + " " + service, A: r.src.String(),
		B: fmt.Sprintf("%v queue pair %#x", r.dst, r.DestQP), First: r.in.Number, State: Replayed,
		Sides: make([]Side, 2)}
	if d.mtu > 0 {
		d.flow.Agreed = fmt.Sprintf("path MTU %d, starting PSN %d, retry count %d", d.mtu, d.first, d.retry)
	}
	i.addFlow(r.in, d.flow)
}

// findPeer looks for the requests that the first response of d answers: those of the only
// direction that has sent a packet with its PSN and has no peer.
func (i *Inspector) findPeer(d *roceDir, r *rocePacket) {
	var found *roceDir
	for _, x := range i.roce.order {
		k := x.key
		if x == d || x.peer != nil || !x.begun || k.class != d.key.class || k.to.iface != d.key.to.iface ||
			k.to.end != d.key.to.end || k.src != d.key.to.addr || k.to.addr != d.key.src {
			continue
		}
		if x.covering(r.PSN) == nil && x.covering((r.PSN-1)&ib.PSNMask) == nil {
			continue
		}
		if found != nil {
			return
		}
		found = x
	}
	if found != nil {
		d.pair(found)
	}
}

func (d *roceDir) pair(o *roceDir) {
	d.peer, o.peer = o, d
	if d.mtu == 0 {
		d.mtu = o.mtu
	}
	if o.mtu == 0 {
		o.mtu = d.mtu
	}
}

// partition judges the partition key.
func (d *roceDir) partition(i *Inspector, r *rocePacket) {
	if d.pkey == 0 {
		d.pkey = r.PKey
	}
	o := d.pkey
	if d.peer != nil && d.peer.pkey != 0 {
		o = d.peer.pkey
	}
	if r.PKey&0x7fff != o&0x7fff || r.PKey&0x7fff != d.pkey&0x7fff || (d.peer != nil && (r.PKey|o)&0x8000 == 0) {
		i.violate(rocePKey, r.in.Number, d.flow, "%#04x among packets with %#04x", r.PKey, o)
	}
}

// finishRoCE judges what was left open.
func (i *Inspector) finishRoCE() {
	for _, d := range i.roce.order {
		if d.flow != nil {
			d.finish()
		}
	}
}

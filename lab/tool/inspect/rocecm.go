package inspect

import (
	"fmt"
	"net/netip"

	"tapir/wire/ib"
)

// roceCallKey names a communication id: of whom, and the number.
type roceCallKey struct {
	iface int
	end   string
	addr  netip.Addr
	id    uint32
}

// roceCall is a connection as its messages tell.
type roceCall struct {
	tid    uint64
	req    ib.REQ
	rep    *ib.REP
	client netip.Addr
	server netip.Addr
	ends   map[netip.Addr]uint64 // transactions of DREQs by their senders
}

// roceMAD takes a management datagram to queue pair 1.
func (i *Inspector) roceMAD(r *rocePacket, f *Flow, side int) {
	p := r.in
	if r.size != ib.MADLen || len(r.Payload) < ib.MADLen {
		i.violate(roceMADLength, p.Number, f, "%d octets", r.size)
		return
	}
	if r.cut {
		i.note(p.Number, "the capture has cut management datagrams short: not replayed")
		return
	}
	h, data, err := ib.ParseMAD(r.Payload)
	if err != nil || h.Class != ib.ClassCM {
		f.Sides[side].message("MAD", uint64(r.size))
		i.roceEvent(r, f, "MAD", fmt.Sprintf("class %#x", h.Class))
		return
	}
	name := ib.CMName(h.Attr)
	if h.BaseVersion != 1 || h.ClassVersion != ib.CMVersion || h.Method != ib.MethodSend || name == "" {
		i.violate(roceMADHeader, p.Number, f, "version %d, class version %d, method %#x, attribute %#x", h.BaseVersion,
			h.ClassVersion, h.Method, h.Attr)
		return
	}
	f.Sides[side].message(name, uint64(r.size))
	ids := ib.ParseIDs(data)
	i.roceEvent(r, f, name, fmt.Sprintf("communication ids %#x, %#x", ids.LocalID, ids.RemoteID))
	at := func(addr netip.Addr, id uint32) roceCallKey { return roceCallKey{p.Interface, p.End, addr, id} }
	switch h.Attr {
	case ib.AttrREQ:
		i.roceREQ(r, f, h.TID, data, at(r.src, ids.LocalID))
		return
	case ib.AttrSIDRREQ, ib.AttrSIDRREP, ib.AttrLAP, ib.AttrAPR:
		return
	}
	c := i.roce.calls[at(r.dst, ids.RemoteID)]
	if c == nil {
		c = i.roce.calls[at(r.src, ids.LocalID)]
	}
	if c == nil {
		for _, c := range i.roce.calls {
			elsewhere := c.req.LocalID == ids.RemoteID // the REQ was captured at another end of the link alone
			if c.tid == h.TID && c.client == r.dst && c.server == r.src && !elsewhere {
				i.violate(roceCommID, p.Number, f, "%s to communication id %#x", name, ids.RemoteID)
				return
			}
		}
		return
	}
	i.roceCallMessage(r, f, c, h, data, ids)
}

// roceREQ takes a request for a connection.
func (i *Inspector) roceREQ(r *rocePacket, f *Flow, tid uint64, data []byte, key roceCallKey) {
	q := ib.ParseREQ(data)
	q.Private = append([]byte(nil), q.Private...)
	if old := i.roce.calls[key]; old != nil && old.tid == tid {
		if old.req.QPN != q.QPN || old.req.PSN != q.PSN || old.req.ServiceID != q.ServiceID || old.req.MTU != q.MTU {
			i.violate(roceREQChanged, r.in.Number, f, "communication id %#x", q.LocalID)
		}
		return
	}
	i.roce.calls[key] = &roceCall{tid: tid, req: q, client: r.src, server: r.dst}
	switch {
	case q.MTU < 1 || q.MTU > 5:
		i.violate(roceREQMTU, r.in.Number, f, "code %d", q.MTU)
	case q.Service == ib.ServiceRD || q.Service == ib.ServiceExtended && q.Extended != ib.ExtendedXRC:
		i.violate(roceREQService, r.in.Number, f, "type %d, extended type %d", q.Service, q.Extended)
	case netip.AddrFrom16(q.Primary.LocalGID).Unmap() != r.src,
		netip.AddrFrom16(q.Primary.RemoteGID).Unmap() != r.dst:
		i.violate(roceREQPath, r.in.Number, f, "from %v to %v", netip.AddrFrom16(q.Primary.LocalGID).Unmap(),
			netip.AddrFrom16(q.Primary.RemoteGID).Unmap())
	}
	if _, _, ok := ib.ServicePort(q.ServiceID); ok {
		if _, err := ib.ParseCMA(q.Private); err != nil {
			i.violate(roceCMA, r.in.Number, f, "version %d, IP version %d", q.Private[0], q.Private[1]>>4)
		}
	}
}

// roceCallMessage takes a message about a connection whose REQ was seen.
func (i *Inspector) roceCallMessage(r *rocePacket, f *Flow, c *roceCall, h ib.Header, data []byte, ids ib.IDs) {
	p := r.in
	switch h.Attr {
	case ib.AttrREP, ib.AttrRTU, ib.AttrMRA, ib.AttrREJ:
		if h.TID != c.tid {
			i.violate(roceTID, p.Number, f, "%#x, the REQ has %#x", h.TID, c.tid)
		}
	}
	switch h.Attr {
	case ib.AttrREP:
		i.roceREP(r, f, c, data)
	case ib.AttrREJ:
		if m := ib.ParseREJ(data); m.Reason < 1 || m.Reason > 33 || m.About > 2 {
			i.violate(roceReject, p.Number, f, "reason %d, about message %d", m.Reason, m.About)
		}
	case ib.AttrRTU:
		if c.rep != nil && (ids.LocalID != c.req.LocalID || ids.RemoteID != c.rep.LocalID) {
			i.violate(roceCommID, p.Number, f, "RTU with %#x and %#x", ids.LocalID, ids.RemoteID)
		}
	case ib.AttrDREQ:
		m := ib.ParseDREQ(data)
		if c.ends == nil {
			c.ends = map[netip.Addr]uint64{}
		}
		c.ends[r.src] = h.TID
		if c.rep == nil {
			return
		}
		want := c.req.QPN
		if r.src == c.client && ids.LocalID == c.req.LocalID {
			want = c.rep.QPN
		}
		if m.RemoteQPN != want {
			i.violate(roceDREQ, p.Number, f, "queue pair %#x, connected is %#x", m.RemoteQPN, want)
		}
	case ib.AttrDREP:
		if tid, ok := c.ends[r.dst]; ok && h.TID != tid {
			i.violate(roceTID, p.Number, f, "%#x, the DREQ has %#x", h.TID, tid)
		}
	}
}

// roceREP takes the answer that accepts: from here on both ends of the connection are known.
func (i *Inspector) roceREP(r *rocePacket, f *Flow, c *roceCall, data []byte) {
	m := ib.ParseREP(data)
	m.Private = nil
	if c.rep != nil {
		if *repWithout(c.rep) != *repWithout(&m) {
			i.violate(roceREPChanged, r.in.Number, f, "communication id %#x", m.LocalID)
		}
		return
	}
	if m.RemoteID != c.req.LocalID {
		i.violate(roceCommID, r.in.Number, f, "REP to communication id %#x", m.RemoteID)
		return
	}
	c.rep = &m
	p := r.in
	client := roceAddr{p.Interface, p.End, c.client, c.req.QPN}
	server := roceAddr{p.Interface, p.End, c.server, m.QPN}
	mtu := uint32(128) << min(c.req.MTU, 5)
	// The starting PSN of a message is the one that its receiver begins with (section 12.7.31).
	i.roceBegin(client, server, roceStart{c.req.PSN, mtu, c.req.Retry})
	i.roceBegin(server, client, roceStart{m.PSN, mtu, c.req.Retry})
	i.roceAbove(client, server, &c.req, p.Number)
}

// repWithout is a REP that can be compared.
func repWithout(m *ib.REP) *struct{ local, remote, qpn, psn uint32 } {
	return &struct{ local, remote, qpn, psn uint32 }{m.LocalID, m.RemoteID, m.QPN, m.PSN}
}

// roceBegin notes that a new connection uses queue pair to, whose peer is from.
func (i *Inspector) roceBegin(to, from roceAddr, s roceStart) {
	i.roce.peers[to], i.roce.start[to] = from, s
	for _, class := range []ib.Opcode{ib.TransportRC, ib.TransportUC, ib.TransportXRC} {
		k := roceKey{to: to, src: from.addr, class: class}
		if d := i.roce.dirs[k]; d != nil && d.peer != nil {
			d.peer.peer = nil
		}
		delete(i.roce.dirs, k)
	}
}

package fcf

import (
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/fc"
	"tapir/wire/fcoe"
	"tapir/wire/fip"
	"tapir/wire/frame"
)

// fip takes a frame of FIP. What is for all FCFs is bridged, too.
func (f *FCF) fip(in int, h *ether.Header, b []byte, now frame.Time) (out int, why frame.DropReason) {
	switch h.Dst {
	case f.env.MAC:
		out = Taken
	case fip.AllFCFs:
		out = Bridge
	default:
		return Bridge, frame.DropNone
	}
	m, err := fip.Parse(b)
	switch {
	case err != nil:
		return Taken, drop.Malformed
	case m.Op != fip.VLANRequest && !f.inVLAN(h):
		return f.foreign(out, drop.WrongVLAN)
	case m.Flags&fip.FromFCF != 0:
		return f.foreign(out, drop.Unused)
	}
	if why := f.message(in, h, &m, now); why != frame.DropNone {
		return Taken, why
	}
	return out, frame.DropNone
}

// foreign is what happens to a frame that concerns other FCFs alone: dropped unless they may
// get it.
func (f *FCF) foreign(out int, why frame.DropReason) (int, frame.DropReason) {
	if out == Bridge {
		why = frame.DropNone
	}
	return out, why
}

// message takes a message of an ENode.
func (f *FCF) message(in int, h *ether.Header, m *fip.Message, now frame.Time) frame.DropReason {
	switch m.Op {
	case fip.Solicitation, fip.VLANRequest:
		if m.MAC != h.Src {
			return drop.Source
		}
	}
	switch m.Op {
	case fip.Solicitation:
		f.counts.Solicitations++
		size := min(int(m.MaxSize), fc.MaxPayload+fcoe.Overhead)
		f.send(in, f.reply(h, h.Src), f.advertisement(fip.Solicited), size, now)
	case fip.VLANRequest:
		f.counts.VLANRequests++
		a := fip.Message{Op: fip.VLANNotify, Flags: fip.FromFCF | fip.Available, MAC: f.env.MAC}
		a.Set(fip.MAC)
		f.send(in, f.reply(h, h.Src), a.AppendVLANs(f.body[:0], f.cfg.VLAN), 0, now)
	case fip.Request:
		return f.login(in, h, m, now)
	case fip.KeepAlive:
		return f.keepAlive(in, h, m, now)
	default:
		return drop.Unused
	}
	return frame.DropNone
}

// reply is the Ethernet header of the answer to a frame, with its VLAN.
func (f *FCF) reply(h *ether.Header, to ether.Addr) ether.Header {
	r := ether.Header{Dst: to, Src: f.env.MAC, Type: fip.EtherType}
	if h.NTags > 0 {
		r.NTags, r.Tags[0] = 1, f.tag(h.Tags[0].VID(), f.env.FIPPriority)
	}
	return r
}

func (f *FCF) tag(vid uint16, prio uint8) ether.Tag {
	return ether.Tag{TPID: ether.TypeVLAN, TCI: uint16(prio)<<13 | vid}
}

// send sends a message of FIP, with padding up to size octets behind the Ethernet header.
func (f *FCF) send(port int, h ether.Header, message []byte, size int, now frame.Time) {
	f.body = message[:0]
	b := append(h.AppendTo(f.buf[:0]), message...)
	size = max(size, ether.MinPayload)
	if pad := h.Len() + size - len(b); pad > 0 {
		b = append(b, make([]byte, pad)...)
	}
	f.buf = b
	f.env.Send(port, b, now)
}

// advertisement is the FCF's message about itself.
func (f *FCF) advertisement(more uint16) []byte {
	m := fip.Message{Op: fip.Advertisement, Flags: fip.FPMA | fip.FromFCF | more, Priority: f.cfg.Priority,
		MAC: f.env.MAC, Name: f.name, Fabric: f.cfg.Fabric, Map: f.cfg.Map, Period: uint32(f.cfg.Period.Milliseconds())}
	if len(f.nports) < f.cfg.Logins {
		m.Flags |= fip.Available
	}
	m.Set(fip.Priority, fip.MAC, fip.Name, fip.Fabric, fip.Period)
	return m.AppendTo(f.body[:0])
}

// announce sends an advertisement to all ENodes at a port.
func (f *FCF) announce(port int, now frame.Time) {
	if f.down[port] {
		return
	}
	h := ether.Header{Dst: fip.AllENodes, Src: f.env.MAC, Type: fip.EtherType}
	if f.cfg.VLAN != 0 {
		h.NTags, h.Tags[0] = 1, f.tag(f.cfg.VLAN, f.env.FIPPriority)
	}
	f.counts.Advertisements++
	f.send(port, h, f.advertisement(0), 0, now)
}

// keepAlive takes a keep-alive of an ENode, or of a VN_Port. Who is not logged in, or not any
// more, hears of it: the FCF may have been started again.
func (f *FCF) keepAlive(in int, h *ether.Header, m *fip.Message, now frame.Time) frame.DropReason {
	n := f.nodeAt(m.MAC)
	known := n != nil && n.port == in
	var p *nport
	if m.Has(fip.VNPort) {
		p = f.find(m.Port.ID)
		known = known && p != nil && p.node == n && p.name == m.Port.Name
		if known && (p.mac != m.Port.MAC || h.Src != p.mac && h.Src != n.mac) {
			return drop.Source
		}
	} else if h.Src != m.MAC {
		return drop.Source
	}
	switch {
	case !known && p == nil && m.Has(fip.VNPort):
		f.clearLinks(in, f.reply(h, m.MAC), now, m.Port)
		return DropNoPort
	case !known:
		f.clearLinks(in, f.reply(h, m.MAC), now)
		return DropNoPort
	case p != nil:
		p.until = now.Add(missing(vnPeriod))
	default:
		n.until = now.Add(missing(f.cfg.Period))
	}
	f.counts.KeepAlives++
	return frame.DropNone
}

// clear tells an ENode that virtual links of it are gone.
func (f *FCF) clear(n *node, now frame.Time, gone ...*nport) {
	ports := make([]fip.Port, len(gone))
	for i, p := range gone {
		ports[i] = fip.Port{MAC: p.mac, ID: p.id, Name: p.name}
	}
	f.counts.Cleared += uint64(len(gone))
	f.clearLinks(n.port, n.header(f, fip.EtherType, n.mac), now, ports...)
}

// clearLinks sends a Clear Virtual Links. Without ports it is about all of the ENode.
func (f *FCF) clearLinks(port int, h ether.Header, now frame.Time, ports ...fip.Port) {
	m := fip.Message{Op: fip.ClearLinks, Flags: fip.FromFCF, MAC: f.env.MAC, Name: f.name}
	m.Set(fip.MAC, fip.Name)
	f.send(port, h, m.AppendPorts(f.body[:0], ports...), 0, now)
}

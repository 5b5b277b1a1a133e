package fcf

import (
	"bytes"
	"slices"

	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/fc"
	"tapir/wire/fip"
	"tapir/wire/frame"
)

// node is an ENode with at least one N_Port.
type node struct {
	mac    ether.Addr
	port   int // of the switch
	tagged bool
	until  frame.Time // it is gone then without a keep-alive
	nports []*nport   // by login
}

// header is the Ethernet header of a frame to an address of the ENode.
func (n *node) header(f *FCF, typ uint16, to ether.Addr) ether.Header {
	h := ether.Header{Dst: to, Src: f.env.MAC, Type: typ}
	if n.tagged {
		prio := f.env.Priority
		if typ == fip.EtherType {
			prio = f.env.FIPPriority
		}
		h.NTags, h.Tags[0] = 1, f.tag(f.cfg.VLAN, prio)
	}
	return h
}

// nport is a logged-in N_Port.
type nport struct {
	node       *node
	id         fc.ID
	mac        ether.Addr // of its VN_Port
	name       fc.WWN
	nodeName   fc.WWN
	fabricPort fc.WWN     // the other end of its link
	virtual    bool       // by FDISC
	until      frame.Time // it is gone then without a keep-alive

	size      int // octets of payload that it takes from the directory server; 0: no login there
	registrar bool
	object
	changes changes
}

// lease is an FC_ID that an N_Port had, and gets again.
type lease struct {
	name fc.WWN
	id   fc.ID
}

// mostPast is how many of them are kept.
const mostPast = 256

// find is the N_Port with an FC_ID; nil: there is none.
func (f *FCF) find(id fc.ID) *nport {
	if i, ok := f.search(id); ok {
		return f.nports[i]
	}
	return nil
}

func (f *FCF) search(id fc.ID) (int, bool) {
	return slices.BinarySearchFunc(f.nports, id, func(p *nport, id fc.ID) int { return int(p.id) - int(id) })
}

// named is the N_Port with a port name; nil: there is none.
func (f *FCF) named(name fc.WWN) *nport {
	for _, p := range f.nports {
		if p.name == name {
			return p
		}
	}
	return nil
}

// nodeAt is the ENode with a MAC address; nil: it is not logged in.
func (f *FCF) nodeAt(mac ether.Addr) *node {
	i, ok := f.place(mac)
	if !ok {
		return nil
	}
	return f.nodes[i]
}

func (f *FCF) place(mac ether.Addr) (int, bool) {
	return slices.BinarySearchFunc(f.nodes, mac, func(n *node, mac ether.Addr) int {
		return bytes.Compare(n.mac[:], mac[:])
	})
}

// request is a link service in a frame of FIP.
type request struct {
	in  int
	eth *ether.Header
	msg *fip.Message
	fc.Header
	payload []byte
}

// login takes FLOGI, FDISC or LOGO.
func (f *FCF) login(in int, h *ether.Header, m *fip.Message, now frame.Time) frame.DropReason {
	head, payload, err := fc.Parse(m.Frame)
	if err != nil || head.RCtl != fc.ELSRequest || head.Type != fc.TypeELS || head.D != fc.FabricPort {
		return drop.Malformed
	}
	r := &request{in, h, m, head, payload}
	switch {
	case m.Login == fip.LOGO && fc.Command(payload) == fc.LOGO:
		return f.logout(r, now)
	case m.Login == fip.FLOGI && fc.Command(payload) == fc.FLOGI,
		m.Login == fip.FDISC && fc.Command(payload) == fc.FDISC:
		l, err := fc.ParseLogin(payload)
		if err != nil {
			return drop.Malformed
		}
		if reason, why := f.refusal(r, &l); reason != 0 {
			f.answer(r, fc.AppendReject(nil, reason, why), nil, now)
			f.counts.Refused++
			return frame.DropNone
		}
		f.accept(r, &l, now)
		return frame.DropNone
	}
	return drop.Malformed
}

// refusal is why a FLOGI or FDISC is refused; 0: it is not.
func (f *FCF) refusal(r *request, l *fc.Login) (fc.Reason, fc.Explanation) {
	n := f.nodeAt(r.eth.Src)
	other := f.named(l.Port)
	proposed := r.msg.MAC != ether.Addr{}
	full := len(f.nports) >= f.cfg.Logins
	switch {
	case r.msg.Flags&fip.FPMA == 0:
		return fc.FIPError, fc.BadAddressMode
	case proposed && r.msg.Flags&fip.SPMA == 0 && fip.Map(uint32(r.msg.MAC[0])<<16|uint32(r.msg.MAC[1])<<8|
		uint32(r.msg.MAC[2])) != f.cfg.Map:
		return fc.FIPError, fc.BadProposedMAC
	case l.Port == 0 || l.Port == f.name:
		return fc.LogicalError, fc.BadPortName
	case l.Node == 0:
		return fc.LogicalError, fc.BadNodeName
	case !l.Class3:
		return fc.LogicalError, fc.BadServiceParams
	case l.MaxPayload < leastPayload || l.MaxPayload > fc.MaxPayload:
		return fc.LogicalError, fc.BadCommonParams
	case l.Command == fc.FDISC && (n == nil || n.port != r.in):
		return fc.CannotPerform, fc.PortLoginRequired
	case other != nil && (other.node != n || l.Command == fc.FDISC):
		return fc.LogicalError, fc.BadPortName // somebody else has it
	case l.Command == fc.FDISC && n.virtuals() >= f.cfg.NPIV || full && (l.Command == fc.FDISC || n == nil):
		return fc.CannotPerform, fc.NoResources
	}
	return 0, 0
}

// leastPayload is the smallest receive data field of an N_Port (FC-LS-3 section 6.6.2.5).
const leastPayload = 256

// virtuals are how many N_Ports the ENode has by FDISC.
func (n *node) virtuals() (count int) {
	for _, p := range n.nports {
		if p.virtual {
			count++
		}
	}
	return count
}

// accept logs an N_Port in. A FLOGI ends all that its ENode had before.
func (f *FCF) accept(r *request, l *fc.Login, now frame.Time) {
	if l.Command == fc.FLOGI {
		f.endAll(func(n *node) bool { return n.mac == r.eth.Src }, now)
		i, _ := f.place(r.eth.Src)
		f.nodes = slices.Insert(f.nodes, i, &node{mac: r.eth.Src, port: r.in, tagged: r.eth.NTags > 0,
			until: now.Add(missing(f.cfg.Period))})
		f.counts.FLOGIs++
	} else {
		f.counts.FDISCs++
	}
	n := f.nodeAt(r.eth.Src)
	p := &nport{node: n, id: f.assign(l.Port, r.in), name: l.Port, nodeName: l.Node, virtual: l.Command == fc.FDISC,
		until: now.Add(missing(vnPeriod))}
	p.mac, p.fabricPort = f.cfg.Map.MAC(p.id), f.portName(uint16(r.in+1))
	n.nports = append(n.nports, p)
	i, _ := f.search(p.id)
	f.nports = slices.Insert(f.nports, i, p)
	f.wake(min(n.until, p.until))
	a := fc.Login{Command: fc.LSACC, Features: fc.FPort, MaxPayload: fc.MaxPayload, RATOV: uint32(raTOV.Milliseconds()),
		EDTOV: uint32(edTOV.Milliseconds()), Port: p.fabricPort, Node: f.name,
		Class3: true}
	if l.Features&fc.MultipleIDs != 0 {
		a.Features |= fc.IDsSupported
	}
	f.answer(r, a.AppendTo(nil), p, now)
}

// portName is the name of a port of the switch, of which 12 bits say which one.
func (f *FCF) portName(port uint16) fc.WWN { return fc.FromMAC(0x2000|port&0xfff, f.env.MAC) }

// assign finds an FC_ID: the one that the N_Port had before, or a free one of the port's area
// or behind it that was nobody's of late.
func (f *FCF) assign(name fc.WWN, port int) fc.ID {
	for i, l := range f.past {
		if l.name == name {
			f.past = slices.Delete(f.past, i, i+1)
			if f.find(l.id) == nil {
				return l.id
			}
			break
		}
	}
	domain := fc.ID(f.cfg.DomainID) << 16
	for _, used := range []func(id fc.ID) bool{
		func(id fc.ID) bool { return slices.ContainsFunc(f.past, func(l lease) bool { return l.id == id }) },
		func(fc.ID) bool { return false },
	} {
		at := fc.ID(port) << 8 & 0xff00
		for range 1 << 16 {
			at = (at + 1) & 0xffff
			if id := domain | at; at&0xff != 0 && f.find(id) == nil && !used(id) {
				return id
			}
		}
	}
	panic("fcf: more logins than FC_IDs")
}

// answer sends the reply to a link service. With p it says the granted MAC address.
func (f *FCF) answer(r *request, payload []byte, p *nport, now frame.Time) {
	head := r.ReplyTo(fc.ELSReply)
	m := fip.Message{Op: fip.Reply, Flags: fip.FPMA | fip.FromFCF, Login: r.msg.Login}
	if p != nil {
		head.D, m.MAC = p.id, p.mac
		m.Set(fip.MAC)
	}
	m.Frame = head.AppendFrame(nil, payload)
	f.send(r.in, f.reply(r.eth, r.eth.Src), m.AppendTo(f.body[:0]), 0, now)
}

// logout ends the login of an N_Port.
func (f *FCF) logout(r *request, now frame.Time) frame.DropReason {
	l, err := fc.ParseLogout(r.payload)
	if err != nil {
		return drop.Malformed
	}
	p := f.find(r.S)
	switch {
	case p == nil || p.node.mac != r.eth.Src || p.node.port != r.in:
		f.answer(r, fc.AppendReject(nil, fc.CannotPerform, fc.PortLoginRequired), nil, now)
		f.counts.Refused++
		return frame.DropNone
	case l.Port != p.id || l.Name != p.name:
		f.answer(r, fc.AppendReject(nil, fc.LogicalError, fc.BadPortName), nil, now)
		f.counts.Refused++
		return frame.DropNone
	}
	f.answer(r, fc.AppendAccept(nil), p, now)
	f.counts.LOGOs++
	f.end(p, now)
	return frame.DropNone
}

// end takes an N_Port off the fabric, and its ENode with the last one.
func (f *FCF) end(p *nport, now frame.Time) {
	i, _ := f.search(p.id)
	f.nports = slices.Delete(f.nports, i, i+1)
	if len(f.past) == mostPast {
		f.past = slices.Delete(f.past, 0, 1)
	}
	f.past = append(f.past, lease{p.name, p.id})
	n := p.node
	n.nports = slices.DeleteFunc(n.nports, func(o *nport) bool { return o == p })
	if len(n.nports) == 0 {
		i, _ := f.place(n.mac)
		f.nodes = slices.Delete(f.nodes, i, i+1)
	}
	f.changed(p, now)
}

// endAll ends the logins of all ENodes that match.
func (f *FCF) endAll(match func(*node) bool, now frame.Time) {
	for _, n := range slices.Clone(f.nodes) {
		if match(n) {
			for _, p := range slices.Clone(n.nports) {
				f.end(p, now)
			}
		}
	}
}

// expire ends logins whose keep-alives are missing, and tells their ENodes.
func (f *FCF) expire(now frame.Time) {
	for _, n := range slices.Clone(f.nodes) {
		var gone []*nport
		for _, p := range n.nports {
			if n.until <= now || p.until <= now {
				gone = append(gone, p)
			}
		}
		if gone == nil {
			continue
		}
		f.counts.Expired += uint64(len(gone))
		f.clear(n, now, gone...)
		for _, p := range gone {
			f.end(p, now)
		}
	}
}

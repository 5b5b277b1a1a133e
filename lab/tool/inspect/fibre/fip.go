// Package fibre judges frames of FIP and FCoE: FC-BB-6, FC-FS-3, FC-LS-2 and FCP-4. It
// is given the frames of one VLAN in their order and tells a Reporter what breaks which
// clause. It does no I/O and owns no clock.
package fibre

import (
	"errors"
	"fmt"

	"tapir/lab/tool/inspect/clause"
	"tapir/wire/ether"
	"tapir/wire/fc"
	"tapir/wire/fip"
)

// Reporter is told what the frames show.
type Reporter interface {
	// Violate says that the frame in hand breaks a rule.
	Violate(r *clause.Rule, detail string)
	// Frame tells of a frame: whence and whither, its name, its fields, and the octets of its payload.
	Frame(from, to, name, detail string, octets int)
	// Part says why not everything is judged.
	Part(why string)
}

// Fabric judges the frames of one VLAN.
type Fabric struct {
	to    Reporter
	maps  map[fip.Map]bool // FC-MAPs that are in use
	ports map[fc.ID]*port
	pairs map[pair]*login
	open  map[exchange]*task
	// lacking: the capture does not have all frames.
	lacking bool
}

// port is a VN_Port whose login to the fabric the capture has.
type port struct {
	in   bool // logged in now
	mac  ether.Addr
	size uint16 // longest payload that it takes, in octets; 0: not known
}

// New judges a VLAN.
func New(to Reporter) *Fabric {
	return &Fabric{to: to, maps: map[fip.Map]bool{}, ports: map[fc.ID]*port{},
		pairs: map[pair]*login{}, open: map[exchange]*task{}}
}

// bad reports a violation.
func (f *Fabric) bad(r *clause.Rule, format string, args ...any) {
	f.to.Violate(r, fmt.Sprintf(format, args...))
}

var operations = map[fip.Op]string{
	fip.Solicitation: "Discovery Solicitation", fip.Advertisement: "Discovery Advertisement",
	fip.Request: "Virtual Link Request", fip.Reply: "Virtual Link Reply", fip.KeepAlive: "Keep Alive",
	fip.ClearLinks: "Clear Virtual Links", fip.VLANRequest: "VLAN Request", fip.VLANNotify: "VLAN Notification",
	fip.ProbeRequest: "N_Port_ID Probe Request", fip.ProbeReply: "N_Port_ID Probe Reply",
	fip.ClaimNotify: "N_Port_ID Claim Notification", fip.ClaimReply: "N_Port_ID Claim Response",
	fip.Beacon: "N_Port_ID Beacon",
}

// groups are the group addresses of operations.
var groups = map[fip.Op][]ether.Addr{
	fip.Solicitation: {fip.AllFCFs}, fip.VLANRequest: {fip.AllFCFs}, fip.Advertisement: {fip.AllENodes},
	fip.ProbeRequest: {fip.AllVN2VN}, fip.ClaimNotify: {fip.AllVN2VN}, fip.Beacon: {fip.AllVN2VN},
	fip.KeepAlive: {}, fip.Request: {}, fip.Reply: {}, fip.VLANNotify: {}, fip.ProbeReply: {}, fip.ClaimReply: {},
}

// FIP judges a frame of FIP: its Ethernet header and what follows.
func (f *Fabric) FIP(h ether.Header, body []byte) {
	m, err := fip.Parse(body)
	name := operations[m.Op]
	switch {
	case errors.Is(err, fip.ErrDescriptor):
		f.bad(fipDescriptor, "%s", name)
	case errors.Is(err, fip.ErrCritical):
		f.bad(fipUnknown, "%s", name)
	case errors.Is(err, fip.ErrMissing):
		f.bad(fipMissing, "%s", name)
	case err != nil:
		f.bad(fipHeader, "")
	case name == "":
		f.bad(fipOperation, "%d/%d", m.Op>>8, m.Op&0xff)
	}
	if err != nil || name == "" {
		return
	}
	if allowed, is := groups[m.Op]; is && h.Dst[0]&1 != 0 && (len(allowed) == 0 || allowed[0] != h.Dst) {
		f.bad(fipGroup, "%s to %v", name, h.Dst)
	}
	detail := ""
	switch m.Op {
	case fip.Advertisement:
		f.maps[m.Map] = true
		detail = fmt.Sprintf("FC-MAP %06x, priority %d, FKA_ADV_PERIOD %d ms", uint32(m.Map), m.Priority, m.Period)
	case fip.Request, fip.Reply:
		name, detail = f.link(&m)
	case fip.ClearLinks:
		for p := range m.Ports() {
			f.leave(p.ID)
		}
	case fip.ClaimNotify, fip.ClaimReply, fip.Beacon, fip.ProbeRequest, fip.ProbeReply:
		detail = m.Port.ID.String()
		if m.Op != fip.ProbeRequest && m.Port.MAC != fip.VN2VNMap.MAC(m.Port.ID) {
			f.bad(fipAddress, "%v of %v", m.Port.MAC, m.Port.ID)
		}
	case fip.KeepAlive:
		if m.Has(fip.VNPort) {
			detail = m.Port.ID.String()
			f.alive(m.Port.ID)
		}
	}
	f.to.Frame(h.Src.String(), h.Dst.String(), "FIP "+name, detail, len(body))
}

// link takes a login or logout that FIP carries.
func (f *Fabric) link(m *fip.Message) (name, detail string) {
	kinds := map[fip.Kind]string{fip.FLOGI: "FLOGI", fip.FDISC: "FDISC", fip.LOGO: "LOGO", fip.ELP: "ELP"}
	name = kinds[m.Login]
	h, payload, err := fc.Parse(m.Frame)
	if err != nil {
		f.bad(frameHeader, "in %s", name)
		return name, ""
	}
	if m.Op == fip.Request {
		if m.Login == fip.LOGO {
			f.leave(h.S)
		}
		return name, h.S.String()
	}
	switch cmd := fc.Command(payload); {
	case cmd == fc.LSACC && (m.Login == fip.FLOGI || m.Login == fip.FDISC):
		if mapped := fip.Map(uint32(m.MAC[0])<<16 | uint32(m.MAC[1])<<8 | uint32(m.MAC[2])); m.Has(fip.MAC) &&
			m.Flags&fip.FPMA != 0 && (mapped.MAC(h.D) != m.MAC || len(f.maps) > 0 && !f.maps[mapped]) {
			f.bad(fipAddress, "%v of %v", m.MAC, h.D)
		}
		f.leave(h.D) // whatever was before is over
		f.ports[h.D] = &port{in: true, mac: m.MAC}
		return name + " LS_ACC", fmt.Sprintf("%v, MAC %v", h.D, m.MAC)
	case cmd == fc.LSRJT:
		return name + " LS_RJT", ""
	}
	return name + " LS_ACC", h.D.String()
}

// leave is the end of a VN_Port's login.
func (f *Fabric) leave(id fc.ID) {
	if p := f.ports[id]; p != nil {
		p.in = false
	} else {
		f.ports[id] = &port{}
	}
	for k := range f.pairs {
		if k.a == id || k.b == id {
			delete(f.pairs, k)
		}
	}
	f.drop(func(k exchange) bool { return k.from == id || k.to == id })
}

// drop forgets exchanges that a login or logout has ended.
func (f *Fabric) drop(over func(exchange) bool) {
	for k := range f.open {
		if over(k) {
			delete(f.open, k)
		}
	}
}

// alive judges that a VN_Port which keeps its link alive has one.
func (f *Fabric) alive(id fc.ID) {
	if p := f.ports[id]; p != nil && !p.in {
		f.bad(frameLogin, "%v", id)
	}
}

package fcf

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"tapir/lab/conf/swconf"
	"tapir/lab/tool/tshark"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/fc"
	"tapir/wire/fcoe"
	"tapir/wire/fip"
	"tapir/wire/frame"
)

// An end node finds the FCF, logs in with N_Ports of both kinds, and logs out. It gets the same
// FC_ID the next time.
func TestLogin(t *testing.T) {
	b := newBed(t, swconf.FCF{Priority: 7, Period: 5 * time.Second})
	e := b.enode(2, 1)
	b.run(0)
	all := b.take()
	if len(all) != ports {
		t.Fatalf("%d advertisements", len(all))
	}
	for i := range all {
		h, m := all[i].fip(t)
		if all[i].port != i || h.Dst != fip.AllENodes || m.Op != fip.Advertisement || m.Flags != fip.FPMA|fip.FromFCF|fip.Available ||
			m.Priority != 7 || m.Period != 5000 || m.Map != fip.DefaultMap || m.Name != b.f.name || m.Fabric != b.f.name || len(all[i].b) != 72 {
			t.Errorf("%+v %+v", h, m)
		}
	}
	discover := func(op fip.Op, dst ether.Addr, bridged int) (sent, fip.Message) {
		m := fip.Message{Op: op, Flags: fip.FPMA, MAC: e.mac, Name: e.wwnn(), MaxSize: fc.MaxPayload + fcoe.Overhead}
		m.Set(fip.MAC, fip.Name)
		if op == fip.Solicitation {
			m.Set(fip.MaxSize)
		}
		if out, why := e.say(e.mac, dst, &m); out != bridged || why != frame.DropNone {
			t.Errorf("%v to %v: %d, %v", op, dst, out, why)
		}
		s := b.one()
		h, a := s.fip(t)
		if h.Dst != e.mac || s.port != e.port || a.MAC != b.f.env.MAC {
			t.Errorf("%+v %+v", h, a)
		}
		return s, a
	}
	if _, m := discover(fip.VLANRequest, fip.AllFCFs, Bridge); m.Op != fip.VLANNotify || !slices.Equal(slices.Collect(m.VLANs()), []uint16{0}) {
		t.Errorf("%+v", m)
	}
	for dst, bridged := range map[ether.Addr]int{fip.AllFCFs: Bridge, b.f.env.MAC: Taken} {
		if s, m := discover(fip.Solicitation, dst, bridged); m.Op != fip.Advertisement || m.Flags&fip.Solicited == 0 ||
			len(s.b) != ether.HeaderLen+fc.MaxPayload+fcoe.Overhead {
			t.Errorf("%d octets: %+v", len(s.b), m)
		}
	}
	p, v := e.login(0), e.login(1)
	if p.id != 0x010201 || v.id != 0x010202 || p.mac != (ether.Addr{0x0e, 0xfc, 0, 1, 2, 1}) {
		t.Errorf("%v %v %v", p.id, v.id, p.mac)
	}
	if o := b.enode(2, 2).login(0); o.id != 0x010203 {
		t.Errorf("another ENode has %v", o.id)
	}
	leave := func(p *peer) {
		m, h, reply := e.request(fip.LOGO, p.id, fc.Logout{Port: p.id, Name: p.name}.AppendTo(nil), nil)
		if fc.Command(reply) != fc.LSACC || h.D != p.id || m.MAC != p.mac {
			t.Errorf("%+v %x", m, reply)
		}
	}
	leave(p)
	if l := b.f.Logins(); len(l) != 2 || l[0].ID != v.id || !l[0].Virtual {
		t.Errorf("%+v", l)
	}
	leave(v)
	if again := b.enode(2, 3).login(0); again.id != 0x010204 {
		t.Errorf("a third ENode has %v, which another had", again.id)
	}
	if again := e.login(0); again.id != p.id {
		t.Errorf("now %v", again.id)
	}
	if again := e.login(0); again.id != p.id || len(b.f.Logins()) != 3 {
		t.Errorf("a second FLOGI gets %v; %d logins", again.id, len(b.f.Logins()))
	}
}

// In a VLAN: the FCF answers there, with its priorities, and nowhere else.
func TestVLAN(t *testing.T) {
	b := newBed(t, swconf.FCF{VLAN: 100})
	e := b.enode(0, 1)
	m := fip.Message{Op: fip.VLANRequest, MAC: e.mac}
	m.Set(fip.MAC)
	e.say(e.mac, fip.AllFCFs, &m)
	s := b.one()
	if h, m := s.fip(t); h.NTags != 0 || !slices.Equal(slices.Collect(m.VLANs()), []uint16{100}) {
		t.Errorf("%+v %+v", h, m)
	}
	sol := fip.Message{Op: fip.Solicitation, MAC: e.mac, MaxSize: 1500}
	sol.Set(fip.MAC, fip.Name, fip.MaxSize)
	if out, why := e.say(e.mac, fip.AllFCFs, &sol); out != Bridge || why != frame.DropNone || len(b.take()) != 0 {
		t.Errorf("outside of the VLAN: %d, %v", out, why)
	}
	if _, why := e.say(e.mac, b.f.env.MAC, &sol); why != drop.WrongVLAN {
		t.Errorf("outside of the VLAN: %v", why)
	}
	e.vlan = 100
	e.say(e.mac, fip.AllFCFs, &sol)
	s = b.one()
	if h, _ := s.fip(t); h.NTags != 1 || h.Tags[0].VID() != 100 || h.Tags[0].PCP() != 4 || len(s.b) != ether.HeaderLen+ether.TagLen+1500 {
		t.Errorf("%+v, %d octets", h, len(s.b))
	}
	p := e.login(0)
	if r := p.els(fc.FabricPort, []byte{byte(fc.RTV), 0, 0, 0}); fc.Command(r) != fc.LSACC || r[6] != 10000>>8 || r[10] != 2000>>8 {
		t.Errorf("RTV: %x", r)
	}
	p.in(p.port, p.frame(fc.Header{RCtl: fc.Abort, D: fc.FabricPort, FCtl: fc.Request, OXID: 9, RXID: 1}, nil))
	s = b.one()
	if h, f, r := s.fc(t); h.Tags[0].VID() != 100 || h.Tags[0].PCP() != 3 || f.RCtl != fc.AbortAccept || r[5] != 9 {
		t.Errorf("%+v %+v %x", h, f, r)
	}
	p.vlan = 101
	if _, why := p.in(p.port, p.frame(fc.Header{D: fc.FabricPort}, nil)); why != drop.WrongVLAN {
		t.Errorf("in another VLAN: %v", why)
	}
}

// Logins that cannot be are refused with their reason, and change nothing.
func TestRefused(t *testing.T) {
	b := newBed(t, swconf.FCF{NPIV: 2, Logins: 5})
	e, other := b.enode(0, 1), b.enode(1, 2)
	first := e.login(0)
	for _, c := range []struct {
		what   string
		from   *enode
		kind   fip.Kind
		change func(*fip.Message, *fc.Login)
		want   rejection
	}{
		{"SPMA only", other, fip.FLOGI, func(m *fip.Message, _ *fc.Login) { m.Flags = fip.SPMA }, rejection{fc.FIPError, fc.BadAddressMode}},
		{"a MAC with another FC-MAP", other, fip.FLOGI, func(m *fip.Message, _ *fc.Login) { m.MAC = ether.Addr{0x0e, 0xfc, 9, 1, 1, 1} },
			rejection{fc.FIPError, fc.BadProposedMAC}},
		{"no port name", other, fip.FLOGI, func(_ *fip.Message, l *fc.Login) { l.Port = 0 }, rejection{fc.LogicalError, fc.BadPortName}},
		{"the switch's name", other, fip.FLOGI, func(_ *fip.Message, l *fc.Login) { l.Port = b.f.name }, rejection{fc.LogicalError, fc.BadPortName}},
		{"another's port name", other, fip.FLOGI, func(_ *fip.Message, l *fc.Login) { l.Port = first.name }, rejection{fc.LogicalError, fc.BadPortName}},
		{"its own port name again", e, fip.FDISC, func(_ *fip.Message, l *fc.Login) { l.Port = first.name }, rejection{fc.LogicalError, fc.BadPortName}},
		{"no node name", other, fip.FLOGI, func(_ *fip.Message, l *fc.Login) { l.Node = 0 }, rejection{fc.LogicalError, fc.BadNodeName}},
		{"no class 3", other, fip.FLOGI, func(_ *fip.Message, l *fc.Login) { l.Class3 = false }, rejection{fc.LogicalError, fc.BadServiceParams}},
		{"tiny frames", other, fip.FLOGI, func(_ *fip.Message, l *fc.Login) { l.MaxPayload = 128 }, rejection{fc.LogicalError, fc.BadCommonParams}},
		{"FDISC without FLOGI", other, fip.FDISC, nil, rejection{fc.CannotPerform, fc.PortLoginRequired}},
	} {
		l := c.from.loginOf(fc.FLOGI, 0)
		if c.kind == fip.FDISC {
			l.Command = fc.FDISC
		}
		// The frame holds the login, so both are changed before it is made.
		var m fip.Message
		if c.change != nil {
			c.change(&m, &l)
		}
		_, _, reply := c.from.request(c.kind, 0, l.AppendTo(nil), func(q *fip.Message) {
			if c.change != nil {
				c.change(q, &fc.Login{})
			}
		})
		reason, why, err := fc.ParseReject(reply)
		if got := (rejection{reason, why}); err != nil || fc.Command(reply) != fc.LSRJT || got != c.want {
			t.Errorf("%s: %+v, %v", c.what, got, err)
		}
	}
	refused := func(from *enode, n int) rejection {
		kind, l := fip.FLOGI, from.loginOf(fc.FLOGI, n)
		if n > 0 {
			kind, l.Command = fip.FDISC, fc.FDISC
		}
		_, _, reply := from.request(kind, 0, l.AppendTo(nil), nil)
		reason, why, _ := fc.ParseReject(reply)
		return rejection{reason, why}
	}
	full := rejection{fc.CannotPerform, fc.NoResources}
	e.login(1)
	e.login(2)
	if r := refused(e, 3); r != full {
		t.Errorf("a third virtual port: %+v", r)
	}
	other.login(0)
	other.login(1)
	if r := refused(b.enode(3, 3), 0); r != full {
		t.Errorf("a sixth login: %+v", r)
	}
	b.run(0)
	adv := b.take()[0]
	if _, m := adv.fip(t); m.Flags&fip.Available != 0 {
		t.Error("a full FCF says that it is available")
	}
	e.login(0) // what it had before goes
	for _, l := range []fc.Logout{{Port: first.id, Name: first.name + 1}, {Port: first.id + 1, Name: first.name}} {
		if _, _, reply := e.request(fip.LOGO, first.id, l.AppendTo(nil), nil); fc.Command(reply) != fc.LSRJT {
			t.Errorf("LOGO %+v: %x", l, reply)
		}
	}
	if _, _, reply := other.request(fip.LOGO, first.id, fc.Logout{Port: first.id, Name: first.name}.AppendTo(nil), nil); fc.Command(reply) != fc.LSRJT {
		t.Errorf("LOGO of another: %x", reply)
	}
	if c := b.f.Counts(); c.Refused != 15 || c.FLOGIs != 3 || c.FDISCs != 3 || len(b.f.Logins()) != 3 {
		t.Errorf("%+v, %d logins", c, len(b.f.Logins()))
	}
}

// Keep-alives hold a login. Without, it ends after 2.5 periods to the nanosecond, and the ENode
// is told.
func TestKeepAlive(t *testing.T) {
	b := newBed(t, swconf.FCF{})
	e := b.enode(1, 1)
	p, v := e.login(0), e.login(1)
	alive := func(of *peer) (frame.DropReason, error) {
		m, src := fip.Message{Op: fip.KeepAlive, MAC: e.mac}, e.mac
		m.Set(fip.MAC)
		if of != nil {
			m.Port, src = fip.Port{MAC: of.mac, ID: of.id, Name: of.name}, of.mac
			m.Set(fip.VNPort)
		}
		_, why := e.say(src, b.f.env.MAC, &m)
		return why, nil
	}
	cleared := func(at frame.Time, ports ...fip.Port) {
		t.Helper()
		s := b.one()
		h, m := s.fip(t)
		if got := slices.Collect(m.Ports()); s.at != at || s.port != 1 || h.Dst != e.mac || m.Op != fip.ClearLinks || m.MAC != b.f.env.MAC ||
			m.Name != b.f.name || !slices.Equal(got, ports) {
			t.Errorf("at %v: %+v %v", s.at, m, got)
		}
	}
	of := func(p *peer) fip.Port { return fip.Port{MAC: p.mac, ID: p.id, Name: p.name} }
	b.take()
	for range 27 { // 216 s
		b.run(8 * time.Second)
		if why, _ := alive(nil); why != frame.DropNone {
			t.Fatal(why)
		}
		if b.now == frame.Time(0).Add(88*time.Second) {
			if why, _ := alive(p); why != frame.DropNone {
				t.Fatal(why)
			}
		}
	}
	b.take()
	b.run(9*time.Second - 1) // 225 s less 1 ns
	if len(b.f.Logins()) != 2 {
		t.Fatalf("%+v", b.f.Logins())
	}
	b.run(1)
	cleared(frame.Time(0).Add(225*time.Second), of(v))
	b.run(11*time.Second - 1) // 20 s after the last keep-alive, less 1 ns
	if len(b.f.Logins()) != 1 {
		t.Fatalf("%+v", b.f.Logins())
	}
	b.take()
	b.run(1)
	cleared(frame.Time(0).Add(236*time.Second), of(p))
	if len(b.f.Logins()) != 0 || len(b.f.nodes) != 0 || b.f.Counts().Expired != 2 {
		t.Errorf("%+v, %+v", b.f.Logins(), b.f.Counts())
	}
	// Who does not know that its login is gone hears of it.
	if why, _ := alive(nil); why != DropNoPort {
		t.Error(why)
	}
	cleared(b.now)
	if why, _ := alive(p); why != DropNoPort {
		t.Error(why)
	}
	cleared(b.now, of(p))
	p = e.login(0)
	bad := *p
	bad.mac[1]++
	if why, _ := alive(&bad); why != drop.Source {
		t.Errorf("with another FC-MAP: %v", why)
	}
}

// A port that loses its link, and a switch that ends.
func TestLink(t *testing.T) {
	b := newBed(t, swconf.FCF{})
	one, two := b.enode(0, 1).login(0), b.enode(1, 2).login(0)
	two.els(fc.Controller, fc.AppendSCR(nil, fc.ScrFull))
	b.run(0)
	b.take()
	b.f.SetLink(0, false, b.now)
	b.run(0)
	s := b.one()
	if _, h, rscn := s.fc(t); fc.Command(rscn) != fc.RSCN || h.D != two.id || len(b.f.Logins()) != 1 {
		t.Errorf("%+v %x, %+v", h, rscn, b.f.Logins())
	} else if pages, err := fc.ParseStateChange(rscn); err != nil || len(pages) != 1 || pages[0].ID != one.id {
		t.Errorf("%+v, %v", pages, err)
	}
	b.run(8 * time.Second)
	if n := len(b.take()); n != ports-1 {
		t.Errorf("%d advertisements with a port down", n)
	}
	b.f.SetLink(0, true, b.now)
	if g := b.take(); len(g) != 1 || g[0].port != 0 {
		t.Errorf("%d advertisements as it comes up", len(g))
	}
	b.f.Leave(b.now)
	s = b.one()
	if h, m := s.fip(t); h.Dst != two.enode.mac || m.Op != fip.ClearLinks || m.Port.ID != two.id || len(b.f.Logins()) != 0 {
		t.Errorf("%+v", m)
	}
}

// Frames go to the N_Port of their D_ID, from the FCF's MAC to its own; all others are dropped
// with their reason.
func TestForward(t *testing.T) {
	b := newBed(t, swconf.FCF{Zones: []swconf.Zone{{0x2000_0200_0000_0001, 0x2000_0200_0000_0002}, {0x2000_0200_0000_0002, 0x2000_0200_0000_0003}}})
	one, two, three := b.enode(0, 1).login(0), b.enode(1, 2).login(0), b.enode(2, 3).login(0)
	b.take()
	h := fc.Header{RCtl: fc.UnsolicitedCmd, D: two.id, Type: fc.TypeFCP, FCtl: fc.Request, OXID: 3, RXID: fc.NoID}
	good := func() []byte { return one.frame(h, []byte("command")) }
	if out, why := b.in(0, good()); out != 1 || why != frame.DropNone {
		t.Fatal(out, why)
	}
	s := b.one()
	eth, got, payload := s.fc(t)
	h.S, h.FCtl = one.id, h.FCtl|1
	if eth.Dst != two.mac || eth.Src != b.f.env.MAC || got != h || string(payload) != "command" {
		t.Errorf("%+v %+v %q", eth, got, payload)
	}
	for _, c := range []struct {
		what   string
		port   int
		f      []byte
		change func(f []byte)
		want   frame.DropReason
	}{
		{"wrong CRC", 0, good(), func(f []byte) { f[40] ^= 1 }, drop.FCCRC},
		{"wrong end of frame", 0, good(), func(f []byte) { f[len(f)-4] = byte(fcoe.EOFni) }, drop.Malformed},
		{"cut", 0, good()[:40], nil, drop.Malformed},
		{"another FC-MAP", 0, good(), func(f []byte) { f[8]++ }, drop.FCSource},
		{"another N_Port's MAC", 0, good(), func(f []byte) { copy(f[6:], three.mac[:]) }, drop.FCSource},
		{"by another port", 1, good(), nil, drop.FCSource},
		{"the FCF's own", 0, good(), func(f []byte) { copy(f[6:], b.f.env.MAC[:]) }, drop.Source},
		{"an S_ID that nobody has", 0, (&peer{one.enode, 0x010909, one.mac, 0}).frame(h, nil), nil, drop.FCLogin},
		{"nobody", 0, one.frame(fc.Header{D: 0x010909}, nil), nil, DropNoPort},
		{"everybody", 0, one.frame(fc.Header{D: fc.Broadcast, FCtl: fc.Request}, nil), nil, drop.Unused},
		{"another zone", 0, one.frame(fc.Header{D: three.id}, nil), nil, DropZone},
		{"a reply to nothing", 0, one.frame(fc.Header{RCtl: fc.ELSReply, D: fc.Controller, Type: fc.TypeELS, FCtl: fc.Reply}, []byte{2, 0, 0, 0}), nil, drop.Unused},
		{"half a request", 0, one.frame(fc.Header{RCtl: fc.UnsolicitedCtl, D: fc.Directory, Type: fc.TypeCT, FCtl: fc.First}, make([]byte, 20)), nil, drop.Malformed},
		{"no request", 0, one.frame(fc.Header{RCtl: fc.UnsolicitedCtl, D: fc.Directory, Type: fc.TypeCT, FCtl: fc.Request}, make([]byte, 8)), nil, drop.Malformed},
	} {
		if c.change != nil {
			c.change(c.f)
		}
		if out, why := b.f.Receive(c.port, c.f, b.now); out != Taken || why != c.want || len(b.got) != 0 {
			t.Errorf("%s: %d, %v", c.what, out, why)
		}
	}
	if out, why := b.in(1, two.frame(fc.Header{D: three.id}, nil)); out != 2 || why != frame.DropNone {
		t.Errorf("in the second zone: %d, %v", out, why)
	}
	for _, other := range []ether.Addr{two.mac, fip.AllVN2VN} { // not the fabric's
		f := good()
		copy(f, other[:])
		if out, why := b.f.Receive(0, f, b.now); out != Bridge || why != frame.DropNone {
			t.Errorf("to %v: %d, %v", other, out, why)
		}
	}
	if c := b.f.Counts(); c.Frames != 2 || c.Octets == 0 {
		t.Errorf("%+v", c)
	}
}

// 64 virtual ports of one ENode, as many as NPIV allows, are found and reached.
func TestNPIV(t *testing.T) {
	b := newBed(t, swconf.FCF{})
	target := b.enode(3, 9).login(0)
	target.settle(fc.TargetFeature)
	e := b.enode(0, 1)
	all := []*peer{e.login(0)}
	for n := 1; n <= 64; n++ {
		all = append(all, e.login(n))
	}
	for _, p := range all {
		p.settle(fc.InitiatorFeature)
		if out, why := p.in(p.port, p.frame(fc.Header{RCtl: fc.ELSRequest, D: target.id, Type: fc.TypeELS, FCtl: fc.Request}, []byte{byte(fc.PLOGI), 0, 0, 0})); out != 3 || why != frame.DropNone {
			t.Fatalf("%v: %d, %v", p.id, out, why)
		}
	}
	body, bad := target.query(fc.GPNFT, fc.AppendType(nil, fc.TypeFCP))
	found, err := fc.ParseEntries(body, true)
	if bad != nil || err != nil || len(found) != 66 {
		t.Fatalf("%d: %v, %v", len(found), bad, err)
	}
	for i, p := range all {
		if found[i] != (fc.Entry{ID: p.id, Name: p.name}) {
			t.Errorf("%d: %+v", i, found[i])
		}
	}
}

// The stock dissector finds nothing malformed in a day of a fabric, and each CRC good.
func TestDissector(t *testing.T) {
	if err := tshark.Available(); err != nil {
		t.Skip(err)
	}
	b := newBed(t, swconf.FCF{VLAN: 100})
	one, two := b.enode(0, 1), b.enode(1, 2)
	for _, e := range []*enode{one, two} {
		m := fip.Message{Op: fip.VLANRequest, Flags: fip.FPMA, MAC: e.mac}
		m.Set(fip.MAC)
		e.say(e.mac, fip.AllFCFs, &m)
		e.vlan = 100
		m = fip.Message{Op: fip.Solicitation, Flags: fip.FPMA, MAC: e.mac, Name: e.wwnn(), MaxSize: 2158}
		m.Set(fip.MAC, fip.Name, fip.MaxSize)
		e.say(e.mac, fip.AllFCFs, &m)
	}
	b.run(0)
	p, v, q := one.login(0), one.login(1), two.login(0)
	q.els(fc.Controller, fc.AppendSCR(nil, fc.ScrFull))
	for _, n := range []*peer{p, v, q} {
		n.settle(fc.TargetFeature)
		for cmd, parameters := range queries(n) {
			n.query(cmd, parameters)
		}
	}
	b.in(p.port, p.frame(fc.Header{RCtl: fc.ELSRequest, D: q.id, Type: fc.TypeELS, FCtl: fc.Request}, fc.Logout{Port: p.id, Name: p.name}.AppendTo(nil)))
	one.request(fip.LOGO, v.id, fc.Logout{Port: v.id, Name: v.name}.AppendTo(nil), nil)
	one.request(fip.LOGO, v.id, fc.Logout{Port: v.id, Name: v.name}.AppendTo(nil), nil) // refused
	b.run(4 * time.Minute)
	b.f.Leave(b.now)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	rows, err := tshark.Fields(ctx, b.save(), tshark.Options{}, "_ws.col.Protocol", "_ws.malformed", "fcoe.crc.status", "_ws.col.Info")
	if err != nil || len(rows) < 200 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	seen := map[string]int{}
	for _, r := range rows {
		if r[1] != "" || r[2] != "" && r[2] != "1" || strings.Contains(r[3], "alformed") {
			t.Errorf("%q", r)
		}
		seen[r[0]]++
	}
	if seen["FIP"] < 100 || seen["FC ELS"] < 8 || seen["dNS"] < 100 {
		t.Errorf("%v", seen)
	}
}

// FuzzReceive: whatever comes in, nothing breaks, logins stay within their bounds, and what the
// FCF says is well formed.
func FuzzReceive(f *testing.F) {
	seed := newBed(f, swconf.FCF{})
	e := seed.enode(0, 1)
	p := e.login(0)
	l := e.loginOf(fc.FDISC, 1)
	for _, m := range []fip.Message{{Op: fip.Solicitation}, {Op: fip.VLANRequest}, {Op: fip.KeepAlive, Port: fip.Port{MAC: p.mac, ID: p.id, Name: p.name}},
		{Op: fip.Request, Flags: fip.FPMA, Login: fip.FDISC, Frame: fc.Header{RCtl: fc.ELSRequest, D: fc.FabricPort, Type: fc.TypeELS}.AppendFrame(nil, l.AppendTo(nil))},
		{Op: fip.Request, Login: fip.LOGO, Frame: fc.Header{RCtl: fc.ELSRequest, D: fc.FabricPort, S: p.id, Type: fc.TypeELS}.AppendFrame(nil, fc.Logout{Port: p.id, Name: p.name}.AppendTo(nil))}} {
		m.MAC = e.mac
		m.Set(fip.MAC, fip.Name, fip.MaxSize)
		if m.Op == fip.KeepAlive {
			m.Set(fip.VNPort)
		}
		f.Add(m.AppendTo(e.header(e.mac, seed.f.env.MAC, fip.EtherType).AppendTo(nil)), uint16(3))
	}
	f.Add(p.frame(fc.Header{RCtl: fc.ELSRequest, D: fc.Controller, Type: fc.TypeELS, FCtl: fc.Request}, fc.AppendSCR(nil, 3)), uint16(1))
	for cmd, parameters := range queries(p) {
		f.Add(p.frame(fc.Header{RCtl: fc.UnsolicitedCtl, D: fc.Directory, Type: fc.TypeCT, FCtl: fc.Request}, fc.AppendQuery(nil, cmd, parameters)), uint16(1))
	}
	f.Fuzz(func(t *testing.T, in []byte, seconds uint16) {
		b := newBed(t, swconf.FCF{Logins: 4, NPIV: 1, Period: time.Second})
		p := b.enode(0, 1).login(0)
		p.settle(fc.TargetFeature)
		b.enode(1, 2).login(0)
		b.take()
		if len(in) > 40 && in[12] == byte(fcoe.EtherType>>8) && in[13] == byte(fcoe.EtherType&0xff) { // a CRC that is good
			if h, payload, err := fc.Parse(in[28 : len(in)-8]); err == nil {
				in = fcoe.Append(slices.Clone(in[:14]), h, payload[:min(len(payload), fc.MaxPayload)])
			}
		}
		for port := range ports {
			out, why := b.f.Receive(port, slices.Clone(in), b.now)
			if out < Taken || out >= ports || out >= 0 && why != frame.DropNone {
				t.Fatal(out, why)
			}
		}
		b.run(time.Duration(seconds%300) * time.Second)
		if n := len(b.f.Logins()); n > 4 {
			t.Fatalf("%d logins", n)
		}
		for _, s := range b.take() {
			h, _, err := ether.Parse(s.b)
			if err != nil {
				t.Fatal(err)
			}
			if h.Type == fip.EtherType {
				s.fip(t)
			} else {
				s.fc(t)
			}
		}
	})
}

// queries are requests of all kinds to the name server, with N_Port p in them.
func queries(p *peer) map[fc.CTCommand][]byte {
	id, name, node := fc.AppendID(nil, p.id), fc.AppendName(nil, p.name), fc.AppendName(nil, p.wwnn())
	typ := fc.AppendType(nil, fc.TypeFCP)
	return map[fc.CTCommand][]byte{fc.GANXT: id, fc.GPNID: id, fc.GNNID: id, fc.GFTID: id, fc.GFFID: id, fc.GSPNID: id, fc.GIDPN: name,
		fc.GIDNN: node, fc.GSNNNN: node, fc.GIDFT: typ, fc.GPNFT: typ, fc.GNNFT: typ, fc.RPNID: slices.Concat(id, name),
		fc.RNNID: slices.Concat(id, node), fc.RSPNID: fc.AppendSymbol(id, "a port"), fc.RSNNNN: fc.AppendSymbol(node, "a node"), 0x0299: id, 0x0199: id}
}

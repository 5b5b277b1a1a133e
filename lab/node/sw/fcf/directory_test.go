package fcf

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"tapir/lab/conf/swconf"
	"tapir/wire/fc"
	"tapir/wire/frame"
)

// The name server tells what is registered, to those who may see it.
func TestNameServer(t *testing.T) {
	b := newBed(t, swconf.FCF{Zones: []swconf.Zone{{0x2000_0200_0000_0001, 0x2000_0200_0000_0002}}})
	one, two, alone := b.enode(0, 1).login(0), b.enode(1, 2).login(0), b.enode(2, 3).login(0)
	if _, bad := one.query(fc.GPNID, fc.AppendID(nil, two.id)); bad == nil || *bad != *errLogin {
		t.Errorf("without PLOGI: %+v", bad)
	}
	id, name, node := fc.AppendID(nil, two.id), fc.AppendName(nil, two.name), fc.AppendName(nil, two.wwnn())
	typ := fc.AppendType(nil, fc.TypeFCP)
	one.settle(fc.InitiatorFeature)
	if body, bad := one.query(fc.GIDFT, typ); bad != nil || !bytes.Equal(body, []byte{0x80, 1, 0, 1}) {
		t.Errorf("alone: %x, %+v", body, bad)
	}
	two.settle(fc.TargetFeature)
	alone.settle(fc.TargetFeature)
	for cmd, q := range map[fc.CTCommand][]byte{fc.RPNID: slices.Concat(id, name), fc.RNNID: slices.Concat(id, node),
		fc.RSPNID: fc.AppendSymbol(slices.Clone(id), "two's port"), fc.RSNNNN: fc.AppendSymbol(slices.Clone(node), "two")} {
		if _, bad := two.query(cmd, q); bad != nil {
			t.Errorf("%#x: %+v", cmd, *bad)
		}
	}
	var types fc.Types
	types.Add(fc.TypeFCP)
	features := make([]byte, fc.FeaturesLen)
	features[7] = fc.TargetFeature
	both := []fc.Entry{{ID: one.id, Name: one.name}, {ID: two.id, Name: two.name}}
	nodes := []fc.Entry{{ID: one.id, Name: one.wwnn()}, {ID: two.id, Name: two.wwnn()}}
	for _, c := range []struct {
		cmd   fc.CTCommand
		q     []byte
		want  []byte
		hides *rejection // what the N_Port outside of the zone gets
	}{
		{fc.GPNID, id, name, errPort},
		{fc.GNNID, id, node, errPort},
		{fc.GFTID, id, types[:], errPort},
		{fc.GFFID, id, features, errPort},
		{fc.GSPNID, id, fc.AppendSymbol(nil, "two's port"), errPort},
		{fc.GIDPN, name, id, errName},
		{fc.GIDNN, node, fc.AppendEntries(nil, []fc.Entry{{ID: two.id}}, false), errNode},
		{fc.GSNNNN, node, fc.AppendSymbol(nil, "two"), errNode},
		{fc.GIDFT, typ, fc.AppendEntries(nil, both, false), nil},
		{fc.GPNFT, typ, fc.AppendEntries(nil, both, true), nil},
		{fc.GNNFT, typ, fc.AppendEntries(nil, nodes, true), nil},
		{fc.GPNFT, []byte{0, 1, 1, byte(fc.TypeFCP)}, fc.AppendEntries(nil, both[1:], true), errTypes},
	} {
		if body, bad := one.query(c.cmd, c.q); bad != nil || !bytes.Equal(body, c.want) {
			t.Errorf("%#x: %x, %+v; want %x", c.cmd, body, bad, c.want)
		}
		body, bad := alone.query(c.cmd, c.q)
		if c.hides != nil && (bad == nil || *bad != *c.hides) || bytes.Contains(body, id[1:]) {
			t.Errorf("%#x from another zone: %x, %+v", c.cmd, body, bad)
		}
	}
	// GA_NXT walks round.
	for _, c := range []struct{ after, want fc.ID }{{0, one.id}, {one.id, two.id}, {two.id, one.id}, {0xffffff, one.id}} {
		if body, bad := one.query(fc.GANXT, fc.AppendID(nil, c.after)); bad != nil || len(body) != 620 || !bytes.Equal(body[:4], fc.AppendID(nil, 1<<24|c.want)) {
			t.Errorf("after %v: %x, %+v", c.after, body, bad)
		}
	}
	for _, c := range []struct {
		what string
		cmd  fc.CTCommand
		q    []byte
		want *rejection
	}{
		{"no command", 0x0299, id, errCommand},
		{"no command", 0x0199, id, errCommand},
		{"short", fc.GPNID, nil, errSize},
		{"short", fc.GIDPN, id, errSize},
		{"short", fc.GPNFT, nil, errSize},
		{"short", fc.RFTID, id, errSize},
		{"short", fc.RFFID, id, errSize},
		{"short", fc.RPNID, id, errSize},
		{"short", fc.RSPNID, slices.Concat(id, []byte{9}), errSize},
		{"short", fc.RSNNNN, node, errSize},
		{"short", fc.DAID, nil, errSize},
		{"another's", fc.RFTID, slices.Concat(id, types[:]), errOther},
		{"another's", fc.RSNNNN, fc.AppendSymbol(slices.Clone(node), "x"), errOther},
		{"another name", fc.RPNID, slices.Concat(fc.AppendID(nil, one.id), name), errFixed},
		{"no such type", fc.GPNFT, fc.AppendType(nil, 5), errTypes},
	} {
		if _, bad := one.query(c.cmd, c.q); bad == nil || *bad != *c.want {
			t.Errorf("%s %#x: %+v", c.what, c.cmd, bad)
		}
	}
	if _, bad := two.query(fc.DAID, id); bad != nil {
		t.Errorf("DA_ID: %+v", bad)
	}
	if body, _ := one.query(fc.GIDFT, typ); len(body) != 4 {
		t.Errorf("after DA_ID: %x", body)
	}
	for _, c := range []fc.CT{{Service: 0xfa, Subtype: fc.NameServer}, {Service: fc.DirectoryService, Subtype: 1}} {
		c.Command = fc.GPNID
		if r, _, err := fc.ParseCT(one.ask(fc.Directory, fc.UnsolicitedCtl, fc.TypeCT, append(c.AppendTo(nil), id...))); err != nil || r.Command != fc.CTRefus || r.Reason != fc.NotSupported {
			t.Errorf("%+v: %+v, %v", c, r, err)
		}
	}
}

// A reply that is longer than a frame takes several, and one that is longer than the asker
// wants is cut and says by how much.
func TestLongReply(t *testing.T) {
	b := newBed(t, swconf.FCF{NPIV: 254})
	e := b.enode(0, 1)
	p := e.login(0)
	p.settle(fc.InitiatorFeature)
	for n := 1; n <= 150; n++ {
		e.login(n).settle(fc.InitiatorFeature)
	}
	body, bad := p.query(fc.GPNFT, fc.AppendType(nil, fc.TypeFCP))
	if all, err := fc.ParseEntries(body, true); bad != nil || err != nil || len(all) != 151 {
		t.Fatalf("%d entries: %+v, %v", len(all), bad, err)
	}
	c := fc.CT{Service: fc.DirectoryService, Subtype: fc.NameServer, Command: fc.GPNFT, MaxSize: 100}
	r, body, err := fc.ParseCT(p.ask(fc.Directory, fc.UnsolicitedCtl, fc.TypeCT, append(c.AppendTo(nil), fc.AppendType(nil, fc.TypeFCP)...)))
	if err != nil || len(body) != 400 || r.MaxSize != 151*4-100 {
		t.Errorf("%+v, %d octets, %v", r, len(body), err)
	}
}

// Link services to well-known addresses.
func TestServices(t *testing.T) {
	b := newBed(t, swconf.FCF{})
	p := b.enode(0, 1).login(0)
	small := p.loginOf(fc.PLOGI, 0)
	small.Class3Size = 100
	good := p.loginOf(fc.PLOGI, 0)
	for _, c := range []struct {
		what string
		to   fc.ID
		b    []byte
		want fc.ELS
	}{
		{"PLOGI", fc.Controller, good.AppendTo(nil), fc.LSACC},
		{"PLOGI", fc.Directory, good.AppendTo(nil), fc.LSACC},
		{"PLOGI with tiny frames", fc.Directory, small.AppendTo(nil), fc.LSRJT},
		{"PLOGI, cut", fc.Directory, []byte{byte(fc.PLOGI), 0, 0, 0}, fc.LSRJT},
		{"PLOGI to the management server", 0xfffffa, good.AppendTo(nil), fc.LSRJT},
		{"LOGO", fc.Directory, fc.Logout{Port: p.id, Name: p.name}.AppendTo(nil), fc.LSACC},
		{"SCR", fc.Controller, fc.AppendSCR(nil, fc.ScrFull), fc.LSACC},
		{"SCR of nothing", fc.Controller, fc.AppendSCR(nil, 0), fc.LSRJT},
		{"SCR, cut", fc.Controller, []byte{byte(fc.SCR), 0, 0, 0}, fc.LSRJT},
		{"SCR to the name server", fc.Directory, fc.AppendSCR(nil, fc.ScrFull), fc.LSRJT},
		{"PRLI", fc.Directory, []byte{byte(fc.PRLI), 0, 0, 0}, fc.LSRJT},
	} {
		if r := p.els(c.to, c.b); fc.Command(r) != c.want {
			t.Errorf("%s: %x", c.what, r)
		}
	}
	if _, bad := p.query(fc.GANXT, fc.AppendID(nil, 0)); bad == nil || *bad != *errLogin {
		t.Errorf("after LOGO: %+v", bad)
	}
}

// RSCNs tell registered N_Ports who has come, changed and gone; they are repeated until they
// are answered, three times at most.
func TestRSCN(t *testing.T) {
	b := newBed(t, swconf.FCF{Period: 90 * time.Second})
	watcher := b.enode(0, 1).login(0)
	watcher.els(fc.Controller, fc.AppendSCR(nil, fc.ScrFull))
	b.run(0)
	b.take()
	rscns := func() (list []sent) {
		for _, s := range b.take() {
			if s.b[12] == 0x89 && s.b[13] == 0x06 {
				list = append(list, s)
			}
		}
		return list
	}
	told := func(want ...fc.ID) (oxid uint16) {
		t.Helper()
		all := rscns()
		if len(all) != 1 {
			t.Fatalf("%d RSCNs", len(all))
		}
		_, h, payload := all[0].fc(t)
		pages, err := fc.ParseStateChange(payload)
		var got []fc.ID
		for _, p := range pages {
			got = append(got, p.ID)
		}
		if err != nil || !slices.Equal(got, want) || h.S != fc.Controller || h.D != watcher.id {
			t.Fatalf("%v, %v; want %v", got, err, want)
		}
		return h.OXID
	}
	answer := func(oxid uint16, cmd fc.ELS) frame.DropReason {
		_, why := watcher.in(0, watcher.frame(fc.Header{RCtl: fc.ELSReply, D: fc.Controller, Type: fc.TypeELS, FCtl: fc.Reply, OXID: oxid}, []byte{byte(cmd), 0, 0, 0}))
		return why
	}
	e := b.enode(1, 2)
	p := e.login(0)
	b.run(0)
	if n := len(rscns()); n != 0 {
		t.Errorf("%d RSCNs about who has registered nothing", n)
	}
	p.settle(fc.TargetFeature)
	b.take()
	b.run(0)
	oxid := told(p.id)
	if why := answer(oxid, fc.LSACC); why != frame.DropNone {
		t.Error(why)
	}
	if why := answer(oxid, fc.LSACC); why == frame.DropNone {
		t.Error("answered twice")
	}
	p.settle(fc.TargetFeature) // nothing new
	b.take()
	b.run(0)
	if n := len(rscns()); n != 0 {
		t.Errorf("%d RSCNs about nothing", n)
	}
	// Nobody answers: the same is told after 20 s and 40 s, and then what has changed since.
	other := b.enode(1, 3).login(0)
	logout := func(p *peer) {
		p.request(5+4, p.id, fc.Logout{Port: p.id, Name: p.name}.AppendTo(nil), nil)
	}
	logout(p)
	b.take()
	b.run(0)
	told(p.id)
	other.settle(fc.TargetFeature)
	b.take()
	b.run(20*time.Second - 1)
	if n := len(rscns()); n != 0 {
		t.Errorf("%d RSCNs too early", n)
	}
	b.run(1)
	told(p.id)
	b.run(20 * time.Second)
	told(p.id)
	b.run(20 * time.Second)
	oxid = told(other.id)
	if c := b.f.Counts(); c.RSCNs != 5 || c.RSCNsLost != 1 {
		t.Errorf("%+v", c)
	}
	answer(oxid, fc.LSRJT)
	// Too many to name are the whole fabric.
	for n := range 70 {
		e := b.enode(2, byte(10+n))
		q := e.login(0)
		q.settle(fc.TargetFeature)
	}
	b.take()
	b.run(0)
	all := rscns()
	if len(all) != 1 {
		t.Fatalf("%d RSCNs", len(all))
	}
	_, _, payload := all[0].fc(t)
	if pages, err := fc.ParseStateChange(payload); err != nil || pages[0].Scope != fc.OfFabric {
		t.Errorf("%+v, %v", pages, err)
	}
	watcher.els(fc.Controller, fc.AppendSCR(nil, fc.ScrClear))
	logout(other)
	b.take()
	b.run(time.Minute)
	if n := len(rscns()); n != 0 {
		t.Errorf("%d RSCNs without registration", n)
	}
}

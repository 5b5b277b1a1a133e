package verbs

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"tapir/wire/frame"
)

// ported is a device whose events and openings of the port are recorded.
type ported struct {
	*Device
	ctx    *Context
	events []EventType
	opened []bool
}

func newPorted(t *testing.T) *ported {
	t.Helper()
	p := &ported{Device: NewDevice(Limits{}, rand.NewPCG(0, 1))}
	p.SetIdentity(Identity{GUID: GUIDFromMAC(testMAC)})
	p.OnAsync(func(ev AsyncEvent, _ frame.Time) {
		if ev.Port != 1 {
			t.Errorf("%v of port %d", ev.Type, ev.Port)
		}
		p.events = append(p.events, ev.Type)
	})
	p.OnPort(func(open bool) { p.opened = append(p.opened, open) })
	var err error
	p.ctx, err = p.Open(nil)
	ok(t, err)
	return p
}

// expect compares the events since the last call.
func (p *ported) expect(t *testing.T, what string, want ...EventType) {
	t.Helper()
	for p.Dispatch(0) {
	}
	if !slices.Equal(p.events, want) {
		t.Errorf("%s: events %v, want %v", what, p.events, want)
	}
	p.events = nil
}

func (p *ported) state(t *testing.T) PortState {
	t.Helper()
	a, err := p.ctx.QueryPort(1)
	ok(t, err)
	return a.State
}

func TestCarrierMovesThePort(t *testing.T) {
	p := newPorted(t)
	p.SetCarrier(true)
	p.expect(t, "up already")
	p.SetCarrier(false)
	p.expect(t, "down", EventPortError)
	if a, _ := p.ctx.QueryPort(1); a.State != PortDown || a.Phys != PhysPolling {
		t.Errorf("%+v", a)
	}
	p.SetCarrier(false)
	p.expect(t, "down again")
	p.SetCarrier(true)
	p.expect(t, "up", EventPortActive)
	if !slices.Equal(p.opened, []bool{false, true}) {
		t.Errorf("the port was opened %v", p.opened)
	}
}

// Keys match within a partition unless both are limited members; of several entries a full
// member is taken.
func TestPartitionKeysMatch(t *testing.T) {
	p := newPorted(t)
	ok(t, p.ModifyPort(PortMod{PKeys: []uint16{0x0001, 0x8001, 0, 0x7fff}}))
	for key, want := range map[uint16]int{0x8001: 1, 0x0001: 1, 0xffff: 3, 0x7fff: -1, 0x8002: -1, 0x8000: -1, 0: -1} {
		i, found := p.MatchPKey(key)
		if found != (want >= 0) || found && int(i) != want {
			t.Errorf("%#04x: entry %d, %v, want %d", key, i, found, want)
		}
	}
}

// A manager that takes the port down must arm and activate it.
func TestManagerMovesThePort(t *testing.T) {
	p := newPorted(t)
	set := func(s PortState) error { return p.ctx.ModifyPort(1, PortMod{State: &s}) }
	for _, s := range []PortState{0, PortInit, PortArmed, 5, 9} {
		if err := set(s); !errors.Is(err, ErrPortState) {
			t.Errorf("ACTIVE to %v: %v", s, err)
		}
	}
	ok(t, set(PortDown))
	p.expect(t, "down", EventPortError)
	if s := p.state(t); s != PortInit {
		t.Errorf("after Down with a carrier: %v", s)
	}
	if err := set(PortActive); !errors.Is(err, ErrPortState) {
		t.Errorf("INIT to ACTIVE: %v", err)
	}
	ok(t, set(PortArmed), set(PortActive))
	p.expect(t, "armed and activated", EventPortActive)
	p.SetCarrier(false)
	p.SetCarrier(true)
	p.expect(t, "flap", EventPortError)
	if s := p.state(t); s != PortInit {
		t.Errorf("a managed port after a flap: %v", s)
	}
}

func TestPortDisabled(t *testing.T) {
	p := newPorted(t)
	off, on := true, false
	ok(t, p.ctx.ModifyPort(1, PortMod{Disabled: &off}))
	p.expect(t, "disabled", EventPortError)
	p.SetCarrier(true)
	p.expect(t, "a carrier does not count")
	if a, _ := p.ctx.QueryPort(1); a.Phys != PhysDisabled || a.State != PortDown {
		t.Errorf("%+v", a)
	}
	ok(t, p.ctx.ModifyPort(1, PortMod{Disabled: &on}))
	p.expect(t, "enabled", EventPortActive)
}

func TestPortIDsAndTables(t *testing.T) {
	p := newPorted(t)
	lid, lmc, sm, prefix := uint16(7), uint8(1), uint16(3), uint64(0xfec0)<<48
	for _, c := range []struct {
		what string
		mod  PortMod
		want []EventType
	}{
		{"nothing", PortMod{}, nil},
		{"LID", PortMod{LID: &lid}, []EventType{EventLIDChange}},
		{"LID as it is", PortMod{LID: &lid}, nil},
		{"LMC", PortMod{LMC: &lmc}, []EventType{EventLIDChange}},
		{"SM", PortMod{SMLID: &sm}, []EventType{EventSMChange}},
		{"reregister", PortMod{Reregister: true}, []EventType{EventClientReregister}},
		{"PKeys", PortMod{PKeys: []uint16{0x8001}, PKeyFirst: 1}, []EventType{EventPKeyChange}},
		{"PKeys as they are", PortMod{PKeys: []uint16{DefaultPKey, 0x8001}}, nil},
		{"alias", PortMod{Aliases: []GUID{{9}, {1}}}, []EventType{EventGIDChange}},
		{"alias as it is", PortMod{Aliases: []GUID{{1}}, AliasFirst: 1}, nil},
		{"alias of another subnet", PortMod{SubnetPrefix: &prefix, AliasFirst: 1}, []EventType{EventGIDChange}},
	} {
		ok(t, p.ctx.ModifyPort(1, c.mod))
		p.expect(t, c.what, c.want...)
	}
	a, _ := p.ctx.QueryPort(1)
	if a.LID != 7 || a.LMC != 1 || a.SMLID != 3 || a.SubnetPrefix != prefix || a.GIDs != 1 {
		t.Errorf("%+v", a)
	}
	if g := p.GUIDs(); g[0] != GUIDFromMAC(testMAC) || g[1] != (GUID{1}) {
		t.Errorf("GUIDs %v", g)
	}
	if g, err := p.ctx.GID(1, 0); err != nil || g.String() != "fec0:0000:0000:0000:0100:0000:0000:0000" {
		t.Errorf("%v, %v", g, err)
	}
	if k, err := p.ctx.PKey(1, 1); err != nil || k != 0x8001 || p.PKeys()[0] != DefaultPKey {
		t.Errorf("%#x, %v", k, err)
	}
}

func TestAddressesAreGIDs(t *testing.T) {
	p := newPorted(t)
	a, b := GIDFromMAC(testMAC), GID{15: 1}
	p.SetAddrs([]GID{a})
	p.expect(t, "first", EventGIDChange)
	p.SetAddrs([]GID{a, b})
	p.expect(t, "added", EventGIDChange)
	p.SetAddrs([]GID{a, b})
	p.expect(t, "unchanged")
	p.SetAddrs([]GID{a})
	p.expect(t, "removed", EventGIDChange)
	p.SetAddrs(make([]GID, 2*MaxGIDs))
	if n := len(p.GIDs()); n != MaxGIDs {
		t.Errorf("%d GIDs", n)
	}
}

func TestPortErrors(t *testing.T) {
	p := newPorted(t)
	_, e1 := p.ctx.QueryPort(0)
	_, e2 := p.ctx.GID(2, 0)
	_, e3 := p.ctx.GID(1, MaxGIDs)
	_, e4 := p.ctx.PKey(1, MaxPKeys)
	_, e5 := p.ctx.PKey(0, 0)
	for i, err := range []error{
		e1, e2, e3, e4, e5, p.ctx.ModifyPort(2, PortMod{}),
		p.ModifyPort(PortMod{PKeys: make([]uint16, 2), PKeyFirst: MaxPKeys - 1}),
		p.ModifyPort(PortMod{PKeyFirst: -1}),
		p.ModifyPort(PortMod{Aliases: make([]GUID, MaxGUIDs+1)}),
	} {
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%d: %v", i, err)
		}
	}
	if g, err := p.ctx.GID(1, MaxGIDs-1); err != nil || g != (GID{}) {
		t.Errorf("an empty entry: %v, %v", g, err)
	}
}

package dcbx

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"tapir/nic/dcb"
	"tapir/wire/ether"
	"tapir/wire/lldp"
)

var (
	low, high = ether.Addr{2, 0, 0, 0, 0, 1}, ether.Addr{2, 0, 0, 0, 0, 9}
	roce      = lldp.AppEntry{Priority: 3, Selector: lldp.SelUDP, Protocol: 4791}
	iscsi     = lldp.AppEntry{Priority: 4, Selector: lldp.SelTCP, Protocol: 3260}
)

// values are ETS 30/30/40 or 70/30, PFC for pfc, and applications.
func values(willing bool, three bool, pfc uint8, apps ...lldp.AppEntry) Values {
	f := Feature{Enabled: true, Willing: willing}
	v := Values{MaxTCs: 8, PFCCap: 8, Apps: apps, ETS: f, Pause: f, App: f}
	v.Config = dcb.Config{PrioTC: [8]uint8{3: 1}, Weight: [8]uint8{70, 30}, TSA: [8]dcb.TSA{dcb.ETS, dcb.ETS}, PFC: pfc}
	if three {
		v.PrioTC, v.Weight, v.TSA[2] = [8]uint8{3: 1, 4: 2}, [8]uint8{30, 30, 40}, dcb.ETS
	}
	return v
}

// pair lets two machines tell each other what they have until neither has news.
func pair(t *testing.T, a, b *Machine) {
	t.Helper()
	tell := func(from *Machine) Peer {
		p := lldp.PDU{Chassis: lldp.MACID(4, from.mac), Port: lldp.MACID(3, from.mac), TTL: 121}
		from.AddTo(&p)
		got, err := lldp.Parse(p.AppendTo(nil))
		if err != nil {
			t.Fatal(err)
		}
		return Peer{from.mac, got}
	}
	a.Update(nil)
	b.Update(nil)
	for range 10 {
		x, y := a.oper, b.oper
		b.Update([]Peer{tell(a)})
		a.Update([]Peer{tell(b)})
		if x.Equal(&a.oper) && y.Equal(&b.oper) {
			return
		}
	}
	t.Error("they do not come to rest")
}

// both sets up two machines with a version and lets them negotiate.
func both(t *testing.T, v Version, va, vb Values) (a, b *Machine) {
	a, b = New(low), New(high)
	a.Set(low, v, false, va)
	b.Set(high, v, false, vb)
	pair(t, a, b)
	return a, b
}

func TestWillingRules(t *testing.T) {
	for _, v := range []Version{IEEE, CEE} {
		for name, c := range map[string]struct {
			willingA, willingB bool
			adoptA, adoptB     bool // ETS
			pfcA, pfcB         uint8
			mismatch           bool
		}{
			"a is willing":     {true, false, true, false, 0x10, 0x10, false},
			"b is willing":     {false, true, false, true, 0x08, 0x08, false},
			"both are willing": {true, true, v == IEEE, v == IEEE, 0x08, 0x08, false},
			"neither is":       {false, false, false, false, 0x08, 0x10, true},
		} {
			va, vb := values(c.willingA, false, 0x08, roce), values(c.willingB, true, 0x10, iscsi)
			a, b := both(t, v, va, vb)
			if v == CEE && c.willingA == c.willingB { // own values, compared
				c.pfcA, c.pfcB, c.mismatch = 0x08, 0x10, true
				vb.Apps = []lldp.AppEntry{iscsi}
			}
			ets := func(m *Machine) [8]uint8 { return m.Operational().Weight }
			if got := ets(a) == vb.Weight; got != c.adoptA {
				t.Errorf("%v, %s: a has ETS %v", v, name, ets(a))
			}
			if got := ets(b) == va.Weight; got != c.adoptB {
				t.Errorf("%v, %s: b has ETS %v", v, name, ets(b))
			}
			if a.oper.Config.PFC != c.pfcA || b.oper.Config.PFC != c.pfcB || a.oper.Pause.Error != c.mismatch || b.oper.Pause.Error != c.mismatch {
				t.Errorf("%v, %s: PFC %#x and %#x, error %v", v, name, a.oper.Config.PFC, b.oper.Config.PFC, a.oper.Pause.Error)
			}
			theirs := vb.Apps[0]
			if v == CEE {
				theirs.Selector = lldp.SelPort
			}
			if got := slices.Contains(a.oper.Apps, theirs); got != c.adoptA {
				t.Errorf("%v, %s: a has %v", v, name, a.oper.Apps)
			}
		}
	}
}

// With CEE each change has a number, which the other side acknowledges.
func TestCEESequence(t *testing.T) {
	a, b := both(t, CEE, values(false, false, 8, roce), values(true, true, 0))
	if !a.Synced() || !b.Synced() || a.seq == 0 {
		t.Fatalf("synchronized %v %v, sequence %d", a.Synced(), b.Synced(), a.seq)
	}
	was := a.seq
	a.Set(low, CEE, false, values(false, false, 0x20))
	pair(t, a, b)
	if a.seq != was+1 || !a.Synced() || b.oper.Config.PFC != 0x20 {
		t.Errorf("sequence %d after %d, PFC of b %#x", a.seq, was, b.oper.Config.PFC)
	}
}

// Dynamic follows a neighbor that knows only CEE, and takes IEEE if there is a choice.
func TestDynamic(t *testing.T) {
	a, b := New(low), New(high)
	a.Set(low, Dynamic, false, values(true, false, 0))
	b.Set(high, CEE, false, values(false, true, 8))
	pair(t, a, b)
	if a.Version() != CEE || a.oper.Config.PFC != 8 || b.Remote() == nil {
		t.Errorf("%v %+v", a.Version(), a.oper)
	}
	b.Set(high, Dynamic, false, values(false, true, 8))
	pair(t, a, b)
	if a.Version() != IEEE || b.Version() != IEEE || a.oper.Config.PFC != 8 {
		t.Errorf("%v and %v", a.Version(), b.Version())
	}
}

// What a port cannot act on is not taken over, and marked.
func TestRefusedValues(t *testing.T) {
	own := values(true, false, 0, roce)
	own.MaxTCs, own.PFCCap = 2, 1
	sum := values(false, false, 0x18)
	sum.Weight[0] = 60
	for name, c := range map[string]Values{"sum of 90": sum, "three classes": values(false, true, 0x18)} {
		a, _ := both(t, IEEE, own, c)
		if !a.oper.ETS.Error || !a.oper.Pause.Error || a.oper.Config != own.Config {
			t.Errorf("%s: %+v", name, a.oper)
		}
	}
	long := values(false, false, 0)
	for i := range uint16(MaxApps + 1) {
		long.Apps = append(long.Apps, lldp.AppEntry{Priority: 1, Selector: 2, Protocol: i + 1})
	}
	if a, _ := both(t, IEEE, own, long); !a.oper.App.Error || !slices.Equal(a.oper.Apps, own.Apps) {
		t.Errorf("%d applications: %v", len(a.oper.Apps), a.oper.App)
	}
}

// Several neighbors, none, static, and disabled: the administrative values.
func TestAdministrative(t *testing.T) {
	own := values(true, false, 0, roce)
	peer := func(mac ether.Addr, with bool) Peer {
		p := Peer{mac, &lldp.PDU{Chassis: lldp.MACID(4, mac), TTL: 1}}
		if with {
			p.PDU.PFC = &lldp.PFC{Cap: 8, Enabled: 0x40}
		}
		return p
	}
	m := New(low)
	for name, c := range map[string]struct {
		version Version
		static  bool
		peers   []Peer
		pfc     uint8
		tooMany bool
	}{
		"none":            {IEEE, false, nil, 0, false},
		"one":             {IEEE, false, []Peer{peer(high, true)}, 0x40, false},
		"one of two":      {IEEE, false, []Peer{peer(low, false), peer(high, true)}, 0x40, false},
		"two":             {IEEE, false, []Peer{peer(low, true), peer(high, true)}, 0, true},
		"static":          {IEEE, true, []Peer{peer(high, true)}, 0, false},
		"CEE hears IEEE":  {CEE, false, []Peer{peer(high, true)}, 0, false},
		"DCBX is off":     {Disabled, false, []Peer{peer(high, true)}, 0, false},
		"the one is gone": {IEEE, false, []Peer{}, 0, false},
	} {
		m.Set(low, c.version, c.static, own)
		m.Update(c.peers)
		if m.oper.Config.PFC != c.pfc || m.TooMany() != c.tooMany || m.oper.Pause.Error != c.tooMany {
			t.Errorf("%s: PFC %#x, too many %v", name, m.oper.Config.PFC, m.TooMany())
		}
	}
}

// Any two configurations come to rest, and what is in use always passes Validate.
func TestComesToRest(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 2))
	random := func() Values {
		v := values(r.IntN(2) == 0, r.IntN(2) == 0, uint8(r.Uint32()), roce, iscsi)
		v.Pause.Willing, v.App.Willing = r.IntN(2) == 0, r.IntN(2) == 0
		v.Pause.Enabled, v.App.Enabled = r.IntN(4) > 0, r.IntN(4) > 0
		v.MaxTCs, v.PFCCap = uint8(3+r.IntN(6)), uint8(r.IntN(9))
		v.Apps = v.Apps[:r.IntN(3)]
		return v
	}
	for range 2000 {
		a, b := New(low), New(high)
		a.Set(low, Version(r.IntN(4)), r.IntN(8) == 0, random())
		b.Set(high, Version(r.IntN(4)), r.IntN(8) == 0, random())
		pair(t, a, b)
		for _, m := range []*Machine{a, b} {
			if err := m.oper.Validate(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestGroups(t *testing.T) {
	g := &lldp.CEEPG{Group: [8]uint8{0, 0, 0, 1, 15, 0, 0, 15}, Weight: [8]uint8{60, 40}}
	want := dcb.Config{PrioTC: [8]uint8{3: 1, 4: 7, 7: 7}, Weight: g.Weight, TSA: [8]dcb.TSA{dcb.ETS, dcb.ETS}}
	if got := groups(g); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, not %+v", got, want)
	}
}

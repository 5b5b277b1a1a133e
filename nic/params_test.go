package nic

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tapir/mpa"
	"tapir/nic/cm"
	"tapir/nic/iwarp"
	"tapir/nic/param"
	"tapir/wire/frame"
)

// What a parameter shows it also takes, and taking it changes nothing.
func TestParamsRoundTrip(t *testing.T) {
	names := map[string]bool{}
	for _, p := range allParams() {
		def := p.Get()
		if err := p.Set(def); err != nil || p.Get() != def {
			t.Errorf("%s: default %q comes back as %q, %v", p.Name, def, p.Get(), err)
		}
		if err := p.Set("no such value!!!!"); err == nil || !strings.HasPrefix(err.Error(), p.Name+": ") || !strings.Contains(err.Error(), p.Expect) {
			t.Errorf("%s took nonsense: %v", p.Name, err)
		}
		if p.Help == "" || p.Type == "" || p.Origin == "" || names[p.Name] || param.Find(allParams(), param.Flag(p.Name)).Name != p.Name {
			t.Errorf("%s is not described, or twice", p.Name)
		}
		names[p.Name] = true
	}
	for _, siw := range []string{"loopback_enabled", "mpa_crc_required", "mpa_crc_strict", "zcopy_tx", "tcp_nodelay", "iface_list",
		"mpa_version", "peer_to_peer", "rtr_type", "relaxed_ird_negotiation", "try_gso", "siw_tcp_nagle"} {
		if !names[siw] {
			t.Errorf("siw's parameter %s is missing", siw)
		}
	}
}

// mpa_crc_required and mpa_crc_strict together say one policy, in any order.
func TestCRCParameters(t *testing.T) {
	for _, c := range []struct {
		set  string
		want mpa.CRCPolicy
		bad  bool
	}{
		{"", mpa.CRCRequired, false},
		{"mpa_crc_required=1", mpa.CRCRequired, false},
		{"mpa_crc_required=0", mpa.CRCOptional, false},
		{"mpa_crc_strict=1", mpa.CRCRefused, false},
		{"mpa_crc_strict=1 mpa_crc_required=0", mpa.CRCRefused, false},
		{"mpa_crc_required=0 mpa_crc_strict=1", mpa.CRCRefused, false},
		{"mpa_crc_required=0 mpa_crc_strict=1 mpa_crc_strict=0", mpa.CRCOptional, false},
		{"mpa_crc_strict=1 mpa_crc_strict=0", mpa.CRCRequired, false},
		{"mpa_crc_required=1 mpa_crc_strict=1", 0, true},
		{"mpa_crc_strict=1 mpa_crc_required=1", 0, true},
	} {
		var cfg Config
		for _, s := range strings.Fields(c.set) {
			name, v, _ := strings.Cut(s, "=")
			if err := cfg.Param(name).Set(v); err != nil {
				t.Fatal(err)
			}
		}
		if err := cfg.IWARP.Validate(); (err != nil) != c.bad || !c.bad && cfg.IWARP.CRC != c.want {
			t.Errorf("%q: policy %d, %v", c.set, cfg.IWARP.CRC, err)
		}
	}
}

// dialQuietly connects without insisting.
func dialQuietly(w *world, a, b *node, addr netip.Addr) (client *rdmaEnd, err error) {
	c, s := newEnd(w.t, a, 4096), newEnd(w.t, b, 4096)
	l, err := b.dev.CM.Listen(netip.AddrPortFrom(addr, 7471), 4, s.handle, nil)
	if err != nil {
		return c, err
	}
	defer l.Close()
	id := a.dev.CM.NewID(c.handle, nil)
	if err := id.Connect(netip.AddrPortFrom(addr, 7471), cm.Params{QP: c.qp}, w.now); err != nil {
		return c, err
	}
	w.until(10*time.Second, func() bool { return len(c.events) > 0 })
	return c, nil
}

// A parameter that changes while the NIC runs counts for the next connection.
func TestSetAtRunTime(t *testing.T) {
	w, a, b := twoNICs(t, Config{})
	addr := b.dev.IP.Addrs()[0].Addr()
	cep := func() iwarp.CEPInfo {
		list := a.dev.ShowCEP()
		return list[len(list)-1]
	}
	first, err := dialQuietly(w, a, b, addr)
	if err != nil || !first.saw(cm.ActiveComplete) || !cep().CRC {
		t.Fatalf("%v %+v", err, cep())
	}
	for _, n := range []*node{a, b} {
		if err := n.dev.Set(Setting{"mpa_crc_required", "0"}, Setting{"ird", "3"}); err != nil {
			t.Fatal(err)
		}
	}
	second, err := dialQuietly(w, a, b, addr)
	if err != nil || !second.saw(cm.ActiveComplete) || cep().CRC || cep().IRD != 3 || !a.dev.ShowCEP()[0].CRC {
		t.Errorf("%v %+v", err, a.dev.ShowCEP())
	}
	before := a.dev.Config()
	if err := a.dev.Set(Setting{"ord", "5"}, Setting{"mtu", "9000"}); err == nil || a.dev.Config().IWARP.ORD != before.IWARP.ORD {
		t.Errorf("half a change: %v", err)
	}
	if err := a.dev.Set(Setting{"tcp_nodelay", "0"}); err != nil || !a.dev.TCP().Config().Nagle {
		t.Errorf("Nagle: %v", err)
	}
}

func TestInterfaceList(t *testing.T) {
	there := setting(t, "iface_list=tap7,tap8")
	there.Iface = "tap3"
	w, a, b := twoNICs(t, there)
	addr := b.dev.IP.Addrs()[0].Addr()
	if _, err := dialQuietly(w, a, b, addr); !errors.Is(err, cm.ErrNoDevice) || !strings.Contains(err.Error(), "no RDMA on tap3: iface_list names tap7, tap8") {
		t.Errorf("listening: %v", err)
	}
	e := newEnd(t, a, 64)
	err := a.dev.CM.NewID(e.handle, nil).Connect(netip.AddrPortFrom(addr, 1), cm.Params{QP: e.qp}, w.now)
	if !errors.Is(err, cm.ErrNoDevice) {
		t.Errorf("connecting: %v", err)
	}
	var cfg Config
	list := "tap10,tap11,tap12,tap13,tap14,tap15,tap16,tap17,tap18,tap19,tap20,"
	if err := cfg.Param("iface_list").Set(list + "tap3,tap4"); err == nil {
		t.Error("thirteen interfaces are taken")
	}
	if err := cfg.Param("iface_list").Set(list + "tap3"); err != nil {
		t.Error(err)
	}
	w, a, b = twoNICs(t, Config{Iface: "tap3", IfaceList: cfg.IfaceList})
	if c, err := dialQuietly(w, a, b, b.dev.IP.Addrs()[0].Addr()); err != nil || !c.saw(cm.ActiveComplete) {
		t.Errorf("on the list: %v", err)
	}
}

// A NIC connects to itself, and nothing of it reaches the wire, unless
// loopback is off.
func TestLoopback(t *testing.T) {
	for _, mode := range []FrameMode{Wire, GSO} {
		w, a, _ := twoNICs(t, Config{Frames: mode})
		for _, p := range a.dev.IP.Addrs() {
			w.run(time.Second)
			before := a.dev.ShowNIC().TxPackets
			c, s := dial(w, a, a, p.Addr(), 300_000)
			exercise(w, c, s, 100_000)
			if n := a.dev.ShowNIC().TxPackets; n != before || counter(t, a.dev, "loopback_packets") == 0 {
				t.Errorf("%v: %d packets on the wire", p, n-before)
			}
			for _, l := range a.dev.CM.Listeners() {
				l.Close()
			}
		}
		if err := a.dev.Set(Setting{"loopback_enabled", "0"}); err != nil {
			t.Fatal(err)
		}
		if _, err := dialQuietly(w, a, a, a.dev.IP.Addrs()[0].Addr()); !errors.Is(err, cm.ErrUnreachable) || !strings.Contains(err.Error(), "loopback_enabled is 0") {
			t.Errorf("loopback off: %v", err)
		}
	}
}

func counter(t *testing.T, d *device, name string) uint64 {
	t.Helper()
	for _, c := range d.Counters() {
		if c.Name == name {
			return c.Value
		}
	}
	t.Fatalf("no counter %s", name)
	return 0
}

func TestDepthLimits(t *testing.T) {
	w, a, b := twoNICs(t, Config{})
	e := newEnd(t, a, 64)
	to := netip.AddrPortFrom(b.dev.IP.Addrs()[0].Addr(), 7471)
	for _, p := range []cm.Params{{QP: e.qp, IRD: 33}, {QP: e.qp, ORD: 33}} {
		if err := a.dev.CM.NewID(e.handle, nil).Connect(to, p, w.now); !errors.Is(err, cm.ErrInvalid) || !strings.Contains(err.Error(), "33, limit 32") {
			t.Errorf("%+v: %v", p, err)
		}
	}
	if l := a.dev.Verbs.Limits(); l.MaxIRD != 32 || l.MaxORD != 32 || (&iwarp.Config{}).Validate() != nil {
		t.Errorf("%+v", l)
	}
	var cfg Config
	for _, name := range []string{"max_ird", "max_ord"} {
		if err := cfg.Param(name).Set("128"); err != nil {
			t.Fatal(err)
		}
	}
	w, a, b = twoNICs(t, cfg)
	e = newEnd(t, a, 64)
	to = netip.AddrPortFrom(b.dev.IP.Addrs()[0].Addr(), 7471)
	s := newEnd(t, b, 64)
	if _, err := b.dev.CM.Listen(to, 1, func(ev cm.Event, now frame.Time) {
		if ev.Type == cm.ConnectRequest {
			_ = ev.ID.Accept(cm.Params{QP: s.qp, IRD: 128, ORD: 100}, now)
		}
	}, nil); err != nil {
		t.Fatal(err)
	}
	id := a.dev.CM.NewID(e.handle, nil)
	if err := id.Connect(to, cm.Params{QP: e.qp, IRD: 128, ORD: 128}, w.now); err != nil {
		t.Fatal(err)
	}
	w.until(time.Second, func() bool { return e.saw(cm.ActiveComplete) })
	if id.IRD() != 100 || id.ORD() != 128 {
		t.Errorf("%d/%d", id.IRD(), id.ORD())
	}
}

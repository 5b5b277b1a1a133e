package settings

import (
	"testing"

	"tapir/nic/iwarp"
	"tapir/nic/msglog"
	"tapir/nic/param"
	"tapir/nic/toe"
)

// bound are settings with fields of their own.
func bound() []*param.Row {
	b := Bound{NoLoopback: new(bool), IfaceList: new([]string), Msglvl: new(msglog.Msglvl), IWARP: &iwarp.Config{},
		TCP: &toe.Config{}, RDMA: &RDMA{}, PHC: &PHC{}, PTP: &PTP{}, DCB: &DCB{}}
	return b.Rows()
}

// What a setting shows can be given to it, and then shows again.
func TestDefaultsReadBack(t *testing.T) {
	for _, r := range bound() {
		shown := r.Get()
		if err := r.Set(shown); err != nil {
			t.Errorf("%s: %v", r.Name, err)
		}
		if got := r.Get(); got != shown {
			t.Errorf("%s: %q after %q was set", r.Name, got, shown)
		}
		if r.Help == "" || r.Origin == "" || r.Type == "" {
			t.Errorf("%s: %+v", r.Name, r)
		}
	}
}

func TestValues(t *testing.T) {
	for _, c := range []struct {
		name, def, set, get string // get empty: refused
	}{
		{"loopback_enabled", "1", "0", "0"},
		{"mpa_crc_required", "1", "0", "0"},
		{"mpa_crc_strict", "0", "1", "1"},
		{"iface_list", "none", "eth0, eth1", "eth0,eth1"},
		{"iface_list", "none", "a-name-that-is-too-long", ""},
		{"mpa_version", "2", "3", ""},
		{"rtr_type", "send,write,read", "write", "write"},
		{"rtr_type", "send,write,read", "none", ""},
		{"ird", "32", "0", "0"},
		{"nudge", "5ms", "0", "0"},
		{"send_first", "200ms", "2m", ""},
		{"dprint", "none", "all,wrong", ""},
		{"msglvl", "0x80000000", "0xc0000000", "0xc0000000"},
		{"congestion", "cubic", "reno", "reno"},
		{"time_wait", "1m", "90m", "1h30m"},
		{"iwarp_rcv_wnd_size", "1048576", "1", ""},
		{"phc_oscillator", "ideal", "xo", "xo"},
		{"phc_ppb", "0", "-1.5", "-1.5"},
		{"phc_quantum", "1ns", "2ms", ""},
		{"personality", "iwarp", "eth", "eth"},
		{"num_mrs", "131071", "1", ""},
		{"pkeys", "0xffff", "0x8001, 0x7fff", "0x8001,0x7fff"},
		{"pkeys", "0xffff", "0x8000", ""},
		{"prio_pfc", "all:off", "3:on", "3:on"},
		{"prio_pfc", "all:off", "3", ""},
		{"tc_bw", "all:0", "0:30,3:70", "0:30,3:70"},
		{"tc_bw", "all:0", "0:101", ""},
		{"trust", "pcp", "dscp", "dscp"},
		{"pkeys", "0xffff", "65536", ""},
	} {
		r := param.Find(bound(), c.name)
		if r == nil || r.Get() != c.def {
			t.Errorf("%s: %+v, want default %q", c.name, r, c.def)
			continue
		}
		switch err := r.Set(c.set); {
		case err != nil && c.get != "":
			t.Error(err)
		case err == nil && r.Get() != c.get:
			t.Errorf("%s: %q after %q was set, want %q", c.name, r.Get(), c.set, c.get)
		}
	}
}

func TestFrameModes(t *testing.T) {
	for _, m := range []FrameMode{Wire, GSO, Jumbo} {
		if got, err := ParseFrameMode(m.String()); got != m || err != nil {
			t.Errorf("%v: %v, %v", m, got, err)
		}
	}
	if _, err := ParseFrameMode("unknown"); err == nil {
		t.Error("an unknown mode was taken")
	}
}

func TestEphemeralPortsOutsideTheHosts(t *testing.T) {
	for _, c := range []struct {
		lo, hi, first, last uint16
		ok                  bool
	}{
		{32768, 60999, 1024, 32767, true},
		{1024, 40000, 40001, 65535, true},
		{1024, 65535, 0, 0, false},
	} {
		if first, last, ok := Ephemeral(c.lo, c.hi); first != c.first || last != c.last || ok != c.ok {
			t.Errorf("%d-%d: %d-%d, %v", c.lo, c.hi, first, last, ok)
		}
	}
}

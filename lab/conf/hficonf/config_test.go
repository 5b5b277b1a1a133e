package hficonf

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"tapir/lab/conf"
	"tapir/opa"
	"tapir/vnic"
	"tapir/wire/frame"
)

const good = `hfis:
  - name: hfi0
    fabric_tap: fab0
    guid: 0011:7501:0100:0001
    lid: 1
    framing: geneve
    icrc: none
    fabric_mtu: 8192
    netdev: h0-v%d
    policy: {learn: true, tx_storm: 500/50}
    vnics:
      - vesw: 2
        ip: [10.2.0.1/24, fd00::1/64]
        pkey: 0x8002
        mtu: 8000
        default_ports: 7, 8
        policy: {unknown: flood, age: 60s, snoop: true}
      - {vesw: 258, tap: lan, gateway: {bridge: br0, vlan: 5}}
  - {name: hfi1, guid: 0x2, managed: true, vnics: [{vesw: 2, tap: opa2}]}
`

func TestParseHFIs(t *testing.T) {
	all, err := Parse("h.yaml", []byte(good))
	must(t, err)
	if len(all) != 2 {
		t.Fatalf("%d HFIs", len(all))
	}
	c := all[0].WithDefaults()
	if c.GUID != 0x0011750101000001 || c.LID != 1 || c.Framing != opa.FramingGeneve || c.ICRC != opa.ICRCNone || c.MTU != 8192 {
		t.Errorf("%+v", c)
	}
	if want := []uint16{opa.PKeyManagement, 0x8002, 0x8001}; len(c.PKeys) != 3 || [3]uint16(c.PKeys) != [3]uint16(want) {
		t.Errorf("P_Keys %x", c.PKeys)
	}
	v, w := c.VNICs[0], c.VNICs[1]
	if v.TAP != "h0-v2" || v.MTU != 8000 || v.Mcast != 0xf00002 || v.MAC != (opa.LMAC{Fabric: 1, VESW: 2, LID: 1}).Addr() ||
		v.Policy.Unknown != vnic.ToAll || v.Policy.TxStorm.PerSecond != 0 || len(v.IP) != 2 {
		t.Errorf("%+v", v)
	}
	if p := v.VPort(1); p.DefPortMask != 3 || p.UcastDLID[1] != 8 || p.EthMTU != 8000 || p.PKey != 0x8002 {
		t.Errorf("%+v", p)
	}
	if w.TAP != "lan" || w.Gateway.VLAN != 5 || w.Policy.TxStorm != (frame.Rate{PerSecond: 500, Burst: 50}) || !w.Policy.Learn {
		t.Errorf("%+v", w)
	}
	if m := all[1].WithDefaults(); !m.Managed || m.VNIC(2).TAP != "opa2" || m.VNIC(9).TAP != "opa-vesw9" || len(m.PKeys) != 0 {
		t.Errorf("%+v", m)
	}
}

func TestMistakesHaveAPlace(t *testing.T) {
	hfi := func(lines string) string { return "hfis:\n  - guid: 0x1\n    lid: 1\n    " + lines }
	for _, tt := range []struct{ in, want string }{
		{"", "h.yaml:1:1: the file is empty"},
		{"hfis: 3", "h.yaml:1:7: hfis: expected a list with at least one HFI"},
		{"nics: []", "h.yaml:1:1: nics: unknown key; expected hfis"},
		{hfi("vesw: 2"), "h.yaml:4:5: vesw: unknown key; expected one of name, fabric_tap,"},
		{hfi("vnics:\n      - {vesw: 4096}"), "h.yaml:5:16: vesw: expected a vESW id from 1 to 4095"},
		{hfi("vnics:\n      - {tap: x}"), "vesw: expected the id"},
		{hfi("vnics: []"), "no vnics: give one"},
		{hfi("vnics: [{vesw: 2}, {vesw: 2}]"), "two vnics have vesw 2"},
		{hfi("vnics: [{vesw: 2, tap: a}, {vesw: 3, tap: a}]"), "both use a"},
		{hfi("vnics: [{vesw: 2, pkey: 0x8000}]"), "pkey: expected a P_Key"},
		{hfi("vnics: [{vesw: 2, mac: 01:00:00:00:00:01}]"), "mac: expected a MAC address of one station"},
		{hfi("vnics: [{vesw: 2, mcast_dlid: 7}]"), "mcast_dlid: expected a multicast LID"},
		{hfi("vnics: [{vesw: 2, default_ports: [0xf00000]}]"), "default_ports: expected up to 16 unicast LIDs"},
		{hfi("vnics: [{vesw: 2, gateway: {vlan: 3}}]"), "gateway: expected `bridge:`"},
		{hfi("vnics: [{vesw: 2, policy: {lern: true}}]"), "lern: unknown key; did you mean learn?"},
		{hfi("vnics: [{vesw: 2, policy: {tx_storm: 0}}]"), "tx_storm: expected frames per second"},
		{hfi("vnics: [{vesw: 2, mtu: 9000}]\n    fabric_mtu: 4096"), "mtu 9000 is more than the 4096 of the fabric"},
		{hfi("fabric_mtu: 1500"), "fabric_mtu: expected 2048, 4096, 8192 or 10240"},
		{hfi("netdev: opa-%s"), "netdev: expected a name with %d"},
		{hfi("netdev: averylongname%d"), "netdev: expected a name with %d"},
		{hfi("framing: vxlan"), "framing: expected nsh, 88b5 or geneve"},
		{hfi("managed: true\n    vnics: [{vesw: 2, pkey: 0x8001, mtu: 9000}]"), "vesw 2: pkey, mtu: that is for the Ethernet Manager to say"},
		{hfi("managed: true\n    pkeys: [1]"), "pkeys and managed exclude each other"},
		{"hfis:\n  - vnics: [{vesw: 2}]\n    lid: 1", "no guid"},
		{"hfis:\n  - vnics: [{vesw: 2}]\n    guid: 1", "no lid"},
		{"hfis:\n  - {guid: 1, managed: true}\n  - {guid: 1, managed: true}", "h.yaml:3:5: guid: hfi0 and hfi1 both have 0x0000000000000001 (the other one is at line 2)"},
		{"hfis:\n  - {guid: 1, lid: 1, vnics: [{vesw: 2}]}\n  - {guid: 2, lid: 2, vnics: [{vesw: 2}]}", "both use opa-vesw2"},
		{"hfis:\n  - {guid: 0, managed: true}", "guid: expected a GUID that is not 0"},
	} {
		_, err := Parse("h.yaml", []byte(tt.in))
		if e := (*conf.Error)(nil); !errors.As(err, &e) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s\ngot  %v\nwant %s", tt.in, err, tt.want)
		}
	}
	if _, err := Load("nothing.yaml"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestVESWFlag(t *testing.T) {
	var c Config
	for _, tt := range []struct{ in, want string }{
		{"2:opa-a", ""}, {"0x101", ""}, {"0:x", "vesw"}, {"4096", "vesw"}, {"2:averyverylongname", "tap"}, {"x", "vesw"},
	} {
		if err := c.AddVESW(tt.in); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.in, err)
		}
	}
	if len(c.VNICs) != 2 || c.VNICs[0].TAP != "opa-a" || c.VNICs[1].VESW != 257 {
		t.Errorf("%+v", c.VNICs)
	}
	must(t, c.SetVNICs("mtu", "9000"))
	if err := c.SetVNICs("mtu", "9"); err == nil || c.VNICs[1].MTU != 9 && c.VNICs[1].MTU != 9000 {
		t.Errorf("%v %+v", err, c.VNICs)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte("hfis: [{guid: 1, managed: true, netdev: '%d'}]"))
	f.Fuzz(func(t *testing.T, in []byte) {
		all, err := Parse("f.yaml", in)
		if e := (*conf.Error)(nil); err != nil && !errors.As(err, &e) {
			t.Fatalf("a mistake without a place: %v", err)
		}
		for _, c := range all {
			if err := c.Validate(); err != nil {
				t.Fatalf("accepted an invalid HFI: %v", err)
			}
		}
	})
}

const goodManager = `manager:
  name: em1
  fabric_tap: fabem
  guid: 0x00117501010000ff
  priority: 9
  fe: 127.0.0.1:0
  poll: 1s
vesws:
  - {name: blue, id: 2, members: [h1]}
`

func TestParseEM(t *testing.T) {
	c, err := ParseEM("v.yaml", []byte(goodManager))
	must(t, err)
	if c.Port.Name != "em1" || c.Port.TAP != "fabem" || !c.Port.Managed || c.Priority != 9 || c.FE != "127.0.0.1:0" ||
		c.Timing.Poll != time.Second || c.Timing.Sweep == 0 || len(c.Fabric.VESWs) != 1 {
		t.Errorf("%+v", c)
	}
	for _, tt := range []struct{ in, want string }{
		{"vesws: []", "no manager: give `manager:`"},
		{"manager: {fabric_tap: x}", "no guid"},
		{"manager: {guid: 1, priority: 16}", "v.yaml:1:30: priority: expected a number from 0 to 15"},
		{"manager: {guid: 1, fe: here}", "fe: expected an address to listen on"},
		{"manager: {guid: 1, poll: 0s}", "poll: expected a time"},
		{"manager: {guid: 1, lid: 3}", "lid: unknown key; expected one of name, fabric_tap,"},
		{"manager: {guid: 1}\nvesws: [{name: x, id: 5000}]", "v.yaml:2:23: id: expected a vESW id"},
	} {
		_, err := ParseEM("v.yaml", []byte(tt.in))
		if e := (*conf.Error)(nil); !errors.As(err, &e) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s\ngot  %v\nwant %s", tt.in, err, tt.want)
		}
	}
}

func FuzzParseEM(f *testing.F) {
	f.Add([]byte(goodManager))
	f.Add([]byte(goodVESWs))
	f.Fuzz(func(t *testing.T, in []byte) {
		_, err := ParseEM("f.yaml", in)
		if e := (*conf.Error)(nil); err != nil && !errors.As(err, &e) {
			t.Fatalf("a mistake without a place: %v", err)
		}
	})
}

// The examples are what they say.
func TestExamples(t *testing.T) {
	for _, file := range []string{"fabric.yaml", "managed.yaml"} {
		if all, err := Load("../../../examples/" + file); err != nil || len(all) != 2 {
			t.Errorf("%s: %d HFIs, %v", file, len(all), err)
		}
	}
	if c, err := LoadEM("../../../examples/vesw.yaml"); err != nil || len(c.Fabric.VESWs) != 2 || c.Port.Bridge != "fabric" {
		t.Errorf("%+v %v", c, err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

package swconf

import (
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"tapir/lab/conf"
	"tapir/nic/dcb"
	"tapir/nic/dcbx"
	"tapir/nic/linkmode"
	"tapir/ptp"
	"tapir/ptp/transport"
	wire "tapir/wire/lldp"
)

const example = `switches:
  - name: core
    mode: p2p-tc
    ports: [tap0@red, {tap: tap1, netns: /run/blue, delay: 0-500us, delay_asymmetry: -120ns, ecn_kmax: 1M}, {tap_fd: 7}]
    delay: exp:10us
    queue: 64
    fecn_threshold: 12
    fecn_packet_size: 64
    fecn_marking_rate: 3
    ecn_kmin: 5K
    ecn_kmax: 200KB
    ecn_pmax: 1%
    trust: dscp
    dscp_prio: 26:3
    prio_tc: ["all:0", "3:1"]
    tc_tsa: "0:ets 1:ets"
    tc_bw: "0:30,1:70"
    tc_maxrate: "0:2.5G"
    prio_pfc: "3:on"
    gateway: [10.0.1.254, "fd00:1::fe"]
    routes: [10.0.1.0/24, "fd00:2::1/64=tap0@red|tap1@blue"]
    ecmp_hash: xor
    ecmp_seed: 7
    buffer: 12M
    buffer_alpha: 0.5
    pfc_xoff: 100K
    pfc_xon: 20K
    pfc_headroom: 300K
    pfc_watchdog: 50ms
    lldp: [nearest-customer]
    lldp_interval: 5
    lldp_hold: 3
    lldp_credit: 2
    dcbx: cee
    dcbx_static: true
    dcb_willing: ets,app
    dcb_app: [udp:4791:3, "ethtype:0x8915:3"]
    fcf:
      fc_map: 0x0efc01
      fabric: 10:00:02:00:00:00:00:ff
      priority: 1
      domain_id: 7
      fka_adv_period: 2s
      vlan: 100
      logins: 10
      npiv: 3
      zones: [[20:00:02:00:00:00:00:01, 0x2000020000000002], [20:00:02:00:00:00:00:03]]
    speed: 10G
    pause: true
    seed: 5
    ageing: 10s
    macs: 100
    group_fwd_mask: 0x8
    one_step: true
    syntonize: true
    domain: 3
    pdelay_req_interval: -2
    transport: UDPv4
    ip: 10.0.0.1
    clock: {oscillator: tcxo, quantum: 8ns}
  - mode: bc
    ports: [tap2, tap3]
    ptp: {priority1: 99, sync_interval: -4}
    profile: gptp
`

// A file sets every key.
func TestFile(t *testing.T) {
	all, err := Parse("switches.yaml", []byte(example))
	if err != nil || len(all) != 2 {
		t.Fatal(all, err)
	}
	a, b := all[0], all[1]
	osc := a.Hardware.Oscillator
	a.Hardware.Oscillator = b.Hardware.Oscillator
	want := Config{Name: "core", Mode: P2PTransparent, Delay: Delay{Dist: Exponential, Max: 10 * time.Microsecond}, Queue: 64, FECNThreshold: 12, FECNSize: 64, FECNRate: 3, ECN: ECN{5000, 200_000, 10_000},
		Queues: Queues{TrustDSCP: true, DSCPPrio: [64]uint8{26: 4}, Mapped: true, MaxRate: [8]int{2500}, Buffer: 12_000_000, Alpha: 0.5, XOFF: 100_000, XON: 20_000, Headroom: 300_000, Watchdog: 50 * time.Millisecond,
			DCB: dcb.Config{PrioTC: [8]uint8{3: 1}, TSA: [8]dcb.TSA{dcb.ETS, dcb.ETS}, Weight: [8]uint8{30, 70}, PFC: 8}},
		LLDP: LLDP{Agents: 4, Interval: 5, Hold: 3, Credit: 2, DCBX: dcbx.CEE, Static: true, WillingETS: true, WillingApp: true, Apps: []wire.AppEntry{{Priority: 3, Selector: wire.SelUDP, Protocol: 4791}, {Priority: 3, Selector: wire.SelEtherType, Protocol: 0x8915}}},
		Routing: Routing{Gateways: []netip.Addr{netip.MustParseAddr("10.0.1.254"), netip.MustParseAddr("fd00:1::fe")},
			Routes: []Route{{Prefix: netip.MustParsePrefix("10.0.1.0/24")}, {netip.MustParsePrefix("fd00:2::/64"), []string{"tap0@red", "tap1@blue"}}}, ECMPHash: XOR, ECMPSeed: 7},
		FCF: FCF{On: true, Map: 0x0efc01, Fabric: 0x1000_0200_0000_00ff, Priority: 1, DomainID: 7, Period: 2 * time.Second, VLAN: 100, Logins: 10, NPIV: 3,
			Zones: []Zone{{0x2000_0200_0000_0001, 0x2000_0200_0000_0002}, {0x2000_0200_0000_0003}}},
		Seed: 5, Speed: linkmode.Speed10G, Pause: true,
		Ageing: 10 * time.Second, MACs: 100, GroupFwdMask: 8, OneStep: true, Syntonize: true, Domain: 3, PdelayInterval: -2,
		Transport: transport.UDPv4, IP: a.IP, Ports: []PortConfig{
			{TAP: "tap0", Netns: "red"}, {TAP: "tap1", Netns: "/run/blue", Delay: &Delay{Dist: Uniform, Max: 500 * time.Microsecond}, Asymmetry: -120, ECN: ECN{Kmax: 1_000_000}}, {TAPFD: 7},
		}}
	want.Hardware.Quantum = 8
	if !reflect.DeepEqual(a, want) || a.IP.String() != "10.0.0.1" || osc.PPB != 1200 {
		t.Errorf("%+v\nwant %+v", a, want)
	}
	if b.Name != "sw1" || b.PTP.Profile != ptp.GPTP || b.PTP.Priority1 != 99 || len(b.PTP.Ports) != 2 || b.PTP.Ports[1].LogSyncInterval != -4 || !b.Carriage(0).Local {
		t.Errorf("%+v", b)
	}
	if full := a.WithDefaults(); full.Ports[0].Name != "tap0@red" || full.Ports[1].Name != "tap1@blue" || full.Ports[2].Name != "port2" {
		t.Errorf("%+v", full.Ports)
	}
	// The keys of the example are all there are.
	for _, k := range new(Draft).Fields() {
		if !strings.Contains(example, k.Name+":") && k.Name != "oscillator" {
			t.Errorf("the example lacks %s", k.Name)
		}
	}
}

// The example that the documentation names is a good one.
func TestExampleFile(t *testing.T) {
	all, err := Load("../../../examples/switches.yaml")
	if err != nil || len(all) != 2 || all[0].Mode != E2ETransparent || all[1].Mode != Boundary {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestFileErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "1:1: the file is empty",
		"switches: []":                       "1:11: switches: expected a list with at least one switch",
		"switches:\n- {mode: x}":             "2:10: mode: expected plain",
		"switches:\n- {ports: [a]}":          "2:11: ports: expected a list of at least two",
		"switches:\n- {ports: [a, \"b c\"]}": "expected an interface name",
		"switches:\n- {ports: [a, {tap: b, x: 1}]}":                         "x: unknown key",
		"switches:\n- {ports: [a, b], group_fwd_mask: 1}":                   "group_fwd_mask: expected a mask",
		"switches:\n- {ports: [a, b], profile: gptp}":                       "choose mode bc",
		"switches:\n- {ports: [a, b], mode: bc, ptp: {x: 1}}":               "x: unknown key",
		"switches:\n- {ports: [a, b], ip: 10.0.0.1}":                        "does not go with transport L2",
		"switches:\n- {ports: [a, b]}\n- {ports: [c, a]}":                   "both use a (the other one is at line 2)",
		"switches:\n- {name: s, ports: [a, b]}\n- {name: s, ports: [c, d]}": "two switches are called s",
	} {
		_, err := Parse("f.yaml", []byte(text))
		if _, placed := err.(*conf.Error); !placed || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(example))
	f.Add([]byte("switches: [{mode: e2e-tc, ports: [{tap_fd: 3}, tap1], delay: normal:5us+-1us}]"))
	f.Fuzz(func(t *testing.T, in []byte) {
		all, err := Parse("f.yaml", in)
		if e := (*conf.Error)(nil); err != nil && !errors.As(err, &e) {
			t.Fatalf("a mistake without a place: %v", err)
		}
		for _, c := range all {
			if err := c.Validate(); err != nil {
				t.Fatalf("accepted an invalid switch: %v", err)
			}
		}
	})
}

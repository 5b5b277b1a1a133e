package nicconf

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"tapir/nic"
	"tapir/nic/iwarp"
	"tapir/nic/toe"
	"tapir/wire/ether"
)

const good = `# two NICs
nics:
  - name: nic0
    tap: tap0
    ip: 10.0.0.1/24
    ip6: [fd00::1/64, fd00::2/64]
    tap_ip: [10.0.0.254/24, fd00::fe/64]
    mac: 02:00:00:00:00:01
    mtu: 9000
    gw: 10.0.0.254
    frames: jumbo
    first_delay: 5ms
    seed: 18446744073709551615
  - {tap_fd: 3, ip: "10.1.0.1/24", vlan: 7, host_tap: eth1}
  - {tap: tap2, host_tap: eth2, host_frames: gso, queues: 4, ip_from_host: true}
`

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func TestParse(t *testing.T) {
	got, err := Parse("nics.yaml", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	want := []Config{
		{Name: "nic0", TAP: "tap0", IP: []netip.Prefix{prefix("10.0.0.1/24")},
			IP6:   []netip.Prefix{prefix("fd00::1/64"), prefix("fd00::2/64")},
			TAPIP: []netip.Prefix{prefix("10.0.0.254/24"), prefix("fd00::fe/64")},
			MAC:   ether.Addr{2, 0, 0, 0, 0, 1}, MTU: 9000, Gateways: []netip.Addr{netip.MustParseAddr("10.0.0.254")},
			Frames: "jumbo", Seed: new(uint64(1<<64 - 1)),
			NIC: nic.Config{IWARP: iwarp.Config{FirstDelay: 5 * time.Millisecond}}},
		{Name: "nic1", TAPFD: 3, IP: []netip.Prefix{prefix("10.1.0.1/24")}, VLAN: 7, HostTAP: "eth1"},
		{Name: "nic2", TAP: "tap2", HostTAP: "eth2", HostFrames: "gso", Queues: 4, IPFromHost: true},
	}
	opt := cmp.Options{cmpopts.EquateComparable(netip.Prefix{}, netip.Addr{}), cmpopts.EquateEmpty()}
	if d := cmp.Diff(want, got, opt); d != "" {
		t.Fatal(d)
	}
}

func TestParseErrors(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"empty", "", "n.yaml:1:1: the file is empty"},
		{"only a comment", "# none\n", "n.yaml:1:1: the file is empty"},
		{"not a mapping", "- a\n", "n.yaml:1:1: expected `nics:`"},
		{"unknown top key", "nic:\n  - ip: 10.0.0.1/24\n", "n.yaml:1:1: nic: unknown key; expected nics"},
		{"no list", "nics: 3\n", "n.yaml:1:7: nics: expected a list"},
		{"empty list", "nics: []\n", "n.yaml:1:7: nics: expected a list"},
		{"unknown key", "nics:\n  - ip: 10.0.0.1/24\n    zzz: 9000\n",
			"n.yaml:3:5: zzz: unknown key; expected one of name, tap,"},
		{"letters that have changed places", "nics:\n  - ip: 10.0.0.1/24\n    mut: 9000\n",
			"n.yaml:3:5: mut: unknown key; did you mean mtu?"},
		{"key twice", "nics:\n  - ip: 10.0.0.1/24\n    ip: 10.0.0.2/24\n", "n.yaml:3:5: "},
		{"bad ip", "nics:\n  - ip: 10.0.0.1\n", "n.yaml:2:9: ip: expected an IPv4 address with prefix length"},
		{"v6 in ip", "nics:\n  - ip: fd00::1/64\n", "n.yaml:2:9: ip: expected an IPv4"},
		{"v4 in ip6", "nics:\n  - ip6: 10.0.0.1/24\n", "n.yaml:2:10: ip6: expected an IPv6"},
		{"bad in list", "nics:\n  - ip: [10.0.0.1/24, x]\n", "n.yaml:2:23: ip: expected"},
		{"bad mtu", "nics:\n  - ip: 10.0.0.1/24\n    mtu: 70000\n", "n.yaml:3:10: mtu: expected a number of octets"},
		{"mtu a word", "nics:\n  - ip: 10.0.0.1/24\n    mtu: big\n", "n.yaml:3:10: mtu: expected"},
		{"mtu null", "nics:\n  - ip: 10.0.0.1/24\n    mtu:\n", "mtu: expected"},
		{"mac group", "nics:\n  - ip: 10.0.0.1/24\n    mac: 01:00:00:00:00:01\n", "n.yaml:3:10: mac: expected a unicast"},
		{"vlan", "nics:\n  - ip: 10.0.0.1/24\n    vlan: 4095\n", "n.yaml:3:11: vlan: expected"},
		{"VLAN interface", "nics:\n  - ip: 10.0.0.1/24\n    vlan_ip: 5=10.0.0.1\n",
			"n.yaml:3:14: vlan_ip: expected a VLAN id and an address"},
		{"VLAN interface with iWARP", "nics:\n  - {ip: 10.0.0.1/24, vlan_ip: 5=10.1.0.1/24}\n", "vlan_ip is RoCE's"},
		{"VLAN twice", "nics:\n  - {ip: 10.0.0.1/24, personality: roce, vlan: 5, vlan_ip: 5=10.1.0.1/24}\n",
			"name the same VLAN 5"},
		{"frames", "nics:\n  - ip: 10.0.0.1/24\n    frames: tso\n", "n.yaml:3:13: frames: expected wire, gso or jumbo"},
		{"tap name", "nics:\n  - ip: 10.0.0.1/24\n    tap: averyverylongname\n", "n.yaml:3:10: tap: expected"},
		{"name", "nics:\n  - ip: 10.0.0.1/24\n    name: a/b\n", "n.yaml:3:11: name: expected"},
		{"no address", "nics:\n  - tap: tap0\n", "no address: give ip"},
		{"host and tap_ip", "nics:\n  - {ip: 10.0.0.1/24, host_tap: h, tap_ip: 10.0.0.2/24}\n",
			"host_tap and tap_ip exclude each other"},
		{"addresses twice", "nics:\n  - {ip: 10.0.0.1/24, host_tap: h, ip_from_host: true}\n",
			"ip_from_host excludes ip and ip6"},
		{"host's addresses with vlan", "nics:\n  - {host_tap: h, ip_from_host: true, vlan: 5}\n",
			"ip_from_host and vlan exclude each other"},
		{"queues of nothing", "nics:\n  - {ip: 10.0.0.1/24, queues: 4}\n", "are about the host TAP: give host_tap"},
		{"too many queues", "nics:\n  - {ip: 10.0.0.1/24, host_tap: h, queues: 33}\n",
			"queues: expected a number of queues from 1 to 32"},
		{"host frames", "nics:\n  - {ip: 10.0.0.1/24, host_tap: h, host_frames: jumbo}\n",
			"host_frames: expected wire or gso"},
		{"host is tap", "nics:\n  - {ip: 10.0.0.1/24, host_tap: t, tap: t}\n", "they need two interfaces"},
		{"vlan and tap_ip", "nics:\n  - {ip: 10.0.0.1/24, vlan: 5, tap_ip: 10.0.0.2/24}\n",
			"vlan and tap_ip exclude each other"},
		{"clash with tap_ip", "nics:\n  - {ip: 10.0.0.1/24, tap_ip: 10.0.0.1/24}\n", "such as 10.0.0.254/24"},
		{"same name", "nics:\n  - {name: a, ip: 10.0.0.1/24}\n  - {name: a, ip: 10.0.0.2/24}\n",
			"two NICs are called a (the other one is at line 2)"},
		{"same tap", "nics:\n  - {tap: t, ip: 10.0.0.1/24}\n  - {tap: t, ip: 10.0.0.2/24}\n",
			"tap: nic0 and nic1 both use t"},
		{"tap is host", "nics:\n  - {tap: t, ip: 10.0.0.1/24}\n  - {tap: u, host_tap: t, ip: 10.0.0.2/24}\n", "both use t"},
		{"same ip", "nics:\n  - {tap: t, ip: 10.0.0.1/24}\n  - {tap: u, ip: 10.0.0.1/24}\n",
			"ip: nic0 and nic1 both use 10.0.0.1"},
		{"same mac", "nics:\n  - {mac: 02:00:00:00:00:01, ip: 10.0.0.1/24}\n  - {mac: 02:00:00:00:00:01, ip: 10.0.0.2/24}\n",
			"mac: nic0 and nic1"},
		{"same fd", "nics:\n  - {tap_fd: 3, ip: 10.0.0.1/24}\n  - {tap_fd: 3, ip: 10.0.0.2/24}\n", "tap_fd: nic0 and nic1"},
		{"syntax", "nics:\n  - ip: [10.0.0.1/24\n", "n.yaml:2:"},
		{"two documents", "nics:\n  - ip: 10.0.0.1/24\n---\nnics: []\n", "one YAML document only"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse("n.yaml", []byte(tt.in))
			if err == nil {
				t.Fatal("accepted")
			}
			if s := err.Error(); !strings.Contains(s, tt.want) || !strings.HasPrefix(s, "n.yaml:") || strings.Contains(s, "\n") {
				t.Fatalf("got  %s\nwant %s", s, tt.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte("nics:\n  - &a {ip: 10.0.0.1/24}\n  - *a\n"))
	f.Add([]byte("nics: [{<<: {}}]"))
	f.Fuzz(func(t *testing.T, in []byte) {
		all, err := Parse("f.yaml", in)
		if err != nil {
			return
		}
		for _, c := range all {
			if err := c.Validate(); err != nil {
				t.Fatalf("accepted an invalid NIC: %v", err)
			}
		}
	})
}

func TestTCPSettingsReachTheEngine(t *testing.T) {
	var c Config
	for k, v := range map[string]string{
		"iwarp_rcv_wnd_size": "131072", "congestion": "reno", "ecn": "ask", "tos": "40", "tcp_nodelay": "false",
		"user_timeout": "30s", "keepalive": "2m", "ka_max_probe_cnt": "3", "max_fin_rt": "4", "time_wait": "1s",
	} {
		if err := c.Set(k, v); err != nil {
			t.Fatal(err)
		}
	}
	want := toe.Config{RcvWnd: 131072, TimeWait: time.Second, Params: toe.Params{
		Congestion: toe.Reno, ECN: toe.ECNAsk, TOS: 40, Nagle: true, UserTimeout: 30 * time.Second,
		KeepAlive: 2 * time.Minute, KeepAliveProbes: 3, FinRetries: 4,
	}}
	if got := c.Device("").TCP; !cmp.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
}

func TestSet(t *testing.T) {
	tests := []struct{ key, value, want string }{
		{"tap-ip", "10.0.0.254/24,fd00::1/64", ""},
		{"tap_ip", "10.0.0.254/24", ""},
		{"ip", "10.0.0.1/24, 10.0.1.1/24", ""},
		{"vlan-ip", "100=10.1.0.1/24,100=fd01::1/64", ""},
		{"vlan-ip", "0=10.1.0.1/24", "vlan-ip: "},
		{"vlan-ip", "10.1.0.1/24", "vlan-ip: "},
		{"speed", "3", "speed: unknown setting"},
		{"mtu", "1e3", `mtu: "1e3": expected a number of octets`},
		{"gw", "0.0.0.0", "gw: "},
		{"tap_fd", "1", "tap_fd: "},
		{"seed", "-1", "seed: "},
		{"first-delay", "20ms", ""},
		{"iwarp-rcv-wnd-size", "131072", ""},
		{"iwarp_rcv_wnd_size", "1000", "iwarp_rcv_wnd_size: "},
		{"congestion", "reno", ""},
		{"congestion", "bbr", `congestion: "bbr": expected cubic, reno or dctcp`},
		{"ecn", "ask", ""},
		{"ecn", "1", "ecn: "},
		{"tos", "0x28", ""},
		{"tos", "256", "tos: "},
		{"tcp_nodelay", "false", ""},
		{"tcp_nodelay", "maybe", "tcp_nodelay: "},
		{"user_timeout", "30s", ""},
		{"keepalive", "2m", ""},
		{"keepalive", "48h", "keepalive: "},
		{"ka_max_probe_cnt", "3", ""},
		{"ka_max_probe_cnt", "0", "ka_max_probe_cnt: "},
		{"max_fin_rt", "4", ""},
		{"time_wait", "1s", ""},
		{"first-delay", "5", "first-delay: "},
		{"first-delay", "2s", "first-delay: "},
	}
	for _, tt := range tests {
		var c Config
		err := c.Set(tt.key, tt.value)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Set(%q, %q) = %v", tt.key, tt.value, err)
		}
	}
}

func TestProposedNeighbour(t *testing.T) {
	tests := []struct{ in, want string }{
		{"10.0.0.1/24", "10.0.0.254/24"},
		{"10.0.0.254/24", "10.0.0.253/24"},
		{"10.0.0.0/31", "10.0.0.1/31"},
		{"10.0.0.1/31", "10.0.0.0/31"},
		{"fd00::1/64", "fd00::ffff:ffff:ffff:ffff/64"},
	}
	for _, tt := range tests {
		if got := Neighbour(prefix(tt.in)); got != prefix(tt.want) {
			t.Errorf("Neighbour(%s) = %v, want %s", tt.in, got, tt.want)
		}
	}
}

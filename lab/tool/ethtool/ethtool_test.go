package ethtool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"tapir/lab/tool/ctl"
	"tapir/lab/tool/usage"
	"tapir/nic/fastlinq"
	"tapir/nic/hostfn"
	"tapir/nic/view"
	"tapir/wire/ether"
	"tapir/wire/ip"
)

// fakeClient answers for a NIC, or for an HFI with its virtual NICs,
// and notes what is set.
type fakeClient struct {
	info   view.EthtoolInfo
	fabric []view.EthtoolInfo // of an HFI
	params []view.ParamInfo
	set    []ctl.Setting
	refuse error // the answer to Set
	tests  []ctl.SelftestResult
	octets []byte
	did    string
}

func (f *fakeClient) Show(_ context.Context, kind string, v any) error {
	var answer any
	switch {
	case kind == "params":
		answer = f.params
	case kind == "counters":
		answer = []view.Counter{{Name: "icmp_in", Value: 7}}
	case kind == "nic":
		answer = map[string]string{"tap": "tap0", "host_tap_name": "eth-host0"}
	case f.fabric != nil:
		answer = f.fabric
	default:
		answer = f.info
	}
	raw, err := json.Marshal(answer)
	return errors.Join(err, json.Unmarshal(raw, v))
}

func (f *fakeClient) Set(_ context.Context, settings []ctl.Setting, _ any) error {
	f.set = append(f.set, settings...)
	return f.refuse
}

func (f *fakeClient) Flash(_ context.Context, region fastlinq.NVMType, file []byte) error {
	f.did = fmt.Sprintf("flash %d: %d", region, len(file))
	return nil
}

func (f *fakeClient) EEPROM(_ context.Context, r ctl.EEPROMRange) ([]byte, error) {
	f.did = fmt.Sprintf("eeprom %d+%d", r.Offset, r.Length)
	return f.octets, nil
}

func (f *fakeClient) Module(context.Context) (view.ModuleEEPROM, error) {
	return view.ModuleEEPROM{Data: f.octets}, nil
}

func (f *fakeClient) Registers(context.Context) ([]byte, error) { return f.octets, nil }

func (f *fakeClient) Identify(_ context.Context, seconds uint32) error {
	f.did = fmt.Sprintf("identify %d", seconds)
	return nil
}

func (f *fakeClient) Selftest(_ context.Context, offline bool) ([]ctl.SelftestResult, error) {
	f.did = fmt.Sprintf("offline %v", offline)
	return f.tests, nil
}

func (f *fakeClient) HWTimestampCaps(context.Context) (ctl.HWTimestampCaps, error) {
	return ctl.HWTimestampCaps{}, nil
}

// exampleNIC is a NIC with a host TAP of four queues and a link of 10GBASE-T.
func exampleNIC() *fakeClient {
	modes := []view.EthtoolMode{
		{Name: "1000baseT/Full", Bit: 5, Speed: "1000", Mbps: 1000},
		{Name: "10000baseT/Full", Bit: 12, Speed: "10000", Mbps: 10000},
	}
	e := view.EthtoolInfo{
		Netdev: "nic0", Driver: "tapir", Version: "1.2", FirmwareVersion: "mbi 3", BootVersion: "8.1", StormVersion: "8.59",
		BusInfo: "tap0", PermAddr: ether.Addr{2, 0, 0, 0, 0, 1},
		Rings: view.EthtoolRings{RxMax: 8191, TxMax: 8191, Rx: 1024, Tx: 512}, MaxRules: 256,
		Channels: view.EthtoolChannels{MaxCombined: 4, Combined: 2}, Pause: view.EthtoolPause{Autoneg: true, Rx: true, RxNegotiated: true},
		Stats: []view.Counter{{Name: "rx_ucast_bytes", Value: 5}},
		RSS:   &view.EthtoolRSS{Table: []int{0, 1, 0, 1}, Key: []byte{1, 0xab}, Hashes: uint8(fastlinq.HashIPv4 | fastlinq.HashIPv6 | fastlinq.HashIPv4TCP)},
		Rules: []hostfn.Rule{
			{Location: 6, Proto: ip.ProtoUDP, V6: true, DstPort: 53, Drop: true},
			{Location: 2, Proto: ip.ProtoTCP, Src: netip.MustParseAddr("10.0.0.9"), SrcPort: 80, Queue: 1},
		},
		Features: []view.EthtoolFeature{
			{Name: "rx-checksum", On: true, Fixed: true},
			{Name: "tx-checksum-ipv4", On: true, Wanted: true, Setting: "tx_csum", Values: [2]string{"0", "1"}},
			{Name: "rx-ntuple-filter", On: true, Wanted: true, Setting: "ntuple_filters", Values: [2]string{"0", "1"}},
			{Name: "rx-gro-hw", Wanted: true},
		},
	}
	e.Link.Up, e.Link.Speed, e.Link.Autoneg, e.Link.Port, e.Link.Ports = true, 10000, true, "Twisted Pair", []string{"TP"}
	e.Link.Supported = view.EthtoolModes{Modes: modes, Pause: true, AsymPause: true, Autoneg: true}
	e.Link.Advertised = view.EthtoolModes{Modes: modes[1:], Pause: true, Autoneg: true}
	e.Link.EEE.Supported, e.Link.EEE.Advertised = modes, modes[1:]
	e.Link.EEE.Enabled, e.Link.EEE.TxLPI, e.Link.EEE.TxTimer = true, true, 256
	return &fakeClient{info: e, octets: []byte("0123456789abcdefXY"), params: []view.ParamInfo{
		{Name: "rx_usecs", Value: "24"}, {Name: "tx_usecs", Value: "48"}, {Name: "queue_usecs", Value: "1:3/4"}}}
}

// run runs a command line as tapir ethtool does.
func run(t *testing.T, f *fakeClient, line string) (string, error) {
	t.Helper()
	args := strings.Fields(line)
	options := Options()
	chosen := make([]bool, len(options))
	for i, o := range options {
		chosen[i] = args[0] == "-"+o.Short || args[0] == "--"+o.Long
		if chosen[i] {
			args = args[1:]
			break
		}
	}
	all := args[0] == "--all"
	if all {
		args = args[1:]
	}
	o, err := Choose(options, chosen)
	if err == nil {
		err = o.CheckOperands(args[1:])
	}
	if err != nil {
		return "", err
	}
	d, names, err := Open(t.Context(), f, args[0])
	if err != nil || d == nil {
		return "", fmt.Errorf("%v: %w", names, err)
	}
	var out strings.Builder
	err = o.Run(t.Context(), &out, d, args[1:], all)
	return out.String(), err
}

// What is printed, to the octet.
func TestPrint(t *testing.T) {
	for line, want := range map[string]string{
		"nic0": "Settings for nic0:\n\tSupported ports: [ TP ]\n" +
			"\tSupported link modes:   1000baseT/Full\n\t                        10000baseT/Full\n" +
			"\tSupported pause frame use: Symmetric Receive-only\n\tSupports auto-negotiation: Yes\n\tSupported FEC modes: Not reported\n" +
			"\tAdvertised link modes:  10000baseT/Full\n" +
			"\tAdvertised pause frame use: Symmetric\n\tAdvertised auto-negotiation: Yes\n\tAdvertised FEC modes: Not reported\n" +
			"\tSpeed: 10000Mb/s\n\tDuplex: Full\n\tAuto-negotiation: on\n\tPort: Twisted Pair\n\tPHYAD: 0\n\tTransceiver: internal\n" +
			"\tMDI-X: Unknown\n\tSupports Wake-on: g\n\tWake-on: d\n" +
			"        Current message level: 0x00000000 (0)\n                               \n\tLink detected: yes\n",
		"-i tap0": "driver: tapir\nversion: 1.2 [storm 8.59]\nfirmware-version: mbi 3\nexpansion-rom-version: 8.1\nbus-info: tap0\n" +
			"supports-statistics: yes\nsupports-test: yes\nsupports-eeprom-access: yes\nsupports-register-dump: yes\nsupports-priv-flags: no\n",
		"-S nic0":       "NIC statistics:\n     rx_ucast_bytes: 5\n",
		"-S --all nic0": "NIC statistics:\n     rx_ucast_bytes: 5\n     icmp_in: 7\n",
		"-P nic0":       "Permanent address: 02:00:00:00:00:01\n",
		"-g nic0": "Ring parameters for nic0:\nPre-set maximums:\nRX:\t\t8191\nRX Mini:\tn/a\nRX Jumbo:\tn/a\nTX:\t\t8191\n" +
			"Current hardware settings:\nRX:\t\t1024\nRX Mini:\tn/a\nRX Jumbo:\tn/a\nTX:\t\t512\n",
		"-l eth-host0": "Channel parameters for eth-host0:\nPre-set maximums:\nRX:\t\tn/a\nTX:\t\tn/a\nOther:\t\tn/a\nCombined:\t4\n" +
			"Current hardware settings:\nRX:\t\tn/a\nTX:\t\tn/a\nOther:\t\tn/a\nCombined:\t2\n",
		"-a nic0": "Pause parameters for nic0:\nAutonegotiate:\ton\nRX:\t\ton\nTX:\t\toff\nRX negotiated: on\nTX negotiated: off\n\n",
		"-k nic0": "Features for nic0:\nrx-checksumming: on [fixed]\ntx-checksumming: on\n\ttx-checksum-ipv4: on\nscatter-gather: off\n" +
			"tcp-segmentation-offload: off\nntuple-filters: on\nrx-gro-hw: off [requested on]\n",
		"-x nic0": "RX flow hash indirection table for nic0 with 2 RX ring(s):\n    0:      0     1     0     1\n" +
			"RSS hash key:\n01:ab\nRSS hash function:\n    toeplitz: on\n    xor: off\n    crc32: off\n",
		"-n nic0 rule 6": "Filter: 6\n\tRule Type: UDP over IPv6\n" +
			"\tSrc IP addr: :: mask: ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff\n\tDest IP addr: :: mask: ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff\n" +
			"\tTraffic Class: 0x0 mask: 0xff\n\tSrc port: 0 mask: 0xffff\n\tDest port: 53 mask: 0x0\n\tAction: Drop\n\n",
		"-u nic0 rule 2": "Filter: 2\n\tRule Type: TCP over IPv4\n" +
			"\tSrc IP addr: 10.0.0.9 mask: 0.0.0.0\n\tDest IP addr: 0.0.0.0 mask: 255.255.255.255\n" +
			"\tTOS: 0x0 mask: 0xff\n\tSrc port: 80 mask: 0x0\n\tDest port: 0 mask: 0xffff\n\tAction: Direct to queue 1\n\n",
		"-n nic0 rx-flow-hash udp6": "UDP over IPV6 flows use these fields for computing Hash flow key:\nIP SA\nIP DA\n\n",
		"-n nic0 rx-flow-hash tcp4": "TCP over IPV4 flows use these fields for computing Hash flow key:\n" +
			"IP SA\nIP DA\nL4 bytes 0 & 1 [TCP/UDP src port]\nL4 bytes 2 & 3 [TCP/UDP dst port]\n\n",
		"--show-eee nic0": "EEE settings for nic0:\n\tEEE status: enabled - inactive\n\tTx LPI: 256 (us)\n" +
			"\tSupported EEE link modes:  1000baseT/Full\n\t                           10000baseT/Full\n" +
			"\tAdvertised EEE link modes:  10000baseT/Full\n\tLink partner advertised EEE link modes:  Not reported\n",
		"-d nic0":                   "Offset\t\tValues\n------\t\t------\n0x0000:\t\t30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66 \n0x0010:\t\t58 59 \n",
		"-e nic0 raw on":            "0123456789abcdefXY",
		"-m nic0 offset 1 length 2": "Offset\t\tValues\n------\t\t------\n0x0001:\t\t31 32 \n",
		"-t nic0":                   "The test result is PASS\nThe test extra info:\n\n",
	} {
		if out, err := run(t, exampleNIC(), line); out != want || err != nil {
			t.Errorf("%s: %v\n%q, want\n%q", line, err, out, want)
		}
	}
	out, err := run(t, exampleNIC(), "-Q nic0 queue_mask 0x2 -c")
	if err != nil || !strings.HasPrefix(out, "Queue: 1\nAdaptive RX") || !strings.Contains(out, "\nrx-usecs: 3\n") ||
		!strings.Contains(out, "\ntx-usecs: 4\n") {
		t.Errorf("%v\n%s", err, out)
	}
}

// What options set on the NIC.
func TestSet(t *testing.T) {
	for line, want := range map[string]string{
		"-C nic0 rx-usecs 64 tx-usecs 0":       "rx_usecs=64",
		"-Q nic0 queue_mask 0x1 -C tx-usecs 9": "queue_usecs=0:24/9,1:3/4,2:24/48,3:24/48",
		"-G nic0 tx 256 rx 128":                "rx_ring=128 tx_ring=256",
		"-L nic0 combined 2":                   "",
		"-L nic0 combined 3":                   "channels=3",
		"-A nic0 autoneg off":                  "pause=rx",
		"-A nic0 rx on":                        "",
		"-K nic0 tx off":                       "tx_csum=0",
		"-K nic0 ntuple off":                   "ntuple_filters=0 ntuple=none",
		"-X nic0 hkey " + strings.Repeat("01:", fastlinq.KeyLen-1) + "01": "rss_key=" + strings.Repeat("01:", fastlinq.KeyLen-1) + "01",
		"-X nic0 default":                             "rss_table=equal",
		"-N nic0 delete 6":                            "ntuple=2 tcp4 src-ip 10.0.0.9 src-port 80 action 1",
		"-N nic0 rx-flow-hash udp4 sdfn":              "rss_hash=ipv4,ipv6,tcp4,udp4",
		"-s nic0 speed 1000 autoneg off wol g":        "wol=g link_speed=1000",
		"-s nic0 autoneg off":                         "link_speed=10000",
		"-s nic0 speed 1000":                          "link_advertise=1000",
		"-s nic0 autoneg on advertise 0x1020":         "link_speed=auto link_advertise=1000,10000",
		"-s nic0 advertise 1000baseT/Full on wol d":   "wol=d link_advertise=1000,10000",
		"-s nic0 msglvl 0x4/0x6":                      "msglvl=4",
		"-s nic0 msglvl link on probe on speed 1000":  "msglvl=6 link_advertise=1000",
		"--set-eee nic0 eee off tx-lpi on tx-timer 9": "eee=off eee_tx_lpi=1 eee_tx_timer=9",
		"--set-eee nic0 advertise 0x20":               "eee_advertise=1000",
	} {
		f := exampleNIC()
		_, err := run(t, f, line)
		var set []string
		for _, s := range f.set {
			set = append(set, s.Name+"="+s.Value)
		}
		if got := strings.Join(set, " "); got != want || err != nil {
			t.Errorf("%s: %v: %q, want %q", line, err, got, want)
		}
	}
	f := exampleNIC()
	if out, err := run(t, f, "-N nic0 flow-type udp4 dst-port 7 action -1"); err != nil || out != "Added rule with ID 255\n" ||
		!strings.HasSuffix(f.set[0].Value, ",255 udp4 dst-port 7 action -1") || f.set[0].Was == "" {
		t.Error(out, err, f.set)
	}
}

// Mistakes are errors of usage; what the device cannot do is a failure.
func TestRefused(t *testing.T) {
	for line, want := range map[string]string{
		"-i nic0 x":                       "?unexpected argument \"x\"",
		"-C nic0":                         "?-C needs pairs of a name and microseconds",
		"-C nic0 rx-frames 1":             "?\"rx-frames\" cannot be changed",
		"-Q nic0 queue_mask 0x10 -c":      "!queue mask 0x10: nic0 has queues 0 to 3",
		"-G nic0 rx":                      "?ethtool (-G): no value for parameter 'rx'",
		"-G nic0 rx 9000":                 "!netlink error: requested ring size exceeds maximum: rx 9000 of 8191",
		"-L nic0 rx 1":                    "!netlink error: requested channel count exceeds maximum: rx 1 of 0",
		"-L nic0 combined 0":              "!netlink error: requested channel counts would result in no RX or TX",
		"-A nic0 rx maybe":                "?ethtool (-A): invalid value 'maybe' for parameter 'rx'",
		"-K nic0 rx off":                  "!Could not change any device features",
		"-K nic0 tso off":                 "?ethtool (-K): unknown feature 'tso'",
		"-X nic0 equal 2 weight 1":        "?Equal and weight options are mutually exclusive",
		"-X nic0 hfunc xor":               "!Cannot set RX flow hash configuration: hash function: xor is not supported",
		"-n nic0 rule 9":                  "!rxclass: Cannot get RX class rule: there is no rule 9",
		"-N nic0 flow-type esp4 loc 1":    "?Add rule, invalid syntax: flow-type 'esp4': choose tcp4",
		"-N nic0 rx-flow-hash tcp4 sd":    "!Cannot change RX network flow hashing options: TCP is hashed by sdfn",
		"-s nic0 duplex half":             "!duplex half: nic0 has link modes of full duplex only",
		"-s nic0 speed 40000":             "!speed 40000: nic0 has 1000 10000 Mb/s",
		"-s nic0 speed":                   "?speed: its value is missing",
		"-s nic0 msglvl link maybe":       "?message level: link maybe: expected on or off",
		"--set-eee nic0 eee maybe":        "?eee maybe: expected on or off",
		"-d nic0 offset 1":                "?-d takes raw, hex, file, not \"offset\"",
		"-m nic0 offset 99":               "!octets 99 to 99 of a module memory of 18",
		"-E nic0 offset 1":                "!nic0: the driver changes no single octets of the EEPROM",
		"-t nic0 sometimes":               "?-t takes offline or online",
		"-f nic0 file nowhere":            "?region \"nowhere\": use 0",
		"-p nic0 1 2":                     "?unexpected argument \"2\"",
		"-N nic0 flow-type tcp4 action x": "?Add rule, invalid syntax: 'tcp4 action x'",
	} {
		kind := "!"
		out, err := run(t, exampleNIC(), line)
		if usage.Is(err) {
			kind = "?"
		}
		if err == nil || !strings.HasPrefix(kind+err.Error(), want) {
			t.Errorf("%s: %q, error %v, want %s", line, out, err, want)
		}
	}
	f := exampleNIC()
	f.refuse = errors.New("no")
	if _, err := run(t, f, "-G nic0 rx 128"); err == nil || err.Error() != "Cannot set device ring parameters: no" {
		t.Error(err)
	}
	f.tests = []ctl.SelftestResult{{Name: "Register test"}, {Name: "Memory test", Fail: "bit 3"}}
	out, err := run(t, f, "-t nic0 online")
	if err == nil || err.Error() != "Memory test: bit 3" || f.did != "offline false" ||
		out != "The test result is FAIL\nThe test extra info:\nRegister test\t\t\t 0\nMemory test\t\t\t 1\n\n" {
		t.Errorf("%q %v", out, err)
	}
}

// Without a host TAP there is no receive hash and no rule.
func TestNoHostTAP(t *testing.T) {
	for _, line := range []string{"-x nic0", "-X nic0 equal 1", "-n nic0", "-N nic0 delete 1"} {
		f := exampleNIC()
		f.info.RSS = nil
		if _, err := run(t, f, line); err == nil || !strings.HasSuffix(err.Error(), ": nic0 has no host TAP: start it with --host-tap") {
			t.Error(line, err)
		}
	}
}

// An HFI and its virtual NICs have what their Linux drivers know; what they lack
// is refused.
func TestFabric(t *testing.T) {
	f := &fakeClient{fabric: []view.EthtoolInfo{{Netdev: "hfi1", BusInfo: "fab1", Driver: "hfi1"},
		{Netdev: "opa1", Driver: "opa_vnic", Stats: []view.Counter{{Name: "rx_packets", Value: 3}},
			Own: []view.Counter{{Name: "rx_fecn", Value: 4}}}}}
	for line, want := range map[string]string{
		"-i opa1": "supports-priv-flags: no\n", "opa1": "Settings for opa1:\n\tLink detected: no\n",
		"-S opa1": "NIC statistics:\n     rx_packets: 3\n", "-P hfi1": "Permanent address: not set\n",
	} {
		if out, err := run(t, f, line); err != nil || !strings.HasSuffix(out, want) {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
	if out, err := run(t, f, "-i fab1"); err != nil || !strings.Contains(out, "driver: hfi1\n") || !strings.Contains(out, "supports-test: no\n") {
		t.Error(out, err)
	}
	if out, err := run(t, f, "-S --all opa1"); err != nil || !strings.HasSuffix(out, "rx_fecn: 4\n") {
		t.Error(out, err)
	}
	for line, want := range map[string]string{"-x opa1": "Operation not supported", "-n hfi1": "Operation not supported",
		"-s hfi1 speed 1000": "no link modes", "--set-eee hfi1 eee on": "has no EEE"} {
		if _, err := run(t, f, line); err == nil || !strings.Contains(err.Error(), want) {
			t.Error(line, err)
		}
	}
	if d, names, err := Open(t.Context(), f, "opa9"); d != nil || len(names) != 2 || err != nil {
		t.Error(d, names, err)
	}
}

// The help text has an example for each option that does something, and two
// options exclude each other.
func TestOptions(t *testing.T) {
	options := Options()
	for _, o := range options {
		if flag, _, _ := strings.Cut(o.Example, " "); flag != "-"+o.Short && flag != "--"+o.Long && o.Long != "change-eeprom" {
			t.Errorf("--%s: the example is %q", o.Long, o.Example)
		}
	}
	chosen := make([]bool, len(options))
	chosen[1], chosen[2] = true, true
	if _, err := Choose(options, chosen); !usage.Is(err) || !strings.Contains(err.Error(), "--show-eee and --set-eee exclude each other") {
		t.Error(err)
	}
}

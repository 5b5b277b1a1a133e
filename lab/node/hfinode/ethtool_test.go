package hfinode_test

import (
	"regexp"
	"strings"
	"testing"

	"tapir/lab/check/opabed"
	"tapir/lab/conf/hficonf"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/ethtool"
)

// controlled serves a station on its control socket.
func controlled(t *testing.T, s *opabed.Station) {
	t.Helper()
	server, err := ctl.Listen(s.Node.Name(), "test")
	must(t, err)
	server.Serve(s.Node.Served(func() {}))
	t.Cleanup(server.Close)
}

// ethtoolOf is what `tapir ethtool LINE` prints.
func ethtoolOf(t *testing.T, line string) (string, error) {
	t.Helper()
	args := strings.Fields(line)
	var all bool
	options := ethtool.Options()
	chosen := make([]bool, len(options))
	for strings.HasPrefix(args[0], "-") {
		for i, o := range options {
			chosen[i] = chosen[i] || args[0] == "-"+o.Short || args[0] == "--"+o.Long
		}
		all = all || args[0] == "--all"
		args = args[1:]
	}
	o, err := ethtool.Choose(options, chosen)
	must(t, err)
	d, c, err := ethtool.Find(t.Context(), args[0])
	if err != nil {
		return "", err
	}
	defer c.Close()
	var out strings.Builder
	err = o.Run(t.Context(), &out, d, args[1:], all)
	return out.String(), err
}

// ethtool on an HFI and on its virtual NICs: what their Linux drivers know, each
// counter with what happened, and what is not there refused as of a NIC.
func TestEthtool(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	b := opabed.New(t)
	one := opabed.Number(1, hficonf.VNIC{VESW: 2, TAP: "blue", IP: ips("10.0.0.1/24")})
	one.Queues = 2
	a := b.Start(one)
	c := b.Start(opabed.Number(2, hficonf.VNIC{VESW: 2, IP: ips("10.0.0.2/24")}))
	controlled(t, a)
	c.Ping(t, "10.0.0.1")
	for line, want := range map[string]string{
		"-i 1": "driver: hfi1\n", "-i blue": "driver: opa_vnic\n", "-i fab1": "bus-info: fab1\n",
		"-S 1": `RxPkt: [1-9]`, "-S --all 1": `RxPkt: [1-9]\d*\n(.*\n)*.* TxPktVL0: [1-9](.*\n)*.*rx_bytes: [1-9]`,
		"-S blue":       `rx_packets: [1-9](.*\n)*.*rx_unicast: [1-9](.*\n)*.*rx_runt: 0\n$`,
		"-S --all blue": `rx_queue_[01]_packets: [1-9]`,
		"blue":          "Settings for blue:\n\tLink detected: yes\n", "1": "Link detected: yes\n",
		"-l blue": `Combined:\t2\n`, "-l 1": `RX:\t\t8\nTX:\t\t16\n`, "-g blue": `TX:\t\t1024\n`, "-g 1": `RX:\t\tn/a\n`,
		"-a blue": "Autonegotiate:\toff\nRX:\t\toff\nTX:\t\toff\n", "-k blue": `receive-hashing: on \[fixed\]`,
		"-P blue": `Permanent address: 06:`, "--show-eee 1": "not supported",
	} {
		if out, err := ethtoolOf(t, line); err != nil || !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
	for line, want := range map[string]string{
		"-d 1": "hardware HFI has no registers", "-e blue": "hardware HFI has no flash", "-p blue 1": "hardware HFI has no LED",
		"-t 1": "hardware HFI has no selftests", "-m 1": "hardware HFI has no module", "-x blue": "Operation not supported", "-c 1": "Operation not supported",
		"-L blue combined 3": "channel count exceeds maximum", "-G blue tx 9999": "ring size exceeds maximum",
		"-C 1 rx-usecs 5": "hardware HFI has no setting rx_usecs", "-A 1 rx on": "hardware HFI has no setting pause",
		"-K blue tso on": "Could not change any device features", "-i green": "green is neither a NIC nor the TAP of one: choose one of 1, blue",
	} {
		if _, err := ethtoolOf(t, line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

package uapi_test

import (
	"bytes"
	"strings"
	"testing"

	"tapir/lab/host/link"
	"tapir/lab/tool/dcb"
	"tapir/lab/tool/uapi"
	"tapir/nic/buf"
	"tapir/wire/frame"
	"tapir/wire/pause"
)

// shows are what both print after each change. Rates are not among them: see docs/howto/lossless.md.
var shows = []string{"ets show", "-j ets show", "-j -p ets show", "ets show ets-cap will", "ets show reco-tc-bw cbs prio-tc",
	"pfc show", "-s pfc show", "-j -s pfc show", "pfc show indications delay", "app show", "-j app show", "-j -p app show", "-N app show",
	"app show dgram-port-prio default-prio dscp-prio", "dcbx show", "-j dcbx show", "-j -p dcbx show",
	"buffer show", "-j buffer show", "-j -p buffer show", "buffer show total-size prio-buffer"}

// onDev puts the netdev behind the object and the verb.
func onDev(line, dev string) []string {
	words := strings.Fields(line)
	at := 0
	for strings.HasPrefix(words[at], "-") {
		at++
	}
	return append(append(append([]string{}, words[:at+2]...), "dev", dev), words[at+2:]...)
}

// tapirDCB runs tapir dcb.
func tapirDCB(line, dev string) (text string, err error) {
	var out bytes.Buffer
	cmd := dcb.Command(nil, nil)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(onDev(line, dev))
	cmd.SetOut(&out)
	err = cmd.Execute()
	return out.String(), err
}

// stock runs dcb(8) of iproute2 on the NIC, once for each line, and returns what each printed.
func (n *nic) stock(t *testing.T, lines ...string) []string {
	t.Helper()
	script := ""
	for _, l := range lines {
		script += "dcb " + strings.Join(onDev(l, n.Name()), " ") + " 2>&1; echo '# exit' $?\n"
	}
	r := n.start(uapi.Options{Argv: []string{"sh", "-c", script}})
	r.end(t)
	said := strings.SplitAfter(r.said(), "# exit ")
	if len(said) != len(lines)+1 {
		t.Fatalf("%d lines printed\n%s", len(lines), r.said())
	}
	for i := range lines { // the exit code stands before the next one's output
		said[i], said[i+1] = strings.TrimSuffix(said[i], "# exit ")+said[i+1][:1], strings.TrimPrefix(said[i+1][1:], "\n")
	}
	return said[:len(lines)]
}

// MF-25 Each change by dcb(8) of iproute2 under tapir run acts on the NIC as one by tapir dcb does, and then both print the
// same octets of every object, in text and in JSON.
func TestStockDCB(t *testing.T) {
	wire, _, err := link.NewWire("dcba", "dcbb", false)
	if err != nil {
		t.Fatal(err)
	}
	n := newNIC(t, wire, "10.0.0.1/24")
	for i, set := range []struct{ words, setting, want string }{
		{"dcbx set host ieee", "dcbx", "off"},
		{"ets set tc-tsa all:strict 0:ets 1:ets tc-bw 0:30 1:70 prio-tc all:0 3:1", "tc_bw", "0:30,1:70"},
		{"ets set willing on", "dcb_willing", "ets"},
		{"ets set reco-tc-bw 0:40 1:60", "tc_bw", "0:40,1:60"},
		{"ets set prio-tc 5:5", "prio_tc", "3:1,5:5"},
		{"ets set tc-tsa all:strict willing off", "tc_bw", "all:0"},
		{"pfc set prio-pfc 3:on", "prio_pfc", "3:on"},
		{"buffer set prio-buffer all:0 3:1 buffer-size 1:1M 0:100000", "buffer_size", "0:100000,1:1M"},
		{"buffer set prio-buffer 4:2 buffer-size 0:0 2:96Kb", "prio_buffer", "3:1,4:2"},
		{"pfc set prio-pfc all:on 3:off", "prio_pfc", "0:on,1:on,2:on,4:on,5:on,6:on,7:on"},
		{"app add dscp-prio 26:3 0:0 EF:5 dgram-port-prio 4791:3 4791:4 default-prio 1", "dscp_prio", "0:0,26:3,46:5"},
		{"app add ethtype-prio 0x8906:3 stream-port-prio 3260:4 port-prio 5000:5", "dcb_app",
			"udp:4791:3,udp:4791:4,ethtype:0x0:1,ethtype:0x8906:3,tcp:3260:4,port:5000:5"},
		{"app replace dscp-prio 26:4 dgram-port-prio 4791:6", "dscp_prio", "0:0,26:4,46:5"},
		{"app del dscp-prio 0:0 port-prio 5000:5", "dcb_app", "ethtype:0x0:1,ethtype:0x8906:3,tcp:3260:4,udp:4791:6"},
		{"app flush dscp-prio", "trust", "pcp"},
		{"app flush", "dcb_app", "none"},
		{"dcbx set lld-managed ieee static", "dcbx_static", "1"},
		{"dcbx set lld-managed ieee cee", "dcbx", "dynamic"},
		{"dcbx set lld-managed ieee", "lldp", "nearest-bridge"},
		{"dcbx set host", "dcbx", "off"},
	} {
		lines := shows
		if i%2 == 0 {
			lines = append([]string{set.words}, shows...)
		} else if _, err := tapirDCB(set.words, n.Name()); err != nil {
			t.Fatalf("%s: %v", set.words, err)
		}
		said := n.stock(t, lines...)
		if got := n.setting(t, set.setting); got != set.want {
			t.Errorf("after %s %s is %s, not %s\n%s", set.words, set.setting, got, set.want, said[0])
		}
		for k, s := range shows {
			mine, err := tapirDCB(s, n.Name())
			if theirs := said[k+len(lines)-len(shows)]; err != nil || mine+"0" != theirs {
				t.Errorf("after %s: %s: dcb(8) prints\n%s\ntapir dcb\n%s%v", set.words, s, theirs, mine, err)
			}
		}
	}
}

// What a neighbor recommends is what show prints of a willing NIC, next to what the NIC recommends itself; a change by
// dcb(8) of the neighbor comes by DCBX. What a NIC refuses is told in one line, and nothing changes; under tapir run
// that line comes beside what dcb(8) makes of the error.
func TestDCBOfNeighbor(t *testing.T) {
	a, b := newNICs(t, "dcbc", "dcbd")
	must := func(n *nic, line string) (text string) {
		t.Helper()
		text, err := tapirDCB(line, n.Name())
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		return text
	}
	must(a, "dcbx set lld-managed ieee")
	must(a, "ets set willing on reco-tc-tsa 0:ets reco-tc-bw 0:100")
	must(b, "dcbx set lld-managed ieee")
	b.stock(t, "ets set prio-tc 3:1 tc-tsa 0:ets 1:ets tc-bw 0:20 1:80")
	const want = "tc-bw 0:20 1:80 2:0 3:0 4:0 5:0 6:0 7:0 \nreco-tc-bw 0:100 1:0 2:0 3:0 4:0 5:0 6:0 7:0 \n"
	until(t, func() string {
		if got := must(a, "ets show tc-bw reco-tc-bw"); got != want {
			return got
		}
		return ""
	})
	if said := a.stock(t, "ets show tc-bw reco-tc-bw"); said[0] != want+"0" {
		t.Errorf("dcb(8) prints %s", said[0])
	}
	must(a, "dcbx set host")
	for _, c := range []struct{ line, want string }{
		{"ets set tc-tsa 1:ets tc-bw 0:30 1:60", "tc_bw: the weights of the ETS classes have the sum 90, not 100"},
		{"ets set prio-tc 0:8", "prio-tc: priority 0: traffic class 8 is over 7"},
		{"ets set tc-tsa 1:cbs", "tc-tsa: class 1: the NIC selects classes by strict or ets"},
		{"ets set pg-bw 0:100", "pg-bw: the NIC has shares of what it sends alone: set tc-bw"},
		{"ets set tc-bw 0:50 1:50 reco-tc-bw 0:40 1:60", "tc-bw and reco-tc-bw differ: a NIC recommends what it administers"},
		{"pfc set delay 5 prio-pfc 3:on", "delay: a NIC sends PFC by the fill of its receive queues, and needs no delay"},
		{"pfc set macsec-bypass on", "macsec-bypass: the NIC has no MACsec"},
		{"maxrate set tc-maxrate 0:5Tbit", "tc-maxrate: class 0: 5000000000 kb/s is over 4294967295"},
		{"app add dscp-prio all:1", "app: the table has room for 32 entries"},
		{"app del dgram-port-prio 4791:3", "app: the NIC does not administer udp:4791:3"},
		{"dcbx set host cee", "dcbx: with host there is no DCBX, and only ieee: give lld-managed"},
		{"dcbx set host lld-managed", "dcbx: give host or lld-managed, with cee, ieee or both, and static"},
		{"buffer set prio-buffer 0:8", "prio-buffer: priority 0: buffer 8 is over 7"},
		{"buffer set buffer-size 0:8M", "buffer_size: all buffers have 8732672 octets; the NIC has 8388608"},
		{"buffer set buffer-size 0:big", `buffer-size: "0:big": expected a size such as 64K or 1M, not "big"`},
		{"ets set tc-bw 0:x", `tc-bw: "0:x": expected a number from 0 to 255`},
		{"ets set tc-bw 8:1", `tc-bw: "8:1": expected KEY:VALUE with a key from 0 to 7, or all`},
		{"ets set tc-bw", "tc-bw: a value is missing"},
		{"ets set foo", `what is "foo"?`},
		{"ets show foo", `what is "foo"?`},
		{"app add ethtype-prio 5:1", `ethtype-prio: "5:1": expected an EtherType from 0x600 to 0xffff`},
		{"app add dscp-prio 64:1", `dscp-prio: "64:1": expected a DSCP from 0 to 63, or its name`},
		{"app add port-prio 5:8", `port-prio: "5:8": expected a priority from 0 to 7`},
		{"maxrate set tc-maxrate 0:fast", `tc-maxrate: "0:fast": expected a rate such as 100Mbit or 2.5Gbit, not "fast"`},
	} {
		before := must(a, "ets show") + must(a, "-s pfc show") + must(a, "app show") + must(a, "maxrate show") + must(a, "dcbx show") + must(a, "buffer show")
		_, err := tapirDCB(c.line, a.Name())
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, not %s", c.line, err, c.want)
		}
		if after := must(a, "ets show") + must(a, "-s pfc show") + must(a, "app show") + must(a, "maxrate show") + must(a, "dcbx show") + must(a, "buffer show"); after != before {
			t.Errorf("%s changed\n%s to\n%s", c.line, before, after)
		}
	}
	must(b, "dcbx set host")
	must(b, "pfc set prio-pfc 3:on")
	f := buf.NewPool(1, 0).Get(pause.Len)
	(&pause.Frame{PFC: true, Enabled: 1 << 3, Timers: [8]uint16{3: 1}}).Put(f.Extend(pause.Len))
	if err := b.DoWait(func(now frame.Time) { b.Device.Receive(frame.Wire, []*frame.Frame{f}, now) }); err != nil {
		t.Fatal(err)
	}
	const counted = "indications 0:0 1:0 2:0 3:1 4:0 5:0 6:0 7:0 \nrequests 0:0 1:0 2:0 3:0 4:0 5:0 6:0 7:0 \n"
	if got, stock := must(b, "pfc show indications requests"), b.stock(t, "pfc show indications requests"); got != counted || stock[0] != got+"0" {
		t.Errorf("after a PFC frame:\n%s%s", got, stock[0])
	}
	must(a, "dcbx set lld-managed cee")
	if _, err := tapirDCB("ets show", a.Name()); err == nil || !strings.HasPrefix(err.Error(), "the NIC has no values of IEEE") {
		t.Errorf("%v", err)
	}
	var told bytes.Buffer
	said := a.start(uapi.Options{Argv: []string{"dcb", "app", "add", "dev", a.Name(), "default-prio", "1"}, Log: &told})
	if said.end(t) != 1 || said.said() != "Attribute write: Invalid argument\n" ||
		told.String() != "tapir: dcbc: DCBX is CEE: calls of IEEE are for dcbx set lld-managed ieee, or host\n" {
		t.Errorf("%s%s", said.said(), &told)
	}
	// The kernel has kb/s; dcb(8) of older iproute2 writes octets per second, which the user is told.
	told.Reset()
	said = b.start(uapi.Options{Argv: []string{"dcb", "maxrate", "set", "dev", b.Name(), "tc-maxrate", "1:100Mbit"}, Log: &told})
	code := said.end(t)
	if got := b.setting(t, "tc_maxrate"); code != 0 || !strings.HasPrefix(told.String(), "tapir: dcbd: tc_maxrate is 1:1") {
		t.Errorf("tc_maxrate is %s\n%s", got, &told)
	}
	must(b, "maxrate set tc-maxrate all:1Gbit 1:2500Mbit 2:1.5mbps")
	for line, want := range map[string]string{
		"maxrate show":    "tc-maxrate 0:1Gbit 1:2500Mbit 2:12Mbit 3:1Gbit 4:1Gbit 5:1Gbit 6:1Gbit 7:1Gbit \n",
		"-i maxrate show": "tc-maxrate 0:976562Kibit 1:2384Mibit 2:11718Kibit 3:976562Kibit 4:976562Kibit 5:976562Kibit 6:976562Kibit 7:976562Kibit \n",
		"-j maxrate show": `{"tc_maxrate":[125000000,312500000,1500000,125000000,125000000,125000000,125000000,125000000]}` + "\n",
	} {
		if got := must(b, line); got != want {
			t.Errorf("%s prints\n%s, not\n%s", line, got, want)
		}
	}
	if got := b.setting(t, "tc_maxrate"); got != "0:1G,1:2500M,2:12M,3:1G,4:1G,5:1G,6:1G,7:1G" {
		t.Errorf("tc_maxrate is %s", got)
	}
}

// setting is the value of one.
func (n *nic) setting(t *testing.T, name string) string {
	t.Helper()
	var list []struct{ Name, Value string }
	if err := n.ctl.Show(t.Context(), "params", &list); err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		if p.Name == name {
			return p.Value
		}
	}
	return ""
}

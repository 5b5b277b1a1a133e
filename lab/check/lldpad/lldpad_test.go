// Package lldpad holds DCBX of a NIC against lldpad, the agent of Linux, in a guest: what one side
// recommends the other uses. And plain LLDP against lldpd.
package lldpad

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tapir/lab/check/testenv"
	"tapir/lab/host/netns"
	"tapir/lab/host/peer"
	"tapir/lab/tool/tshark"
)

//go:embed testdata/start.sh
var startLLDPAD string

// cable has a NIC at one end.
type cable struct {
	t     *testing.T
	tapir string    // the program
	ns    *netns.NS // of the NIC; nil: that of the test
	guest *peer.Guest
}

// ours runs tapir, and returns what it prints.
func (l *cable) ours(args ...string) string {
	l.t.Helper()
	out, err := exec.CommandContext(l.t.Context(), l.tapir, args...).CombinedOutput()
	if err != nil {
		l.t.Fatalf("tapir %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// theirs runs a command in the guest.
func (l *cable) theirs(command string) string {
	l.t.Helper()
	var out bytes.Buffer
	if code, err := l.guest.Run(l.t.Context(), time.Minute, command, &out); err != nil || code != 0 {
		l.t.Fatalf("%s: exit code %d, %v: %s", command, code, err, out.String())
	}
	return out.String()
}

// shows waits until tapir show dcb has these rows, and those of the guest's dcb are there too.
func (l *cable) shows(what string, rows map[string]string, dcb ...string) {
	l.t.Helper()
	var list []struct{ Attribute, Value string }
	got, guest := map[string]string{}, ""
	missing := func() (bad []string) {
		testenv.Must(l.t, json.Unmarshal([]byte(l.ours("show", "nic0", "dcb", "--json")), &list))
		clear(got)
		for _, a := range list {
			got[a.Attribute] = a.Value
		}
		for name, want := range rows {
			if got[name] != want {
				bad = append(bad, fmt.Sprintf("%s is %s, not %s", name, got[name], want))
			}
		}
		guest = l.theirs("dcb ets show dev eth0; dcb pfc show dev eth0; dcb app show dev eth0")
		for _, line := range dcb {
			if !strings.Contains(guest, line+" \n") {
				bad = append(bad, "the guest does not show "+line)
			}
		}
		return bad
	}
	begun := time.Now()
	for deadline := begun.Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		bad := missing()
		if len(bad) == 0 {
			l.t.Logf("%s: after %v", what, time.Since(begun).Round(10*time.Millisecond))
			return
		}
		if time.Now().After(deadline) {
			l.t.Fatalf("%s: %s\n%s", what, strings.Join(bad, "\n"), guest)
		}
	}
}

// start is a NIC and a guest on a cable.
func start(t *testing.T) *cable {
	if err := peer.Available(); err != nil {
		t.Skip(err)
	}
	image, err := peer.Build(t.Context(), peer.CacheDir(), os.Stderr)
	testenv.Must(t, err)
	dir := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", dir) // other NICs of this machine are not to be found
	l := &cable{t: t}
	l.tapir, err = testenv.Build(filepath.Join(dir, "program"))
	testenv.Must(t, err)
	socket := filepath.Join(dir, "wire.sock")
	l.guest, err = peer.Start(t.Context(), image, peer.Config{Stream: socket, Life: 10 * time.Minute,
		IP: []netip.Prefix{netip.MustParsePrefix("10.0.0.2/24")}})
	testenv.Must(t, err)
	t.Cleanup(l.guest.Stop)
	l.run("nic", "--name", "nic0", "--ip", "10.0.0.1/24", "--wire", "stream:"+socket)
	return l
}

// run runs tapir until stop, or until the test ends; it has begun when it has said something.
func (l *cable) run(args ...string) (stop func()) {
	l.t.Helper()
	cmd := exec.Command(l.tapir, args...)
	in, out, err := os.Pipe()
	testenv.Must(l.t, err)
	cmd.Stdout, cmd.Stderr = out, out
	begin := (*exec.Cmd).Start
	if l.ns != nil {
		begin = l.ns.Start
	}
	testenv.Must(l.t, begin(cmd), out.Close())
	stop = sync.OnceFunc(func() {
		done := testenv.Guard(l.t, cmd.Process.Pid, nil)
		defer done()
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			l.t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			l.t.Errorf("tapir %s: %v", strings.Join(args, " "), err)
		}
		in.Close()
	})
	l.t.Cleanup(stop)
	_, err = in.Read(make([]byte, 1))
	testenv.Must(l.t, err)
	return stop
}

// IEEE DCBX and CEE DCBX, each in both directions.
//
// MF-21 MF-22 MF-25 MF-27
func TestDCBX(t *testing.T) {
	frames := filepath.Join(t.TempDir(), "lldp.pcapng")
	l := start(t)
	captured := l.run("capture", "nic0", "-w", frames)
	const classes = " prio_tc=all:0,3:1,4:2 tc_bw=0:25,1:35,2:40 prio_pfc=3:on"
	set := func(settings string) { l.ours(append([]string{"set", "nic0"}, strings.Fields(settings)...)...) }
	unset := func() { set("prio_tc=default tc_bw=all:0 prio_pfc=all:off dcb_app=none dcb_willing=all") }
	lldpad := func(version string) {
		l.theirs("cat >/tmp/start.sh <<'END'\n" + startLLDPAD + "END\nsh /tmp/start.sh " + version)
	}
	recommended := []string{"tc-bw 0:25 1:35 2:40 3:0 4:0 5:0 6:0 7:0", "prio-tc 0:0 1:0 2:0 3:1 4:2 5:0 6:0 7:0",
		"prio-pfc 0:off 1:off 2:off 3:on 4:off 5:off 6:off 7:off"}

	lldpad("ieee")
	l.theirs(`put() { lldptool -T -i eth0 -V "$@"; }
put ETS-CFG enableTx=yes willing=yes && put ETS-REC enableTx=yes && put PFC enableTx=yes willing=yes && put APP enableTx=yes`)
	set("lldp=nearest-bridge dcbx=ieee dcb_app=udp:4791:3,tcp:5000:4" + classes)
	l.shows("IEEE, the NIC recommends", map[string]string{"remote_dcbx": "ieee", "remote_tc_bw": "0:25,1:35,2:40",
		"remote_prio_pfc": "3:on (willing)", "remote_app": "udp:4791:3,tcp:5000:4", "oper_prio_pfc": "3:on"},
		append(recommended, "tc-tsa 0:ets 1:ets 2:ets 3:strict 4:strict 5:strict 6:strict 7:strict",
			"stream-port-prio 5000:4", "dgram-port-prio 4791:3")...)

	unset()
	l.theirs(`put() { lldptool -T -i eth0 -V "$@"; }
ets='tsa=0:ets,1:ets,2:strict,3:ets,4:strict,5:strict,6:strict,7:strict up2tc=0:0,1:0,2:0,3:1,4:2,5:0,6:0,7:3 tcbw=20,30,0,50,0,0,0,0'
put ETS-CFG willing=no $ets && put ETS-REC $ets && put PFC willing=no enabled=3,4 && put APP app=5,3,4791 && put APP app=4,2,5000`)
	l.shows("IEEE, the guest recommends", map[string]string{"oper_prio_tc": "3:1,4:2,7:3 (willing)",
		"oper_tc_bw": "0:20,1:30,3:50", "oper_tc_tsa": "0:ets,1:ets,3:ets",
		"oper_prio_pfc": "3:on,4:on (willing)", "oper_app": "tcp:5000:4,udp:4791:5 (willing)", "protocol_rocev2": "priority 5, tc 0"},
		"prio-pfc 0:off 1:off 2:off 3:on 4:on 5:off 6:off 7:off")
	if c := l.ours("show", "nic0", "counters"); !strings.Contains(c, "rx_prio4_pause ") || strings.Contains(c, "rx_prio5_pause ") {
		t.Errorf("the port does not act on PFC of priorities 3 and 4: %s", c)
	}

	lldpad("cee")
	l.theirs("for f in pg pfc app:fcoe app:iscsi; do dcbtool sc eth0 $f e:1 a:1 w:1; done")
	set("dcbx=cee dcb_willing=none dcb_app=port:3260:5,ethtype:0x8906:6" + classes)
	l.shows("CEE, the NIC recommends", map[string]string{"remote_dcbx": "cee, acknowledged", "oper_tc_bw": "0:25,1:35,2:40",
		"oper_prio_pfc": "3:on", "protocol_iscsi": "priority 5, tc 0"},
		append(recommended, "port-prio 3260:5", "ethtype-prio 8906:6")...)

	unset()
	l.theirs(`put() { dcbtool sc eth0 "$@"; }
put pg w:0 && put pg pgid:00012223 pgpct:10,20,30,40,0,0,0,0 && put pfc w:0 && put pfc pfcup:00011000 &&
put app:iscsi w:0 appcfg:20 && put app:fcoe a:0 && put app:fip a:0`)
	l.shows("CEE, the guest recommends", map[string]string{"oper_dcbx": "cee, acknowledged",
		"oper_prio_tc": "3:1,4:2,5:2,6:2,7:3 (willing)", "oper_tc_bw": "0:10,1:20,2:30,3:40",
		"oper_prio_pfc": "3:on,4:on (willing)", "oper_app": "port:3260:5 (willing)"},
		"prio-tc 0:0 1:0 2:0 3:1 4:2 5:2 6:2 7:3")

	// Neither is willing: PFC has to be the same, priority groups have not.
	set("dcb_willing=none" + classes)
	l.shows("CEE, nobody is willing", map[string]string{"oper_prio_tc": "3:1,4:2", "oper_prio_pfc": "3:on (error)",
		"remote_prio_tc": "3:1,4:2,5:2,6:2,7:3", "remote_prio_pfc": "3:on,4:on (error)"})

	set("lldp=none")
	l.shows("the NIC says good-bye", map[string]string{"oper_prio_tc": "3:1,4:2", "oper_prio_pfc": "3:on"})
	captured()
	if tshark.Available() != nil {
		return
	}
	rows, err := tshark.Fields(t.Context(), frames, tshark.Options{Filter: "lldp"}, "eth.src", "_ws.malformed")
	testenv.Must(t, err)
	from := map[string]int{}
	for _, r := range rows {
		if from[r[0]]++; r[1] != "" {
			t.Errorf("tshark: %q", r)
		}
	}
	if len(from) != 2 || len(rows) < 12 {
		t.Errorf("tshark has seen LLDPDUs of %v", from)
	}
}

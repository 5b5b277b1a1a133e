package programs

import (
	"os/exec"
	"strings"
	"testing"

	"tapir/lab/tool/tshark"
)

// On VLAN 100 both NICs have addresses, of which the operating system knows nothing.
const (
	vlanIP     = "--vlan-ip=100=10.10.0.{host}/24"
	vlanServer = "10.10.0.1"
	vlanClient = "10.10.0.2"
)

// roceVLANCells are programs on VLAN 100: index 7 is its IPv4 address with RoCE v2. Service
// levels are -S of perftest and -l of pingpong, types of service -T and -t.
var roceVLANCells = []Cell{
	{Name: "ib_write_bw", Server: "ib_write_bw -x 7 -S 3 -n 20 -F", Client: "ib_write_bw -x 7 -S 3 -n 20 -F " + IPv4,
		Want: "65536", Socket: true},
	{Name: "ib_send_lat UD", Server: "ib_send_lat -x 7 -S 5 -n 20 -F -c UD",
		Client: "ib_send_lat -x 7 -S 5 -n 20 -F -c UD " + IPv4, Want: "t_avg", Socket: true},
	{Name: "ibv_rc_pingpong", Server: "ibv_rc_pingpong -g 7 -l 6 -n 100",
		Client: "ibv_rc_pingpong -g 7 -l 6 -n 100 " + IPv4, Want: "100 iters", Socket: true},
	{Name: "rping", Server: "rping -s -V -C 20", Client: "rping -c -V -C 20 -a " + vlanServer},
	{Name: "ib_write_bw -R", Server: "ib_write_bw -R -T 72 -F -n 50",
		Client: "ib_write_bw -R -T 72 -F -n 50 " + vlanServer, Want: "65536"},
	{Name: "udaddy", Server: "udaddy -c 4 -b " + vlanServer, Client: "udaddy -c 4 -t 16 -s " + vlanServer,
		Want: "return status 0"},
	{Name: "mckey", Server: "mckey -b " + vlanServer + " -m 239.1.2.3 -C 5",
		Client: "mckey -b " + vlanClient + " -m 239.1.2.3 -C 5 -s", Want: "return status 0", Joins: true},
}

// TestRoCEVLAN runs stock programs on the GIDs of a VLAN: all of their frames are tagged, with
// the priority of their service level or type of service, and tshark finds nothing wrong.
func TestRoCEVLAN(t *testing.T) {
	ctx := t.Context()
	l := roceLabWith(t, vlanIP)
	file, stop, err := l.Capture(ctx, "vlan.pcapng")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range roceVLANCells {
		t.Run(c.Name, func(t *testing.T) { runCell(t, l, c, Auto) })
	}
	text := l.says(t, "cat", "/sys/class/infiniband/rxe0/ports/1/gid_attrs/ndevs/7",
		"/sys/class/infiniband/rxe0/ports/1/gids/7")
	if !strings.Contains(text, "tap0.100") || !strings.Contains(text, "ffff:0a0a:0001") {
		t.Errorf("entry 7: %s", text)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	tags, err := tshark.Lines(ctx, file, tshark.Options{Disable: []string{"rpcordma"}}, "-Y", "infiniband",
		"-T", "fields", "-e", "vlan.id", "-e", "vlan.priority")
	seen := map[string]int{}
	for _, line := range tags {
		seen[strings.Join(strings.Fields(line), "/")]++
	}
	for _, want := range []string{"100/3", "100/5", "100/6", "100/0", "100/2"} {
		if seen[want] == 0 {
			t.Errorf("no frame with tag %s: %v, %v", want, seen, err)
		}
	}
	if seen[""] > 0 {
		t.Errorf("frames without a tag: %v", seen)
	}
	if out, err := exec.CommandContext(ctx, tapir, "inspect", file).CombinedOutput(); err != nil {
		t.Errorf("tapir inspect: %v: %s", err, out)
	}
	bad, err := tshark.Lines(ctx, file, tshark.Options{Disable: []string{"rpcordma"}}, "-Y", "_ws.malformed")
	if err != nil || len(bad) != 0 {
		t.Errorf("tshark: malformed %.3q, %v", bad, err)
	}
}

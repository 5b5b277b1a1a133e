package lldpad

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"tapir/lab/check/testenv"
	"tapir/lab/host/link"
	"tapir/lab/host/netns"
)

// lldpd and a NIC see each other's chassis, port, name and speeds, until either says good-bye.
//
// MF-28
func TestLLDPD(t *testing.T) {
	if _, err := exec.LookPath("lldpd"); err != nil {
		t.Skip(err)
	}
	if !netns.Privileged() {
		t.Skip("only root may make network namespaces here")
	}
	dir := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", dir)
	tapir, err := testenv.Build(filepath.Join(dir, "program"))
	testenv.Must(t, err)
	s := testenv.Space(t, link.Quiet)
	l := &cable{t: t, tapir: tapir, ns: s.NS}
	for _, words := range [][]string{{"add", "v0", "type", "veth", "peer", "name", "v1", "address", "02:00:00:00:00:02"}, {"set", "v0", "up"}, {"set", "v1", "up"}} {
		if out, err := testenv.Run(t, s.NS, append([]string{"ip", "link"}, words...)...); err != nil {
			t.Fatalf("ip link %v: %v: %s", words, err, out)
		}
	}
	l.run("nic", "--name", "nic0", "--mac", "02:00:00:00:00:01", "--ip", "10.0.0.1/24", "--wire", "dev:v0", "--lldp", "nearest-bridge")
	judge := exec.Command("unshare", "--mount", "sh", "testdata/lldpd.sh", "v1")
	judge.Stderr = os.Stderr
	in, err := judge.StdinPipe()
	testenv.Must(t, err)
	out, err := judge.StdoutPipe()
	testenv.Must(t, err, s.NS.Start(judge))
	defer testenv.Guard(t, judge.Process.Pid, nil)()
	var seen []string
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "."; {
		seen = append(seen, lines.Text())
	}
	for _, want := range []string{"chassis.mac=02:00:00:00:00:01", "chassis.name=nic0", "chassis.Station.enabled=on", "port.mac=02:00:00:00:00:01",
		"port.ttl=121", "port.auto-negotiation.enabled=yes", "port.auto-negotiation.1000Base-X.fd=yes"} {
		if !slices.Contains(seen, "lldp.v1."+want) {
			t.Errorf("lldpd does not show %s, but %q", want, seen)
		}
	}
	ports := func() (ids []string) {
		var list []struct{ System, Port string }
		testenv.Must(t, json.Unmarshal([]byte(l.ours("show", "nic0", "lldp", "--json")), &list))
		for _, a := range list {
			if a.System != "" {
				ids = append(ids, a.Port)
			}
		}
		return ids
	}
	testenv.Until(t, "the NIC sees lldpd", func() bool { return slices.Equal(ports(), []string{"02:00:00:00:00:02"}) })
	testenv.Must(t, in.Close())
	_, _ = io.Copy(io.Discard, out)
	testenv.Must(t, judge.Wait())
	testenv.Until(t, "lldpd says good-bye", func() bool { return len(ports()) == 0 })
}

package labs

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"tapir/lab/run/result"
	"tapir/lab/run/virtual"
	"tapir/lab/tool/tshark"
	"tapir/lab/topo"
)

const twoNICs = "nodes:\n  a: {kind: nic, ip: 10.0.0.1/24}\n  b: {kind: nic, ip: 10.0.0.2/24}\nlinks: [[a, b]]\nsteps:\n"

// Check finds all mistakes of a file, each once, in the order of its lines.
func TestCheck(t *testing.T) {
	if err := tshark.Available(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		file string
		want []string // place and beginning
	}{
		{twoNICs + `  - {fault: a-c, loss: 1%}
  - {perf: write-bw, client: a, server: x}
  - {pref: write-bw, client: a, server: b}
  - expect: {node: a, counter: rx_packets, min: 3, max: 1}
  - {perf: write-bw, clientt: a, server: b}
`, []string{"6:13: there is no link a-c", "7:41: there is no node x", "8:6: pref: a step begins with", "9:", "10:22: clientt: unknown key"}},
		{"nodes:\n  a: {kind: nix}\n  b: {kind: nic, ipp: 10.0.0.2/24}\nlinks: [[a]]\nsteps:\n  - wait: z\n",
			[]string{"2:13: kind: expected one of", "3:18: ipp: unknown key", "4:9: expected two nodes", "6:11: no program called"}},
		{twoNICs + `  - expect: {node: a, counter: rx_pakcets}
  - expect: {link: a-b, filter: "tcp.flgs == 1"}
  - expect: {node: a, counter: tap_drop_transmit_queue_full, max: 0}
  - wait: {node: b, counter: wurst}
`, []string{"6: counter: a has no rx_pakcets: did you mean rx_packets", `7: filter: "tcp.flgs == 1": `, "9: counter: b has no wurst: tapir show b counters"}},
		{"steps:\n", []string{"1:"}},
	} {
		name := filepath.Join(t.TempDir(), "lab.yaml")
		if err := os.WriteFile(name, []byte(tt.file), 0o600); err != nil {
			t.Fatal(err)
		}
		all, err := check(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		good := len(all) == len(tt.want)
		var got []string
		for i, m := range all {
			got = append(got, strings.TrimPrefix(m.place(), name+":")+": "+m.What)
			good = good && strings.HasPrefix(got[i], tt.want[i])
		}
		if !good {
			t.Errorf("%s\n%s\nwant %q", tt.file, strings.Join(got, "\n"), tt.want)
		}
	}
}

func command(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	root := &cobra.Command{Use: "tapir", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(Command("test"))
	root.SetArgs(append([]string{"lab"}, args...))
	root.SetOut(&out)
	root.SetErr(&out)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

// Each kind of new lab has no mistake and passes; nothing is written over.
func TestNew(t *testing.T) {
	for kind := range kinds {
		name := filepath.Join(t.TempDir(), "x", kind+".yaml")
		if out, err := command(t, "new", name, "--kind", kind); err != nil || !strings.HasPrefix(out, "wrote "+name) {
			t.Fatal(out, err)
		}
		if out, err := command(t, "new", name); err == nil || !strings.Contains(err.Error(), "exists: choose another name") {
			t.Error(out, err)
		}
		if out, err := command(t, "check", name); err != nil || out != "ok "+name+"\n" {
			t.Error(out, err)
		}
		lab, err := topo.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := virtual.Run(t.Context(), lab, virtual.Options{}); err != nil || r.Verdict != result.Passed {
			t.Errorf("%s: %v %+v", kind, err, r)
		}
	}
	if _, err := command(t, "new", filepath.Join(t.TempDir(), "l.yaml"), "--kind", "x"); err == nil || !strings.Contains(err.Error(), "want one of fabric, ptp, rdma") {
		t.Error(err)
	}
}

func TestInspect(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lab.yaml")
	if err := os.WriteFile(name, []byte(newFabric), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := command(t, "inspect", name)
	lines := strings.Split(out, "\n")
	for _, want := range []string{"h1    hfi      10.2.0.1/24", "h1-s  h1, s    Omni-Path", "link h2-s down"} {
		if err != nil || !slices.Contains(lines, want) {
			t.Errorf("%v: no %q in\n%s", err, want, out)
		}
	}
	if out, err := command(t, "inspect", "--json", name); err != nil || !strings.Contains(out, `"schema": 1`) || !strings.Contains(out, `"kind": "manager"`) {
		t.Error(out, err)
	}
	if _, err := command(t, "inspect", "no-such-lab"); err == nil {
		t.Error("a lab that is not up")
	}
}

// A lab that fails leaves one archive that runs again with the same end.
func TestArchive(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "bad.yaml")
	text := "clock: virtual\nseed: 7\n" + twoNICs + "  - {perf: verify, client: a, server: b, size: 64}\n  - expect: {link: a-b, counter: lost, min: 1}\n"
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := command(t, "run", "--out", filepath.Join(dir, "out"), name)
	if err == nil || !strings.Contains(out, "to look into it, or to hand it on: "+filepath.Join(dir, "out", "bad-failed.tar.gz")) {
		t.Fatal(out, err)
	}
	cmd := exec.Command("tar", "xzf", "out/bad-failed.tar.gz")
	if cmd.Dir = dir; cmd.Run() != nil {
		t.Fatal("tar")
	}
	for file, want := range map[string]string{"README.txt": "tapir lab run --clock virtual --seed 7 --out out lab.yaml", "lab.yaml": "seed: 7", "out/log.txt": "FAIL", "out/result.json": `"fail"`, "out/lab.pcapng": ""} {
		got, err := os.ReadFile(filepath.Join(dir, "bad", file))
		if err != nil || len(got) == 0 || !strings.Contains(string(got), want) {
			t.Errorf("%s: %v\n%s", file, err, got)
		}
	}
	again, err := command(t, "run", "--clock", "virtual", "--seed", "7", filepath.Join(dir, "bad", "lab.yaml"))
	if err == nil || !strings.Contains(again, "FAIL  line 9: expect: a-b: lost: 1 or more: it is 0") {
		t.Error(again, err)
	}
}

// A workload whose latency exceeds a bound fails, by any clock.
func TestLatency(t *testing.T) {
	for bound, want := range map[string]string{
		"{perf: send-lat, client: a, server: b, iters: 20, latency: {p50: 1s, p999: 1s}}": "",
		"{perf: write-lat, client: a, server: b, iters: 20, latency: {p99: 1ns}}":         "latency: p99 is",
		"{perf: write-bw, client: a, server: b, latency: {p99: 1s}}":                      "latency: is of write-lat and send-lat",
	} {
		name := filepath.Join(t.TempDir(), "lab.yaml")
		if err := os.WriteFile(name, []byte("clock: virtual\n"+twoNICs+"  - "+bound+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := command(t, "run", name)
		if err != nil {
			out += err.Error()
		}
		if (err == nil) != (want == "") || !strings.Contains(out, want) {
			t.Errorf("%s: %v\n%s", bound, err, out)
		}
	}
}

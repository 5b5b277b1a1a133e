// Package k8s tests what tapir has for Kubernetes against the programs and types of
// its makers, which users of tapir shall not inherit.
package k8s

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tapir/lab/check/testenv"
)

// times is how often a pod comes and goes.
var times = flag.Int("times", 10, "how often a pod comes and goes")

// network is a configuration list as Multus hands it on.
const network = `{
  "cniVersion": "1.0.0", "name": "rdma",
  "plugins": [{
    "type": "tapir-cni", "capabilities": {"ips": true}, "bridge": "%s", "runDir": "%s", "nic": {"frames": "gso"},
    "ipam": {"type": "host-local", "dataDir": "%s", "ranges": [[{"subnet": "10.77.0.0/24"}]],
      "routes": [{"dst": "10.78.0.0/16", "gw": "10.77.0.1"}]}
  }]
}`

// node is a machine with plug-ins.
type node struct {
	t      *testing.T
	dir    string
	bridge string
	env    []string
}

func newNode(t *testing.T) *node {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("a CNI plug-in runs as root")
	}
	n := &node{t: t, dir: t.TempDir(), bridge: fmt.Sprintf("tc%d", os.Getpid()%100000)}
	plugins := filepath.Join(n.dir, "bin")
	tapir, err := testenv.Build(plugins)
	testenv.Must(t, err, os.Symlink(tapir, filepath.Join(plugins, "tapir-cni")))
	if out, err := exec.Command("go", "build", "-o", plugins, "github.com/containernetworking/cni/cnitool").CombinedOutput(); err != nil {
		t.Fatalf("cnitool: %v: %s", err, out)
	}
	config := filepath.Join(n.dir, "net.d")
	text := fmt.Sprintf(network, n.bridge, n.runDir(), filepath.Join(n.dir, "ipam"))
	testenv.Must(t, os.MkdirAll(config, 0o755), os.WriteFile(filepath.Join(config, "10-rdma.conflist"), []byte(text), 0o644))
	n.env = append(n.env, "CNI_PATH="+plugins+":/usr/lib/cni:/usr/local/lib/cni", "NETCONFPATH="+config,
		"CNI_IFNAME=net1")
	t.Setenv("PATH", plugins+":"+os.Getenv("PATH"))
	t.Cleanup(func() { _ = exec.Command("ip", "link", "delete", n.bridge).Run() })
	return n
}

func (n *node) runDir() string { return filepath.Join(n.dir, "pods") }

func (n *node) run(argv ...string) (string, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), n.env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (n *node) must(argv ...string) string {
	n.t.Helper()
	out, err := n.run(argv...)
	if err != nil {
		logs, _ := filepath.Glob(n.runDir() + "/*/nic.log")
		for _, log := range logs {
			text, _ := os.ReadFile(log)
			out += "\n" + string(text)
		}
		n.t.Fatalf("%q: %v: %s", argv, err, out)
	}
	return out
}

// pod makes a network namespace by name, as cnitool wants it.
func (n *node) pod(name string) (netns string) {
	name = n.bridge + name
	n.must("ip", "netns", "add", name)
	n.t.Cleanup(func() { _ = exec.Command("ip", "netns", "delete", name).Run() })
	return "/run/netns/" + name
}

// cnitool calls a verb on a namespace with the options of the environment.
func (n *node) cnitool(verb, netns string) (string, error) {
	return n.run("cnitool", verb, "rdma", netns)
}

// left are the links of this namespace, processes and files that attachments make.
func (n *node) left() string {
	links := n.must("ip", "-o", "link")
	var all []string
	for line := range strings.Lines(links) {
		if strings.Contains(line, "master "+n.bridge) {
			all = append(all, line)
		}
	}
	dirs, _ := filepath.Glob(n.runDir() + "/*")
	leases, _ := filepath.Glob(n.dir + "/ipam/rdma/10.*")
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range environs {
		if env, err := os.ReadFile(name); err == nil && strings.Contains(string(env), "XDG_RUNTIME_DIR="+n.runDir()) {
			all = append(all, name+" ")
		}
	}
	return strings.Join(all, "") + strings.Join(dirs, " ") + strings.Join(leases, " ")
}

// Two pods reach each other, by the kernel and by RDMA.
func TestPods(t *testing.T) {
	n := newNode(t)
	var pods, addrs, dirs []string
	for i, addr := range []string{"10.77.0.2", "10.77.0.10"} {
		pod := n.pod(fmt.Sprint("p", i))
		out := n.must("cnitool", "add", "rdma", pod)
		if !strings.Contains(out, `"`+addr+"/24") || !strings.Contains(out, `"net1"`) {
			t.Fatal(out)
		}
		pods, addrs = append(pods, pod), append(addrs, addr)
		n.env = append(n.env, `CAP_ARGS={"ips": ["10.77.0.10/24"]}`) // as Multus hands on what a pod asks for
	}
	n.env = n.env[:len(n.env)-2]
	dirs, _ = filepath.Glob(n.runDir() + "/*/tapir/net1.sock")
	if len(dirs) != 2 {
		t.Fatalf("%q", dirs)
	}
	for _, pod := range pods {
		n.must("cnitool", "check", "rdma", pod)
	}
	in := func(i int) string { return strings.TrimPrefix(pods[i], "/run/netns/") }
	n.must("ip", "netns", "exec", in(0), "ping", "-c", "1", "-w", "10", addrs[1])
	if out := n.must("ip", "-n", in(0), "route"); !strings.Contains(out, "10.78.0.0/16 via 10.77.0.1 dev net1") {
		t.Error(out)
	}
	// each pod finds its own NIC in the directory that the device plug-in mounts
	sockets := map[string]string{}
	for _, sock := range dirs {
		dir := filepath.Dir(filepath.Dir(sock))
		show := n.must("env", "XDG_RUNTIME_DIR="+dir, "tapir", "show", "net1")
		for _, addr := range addrs {
			if strings.Contains(show, addr+"/24") {
				sockets[addr] = dir
			}
		}
	}
	server := exec.Command("ip", "netns", "exec", in(0), "env", "XDG_RUNTIME_DIR="+sockets[addrs[0]], "tapir", "run", "--",
		"ib_write_bw", "-R", "-F", "-n", "50")
	server.Env = append(os.Environ(), n.env...)
	testenv.Must(t, server.Start())
	defer server.Wait()
	testenv.Until(t, "ib_write_bw listens", func() bool {
		out, _ := n.run("env", "XDG_RUNTIME_DIR="+sockets[addrs[0]], "tapir", "show", "net1", "cep")
		return strings.Contains(out, "18515")
	})
	out := n.must("ip", "netns", "exec", in(1), "env", "XDG_RUNTIME_DIR="+sockets[addrs[1]], "tapir", "run", "--",
		"ib_write_bw", "-R", "-F", "-n", "50", addrs[0])
	if !strings.Contains(out, "65536      50") {
		t.Error(out)
	}
	for _, pod := range pods {
		n.must("cnitool", "del", "rdma", pod)
	}
	if left := n.left(); left != "" {
		t.Errorf("left: %s", left)
	}
}

// A pod that comes and goes leaves nothing.
func TestAgainAndAgain(t *testing.T) {
	n := newNode(t)
	pod := n.pod("x")
	before := ""
	for i := range *times {
		n.must("cnitool", "add", "rdma", pod)
		n.must("cnitool", "check", "rdma", pod)
		n.must("cnitool", "del", "rdma", pod)
		if left := n.left(); left != before {
			t.Fatalf("after %d times: %s", i+1, left)
		}
	}
	if out := n.must("ip", "-n", strings.TrimPrefix(pod, "/run/netns/"), "-o", "link"); strings.Count(out, "\n") != 1 {
		t.Errorf("left in the pod: %s", out)
	}
}

// Bad calls are refused with one JSON error and change nothing.
func TestBadCalls(t *testing.T) {
	n := newNode(t)
	pod := n.pod("y")
	first := n.must("cnitool", "add", "rdma", pod)
	if out, err := n.cnitool("add", pod); err == nil || !strings.Contains(out, "ADD was called twice") {
		t.Errorf("ADD twice: %v %s", err, out)
	}
	n.must("cnitool", "check", "rdma", pod)
	if out, err := n.cnitool("add", "/run/netns/none"); err == nil || !strings.Contains(out, "netns") {
		t.Errorf("without a namespace: %v %s", err, out)
	}
	if left := n.left(); !strings.Contains(left, "tv") || strings.Count(left, "master") != 1 {
		t.Errorf("of the first: %s %s", first, left)
	}
	n.must("tapir", "ls") // of this user, none of them is the pod's
	n.must("ip", "netns", "delete", strings.TrimPrefix(pod, "/run/netns/"))
	for range 2 {
		n.must("cnitool", "del", "rdma", pod)
	}
	if left := n.left(); left != "" {
		t.Errorf("left: %s", left)
	}
	for i, tt := range []struct{ config, want string }{
		{`{`, `unexpected end of JSON input`},
		{`{"cniVersion": "1.0.0", "name": "x", "type": "tapir-cni"}`, `no addresses: give ipam`},
		{`{"cniVersion": "1.0.0", "name": "x", "type": "tapir-cni", "addresses": ["10.0.0.1"]}`,
			`addresses: \"10.0.0.1\": want an address with prefix length`},
		{`{"cniVersion": "1.0.0", "name": "x", "type": "tapir-cni", "addresses": ["10.0.0.1/24"], "nic": {"frames": "big"}}`, `nic: frames: `},
		{`{"cniVersion": "1.0.0", "name": "x", "type": "tapir-cni", "addresses": ["10.0.0.1/24"], "nic": {"tap": "t"}}`,
			`tap is the plug-in's business`},
		{`{"cniVersion": "1.0.0", "name": "x", "type": "tapir-cni", "ipam": {"type": "none-such"}}`, `not found in CNI_PATH`},
		{`{"cniVersion": "9.0.0", "name": "x", "type": "tapir-cni"}`, `incompatible CNI versions`},
	} {
		cmd := exec.Command("tapir", "cni")
		cmd.Env = append(append(os.Environ(), n.env...), "CNI_COMMAND=ADD", "CNI_CONTAINERID=c1", "CNI_NETNS="+n.pod(fmt.Sprint("z", i)), "CNI_IFNAME=net1")
		cmd.Stdin = strings.NewReader(tt.config)
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), `"code": `) || !strings.Contains(string(out), tt.want) {
			t.Errorf("%s: %v %s", tt.config, err, out)
		}
	}
	if left := n.left(); left != "" {
		t.Errorf("left: %s", left)
	}
}

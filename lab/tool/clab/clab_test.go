package clab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"tapir/lab/check/testenv"
	hostlink "tapir/lab/host/link"
	"tapir/lab/host/netns"
	"tapir/lab/run/real"
	"tapir/lab/run/result"
	"tapir/lab/run/steps"
	"tapir/lab/topo"
)

var update = flag.Bool("update", false, "write the topology files of examples/containerlab again")

const examples = "../../../examples/containerlab"

var twoHosts = []Host{
	{Name: "east", Addr: testenv.Prefixes("192.0.2.1/24")[0].Addr(), Nodes: []string{"a", "b", "h", "s1"}},
	{Name: "west", Addr: testenv.Prefixes("192.0.2.2/24")[0].Addr(), Nodes: []string{"c", "s2"}},
}

func exported(t *testing.T, lab *topo.Lab, hosts []Host) (files map[string][]byte, notes []string) {
	t.Helper()
	e := Export{Lab: lab, Image: "tapir-tools", Hosts: hosts}
	list, notes, err := e.Files()
	if err != nil {
		t.Fatal(err)
	}
	files = map[string][]byte{}
	for _, f := range list {
		files[f.Name] = f.Data
	}
	return files, notes
}

func load(t *testing.T, name string) *topo.Lab {
	t.Helper()
	lab, err := topo.Load(filepath.Join(examples, name))
	if err != nil {
		t.Fatal(err)
	}
	return lab
}

// The topology files among the examples are those that the labs beside them are
// exported to, and keep to containerlab's schema.
func TestExamples(t *testing.T) {
	for name, hosts := range map[string][]Host{"pair.yaml": nil, "hosts.yaml": twoHosts} {
		files, _ := exported(t, load(t, name), hosts)
		for file, text := range files {
			path := filepath.Join(examples, file)
			if *update {
				testenv.Must(t, os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, text, 0o666))
			}
			if have, err := os.ReadFile(path); err != nil || !bytes.Equal(have, text) {
				t.Errorf("%s is not what %s is exported to: run go test ./lab/tool/clab -update (%v)", path, name, err)
			}
			if strings.HasSuffix(file, ".clab.yml") {
				valid(t, text)
			}
		}
	}
}

var bindForm = regexp.MustCompile(`^[^:]+:/[^:]+(:ro)?$`)

// valid holds a file to the schema of containerlab, and to what no schema can tell: each end of a
// link is an interface of a node of the file, and of no other link.
func valid(t *testing.T, text []byte) (top topology) {
	t.Helper()
	for _, bad := range breaches(t, text) {
		t.Error(bad)
	}
	if err := yaml.UnmarshalWithOptions(text, &top, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	if top.Name == "" || len(top.Topology.Nodes) == 0 || len(top.Topology.Links) == 0 {
		t.Error("a file has a name, nodes and links")
	}
	ends := map[string]bool{}
	end := func(name, iface string) {
		if !slices.ContainsFunc(top.Topology.Nodes, func(m yaml.MapItem) bool { return m.Key == name }) {
			t.Errorf("an endpoint is of %s, which is no node of the file", name)
		}
		if ends[name+":"+iface] || !strings.HasPrefix(iface, "eth") || iface == "eth0" {
			t.Errorf("endpoint %s:%s: an interface is eth1 and so on, of one link", name, iface)
		}
		ends[name+":"+iface] = true
	}
	for _, m := range top.Topology.Nodes {
		n := nodeOf(t, m)
		if len(n.Exec) == 0 {
			t.Errorf("%s has no exec", m.Key)
		}
		for _, b := range n.Binds {
			if !bindForm.MatchString(b) {
				t.Errorf("%s: bind %q", m.Key, b)
			}
		}
	}
	for _, k := range top.Topology.Links {
		if k.Endpoint != nil {
			end(k.Endpoint.Node, k.Endpoint.Interface)
		}
		for _, e := range k.Endpoints {
			name, iface, _ := strings.Cut(e, ":")
			end(name, iface)
		}
	}
	return top
}

func nodeOf(t *testing.T, m yaml.MapItem) (n node) {
	t.Helper()
	text, err := yaml.Marshal(m.Value)
	if err == nil {
		err = yaml.UnmarshalWithOptions(text, &n, yaml.Strict())
	}
	if err != nil {
		t.Fatalf("%s: %v", m.Key, err)
	}
	return n
}

// container does what containerlab does with a host's file: a namespace for each node,
// veth pairs and VXLAN devices between them, and then the commands of each node.
type container struct {
	t      *testing.T
	dir    string // of the sockets, as the bind of a host's directory
	files  string // that binds take
	tapir  string
	nodes  []string // that are not the operating system's hosts
	spaces map[string]*hostlink.Space
}

func (c *container) deploy(text []byte, host *hostlink.Space) {
	top := valid(c.t, text)
	for _, m := range top.Topology.Nodes {
		c.spaces[m.Key.(string)] = testenv.Space(c.t, hostlink.Quiet)
	}
	c.t.Cleanup(func() { // before the namespaces go, with which a node would end by itself
		stop := []string{"stop"}
		for _, m := range top.Topology.Nodes {
			if name := m.Key.(string); slices.Contains(c.nodes, name) {
				stop = append(stop, name)
			}
		}
		if out, err := exec.Command(c.tapir, stop...).CombinedOutput(); err != nil {
			c.t.Errorf("stop: %v: %s", err, out)
		}
	})
	for i, k := range top.Topology.Links {
		if k.Type == "" {
			var nets [2]*hostlink.Net
			var names [2]string
			for i, e := range k.Endpoints {
				node, iface, _ := strings.Cut(e, ":")
				nets[i], names[i] = c.spaces[node].Net, iface
			}
			testenv.Must(c.t, nets[0].AddVeth(names[0], nets[1], names[1]), nets[0].Up(names[0]), nets[1].Up(names[1]))
			continue
		}
		node := c.spaces[k.Endpoint.Node]
		c.in(host.NS, "ip", "link", "add", fmt.Sprint("vx", i), "type", "vxlan", "id", fmt.Sprint(k.VNI), "remote", k.Remote,
			"dstport", fmt.Sprint(k.DstPort), "dev", "under")
		c.in(host.NS, "ip", "link", "set", fmt.Sprint("vx", i), "netns",
			fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), node.NS.Fd()), "name", k.Endpoint.Interface)
		testenv.Must(c.t, node.Net.Up(k.Endpoint.Interface))
	}
	for _, m := range top.Topology.Nodes {
		place := strings.NewReplacer("/var/log/", c.dir+"/", settings+"/", filepath.Join(c.files, top.Name+"-files")+"/")
		if top.Name == "east" || top.Name == "west" {
			place = strings.NewReplacer("/var/log/", c.dir+"/", settings+"/", filepath.Join(c.files, "hosts-files")+"/")
		}
		for _, line := range nodeOf(c.t, m).Exec {
			c.in(c.spaces[m.Key.(string)].NS, "sh", "-c", place.Replace(line))
		}
	}
}

func (c *container) in(ns *netns.NS, argv ...string) {
	c.t.Helper()
	if out, err := testenv.Run(c.t, ns, argv...); err != nil {
		logs, _ := filepath.Glob(c.dir + "/*.log")
		for _, name := range logs {
			text, _ := os.ReadFile(name)
			out += "\n" + filepath.Base(name) + ": " + string(text)
		}
		c.t.Fatalf("%q: %v: %s", argv, err, out)
	}
}

// deployed brings the exported files up, and returns when all commands have ended.
func deployed(t *testing.T, lab *topo.Lab, hosts []Host) (tapir string) {
	dir := t.TempDir()
	built, err := testenv.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", dir)
	t.Setenv("PATH", filepath.Dir(built)+":"+os.Getenv("PATH"))
	c := &container{t: t, dir: dir, files: dir, spaces: map[string]*hostlink.Space{}}
	files, _ := exported(t, lab, hosts)
	for name, text := range files {
		path := filepath.Join(dir, name)
		testenv.Must(t, os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, text, 0o666))
	}
	c.tapir = built
	for _, n := range lab.Nodes {
		if n.Kind != topo.Host {
			c.nodes = append(c.nodes, n.Name)
		}
	}
	if hosts == nil {
		c.deploy(files[lab.Name+".clab.yml"], nil)
		return built
	}
	var under []*hostlink.Space
	for range hosts {
		under = append(under, testenv.Space(t, nil))
	}
	testenv.Must(t, under[0].Net.AddVeth("under", under[1].Net, "under"))
	for i, h := range hosts {
		c.in(under[i].NS, "ip", "addr", "add", h.Addr.String()+"/24", "dev", "under")
		testenv.Must(t, under[i].Net.Up("under"))
	}
	for i, h := range hosts {
		c.deploy(files[h.Name+".clab.yml"], under[i])
	}
	return built
}

// perftestMiss is what perftest's client says when its second connection comes before
// the server listens again: it does not retry, on any device.
const perftestMiss = "RDMA_CM_EVENT_REJECTED; error: -111"

// Each lab of the examples comes up as its topology files say, on one host or on two
// that a VXLAN link joins, and its steps pass against it.
func TestDeploy(t *testing.T) {
	for name, hosts := range map[string][]Host{"pair.yaml": nil, "hosts.yaml": twoHosts} {
		t.Run(name, func(t *testing.T) {
			lab := load(t, name)
			tapir := deployed(t, lab, hosts)
			testenv.Must(t, real.Attachable(lab))
			for attempt := 1; ; attempt++ {
				var said bytes.Buffer
				ctx, cancel := context.WithCancel(t.Context())
				r, err := real.Attach(ctx, lab, real.Options{
					Options: steps.Options{Print: &said}, Tapir: tapir, Echo: true,
				})
				cancel()
				if attempt < 5 && strings.Contains(said.String(), perftestMiss) {
					continue
				}
				if err != nil || r.Verdict != result.Passed || r.Done() != len(lab.Steps) {
					t.Errorf("%v\n%s", err, &said)
				}
				return
			}
		})
	}
}

// Nodes that read files get them, faults are noted, and what no container can be is
// refused.
func TestFiles(t *testing.T) {
	parse := func(text string) *topo.Lab {
		lab, err := topo.Parse("x.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return lab
	}
	fabric := parse(`
nodes:
  h1: {kind: hfi, vnics: [{vesw: 2, ip: 10.2.0.1/24}], ptp: {}}
  h2: {kind: hfi, vnics: [{vesw: 2, ip: 10.2.0.2/24}]}
  em: {kind: manager, vesws: [{name: blue, id: 2, members: [h1, h2]}]}
  s: {kind: switch}
links: [{between: [h1, s], loss: 1%}, [h2, s], [em, s]]
`)
	files, notes := exported(t, fabric, nil)
	for _, name := range []string{"h1", "h2", "em", "s"} {
		if files["x-files/"+name+".yaml"] == nil {
			t.Errorf("%s has no file", name)
		}
	}
	valid(t, files["x.clab.yml"])
	want := "link h1-s: its faults are left out: containerlab tools netem sets delay, jitter, loss and rate"
	if len(notes) != 1 || notes[0] != want {
		t.Errorf("%q", notes)
	}
	pair := "nodes: {a: {kind: nic, ip: 10.0.0.1/24}, b: {kind: nic, ip: 10.0.0.2/24}}\nlinks: [[a, b]]\n"
	at := func(name string, nodes ...string) Host { return Host{Name: name, Addr: twoHosts[0].Addr, Nodes: nodes} }
	for _, tt := range []struct {
		lab   string
		hosts []Host
		want  string
	}{
		{pair, []Host{at("x", "a")}, "node b is on no host"},
		{pair, []Host{at("x", "a", "b"), at("y", "b")}, "node b is on host x and on host y"},
		{pair, []Host{at("x", "a", "b", "c")}, "host x: there is no node c"},
		{strings.Replace(pair, "b: {kind: nic,", "b: {kind: peer,", 1), nil,
			"node b: a peer is not exported: kinds are nic, host, switch, hfi and manager"},
		{strings.Replace(pair, "10.0.0.2/24", "10.0.0.2/24, sriov: {numvfs: 1}", 1), nil, "node b: sriov is not exported"},
	} {
		e := Export{Lab: parse(tt.lab), Hosts: tt.hosts}
		if _, _, err := e.Files(); err == nil || err.Error() != tt.want {
			t.Errorf("%v, want %s", err, tt.want)
		}
	}
}

// A word is one word to a shell, whatever is in it.
func TestQuote(t *testing.T) {
	here, err := netns.Current()
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	words := []string{"plain-1.2:/3,4", "two words", "it's", `"`, "", "a;b&c|d>e", "{x: [1]}"}
	out, err := testenv.Run(t, here, "sh", "-c", "printf '%s\\n' "+command(words...))
	if err != nil || out != strings.Join(words, "\n")+"\n" {
		t.Errorf("%v %q", err, out)
	}
}

func TestParseHost(t *testing.T) {
	h, err := parseHost("v6=[2001:db8::1]:a,b")
	if text, _ := json.Marshal(h); err != nil || string(text) != `{"Name":"v6","Addr":"2001:db8::1","Nodes":["a","b"]}` {
		t.Errorf("%s %v", text, err)
	}
	for _, bad := range []string{"", "x", "x=1.2.3.4", "x=1.2.3:a", "=1.2.3.4:a"} {
		if _, err := parseHost(bad); err == nil || !strings.Contains(err.Error(), "--host") {
			t.Errorf("%q: %v", bad, errors.Unwrap(err))
		}
	}
}

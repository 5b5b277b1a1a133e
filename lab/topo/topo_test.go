package topo

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"tapir/lab/conf"
)

const good = `
name: pair
clock: real
seed: 7
nodes:
  a: {kind: nic, ip: 10.0.0.1/24, ip6: ["fd00::1/64"], frames: gso, dprint: [cm, mpa]}
  b: {kind: nic, ip: 10.0.0.2/24}
  h: {kind: host, ip: [10.0.0.3/24]}
  s: {kind: switch, mode: e2e-tc, one_step: true, clock: {oscillator: xo}}
links:
  - [a, s]
  - {between: [b, s], name: bad, delay: 1ms, jitter: 100us, rate: 1.5Gbit, queue: 64KiB, loss: 1%, duplicate: 50ppm, reorder: 0.5%, reorder_depth: 3, corrupt: 0, mtu: 1400, capture: false}
  - {between: [h, s]}
steps:
  - {run: "rping -s -C '3'", on: a, rdma: true, background: true, timeout: 5s}
  - wait: {node: a, listening: 7174}
  - {run: [sh, -c, "exit 3"], on: h, name: three, exit: 3, output: 'a b'}
  - wait: a/rping
  - wait: {step: three, output: ^x}
    timeout: 3s
  - {perf: verify, server: a, client: b, to: fd00::1, size: [8, 64]}
  - {fault: bad, loss: 2%}
  - {link: bad, state: down}
  - wait: 10ms
  - expect: {link: bad, counter: lost, max: 0}
  - expect: {link: a-s, filter: tcp, min: 2}
  - expect: {node: b, counter: rx_packets, max: 9}
`

func TestParse(t *testing.T) {
	l, err := Parse("lab.yaml", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	a, bad := l.Node("a"), l.Link("bad")
	if l.Name != "pair" || l.Seed != 7 || len(l.Nodes) != 4 || a.NIC.Frames != "gso" || len(a.Addrs()) != 2 ||
		strings.Join(a.Flags, " ") != "--ip=10.0.0.1/24 --ip6=fd00::1/64 --frames=gso --dprint=cm,mpa" {
		t.Errorf("%+v", l)
	}
	f := bad.Fault[1]
	if f.Delay != time.Millisecond || f.Rate != 1.5e9 || f.Queue != 65536 || f.Loss != 10000 || f.Duplicate != 50 || f.Reorder != 5000 ||
		f.Depth != 3 || !f.All || f != bad.Fault[0] || bad.MTU != 1400 || bad.Capture {
		t.Errorf("%+v", bad)
	}
	s := l.Steps
	if s[0].Name != "a/rping" || strings.Join(s[0].Argv, "|") != "rping|-s|-C|3" || s[0].NICs[0] != "a" || !s[0].Background || s[0].Timeout != 5*time.Second {
		t.Errorf("%+v", s[0])
	}
	if s[2].Exit != 3 || len(s[2].Argv) != 3 || !s[3].Condition.Ended || s[4].Condition.Output == nil || s[4].Timeout != 3*time.Second {
		t.Errorf("%+v", s[2:5])
	}
	if s[5].Pairs[0].Job.Remote.String() != "fd00::1" || len(s[5].Job.Sizes) != 2 || s[6].Fault[0].Loss != 20000 || !s[7].Down || s[8].For == 0 {
		t.Errorf("%+v", s[5:9])
	}
	for i, want := range []string{"expect: bad: lost: 0", `expect: a-s: frames with "tcp": 2 or more`, "expect: b: rx_packets: at most 9"} {
		if s[9+i].Text != want {
			t.Errorf("%q", s[9+i].Text)
		}
	}
}

// Every mistake is told at its place, with a caret under it.
func TestMistakes(t *testing.T) {
	const two = "nodes:\n  a: {kind: nic, ip: 10.0.0.1/24}\n  b: {kind: nic, ip: 10.0.0.2/24}\nlinks: [[a, b]]\n"
	for _, tt := range []struct{ in, want string }{
		{"nods: {}\n", "1:1: nods: unknown key; expected one of name, clock, seed, wire, nodes, links, steps"},
		{"wire: rope\n" + two, "1:7: wire: expected tap (default), shm, stream, udp, vxlan, dev, tapdev"},
		{"clock: virtual\nwire: shm\n" + two, "2:7: wire: shm is of the real clock alone"},
		{strings.Replace(two, "[a, b]", "{between: [a, b], wire: 'shm:/tmp/x'}", 1), "4:33: wire: expected tap"},
		{"nodes:\n  a: {kind: host, ip: 10.0.0.1/24}\n  b: {kind: host, ip: 10.0.0.2/24}\nlinks: [{between: [a, b], wire: shm}]\n",
			"4:9: wire: shm: a and b are of the kernel, which has TAPs: leave it out"},
		{"clock: fast\n", "1:8: clock: expected real"},
		{strings.Replace(two, "ip: 10.0.0.1/24", "ip: 10.0.0.1/24, sriov: {vfs: [{}, {netns: c}]}", 1), "2:3: a: sriov: netns c of VF 1: expected a host of the lab"},
		{"clock: virtual\n" + strings.Replace(two, "ip: 10.0.0.1/24", "ip: 10.0.0.1/24, sriov: {numvfs: 2}", 1), "3:3: a: sriov: VFs have host TAPs, of the real clock alone"},
		{"clock: virtual\n" + two + "steps:\n  - {run: date, on: a}\n", "7:6: programs but ping, tapir iscsi, tapir nvme and tapir fcoe are of the real clock alone"},
		{"clock: virtual\n" + two + "steps:\n  - {run: date, on: a, name: x, clock: real}\n  - wait: x\n", "8:5: x is of the real clock alone"},
		{"clock: virtual\nnodes:\n  a: {kind: manager, vesws: [], fe: 127.0.0.1:3245}\n  b: {kind: hfi, vnics: [{vesw: 2}]}\nlinks: [[a, b]]\n", "3:3: a: fe: a front end listens in the real clock alone"},
		{"clock: virtual\nnodes:\n  a: {kind: host, ip: 10.0.0.1/24}\n  b: {kind: nic, ip: 10.0.0.2/24}\nlinks: [[a, b]]\nsteps:\n  - {run: ping -c 1 10.0.0.1, on: b}\n", "7:6: ping runs at hosts and HFIs in virtual time, b is a nic"},
		{"clock: virtual\nnodes:\n  a: {kind: host, ip: 10.0.0.1/24}\n  b: {kind: nic, ip: 10.0.0.2/24}\nlinks: [[a, b]]\nsteps:\n  - {run: ping -f 1 10.0.0.2, on: a}\n", "7:6: ping: -f: of the options of ping"},
		{"clock: virtual\nnodes:\n  a: {kind: peer, ip: 10.0.0.1/24}\n  b: {kind: nic, ip: 10.0.0.2/24}\nlinks: [[a, b]]\n", "3:3: a: a peer is of the real clock alone"},
		{"name: x\n", "1:5: a lab has `nodes:`"},
		{"nodes:\n  a: {ip: 10.0.0.1/24}\n", "2:3: a: a node has a kind: nic, target, card, host, switch, hfi, manager, gateway, peer"},
		{"nodes:\n  a: {kind: bridge}\n", "2:13: kind: expected one of nic, target, card, host, switch, hfi, manager, gateway, peer"},
		{"nodes:\n  a: {kind: nic, tap: tap0}\n", "2:18: tap: unknown key"},
		{"nodes:\n  a: {kind: nic, ip: 10.0.0.1}\n", "2:22: ip: expected an IPv4 address with prefix length"},
		{"nodes:\n  a: {kind: nic}\n", "2:3: a: no address"},
		{"nodes:\n  a: {kind: nic, ip: 10.0.0.1/24}\n", "2:3: a: it has no link"},
		{"nodes:\n  -a: {kind: host}\n", "2:3: -a: expected 1 to 32 letters"},
		{"nodes:\n  s: {kind: switch}\n", "2:3: s: a switch has two links or more"},
		{"nodes:\n  h: {kind: host, at: {x: 10.0.0.1/24}}\n", "2:3: h: at: it has no link x"},
		{"nodes:\n  h: {kind: host, at: {x: 10.0.0.1}}\n", "2:27: at: expected an address"},
		{two + "name: [x]\n", "5:7: name: expected"},
		{strings.Replace(two, "0.2/", "0.1/", 1), "3:3: b: a has the address 10.0.0.1, too"},
		{strings.Replace(two, "[a, b]", "[a, c]", 1), "4:13: there is no node c"},
		{strings.Replace(two, "[a, b]", "[a, a]", 1), "4:9: a: a link joins two nodes"},
		{strings.Replace(two, "[[a, b]]", "[[a, b], [a, b]]", 1), "4:17: two links are called a-b"},
		{strings.Replace(two, "[[a, b]]", "[[a, b], {between: [b, a]}]", 1), "2:3: a: a nic has one port, not 2: put a switch between"},
		{strings.Replace(two, "[a, b]", "{loss: 1%}", 1), "4:9: a link is `between: [a, b]`"},
		{strings.Replace(two, "[a, b]", "{between: [a, b], loss: 1}", 1), "4:33: loss: expected a chance such as 1%"},
		{strings.Replace(two, "[a, b]", "{between: [a, b], loss: 101%}", 1), "4:33: loss: expected"},
		{strings.Replace(two, "[a, b]", "{between: [a, b], rate: 3 bananas}", 1), "4:33: rate: expected bits per second"},
		{two + "steps:\n  - sleep: 3\n", "6:5: sleep: a step begins with one of run, perf, fault, link, kill, start, phc, wait, expect"},
		{two + "steps: [{}]\n", "5:9: a step begins with one of"},
		{two + "steps:\n  - run: date\n", "6:5: run: on is missing"},
		{two + "steps:\n  - {run: date, on: c}\n", "6:21: there is no node c"},
		{two + "steps:\n  - {run: \"date 'x\", on: a}\n", "6:11: run: a quote has no end"},
		{two + "steps:\n  - {run: date, on: a, name: x}\n  - {run: date, on: a, name: x}\n", "7:6: two programs are called x"},
		{two + "steps:\n  - {run: date, on: a, output: '('}\n", "6:32: output: expected a regular expression"},
		{two + "steps:\n  - {perf: quick, server: a, client: b}\n", "6:12: perf: expected a workload: write-bw"},
		{two + "steps:\n  - {perf: write-bw, server: a, client: a}\n", "6:6: a: server and client are two NICs"},
		{strings.Replace(two, "2/24}", "2/24, personality: roce}", 1) + "steps:\n  - {perf: write-bw, server: a, client: b}\n",
			"6:6: b has personality roce and a has iwarp"},
		{two + "steps:\n  - {perf: write-bw, server: a, client: b, transport: roce}\n",
			"6:6: transport: b and a have personality iwarp, not roce"},
		{two + "steps:\n  - {perf: write-bw, server: a, client: b, to: 10.0.0.9}\n", "6:6: to: 10.0.0.9 is no address of a"},
		{two + "steps:\n  - {perf: send-lat, server: a, client: b, qps: 2}\n", "6:6: send-lat runs on one queue pair"},
		{two + "steps:\n  - {fault: x}\n", "6:13: there is no link x: choose one of a-b"},
		{two + "steps:\n  - {link: a-b, state: off}\n", "6:24: state: expected down or up"},
		{two + "steps:\n  - wait: rping\n", `6:11: no program called "rping" was started before`},
		{two + "steps:\n  - wait: {node: a}\n", "6:5: a: say which counter, or listening"},
		{two + "steps:\n  - expect: {node: a, link: a-b, counter: lost}\n", "6:5: a condition is about one step, one node or one link"},
		{two + "steps:\n  - expect: {link: a-b, counter: bananas}\n", "6:5: bananas: a link counts frames, lost"},
		{two + "steps:\n  - expect: {link: a-b, counter: lost, min: 3, max: 2}\n", "6:5: min 3 is greater than max 2"},
		{two + "steps:\n  - wait: {link: a-b, filter: tcp}\n", "6:23: filter: unknown key"},
		{strings.Replace(two, "[a, b]", "{between: [a, b], capture: false}", 1) + "steps:\n  - expect: {link: a-b, filter: tcp}\n", "6:5: a-b: it is not captured"},
	} {
		_, err := Parse("lab.yaml", []byte(tt.in))
		bad := (*conf.Error)(nil)
		if !errors.As(err, &bad) || !strings.HasPrefix(err.Error(), "lab.yaml:"+tt.want) || !strings.HasSuffix(bad.Excerpt(), "^\n") {
			t.Errorf("%s\n  %v\n  want %s", tt.in, err, tt.want)
		}
	}
}

// One file runs by both clocks: steps of the other are left out.
func TestClocks(t *testing.T) {
	file := "nodes:\n  a: {kind: nic, ip: 10.0.0.1/24}\n  b: {kind: nic, ip: 10.0.0.2/24}\nlinks: [[a, b]]\n" +
		"steps:\n  - {run: date, on: a, clock: real}\n  - {wait: 1s, clock: virtual}\n  - wait: 2s\n"
	l, err := Parse("lab.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ clock, want string }{{Real, "a: date|wait 2s"}, {Virtual, "wait 1s|wait 2s"}, {Real, "a: date|wait 2s"}} {
		err := l.SetClock(c.clock)
		var texts []string
		for _, s := range l.Steps {
			texts = append(texts, s.Text)
		}
		if got := strings.Join(texts, "|"); err != nil || got != c.want || l.Clock != c.clock {
			t.Errorf("%s: %q, %v", c.clock, got, err)
		}
	}
	if l.SetClock("fast") == nil {
		t.Error("a clock that nobody knows")
	}
}

// An entry with a count is many NICs, links and pairs.
func TestCount(t *testing.T) {
	const file = "nodes:\n  n: {kind: nic, count: 3, ip: 10.0.0.255/16, ip6: fd00::1/64, mtu: 1400}\n  s: {kind: switch}\n  x: {kind: nic, ip: 10.0.9.9/16}\n" +
		"links: [[n, s], {between: [x, s], loss: 1%}]\nsteps:\n  - {perf: verify, client: n, server: n}\n  - {perf: verify, client: n, server: x}\n"
	l, err := Parse("lab.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	n3 := l.Node("n3")
	if len(l.Nodes) != 5 || len(l.Links) != 4 || l.Link("n2-s") == nil || n3.NIC.Name != "n3" || n3.Addrs()[0].String() != "10.0.1.1/16" ||
		strings.Join(n3.Flags, " ") != "--ip=10.0.1.1/16 --ip6=fd00::3/64 --mtu=1400" {
		t.Errorf("%+v\n%+v", l.Nodes, l.Links)
	}
	var pairs []string
	for _, s := range l.Steps {
		for _, p := range s.Pairs {
			pairs = append(pairs, fmt.Sprintf("%s>%s %v:%d", p.Client, p.Server, p.Job.Remote, p.Job.Port))
		}
	}
	if got := strings.Join(pairs, ", "); got != "n1>n2 10.0.1.0:18515, n2>n3 10.0.1.1:18515, n3>n1 10.0.0.255:18515, "+
		"n1>x 10.0.9.9:18515, n2>x 10.0.9.9:18516, n3>x 10.0.9.9:18517" {
		t.Error(got)
	}
	lists := strings.Replace(file, "client: n, server: n", "client: [n1, x], server: [n2, n3]", 1)
	if l, err = Parse("lab.yaml", []byte(lists)); err != nil || len(l.Steps[0].Pairs) != 2 || l.Steps[0].Pairs[1].Client != "x" ||
		l.Steps[0].Pairs[1].Server != "n3" || l.Steps[0].Text != "perf verify from n1, x to n2, n3" {
		t.Errorf("%v: %+v", err, l.Steps[0])
	}
	for _, c := range []struct{ old, new, want string }{
		{"/16, ip6", "/24, ip6", "2:3: n2: 10.0.0.255/24 is the last address"},
		{"mtu: 1400", "mac: 02:00:00:00:00:01", "2:3: n: mac: 3 NICs cannot have the same"},
		{"count: 3", "count: 0", "2:25: count: expected how many NICs"},
		{"client: n, server: x", "client: x, server: x", "8:6: x: server and client are two NICs"},
		{"client: n, server: x", "client: [n, y], server: x", "8:32: there is no node y"},
		{"client: n, server: x", "client: \"n, x\", server: x", "8:28: there is no node n, x"},
		{"client: n, server: x", "client: [], server: x", "8:28: expected the name of a node"},
		{"client: n, server: x", "client: [n1, x], server: [n2, x]", "8:6: x: server and client are two NICs"},
		{"x: {kind: nic,", "x: {kind: nic, count: 2,", "8:6: 3 NICs and 2: expected as many, or one"},
	} {
		if _, err := Parse("lab.yaml", []byte(strings.Replace(file, c.old, c.new, 1))); err == nil || !strings.HasPrefix(err.Error(), "lab.yaml:"+c.want) {
			t.Errorf("%s: %v", c.new, err)
		}
	}
}

func TestDefaultName(t *testing.T) {
	for path, want := range map[string]string{"x/rping/lab.yaml": "rping", "my lab.yaml": "my-lab", "a.yml": "a", "x/-/lab.yaml": "lab"} {
		if got := defaultName(path); got != want {
			t.Errorf("%s: %s", path, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(good)
	f.Add("nodes: {a: {kind: host}}\nsteps: [{}]\n")
	f.Fuzz(func(t *testing.T, in string) {
		if _, err := Parse("lab.yaml", []byte(in)); err != nil {
			if bad := (*conf.Error)(nil); !errors.As(err, &bad) {
				t.Fatalf("without a place: %v", err)
			}
		}
	})
}

// A step is added to a lab that has been read.
func TestExtend(t *testing.T) {
	l, err := Parse("lab.yaml", []byte("nodes:\n  a: {kind: nic, ip: 10.0.0.1/24}\n  b: {kind: nic, ip: 10.0.0.2/24}\nlinks: [[a, b]]\nsteps:\n  - {run: sleep 1, on: a, background: true, name: s}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []string{"{fault: a-b, loss: 10%}", "wait: s", `{"run": ["echo", "a b"], "on": "b"}`} {
		if err := l.Extend(step); err != nil {
			t.Error(err)
		}
	}
	if len(l.Steps) != 4 || l.Steps[1].Link != "a-b" || !l.Steps[2].Condition.Ended || l.Steps[3].Argv[1] != "a b" {
		t.Errorf("%+v", l.Steps)
	}
	for step, want := range map[string]string{
		"{fault: a-c, loss: 10%}":         "step:1:9: ",
		"{perf: verify, server: a}":       "step:1:2: perf: client is missing",
		"{run: x, on: a, name: s}":        "two programs are called s",
		"{fall: a-b}":                     "a step begins with one of",
		"{wait: {step: no, output: yes}}": "no",
		"":                                "expected a step",
	} {
		if err := l.Extend(step); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", step, err, want)
		}
	}
	if err := l.SetClock(Virtual); err == nil {
		t.Error("a program in virtual time")
	}
	if len(l.Steps) != 4 {
		t.Errorf("%d steps", len(l.Steps))
	}
}

// A NIC of a lab has a host side of its own making.
func TestHostSideOfANIC(t *testing.T) {
	const lab = "name: l\nnodes:\n  a: {kind: nic, ip: 10.0.0.1/24, queues: 4, host_frames: gso%s}\n  b: {kind: nic, ip: 10.0.0.2/24}\nlinks:\n  - [a, b]\n"
	l, err := Parse("l.yaml", fmt.Appendf(nil, lab, ""))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(l.Node("a").Flags, " "); got != "--ip=10.0.0.1/24 --queues=4 --host-frames=gso" {
		t.Error(got)
	}
	if _, err := Parse("l.yaml", fmt.Appendf(nil, lab, ", ip_from_host: true")); err == nil || !strings.Contains(err.Error(), "ip_from_host: unknown key") {
		t.Error(err)
	}
}

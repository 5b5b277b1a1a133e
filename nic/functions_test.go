package nic

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tapir/nic/buf"
	"tapir/nic/cm"
	"tapir/nic/fastlinq"
	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/settings"
	"tapir/nic/hardware"
	"tapir/nic/nicdrop"
	"tapir/nic/npar"
	"tapir/nic/verbs"
	"tapir/wire/arp"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
)

// functions are the NICs of one device.
type functions struct {
	*testing.T
	pool  *buf.Pool
	card  *npar.Card
	chip  *fastlinq.Adapter
	devs  []*Device
	wires []*cable
	host  *hostSide // of the functions that are attached from now on; nil: none
	now   frame.Time
}

// cable is a port's link, which keeps what is sent.
type cable struct{ sent [][]byte }

func (c *cable) Room() int { return 64 }

func (c *cable) Transmit(f *frame.Frame) {
	c.sent = append(c.sent, bytes.Clone(f.Bytes()))
	f.Release()
}

// newFunctions makes a device with functions on ports, function i with the address
// 10.0.0.(i+1). set sets each up.
func newFunctions(t *testing.T, mode string, mf fastlinq.MFMode, ports []int, set func(i int, c *Config)) *functions {
	t.Helper()
	x, cfgs := prepareFunctions(t, mode, mf, ports, set)
	for i, cfg := range cfgs {
		if err := x.attach(i, ports[i], cfg); err != nil {
			t.Fatal(err)
		}
	}
	return x
}

// prepareFunctions is newFunctions without the functions.
func prepareFunctions(t *testing.T, mode string, mf fastlinq.MFMode, ports []int, set func(i int, c *Config)) (*functions,
	[]Config) {
	t.Helper()
	m, err := fastlinq.ParsePortMode(mode)
	if err != nil {
		t.Fatal(err)
	}
	x := &functions{T: t, pool: buf.NewPool(4096, 0), now: frame.Time(time.Hour)}
	if x.chip, err = fastlinq.NewAdapter(fastlinq.AdapterConfig{Mode: m, MF: mf, Functions: ports}); err != nil {
		t.Fatal(err)
	}
	x.card = npar.New(x.pool, m.Ports, ports)
	for i := range m.Ports {
		x.wires = append(x.wires, new(cable))
		x.card.Connect(i, x.wires[i])
	}
	var cfgs []Config
	for i := range ports {
		cfg := Config{Name: fmt.Sprint("f", i), MAC: ether.Addr{2, 0, 0, 0, 0, byte(i + 1)},
			Addrs:    []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), 24)},
			Hardware: &fastlinq.Config{}}
		if m.CMT {
			cfg.Hardware.(*fastlinq.Config).Engines = 2
		}
		cfg.RDMA.MaxCNQ = 4
		if set != nil {
			set(i, &cfg)
		}
		cfgs = append(cfgs, cfg)
	}
	return x, cfgs
}

// attach puts a NIC on a function, and its carrier up.
func (x *functions) attach(i, port int, cfg Config) error {
	s := x.card.Slot(i)
	env := Env{Pool: x.pool, Wire: s, Device: x.chip, Function: i, Port: port, Line: s.Line(), Tagged: s.SetTag}
	if x.host != nil {
		env.Host, env.Reserver = x.host, x.host
	}
	d, err := New(cfg, env)
	if err != nil {
		return err
	}
	s.Enter(d, npar.Parts{Station: &d.IP.MAC, Wire: d.Wire, Owns: d.IP.Listens})
	x.devs = append(x.devs[:min(i, len(x.devs))], append([]*Device{d}, x.devs[min(i+1, len(x.devs)):]...)...)
	d.LinkUp(x.now)
	x.rest()
	return nil
}

// rest runs the device until it has nothing to do.
func (x *functions) rest() {
	for round := 0; x.card.Dispatch(x.now) || x.card.Poll(x.now) <= x.now; round++ {
		if round > 1000 {
			x.Fatal("it does not come to rest")
		}
	}
}

func (x *functions) fastlinq(i int) *fastlinq.Device { return fastlinq.Of(x.devs[i].Hardware) }

// row is a row of a function's driver core.
func (x *functions) row(i int, name string) string {
	for _, r := range x.devs[i].Hardware.DeviceRows() {
		if r.Name == name {
			return r.Value
		}
	}
	return ""
}

// ask sends an ARP request for a function's address into a port, with outer tags, and
// returns what comes out.
func (x *functions) ask(port, fn int, tags ...ether.Tag) [][]byte {
	x.Helper()
	peer := ether.Addr{2, 9, 9, 9, 9, 9}
	h := ether.Header{Dst: ether.Broadcast, Src: peer, Type: ether.TypeARP, NTags: len(tags)}
	copy(h.Tags[:], tags)
	p := arp.Packet{Op: arp.Request, SenderMAC: peer, SenderIP: netip.MustParseAddr("10.0.0.99"),
		TargetIP: netip.AddrFrom4([4]byte{10, 0, 0, byte(fn + 1)})}
	f := x.pool.Get(128)
	f.Append(p.AppendTo(h.AppendTo(nil)))
	x.now += frame.Time(time.Millisecond) // the line is free
	x.rest()
	w := x.wires[port]
	w.sent = nil
	x.card.Receive(frame.Port(port), []*frame.Frame{f}, x.now)
	x.rest()
	return w.sent
}

// answers tells whether a function answers ARP, with these outer tags on the wire.
func (x *functions) answers(port, fn int, tags ...ether.Tag) bool {
	x.Helper()
	sent := x.ask(port, fn, tags...)
	if len(sent) != 1 {
		return false
	}
	h, n, err := ether.Parse(sent[0])
	p, parsed := arp.Parse(sent[0][n:])
	same := h.NTags == len(tags)
	for i := range tags {
		same = same && h.Tags[i] == tags[i]
	}
	return err == nil && parsed == nil && same && p.Op == arp.Reply && h.Src == x.devs[fn].Config().MAC
}

// A function that asks for its shares locks them. While another has the lock it does not
// load, and says who has it; the lock of one that never gives it back ends by itself.
//
// MF-44
func TestSharesAreAskedForUnderALock(t *testing.T) {
	x, cfgs := prepareFunctions(t, "1x25G", fastlinq.NPAR, []int{0, 0}, nil)
	if err := x.attach(0, 0, cfgs[0]); err != nil {
		t.Fatal(err)
	}
	first := x.fastlinq(0)
	first.MCP().Lock(mfw.LockRescAlloc, mfw.LockDefault, x.now, func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	})
	first.Manage(x.now)
	err := x.attach(1, 0, cfgs[1])
	if err == nil || !strings.Contains(err.Error(), "resource 31 is locked by function 0") {
		t.Fatalf("beside a lock: %v", err)
	}
	x.now = x.now.Add(6 * time.Second)
	x.rest()
	if err := x.attach(1, 0, cfgs[1]); err != nil {
		t.Fatalf("after it: %v", err)
	}
}

// Each port mode has its engines and ports, and all functions that it can have: the
// first one on an engine is told ENGINE, the first on a port PORT, others FUNCTION.
// Resources of an engine are divided between its functions.
//
// IN-11 MF-07 XX-10
func TestPortModes(t *testing.T) {
	for _, c := range []struct {
		mode                      string
		engines, ports, functions int
		mbps                      string
	}{
		{"2x40G", 2, 2, 16, "40000"}, {"2x50G", 2, 2, 16, "50000"}, {"1x100G", 2, 1, 8, "100000"},
		{"4x10G_F", 2, 4, 16, "10000"}, {"4x10G_E", 2, 4, 16, "10000"}, {"4x20G", 2, 4, 16, "20000"},
		{"1x40G", 1, 1, 16, "40000"}, {"2x25G", 1, 2, 16, "25000"}, {"1x25G", 1, 1, 16, "25000"},
		{"4x25G", 1, 4, 16, "25000"}, {"2x10G", 1, 2, 16, "10000"},
	} {
		t.Run(c.mode, func(t *testing.T) {
			var on []int
			for i := range c.functions {
				on = append(on, i%c.ports)
			}
			x := newFunctions(t, c.mode, fastlinq.NPAR, on, nil)
			engine, port := map[int]bool{}, map[int]bool{}
			for i, at := range on {
				path := at % c.engines
				if c.ports == 1 {
					path = 0
				}
				want := "FUNCTION"
				switch {
				case !engine[path]:
					want = "ENGINE"
				case !port[at]:
					want = "PORT"
				}
				engine[path], port[at] = true, true
				if got := x.row(i, "load"); got != want {
					t.Errorf("function %d on port %d: LOAD_REQ says %s, want %s", i, at, got, want)
				}
				if !x.answers(at, i) {
					t.Errorf("function %d is deaf", i)
				}
				for _, a := range x.fastlinq(i).ShowLink() {
					if a.Name == "line_speed" && a.Value != c.mbps {
						t.Errorf("function %d: %s Mb/s", i, a.Value)
					}
				}
			}
			for i := range on {
				if err := x.devs[i].Close(x.now); err != nil {
					t.Errorf("function %d: %v", i, err)
				}
			}
			if m, _ := fastlinq.ParsePortMode(c.mode); m.Engines != c.engines || m.Ports != c.ports {
				t.Errorf("%+v", m)
			}
		})
	}
}

// A function beyond those that there are, on a port that is not there, or with more than
// its share is refused. Of a sixteenth of the engine's lines there are fewer tasks for
// memory.
//
// HW-09 IN-28
func TestFunctionLimits(t *testing.T) {
	m, _ := fastlinq.ParsePortMode("4x25G")
	for _, c := range []struct {
		mf   fastlinq.MFMode
		on   []int
		want string
	}{
		{fastlinq.NPAR, make([]int, 17), "17 functions: an adapter with port mode 4x25G has 1 to 16"},
		{fastlinq.NPAR, []int{0, 4}, "function 1: port 4: port mode 4x25G has ports 0 to 3"},
		{fastlinq.SingleFunction, []int{0, 0}, "several need mf_mode"},
	} {
		if _, err := fastlinq.NewAdapter(fastlinq.AdapterConfig{Mode: m, MF: c.mf, Functions: c.on}); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %s", c.on, err, c.want)
		}
	}
	x := newFunctions(t, "4x25G", fastlinq.NPAR, make([]int, 16), nil)
	if got := x.row(3, "hwfn"); !strings.Contains(got, "function 3, MF mode NPAR") {
		t.Error(got)
	}
	if err := x.devs[3].Close(x.now); err != nil {
		t.Fatal(err)
	}
	cfg := x.devs[3].Config()
	cfg.RDMA.MaxCNQ = 5 // of 64 that the management firmware divides by 16
	if err := x.attach(3, 0, cfg); err == nil || !strings.Contains(err.Error(), "desired_cnq: 5: the function's share of its engine is 4") {
		t.Errorf("5 notification queues: %v", err)
	}
	cfg.RDMA.MaxCNQ = 4
	for _, r := range x.devs[0].Hardware.DeviceRows() { // 687 lines hold fewer tasks
		if r.Name == "rdma_tasks" && *r.Limit >= hardware.MaxTasks {
			t.Errorf("%d tasks in the lines of one function of 16", *r.Limit)
		}
	}
	if err := x.attach(2, 0, cfg); err == nil || !strings.Contains(err.Error(), "function 2 is another NIC's") {
		t.Errorf("a function that has a NIC: %v", err)
	}
	if err := x.attach(3, 0, cfg); err != nil || !x.answers(0, 3) {
		t.Errorf("attached again: %v", err)
	}
}

// The end, the crash and the reload of a function leave its neighbors as they were: a
// driver that loads after a crash resets its function, and is no first one.
//
// IN-16 OV-01
func TestNeighbours(t *testing.T) {
	x := newFunctions(t, "2x25G", fastlinq.NPAR, []int{0, 0, 1}, func(i int, c *Config) {
		if i == 2 {
			c.RDMA.Personality = verbs.Ethernet
		}
	})
	if p := x.row(2, "core_personality"); p != "ETH" || x.row(0, "core_personality") != "ETH_IWARP" {
		t.Errorf("personality %s", p)
	}
	set := func(i int, name, value string) {
		t.Helper()
		if err := x.devs[i].Set(Setting{name, value}); err != nil {
			t.Fatal(err)
		}
		x.rest()
	}
	rest := func(what string, alive bool) {
		t.Helper()
		for i, at := range []int{0, 0, 1} {
			if got := x.answers(at, i); got != (i != 1 || alive) {
				t.Errorf("%s: function %d answers: %v", what, i, got)
			}
		}
		if n, err := x.fastlinq(0).Failures(); n > 0 {
			t.Errorf("%s: function 0: %v", what, err)
		}
	}
	rest("at first", true)
	set(1, "driver", "crashed")
	rest("crashed", false)
	set(1, "driver", "loaded")
	rest("loaded again", true)
	if got := x.row(1, "load"); got != "FUNCTION" {
		t.Errorf("LOAD_REQ after a crash says %s", got)
	}
	set(1, "driver", "unloaded")
	rest("unloaded", false)
	set(0, "driver", "unloaded")
	set(0, "driver", "loaded")
	if got := x.row(0, "load"); got != "PORT" { // function 2 is on the engine
		t.Errorf("LOAD_REQ of the first on the port says %s", got)
	}
	x.chip.FLR(1)
	x.card.Slot(1).Leave()
	rest("reset", false)
}

// With outer VLANs each function's frames have its tag on the wire, an S-tag or with
// UFP a C-tag, and lose it when they come in. An event of the management firmware
// changes the next frame's.
//
// XX-07 XX-09
func TestOuterTags(t *testing.T) {
	for mf, tpid := range map[fastlinq.MFMode]uint16{fastlinq.OVLAN: ether.TypeQinQ, fastlinq.UFP: ether.TypeVLAN} {
		x := newFunctions(t, "1x25G", mf, []int{0, 0}, func(i int, c *Config) {
			c.Hardware.(*fastlinq.Config).Link = settings.Link{OVLAN: uint16(100 + i)}
		})
		tag := func(vid uint16) ether.Tag { return ether.Tag{TPID: tpid, TCI: vid} }
		if !x.answers(0, 0, tag(100)) || !x.answers(0, 1, tag(101)) {
			t.Errorf("%v: no answer with the tag", mf)
		}
		if x.answers(0, 0) || len(x.ask(0, 0, tag(101))) > 0 || len(x.ask(0, 1, tag(102))) > 0 {
			t.Errorf("%v: an answer to a frame of nobody, or of a neighbor", mf)
		}
		if n := new(x.devs[0].Drops())[nicdrop.OuterTag]; n != 2 { // one without, and one of 102
			t.Errorf("%v: %d frames dropped", mf, n)
		}
		if err := x.devs[0].Set(Setting{"ovlan", "200"}); err != nil {
			t.Fatal(err)
		}
		x.rest()
		if x.answers(0, 0, tag(100)) || !x.answers(0, 0, tag(200)) || !x.answers(0, 1, tag(101)) {
			t.Errorf("%v: after the event", mf)
		}
		if n := x.fastlinq(0).MFW().STagAcks(0); n != 1 {
			t.Errorf("%d events acknowledged", n)
		}
		if err := x.devs[0].Set(Setting{"ovlan", "101"}); err == nil || !strings.Contains(err.Error(), "ovlan 101 is that of f1") {
			t.Errorf("a neighbor's tag: %v", err)
		}
	}
	x := newFunctions(t, "1x25G", fastlinq.NPAR, []int{0, 0}, nil)
	if err := x.devs[0].Set(Setting{"ovlan", "101"}); err == nil {
		t.Error("a tag in mode npar")
	}
	if err := x.devs[1].Set(Setting{"link_speed", "10G"}); err == nil || !strings.Contains(err.Error(), "f0, the first function of port 0") {
		t.Errorf("the second function sets the link's speed: %v", err)
	}
}

// fromHost has the operating system of a function send a frame with VLAN tags, and
// returns the outer tag that it has on the wire of port 0.
func (x *functions) fromHost(fn int, own ...ether.Tag) ether.Tag {
	x.Helper()
	x.now += frame.Time(time.Millisecond) // the line is free
	x.rest()
	h := ether.Header{Dst: ether.Addr{2, 9, 9, 9, 9, 9}, Src: x.devs[fn].Config().MAC, Type: ether.TypeIPv4}
	h.NTags = copy(h.Tags[:], own)
	f := x.pool.Get(128)
	f.Append(append(h.AppendTo(nil), packet(ip.Header{Proto: ip.ProtoUDP, Src: nic4, Dst: peer4}, make([]byte, 8))...))
	x.wires[0].sent = nil
	x.card.Receive(npar.HostPort+frame.Port(fn), []*frame.Frame{f}, x.now)
	x.rest()
	if len(x.wires[0].sent) != 1 {
		x.Fatalf("%d frames", len(x.wires[0].sent))
	}
	got, _, err := ether.Parse(x.wires[0].sent[0])
	if err != nil || got.NTags != 1+len(own) {
		x.Fatalf("%+v, %v", got, err)
	}
	return got.Tags[0]
}

// With UFP the switch decides on the priority in the outer tag, by the traffic class of
// the function, or has the operating system do so by its own tags; frames without one
// have the class. An event changes the next frame. An S-tag always has the priority
// of the operating system.
//
// XX-07 XX-09
func TestUFP(t *testing.T) {
	for mf, tpid := range map[fastlinq.MFMode]uint16{fastlinq.OVLAN: ether.TypeQinQ, fastlinq.UFP: ether.TypeVLAN} {
		x, cfgs := prepareFunctions(t, "1x25G", mf, []int{0, 0}, func(i int, c *Config) {
			c.Hardware.(*fastlinq.Config).Link = settings.Link{OVLAN: uint16(100 + i)}
		})
		x.host = &hostSide{room: 64, held: map[netip.AddrPort]bool{}}
		for i, cfg := range cfgs {
			if err := x.attach(i, 0, cfg); err != nil {
				t.Fatal(err)
			}
		}
		outer := func(pcp, vid uint16) ether.Tag { return ether.Tag{TPID: tpid, TCI: pcp<<13 | vid} }
		own := ether.Tag{TPID: ether.TypeVLAN, TCI: 6<<13 | 7}
		if mf == fastlinq.OVLAN {
			if got := x.fromHost(0, own); got != outer(6, 100) {
				t.Errorf("S-tag %+v", got)
			}
			if err := x.devs[0].Set(Setting{"ufp_tc", "5"}); err == nil || !strings.Contains(err.Error(), "mf_mode ufp") {
				t.Errorf("a traffic class without UFP: %v", err)
			}
			continue
		}
		for _, c := range []struct {
			set               []Setting
			own, without, vid uint16 // priorities of frames with a tag of their own and without
		}{
			{nil, 0, 0, 100}, {[]Setting{{"ufp_tc", "5"}}, 5, 5, 100}, {[]Setting{{"ufp_pri", "os"}}, 6, 5, 100},
			{[]Setting{{"ufp_tc", "2"}, {"ovlan", "200"}}, 6, 2, 200}, {[]Setting{{"ufp_pri", "vnic"}}, 2, 2, 200},
		} {
			if err := x.devs[0].Set(c.set...); err != nil {
				t.Fatal(err)
			}
			x.rest()
			if with, without := x.fromHost(0, own), x.fromHost(0); with != outer(c.own, c.vid) || without != outer(c.without, c.vid) {
				t.Errorf("%v: outer tags %+v and %+v", c.set, with, without)
			}
			if got := x.fromHost(1, own); got != outer(0, 101) {
				t.Errorf("%v: the neighbor's outer tag %+v", c.set, got)
			}
		}
	}
}

// With UFP the switch divides the port: by the least parts of functions that compete, and
// none sends more than its largest. An event changes either.
//
// XX-07
func TestUFPBandwidth(t *testing.T) {
	x, cfgs := prepareFunctions(t, "2x10G", fastlinq.UFP, []int{0, 0}, func(i int, c *Config) {
		c.Hardware.(*fastlinq.Config).Link = settings.Link{OVLAN: uint16(100 + i)}
	})
	x.host = &hostSide{room: 64, held: map[netip.AddrPort]bool{}}
	for i, cfg := range cfgs {
		if err := x.attach(i, 0, cfg); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		set  [2][]Setting
		want [2]int // frames of 1250 octets with their part of the line, of 2000 that 1 Gb/s carries in 20 ms
	}{
		{[2][]Setting{{{"link_speed", "1G"}}, nil}, [2]int{1000, 1000}},
		{[2][]Setting{{{"bw_min", "60"}}, {{"bw_min", "20"}}}, [2]int{1500, 500}},
		{[2][]Setting{{{"bw_min", "5"}, {"bw_max", "10"}}, nil}, [2]int{200, 1800}},
	} {
		for i, set := range c.set {
			if err := x.devs[i].Set(set...); err != nil {
				t.Fatal(err)
			}
		}
		x.rest()
		var got [2]int
		for step := range 300 {
			x.now += frame.Time(100 * time.Microsecond)
			for fn := range got {
				for range 20 {
					h := ether.Header{Dst: ether.Addr{2, 9, 9, 9, 9, 9}, Src: x.devs[fn].Config().MAC, Type: ether.TypeIPv4}
					f := x.pool.Get(1250)
					f.Append(append(h.AppendTo(nil), make([]byte, 1250-24-4-14)...)) // less preamble, FCS, gap and tag
					x.card.Receive(npar.HostPort+frame.Port(fn), []*frame.Frame{f}, x.now)
				}
			}
			x.wires[0].sent = nil
			x.rest()
			for _, b := range x.wires[0].sent {
				if step >= 100 { // the queues are full
					got[binary.BigEndian.Uint16(b[14:])&0xfff-100]++
				}
			}
		}
		for i, want := range c.want {
			if got[i] < want*9/10 || got[i] > want*11/10 {
				t.Errorf("%v: %v frames, want %v", c.set, got, c.want)
				break
			}
		}
	}
}

// The functions of one device have the transport of their own personality and no other:
// those of the same kind connect, one of each is refused.
//
// RD-01
func TestPersonalityPerFunction(t *testing.T) {
	kinds := []verbs.Personality{verbs.IWARP, verbs.RoCE, verbs.IWARP, verbs.RoCE, verbs.Ethernet}
	x := newFunctions(t, "1x25G", fastlinq.NPAR, make([]int, len(kinds)), func(i int, c *Config) {
		c.RDMA.Personality = kinds[i]
	})
	for i, k := range kinds {
		d := x.devs[i]
		if (d.IWARP != nil) != (k == verbs.IWARP) || (d.RoCE != nil) != (k == verbs.RoCE) || (d.RoCECM != nil) != (k == verbs.RoCE) {
			t.Errorf("function %d, %v: transports iWARP %v, RoCE %v", i, k, d.IWARP != nil, d.RoCE != nil)
		}
		counts := map[string]bool{}
		for _, c := range d.Counters() {
			counts[c.Name] = true
		}
		if counts["rdma_fpdus_in"] != (k == verbs.IWARP) || counts["roce_sent_pkts"] != (k == verbs.RoCE) {
			t.Errorf("function %d, %v: it has the counters of another personality", i, k)
		}
		if len(d.ShowQP()) != 0 || len(d.ShowCEP()) != 0 || len(d.ShowStats()) == 0 {
			t.Errorf("function %d, %v: queue pairs or connections of nobody", i, k)
		}
		if err := d.Set(Setting{"msglvl", "0x1"}); err != nil {
			t.Errorf("function %d: %v", i, err)
		}
	}
	at := func(i int) netip.AddrPort { return netip.AddrPortFrom(x.devs[i].Config().Addrs[0].Addr(), rdmaPort) }
	end := func(i int) *rdmaEnd { return newEnd(t, &node{dev: &device{Device: x.devs[i]}}, 4096) }
	for _, c := range []struct {
		from, to int
		want     cm.EventType
	}{{0, 2, cm.ActiveComplete}, {1, 3, cm.ActiveComplete}, {0, 3, cm.Refused}, {1, 2, cm.TimedOut}} {
		client, server := end(c.from), end(c.to)
		l, err := x.devs[c.to].CM.Listen(at(c.to), 1, server.handle, nil)
		must(t, err)
		id := x.devs[c.from].CM.NewID(client.handle, nil)
		must(t, id.Connect(at(c.to), cm.Params{QP: client.qp}, x.now))
		for i := 0; i < 1000 && len(client.events) == 0; i++ {
			x.rest()
			x.now = x.now.Add(100 * time.Millisecond)
		}
		if !client.saw(c.want) {
			t.Errorf("function %d, %v, connects to %d, %v: %v, want %v", c.from, kinds[c.from], c.to, kinds[c.to], client.events, c.want)
		}
		l.Close()
	}
	if _, err := x.devs[4].CM.Listen(at(4), 1, (&rdmaEnd{}).handle, nil); !errors.Is(err, cm.ErrNoTransport) {
		t.Errorf("a listener of Ethernet alone: %v", err)
	}
}

package nic

import (
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"tapir/nic/buf"
	"tapir/nic/fastlinq"
	"tapir/nic/hardware"
	"tapir/nic/ideal"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// What a NIC does above its hardware it does on ideal hardware, too: tests that
// ask nothing of a FastLinQ device.
func TestOnIdealHardware(t *testing.T) {
	was := usual
	usual = &ideal.Config{}
	defer func() { usual = was }()
	for name, test := range map[string]func(*testing.T){
		"rdma": TestRDMABetweenTwoNICs, "seed": TestSameSeedSameBytes, "path MTU": TestPathMTU,
		"unreachable": TestUnreachablePeer, "shutdown": TestShutdownInAnyState, "pool": TestPoolExhausted,
		"capture": TestCaptureOfALiveConnection, "views": TestViews, "timers": TestTimersAndPollers,
		"link": TestPortFollowsTheLink, "addresses": TestAddressesComeAndGo, "unplugged": TestFailedDevice,
		"device": TestShowDevice, "ping": TestPing, "ARP, ND": TestAnswersARPAndND, "announce": TestAnnouncesItself,
		"VLAN": TestVLAN, "gateway": TestGateway, "drops": TestDropsAreCountedAndRecorded, "closed ports": TestClosedPorts,
		"to the host": TestHostGetsWhatTheEngineDoesNotOwn, "host's fragments": TestHostFragments,
		"from the host": TestHostFramesGoOut, "host's resets": TestHostCannotReset,
		"host's ports": TestHostPortsAreReservedForConnections, "ephemeral ports": TestEphemeralPorts,
		"event log":    TestOverflowIsLogged,
		"shared queue": TestSharedQueueRunsDry, "receive queue": TestReceiveQueueRunsDry, "resolve": TestResolve,
		"route": TestRoute, "fragments": TestFragmentsInAnyOrder, "fragments refused": TestFragmentsRefused,
		"fragments late": TestFragmentsTimeOut, "fragments' memory": TestFragmentMemoryIsBounded,
		"write allocates": TestWriteAllocatesNothing, "echo allocates": TestEchoAllocatesNothing,
		"leaks": TestNothingLeaks,
	} {
		t.Run(name, test)
	}
}

// idleBytes are the octets that each of 1,000 idle NICs takes.
func idleBytes(t *testing.T, kind hardware.Config) int64 {
	const nics = 1000
	pool := buf.NewPool(64, 0)
	all := make([]*Device, nics)
	before := inUse()
	for i := range all {
		d, err := New(Config{Name: fmt.Sprintf("nic%d", i), Addrs: prefixes("10.0.0.1/24", "fd00::1/64"), Hardware: kind},
			Env{Pool: pool, Wire: sink{}})
		if err != nil {
			t.Fatal(err)
		}
		d.LinkUp(1)
		d.Poll(1)
		all[i] = d
	}
	per := int64(inUse()-before) / nics
	runtime.KeepAlive(all)
	return per
}

// An idle NIC takes at most half the memory on ideal hardware.
func TestIdealNICIsSmall(t *testing.T) {
	fastLinQ, small := idleBytes(t, &fastlinq.Config{}), idleBytes(t, &ideal.Config{})
	t.Logf("%d octets per idle NIC of FastLinQ hardware, %d of ideal hardware: %.3f", fastLinQ, small,
		float64(small)/float64(fastLinQ))
	if small <= 0 || 2*small > fastLinQ {
		t.Errorf("%d octets, of which ideal hardware takes %d", fastLinQ, small)
	}
}

// calls are the functions between one that is called and the caller of calls.
func calls(outer string) (names []string) {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for f, more := frames.Next(); more && !strings.HasSuffix(f.Function, outer); f, more = frames.Next() {
		names = append(names, f.Function)
	}
	return names
}

// With ideal hardware a completion reaches its handler in three calls: Notify,
// ServeCNQ, and the handler with the next Dispatch. The carrier reaches the port
// object in three: Signal, Carrier, SetCarrier.
func TestCallsOnIdealHardware(t *testing.T) {
	w, a, b := twoNICs(t, Config{Hardware: &ideal.Config{}})
	client, server := dial(w, a, b, peer4, 4096)
	d := a.dev.Verbs
	served := false
	d.SetInterrupt(func(cnq int) {
		if between := calls("verbs.(*CQ).push"); len(between) > 0 || d.Pending() {
			t.Errorf("from the completion to Notify: %v", between)
		}
		a.dev.Hardware.Notify(cnq)
		served = d.Pending() // Notify calls ServeCNQ, and that is all
	})
	handled := false
	client.cq.SetHandler(func(*verbs.CQ, frame.Time) {
		handled = true
		if between := calls("Dispatch"); len(between) > 0 {
			t.Errorf("from Dispatch to the handler: %v", between)
		}
	})
	client.cq.ReqNotify(false)
	client.post(verbs.OpWrite, 4096, server)
	w.until(time.Second, func() bool { return handled })
	if !served {
		t.Error("Notify does not serve the queue")
	}

	changed := 0
	d.OnPort(func(bool) {
		changed++
		between := calls("nic.(*Device).LinkDown")
		if i := slices.IndexFunc(between, func(f string) bool { return strings.HasSuffix(f, ").SetCarrier") }); i < 0 ||
			len(between)-i > 3 {
			t.Errorf("from the carrier to the port: %v", between)
		}
	})
	a.dev.LinkDown(w.now)
	if changed != 1 {
		t.Errorf("the port has changed %d times", changed)
	}
}

// A device with two ports and two functions on each is four NICs. Each talks to
// each by the cable between the ports; a port that goes down takes its own two
// functions with it, and no other.
func TestTwoPortsWithTwoFunctions(t *testing.T) {
	w := newWorld(t)
	cfg := &ideal.Config{Functions: []int{0, 0, 1, 1}}
	dev, err := cfg.Open()
	if err != nil {
		t.Fatal(err)
	}
	var nics [2][2]*node
	addr := func(port, fn int) string { return fmt.Sprintf("10.0.0.%d", 1+2*port+fn) }
	for p := range nics {
		for fn := range nics[p] {
			n := &node{w: w, room: 64}
			nics[p][fn] = w.attach(n, Config{Name: fmt.Sprint("nic", p, fn), Addrs: prefixes(addr(p, fn) + "/24"), Hardware: cfg},
				Env{Pool: w.pool, Wire: n, Device: dev, Function: 2*p + fn, Port: p})
		}
	}
	for _, at := range [][2]int{{0, 0}, {2, 0}, {0, 2}, {-1, 0}} { // taken, and not there
		env := Env{Pool: w.pool, Wire: &node{w: w}, Device: dev, Port: at[0], Function: at[1]}
		if _, err := New(Config{Name: "more", Addrs: prefixes("10.0.0.9/24"), Hardware: cfg}, env); err == nil {
			t.Errorf("function %d of port %d has two NICs", at[1], at[0])
		}
	}
	active := func() (is [2][2]bool) {
		for p := range nics {
			for fn, n := range nics[p] {
				is[p][fn] = n.dev.Verbs.PortAttr().State == verbs.PortActive
			}
		}
		return is
	}
	pairs := [][2]*node{{nics[0][0], nics[1][0]}, {nics[0][1], nics[1][1]}, {nics[0][0], nics[0][1]}}
	var ends [][2]*rdmaEnd
	for _, p := range pairs {
		c, s := dial(w, p[0], p[1], p[1].dev.cfg.Addrs[0].Addr(), 8192)
		exercise(w, c, s, 8192)
		ends = append(ends, [2]*rdmaEnd{c, s})
	}
	nics[1][0].dev.LinkDown(w.now) // by one of its functions
	if is := active(); is != [2][2]bool{{true, true}, {false, false}} {
		t.Fatalf("active ports %v", is)
	}
	exercise(w, ends[2][0], ends[2][1], 8192)
	nics[1][1].dev.LinkUp(w.now)
	if is := active(); is != [2][2]bool{{true, true}, {true, true}} {
		t.Fatalf("active ports %v", is)
	}
	for _, e := range ends {
		exercise(w, e[0], e[1], 8192)
	}
	// A function that is closed is free; the others go on.
	nics[0][1].dev.Shutdown(w.now)
	w.run(time.Second)
	for range 2 {
		if err := nics[0][1].dev.Close(w.now); err != nil {
			t.Error(err)
		}
	}
	exercise(w, ends[0][0], ends[0][1], 8192)
	n := &node{w: w, room: 64}
	w.attach(n, Config{Name: "again", Addrs: prefixes("10.0.0.9/24"), Hardware: cfg},
		Env{Pool: w.pool, Wire: n, Device: dev, Function: 1})
}

// What ideal hardware cannot do is refused, with a remedy.
func TestIdealHardwareRefuses(t *testing.T) {
	w := newWorld(t)
	h := &hostSide{w: w, room: 64, held: map[netip.AddrPort]bool{}}
	for want, c := range map[string]Config{"remove queues": {Queues: 2}, "remove vlan": {VLAN: 7}} {
		c.Name, c.Addrs, c.Hardware = "nic0", prefixes("10.0.0.1/24"), &ideal.Config{}
		_, err := New(c, Env{Pool: w.pool, Wire: sink{}, Host: h, Reserver: h})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "use hardware fastlinq") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

package nic

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tapir/nic/fastlinq"
	"tapir/nic/fastlinq/ecore"
	"tapir/nic/fastlinq/ecore/cxt"
	"tapir/nic/fastlinq/ecore/spq"
	"tapir/nic/fastlinq/l2"
	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
	"tapir/wire/ip"
)

// ramrods writes down what the firmware of an engine executes.
func (e *ethernetHost) ramrods(engine int) *[]string {
	list := new([]string)
	for _, p := range []cxt.Protocol{cxt.Eth, cxt.Common} {
		do := e.n.dev.Chip().Engines[engine].Handler(p)
		e.n.dev.Chip().Engines[engine].Handle(p, func(pf int, el spq.Element) (uint8, uint64) {
			*list = append(*list, fastlinq.RamrodName(ecore.RamrodCount{Protocol: el.Protocol, Cmd: el.Cmd}))
			return do(pf, el)
		})
	}
	return list
}

// folded is a list with what follows itself once.
func folded(list []string) string { return strings.Join(slices.Compact(slices.Clone(list)), " ") }

func (e *ethernetHost) slowpath(hwfn int) *l2.Slowpath {
	return e.n.dev.Slowpath(hwfn)
}

// bringUp are the ramrods of a load, where PF_START and the netdev's opening
// follow one another, and takeDown those of the other way.
const (
	bringUp = "COMMON PF_START ETH VPORT_START" +
		" ETH RXQ_START ETH TXQ_START ETH RXQ_START ETH TXQ_START" +
		" ETH VPORT_UPDATE COMMON PF_UPDATE ETH GFT_UPDATE_FILTER" +
		" ETH FILTERS_UPDATE ETH VPORT_UPDATE ETH FILTERS_UPDATE ETH VPORT_UPDATE"
	takeDown = "ETH VPORT_UPDATE ETH TXQ_STOP ETH RXQ_STOP ETH GFT_UPDATE_FILTER ETH VPORT_STOP COMMON PF_STOP"
)

// The netdev opens after the function has started, and closes before it stops, by
// ramrods in the order of the guide, which end by an interrupt in every mode.
//
// IN-08 IN-10 IN-23 IT-16 L2-02 L2-06 L2-15 L2-22
func TestRamrodsOfBringUp(t *testing.T) {
	for _, mode := range []string{"msix", "msi", "inta", "poll"} {
		e := newEthernetHost(t, Config{Hardware: &fastlinq.Config{Interrupts: fastlinq.Interrupts{Mode: mode}, Ethernet: fastlinq.Ethernet{Channels: 2}}})
		e.set("ntuple", "0 tcp4 dst-port 80 action 1")
		list := e.ramrods(0)
		for range 2 {
			e.set("driver", "unloaded")
			*list = nil // what is set is applied once more
			e.w.run(time.Millisecond)
			if got := folded(*list); got != takeDown {
				t.Errorf("%s: unload: %s", mode, got)
			}
			if len(e.in(e.frame(e.n.dev.cfg.MAC, 0, 80))) != 0 {
				t.Errorf("%s: a frame passes while the driver is not loaded", mode)
			}
			*list = nil
			e.n.set("driver=loaded")
			if got := folded(*list); got != bringUp {
				t.Errorf("%s: load: %s", mode, got)
			}
			if len(e.in(e.frame(e.n.dev.cfg.MAC, 0, 80))) != 1 || e.h.queues[0] != 1 {
				t.Errorf("%s: the rule sends to queue %v", mode, e.h.queues)
			}
			*list = nil
		}
		s := e.n.dev.Core().Show()[0]
		if s.SPQ.Posted != s.SPQ.Completed || s.SPQ.InUse != 0 || s.EQ.Events != s.SPQ.Posted || s.EQ.Unknown != 0 {
			t.Errorf("%s: %+v %+v", mode, s.SPQ, s.EQ)
		}
		if v := e.n.dev.IRQ().ShowVectors(); mode == "msix" && v[0].Interrupts < s.SPQ.Posted {
			t.Errorf("%d ramrods, %d interrupts", s.SPQ.Posted, v[0].Interrupts)
		}
	}
}

// What is set is a ramrod, and shows as one.
//
// L2-09 L2-10 L2-11 L2-18 L2-20 L2-23
func TestRamrodsOfSettings(t *testing.T) {
	e := newEthernetHost(t, Config{})
	list := e.ramrods(0)
	reload := "ETH VPORT_UPDATE ETH TXQ_STOP ETH RXQ_STOP ETH VPORT_STOP ETH VPORT_START"
	for _, c := range []struct{ set, first string }{
		{"rx_mode=regular", "ETH VPORT_UPDATE COMMON PF_UPDATE ETH FILTERS_UPDATE ETH VPORT_UPDATE"},
		{"rx_vlans=5", "ETH VPORT_UPDATE COMMON PF_UPDATE ETH FILTERS_UPDATE ETH VPORT_UPDATE"},
		{"channels=2", reload}, {"rx_ring=512", reload},
	} {
		*list = nil
		e.n.set(c.set)
		if got := folded(*list); !strings.HasPrefix(got, c.first) {
			t.Errorf("%s: %s", c.set, got)
		}
	}
	*list = nil
	if err := e.n.dev.SetMTU(1400, e.w.now); err != nil || (*list)[0] != "ETH VPORT_UPDATE" || (*list)[1] != "ETH VPORT_UPDATE" {
		t.Errorf("MTU: %v, %v", err, *list)
	}
	e.n.set("vxlan_port=4789", "tunnel_class=inner")
	h := e.n.dev.Core().Lead()
	if got, want := h.Tunnels(), (ecore.Tunnels{On: [ecore.NumTunnels]bool{ecore.VXLAN: true}, VXLANPort: 4789,
		Class: [ecore.NumTunnels]ecore.TunnelClass{ecore.VXLAN: ecore.ClassInnerMACVLAN, ecore.L2Geneve: ecore.ClassInnerMACVLAN}}); got != want {
		t.Errorf("tunnels %+v", got)
	}
	if ecore.Debug {
		if n := *value(t, e.n.dev.ShowDevice(), "ramrod", "ETH FILTERS_UPDATE").Ever; n == 0 {
			t.Error("no filter was set by a ramrod")
		}
	}
}

// A ramrod of a function that does not run, in a recovery, and for a firmware that
// does not answer, is INVAL, done without being sent, and BUSY: then it is stuck, and
// a recovery mends it.
//
// IT-16 IT-18 XX-02 XX-03
func TestRamrodStatus(t *testing.T) {
	e := newEthernetHost(t, Config{})
	d, sp, on := e.n.dev, e.slowpath(0), true
	update := func() error { return sp.VportUpdate(l2.UpdateParams{RxActive: &on}) }
	e.n.set("driver=unloaded")
	before := fmt.Sprint(d.ShowVport())
	if err := update(); !errors.Is(err, status.Inval) {
		t.Errorf("unloaded: %v", err)
	}
	e.n.set("rx_mode=regular", "channels=3") // counts with the load
	e.n.set("driver=loaded")
	if v := d.ShowVport()[0]; v.Queues != 3 || v.RxMode != "regular" || v.MACs != 1 || fmt.Sprint(d.ShowVport()) == before {
		t.Errorf("loaded: %+v", v)
	}
	for _, queue := range []int{-1, 4} {
		if _, err := sp.RxQueueStart(l2.QueueParams{Queue: queue, Size: 128}, 2048); !errors.Is(err, status.Inval) {
			t.Errorf("queue %d: %v", queue, err)
		}
	}
	var unknown spq.Result
	if err := d.Core().Lead().Post(spq.Request{Protocol: cxt.Eth, Cmd: 1, Done: func(r spq.Result, _ frame.Time) { unknown = r }}, e.w.now); err != nil {
		t.Fatal(err)
	}
	if d.Manage(e.w.now); unknown.Code != 0xff {
		t.Errorf("a ramrod without data: %+v", unknown)
	}

	d.Chip().Engines[0].Faults(0).Stuck = true
	if err := d.Set(Setting{"rx_mode", "promisc"}); !errors.Is(err, status.Busy) {
		t.Errorf("stuck: %v", err)
	}
	if s := d.Core().Show()[0].SPQ; s.InUse != 1 {
		t.Errorf("%d ramrods wait for a firmware that is stuck", s.InUse)
	}
	e.w.run(5 * time.Second)
	if h := d.Core().Health(); h.Errors[ecore.RamrodFail] != 1 || d.Core().HealthState() != "error" {
		t.Errorf("stuck: %+v", h.Errors)
	}
	if len(e.in(e.frame(d.cfg.MAC, 0, 80))) != 1 {
		t.Error("the data path needs no ramrod")
	}
	f := e.w.pool.Get(100)
	f.Append(e.frame(d.cfg.MAC, 0, 80))
	d.Receive(frame.Wire, []*frame.Frame{f}, e.w.now) // waits in its queue
	var ended error = status.Busy
	d.Chip().Engines[0].Faults(0).Stuck = false
	d.Recover(e.w.now, func(err error) { ended = err })
	e.w.run(time.Second)
	if ended != nil || d.Core().HealthState() != "healthy" || e.w.pool.Lent() != 0 || d.ShowVport()[0].RxMode != "promisc" || len(e.in(e.frame(d.cfg.MAC, 0, 80))) != 1 {
		t.Errorf("recovered: %v, %s, %d frames lent, %+v", ended, d.Core().HealthState(), e.w.pool.Lent(), d.ShowVport())
	}

	list := e.ramrods(0)
	if err := d.Core().RecoveryProlog(e.w.now); err != nil {
		t.Fatal(err)
	}
	skipped := d.Core().Show()[0].SPQ.Skipped
	if err := update(); err != nil || len(*list) != 0 || d.Core().Show()[0].SPQ.Skipped != skipped+1 {
		t.Errorf("recovery: %v, executed %v", err, *list)
	}
	if _, err := sp.RxQueueStart(l2.QueueParams{Size: 128}, 2048); !errors.Is(err, status.Again) {
		t.Errorf("recovery: %v", err)
	}
	if err := d.Close(e.w.now); err != nil || e.w.pool.Lent() != 0 {
		t.Errorf("%v, %d frames lent", err, e.w.pool.Lent())
	}
}

// What the firmware does not survive is a hardware error, and the driver's call
// fails.
//
// XX-05 L2-02
func TestFirmwareAsserts(t *testing.T) {
	e := newEthernetHost(t, Config{})
	if err := e.slowpath(0).VportStart(l2.StartParams{MTU: 1500}); !errors.Is(err, status.Inval) || !strings.Contains(err.Error(), "vport 0 is started already") {
		t.Errorf("%v", err)
	}
	if r := value(t, e.n.dev.ShowDevice(), "hw_error", "FW_ASSERT"); *r.Ever != 1 {
		t.Errorf("%+v", r)
	}
	if len(e.in(e.frame(e.n.dev.cfg.MAC, 0, 80))) != 1 {
		t.Error("the vport stands still")
	}
}

// Rules do not wait for their answers: more of them than the slowpath queue has room
// for wait, and are all executed in order. What the firmware refuses comes later.
//
// IT-16 L2-22
func TestSlowpathQueueIsFull(t *testing.T) {
	e := newEthernetHost(t, Config{})
	d, sp := e.n.dev, e.slowpath(0)
	tuple := func(i int) l2.Tuple { return l2.Tuple{Proto: ip.ProtoTCP, DstPort: uint16(1000 + i)} }
	d.Chip().Engines[0].Faults(0).Stuck = true
	for i := range 256 {
		if err := sp.AddRule(l2.Rule{Tuple: tuple(i), Queue: 1}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 100 {
		if err := sp.RemoveRule(tuple(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := sp.RemoveRule(tuple(0)); err != nil {
		t.Fatal(err)
	}
	if s := d.Core().Show()[0].SPQ; s.InUse != 357 || s.Waiting != 357-(spq.Elements-1) || s.Unlimited != uint64(s.Waiting) {
		t.Errorf("%+v", s)
	}
	failures := d.failures()
	d.Chip().Engines[0].Faults(0).Stuck = false
	e.w.run(time.Second)
	if s := d.Core().Show()[0].SPQ; s.InUse != 0 || s.Stuck != 0 {
		t.Errorf("%+v", s)
	}
	if d.failures() != failures+1 || !errors.Is(d.lastErr(), status.NoEnt) {
		t.Errorf("the rule that was not there: %v", d.lastErr())
	}
	for i := range 256 {
		err := sp.RemoveRule(tuple(i))
		if want := map[bool]status.Code{true: status.NoEnt}[i < 100]; status.Of(err) != want {
			t.Fatalf("rule %d: %v", i, err)
		}
	}
}

// Each engine has the ramrods of its own vport in its own queue, and one whose
// firmware is stuck does not concern the other.
//
// CM-04
func TestRamrodsOfTwoEngines(t *testing.T) {
	e := newTwoEngines(t, 2, Config{})
	d := e.n.dev
	lists := [2]*[]string{e.ramrods(0), e.ramrods(1)}
	e.n.set("driver=unloaded")
	e.n.set("driver=loaded")
	e.n.set("rx_mode=regular")
	if len(*lists[0]) < 20 || !slices.Equal(*lists[0], *lists[1]) {
		t.Errorf("engine 0 %v, engine 1 %v", *lists[0], *lists[1])
	}
	for _, s := range d.Core().Show() {
		if s.SPQ.Posted < 15 || s.SPQ.Posted != s.SPQ.Completed {
			t.Errorf("hwfn %d: %+v", s.Hwfn, s.SPQ)
		}
	}
	d.Chip().Engines[1].Faults(0).Stuck = true
	if err := d.Set(Setting{"rx_mode", "promisc"}); !errors.Is(err, status.Busy) {
		t.Errorf("engine 1 is stuck: %v", err)
	}
	if s := d.Core().Show(); s[0].SPQ.InUse != 0 || s[1].SPQ.InUse != 1 {
		t.Errorf("waiting: %d and %d", s[0].SPQ.InUse, s[1].SPQ.InUse)
	}
	d.Chip().Engines[1].Faults(0).Stuck = false
	e.set("rx_mode", "promisc")
	if n := by(e.flows(60)); n[0] == 0 || n[1] == 0 {
		t.Errorf("flows by engine: %v", n)
	}
}

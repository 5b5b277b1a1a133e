package linuxptp

import (
	"context"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tapir/lab/host/link"
	"tapir/lab/host/netns"
)

// within bounds what a test waits for on a slow machine.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func host(t *testing.T, ns *netns.NS) *Host {
	t.Helper()
	h, err := NewHost(ns)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// veth makes two namespaces with a veth pair, eth0 in each.
func veth(t *testing.T) [2]*Host {
	t.Helper()
	hosts, err := NewPair(link.Quiet)
	t.Cleanup(func() { hosts[0].Close(); hosts[1].Close() })
	if err != nil {
		t.Fatal(err)
	}
	return hosts
}

// fast are message rates at which a test need not wait.
var fast = Options{
	"network_transport": "L2", "logAnnounceInterval": "-3", "logSyncInterval": "-5", "logMinDelayReqInterval": "-5",
}

func with(o Options, more ...string) Options {
	all := Options{}
	for k, v := range o {
		all[k] = v
	}
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

func TestTwoStockClocks(t *testing.T) {
	t.Parallel()
	ctx, hosts := within(t), veth(t)
	eth0 := []Section{{Name: "eth0"}}
	master, err := hosts[0].PTP4L(ctx, PTP4L{Options: with(fast, "priority1", "1"), Sections: eth0})
	if err != nil {
		t.Fatal(err)
	}
	slave, err := hosts[1].PTP4L(ctx, PTP4L{Options: with(fast, "slaveOnly", "1"), Sections: eth0})
	if err != nil {
		t.Fatal(err)
	}
	if err := slave.Await(ctx, "ten measurements", func(l Log) bool { return len(l.Samples()) >= 10 }); err != nil {
		t.Fatal(err)
	}
	if s := master.Log().State(1); s != "MASTER" {
		t.Errorf("the master is %s", s)
	}
	replies, err := slave.PMC(ctx, "GET PORT_DATA_SET", "GET PARENT_DATA_SET", "SET PRIORITY2 77")
	if err != nil {
		t.Fatal(err)
	}
	if len(replies) != 3 || replies[0].Get("delayMechanism") != "1" || replies[1].Get("grandmasterPriority1") != "1" || replies[2].Get("priority2") != "77" {
		t.Errorf("replies %+v", replies)
	}
	if _, err := slave.PMC(ctx, "GET NONSENSE"); err == nil {
		t.Error("pmc knows NONSENSE")
	}
	if _, err := os.ReadDir(hosts[1].dir); err != nil {
		t.Fatal(err)
	}
	hosts[1].Close()
	if _, err := os.ReadDir(hosts[1].dir); err == nil {
		t.Error("the directory is left behind")
	}
	if err := slave.Await(ctx, "what never comes", func(Log) bool { return false }); err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("after the end: %v", err)
	}
}

// capSysTime is the number of CAP_SYS_TIME in capabilities(7).
const capSysTime = 25

func TestNobodyMaySetTheClock(t *testing.T) {
	t.Parallel()
	ns, err := netns.Current()
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	lines, err := host(t, ns).Run(within(t), Command{Name: "cat", Args: []string{"/proc/self/status"}})
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, l := range lines {
		f := strings.Fields(l)
		if len(f) != 2 || !slices.Contains([]string{"CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"}, f[0]) {
			continue
		}
		seen++
		if set, err := strconv.ParseUint(f[1], 16, 64); err != nil || set>>capSysTime&1 != 0 {
			t.Errorf("%s: CAP_SYS_TIME (%v)", l, err)
		}
	}
	if seen != 5 {
		t.Errorf("%d sets of capabilities in\n%s", seen, strings.Join(lines, "\n"))
	}
}

func TestPrograms(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"ptp4l", "pmc", "phc2sys", "ts2phc", "phc_ctl", "hwstamp_ctl", "chronyd", "chronyc"} {
		if _, err := Find(name); err != nil {
			t.Error(err)
		}
	}
	if _, err := Find("no-such-program"); err == nil {
		t.Error("found a program that is not there")
	}
	ns, err := netns.Current()
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	h := host(t, ns)
	if out, err := h.Run(within(t), Command{Name: "sh", Args: []string{"-c", "echo first; echo second >&2; exit 3"}}); err == nil || !slices.Equal(out, []string{"first", "second"}) {
		t.Errorf("%q, %v", out, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	p, err := h.Start(ctx, Command{Name: "sh", Args: []string{"-c", "trap '' TERM; echo ready; sleep 600 & wait; wait"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Await(within(t), "ready", func(l Log) bool { return len(l) == 1 }); err != nil {
		t.Fatal(err)
	}
	cancel()
	select {
	case <-p.Ended():
	case <-within(t).Done():
		t.Error("a program outlives its context")
	}
}

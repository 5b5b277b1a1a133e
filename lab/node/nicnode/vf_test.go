package nicnode

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"

	"tapir/lab/check/testenv"
	"tapir/lab/conf/nicconf"
	"tapir/lab/host/link"
	"tapir/lab/node"
	"tapir/nic/fastlinq"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// A VF for each of three namespaces: those of one VLAN reach each other and the third does
// not, an interface has the address that the PF sets, and all of it goes with the VFs.
func TestVFsInNamespaces(t *testing.T) {
	p := testenv.Pair(t, 1500, false)
	cfg := Config{Name: "pf", TAP: link.PairTAP, IP: prefixes("10.7.1.1/24"), SRIOV: &nicconf.SRIOV{Total: 4}}
	var spaces []*link.Space
	for i, policies := range [][]string{nil, {"max_tx_rate", "100"}, {"vlan", "100", "spoofchk", "on"}} {
		s := testenv.Space(t, nil)
		spaces = append(spaces, s)
		cfg.SRIOV.VFs = append(cfg.SRIOV.VFs, nicconf.VF{HostTAP: "vf", NetNS: fmt.Sprint("/proc/self/fd/", s.NS.Fd()),
			IP: prefixes(fmt.Sprintf("10.7.0.%d/24", i+1)), Policies: policies})
	}
	n := start(t, cfg, node.Env{NS: p.A.NS})
	ping := func(from, to int, more ...string) error {
		_, err := testenv.Run(t, spaces[from].NS, append(append([]string{"ping", "-c", "1", "-W", "2"}, more...),
			fmt.Sprintf("10.7.0.%d", to+1))...)
		return err
	}
	if err := ping(0, 1); err != nil {
		t.Error("VFs do not reach each other:", err)
	}
	if ping(0, 2, "-W", "1") == nil {
		t.Error("a VF reaches one of another VLAN")
	}
	set, err := fastlinq.ParseVFSet([]string{"mac", "02:00:00:00:00:05"})
	must(t, err, n.DoWait(func(frame.Time) { err = set.Apply(n.vfs.bridge.IOV(), 0) }), err)
	await(t, "the interface has the PF's address", func() bool {
		d, err := spaces[0].Net.Netdev("vf")
		return err == nil && d.MAC.String() == "02:00:00:00:00:05"
	})
	_, err = testenv.Run(t, spaces[1].NS, "ip", "neigh", "flush", "dev", "vf")
	must(t, err)
	if err := ping(1, 0); err != nil {
		t.Error("with its new address a VF is not reached:", err)
	}
	if err := n.SetNumVFs(4); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("4 VFs where there are 3: %v", err)
	}
	if err := n.SetNumVFs(5); !errors.Is(err, syscall.ERANGE) {
		t.Errorf("5 VFs of 4: %v", err)
	}
	must(t, n.SetNumVFs(0))
	for i, s := range spaces {
		if _, err := s.Net.Netdev("vf"); err == nil {
			t.Errorf("the interface of VF %d stays", i)
		}
	}
	must(t, n.SetNumVFs(2))
	if err := ping(1, 0); err != nil {
		t.Error("VFs that come again do not reach each other:", err)
	}
}

// VFs of two NICs, one of which has two engines, reach each other by the cable within their
// VLAN and not across, and so do those without a VLAN and the kernel at the cable's far end.
func TestVFsByCable(t *testing.T) {
	p := testenv.Pair(t, 1500, false)
	must(t, p.B.Net.AddAddr("br0", prefixes("10.7.0.99/24")[0]))
	var spaces [2][2]*link.Space
	for i, at := range []*link.Space{p.A, p.B} {
		cfg := Config{Name: fmt.Sprint("pf", i), TAP: link.PairTAP, IP: prefixes(fmt.Sprintf("10.7.%d.1/24", i+1)),
			SRIOV: &nicconf.SRIOV{}}
		if i == 0 {
			cfg.HostTAP, cfg.NIC.Hardware = "host", &fastlinq.Config{Engines: 2}
		}
		for v, policies := range [][]string{{"vlan", "100"}, nil} {
			s := testenv.Space(t, nil)
			spaces[i][v] = s
			cfg.SRIOV.VFs = append(cfg.SRIOV.VFs, nicconf.VF{HostTAP: "vf", NetNS: fmt.Sprint("/proc/self/fd/", s.NS.Fd()),
				IP: prefixes(fmt.Sprintf("10.7.0.%d/24", 10*i+v+1)), Policies: policies})
		}
		start(t, cfg, node.Env{NS: at.NS})
	}
	for _, c := range []struct {
		from  *link.Space
		to    int
		reach bool
	}{{spaces[0][0], 11, true}, {spaces[0][1], 12, true}, {spaces[1][1], 2, true}, {spaces[0][1], 99, true},
		{spaces[0][0], 12, false}, {spaces[0][0], 99, false}} {
		wait := "10"
		if !c.reach {
			wait = "1"
		}
		out, err := testenv.Run(t, c.from.NS, "ping", "-c", "1", "-W", wait, fmt.Sprint("10.7.0.", c.to))
		if (err == nil) != c.reach {
			t.Errorf("to %d: %v\n%s", c.to, err, out)
		}
	}
}

// The interface of a VF that somebody moves to a container's namespace and renames keeps the
// address that the PF sets, and the VF that of the interface. It is back, with the policies
// of the VF, when the namespace has ended.
func TestVFGivenToAContainer(t *testing.T) {
	p := testenv.Pair(t, 1500, false)
	cfg := Config{Name: "pf", TAP: link.PairTAP, IP: prefixes("10.7.1.1/24"), SRIOV: &nicconf.SRIOV{
		VFs: []nicconf.VF{{HostTAP: "vf"}, {HostTAP: "vg", IP: prefixes("10.7.0.2/24")}}}}
	n := start(t, cfg, node.Env{NS: p.A.NS})
	s, err := link.NewSpace(nil)
	must(t, err)
	done := false
	defer func() {
		if !done {
			s.Close()
		}
	}()
	said, err := testenv.Run(t, p.A.NS, "ip", "link", "set", "dev", "vf", "netns", fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), s.NS.Fd()))
	if err != nil {
		t.Fatal(err, said)
	}
	_, err = testenv.Run(t, s.NS, "sh", "-ec", "ip link set dev vf name net1; ip link set net1 up; ip addr add 10.7.0.1/24 dev net1")
	must(t, err)
	set, err := fastlinq.ParseVFSet([]string{"mac", "02:00:00:00:00:05"})
	must(t, err, n.DoWait(func(frame.Time) { err = set.Apply(n.vfs.bridge.IOV(), 0) }), err)
	await(t, "the interface has the PF's address", func() bool {
		d, err := s.Net.Netdev("net1")
		return err == nil && d.MAC.String() == "02:00:00:00:00:05"
	})
	if got := fmt.Sprintf("%q", n.VFNetdevs()); got != `["" "vg"]` {
		t.Error(got)
	}
	set, err = fastlinq.ParseVFSet([]string{"mac", "00:00:00:00:00:00", "vlan", "7"})
	must(t, err, n.DoWait(func(frame.Time) { err = set.Apply(n.vfs.bridge.IOV(), 0) }), err)
	must(t, s.Net.SetMAC("net1", net.HardwareAddr{2, 0, 0, 0, 0, 6}))
	await(t, "the VF has the interface's address", func() (has bool) {
		must(t, n.DoWait(func(frame.Time) { has = n.vfs.bridge.VFs()[0].MAC() == ether.Addr{2, 0, 0, 0, 0, 6} }))
		return has
	})
	s.Close()
	done = true
	await(t, "the interface is back", func() bool {
		d, err := p.A.Net.Netdev("vf")
		return err == nil && d.Up && fmt.Sprint(n.VFNetdevs()) == "[vf vg]"
	})
	must(t, n.DoWait(func(frame.Time) {
		if i, err := n.vfs.bridge.IOV().VFInfo(0); err != nil || i.VLAN != 7 {
			t.Errorf("VLAN %d: %v", i.VLAN, err)
		}
	}))
}

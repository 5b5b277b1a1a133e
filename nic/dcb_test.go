package nic

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tapir/nic/fastlinq"
	"tapir/nic/lldp"
	"tapir/nic/verbs"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
	lldpdu "tapir/wire/lldp"
	"tapir/wire/pause"
)

// configure changes settings of a running NIC, given as name=value with spaces between.
func configure(t *testing.T, n *node, settings string) {
	t.Helper()
	var list []Setting
	for s := range strings.FieldsSeq(settings) {
		name, v, _ := strings.Cut(s, "=")
		list = append(list, Setting{name, v})
	}
	if err := n.dev.Set(list...); err != nil {
		t.Fatal(err)
	}
}

// lldpOf is the LLDPDU that a frame holds; nil: none.
func lldpOf(b []byte) *lldpdu.PDU {
	if !ether.IsLLDP(b) {
		return nil
	}
	p, err := lldpdu.Parse(b[ether.HeaderLen:])
	if err != nil {
		return nil
	}
	return p
}

// dcbPair is two NICs, the settings of a left as they are but for LLDP: what b wants
// reaches a within two seconds.
func dcbPair(t *testing.T, p verbs.Personality, a, b string) (w *world, na, nb *node) {
	w, na, nb = twoNICs(t, Config{RDMA: RDMA{Personality: p}, Hardware: &fastlinq.Config{}})
	configure(t, na, a)
	configure(t, nb, b)
	w.run(2 * time.Second)
	return w, na, nb
}

// offered is how a frame of RDMA looks: "untagged" or its tag, and its DSCP.
func offered(w *world, a, b *node) (look string) {
	w.lose = func(from *node, f []byte) bool {
		h, n, err := ether.Parse(f)
		if from != a || err != nil || h.Type != ether.TypeIPv4 {
			return false
		}
		ih, _, err := ip.Parse(f[n:])
		if err != nil || ih.Proto != ip.ProtoTCP && ih.Proto != ip.ProtoUDP {
			return false
		}
		look = "untagged"
		if h.NTags > 0 {
			look = fmt.Sprintf("pcp %d vlan %d", h.Tags[0].PCP(), h.Tags[0].VID())
		}
		if dscp := ih.TOS >> 2; dscp != 0 {
			look += fmt.Sprintf(" dscp %d", dscp)
		}
		return false
	}
	c, s := dial(w, a, b, peer4, 4096)
	c.post(verbs.OpWrite, 100, s)
	w.run(time.Second)
	return look
}

// MF-25 MF-26 MF-27 Two NICs on a cable agree within two seconds, and what they have agreed on is seen in
// the frames of iWARP and RoCE: the priority of the application, in a tag or by the DSCP.
// All iWARP traffic follows the application of iwarp_port, whatever its own ports. Without
// DCB frames are as ever.
func TestDCB(t *testing.T) {
	const on = "lldp=nearest-bridge dcbx=ieee "
	for _, c := range []struct {
		p          verbs.Personality
		a, b, look string
	}{
		{verbs.IWARP, "lldp=none", "lldp=none", "untagged"},
		{verbs.IWARP, on, on, "untagged"},
		{verbs.IWARP, on + "dcb_willing=app iwarp_port=5000", on + "dcb_app=tcp:5000:5", "pcp 5 vlan 0"},
		{verbs.IWARP, on + "dcb_willing=app iwarp_port=5001", on + "dcb_app=tcp:5000:5", "untagged"},
		{verbs.IWARP, on + "dcb_willing=ets iwarp_port=5000", on + "dcb_app=tcp:5000:5", "untagged"},
		{verbs.IWARP, on + "dcb_willing=app", on + "dcb_app=ethtype:0:3", "pcp 3 vlan 0"},
		{verbs.IWARP, on + "dcb_willing=app iwarp_port=5000 trust=dscp dscp_prio=10:4,46:5", on + "dcb_app=tcp:5000:5", "untagged dscp 46"},
		{verbs.IWARP, "dcb_app=port:5000:6 iwarp_port=5000", "", "pcp 6 vlan 0"}, // no DCBX
		{verbs.RoCE, "dcb_app=udp:4791:3", "", "pcp 3 vlan 0"},
		{verbs.IWARP, "dcbx=ieee dcbx_static=1 dcb_app=port:5000:6 iwarp_port=5000", "", "pcp 6 vlan 0"},
		{verbs.IWARP, on + "dcbx_static=1 dcb_willing=app dcb_app=tcp:5000:6 iwarp_port=5000", on + "dcb_app=tcp:5000:5", "pcp 6 vlan 0"},
		{verbs.IWARP, "lldp=all dcbx=dynamic dcb_willing=all iwarp_port=5000", "lldp=all dcbx=cee dcb_app=tcp:5000:2", "pcp 2 vlan 0"},
		{verbs.RoCE, "lldp=none", "lldp=none", "untagged"},
		{verbs.RoCE, on + "dcb_willing=app", on + "dcb_app=udp:4791:3", "pcp 3 vlan 0"},
		{verbs.RoCE, on + "dcb_willing=app trust=dscp dscp_prio=26:3", on + "dcb_app=udp:4791:3", "untagged dscp 26"},
	} {
		w, a, b := dcbPair(t, c.p, c.a, c.b)
		if got := offered(w, a, b); got != c.look {
			t.Errorf("%v, %s and %s: frames are %s, not %s", c.p, c.a, c.b, got, c.look)
		}
	}
}

// MF-20 MF-21 MF-22 MF-23 MF-24 MF-25 Queues act on traffic classes, shares and lossless priorities; back without a neighbor.
func TestDCBOfPort(t *testing.T) {
	w, a, b := dcbPair(t, verbs.IWARP, "lldp=nearest-bridge dcbx=ieee dcb_willing=all",
		"lldp=nearest-bridge dcbx=ieee prio_tc=3:1,4:2 tc_bw=0:30,1:30,2:40 prio_pfc=3:on,4:on")
	s := a.dev.Wire.DCB()
	if s.PrioTC != [8]uint8{3: 1, 4: 2} || s.Weight != [8]uint8{30, 30, 40} || s.PFC != 0x18 || s.TSA[2] != 2 || s.TSA[3] != 0 {
		t.Errorf("%+v", s.Config)
	}
	for name, want := range map[string]string{"local_dcbx": "ieee", "remote_dcbx": "ieee", "oper_dcbx": "ieee",
		"local_tc_bw": "all:0", "oper_tc_bw": "0:30,1:30,2:40", "remote_prio_pfc": "3:on,4:on", "oper_prio_pfc": "3:on,4:on (willing)",
		"oper_prio_tc": "3:1,4:2 (willing)", "oper_tc_tsa": "0:ets,1:ets,2:ets"} {
		if got := attribute(t, a.dev.Hardware.(*fastlinq.Device).ShowDCB(), name); got != want {
			t.Errorf("%s is %s, not %s", name, got, want)
		}
	}
	if l := a.dev.Hardware.(*fastlinq.Device).ShowLLDP(w.now); len(l) != 3 || l[0].System != "nic1" || l[0].TTL != 121 || l[1].State != "off" {
		t.Errorf("%+v", l)
	}
	if b.dev.Wire.DCB().Config != s.Config {
		t.Errorf("the two ends have %+v and %+v", s.Config, b.dev.Wire.DCB().Config)
	}
	// The port acts on it: PFC holds a priority back, and the shares are those of what is sent.
	if !a.dev.Wire.PFC() || !b.dev.Wire.PFC() {
		t.Error("PFC is agreed on, and the ports do not have it")
	}
	pfc := make([]byte, pause.Len)
	(&pause.Frame{Src: b.dev.Config().MAC, PFC: true, Enabled: 1 << 3, Timers: [8]uint16{3: 0xffff}}).Put(pfc)
	w.send(b, pfc, frame.Offload{})
	w.run(100 * time.Microsecond)
	if n := a.counter("rx_prio3_pause"); n != 1 || !a.dev.Wire.Holds(true, 3, false, 0) || a.dev.Wire.Holds(true, 4, false, 0) {
		t.Errorf("%d PFC frames of priority 3 were obeyed", n)
	}
	configure(t, b, "lldp=none")
	w.run(time.Second)
	if a.dev.Wire.PFC() {
		t.Error("PFC without a neighbor")
	}
	if s := a.dev.Wire.DCB(); s.PFC != 0 || s.Weight != [8]uint8{} {
		t.Errorf("after the neighbor has said good-bye: %+v", s.Config)
	}
	for _, bad := range []string{"tc_bw=0:30,1:30", "tc_bw=100", "prio_tc=0:8", "tc_tsa=0:cbs", "tc_tsa=8:ets", "tc_maxrate=0:1", "tc_maxrate=0:-1G", "dcb_app=sctp:1:1", "prio_pfc=8:on", "dscp_prio=64:1", "dscp_prio=26:3", "dcb_app=dscp:26:3", "dcb_app=tcp:1"} {
		name, v, _ := strings.Cut(bad, "=")
		if err := a.dev.Set(Setting{name, v}); err == nil || !strings.HasPrefix(err.Error(), name) && !strings.Contains(err.Error(), " "+name+":") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// MF-28 Each agent sends to its own address, at its intervals, with the time to live that
// follows; with little credit changes are told one a second. An LLDPDU that is malformed
// is dropped.
func TestLLDP(t *testing.T) {
	w, a, b := twoNICs(t, Config{Hardware: &fastlinq.Config{}})
	sent := map[ether.Addr]int{}
	var last *lldpdu.PDU
	w.lose = func(from *node, f []byte) bool {
		if p := lldpOf(f); p != nil && from == a {
			last = p
			sent[ether.Addr(f[:6])]++
		}
		return false
	}
	w.run(time.Minute)
	if len(sent) != 0 {
		t.Errorf("LLDP is off, and %v were sent", sent)
	}
	configure(t, a, "lldp=nearest-bridge,nearest-customer lldp_interval=5 lldp_hold=3")
	w.run(time.Minute + time.Second)
	if len(sent) != 2 || sent[lldpdu.NearestBridge] != 13 || sent[lldpdu.NearestCustomer] != 13 || last.TTL != 16 || last.SystemName != "nic0" || last.MACPHY == nil {
		t.Errorf("%v, the last %+v", sent, last)
	}
	if b.dev.Hardware.(*fastlinq.Device).MFW().Agent(0).LLDP().Neighbors(lldp.NearestBridge) != nil {
		t.Error("who does not listen has a neighbor")
	}
	configure(t, b, "lldp=all")
	w.run(6 * time.Second)
	n := b.dev.Hardware.(*fastlinq.Device).MFW().Agent(0).LLDP()
	if len(n.Neighbors(lldp.NearestBridge)) != 1 || len(n.Neighbors(lldp.NearestNonTPMR)) != 0 {
		t.Errorf("b knows %+v", n.Neighbors(lldp.NearestBridge))
	}
	configure(t, a, "lldp=nearest-non-tpmr lldp_credit=1")
	w.run(time.Minute)
	if len(n.Neighbors(lldp.NearestBridge)) != 0 || len(n.Neighbors(lldp.NearestNonTPMR)) != 1 {
		t.Error("b was not told of the agents that have stopped")
	}
	for _, credit := range []int{1, 3} {
		configure(t, a, fmt.Sprintf("lldp_credit=%d", credit))
		w.run(12 * time.Second) // the last was two seconds ago
		before := sent[lldpdu.NearestNonTPMR]
		for i := range 5 {
			configure(t, a, fmt.Sprintf("lldp_tlvs=18017%d", i))
			w.run(10 * time.Millisecond)
		}
		if got := sent[lldpdu.NearestNonTPMR] - before; got != credit {
			t.Errorf("%d LLDPDUs with a credit of %d", got, credit)
		}
	}
	configure(t, b, "lldp_register=12")
	configure(t, a, "lldp_tlvs=180178")
	w.run(6 * time.Second)
	if tlvs := attribute(t, b.dev.Hardware.(*fastlinq.Device).ShowDCB(), "lldp_tlvs_received"); !strings.Contains(tlvs, "180178") {
		t.Errorf("received TLVs: %s", tlvs)
	}
	if err := a.dev.Set(Setting{"lldp_tlvs", "06020001"}); err == nil {
		t.Error("a second TTL is allowed")
	}
	w.lose = nil
	h := ether.Header{Dst: lldpdu.NearestBridge, Src: a.dev.Config().MAC, Type: ether.TypeLLDP}
	w.send(a, append(h.AppendTo(nil), 1, 2, 3), frame.Offload{})
	w.run(time.Millisecond)
	if got := b.dev.Common.Drops[drop.Malformed]; got != 1 {
		t.Errorf("%d malformed LLDPDUs were dropped", got)
	}
}

// The link partner of a NIC that negotiates with nobody is the one that an LLDP neighbor tells in its
// MAC/PHY TLV; the speed of the link stays. What the NIC tells there of itself is what it advertises.
// Without the neighbor it is the partner of before.
func TestPartnerByLLDP(t *testing.T) {
	w, a, b := twoNICs(t, Config{Hardware: &fastlinq.Config{}})
	var told *lldpdu.MACPHY
	w.lose = func(from *node, f []byte) bool {
		if p := lldpOf(f); p != nil && from == a {
			told = p.MACPHY
		}
		return false
	}
	partner := func() string {
		l := a.dev.ShowEthtool().Link
		var names []string
		for _, m := range l.Partner.Modes {
			names = append(names, m.Name)
		}
		return fmt.Sprintf("%d Mb/s, %s, pause %v %v", l.Speed, strings.Join(names, " "), l.Partner.Pause, l.Partner.AsymPause)
	}
	before := partner()
	configure(t, a, "lldp=nearest-bridge")
	configure(t, b, "lldp=nearest-bridge link_advertise=1G,40G pause=auto-rx")
	w.run(2 * time.Second)
	if got := partner(); got != "100000 Mb/s, 40000baseSR4/Full 1000baseX/Full, pause true true" {
		t.Errorf("the partner is %s, before %s", got, before)
	}
	if want := (lldpdu.MACPHY{Supported: true, Enabled: true, Advertised: 0x8024}); told == nil || *told != want { // others, 1000BASE-X, symmetric pause
		t.Errorf("the NIC tells %+v", told)
	}
	configure(t, b, "lldp=none")
	w.run(time.Second)
	if got := partner(); got != before {
		t.Errorf("after good-bye the partner is %s, before %s", got, before)
	}
}

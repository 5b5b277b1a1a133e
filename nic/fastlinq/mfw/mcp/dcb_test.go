package mcp_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"tapir/nic/dcb"
	"tapir/nic/dcbx"
	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/mfw/mcp"
	"tapir/nic/fastlinq/mfw/mib"
	"tapir/nic/fastlinq/status"
	"tapir/nic/lldp"
	"tapir/wire/ether"
	"tapir/wire/frame"
	wire "tapir/wire/lldp"
)

// cable is two boards with a driver each, whose ports are connected.
type cable struct {
	t    *testing.T
	end  [2]*rig
	sent [2][][]byte // what is on its way to an end
}

func newCable(t *testing.T) *cable {
	c := &cable{t: t}
	for i := range c.end {
		cfg := board(1, 1, 1)
		cfg.Funcs[0].MAC[4] = byte(i + 1)
		cfg.System = []string{"one", "two"}[i]
		cfg.Send = func(_ int, b []byte, _ frame.Time) bool {
			c.sent[1-i] = append(c.sent[1-i], bytes.Clone(b))
			return true
		}
		c.end[i] = newRig(t, cfg)
		c.end[i].up(0)
	}
	return c
}

// pass lets time pass in steps of 100 ms, and frames with it.
func (c *cable) pass(d time.Duration) {
	for ; d > 0; d -= 100 * time.Millisecond {
		for i, r := range c.end {
			for _, b := range c.sent[i] {
				if _, err := r.fw.ReceiveLLDP(0, b, r.now); err != nil {
					c.t.Fatal(err)
				}
			}
			c.sent[i] = nil
			r.pass(100 * time.Millisecond)
		}
	}
}

// both turns the nearest bridge's agent on at both ends.
func (c *cable) lldpOn() {
	for _, r := range c.end {
		r.must(func(now frame.Time, done func(error)) {
			r.drv[0].LLDPSetParams(lldp.NearestBridge, agentOn(), now, done)
		})
	}
}

func agentOn() lldp.Params {
	p := lldp.Default
	p.Rx, p.Tx = true, true
	return p
}

// commit sets all that s has.
func (c *cable) commit(end int, s mcp.DCBXSet) error {
	s.Override = mcp.OverrideState | mcp.OverridePFC | mcp.OverrideETS | mcp.OverrideApp | mcp.OverrideDSCP
	return c.end[end].do(func(now frame.Time, done func(error)) { c.end[end].drv[0].DCBXConfigParams(s, true, now, done) })
}

func query(t *testing.T, m *mcp.MCP, kind mcp.MIB) mcp.DCBX {
	t.Helper()
	d, err := m.DCBXQueryParams(kind)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// wishes are ETS 30/30/40, PFC for priority 3, and applications.
func wishes(v dcbx.Version, willing bool, apps ...wire.AppEntry) mcp.DCBXSet {
	f := dcbx.Feature{Enabled: true, Willing: willing}
	return mcp.DCBXSet{Version: v, Values: dcbx.Values{MaxTCs: 8, PFCCap: 8, ETS: f, Pause: f, App: f, Apps: apps,
		Config: dcb.Config{PrioTC: [8]uint8{3: 1, 4: 2}, Weight: [8]uint8{30, 30, 40}, TSA: [8]dcb.TSA{dcb.ETS, dcb.ETS, dcb.ETS}, PFC: 8}}}
}

var (
	roceApp  = wire.AppEntry{Priority: 3, Selector: wire.SelUDP, Protocol: 4791}
	iscsiApp = wire.AppEntry{Priority: 4, Selector: wire.SelTCP, Protocol: 3260}
)

// MF-20 MF-21 MF-22 What one end recommends, the willing other end has within two
// seconds: as its operational MIB, and as what is remote; its local MIB stays. Messages
// tell so, once each change.
func TestDCBXQuery(t *testing.T) {
	for _, v := range []dcbx.Version{dcbx.IEEE, dcbx.CEE} {
		c := newCable(t)
		own := mcp.DCBXSet{Version: dcbx.Dynamic, Values: dcbx.Values{MaxTCs: 8, PFCCap: 8}}
		own.Values.ETS = dcbx.Feature{Enabled: true, Willing: true}
		own.Values.Pause, own.Values.App = own.Values.ETS, own.Values.ETS
		if err := c.commit(1, own); err != nil {
			t.Fatal(err)
		}
		want := wishes(v, false, roceApp, iscsiApp)
		if err := c.commit(0, want); err != nil {
			t.Fatal(err)
		}
		c.lldpOn()
		c.pass(2 * time.Second)
		d := c.end[1].drv[0]
		oper, remote, local := query(t, d, mcp.OperationalMIB), query(t, d, mcp.RemoteMIB), query(t, d, mcp.LocalMIB)
		apps := want.Values.Apps
		if v == dcbx.CEE {
			apps = []wire.AppEntry{{Priority: 3, Selector: wire.SelPort, Protocol: 4791}, {Priority: 4, Selector: wire.SelPort, Protocol: 3260}}
		}
		if o := &oper.Values; oper.Version != v || o.Config != want.Values.Config || !slices.Equal(o.Apps, apps) || oper.TooMany || oper.Synced != (v == dcbx.CEE) {
			t.Errorf("%v: operational %+v", v, oper)
		}
		if r := &remote.Values; r.Config != want.Values.Config || !slices.Equal(r.Apps, apps) || r.ETS.Willing {
			t.Errorf("%v: remote %+v", v, remote)
		}
		if l := &local.Values; local.Version != dcbx.Dynamic || local.Static || l.Config != own.Values.Config || !l.ETS.Willing {
			t.Errorf("%v: local %+v", v, local)
		}
		seen := c.end[1].seen[0].dcb
		if seen[mfw.MsgDCBXOperationalMIB] == 0 || seen[mfw.MsgDCBXRemoteMIB] == 0 || seen[mfw.MsgLLDPDataUpdated] == 0 {
			t.Errorf("%v: messages %v", v, seen)
		}
		operational := seen[mfw.MsgDCBXOperationalMIB]
		c.pass(time.Minute)
		if seen[mfw.MsgDCBXOperationalMIB] != operational {
			t.Errorf("%v: messages without a change", v)
		}
		// The neighbor falls silent: back to the own values.
		c.end[0].link(0, false)
		c.end[1].pass(122 * time.Second)
		if oper := query(t, d, mcp.OperationalMIB); oper.Values.Config != own.Values.Config || seen[mfw.MsgDCBXOperationalMIB] != operational+1 {
			t.Errorf("%v: without a neighbor: %+v", v, oper)
		}
	}
}

// MF-22 A MIB whose two sequence numbers differ is not taken; a kind that there is not.
func TestDCBXUnsteady(t *testing.T) {
	c := newCable(t)
	p := mib.Of(&c.end[0].fw.Shared().Port[0].DCB)
	d := c.end[0].drv[0]
	p.Oper.Prefix++
	p.Status[0].Suffix++
	p.Received.Prefix++
	for kind, code := range map[mcp.MIB]status.Code{mcp.OperationalMIB: status.IO, mcp.RemoteLLDPMIB: status.IO, mcp.LLDPTLVs: status.IO,
		mcp.RemoteMIB: status.Success, mcp.LocalLLDPMIB: status.Success, 6: status.Inval} {
		_, err := d.DCBXQueryParams(kind)
		want(t, "a query", err, code)
	}
}

// MF-23 MF-24 What is set counts by its override flags, is kept, and reaches the
// firmware with hw_commit; what no port can act on changes nothing.
func TestDCBXConfig(t *testing.T) {
	c := newCable(t)
	r, d := c.end[0], c.end[0].drv[0]
	set := func(s mcp.DCBXSet, commit bool) error {
		return r.do(func(now frame.Time, done func(error)) { d.DCBXConfigParams(s, commit, now, done) })
	}
	s := wishes(dcbx.IEEE, false, roceApp)
	s.Static = true
	s.Override = mcp.OverrideState | mcp.OverridePFC
	if err := set(s, false); err != nil {
		t.Fatal(err)
	}
	if l := query(t, d, mcp.LocalMIB); l.Version != dcbx.Disabled || l.Values.Config.PFC != 0 {
		t.Errorf("without hw_commit: %+v", l)
	}
	if g := d.DCBXGetConfigParams(); g.Override != 0 || g.Version != dcbx.IEEE || g.Values.Config != (dcb.Config{PFC: 8}) || len(g.Values.Apps) != 0 {
		t.Errorf("the cache: %+v", g)
	}
	s.Override = mcp.OverrideETS | mcp.OverrideApp
	if err := set(s, true); err != nil {
		t.Fatal(err)
	}
	good := query(t, d, mcp.OperationalMIB)
	if good.Values.Config != s.Values.Config || !slices.Equal(good.Values.Apps, s.Values.Apps) || good.Version != dcbx.IEEE {
		t.Errorf("static values: %+v", good)
	}
	bad := func(name string, code status.Code, change func(*mcp.DCBXSet)) {
		b := wishes(dcbx.CEE, true, iscsiApp)
		change(&b)
		want(t, name, c.commit(0, b), code)
		if now := query(t, d, mcp.OperationalMIB); !now.Values.Equal(&good.Values) || now.Version != good.Version {
			t.Errorf("%s changed something: %+v", name, now)
		}
		if g := d.DCBXGetConfigParams(); g.Version != dcbx.IEEE {
			t.Errorf("%s changed the cache: %+v", name, g)
		}
	}
	bad("a sum of 90", status.Inval, func(s *mcp.DCBXSet) { s.Values.Weight[0] = 20 })
	bad("traffic class 8", status.Inval, func(s *mcp.DCBXSet) { s.Values.PrioTC[7] = 8 })
	bad("two traffic classes", status.Inval, func(s *mcp.DCBXSet) { s.Values.MaxTCs = 2 })
	bad("33 applications", status.Busy, func(s *mcp.DCBXSet) { s.Values.Apps = slices.Repeat(s.Values.Apps, dcbx.MaxApps+1) })
	bad("priority 8 of a DSCP", status.Inval, func(s *mcp.DCBXSet) { s.DSCP[9] = 8 })
}

// MF-25 The words of the shared memory, and the map of DSCPs.
func TestDCBXWords(t *testing.T) {
	c := newCable(t)
	d, p := c.end[0].drv[0], mib.Of(&c.end[0].fw.Shared().Port[0].DCB)
	if _, err := d.DCBXGetDSCPPriority(26); status.Of(err) != status.Inval {
		t.Errorf("without a map: %v", err)
	}
	s := wishes(dcbx.IEEE, true, roceApp, wire.AppEntry{Priority: 5, Selector: wire.SelEtherType, Protocol: 0x8906})
	s.Values.CBS, s.Values.MBC, s.DSCPOn, s.DSCP[26], s.DSCP[63] = true, true, true, 3, 7
	if err := c.commit(0, s); err != nil {
		t.Fatal(err)
	}
	f := mib.Features{ETS: 0x8b, PrioTC: 0x00012000, Weight: [2]uint32{0x1e1e2800}, TSA: [2]uint32{0x02020200}, PFC: 1<<16 | 1<<15 | 1<<14 | 8<<8 | 8,
		AppFlags: 2<<16 | 8<<12 | 3, Apps: [dcbx.MaxApps]uint32{4791<<16 | 3<<12 | 1<<8 | 1<<3, 0x8906<<16 | 1<<12 | 1<<5}}
	if p.Admin.Features != f || p.Admin.Config != 1 {
		t.Errorf("%#x, not\n%#x", p.Admin, f)
	}
	if p.DSCP.Flags != 1 || p.DSCP.Map[3] != 3<<8 || p.DSCP.Map[7] != 7<<28 {
		t.Errorf("%#x", p.DSCP)
	}
	for dscp, code := range map[int]status.Code{26: status.Success, 64: status.Inval, -1: status.Inval} {
		prio, err := d.DCBXGetDSCPPriority(dscp)
		if want(t, "a DSCP", err, code); err == nil && prio != 3 {
			t.Errorf("DSCP %d has priority %d", dscp, prio)
		}
	}
}

// MF-26 MF-27 Each protocol gets the priority and the class of its application: iWARP by
// the port that the client has set; those without one inherit Ethernet's.
func TestDCBXResults(t *testing.T) {
	c := newCable(t)
	d := c.end[0].drv[0]
	if list, err := d.Results(5000); err != nil || list != [mcp.Protocols]mcp.Result{} {
		t.Errorf("DCBX is off: %v %v", list, err)
	}
	s := wishes(dcbx.IEEE, false, iscsiApp, roceApp, wire.AppEntry{Priority: 6, Selector: wire.SelPort, Protocol: 5000},
		wire.AppEntry{Priority: 7, Selector: wire.SelEtherType, Protocol: 0x8915})
	if err := c.commit(0, s); err != nil {
		t.Fatal(err)
	}
	is := func(p mcp.Protocol, iwarp uint16, want mcp.Result) {
		t.Helper()
		if list, err := d.Results(iwarp); err != nil || list[p] != want {
			t.Errorf("%v: %+v %v, not %+v", p, list[p], err, want)
		}
	}
	is(mcp.ISCSI, 0, mcp.Result{Enable: true, Priority: 4, TC: 2})
	is(mcp.RoCEv2, 0, mcp.Result{Enable: true, Priority: 3, TC: 1})
	is(mcp.RoCE, 0, mcp.Result{Enable: true, Priority: 7})
	is(mcp.FCoE, 0, mcp.Result{Enable: true})
	is(mcp.IWARP, 5000, mcp.Result{Enable: true, Priority: 6})
	is(mcp.IWARP, 0, mcp.Result{Enable: true})
	is(mcp.Ethernet, 0, mcp.Result{})
	s.Values.Apps = []wire.AppEntry{{Priority: 4, Selector: wire.SelEtherType}, {Priority: 5, Selector: wire.SelEtherType, Protocol: 0x8906}}
	s.DSCPOn, s.DSCP[40], s.DSCP[46] = true, 5, 4
	if err := c.commit(0, s); err != nil {
		t.Fatal(err)
	}
	is(mcp.FCoE, 0, mcp.Result{Enable: true, Priority: 5, DontAddVLAN0: true, DSCPOn: true, DSCP: 40})
	inherited := mcp.Result{Enable: true, Priority: 4, TC: 2, DontAddVLAN0: true, DSCPOn: true, DSCP: 46}
	is(mcp.Ethernet, 0, inherited)
	is(mcp.ISCSI, 0, inherited)
	is(mcp.IWARP, 3260, inherited)
}

// MF-28 Settings of the three agents, IDs of both ends, system TLVs, and TLVs that the
// driver has registered for.
func TestLLDP(t *testing.T) {
	c := newCable(t)
	a, b := c.end[0], c.end[1]
	d := b.drv[0]
	for s := range lldp.Scopes {
		p := agentOn()
		p.Interval = 5 + uint8(s)
		a.must(func(now frame.Time, done func(error)) { a.drv[0].LLDPSetParams(s, p, now, done) })
		b.must(func(now frame.Time, done func(error)) { d.LLDPSetParams(s, agentOn(), now, done) })
		if got, err := a.drv[0].LLDPGetParams(s); got != p || err != nil {
			t.Errorf("%v: %+v %v", s, got, err)
		}
	}
	if w := a.fw.Shared().Port[0].DCB.LLDP[1].Config; w != 3<<30|5<<12|4<<8|6 {
		t.Errorf("the configuration word is %#x", w)
	}
	if _, err := d.LLDPGetParams(lldp.Scopes); status.Of(err) != status.Inval {
		t.Errorf("settings of a fourth agent: %v", err)
	}
	for _, call := range []func(frame.Time, func(error)){
		func(now frame.Time, done func(error)) { d.LLDPSetParams(lldp.Scopes, agentOn(), now, done) },
		func(now frame.Time, done func(error)) { d.LLDPRegisterTLV(lldp.Scopes, 5, now, done) },
		func(now frame.Time, done func(error)) { d.LLDPSetParams(0, lldp.Params{Rx: true}, now, done) },
	} {
		want(t, "a bad agent", b.do(call), status.Inval)
	}
	b.must(func(now frame.Time, done func(error)) { d.LLDPSetParams(0, agentOn(), now, done) })
	b.must(func(now frame.Time, done func(error)) { d.LLDPRegisterTLV(0, 12, now, done) })
	c.pass(2 * time.Second)
	remote, local := query(t, d, mcp.RemoteLLDPMIB), query(t, a.drv[0], mcp.LocalLLDPMIB)
	mac := ether.Addr{2, 0, 0, 0, 1, 0}
	for s := range lldp.Scopes {
		if r := remote.LLDP[s]; r != local.LLDP[s] || r.Chassis != wire.MACID(wire.ChassisMAC, mac) || r.Port != wire.MACID(wire.PortMAC, mac) {
			t.Errorf("%v: the neighbor is %+v", s, r)
		}
		if n := b.fw.Agent(0).LLDP().Neighbors(s); len(n) != 1 || n[0].PDU.TTL != uint16(5+s)*4+1 || n[0].PDU.SystemName != "one" {
			t.Errorf("%v: %+v", s, n)
		}
	}
	own := wire.AppendTLV(nil, 12, 'x')
	for name, x := range map[string]struct {
		b       []byte
		discard bool
		code    status.Code
	}{
		"too long":     {bytes.Repeat(own, 86), false, status.Inval},
		"not whole":    {own[:2], false, status.Inval},
		"mandatory":    {wire.AppendTLV(own, wire.TypeTTL, 0, 1), false, status.Inval},
		"are left out": {wire.AppendTLV(own, wire.TypeTTL, 0, 1), true, status.Success},
	} {
		want(t, name, a.do(func(now frame.Time, done func(error)) { a.drv[0].LLDPSetSystemTLVs(x.b, x.discard, now, done) }), x.code)
	}
	if got := query(t, d, mcp.LLDPTLVs); got.TLVs != nil {
		t.Errorf("TLVs before there are any: % x", got.TLVs)
	}
	c.pass(time.Second)
	got, err := wire.Parse(query(t, d, mcp.LLDPTLVs).TLVs)
	if err != nil || !bytes.Equal(got.Extra, own) || b.seen[0].dcb[mfw.MsgLLDPReceivedTLVs] == 0 {
		t.Errorf("%+v %v, messages %v", got, err, b.seen[0].dcb)
	}
}

// A function of another port does not hear of it.
func TestDCBOfOnePort(t *testing.T) {
	r := newRig(t, board(1, 2, 1))
	r.up(0)
	r.up(1)
	s := wishes(dcbx.IEEE, false, roceApp)
	s.Static, s.Override = true, mcp.OverrideState|mcp.OverrideETS
	r.must(func(now frame.Time, done func(error)) { r.drv[0].DCBXConfigParams(s, true, now, done) })
	if len(r.seen[0].dcb) == 0 || len(r.seen[1].dcb) != 0 {
		t.Errorf("messages %v and %v", r.seen[0].dcb, r.seen[1].dcb)
	}
}

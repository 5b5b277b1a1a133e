package nic

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"tapir/nic/cm"
	"tapir/nic/fastlinq"
	"tapir/nic/fastlinq/ecore/cxt"
	"tapir/nic/fastlinq/rdma"
	nicip "tapir/nic/ip"
	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ib"
	"tapir/wire/icmp"
	"tapir/wire/igmp"
	"tapir/wire/ip"
)

// roceConfig is a NIC with RoCE.
func roceConfig() Config { return Config{RDMA: RDMA{Personality: verbs.RoCE}} }

// TestGIDTable follows the GID table of a RoCE port: index 3 is IPv4 with RoCE v2, and
// entries stay at their index when other addresses go and come.
func TestGIDTable(t *testing.T) {
	table := func(n *node) (list []string) {
		p := &n.dev.Verbs.Port
		for i, g := range p.GIDs() {
			if g != (verbs.GID{}) {
				list = append(list, fmt.Sprintf("%d %v %v", i, g, p.GIDType(i)))
			}
		}
		return list
	}
	w := newWorld(t)
	cfg := roceConfig()
	cfg.Name, cfg.Addrs = "nicA", prefixes("10.0.0.1/24", "10.0.1.1/24")
	a := w.nic(cfg)
	_, events := watch(t, a)
	const want3 = "3 0000:0000:0000:0000:0000:ffff:0a00:0001 RoCE v2"
	if got := table(a); len(got) != 6 || !slices.Contains(got, want3) || !strings.HasPrefix(got[0], "0 fe80:") {
		t.Errorf("table %q", got)
	}
	must(t, a.dev.RemoveAddr(prefixes("10.0.0.1/24")[0].Addr(), w.now))
	must(t, a.dev.AddAddr(prefixes("fd00::1/64")[0], w.now))
	w.poll()
	expectEvents(t, "an address goes, another comes", events, "GID_CHANGE", "GID_CHANGE")
	got := table(a)
	if !slices.Contains(got, "3 fd00:0000:0000:0000:0000:0000:0000:0001 RoCE v2") ||
		!slices.Contains(got, "5 0000:0000:0000:0000:0000:ffff:0a00:0101 RoCE v2") {
		t.Errorf("after changes: %q", got)
	}
	cfg.Name, cfg.Addrs, cfg.RDMA.GIDsV2 = "nicB", prefixes("10.0.0.2/24"), true
	if got := table(w.nic(cfg)); len(got) != 2 || !strings.HasSuffix(got[1], "0002 RoCE v2") {
		t.Errorf("v2 alone: %q", got)
	}
}

// TestPartitionKeys: the setting pkeys is the port's table, which attributes, tapir show and
// packets follow; NICs of different partitions do not hear each other.
func TestPartitionKeys(t *testing.T) {
	keys := map[string][]uint16{"nic0": {0x8001, 0x7fff}, "nic1": {0x0001}}
	w, a, b := twoRoCE(t, func(c *Config) { c.RDMA.PKeys = keys[c.Name] })
	if p := a.dev.Verbs.PKeys(); !slices.Equal(p[:3], []uint16{0x8001, 0x7fff, 0}) {
		t.Errorf("table %#04x", p[:3])
	}
	from, to := roceEndOn(t, a, qpattr.RC, 3), roceEndOn(t, b, qpattr.RC, 3)
	from.move(t, to)
	to.move(t, from)
	write := func() {
		t.Helper()
		_, err := from.qp.PostSend(verbs.SendWR{Opcode: verbs.OpWrite, Flags: verbs.Signaled, SGEs: from.sge(0, 8),
			RemoteAddr: to.mr.Addr(), RKey: to.mr.RKey()})
		must(t, err)
	}
	write()
	from.take(t, w)
	if q := b.dev.ShowRoCEQP(); len(q) != 1 || q[0].PKey != "0x0001" {
		t.Errorf("shown: %+v", q)
	}
	must(t, a.dev.Verbs.ModifyPort(verbs.PortMod{PKeys: []uint16{0x7fff}}))
	write()
	w.until(10*time.Second, func() bool { return b.counter("rx_drop_roce_key") > 0 })
	if n := b.dev.Verbs.PortAttr().BadPKeys; n == 0 || from.cq.Len() != 0 {
		t.Errorf("%d bad P_Keys, %d completions", n, from.cq.Len())
	}
	for _, c := range []struct {
		change func(r *RDMA)
		want   string
	}{{func(r *RDMA) { r.Personality = verbs.IWARP }, "pkeys: personality iwarp has no partitions"},
		{func(r *RDMA) { r.PKeys = make([]uint16, 33) }, "pkeys: 33 keys: the table has 32 entries"}} {
		r := RDMA{Personality: verbs.RoCE, PKeys: []uint16{0xffff}}
		if c.change(&r); r.Validate() == nil || !strings.Contains(r.Validate().Error(), c.want) {
			t.Errorf("%v, want %q", r.Validate(), c.want)
		}
	}
}

// TestXRCByCM: the connection manager connects an initiator and a target, whose domain's
// shared receive queue the server names in its private data; Sends arrive there, and a
// Write and a Read pass (RD-18).
func TestXRCByCM(t *testing.T) {
	w, a, b := twoRoCE(t, nil)
	from, to := roceEndOn(t, a, qpattr.XRCInitiator, 3), roceEndOn(t, b, qpattr.RC, 3)
	ctx, err := b.dev.Verbs.Open(nil)
	must(t, err)
	x, err := ctx.AllocXRCD()
	must(t, err)
	srq, err := to.pd.CreateXSRQ(x, to.cq, 4, 1)
	must(t, err)
	_, err = srq.PostRecv(verbs.RecvWR{ID: 7, SGEs: to.sge(0, 4096)})
	must(t, err)
	tgt, err := to.pd.CreateQP(verbs.QPConfig{Type: qpattr.XRCTarget, XRCD: x})
	must(t, err)
	at := netip.AddrPortFrom(prefixes("10.0.0.1/24")[0].Addr().Next(), 7174)
	var server *cm.ID
	_, err = b.dev.CM.Listen(at, 1, func(ev cm.Event, now frame.Time) {
		if ev.Type == cm.ConnectRequest {
			server = ev.ID
			must(t, ev.ID.Accept(cm.Params{QP: tgt, PrivateData: binary.BigEndian.AppendUint32(nil, srq.Num())}, now))
		}
	}, nil)
	must(t, err)
	var done cm.Event
	id := a.dev.CM.NewID(func(ev cm.Event, _ frame.Time) {
		if ev.Type == cm.ActiveComplete {
			done = ev
		}
	}, nil)
	must(t, id.Connect(at, cm.Params{QP: from.qp}, w.now))
	w.until(10*time.Second, func() bool { return done.ID != nil && server.State() == cm.Connected })
	for i := range from.mem {
		from.mem[i] = byte(i * 7)
	}
	number := binary.BigEndian.Uint32(done.PrivateData)
	for _, wr := range []verbs.SendWR{
		{SGEs: from.sge(0, 3000)}, {Opcode: verbs.OpWrite, SGEs: from.sge(100, 2000), RemoteAddr: to.mr.Addr() + 4096},
		{Opcode: verbs.OpRead, SGEs: from.sge(5000, 2000), RemoteAddr: to.mr.Addr() + 4096}} {
		wr.RemoteSRQ, wr.RKey, wr.Flags = number, to.mr.RKey(), verbs.Signaled
		_, err = from.qp.PostSend(wr)
		must(t, err)
		from.take(t, w)
	}
	if wc := to.take(t, w); wc.ID != 7 || wc.ByteLen != 3000 || !bytes.Equal(to.mem[:3000], from.mem[:3000]) {
		t.Errorf("receive %+v", wc)
	}
	if !bytes.Equal(to.mem[4096:][:2000], from.mem[100:][:2000]) || !bytes.Equal(from.mem[5000:][:2000],
		from.mem[100:][:2000]) {
		t.Error("Write or Read: memory differs")
	}
	must(t, id.Disconnect(false, w.now))
	w.until(time.Minute, func() bool { return id.State() == cm.Closed && server.State() == cm.Closed })
}

// TestRoCEContexts: a queue pair costs two connection ids, the first even (RD-03).
func TestRoCEContexts(t *testing.T) {
	w := newWorld(t)
	cfg := roceConfig()
	cfg.Name, cfg.Addrs, cfg.Hardware = "nicA", prefixes("10.0.0.1/24"), &fastlinq.Config{}
	a := w.nic(cfg)
	a.dev.LinkUp(w.now)
	w.poll()
	before, _ := cidsOf(a.dev, cxt.RoCE)
	pd, err := a.dev.Verbs.AllocPD()
	must(t, err)
	cq, err := a.dev.Verbs.CreateCQ(16, nil)
	must(t, err)
	for i := range 3 {
		q, err := pd.CreateQP(verbs.QPConfig{SendCQ: cq, RecvCQ: cq})
		must(t, err)
		if used, _ := cidsOf(a.dev, cxt.RoCE); q.CID()%2 != 0 || used != before+2*(i+1) {
			t.Errorf("QP %d: cid %d, %d ids in use", i, q.CID(), used)
		}
		defer q.Destroy()
	}
	if u := a.dev.Verbs.Usage(); !slices.ContainsFunc(u, func(u verbs.Usage) bool {
		return u.Name == "ICID" &&
			u.Used == 6
	}) {
		t.Errorf("usage %v", u)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// roceEnd is a queue pair of a RoCE NIC with its memory.
type roceEnd struct {
	n   *node
	pd  *verbs.PD
	cq  *verbs.CQ
	mr  *verbs.MR
	qp  *verbs.QP
	mem []byte
	gid int // index of the source's GID
	// sl and class are those of its paths.
	sl, class uint8
}

// roceEndOn makes one of type typ whose GID has index gid.
func roceEndOn(t *testing.T, n *node, typ qpattr.Type, gid int) *roceEnd {
	t.Helper()
	e, err := &roceEnd{n: n, mem: make([]byte, 8192), gid: gid}, error(nil)
	e.pd, err = n.dev.Verbs.AllocPD()
	must(t, err)
	e.cq, err = n.dev.Verbs.CreateCQ(64, nil)
	must(t, err)
	e.mr, err = e.pd.RegMR(e.mem, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead|verbs.RemoteAtomic)
	must(t, err)
	e.qp, err = e.pd.CreateQP(verbs.QPConfig{Type: typ, SendCQ: e.cq, RecvCQ: e.cq})
	must(t, err)
	return e
}

// path is the way to e.
func (e *roceEnd) path(from *roceEnd) qpattr.Path {
	return qpattr.Path{DGID: e.n.dev.Verbs.GIDs()[e.gid], SGIDIndex: uint8(from.gid), SL: from.sl, TClass: from.class}
}

// roceQKey is that of datagrams.
const roceQKey = 0x1234

// move moves the queue pair to RTS, connected with peer.
func (e *roceEnd) move(t *testing.T, peer *roceEnd) {
	t.Helper()
	typ := e.qp.Type()
	a := qpattr.Attr{Port: 1, Access: uint8(verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic), QKey: roceQKey,
		Path: peer.path(e), PathMTU: 1024, DestQPN: peer.qp.QPN(), RQPSN: 0xfffff0, SQPSN: 0xfffff0, MaxRdAtomic: 4,
		MaxDestRdAtomic: 4, MinRNRTimer: 12, Timeout: 14, RetryCount: 7, RNRRetry: 7}
	init, rtr, rts := qpattr.PKeyIndex|qpattr.Port|qpattr.Access, qpattr.AV|qpattr.PathMTU|qpattr.DestQPN|qpattr.RQPSN,
		qpattr.SQPSN
	switch typ {
	case qpattr.UD:
		init, rtr = qpattr.PKeyIndex|qpattr.Port|qpattr.QKey, 0
	case qpattr.RC:
		rtr |= qpattr.MaxDestRdAtomic | qpattr.MinRNRTimer
		rts |= qpattr.Timeout | qpattr.RetryCount | qpattr.RNRRetry | qpattr.MaxRdAtomic
	}
	must(t, e.qp.ModifyAttr(verbs.Init, &a, init))
	must(t, e.qp.ModifyAttr(verbs.RTR, &a, rtr))
	must(t, e.qp.ModifyAttr(verbs.RTS, &a, rts))
}

func (e *roceEnd) sge(off, n int) []verbs.SGE {
	return []verbs.SGE{{Addr: e.mr.Addr() + uint64(off), Length: uint32(n), LKey: e.mr.LKey()}}
}

// take waits for a completion.
func (e *roceEnd) take(t *testing.T, w *world) (wc verbs.WC) {
	t.Helper()
	w.until(10*time.Second, func() bool { return e.cq.Len() > 0 })
	var one [1]verbs.WC
	if e.cq.Poll(one[:]) != 1 || one[0].Status != verbs.StatusSuccess {
		t.Fatalf("completion %+v", one[0])
	}
	return one[0]
}

// twoRoCE are two NICs with RoCE on one link.
func twoRoCE(t *testing.T, change func(*Config)) (w *world, a, b *node) {
	w = newWorld(t)
	for i, n := range []**node{&a, &b} {
		cfg := roceConfig()
		cfg.Name, cfg.Addrs = fmt.Sprintf("nic%d", i), prefixes(fmt.Sprintf("10.0.0.%d/24", i+1), fmt.Sprintf("fd00::%d/64",
			i+1))
		if change != nil {
			change(&cfg)
		}
		*n = w.nic(cfg)
		(*n).dev.LinkUp(w.now)
	}
	w.poll()
	return w, a, b
}

// TestRoCEPair has two NICs exchange messages by every kind of address: RoCE v1 and v2,
// IPv4 and IPv6, with and without a VLAN (RD-01).
func TestRoCEPair(t *testing.T) {
	for _, vlan := range []uint16{0, 7} {
		for gid := range 6 {
			t.Run(fmt.Sprintf("VLAN %d, GID %d", vlan, gid), func(t *testing.T) {
				w, a, b := twoRoCE(t, func(c *Config) { c.VLAN = vlan })
				x, y := roceEndOn(t, a, qpattr.RC, gid), roceEndOn(t, b, qpattr.RC, gid)
				x.move(t, y)
				y.move(t, x)
				for i := range x.mem {
					x.mem[i] = byte(i * 7)
				}
				_, err := y.qp.PostRecv(verbs.RecvWR{ID: 5, SGEs: y.sge(4096, 4096)})
				must(t, err)
				_, err = x.qp.PostSend(
					verbs.SendWR{ID: 1, Opcode: verbs.OpWrite, SGEs: x.sge(0, 4000), RemoteAddr: y.mr.Addr(), RKey: y.mr.RKey()},
					verbs.SendWR{ID: 2, Opcode: verbs.OpSend, SGEs: x.sge(0, 3000), Flags: verbs.Signaled})
				must(t, err)
				if wc := x.take(t, w); wc.ID != 2 {
					t.Errorf("completion %+v", wc)
				}
				if wc := y.take(t, w); wc.ID != 5 || wc.ByteLen != 3000 {
					t.Errorf("completion %+v", wc)
				}
				if !bytes.Equal(y.mem[:4000], x.mem[:4000]) || !bytes.Equal(y.mem[4096:7096], x.mem[:3000]) {
					t.Error("other octets have arrived")
				}
				clear(x.mem)
				_, err = x.qp.PostSend(verbs.SendWR{ID: 3, Opcode: verbs.OpRead, SGEs: x.sge(0, 2500), RemoteAddr: y.mr.Addr(),
					RKey: y.mr.RKey(), Flags: verbs.Signaled})
				must(t, err)
				if x.take(t, w); !bytes.Equal(y.mem[:2500], x.mem[:2500]) {
					t.Error("other octets were read")
				}
			})
		}
	}
}

// TestRoCEDatagrams sends datagrams by an address handle, and to a multicast group, of which a
// queue pair of the sender's NIC is a member, too.
func TestRoCEDatagrams(t *testing.T) {
	for _, gid := range []int{2, 3, 5} {
		w, a, b := twoRoCE(t, nil)
		x, y := roceEndOn(t, a, qpattr.UD, gid), roceEndOn(t, b, qpattr.UD, gid)
		x.move(t, y)
		y.move(t, x)
		group := verbs.GID{10: 0xff, 11: 0xff, 12: 239, 13: 1, 14: 2, 15: 3}
		if gid == 5 {
			group = verbs.GID{0: 0xff, 1: 0x0e, 15: 9}
		}
		z := roceEndOn(t, a, qpattr.UD, gid)
		z.move(t, y)
		must(t, errors.Join(y.qp.AttachMcast(group), z.qp.AttachMcast(group)))
		for i, to := range []struct {
			path qpattr.Path
			qpn  uint32
		}{{y.path(x), y.qp.QPN()}, {qpattr.Path{DGID: group, SGIDIndex: uint8(gid)}, verbs.MulticastQPN}} {
			h, err := x.pd.CreateAH(to.path)
			must(t, err)
			for _, m := range []*roceEnd{y, z} {
				_, err = m.qp.PostRecv(verbs.RecvWR{SGEs: m.sge(0, 4096)})
				must(t, err)
			}
			copy(x.mem, "datagram")
			_, err = x.qp.PostSend(verbs.SendWR{Opcode: verbs.OpSendImm, Imm: 9, SGEs: x.sge(0, 8), Flags: verbs.Signaled,
				AH: h, RemoteQPN: to.qpn, RemoteQKey: roceQKey})
			must(t, err)
			x.take(t, w)
			wc := y.take(t, w)
			if wc.ByteLen != 48 || !wc.GRH || wc.SrcQP != x.qp.QPN() || string(y.mem[40:48]) != "datagram" || !wc.WithImm {
				t.Errorf("GID %d, destination %d: %+v", gid, i, wc)
			}
			if i == 1 {
				if wc := z.take(t, w); wc.ByteLen != 48 || string(z.mem[40:48]) != "datagram" {
					t.Errorf("GID %d: on the sender's NIC: %+v", gid, wc)
				}
			}
			must(t, h.Destroy())
		}
		must(t, errors.Join(y.qp.DetachMcast(group), z.qp.DetachMcast(group)))
	}
}

// TestRoCEGroups: who joins or leaves a multicast group tells the link twice, and a query
// is answered (RFC 3376 sections 4.2 and 5, RFC 3810 sections 5.2 and 6).
func TestRoCEGroups(t *testing.T) {
	w, a, _ := twoRoCE(t, nil)
	s := w.station("02:00:00:00:99:01", "10.0.0.9", "fe80::9")
	y := roceEndOn(t, a, qpattr.UD, 3)
	for _, c := range []struct {
		group, to string
		gid       verbs.GID
		query     []byte
		proto     uint8
		all       string // where queries go
	}{
		{"239.1.2.3", "224.0.0.22", verbs.GID{10: 0xff, 11: 0xff, 12: 239, 13: 1, 14: 2, 15: 3},
			[]byte{0x11, 10, 0, 0, 0, 0, 0, 0, 2, 125, 0, 0}, ip.ProtoIGMP, "224.0.0.1"},
		{"ff0e::9", "ff02::16", verbs.GID{0: 0xff, 1: 0x0e, 15: 9},
			append([]byte{igmp.Query6, 0, 0, 0, 0x3, 0xe8}, make([]byte, 22)...), ip.ProtoICMPv6, "ff02::1"},
	} {
		told := func(when string, wants ...string) {
			t.Helper()
			var got []string
			for _, r := range s.take() {
				if r.ip.Proto != c.proto || r.ip.Dst.String() != c.to {
					continue
				}
				m, err := igmp.Parse4(r.body)
				if r.ip.Version == 6 {
					m, err = igmp.Parse6(r.ip.Src, r.ip.Dst, r.body)
				}
				must(t, err)
				change, ok := m.Next()
				got = append(got, fmt.Sprint(change.Group, change.Join, ok, r.ip.TTL))
			}
			if !slices.Equal(got, wants) {
				t.Errorf("%s %s: %q", when, c.group, got)
			}
		}
		s.take()
		must(t, y.qp.AttachMcast(c.gid))
		w.run(3 * time.Second)
		told("a join of", c.group+" true true 1", c.group+" true true 1")
		h := ip.Header{Proto: c.proto, TTL: 1, Src: s.addrs[0], Dst: netip.MustParseAddr(c.all)}
		if c.proto == ip.ProtoIGMP {
			binary.BigEndian.PutUint16(c.query[2:], ip.Checksum(c.query, 0))
		} else {
			h.Src = s.addrs[1]
			icmp.SetChecksum6(h.Src, h.Dst, c.query)
		}
		s.ip(nicip.MulticastMAC(h.Dst), h, c.query)
		w.run(2 * time.Second)
		told("a query for", c.group+" true true 1")
		must(t, y.qp.DetachMcast(c.gid))
		w.run(3 * time.Second)
		told("a leave of", c.group+" false true 1", c.group+" false true 1")
	}
	if n := a.counter("group_reports"); n != 10 {
		t.Errorf("%d reports", n)
	}
}

// TestRoCEDrops: what is not a good packet for RoCE is dropped and counted; UDP port 4791
// of an iWARP NIC is a port like others.
func TestRoCEDrops(t *testing.T) {
	w, a, _ := twoRoCE(t, nil)
	w.run(time.Millisecond)
	s := w.station("02:00:00:00:99:01", "10.0.0.9")
	local, remote := prefixes("10.0.0.1/24")[0].Addr(), s.addrs[0]
	datagram := func(n int, sum uint16) []byte {
		b := make([]byte, 8+n)
		binary.BigEndian.PutUint16(b[2:], ib.UDPPort)
		binary.BigEndian.PutUint16(b[4:], uint16(8+n))
		binary.BigEndian.PutUint16(b[6:], sum)
		return b
	}
	for _, c := range []struct {
		why  string
		body []byte
		h    ip.Header
		mtu  int
	}{
		{"roce_icrc", datagram(40, 0), ip.Header{}, 1500}, {"truncated", datagram(8, 0), ip.Header{}, 1500},
		{"l4_checksum", datagram(40, 7), ip.Header{}, 1500},
		{"malformed", append(datagram(40, 0), 0), ip.Header{}, 1500},
		{"fragment", datagram(400, 0), ip.Header{ID: 3}, 100},
	} {
		before := a.counter("rx_drop_" + c.why)
		h := c.h
		h.Proto, h.Src, h.Dst = ip.ProtoUDP, remote, local
		for _, p := range fragments(h, c.body, c.mtu) {
			s.transmit(a.dev.cfg.MAC, ether.TypeIPv4, p)
		}
		w.run(time.Millisecond)
		if n := a.counter("rx_drop_"+c.why) - before; n != 1 {
			t.Errorf("%s: %d dropped for that", c.why, n)
		}
	}
	s.take()
	other := w.nic(Config{Name: "nicI", Addrs: prefixes("10.0.0.3/24")})
	other.dev.LinkUp(w.now)
	s.ip(other.dev.cfg.MAC, ip.Header{Proto: ip.ProtoUDP, Src: remote, Dst: prefixes("10.0.0.3/24")[0].Addr()},
		datagram(40, 0))
	w.run(time.Millisecond)
	if !slices.ContainsFunc(s.take(), func(r received) bool { return r.ip.Proto == ip.ProtoICMP }) {
		t.Error("an iWARP NIC does not say that nothing listens at port 4791")
	}
}

// TestEveryRoCEEvent: every event of the FastLinQ RoCE interface comes from what happens to the
// queue pairs of two NICs, by the event queue, and is counted under its name (RD-19).
func TestEveryRoCEEvent(t *testing.T) {
	write := func(c, s *rdmaEnd, rkey uint32) {
		_, err := c.qp.PostSend(verbs.SendWR{Opcode: verbs.OpWrite, RemoteAddr: s.mr.Addr(), RKey: rkey,
			SGEs: []verbs.SGE{c.sge(0, 8)}})
		must(t, err)
	}
	for event, do := range map[rdma.RoCEEvent]func(c, s *rdmaEnd, srq *verbs.SRQ){
		rdma.CommEst: func(c, s *rdmaEnd, _ *verbs.SRQ) { write(c, s, s.mr.RKey()) },
		rdma.SQDrained: func(_, s *rdmaEnd, _ *verbs.SRQ) {
			must(t, s.qp.ModifyAttr(verbs.SQD, &qpattr.Attr{SQDNotify: true}, qpattr.SQDNotify))
		},
		rdma.RoCESRQLimit:   func(c, s *rdmaEnd, srq *verbs.SRQ) { must(t, srq.SetLimit(4)); c.post(verbs.OpSend, 8, s) },
		rdma.LastWQEReached: func(_, s *rdmaEnd, _ *verbs.SRQ) { must(t, s.qp.Modify(verbs.Err)) },
		rdma.InvalidRequest: func(c, s *rdmaEnd, _ *verbs.SRQ) { must(t, s.qp.SetAccess(0)); write(c, s, s.mr.RKey()) },
		rdma.LocalAccess:    func(c, s *rdmaEnd, _ *verbs.SRQ) { write(c, s, s.mr.RKey()+1) },
		rdma.QPCatastrophic: func(c, s *rdmaEnd, _ *verbs.SRQ) {
			mr, err := s.pd.RegMemory(lost{}, s.mr.Addr(), verbs.LocalWrite|verbs.RemoteWrite)
			must(t, err)
			write(c, s, mr.RKey())
		},
		rdma.RoCECQOverflow: func(c, s *rdmaEnd, _ *verbs.SRQ) {
			must(t, s.cq.Resize(1))
			c.post(verbs.OpSend, 8, s)
			c.post(verbs.OpSend, 8, s)
		},
	} {
		w, a, b := twoNICs(t, roceConfig())
		if event == rdma.CommEst {
			w.lose = func(_ *node, b []byte) bool { return isMAD(b, ib.AttrRTU) }
		}
		client, server := newEnd(t, a, 4096), newEnd(t, b, 4096)
		srq, err := server.pd.CreateSRQ(8, 1)
		must(t, err)
		server.qp, err = server.pd.CreateQP(verbs.QPConfig{SendCQ: server.cq, RecvCQ: server.cq, SRQ: srq})
		must(t, err)
		for range 4 {
			_, err := srq.PostRecv(verbs.RecvWR{SGEs: []verbs.SGE{server.sge(0, 64)}})
			must(t, err)
		}
		begin(w, client, server, netip.AddrPortFrom(peer4, rdmaPort))
		w.until(10*time.Second, func() bool {
			return client.saw(cm.ActiveComplete) && (event == rdma.CommEst || server.saw(cm.PassiveComplete))
		})
		do(client, server, srq)
		w.run(10 * time.Second)
		if n := *value(t, b.dev.ShowDevice(), "async_event", fmt.Sprint(cxt.RoCE, " ", event)).Ever; n != 1 {
			t.Errorf("%v: %d times", event, n)
		}
	}
}

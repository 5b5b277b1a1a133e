package vema

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"tapir/opa"
	"tapir/opa/mad"
	"tapir/vnic"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// lower is an HFI port that gives out netdevs and carries nothing.
type lower struct{ netdevs, most int }

func (l *lower) AllocRDMANetdev(opa.NetdevClient) (opa.RDMANetdev, error) {
	if l.netdevs == l.most {
		return nil, opa.ErrNetdevs
	}
	l.netdevs++
	return &netdev{}, nil
}
func (l *lower) FreeRDMANetdev(opa.RDMANetdev) { l.netdevs-- }
func (l *lower) Active() bool                  { return true }
func (l *lower) LID() opa.LID                  { return 5 }
func (l *lower) GUID() uint64                  { return 0x0011750000000005 }
func (l *lower) PortNum() uint8                { return 1 }
func (l *lower) MTU() int                      { return 10344 }
func (l *lower) ICRC() opa.ICRC                { return opa.ICRCv1 }
func (l *lower) UnknownVESW() uint64           { return 17 }

type netdev struct{ vesw uint16 }

func (n *netdev) SetID(_, vesw uint16) error { n.vesw = vesw; return nil }
func (n *netdev) SetMulticast([]opa.LID)     {}
func (n *netdev) Stop()                      {}
func (n *netdev) Open() error {
	if n.vesw == 0 {
		return opa.ErrNoVESW
	}
	return nil
}
func (n *netdev) Transmit(f *frame.Frame, _ uint8) frame.DropReason {
	f.Release()
	return frame.DropNone
}

// failer is what the bench needs of *testing.T and of *rapid.T.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// bench is an agent and what it sends.
type bench struct {
	failer
	lower *lower
	port  *vnic.Port
	agent *Agent
	sent  []sent
	deaf  bool // the port cannot send
}

type sent struct {
	to mad.Address
	b  []byte
}

func newBench(t failer) *bench {
	b := &bench{failer: t, lower: &lower{most: vnic.MaxNetdevs}}
	b.port = vnic.NewPort(b.lower, nil)
	b.agent = New(b.port, func(uint8) vnic.Policy { return vnic.Policy{} })
	return b
}

func (b *bench) send(to mad.Address, m []byte) bool {
	if !b.deaf {
		b.sent = append(b.sent, sent{to, slices.Clone(m)})
	}
	return !b.deaf
}

var em = mad.Address{LID: 1, QP: opa.QPGeneral, SL: 2}

// ask sends one request and returns status and attribute of its answer.
func (b *bench) ask(m mad.Method, attr uint16, num uint8, data []byte) (mad.Status, []byte) {
	b.Helper()
	req := make([]byte, mad.VEMAHeaderLen+len(data))
	mad.PutVEMA(req, m, 0x1234, attr, 0xabcdef00|uint32(num))
	copy(req[mad.VEMAHeaderLen:], data)
	b.sent = nil
	b.agent.Receive(req, em, 0, b.send)
	if len(b.sent) != 1 || b.sent[0].to != em {
		b.Fatalf("answers to method %#x of attribute %#x: %+v", m, attr, b.sent)
	}
	h, got, err := mad.ParseVEMA(b.sent[0].b)
	if err != nil || len(b.sent[0].b) != mad.MaxLen || h.Method != mad.MethodGetResp || h.TID != 0x1234 || h.Attr != attr || h.Modifier != 0xabcdef00|uint32(num) {
		b.Fatalf("answer %+v: %v", h, err)
	}
	b.sent = nil
	return h.Status, got
}

func (b *bench) info(num uint8) mad.VESWPortInfo {
	b.Helper()
	status, data := b.ask(mad.MethodGet, mad.AttrVESWPortInfo, num, nil)
	if status != 0 {
		b.Fatalf("VESWPORT_INFO: status %#x", status)
	}
	return mad.ParseVESWPortInfo(data)
}

func (b *bench) setInfo(num uint8, p mad.VESWPortInfo) (mad.Status, mad.VESWPortInfo) {
	b.Helper()
	data := make([]byte, mad.VESWPortInfoLen)
	p.Put(data)
	status, data := b.ask(mad.MethodSet, mad.AttrVESWPortInfo, num, data)
	return status, mad.ParseVESWPortInfo(data)
}

// vesw2 is a vport of vESW 2 as an Ethernet Manager would set it.
func vesw2() mad.VESWPortInfo {
	p := mad.VESWPortInfo{
		Fabric: 0x301, VESW: 2, PKey: 0x8002, DefPortMask: 1, McastDLID: 0xf00002, RC: 4, EthMTU: 9000, PortNum: 0x502,
		BaseMAC: opa.LMAC{Fabric: 0x301, VESW: 2, LID: 5}.Addr(), ConfigState: mad.Forwarding, EncapSLID: 5,
	}
	p.UcastDLID[0] = 9
	for i := range p.Rsvd {
		p.Rsvd[i] = byte(i + 1)
	}
	return p
}

func (b *bench) create(num uint8) *vnic.Netdev {
	b.Helper()
	if status, _ := b.setInfo(num, vesw2()); status != 0 {
		b.Fatalf("vport %d: status %#x", num, status)
	}
	return b.port.Netdev(num)
}

func TestPowerOn(t *testing.T) {
	b := newBench(t)
	want := mad.VESWPortInfo{EthMTU: 1500, ConfigState: mad.DropAll, OperState: mad.DropAll, MaxMACs: 2048, MaxSourceMAC: 256}
	if got := b.info(200); got != want || len(b.port.Netdevs()) != 0 {
		t.Errorf("%+v", got)
	}
}

// A Set creates the vport; reserved octets are echoed, read-only fields kept.
func TestSetCreates(t *testing.T) {
	b := newBench(t)
	set := vesw2()
	set.Digest, set.UcastGen, set.McastGen, set.MaxMACs, set.OperState, set.LinkStatus = 7, 8, 9, 10, mad.Forwarding, mad.EthLinkUp
	_, answer := b.setInfo(3, set)
	want := set
	want.Digest, want.McastGen, want.MaxMACs, want.MaxSourceMAC = 0, 0, 2048, 256
	want.OperState, want.LinkStatus, want.UcastGen = mad.DropAll, mad.EthLinkDown, answer.UcastGen
	if answer != want || b.info(3) != want {
		t.Errorf("got  %+v\nwant %+v", answer, want)
	}
	n := b.port.Netdev(3)
	if n == nil || n.MAC() != set.BaseMAC || n.MaxMTU() != 9000 {
		t.Fatalf("vport %+v", n)
	}
	n.Open()
	if p := b.info(3); p.OperState != mad.Forwarding || p.LinkStatus != mad.EthLinkUp {
		t.Errorf("opened: %v, link %d", p.OperState, p.LinkStatus)
	}
	drop := set
	drop.ConfigState = mad.DropAll
	if _, p := b.setInfo(3, drop); p.OperState != mad.DropAll || p.LinkStatus != mad.EthLinkDown || !n.Dormant() {
		t.Errorf("DROP_ALL: %v, link %d", p.OperState, p.LinkStatus)
	}
}

func TestImpossibleValues(t *testing.T) {
	b := newBench(t)
	b.create(1)
	other := vesw2()
	other.VESW = 7
	b.setInfo(2, other)
	for name, change := range map[string]func(*mad.VESWPortInfo){
		"fabric id":       func(p *mad.VESWPortInfo) { p.Fabric = 1024 },
		"vESW id":         func(p *mad.VESWPortInfo) { p.VESW = 4096 },
		"vESW in use":     func(p *mad.VESWPortInfo) { p.VESW = 7 },
		"state":           func(p *mad.VESWPortInfo) { p.ConfigState = 2 },
		"MTU":             func(p *mad.VESWPortInfo) { p.EthMTU = 10241 },
		"group as MAC":    func(p *mad.VESWPortInfo) { p.BaseMAC[0] |= 1 },
		"multicast SLID":  func(p *mad.VESWPortInfo) { p.EncapSLID = 0xf00001 },
		"collective DLID": func(p *mad.VESWPortInfo) { p.McastDLID = 0xf80000 },
		"long DLID":       func(p *mad.VESWPortInfo) { p.UcastDLID[15] = 1 << 24 },
		"SC":              func(p *mad.VESWPortInfo) { p.QoS.Multicast.SC[7] = 32 },
	} {
		for num, before := range map[uint8]mad.VESWPortInfo{1: b.info(1), 9: mad.PowerOn()} {
			p := vesw2()
			if num == 9 {
				p.VESW = 9
			}
			p.Rsvd[0] = 0xee
			change(&p)
			if status, _ := b.setInfo(num, p); status != mad.StatusBadValue {
				t.Errorf("%s at vport %d: status %#x", name, num, status)
			}
			if got := b.info(num); got != before || len(b.port.Netdevs()) != 2 {
				t.Errorf("%s at vport %d changed something: %+v", name, num, got)
			}
		}
	}
	b.lower.most = 2
	p := vesw2()
	p.VESW = 11
	if status, _ := b.setInfo(11, p); status != mad.StatusBadValue || b.port.Netdev(11) != nil {
		t.Errorf("beyond the HFI's netdevs: status %#x", status)
	}
}

func TestStatuses(t *testing.T) {
	b := newBench(t)
	b.create(1)
	for _, c := range []struct {
		m    mad.Method
		attr uint16
		num  uint8
		want mad.Status
	}{
		{mad.MethodGet, mad.AttrClassPortInfo, 0, 0}, {mad.MethodSet, mad.AttrClassPortInfo, 0, 0},
		{mad.MethodGet, mad.AttrNotice, 0, mad.StatusBadAttribute}, {mad.MethodSet, mad.AttrNotice, 0, mad.StatusBadAttribute},
		{mad.MethodGet, mad.AttrMACEntries, 1, 0}, {mad.MethodGet, mad.AttrMACEntries, 2, mad.StatusBadValue},
		{mad.MethodSet, mad.AttrMACEntries, 1, 0}, {mad.MethodSet, mad.AttrMACEntries, 2, mad.StatusBadValue},
		{mad.MethodGet, mad.AttrUnicastMACs, 1, 0}, {mad.MethodGet, mad.AttrUnicastMACs, 2, mad.StatusBadValue},
		{mad.MethodSet, mad.AttrUnicastMACs, 1, mad.StatusBadAttribute},
		{mad.MethodGet, mad.AttrMulticastMACs, 1, 0}, {mad.MethodGet, mad.AttrMulticastMACs, 2, mad.StatusBadValue},
		{mad.MethodSet, mad.AttrMulticastMACs, 1, mad.StatusBadAttribute},
		{mad.MethodGet, mad.AttrSummaryCounters, 1, 0}, {mad.MethodGet, mad.AttrSummaryCounters, 2, mad.StatusBadValue},
		{mad.MethodSet, mad.AttrSummaryCounters, 1, mad.StatusBadAttribute},
		{mad.MethodGet, mad.AttrErrorCounters, 1, 0}, {mad.MethodGet, mad.AttrErrorCounters, 2, mad.StatusBadValue},
		{mad.MethodSet, mad.AttrErrorCounters, 1, mad.StatusBadAttribute},
		{mad.MethodGet, mad.AttrDeleteVESW, 1, mad.StatusBadAttribute}, {mad.MethodSet, mad.AttrDeleteVESW, 2, mad.StatusBadValue},
		{mad.MethodGet, 0x77, 1, mad.StatusBadAttribute}, {0x03, mad.AttrVESWPortInfo, 1, mad.StatusBadAttribute},
	} {
		if got, _ := b.ask(c.m, c.attr, c.num, nil); got != c.want {
			t.Errorf("method %#x of attribute %#x at vport %d: status %#x, want %#x", c.m, c.attr, c.num, got, c.want)
		}
	}
	if c := b.agent.Counters(); c.Refused != 16 || c.Gets != 14 || c.Sets != 10 {
		t.Errorf("%+v", c)
	}
}

func TestNoAnswer(t *testing.T) {
	b := newBench(t)
	for _, m := range []mad.Method{mad.MethodTrap, mad.MethodGetResp, mad.MethodTrapRepress} {
		req := make([]byte, mad.TrapLen)
		mad.PutVEMA(req, m, 1, mad.AttrNotice, 0)
		b.agent.Receive(req, em, 0, b.send)
	}
	short := make([]byte, mad.VEMAHeaderLen)
	mad.PutVEMA(short, mad.MethodGet, 1, mad.AttrClassPortInfo, 0)
	b.agent.Receive(short[:39], em, 0, b.send)
	b.agent.Receive(make([]byte, 300), em, 0, b.send)
	if c := b.agent.Counters(); len(b.sent) != 0 || c != (Counters{Repressed: 1, Malformed: 1}) {
		t.Errorf("%d answers, %+v", len(b.sent), c)
	}
}

func TestClassPortInfo(t *testing.T) {
	b := newBench(t)
	raw := bytes.Repeat([]byte{0xa5}, mad.ClassPortInfoLen)
	c := mad.ParseClassPortInfo(raw)
	c.TrapLID, c.TrapSL = 7, 3
	c.Put(raw)
	status, data := b.ask(mad.MethodSet, mad.AttrClassPortInfo, 0, raw)
	copy(raw, []byte{0x80, 0x80, 0xff, 0x01, 0, 0, 0, 18})
	if status != 0 || !bytes.Equal(data[:mad.ClassPortInfoLen], raw) || b.agent.TrapLID() != 7 {
		t.Errorf("status %#x, %x", status, data[:mad.ClassPortInfoLen])
	}
	for _, lid := range []opa.LID{opa.FirstMulticast, opa.Permissive, 0x1000000} {
		c.TrapLID = lid
		c.Put(raw)
		if status, _ := b.ask(mad.MethodSet, mad.AttrClassPortInfo, 0, raw); status != mad.StatusBadValue || b.agent.TrapLID() != 7 {
			t.Errorf("trap LID %v: status %#x", lid, status)
		}
	}
}

func macs(offset int, digest uint32, list ...mad.MACEntry) []byte {
	m := make(mad.MACEntries, mad.MACEntriesLen(len(list)))
	m.PutHead(uint16(offset), uint16(len(list)), digest)
	for i, e := range list {
		m.SetEntry(i, e)
	}
	return m
}

func station(i int) mad.MACEntry {
	return mad.MACEntry{MAC: ether.Addr{2, 0, 0, 0, byte(i >> 8), byte(i)}, Mask: ether.Broadcast, DLID: opa.LID(i + 1)}
}

func TestMACTable(t *testing.T) {
	b := newBench(t)
	n := b.create(1)
	full := make([]mad.MACEntry, mad.MaxMACEntriesIn)
	for i := range full {
		full[i] = station(i)
	}
	if status, _ := b.ask(mad.MethodSet, mad.AttrMACEntries, 1, macs(0, 0, full...)); status != 0 {
		t.Fatalf("status %#x", status)
	}
	last := station(2047)
	last.Flags = mad.SourceMAC | 1
	status, data := b.ask(mad.MethodSet, mad.AttrMACEntries, 1, macs(2047, 0xd1, last))
	if off, num, digest := mad.MACEntries(data).Head(); status != 0 || off != 2047 || num != 1 || digest != 0xd1 || mad.MACEntries(data).Entry(0) != last {
		t.Errorf("status %#x, %d entries from %d, digest %#x", status, num, off, digest)
	}
	b.ask(mad.MethodSet, mad.AttrMACEntries, 1, macs(1, 0xd2, mad.MACEntry{DLID: 77}, station(500)))
	_, data = b.ask(mad.MethodGet, mad.AttrMACEntries, 1, macs(0, 0, make([]mad.MACEntry, 4)...))
	for i, want := range []mad.MACEntry{station(0), {}, station(500), station(3)} {
		if got := mad.MACEntries(data).Entry(i); got != want {
			t.Errorf("place %d: %+v, want %+v", i, got, want)
		}
	}
	if p := b.info(1); p.Digest != 0xd2 || n.MACTable().At(124).MAC != full[124].MAC {
		t.Errorf("digest %#x", p.Digest)
	}
	sources := slices.Repeat([]mad.MACEntry{last}, 125)
	permissive, group := station(1), station(2)
	permissive.DLID, group.DLID = opa.Permissive, 0xf00123
	for name, c := range map[string]struct {
		data []byte
		want mad.Status
	}{
		"beyond the table":   {macs(2047, 1, station(1), station(2)), mad.StatusBadValue},
		"126 entries":        {append([]byte{0, 0, 0, 126}, make([]byte, 1900)...), mad.StatusBadValue},
		"permissive DLID":    {macs(0, 1, permissive), mad.StatusBadValue},
		"no such offset":     {macs(65535, 1), mad.StatusBadValue},
		"nothing of nothing": {nil, 0},
	} {
		before := n.MACTable()
		if status, _ := b.ask(mad.MethodSet, mad.AttrMACEntries, 1, c.data); status != c.want || c.want != 0 && n.MACTable() != before {
			t.Errorf("%s: status %#x", name, status)
		}
	}
	b.ask(mad.MethodSet, mad.AttrMACEntries, 1, macs(200, 1, sources...))
	b.ask(mad.MethodSet, mad.AttrMACEntries, 1, macs(400, 1, sources...))
	before := n.MACTable()
	if status, data := b.ask(mad.MethodSet, mad.AttrMACEntries, 1, macs(600, 2, sources...)); status != mad.StatusBadAttribute || n.MACTable() != before ||
		mad.MACEntries(data).Entry(0) != (mad.MACEntry{}) {
		t.Errorf("more than 256 source-MAC entries: status %#x", status)
	}
	if status, _ := b.ask(mad.MethodSet, mad.AttrMACEntries, 1, macs(0, 1, group)); status != 0 || n.MACTable().At(0).DLID != 0xf00123 {
		t.Errorf("multicast DLID: status %#x", status)
	}
}

func TestMACLists(t *testing.T) {
	b := newBench(t)
	n := b.create(1)
	var many []ether.Addr
	for i := range 700 {
		many = append(many, station(i).MAC)
	}
	group := ether.Addr{0x33, 0x33, 0, 0, 0, 1}
	n.SetRxMode(many, []ether.Addr{group})
	gen := b.info(1).UcastGen
	ask := func(attr, start, num uint16) (mad.IfaceHead, mad.IfaceMACs) {
		req := make(mad.IfaceMACs, mad.IfaceMACsLen(0))
		req.PutHead(mad.IfaceHead{Start: start, Num: num})
		status, data := b.ask(mad.MethodGet, attr, 1, req)
		if status != 0 {
			t.Errorf("status %#x", status)
		}
		return mad.IfaceMACs(data).Head(), data
	}
	for _, c := range []struct{ start, num, want uint16 }{{0, 0, 333}, {333, 0, 333}, {666, 0, 34}, {10, 5, 5}, {0, 65535, 333}, {699, 9, 1}, {700, 0, 0}, {65535, 0, 0}} {
		h, list := ask(mad.AttrUnicastMACs, c.start, c.num)
		if h != (mad.IfaceHead{Start: c.start, Num: c.want, Total: 700, Gen: gen}) {
			t.Errorf("%d from %d: %+v", c.num, c.start, h)
		}
		for i := range int(h.Num) {
			if list.MAC(i) != many[int(c.start)+i] {
				t.Errorf("from %d: place %d is %v", c.start, i, list.MAC(i))
			}
		}
	}
	if h, list := ask(mad.AttrMulticastMACs, 0, 0); h.Num != 1 || h.Total != 1 || h.Gen != b.info(1).McastGen || list.MAC(0) != group {
		t.Errorf("groups %+v", h)
	}
	n.SetRxMode(many, []ether.Addr{group})
	if p := b.info(1); p.UcastGen != gen {
		t.Error("the same list again counted as a change")
	}
	if err := n.SetMAC(ether.Addr{2, 9}); err != nil {
		t.Fatal(err)
	}
	if h, list := ask(mad.AttrUnicastMACs, 0, 1); h.Total != 701 || list.MAC(0) != (ether.Addr{2, 9}) || h.Gen == gen {
		t.Errorf("own address: %+v, first %v", h, list.MAC(0))
	}
}

func TestCounters(t *testing.T) {
	b := newBench(t)
	n := b.create(3)
	n.Transmit([]*frame.Frame{frame.New(make([]byte, 200), nil)}, 0) // not open: dropped
	status, data := b.ask(mad.MethodGet, mad.AttrSummaryCounters, 3, nil)
	if c := mad.ParseSummaryCounters(data); status != 0 || c.Instance != 3 || c.VESW != 2 || c.PortNum != 0x502 || c.TxErrors != 1 || c.TxPackets != 1 {
		t.Errorf("status %#x, %+v", status, c)
	}
	status, data = b.ask(mad.MethodGet, mad.AttrErrorCounters, 3, nil)
	if c := mad.ParseErrorCounters(data); status != 0 || c.PortNum != 0x502 || c.TxErrors != 1 || c.TxDropState != 1 || c.RxBadVESW != 17 || c.RxErrors != 17 {
		t.Errorf("status %#x, %+v", status, c)
	}
}

// A vport that the agent made disappears with its vESW, and what comes in its
// place remembers nothing; one of the host's keeps its MAC address.
func TestDelete(t *testing.T) {
	b := newBench(t)
	b.create(1)
	b.ask(mad.MethodSet, mad.AttrMACEntries, 1, macs(0, 0xd1, station(1)))
	if status, data := b.ask(mad.MethodSet, mad.AttrDeleteVESW, 1, nil); status != 0 || mad.ParseVESWPortInfo(data) != mad.PowerOn() {
		t.Errorf("status %#x, %+v", status, mad.ParseVESWPortInfo(data))
	}
	if len(b.port.Netdevs()) != 0 || b.lower.netdevs != 0 {
		t.Errorf("%d vports and %d netdevs left", len(b.port.Netdevs()), b.lower.netdevs)
	}
	plain := vesw2()
	plain.Rsvd = [len(plain.Rsvd)]byte{}
	if _, p := b.setInfo(1, plain); p.Digest != 0 || p.Rsvd != plain.Rsvd || b.port.Netdev(1).MACTable().Len() != 0 {
		t.Errorf("made again: %+v", p)
	}

	own, err := b.port.Create(2, vnic.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	p := vesw2()
	p.VESW = 3
	b.setInfo(2, p)
	b.ask(mad.MethodSet, mad.AttrMACEntries, 2, macs(0, 0xd1, station(1)))
	b.ask(mad.MethodSet, mad.AttrDeleteVESW, 2, nil)
	got := b.info(2)
	want := mad.PowerOn()
	want.LinkStatus, want.UcastGen = mad.EthLinkDown, got.UcastGen
	if got != want || b.port.Netdev(2) != own || own.MAC() != p.BaseMAC {
		t.Errorf("%+v, MAC %v", got, own.MAC())
	}
}

// Random requests: a refused Set changes nothing, an accepted one is echoed.
func TestSetsAreAllOrNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newBench(t)
		for range rapid.IntRange(1, 20).Draw(t, "requests") {
			num := rapid.Uint8Range(0, 3).Draw(t, "vport")
			p := vesw2()
			p.VESW = rapid.SampledFrom([]uint16{0, 1, 2, 257, 4095, 4096}).Draw(t, "vESW")
			p.EthMTU = rapid.SampledFrom([]uint16{0, 68, 1500, 10240, 10241, 65535}).Draw(t, "MTU")
			p.ConfigState = mad.State(rapid.Uint8Range(0, 4).Draw(t, "state"))
			p.McastDLID = rapid.SampledFrom([]opa.LID{0, 5, 0xf00001, 0xf80000, 0xffffff, 0xffffffff}).Draw(t, "DLID")
			before := b.info(num)
			existed := b.port.Netdev(num) != nil
			status, answer := b.setInfo(num, p)
			after := b.info(num)
			switch {
			case status != 0 && (after != before || existed != (b.port.Netdev(num) != nil)):
				t.Fatalf("refused with %#x, yet %+v became %+v", status, before, after)
			case status == 0 && (answer != after || after.VESW != p.VESW || after.EthMTU != p.EthMTU || after.Rsvd != p.Rsvd || after.McastDLID != p.McastDLID):
				t.Fatalf("%+v became %+v", p, after)
			}
			if rapid.IntRange(0, 5).Draw(t, "delete") == 0 {
				b.ask(mad.MethodSet, mad.AttrDeleteVESW, num, nil)
			}
		}
	})
}

// Whatever arrives at an agent in use is answered well-formed or not at all.
func FuzzReceive(f *testing.F) {
	req := make([]byte, mad.VEMAHeaderLen+mad.VESWPortInfoLen)
	mad.PutVEMA(req, mad.MethodSet, 1, mad.AttrVESWPortInfo, 1)
	p := vesw2()
	p.Put(req[mad.VEMAHeaderLen:])
	f.Add(req)
	for _, attr := range []uint16{1, 0x11, 0x12, 0x13, 0x14, 0x15, 0x20, 0x22} {
		for _, m := range []mad.Method{mad.MethodGet, mad.MethodSet} {
			mad.PutVEMA(req, m, 1, attr, 2)
			f.Add(slices.Clone(req[:mad.VEMAHeaderLen+20]))
		}
	}
	f.Fuzz(func(t *testing.T, m []byte) {
		b := newBench(t)
		b.create(2)
		b.port.Netdev(2).SetRxMode([]ether.Addr{station(1).MAC}, []ether.Addr{{1, 0, 0x5e, 0, 0, 1}})
		b.agent.Receive(m, em, 0, b.send)
		for _, s := range b.sent {
			if h, _, err := mad.ParseVEMA(s.b); err != nil || h.Method != mad.MethodGetResp || len(s.b) != mad.MaxLen {
				t.Fatalf("answered by %+v, %v", h, err)
			}
		}
		b.agent.Poll(0, b.send)
		for _, n := range b.port.Netdevs() {
			b.info(n.Num())
		}
	})
}

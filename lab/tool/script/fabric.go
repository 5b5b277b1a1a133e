package script

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"tapir/nic/buf"
	"tapir/opa"
	"tapir/opa/hfi"
	"tapir/vnic"
	"tapir/wire/crc"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// fabricSettings are the settings of a script of 16B packets.
type fabricSettings struct {
	lid    opa.LID
	vport  vnic.Config
	policy vnic.Policy
	closed bool
}

// The fabric of a script: the vport is on LID 1, in vESW 5 of fabric 0x301.
const (
	fabricID  = 0x301
	fabricLID = 1
	vESWID    = 5
	fullPKey  = 0x8001
)

func defaultFabric() fabricSettings {
	s := fabricSettings{lid: fabricLID, vport: vnic.PowerOn(), policy: vnic.Policy{Unknown: vnic.ToDefaultPort}}
	s.vport.FabricID, s.vport.VESWID, s.vport.PKey, s.vport.ConfigState = fabricID, vESWID, fullPKey, vnic.Forwarding
	s.vport.McastDLID = opa.FirstMulticast + vESWID
	s.vport.BaseMAC = opa.LMAC{Fabric: fabricID, VESW: vESWID, LID: fabricLID}.Addr()
	return s
}

var packet16B = &messageKind{name: "16b", fields: []fieldSpec{
	{name: "slid", form: numberForm(24, true), usual: uint64(2)},
	{name: "dlid", form: numberForm(24, true), usual: uint64(fabricLID)},
	{name: "sc", form: numberForm(5, false), usual: uint64(0)},
	{name: "rc", form: numberForm(3, false), usual: uint64(0)},
	{name: "fecn", form: flagForm, usual: false, strict: true},
	{name: "becn", form: flagForm, usual: false, strict: true},
	{name: "pkey", form: numberForm(16, true), usual: uint64(fullPKey)},
	{name: "entropy", form: numberForm(16, false), usual: uint64(0)},
	{name: "age", form: numberForm(8, false), usual: uint64(0), strict: true},
	{name: "vesw", form: numberForm(12, false), usual: uint64(vESWID)},
	{name: "dst", form: macForm, usual: opa.LMAC{Fabric: fabricID, VESW: vESWID, LID: fabricLID}.Addr()},
	{name: "src", form: macForm, usual: opa.LMAC{Fabric: fabricID, VESW: vESWID, LID: 2}.Addr()},
	{name: "vlan", form: numberForm(16, false)}, {name: "type", form: numberForm(16, true), usual: uint64(0x88b7)},
	{name: "len", form: numberForm(14, false), usual: uint64(60)},
	// What no port sends.
	{name: "badicrc", form: flagForm, in: true}, {name: "length", form: numberForm(11, false), in: true},
	{name: "l2", form: numberForm(2, false), in: true},
	{name: "l4", form: numberForm(8, true), in: true}, {name: "pad", form: numberForm(8, true), in: true},
	{name: "tail", form: numberForm(8, true), in: true},
	{name: "short", form: numberForm(11, false), in: true},
}}

// packetCNP is a notification of congestion.
var packetCNP = &messageKind{name: "cnp", fields: []fieldSpec{
	{name: "slid", form: numberForm(24, true), usual: uint64(2)},
	{name: "dlid", form: numberForm(24, true), usual: uint64(fabricLID)},
	{name: "sc", form: numberForm(5, false), usual: uint64(0)},
	{name: "pkey", form: numberForm(16, true), usual: uint64(fullPKey)},
}}

var hostFrame = &messageKind{name: "frame", fields: packet16B.fields[slices.IndexFunc(packet16B.fields,
	func(f fieldSpec) bool {
		return f.name == "dst"
	}):slices.IndexFunc(packet16B.fields, func(f fieldSpec) bool { return f.name == "badicrc" })]}

var fabricExpects = map[string]expectReader{
	"frame": parseHostFrame, "quiet": quiet(unclaimed),
	"dropped": counted((*fabric).drops),
	"counter": counted(func(b *fabric) map[string]uint64 {
		all := map[string]uint64{}
		s := b.vport.Stats()
		for _, c := range s.Counters() {
			all[c.Name] = c.Value
		}
		return all
	}),
}

var fabricProtocol = &protocol{
	settings: func(s *settings) readers {
		const state = "a state"
		f := &s.fabric
		return readers{
			"lid":   unsigned(&f.lid, "a number", 1<<24-1),
			"vesw":  unsigned(&f.vport.VESWID, "a number", 1<<12-1),
			"pkey":  unsigned(&f.vport.PKey, "a number", 1<<16-1),
			"mtu":   unsigned(&f.vport.EthMTU, "a number", 1<<14-1),
			"mcast": unsigned(&f.vport.McastDLID, "a number", 1<<24-1),
			"ucast": func(l *line) {
				unsigned(&f.vport.UcastDLID[0], "a number", 1<<24-1)(l)
				f.vport.DefPortMask = 1
			},
			"learn":  either(&f.policy.Learn, state, "off", "on"),
			"filter": either(&f.policy.Filter, state, "off", "on"),
			"closed": either(&f.closed, state, "off", "on"),
			"unknown": oneOf(&f.policy.Unknown, "treatment of frames to unknown stations",
				"proxy,default-port,flood,drop"),
		}
	},
	messages: map[string]*messageKind{"16b": packet16B, "cnp": packetCNP},
	expects:  fabricExpects,
	commands: map[string]func(l *line) action{
		"open":   bare(func(b *fabric) { b.vport.Open() }),
		"close":  bare(func(b *fabric) { b.vport.Close() }),
		"link":   parseLink,
		"state":  parseVPortState,
		"mac":    parseMACEntry,
		"send":   parseHostSend,
		"expect": parseExpect(fabricExpects),
	},
	start: newFabric,
}

// fabric is an HFI port with one vport, and the host above it.
type fabric struct {
	r     *runner
	pool  *buf.Pool
	port  *hfi.Port
	vnic  *vnic.Port
	vport *vnic.Netdev
	table []vnic.Entry
	host  []map[string]any // frames that the host got, not claimed
}

func newFabric(r *runner) (bench, error) {
	set := &r.script.set.fabric
	b := &fabric{r: r, pool: r.pool}
	var err error
	if b.port, err = hfi.New(hfi.Config{LID: set.lid, Framing: opa.Framing88B5},
		hfi.Env{Pool: r.pool, Wire: b}); err != nil {
		return nil, err
	}
	b.vnic = vnic.NewPort(b.port, r.pool)
	if b.vport, err = b.vnic.Create(0, set.policy); err != nil {
		return nil, err
	}
	if err = b.vport.Configure(set.vport); err != nil {
		return nil, err
	}
	b.vport.SetHost(host{b})
	b.port.LinkUp(r.now())
	if !set.closed {
		b.vport.Open()
	}
	return b, nil
}

func (b *fabric) poll() frame.Time { return min(b.port.Poll(b.r.now()), b.vnic.Poll(b.r.now())) }

// Room implements frame.Link: the fabric is never full.
func (b *fabric) Room() int { return math.MaxInt32 }

// Transmit implements frame.Link. Whatever the script says, the packet must be
// sound.
func (b *fabric) Transmit(f *frame.Frame) {
	f = b.r.over.carryFrame(f, b.pool, false)
	defer f.Release()
	if _, why := opa.Unwrap(f); why != frame.DropNone {
		b.r.observed(packet16B, nil, "framing: "+why.String())
		return
	}
	if opa.IsCNP(f.Bytes()) {
		p, why := opa.ParseCNP(f.Bytes(), b.port.ICRC())
		if why != frame.DropNone {
			b.r.observed(packetCNP, nil, "packet: "+why.String())
			return
		}
		b.r.observed(packetCNP, map[string]any{"slid": uint64(p.SLID()), "dlid": uint64(p.DLID()), "sc": uint64(p.SC()),
			"pkey": uint64(p.PKey())}, "")
		return
	}
	p, why := opa.Parse(f.Bytes(), b.port.ICRC())
	if why != frame.DropNone {
		b.r.observed(packet16B, nil, "packet: "+why.String())
		return
	}
	v := frameValues(p.Frame())
	v["slid"], v["dlid"], v["sc"], v["rc"] = uint64(p.SLID()), uint64(p.DLID()), uint64(p.SC()), uint64(p.RC())
	v["fecn"], v["becn"], v["pkey"] = p.FECN(), p.BECN(), uint64(p.PKey())
	v["entropy"], v["age"], v["vesw"] = uint64(p.Entropy()), uint64(p.Age()), uint64(p.VESW())
	b.r.observed(packet16B, v, checkPattern(p.Frame()))
}

// frameValues takes an Ethernet frame apart.
func frameValues(b []byte) map[string]any {
	v := map[string]any{"len": uint64(len(b))}
	if h, n, err := ether.Parse(b); err == nil {
		v["dst"], v["src"], v["type"] = h.Dst, h.Src, uint64(h.Type)
		if n > ether.HeaderLen {
			v["vlan"] = uint64(h.Tags[0].TCI)
		}
	}
	return v
}

// checkPattern says which octet of a frame is not as all frames of a script
// have it: behind the header a pattern, then the zeros of a short frame.
func checkPattern(b []byte) string {
	_, n, err := ether.Parse(b)
	if err != nil {
		return err.Error()
	}
	for i, c := range b[n:] {
		if c != octet(peerSalt, int64(i)) {
			if len(b) == opa.MinFrame && strings.Trim(string(b[n+i:]), "\x00") == "" {
				return ""
			}
			return fmt.Sprintf("frame: octet %d is %#02x", n+i, c)
		}
	}
	return ""
}

// ethernet is the frame of a message.
func (m *fields) ethernet() []byte {
	h := ether.Header{Dst: m.value("dst").(ether.Addr), Src: m.value("src").(ether.Addr), Type: uint16(m.num("type"))}
	if tag, tagged := m.given["vlan"].(uint64); tagged {
		h.Tags[0], h.NTags = ether.Tag{TPID: ether.TypeVLAN, TCI: uint16(tag)}, 1
	}
	b := make([]byte, h.Len())
	h.Put(b)
	body := make([]byte, max(0, int(m.num("len"))-len(b)))
	pattern(body, peerSalt, 0)
	return append(b, body...)
}

// send implements bench: a packet of another port.
func (b *fabric) send(m *fields) string {
	if m.kind == packetCNP {
		p := make([]byte, opa.SizeCNP)
		opa.PutCNP(p, opa.Header{SLID: opa.LID(m.num("slid")), DLID: opa.LID(m.num("dlid")), SC: uint8(m.num("sc")),
			PKey: uint16(m.num("pkey"))}, b.port.ICRC())
		return b.receive(p, opa.Framing.Wrap16B)
	}
	h := opa.Header{SLID: opa.LID(m.num("slid")), DLID: opa.LID(m.num("dlid")), SC: uint8(m.num("sc")),
		RC:   uint8(m.num("rc")),
		FECN: m.flag("fecn"), BECN: m.flag("becn"), PKey: uint16(m.num("pkey")), Entropy: uint16(m.num("entropy")),
		Age: uint8(m.num("age")), VESW: uint16(m.num("vesw"))}
	eth := m.ethernet()
	if len(eth) > opa.MaxFrame {
		return "no packet is so long"
	}
	p := h.AppendTo(nil, eth, b.port.ICRC())
	spoil(p, m)
	p = p[:len(p)-min(len(p), int(m.num("short")))]
	return b.receive(p, func(g opa.Framing, f *frame.Frame) frame.DropReason { return g.Wrap(f, 0) })
}

// receive lets the port have the packet p in its framing.
func (b *fabric) receive(p []byte, wrap func(opa.Framing, *frame.Frame) frame.DropReason) string {
	f := b.pool.Get(len(p))
	f.Append(p)
	if why := wrap(opa.Framing88B5, f); why != frame.DropNone {
		return "the packet cannot be framed: " + why.String()
	}
	f = b.r.over.carryFrame(f, b.pool, true)
	b.port.Receive([]*frame.Frame{f}, b.r.now())
	return ""
}

// spoil makes p what no port sends. The ICRC covers the header, so that a lie
// there needs a new one.
func spoil(p opa.Packet, m *fields) {
	q0 := binary.LittleEndian.Uint64(p)
	set := func(name string, at, bits int) bool {
		n, given := m.given[name].(uint64)
		if given {
			q0 = q0&^((1<<bits-1)<<at) | n<<at
		}
		return given
	}
	changed := set("length", 20, 11)
	changed = set("l2", 61, 2) || changed
	binary.LittleEndian.PutUint64(p, q0)
	end := len(p) - opa.TrailerLen
	if n, given := m.given["l4"].(uint64); given {
		p[8], changed = byte(n), true
	}
	if n, given := m.given["pad"].(uint64); given {
		p[end-1], changed = byte(n), true
	}
	if changed {
		binary.LittleEndian.PutUint32(p[end:], crc.OPA16B(p[:end]))
	}
	if n, given := m.given["tail"].(uint64); given {
		p[len(p)-1] = byte(n)
	}
	if m.flag("badicrc") {
		p[end] ^= 1
	}
}

// host is the host's side of the vport.
type host struct{ b *fabric }

func (h host) Room() int { return math.MaxInt32 }
func (h host) Transmit(f *frame.Frame) {
	v := frameValues(f.Bytes())
	h.b.host = append(h.b.host, v)
	h.b.r.tracef("!", "frame"+strings.TrimPrefix(hostFrame.text(v), "frame"), h.b.r.at)
	f.Release()
}

func (b *fabric) unclaimed() string {
	var texts []string
	for _, v := range b.host {
		texts = append(texts, "expect "+hostFrame.text(v))
	}
	return strings.Join(texts, "; ")
}

// drops are the packets dropped by reason, at the port and at the vport.
func (b *fabric) drops() map[string]uint64 {
	all := map[string]uint64{}
	s, c := b.vport.Stats(), b.port.Counts()
	for r := range frame.DropReasons() {
		all[hyphenated(r)] = s.TxDrops[r] + s.RxDrops[r] + c.TxDrops[r] + c.RxDrops[r]
	}
	return all
}

// parseHostFrame reads: frame FIELDS, the next one that the host gets.
func parseHostFrame(e *expectation, l *line) {
	m := parseFields(l, hostFrame, e.word, true)
	e.holds = func(r *runner, _ *peer) (bool, string) {
		b := r.bench.(*fabric)
		if len(b.host) == 0 {
			return false, "the host has got nothing"
		}
		got := &packet{unit: &unit{record: hostFrame, values: b.host[0]}}
		if diffs := m.compare(r, nil, got); len(diffs) > 0 {
			return false, hostFrame.text(b.host[0])
		}
		b.host = b.host[1:]
		return true, ""
	}
}

// parseHostSend reads: send FIELDS, a frame of the host.
func parseHostSend(l *line) action {
	m := parseFields(l, hostFrame, l.peek(), false)
	if _, given := m.given["src"]; !given {
		m.given["src"] = hostFrame.fields[0].usual // ours
	}
	if _, given := m.given["dst"]; !given {
		m.given["dst"] = hostFrame.fields[1].usual // that of the peer
	}
	return do(func(b *fabric) string {
		eth := m.ethernet()
		f := b.pool.Get(len(eth))
		f.Append(eth)
		b.vport.Transmit([]*frame.Frame{f}, b.r.now())
		return ""
	})
}

// parseLink reads: link up, or link down.
func parseLink(l *line) action {
	i, _ := l.oneOf("the state of the port's link", []string{"down", "up"})
	return do(func(b *fabric) string {
		if i == 1 {
			b.port.LinkUp(b.r.now())
		} else {
			b.port.LinkDown(b.r.now())
		}
		return ""
	})
}

// parseVPortState reads: state drop-all, or state forwarding.
func parseVPortState(l *line) action {
	i, _ := l.oneOf("the state of the vport", []string{"drop-all", "forwarding"})
	return do(func(b *fabric) string {
		cfg := b.vport.Config()
		cfg.ConfigState = []vnic.State{vnic.DropAll, vnic.Forwarding}[i]
		return errorText(b.vport.Configure(cfg))
	})
}

// parseMACEntry reads: mac ADDRESS LID [source]: an entry of the MAC table.
func parseMACEntry(l *line) action {
	a, _ := l.form(&macForm)
	lid, _ := l.unsigned("a LID", 1<<24-1)
	e := vnic.Entry{MAC: a.(ether.Addr), Mask: ether.Broadcast, DLID: opa.LID(lid)}
	if l.accept("source") {
		e.Flags |= vnic.SourceMAC
	}
	return do(func(b *fabric) string {
		b.table = append(b.table, e)
		t, err := (*vnic.MACTable)(nil).Set(0, b.table, uint32(len(b.table)))
		if err == nil {
			b.vport.SetMACTable(t)
		}
		return errorText(err)
	})
}

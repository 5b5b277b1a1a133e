package script

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"strings"

	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
	"tapir/wire/arp"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ib"
	"tapir/wire/ip"
	"tapir/wire/udp"
)

// roceSettings are the settings of a script of RoCE.
type roceSettings struct {
	attr    qpattr.Attr
	service qpattr.Type
	managed bool // the queue pair is connected by communication management
	plain   bool // the NIC has iWARP
}

// Both sides' requests begin with this PSN; scripts count from it.
const rocePSN = 0xfffff0

// The memory of the application: zeros, then a pattern.
const (
	roceMem  = 64 << 10
	roceFull = roceMem / 2
)

func defaultRoCE() roceSettings {
	all := uint8(verbs.RemoteRead | verbs.RemoteWrite | verbs.RemoteAtomic)
	return roceSettings{attr: qpattr.Attr{PathMTU: 1024, RQPSN: rocePSN, SQPSN: rocePSN, MaxDestRdAtomic: 4,
		MaxRdAtomic: 4,
		MinRNRTimer: 12, Timeout: 14, RetryCount: 3, RNRRetry: 3, Port: 1, Access: all, QKey: 0x1234, DestQPN: 0x55}}
}

// The fields of BTH and what lies below, and of the extension headers.
var (
	roceBTH = []fieldSpec{
		{name: "psn", form: numberForm(24, false), usual: uint64(0)},
		{name: "se", form: flagForm, usual: false},
		{name: "ackreq", form: flagForm, usual: false},
		{name: "pkey", form: numberForm(16, true), usual: uint64(ib.PKeyDefault)},
		// What no NIC sends.
		{name: "noack", form: flagForm, in: true}, {name: "dest", form: numberForm(24, true), in: true},
		{name: "src", form: numberForm(8, false), in: true}, {name: "op", form: numberForm(8, true), in: true},
		{name: "tver", form: numberForm(4, false), in: true}, {name: "pad", form: numberForm(2, false), in: true},
		{name: "badicrc", form: flagForm, in: true}, {name: "badsum", form: flagForm, in: true},
		{name: "fragment", form: flagForm, in: true}, {name: "options", form: flagForm, in: true},
		{name: "short", form: numberForm(11, false), in: true},
	}
	roceExtensions = map[ib.Headers][]fieldSpec{
		ib.HasXRCETH: {{name: "srq", form: numberForm(24, false), usual: uint64(0)}},
		ib.HasDETH: {{name: "qkey", form: numberForm(32, true), usual: uint64(0x1234)},
			{name: "srcqp", form: numberForm(24, true), usual: uint64(0x55)}},
		ib.HasRETH: {{name: "va", form: numberForm(64, false), usual: uint64(0)},
			{name: "rkey", form: numberForm(32, false), usual: uint64(0)}, {name: "dma", form: numberForm(32, false)}},
		ib.HasAtomicETH: {{name: "va", form: numberForm(64, false), usual: uint64(0)},
			{name: "rkey", form: numberForm(32, false), usual: uint64(0)},
			{name: "swap", form: numberForm(64, false), usual: uint64(0)},
			{name: "compare", form: numberForm(64, false), usual: uint64(0)}},
		ib.HasAETH: {{name: "syndrome", form: numberForm(8, true), usual: uint64(ib.SyndromeACK), strict: true},
			{name: "msn", form: numberForm(24, false), usual: uint64(0)}},
		ib.HasAtomicAckETH: {{name: "original", form: numberForm(64, false), usual: uint64(0)}},
		ib.HasImm:          {{name: "imm", form: numberForm(32, false), usual: uint64(0)}},
		ib.HasIETH:         {{name: "inv", form: numberForm(32, false), usual: uint64(0)}},
	}
	rocePayload = []fieldSpec{{name: "len", form: numberForm(13, false), usual: uint64(0)},
		{name: "from", form: numberForm(17, false)}}
)

// roceOps are the opcodes by the names that scripts have for them.
var roceOps = map[string]ib.Opcode{}

// roceNames are those names by opcode, for reliable connections and datagrams.
var roceNames = map[ib.Opcode]string{}

// roceMessages are all messages of scripts of RoCE.
var roceMessages = func() map[string]*messageKind {
	all := map[string]*messageKind{"cnp": {name: "cnp", fields: roceBTH}}
	roceOps["cnp"] = ib.CNP
	short := strings.NewReplacer("rdma ", "", " with immediate", "-imm", " with invalidate", "-inv", "acknowledge",
		"ack",
		"cmpswap", "cmp-swap", "fetchadd", "fetch-add", " ", "-")
	for op := range ib.Opcode(0xff) {
		o := op.Operation()
		if o == nil || op.Transport() != ib.TransportRC && op.Transport() != ib.TransportUD {
			continue
		}
		name := short.Replace(strings.ToLower(o.Name))
		if op.Transport() == ib.TransportUD {
			name = "ud-" + name
		}
		fields := append([]fieldSpec(nil), roceBTH...)
		h, _ := op.Headers()
		for bit := ib.Headers(1); bit != 0; bit <<= 1 {
			if h&bit != 0 {
				fields = append(fields, roceExtensions[bit]...)
			}
		}
		all[name] = &messageKind{name: name, fields: append(fields, rocePayload...)}
		roceOps[name], roceNames[op] = op, name
	}
	for attr, kind := range roceMADs {
		all[kind.name] = kind
		roceMADNames[kind.name] = attr
	}
	return all
}()

var roceProtocol = &protocol{
	settings: func(s *settings) readers {
		a := &s.roce.attr
		return readers{
			"mtu":       unsigned(&a.PathMTU, "a path MTU", 4096),
			"retry":     unsigned(&a.RetryCount, "a number", 7),
			"rnr-retry": unsigned(&a.RNRRetry, "a number", 7),
			"rnr-timer": unsigned(&a.MinRNRTimer, "a timer code", 31),
			"timeout":   unsigned(&a.Timeout, "a timer code", 31),
			"reads":     unsigned(&a.MaxDestRdAtomic, "a number", 16),
			"depth":     unsigned(&a.MaxRdAtomic, "a number", 16),
			"access":    unsigned(&a.Access, "rights: 2 Write, 4 Read, 8 atomics, added up", 14),
			"service": func(l *line) {
				i, _ := l.oneOf("a service", []string{"rc", "uc", "ud"})
				s.roce.service = []qpattr.Type{qpattr.RC, qpattr.UC, qpattr.UD}[i]
			},
			"managed": either(&s.roce.managed, "a state", "off", "on"),
			"iwarp":   either(&s.roce.plain, "a state", "off", "on"),
		}
	},
	messages: roceMessages,
	expects:  roceExpects,
	commands: roceCommands,
	start:    newRoCENIC,
}

// roceBench is the peer's side of a script of RoCE: the frames between it and a machine with
// one queue pair and an application above.
type roceBench struct {
	r       *runner
	host    roceHost
	mac     ether.Addr // of the machine
	station ether.Addr // of the peer
	qpn     uint32     // of the machine's queue pair, 0: it has none
	addr    uint64     // of its memory
	key     uint32
	mem     []byte // its memory, or what it held at first
	inbox   []*frame.Frame
	told    []happening // completions and events that no line has stated
	peerID  uint32      // communication id of the NIC
	tid     uint64      // of the latest message of the NIC
	seen    uint16
	salt    uint32 // sets ids of this run apart from those of others against the same machine
}

// roceHost is the machine, as its application sees it.
type roceHost interface {
	recv(id, off, n uint64) error
	post(wr verbs.SendWR) error // fills in the memory: SGEs hold an offset as address
	move(to verbs.State) error
	state() verbs.State
	memory(off, n uint64) []byte
	dereg() error
	listen() error
	connect() error
	accept() error
	reject() error
	disconnect() error
	// counters are the drops by reason and all others; a machine that tells of none has nil.
	counters() (drops, all map[string]uint64)
	// poll lets the machine do what is due and returns its next deadline.
	poll() frame.Time
}

func newRoCEBench(r *runner) *roceBench {
	b := &roceBench{r: r, mem: make([]byte, roceMem), station: station}
	pattern(b.mem[roceFull:], nicSalt, 0)
	return b
}

// poll implements simulation.
func (b *roceBench) poll() frame.Time { return b.host.poll() }

func hyphens(s string) string { return strings.ReplaceAll(strings.ToLower(s), " ", "-") }

func (b *roceBench) tell(text string) {
	b.told = append(b.told, happening{text: text})
	b.r.tracef("!", text, b.r.at)
}

func (b *roceBench) unclaimed() string {
	var texts []string
	for _, h := range b.told {
		texts = append(texts, "expect "+h.text)
	}
	return strings.Join(texts, "; ")
}

// sent takes a frame of the machine, which must be sound, whatever the script says.
func (b *roceBench) sent(f *frame.Frame) {
	defer f.Release()
	h, n, err := ether.Parse(f.Bytes())
	if err != nil {
		return
	}
	body := f.Bytes()[n:]
	if h.Type == ether.TypeARP {
		if q, err := arp.Parse(body); err == nil && q.Op == arp.Request && q.TargetIP == b.r.remote {
			b.frame(ether.TypeARP, arp.Packet{Op: arp.Reply, SenderMAC: b.station, SenderIP: b.r.remote,
				TargetMAC: q.SenderMAC,
				TargetIP:  q.SenderIP}.AppendTo(nil))
		}
		return
	}
	v, rest, err := ip.Parse(body)
	if err != nil || v.Proto != ip.ProtoUDP || len(rest) < udp.HeaderLen {
		return
	}
	if u, _, _ := udp.Parse(rest); u.Dst == ib.UDPPort {
		b.packetOut(body[:v.HeaderLen()+udp.HeaderLen], rest[udp.HeaderLen:v.PayloadLen])
	}
}

// frame queues a frame of the peer's station.
func (b *roceBench) frame(typ uint16, body []byte) {
	f := b.r.pool.Get(ether.HeaderLen + len(body))
	d := f.Extend(ether.HeaderLen + len(body))
	h := ether.Header{Dst: b.mac, Src: b.station, Type: typ}
	copy(d[h.Put(d):], body)
	b.inbox = append(b.inbox, f)
}

// packetOut takes a packet of the NIC apart.
func (b *roceBench) packetOut(h, body []byte) {
	broken := ""
	var p ib.Packet
	if !ib.ICRCIPv4(h).Check(body) {
		broken = "ICRC"
	} else if err := p.Parse(body[:len(body)-ib.ICRCLen]); err != nil {
		broken = err.Error()
	}
	if p.DestQP == ib.QP1 && broken == "" {
		b.sentMAD(p.Payload)
		return
	}
	op := p.Opcode
	if op.Transport() == ib.TransportUC {
		op = op.Op()
	}
	kind := roceMessages[roceNames[op]]
	if kind == nil {
		b.r.observed(roceMessages["cnp"], nil, "opcode "+p.Opcode.String())
		return
	}
	v := map[string]any{"psn": uint64((p.PSN - rocePSN) & ib.PSNMask), "se": p.Solicited, "ackreq": p.AckReq,
		"pkey": uint64(p.PKey)}
	b.values(v, &p)
	b.r.observed(kind, v, broken)
}

// values are those of the extension headers and payload.
func (b *roceBench) values(v map[string]any, p *ib.Packet) {
	h, _ := p.Opcode.Headers()
	set := func(bit ib.Headers, name string, n uint64) {
		if h&bit != 0 {
			v[name] = n
		}
	}
	set(ib.HasDETH, "qkey", uint64(p.DETH.QKey))
	set(ib.HasDETH, "srcqp", uint64(p.DETH.SrcQP))
	set(ib.HasRETH, "va", p.RETH.VA)
	set(ib.HasRETH, "rkey", uint64(p.RETH.RKey))
	set(ib.HasRETH, "dma", uint64(p.RETH.Len))
	set(ib.HasAtomicETH, "va", p.Atomic.VA)
	set(ib.HasAtomicETH, "rkey", uint64(p.Atomic.RKey))
	set(ib.HasAtomicETH, "swap", p.Atomic.SwapAdd)
	set(ib.HasAtomicETH, "compare", p.Atomic.Compare)
	set(ib.HasAETH, "syndrome", uint64(p.AETH.Syndrome))
	set(ib.HasAETH, "msn", uint64(p.AETH.MSN))
	set(ib.HasAtomicAckETH, "original", p.Orig)
	set(ib.HasImm, "imm", uint64(p.Imm))
	set(ib.HasIETH, "inv", uint64(p.Invalidate))
	v["len"] = uint64(len(p.Payload))
	if at := bytes.Index(b.mem, p.Payload); at >= 0 && len(p.Payload) >= 8 {
		v["from"] = uint64(at)
	}
}

// send implements bench.
func (b *roceBench) send(m *fields) string {
	if attr, ok := roceMADNames[m.kind.name]; ok {
		return b.sendMAD(m, attr)
	}
	p := ib.Packet{BTH: ib.BTH{Opcode: roceOps[m.kind.name], PSN: uint32(m.num("psn")+rocePSN) & ib.PSNMask,
		Solicited: m.flag("se"), AckReq: !m.flag("noack"), PKey: uint16(m.num("pkey"))}}
	p.DestQP = b.qpn
	if n, ok := m.given["dest"].(uint64); ok {
		p.DestQP = uint32(n)
	}
	if b.r.script.set.roce.service == qpattr.UC && p.Opcode.Transport() == ib.TransportRC {
		p.Opcode |= ib.TransportUC
	}
	p.RETH = ib.RETH{VA: b.addr + m.num("va"), RKey: b.key + uint32(m.num("rkey")), Len: uint32(m.num("len"))}
	if n, ok := m.given["dma"].(uint64); ok {
		p.RETH.Len = uint32(n)
	}
	p.Atomic = ib.AtomicETH{VA: p.RETH.VA, RKey: p.RETH.RKey, SwapAdd: m.num("swap"), Compare: m.num("compare")}
	p.AETH = ib.AETH{Syndrome: ib.Syndrome(m.num("syndrome")), MSN: uint32(m.num("msn"))}
	p.DETH = ib.DETH{QKey: uint32(m.num("qkey")), SrcQP: uint32(m.num("srcqp"))}
	p.Orig, p.Imm, p.Invalidate = m.num("original"), uint32(m.num("imm")), uint32(m.num("inv"))
	p.Payload = make([]byte, m.num("len"))
	pattern(p.Payload, peerSalt, 0)
	b.packet(m, p.Append(nil))
	return ""
}

// packet sends transport octets, with the lies of m.
func (b *roceBench) packet(m *fields, body []byte) {
	if n, ok := m.given["op"].(uint64); ok {
		body[0] = byte(n)
	}
	if n, ok := m.given["tver"].(uint64); ok {
		body[1] |= byte(n)
	}
	if n, ok := m.given["pad"].(uint64); ok {
		body[1] = body[1]&^0x30 | byte(n)<<4
	}
	body = body[:len(body)-min(len(body)-ib.BTHLen, int(m.num("short")))]
	src := b.r.remote
	if n, ok := m.given["src"].(uint64); ok {
		a := src.AsSlice()
		a[len(a)-1] = byte(n)
		src, _ = netip.AddrFromSlice(a)
	}
	b.seen++
	h := ip.Header{Version: 4, TTL: 64, ID: b.seen, DF: true, Proto: ip.ProtoUDP, Src: src, Dst: b.r.local,
		PayloadLen: udp.HeaderLen + len(body) + ib.ICRCLen}
	if m.flag("options") {
		h.Options = []byte{1, 1, 1, 1}
	}
	if m.flag("fragment") {
		h.DF, h.MF = false, true
	}
	n := h.HeaderLen()
	d := make([]byte, n+udp.HeaderLen, n+h.PayloadLen)
	h.Put(d)
	be := binary.BigEndian
	be.PutUint16(d[n:], 0xc055)
	be.PutUint16(d[n+2:], ib.UDPPort)
	be.PutUint16(d[n+4:], uint16(h.PayloadLen))
	d = append(d, body...)
	c := ib.ICRCIPv4(append(append([]byte(nil), d[:ip.HeaderLen4]...), d[n:n+udp.HeaderLen]...))
	d = append(d, 0, 0, 0, 0)
	c.Headers(body[:ib.BTHLen]).Payload(body[ib.BTHLen:]).Put(d[len(d)-ib.ICRCLen:])
	if m.flag("badicrc") {
		d[len(d)-1] ^= 8
	}
	if m.flag("badsum") {
		be.PutUint16(d[n+6:], 0xbad)
	}
	b.frame(ether.TypeIPv4, d)
}

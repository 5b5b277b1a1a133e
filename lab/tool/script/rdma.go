package script

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"tapir/ddp"
	"tapir/rdmap"
	"tapir/wire/tcp"
)

// pdu is one DDP segment in an FPDU as a script writes it:
//
//	[badcrc] write buf+100 len 64 more
//
// Every field has a value that the protocol gives it; those that the script
// gives stand in its place.
type pdu struct {
	kind    *pduKind
	out     bool
	framing *framing
	given   map[string]numeral
	more    bool // not the last segment of its message
	data    payloads
	extra   uint64 // octets behind the message
	trim    uint64 // octets left out at its end
	term    *termination
	word    word
}

// pduKind is a kind of message: an opcode with the fields of its own header.
type pduKind struct {
	name   string
	op     rdmap.Opcode
	header []string // fields behind the DDP header, in the order of text
	raw    bool     // no RDMAP message: the octets of an FPDU
}

var pduKinds = []pduKind{
	{name: "write", op: rdmap.Write},
	{name: "read-request", op: rdmap.ReadRequestOp, header: []string{"size", "sink-stag", "sink-to", "src-stag",
		"src-to"}},
	{name: "read-response", op: rdmap.ReadResponse},
	{name: "send", op: rdmap.Send},
	{name: "send-inv", op: rdmap.SendInvalidate},
	{name: "send-se", op: rdmap.SendSE},
	{name: "send-se-inv", op: rdmap.SendSEInvalidate},
	{name: "terminate", op: rdmap.TerminateOp},
	{name: "immediate", op: rdmap.ImmediateOp},
	{name: "immediate-se", op: rdmap.ImmediateSE},
	{name: "atomic-request", op: rdmap.AtomicRequestOp, header: []string{"aop", "id", "at-stag", "at-to", "add", "mask",
		"compare", "compare-mask", "atomic-reserved"}},
	{name: "atomic-response", op: rdmap.AtomicResponseOp, header: []string{"id", "original"}},
	{name: "fpdu", raw: true},
}

// kindOf returns the kind with that name, nil if there is none.
func kindOf(name string) *pduKind {
	if i := slices.IndexFunc(pduKinds, func(k pduKind) bool { return k.name == name }); i >= 0 {
		return &pduKinds[i]
	}
	return nil
}

// pduField is a field of a header and its width in bits.
type pduField struct {
	bits  int
	named bool // a region may stand for it
}

// ddpFields are those of the DDP header and of the RDMAP control octet.
var ddpFields = map[string]pduField{
	"op": {4, false}, "t": {1, false}, "l": {1, false}, "dv": {2, false}, "rv": {2, false},
	"rsvd": {4, false}, "rsvdulp": {2, false}, "stag": {32, true}, "to": {64, true},
	"inv": {32, true}, "qn": {32, false}, "msn": {32, false}, "mo": {32, false},
}

// headerFields are those of the RDMAP headers.
var headerFields = map[string]pduField{
	"size": {32, false}, "sink-stag": {32, true}, "sink-to": {64, true}, "src-stag": {32, true}, "src-to": {64, true},
	"aop": {4, false}, "id": {32, false}, "at-stag": {32, true}, "at-to": {64, true}, "add": {64, false},
	"mask": {64, false}, "compare": {64, false}, "compare-mask": {64, false}, "atomic-reserved": {28, false},
	"original": {64, false},
}

// atomicNames are words that stand for an operation code.
var atomicNames = map[string]rdmap.AtomicOp{"fetch-add": rdmap.FetchAdd, "swap": rdmap.Swap, "cmp-swap": rdmap.CmpSwap}

// streamWords begin what is neither a start-up frame nor an FPDU.
var streamWords = map[string]bool{"raw": true, "fin": true, "rst": true}

// rdmaMessage tells whether the line goes on with a message of iWARP.
func rdmaMessage(l *line) bool {
	at := 0
	if strings.HasPrefix(l.peek().text, "[") && len(l.words) > 1 {
		at = 1
	}
	if l.done() {
		return false
	}
	name := l.words[at].text
	return name == "mpa" || streamWords[name] || kindOf(name) != nil
}

// messageNames are the kinds of messages besides segments.
func messageNames(l *line) string {
	if !l.iwarp {
		return sortedNames(grammars)
	}
	names := slices.AppendSeq([]string{"mpa"}, maps.Keys(streamWords))
	names = slices.AppendSeq(names, maps.Keys(grammars))
	for i := range pduKinds {
		names = append(names, pduKinds[i].name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// parseRDMA parses a message of iWARP.
func parseRDMA(l *line, out bool) message {
	f := &framing{}
	if strings.HasPrefix(l.peek().text, "[") {
		w := l.next("")
		if out {
			panic(l.at(w, "the NIC's output is framed as RFC 5044 says; expected a message"))
		}
		f = parseFraming(l, w)
	}
	w := l.next("")
	switch {
	case w.text == "mpa":
		s := parseStartup(l, out)
		s.framing = f
		return s
	case streamWords[w.text]:
		return parseStream(l, w, f, out)
	}
	m := &pdu{kind: kindOf(w.text), out: out, framing: f, given: map[string]numeral{}, word: w}
	m.parse(l)
	return m
}

func (m *pdu) parse(l *line) {
	if m.kind.op == rdmap.TerminateOp && !m.kind.raw {
		m.term = &termination{}
		m.term.parse(l, m.out)
	} else {
		m.place(l)
	}
	for !l.done() {
		w := l.next("")
		m.field(l, w)
	}
	for i := range m.data {
		if d := &m.data[i]; d.n > 0 && m.out && d.from == nil && !d.any && d.raw == nil {
			panic(
				l.at(d.word,
					"what the NIC sends is not the peer's; expected len N from REGION, len N any, hex or text"))
		}
	}
}

// place reads the region that a message is about, which gives two fields.
func (m *pdu) place(l *line) {
	pair := map[rdmap.Opcode][2]string{
		rdmap.Write: {"stag", "to"}, rdmap.ReadResponse: {"stag", "to"}, rdmap.AtomicRequestOp: {"at-stag", "at-to"},
		rdmap.ReadRequestOp: {"src-stag", "src-to"},
	}[m.kind.op]
	if m.out && m.kind.op == rdmap.ReadRequestOp {
		pair = [2]string{"sink-stag", "sink-to"}
	}
	w := l.peek()
	_, aop := atomicNames[w.text]
	if pair[0] == "" || m.kind.raw || l.done() || aop || m.isWord(w.text) {
		return
	}
	e := l.numeral("a region such as buf or buf+100, or "+m.forms(), 64, true)
	if e.any || e.name == "" || e.op == '^' {
		panic(l.at(w, "%q: expected a region such as buf or buf+100, or %s", w.text, m.forms()))
	}
	m.given[pair[0]] = numeral{name: e.name, word: w}
	m.given[pair[1]] = e
}

// isWord tells whether text is a word of the message rather than a region.
func (m *pdu) isWord(text string) bool {
	_, isDDP := ddpFields[text]
	return isDDP || payloadWords[text] || slices.Contains(m.kind.header, text) ||
		slices.Contains([]string{"more", "extra", "trim"}, text)
}

// forms are the words that a message may have.
func (m *pdu) forms() string {
	if m.kind.raw {
		return payloadForms
	}
	names := slices.Sorted(maps.Keys(ddpFields))
	return strings.Join(append(slices.Clone(m.kind.header), names...), ", ") + ", more, extra N, trim N, " +
		payloadForms
}

func (m *pdu) field(l *line, w word) {
	aop, atomic := atomicNames[w.text]
	spec, known := ddpFields[w.text]
	if slices.Contains(m.kind.header, w.text) {
		spec, known = headerFields[w.text], true
	}
	switch {
	case payloadWords[w.text]:
		m.data.add(l, w, m.out)
		return
	case m.kind.raw:
	case w.text == "more":
		m.more = true
		return
	case m.out && (w.text == "extra" || w.text == "trim"):
	case w.text == "extra":
		m.extra, _ = l.unsigned("a number of octets", 1<<16)
		return
	case w.text == "trim":
		m.trim, _ = l.unsigned("a number of octets", 1<<16)
		return
	case atomic && m.kind.op == rdmap.AtomicRequestOp:
		m.given["aop"] = numeral{n: uint64(aop), word: w}
		m.place(l)
		return
	case known:
		e := l.numeral(w.text, spec.bits, spec.named)
		if e.any && !m.out {
			panic(l.at(e.word, "what goes into the NIC is not open; expected a number behind %s", w.text))
		}
		e.word = word{w.text + " " + e.word.text, w.col}
		m.given[w.text] = e
		return
	}
	panic(l.at(w, "%q: expected %s", w.text, m.forms()))
}

// values are the fields as the message should have them: those of the
// protocol and those of the script. Fields that the script leaves open are
// missing.
func (m *pdu) values(w *world, s *side) (map[string]uint64, *difference) {
	op := m.kind.op
	v := map[string]uint64{
		"op": uint64(op), "dv": ddp.Version, "rv": rdmap.Version, "rsvd": 0, "rsvdulp": 0,
		"inv": 0, "stag": 0, "to": 0, "qn": uint64(op.Queue()),
	}
	v["t"], v["l"] = bit(op.Tagged()), bit(!m.more)
	for _, f := range m.kind.header {
		v[f] = 0
	}
	if op == rdmap.ReadRequestOp && !m.out {
		v["sink-stag"], v["sink-to"] = defaultSinkSTag, defaultSinkTO
	}
	var wrong *difference
	set := func(f string) {
		e, ok := m.given[f]
		switch {
		case !ok || wrong != nil:
		case e.any:
			delete(v, f)
		case strings.HasSuffix(f, "stag") || f == "inv":
			v[f], wrong = e.stag(w)
		default:
			v[f], wrong = e.to(w)
		}
	}
	set("qn")
	qn, known := v["qn"]
	v["msn"], v["mo"] = 1, 0
	if known && qn < rdmap.NumQueues {
		v["msn"], v["mo"] = uint64(s.msn[qn]), uint64(s.mo[qn])
	}
	for _, f := range slices.Sorted(maps.Keys(m.given)) {
		if f != "qn" {
			set(f)
		}
	}
	return v, wrong
}

// The sink that the peer's Read Requests name unless the script says another.
const (
	defaultSinkSTag = 0x5151
	defaultSinkTO   = 0x10000
)

// header puts the DDP header together.
func header(v map[string]uint64) ddp.Header {
	c := rdmap.Control{Version: uint8(v["rv"]), Reserved: uint8(v["rsvdulp"]), Opcode: rdmap.Opcode(v["op"])}
	return ddp.Header{
		Tagged: v["t"] == 1, Last: v["l"] == 1, Reserved: uint8(v["rsvd"]), Version: uint8(v["dv"]), ULP: c.Byte(),
		STag: uint32(v["stag"]), TO: v["to"],
		ULPWord: uint32(v["inv"]), QN: uint32(v["qn"]), MSN: uint32(v["msn"]), MO: uint32(v["mo"]),
	}
}

// position is where the first octet of the payload stands in the pattern: in
// the region that a tagged message names, else in the message.
func (m *pdu) position(w *world, h *ddp.Header) uint64 {
	if !h.Tagged {
		return uint64(h.MO)
	}
	if to := m.given["to"]; to.name != "" {
		if g := w.find(to.name); g != nil {
			return h.TO - g.mr.Addr()
		}
	}
	return h.TO
}

// encode is the segment of the peer.
func (m *pdu) encode(w *world, e *endpoint) ([]byte, *difference) {
	if m.kind.raw {
		return m.data.of(e, 0)
	}
	v, wrong := m.values(w, &e.built)
	if wrong != nil {
		return nil, wrong
	}
	h := header(v)
	b := h.AppendTo(nil)
	switch {
	case m.term != nil:
		b, wrong = m.term.appendTo(b, &e.seen)
	case m.kind.op == rdmap.ReadRequestOp:
		r := rdmap.ReadRequest{SinkSTag: uint32(v["sink-stag"]), SinkTO: v["sink-to"], Size: uint32(v["size"]),
			SourceSTag: uint32(v["src-stag"]), SourceTO: v["src-to"]}
		b = r.AppendTo(b)
	case m.kind.op == rdmap.AtomicRequestOp:
		r := rdmap.AtomicRequest{Reserved: uint32(v["atomic-reserved"]), Op: rdmap.AtomicOp(v["aop"]),
			ID:   uint32(v["id"]),
			STag: uint32(v["at-stag"]), TO: v["at-to"], Data: v["add"], Mask: v["mask"], Compare: v["compare"],
			CompareMask: v["compare-mask"]}
		b = r.AppendTo(b)
	case m.kind.op == rdmap.AtomicResponseOp:
		r := rdmap.AtomicResponse{ID: uint32(v["id"]), Original: v["original"]}
		b = r.AppendTo(b)
	}
	if wrong != nil {
		return nil, wrong
	}
	data, wrong := m.data.of(e, m.position(w, &h))
	if wrong != nil {
		return nil, wrong
	}
	b = append(append(b, data...), make([]byte, m.extra)...)
	if m.trim > uint64(len(b)) {
		return nil, &difference{fmt.Sprintf("the message has %d octets only", len(b)), m.word}
	}
	return b[:uint64(len(b))-m.trim], nil
}

// send implements message.
func (m *pdu) send(r *runner, p *peer) (string, *difference) {
	b, wrong := m.encode(r.world, p.end)
	if wrong != nil {
		return "", wrong
	}
	if bad := p.end.ensureOpen(); bad != "" {
		return "", &difference{bad, m.word}
	}
	r.tracef("<", m.framing.text()+r.world.describe(b, p.end, false), r.at)
	if !m.framing.hidden {
		if h, err := p.end.built.note(b); err == nil {
			p.end.built.advance(&h, len(b))
		}
	}
	if bad := p.end.frame(m.framing, b); bad != "" {
		return "", &difference{bad, m.word}
	}
	return "", nil
}

// stream is what is no message: octets, or the end of the stream.
type stream struct {
	name    string
	framing *framing
	data    payload
	word    word
}

// parseStream reads raw OCTETS, fin or rst.
func parseStream(l *line, w word, f *framing, out bool) message {
	s := &stream{name: w.text, framing: f, word: w}
	if w.text != "raw" {
		if f.word.text != "" {
			panic(l.at(f.word, "%s has no octets; expected no list in []", w.text))
		}
		return s
	}
	if out {
		panic(l.at(w, "%q: octets go into the NIC only; expected a message: %s", w.text, messageNames(l)))
	}
	s.data.read(l, "octets", false)
	return s
}

// send implements message.
func (s *stream) send(r *runner, p *peer) (string, *difference) {
	e := p.end
	if bad := e.ensureOpen(); bad != "" {
		return "", &difference{bad, s.word}
	}
	switch s.name {
	case "raw":
		b, wrong := s.data.of(e, 0)
		if wrong != nil {
			return "", wrong
		}
		r.tracef("<", s.framing.text()+"raw"+octetsText(b), r.at)
		e.out = append(e.out, b...)
		if !s.framing.join {
			e.push(s.framing)
		}
		return "", nil
	case "fin":
		e.finish()
	default:
		e.segment(tcp.RST|tcp.ACK, e.sent, 0, nil)
	}
	return s.name, nil
}

// compare implements message.
func (s *stream) compare(_ *runner, _ *peer, got *packet) []difference {
	u := got.unit
	if u == nil || s.name == "fin" && !u.fin || s.name == "rst" && !u.rst {
		return []difference{{"message: not " + s.name, s.word}}
	}
	return nil
}

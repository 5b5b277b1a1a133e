package script

import (
	"cmp"
	"fmt"
	"strings"

	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/tcp"
)

// segment is a TCP segment as a script writes it:
//
//	[ce] P. 1:1001(1000) ack 1 win 512 urg 5 <nop,nop,TS val 1 ecr 2>
//
// Sequence numbers count from 0, which is the SYN, in both directions.
type segment struct {
	ip        *ipFields
	flags     tcp.Flags
	flagsWord word
	first     value // sequence number
	n         int   // octets of payload
	seqWord   word
	ack       value // any: not given
	win, urg  value
	opts      *tcpOptions // nil: not given
}

// flagLetters are those of tcpdump, in the order in which it prints them.
const flagLetters = "FSRP.UEWe"

var flagBits = [...]tcp.Flags{tcp.FIN, tcp.SYN, tcp.RST, tcp.PSH, tcp.ACK, tcp.URG, tcp.ECE, tcp.CWR, tcp.NS}

func flagText(f tcp.Flags) string {
	s := ""
	for i, bit := range flagBits {
		if f&bit != 0 {
			s += flagLetters[i : i+1]
		}
	}
	return cmp.Or(s, "-")
}

func parseFlags(text string) (f tcp.Flags, ok bool) {
	if text == "-" {
		return 0, true
	}
	for _, c := range text {
		i := strings.IndexRune(flagLetters, c)
		if i < 0 || f&flagBits[i] != 0 {
			return 0, false
		}
		f |= flagBits[i]
	}
	return f, text != ""
}

// longest is the most payload that one segment can have.
const longest = 65535 - 20 - 20

func parseSegment(l *line, out bool) message {
	s := &segment{
		ack: value{any: true}, win: value{any: true}, urg: value{any: true},
	}
	if strings.HasPrefix(l.peek().text, "[") {
		w := l.next("")
		s.ip = parseIPFields(l, w, out)
	}
	s.flagsWord = l.next("flags out of " + flagLetters + ", or a message: " + messageNames(l))
	var ok bool
	if s.flags, ok = parseFlags(s.flagsWord.text); !ok {
		panic(l.at(s.flagsWord, "%q: expected flags out of %s (- for none), or a message: %s", s.flagsWord.text,
			flagLetters, messageNames(l)))
	}
	s.parseSeq(l)
	s.parseFields(l, out)
	if s.flags.Has(tcp.ACK) && s.ack.word.text == "" {
		panic(l.at(l.peek(), "the segment has the flag . but no number; expected ack N"))
	}
	if !s.flags.Has(tcp.ACK) && !s.ack.any {
		panic(l.at(s.ack.word, "ack without the flag . ; expected the flag, or no ack"))
	}
	return s
}

// parseSeq reads 1:1001(1000), first:last(length).
func (s *segment) parseSeq(l *line) {
	const form = "sequence numbers such as 1:1001(1000), first:last(length), or *"
	w := l.next(form)
	s.seqWord = w
	numbers, length, ok := strings.Cut(strings.TrimSuffix(w.text, ")"), "(")
	first, last, ok2 := strings.Cut(numbers, ":")
	if !ok || !ok2 || !strings.HasSuffix(w.text, ")") {
		panic(l.at(w, "%q: expected %s", w.text, form))
	}
	n, err := parseInt(length, 0, longest)
	if err != nil {
		panic(l.at(w, "%q: expected a length in parentheses, %v", w.text, err))
	}
	s.n = int(n)
	if s.first, err = parseValue(word{first, w.col}, -1<<32, 1<<32-1); err != nil {
		panic(l.at(w, "%q: expected a sequence number first, %v", w.text, err))
	}
	end, err := parseValue(word{last, w.col}, -1<<32, 1<<33)
	if err != nil || end.any != s.first.any || end.n != s.first.n+n {
		panic(l.at(w, "%q: expected %d behind the colon: the first number and the length together", w.text,
			s.first.n+n))
	}
}

func (s *segment) parseFields(l *line, out bool) {
	for !l.done() {
		w := l.next("")
		if strings.HasPrefix(w.text, "<") && len(w.text) > 1 {
			o := parseOptions(l, w)
			if !out && (o.rest || strings.Contains(w.text, "*")) {
				panic(l.at(w, "what goes into the NIC has no open options; expected numbers"))
			}
			s.opts = o
			continue
		}
		field := map[string]*value{"ack": &s.ack, "win": &s.win, "urg": &s.urg}[w.text]
		if field == nil {
			panic(l.at(w, "%q: expected ack N, win N, urg N, options in <>, or the end of the line", w.text))
		}
		hi := int64(65535)
		if w.text == "ack" {
			hi = 1<<32 - 1
		}
		n := l.next("a number behind " + w.text)
		v, err := parseValue(n, -hi, hi)
		if err != nil {
			panic(l.at(n, "%q: expected %s and %v, or *", n.text, w.text, err))
		}
		if v.any && !out {
			panic(l.at(n, "what goes into the NIC is not open; expected a number behind %s", w.text))
		}
		v.word = word{l.source[w.col-1 : n.col-1+len(n.text)], w.col}
		*field = v
	}
}

// send builds the segment of the peer p and gives it to the NIC.
func (s *segment) send(r *runner, p *peer) (string, *difference) {
	th := tcp.Header{
		SrcPort: p.remote.Port(), DstPort: p.local.Port(),
		Seq: tcp.Seq(p.isn + uint32(s.first.n)), Flags: s.flags,
	}
	if s.flags.Has(tcp.ACK) {
		th.Ack = tcp.Seq(p.base + uint32(s.ack.n))
	}
	if !s.win.any {
		p.win = uint16(s.win.n)
	}
	th.Window = p.win
	if !s.urg.any {
		th.Urgent = uint16(s.urg.n)
	}
	opts := s.opts
	if opts == nil {
		opts = p.defaultOptions(r.at)
	}
	p.noteOptions(opts, s.flags, r.at)
	tsBase := p.tsBase
	if ts := opts.has("TS"); ts != nil && ts.values[1].n == 0 {
		tsBase = 0
	}
	raw := opts.appendTo(nil, p.base, tsBase)
	seg := make([]byte, tcp.HeaderLen+len(raw)+s.n)
	th.Put(seg)
	copy(seg[tcp.HeaderLen:], raw)
	seg[12] = byte((tcp.HeaderLen+len(raw))/4)<<4 | seg[12]&0xf
	if p.end == nil {
		pattern(seg[tcp.HeaderLen+len(raw):], peerSalt, s.first.n-1)
	} else if wrong := p.end.payload(seg[tcp.HeaderLen+len(raw):], s); wrong != nil {
		return "", wrong
	}
	h := ip.Header{Version: 4, TTL: 64, Proto: ip.ProtoTCP, Src: p.remote.Addr(), Dst: p.local.Addr(),
		PayloadLen: len(seg)}
	if !h.Src.Is4() {
		h.Version = 6
	}
	putChecksum(seg, h.Src, h.Dst)
	off := s.ip.apply(&h, seg)
	r.deliver(&h, seg, off)
	return s.text(s.ip, opts, th.Window), nil
}

// text is the segment in the language of scripts.
func (s *segment) text(f *ipFields, opts *tcpOptions, win uint16) string {
	before := ""
	if f != nil {
		before = f.word.text + " "
	}
	h := tcp.Header{Flags: s.flags, Window: win, Urgent: uint16(s.urg.n)}
	return before + segmentText(&h, s.first.n, s.n, s.ack.n, opts, !s.urg.any)
}

// segmentText writes a segment as scripts do; urg tells whether with the urgent
// pointer.
func segmentText(h *tcp.Header, seq int64, n int, ack int64, opts *tcpOptions, urg bool) string {
	t := fmt.Sprintf("%s %d:%d(%d)", flagText(h.Flags), seq, seq+int64(n), n)
	if h.Flags.Has(tcp.ACK) {
		t += fmt.Sprintf(" ack %d", ack)
	}
	t += fmt.Sprintf(" win %d", h.Window)
	if urg {
		t += fmt.Sprintf(" urg %d", h.Urgent)
	}
	if opts != nil && len(opts.list) > 0 {
		t += " " + opts.String()
	}
	return t
}

// compare implements message.
func (s *segment) compare(r *runner, p *peer, got *packet) []difference {
	var d differences
	h := &got.tcp
	if got.unit != nil {
		return []difference{{"message: not a segment", s.flagsWord}}
	}
	d.add(h.Flags != s.flags, "flags", s.flagsWord)
	d.add(!s.first.any && got.seq != s.first.n, "sequence number", s.seqWord)
	d.add(got.n != s.n, "length", s.seqWord)
	d.add(!s.ack.any && got.ack != s.ack.n, "acknowledgement", s.ack.word)
	d.add(!s.win.any && int64(h.Window) != s.win.n, "window", s.win.word)
	d.add(!s.urg.any && int64(h.Urgent) != s.urg.n, "urgent pointer", s.urg.word)
	d = append(d, s.ip.compare(got, s.flagsWord)...)
	switch {
	case s.opts != nil:
		d = append(d, s.opts.compare(got.opts)...)
	case !s.flags.Has(tcp.SYN):
		// Timestamps are understood; anything else must be said.
		for i := range got.opts.list {
			switch opt := &got.opts.list[i]; opt.name {
			case "nop", "eol", "TS":
			default:
				d.add(true, "options: "+opt.String()+" is too much", s.flagsWord)
			}
		}
	}
	return d
}

// super reports whether a packet of the NIC holds several segments.
func super(off frame.Offload) bool { return off.GSO != frame.GSONone }

package script

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"strings"

	"tapir/mpa"
)

// startupFrame is an MPA request or reply as a script writes it:
//
//	mpa request rev 2 ird 16 ord 16 private text "hello"
type startupFrame struct {
	kind     mpa.Kind
	frame    mpa.Frame    // without the words of RFC 6581
	words    mpa.Enhanced // these
	ird, ord numeral
	plain    bool
	private  payload
	length   *uint64 // PD_Length, if it is a lie
	key      []byte
	framing  *framing
	word     word
	at       map[string]word
}

// defaultDepth is the IRD and ORD of the peer unless the script says others.
const defaultDepth = 16

var frameKinds = []string{"request", "reply"}

const startupForms = "rev N, crc, nocrc, markers, reject, enhanced, plain, reserved N, ird N, ord N, p2p, rtr LIST, " +
	"private OCTETS, pd-length N or key TEXT"

// parseStartup reads what follows mpa.
func parseStartup(l *line, out bool) *startupFrame {
	i, w := l.oneOf("a start-up frame", frameKinds)
	s := &startupFrame{kind: mpa.Kind(i), word: w}
	s.fields(l, out)
	return s
}

// fields reads the fields of a start-up frame up to the end of the line.
func (s *startupFrame) fields(l *line, out bool) {
	s.frame = mpa.Frame{Kind: s.kind, CRC: true, Rev: 2}
	s.ird, s.ord = numeral{n: defaultDepth, any: out}, numeral{n: defaultDepth, any: out}
	s.at = map[string]word{}
	s.framing = &framing{}
	f := &s.frame
	number := func(v *uint8, name, what string, hi uint64) reader {
		return func(l *line) {
			n, w := l.unsigned(what, hi)
			*v, s.at[name] = uint8(n), w
		}
	}
	var w word
	table := readers{
		"crc":       sets(&f.CRC, true),
		"nocrc":     sets(&f.CRC, false),
		"markers":   sets(&f.Markers, true),
		"reject":    sets(&f.Reject, true),
		"enhanced":  sets(&f.Enhanced, true),
		"plain":     sets(&s.plain, true),
		"p2p":       sets(&s.words.P2P, true),
		"rtr":       s.rtr,
		"rev":       number(&f.Rev, "rev", "a revision", 255),
		"reserved":  number(&f.Reserved, "reserved", "the reserved bits", 15),
		"ird":       symbol(&s.ird, "an IRD", 14, false),
		"ord":       symbol(&s.ord, "an ORD", 14, false),
		"private":   s.private.reader("private data", out),
		"pd-length": given(&s.length, "PD_Length", 65535),
		"key":       func(l *line) { w = s.parseKey(l) },
	}
	for !l.done() {
		w = l.peek()
		s.at[w.text] = w
		l.option(table, startupForms)
		if out && (s.length != nil || s.key != nil) {
			panic(l.at(w, "the NIC's own output cannot be forged; expected no %s", w.text))
		}
	}
	f.Enhanced = f.Enhanced || f.Rev == 2 && !s.plain
}

func (s *startupFrame) parseKey(l *line) word {
	w := l.next("a key in \"\"")
	s.key = quoted(l, w)
	if len(s.key) != 16 {
		panic(l.at(w, "a key has 16 octets, not %d", len(s.key)))
	}
	return w
}

// rtr reads the indications, such as send,write.
func (s *startupFrame) rtr(l *line) {
	w := l.next("ready-to-receive indications out of send, write, read, or none")
	for name := range strings.SplitSeq(w.text, ",") {
		switch name {
		case "send":
			s.words.RTRSend = true
		case "write":
			s.words.RTRWrite = true
		case "read":
			s.words.RTRRead = true
		case "none":
		default:
			panic(l.at(w, "%q: expected ready-to-receive indications out of send, write, read, such as write,read",
				w.text))
		}
	}
	s.at["rtr"] = w
}

// bytes is the frame.
func (s *startupFrame) bytes(w *world) ([]byte, *difference) {
	f := s.frame
	private, wrong := s.private.bytes(w, 0)
	if wrong != nil {
		return nil, wrong
	}
	if f.Enhanced && !s.plain { // with both words the frame is only marked so
		e := s.words
		e.IRD, e.ORD = uint16(s.ird.n), uint16(s.ord.n)
		private = append(e.AppendTo(nil), private...)
	}
	if len(private) > 65535 {
		return nil, &difference{"private data longer than 65535 octets", s.private.word}
	}
	f.PrivateData = nil
	b := f.AppendTo(nil)
	n := uint64(len(private))
	if s.length != nil {
		n = *s.length
	}
	binary.BigEndian.PutUint16(b[mpa.FrameHeaderLen-2:], uint16(n))
	copy(b, s.key)
	return append(b, private...), nil
}

// send implements message.
func (s *startupFrame) send(r *runner, p *peer) (string, *difference) {
	e := p.end
	if bad := e.ensureOpen(); bad != "" {
		return "", &difference{bad, s.word}
	}
	if e.indicates = e.askedUnstated() && s.frame.Enhanced && !s.frame.Reject && !s.plain; e.indicates {
		agreed := *s
		agreed.words.P2P, agreed.words.RTRWrite = true, true
		s = &agreed
	}
	b, wrong := s.bytes(r.world)
	if wrong != nil {
		return "", wrong
	}
	e.out = append(e.out, b[:max(0, len(b)-s.framing.short)]...)
	if e.mine == nil {
		f := s.frame
		e.mine, e.start = &f, len(e.out)
	}
	r.tracef("<", s.framing.text()+s.text(b), r.at)
	if !s.framing.join {
		e.push(s.framing)
	}
	return "", nil
}

// askedUnstated tells whether the NIC has asked for the peer-to-peer model although the script
// does not say so: for programs, which do not know who has to send first, it always asks. The
// peer agrees, and takes the empty Write that follows.
func (e *endpoint) askedUnstated() bool {
	v := e.w.r.live
	if v == nil || v.cable.machine() != NIC || e.w.r.script.set.rdma.PeerToPeer || e.theirs == nil {
		return false
	}
	words, _, err := mpa.ParseEnhanced(e.theirs.PrivateData)
	return e.theirs.Enhanced && err == nil && words.P2P && e.mine == nil
}

func (s *startupFrame) text(b []byte) string {
	f, n, err := mpa.ParseFrame(b, s.kind)
	if err != nil || n != len(b) {
		return "mpa " + s.kind.String() + " with an error"
	}
	return frameText(&f)
}

// frameText writes a start-up frame as scripts do.
func frameText(f *mpa.Frame) string {
	t := fmt.Sprintf("mpa %v rev %d", f.Kind, f.Rev)
	say := func(is bool, word string) {
		if is {
			t += " " + word
		}
	}
	say(!f.CRC, "nocrc")
	say(f.Markers, "markers")
	say(f.Reject, "reject")
	say(f.Reserved != 0, fmt.Sprintf("reserved %d", f.Reserved))
	say(f.Enhanced && f.Rev != 2, "enhanced")
	say(!f.Enhanced && f.Rev == 2, "plain")
	private := f.PrivateData
	if e, rest, err := mpa.ParseEnhanced(private); f.Enhanced && err == nil {
		private = rest
		t += fmt.Sprintf(" ird %d ord %d", e.IRD, e.ORD)
		say(e.P2P, "p2p")
		if e.RTR() != 0 {
			t += " rtr " + e.RTR().String()
		}
	} else {
		say(f.Enhanced, "plain")
	}
	say(len(private) > 0, "private"+octetsText(private))
	return t
}

// compare implements message.
func (s *startupFrame) compare(r *runner, p *peer, got *packet) []difference {
	if got.unit == nil || got.unit.frame == nil {
		return []difference{{"message: not a start-up frame", s.word}}
	}
	f, want := got.unit.frame, &s.frame
	var d differences
	differ := func(bad bool, name string) { d.add(bad, name, cmp.Or(s.at[name], s.word)) }
	differ(got.unit.kind != s.kind, "kind of frame")
	differ(f.Rev != want.Rev, "rev")
	differ(f.CRC != want.CRC, "crc")
	differ(f.Markers != want.Markers, "markers")
	differ(f.Reject != want.Reject, "reject")
	differ(f.Enhanced != want.Enhanced, "enhanced")
	differ(f.Reserved != want.Reserved, "reserved")
	private := f.PrivateData
	if f.Enhanced && !s.plain {
		e, rest, err := mpa.ParseEnhanced(private)
		private = rest
		differ(err != nil, "private")
		differ(!s.ird.any && uint64(e.IRD) != s.ird.n, "ird")
		differ(!s.ord.any && uint64(e.ORD) != s.ord.n, "ord")
		if !p.end.askedUnstated() {
			differ(e.P2P != s.words.P2P, "p2p")
			differ(e.RTR() != s.words.RTR(), "rtr")
		}
	}
	bad := s.private.differs(r.world, private, 0)
	d.add(bad != "", "private data: "+bad, s.word)
	return d
}

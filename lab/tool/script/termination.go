package script

import (
	"fmt"
	"strconv"
	"strings"

	"tapir/rdmap"
)

// termination is the body of a Terminate as a script writes it:
//
//	terminate 1/1/0 segment
//	terminate 0/1/2 segment read
//	terminate 2/0/2
//
// layer, type and code; with the header of the segment that it is about, and
// of the Read Request in that.
type termination struct {
	code     errorCode
	segment  bool
	back     int // how many segments before the last one
	read     bool
	order    rdmap.Order
	anyOrder bool
	reserved uint64
	bits     map[string]uint64 // m, d, r if the script lies
	length   *uint64           // DDP Segment Length
	word     word              // the code
	at       word              // segment
}

// errorCode is an error as layer/type/code.
type errorCode struct {
	layer, typ, code uint8
	anyCode          bool
}

// parseCode reads 1/1/0, or 0/0/* for any code.
func parseCode(l *line, w word) (c errorCode) {
	const form = "an error as layer/type/code, such as 1/1/0 or 0/2/0xff"
	parts := strings.Split(w.text, "/")
	if len(parts) != 3 {
		panic(l.at(w, "%q: expected %s", w.text, form))
	}
	for i, v := range []*uint8{&c.layer, &c.typ, &c.code} {
		if i == 2 && parts[i] == "*" {
			c.anyCode = true
			continue
		}
		n, err := strconv.ParseUint(parts[i], 0, []int{4, 4, 8}[i])
		if err != nil {
			panic(l.at(w, "%q: expected %s", w.text, form))
		}
		*v = uint8(n)
	}
	return c
}

func (c errorCode) is(layer rdmap.Layer, typ, code uint8) bool {
	return c.layer == uint8(layer) && c.typ == typ && (c.anyCode || c.code == code)
}

func codeText(layer rdmap.Layer, typ, code uint8) string {
	return fmt.Sprintf("%d/%d/%d", layer, typ, code)
}

// parse reads the body; the fields of the DDP header follow.
func (t *termination) parse(l *line, out bool) {
	t.word = l.next("an error as layer/type/code")
	t.code = parseCode(l, t.word)
	if t.code.anyCode && !out {
		panic(l.at(t.word, "what goes into the NIC is not open; expected a code"))
	}
	t.anyOrder, t.at, t.bits = out, t.word, map[string]uint64{}
	bit := func(name string) reader {
		return func(l *line) { t.bits[name], _ = l.unsigned("a bit", 1) }
	}
	table := readers{
		"read": sets(&t.read, true),
		"order": func(l *line) {
			oneOf(&t.order, "an order of the control field", "rfc,siw")(l)
			t.anyOrder = false
		},
		"reserved": unsigned(&t.reserved, "the reserved bits", 1<<13-1),
		"m":        bit("m"),
		"d":        bit("d"),
		"r":        bit("r"),
		"seglen":   given(&t.length, "the DDP Segment Length", 65535),
		"":         t.parseSegment,
	}
	for !l.done() && (table[l.peek().text] != nil || strings.HasPrefix(l.peek().text, "segment")) {
		l.option(table, "")
	}
}

// parseSegment reads segment or segment-N.
func (t *termination) parseSegment(l *line) {
	w := l.next("")
	t.segment, t.at = true, w
	if w.text == "segment" {
		return
	}
	n, ok := strings.CutPrefix(w.text, "segment-")
	var err error
	if t.back, err = strconv.Atoi(n); err != nil || !ok || t.back < 1 {
		panic(l.at(w, "%q: expected segment (the last one), or segment-1 (the one before)", w.text))
	}
}

// quoted is the segment that the header is of, nil if there is none.
func (t *termination) quoted(s *side) *record {
	if i := len(s.log) - 1 - t.back; i >= 0 {
		return &s.log[i]
	}
	return nil
}

// header is the Terminate that the script means.
func (t *termination) header(s *side) (rdmap.Terminate, *difference) {
	h := rdmap.Terminate{Layer: rdmap.Layer(t.code.layer), Type: t.code.typ, Code: t.code.code, Order: t.order,
		Reserved: uint16(t.reserved)}
	if !t.segment {
		if t.read {
			return h, &difference{"read without segment", t.word}
		}
		return h, nil
	}
	rec := t.quoted(s)
	if rec == nil {
		return h, &difference{"there is no such segment", t.at}
	}
	h = h.WithSegment(rec.header, rec.length)
	if t.length != nil {
		h.SegmentLength = uint16(*t.length)
	}
	if !t.read {
		return h, nil
	}
	if !rec.isRead {
		return h, &difference{"the segment is no Read Request", t.at}
	}
	return h.WithRead(rec.read), nil
}

// appendTo appends the body to b; s are the segments that came from the NIC.
func (t *termination) appendTo(b []byte, s *side) ([]byte, *difference) {
	h, wrong := t.header(s)
	if wrong != nil {
		return b, wrong
	}
	start := len(b)
	b = h.AppendTo(b)
	for i, name := range []string{"m", "d", "r"} {
		n, lie := t.bits[name]
		mask := byte(0x80 >> i)
		if t.order == rdmap.OrderSiw {
			mask = 1 << i
		}
		if lie {
			b[start+2] &^= mask
			if n == 1 {
				b[start+2] |= mask
			}
		}
	}
	return b, nil
}

// compare says how the body that came from the NIC differs.
func (t *termination) compare(body []byte, e *endpoint) []difference {
	have, rest, err := rdmap.ParseTerminate(body)
	if err != nil {
		return []difference{{"Terminate: " + err.Error(), t.word}}
	}
	want, wrong := t.header(&e.built)
	if wrong != nil {
		return []difference{*wrong}
	}
	if e.w.r.live != nil && t.anyOrder {
		t.asOfSiw(&have, &want)
	}
	var d differences
	d.add(!t.code.is(have.Layer, have.Type, have.Code), "error", t.word)
	d.add(!t.anyOrder && have.Order != t.order, "order", t.word)
	d.add(have.Reserved != want.Reserved, "reserved bits", t.word)
	d.add(have.HasLength != want.HasLength, "M bit", t.at)
	d.add(have.HasDDP != want.HasDDP, "D bit", t.at)
	d.add(have.HasRead != want.HasRead, "R bit", t.at)
	d.add(have.SegmentLength != want.SegmentLength, fmt.Sprintf("segment length: %d", have.SegmentLength), t.at)
	d.add(have.DDP != want.DDP, "DDP header", t.at)
	d.add(have.Read != want.Read, "Read Request header", t.at)
	d.add(len(rest) > 0, "length: octets behind the headers", t.word)
	return d
}

// asOfSiw reads a Terminate as a siw means it: one without headers says
// nothing of its order, and the DDP Segment Length counts the payload alone.
func (t *termination) asOfSiw(have, want *rdmap.Terminate) {
	plain := !have.HasLength && !have.HasDDP && !have.HasRead
	if plain && have.Order != rdmap.OrderSiw && t.code.is(rdmap.Layer(have.Type), uint8(have.Layer), have.Code) {
		have.Layer, have.Type, have.Order = rdmap.Layer(have.Type), uint8(have.Layer), rdmap.OrderSiw
	}
	if have.Order == rdmap.OrderSiw && t.length == nil {
		want.SegmentLength = have.SegmentLength
	}
}

// terminationText writes a Terminate as scripts do.
func terminationText(t *rdmap.Terminate, s *side) string {
	text := " " + codeText(t.Layer, t.Type, t.Code)
	if t.Order == rdmap.OrderSiw {
		text += " order siw"
	}
	if t.HasDDP {
		text += " segment"
		for i := len(s.log) - 1; i >= 0; i-- {
			if s.log[i].header != t.DDP {
				continue
			}
			if back := len(s.log) - 1 - i; back > 0 {
				text += fmt.Sprintf("-%d", back)
			}
			break
		}
	}
	if t.HasRead {
		text += " read"
	}
	return text
}

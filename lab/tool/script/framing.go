package script

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"tapir/mpa"
	"tapir/wire/crc"
)

// framing is what a script says in [] about the FPDU of a message and about
// the segments that carry it.
type framing struct {
	badcrc, badmarker bool
	crc               *uint64
	length            *uint64 // ULPDU_Length, if it is a lie
	pad               []byte
	short             int  // octets left out at the end
	join              bool // nothing is sent yet: in one go with what follows
	hidden            bool // nothing is sent at all: a payload for what follows
	lost, twice       bool
	lose              []int // the segments that are lost, from 1 on, if not all
	cut               []int
	each              bool
	word              word
}

const framingForms = "badcrc, crc N, badmarker, length N, pad HEX, short N, join, hidden, lost, lost N ..., twice, " +
	"cut N ... or cut each"

// parseFraming reads a list such as [badcrc, cut 3 5].
func parseFraming(l *line, w word) *framing {
	f := &framing{word: w}
	for at := range w.items() {
		if !f.item(strings.Fields(at.text)) {
			panic(l.at(at, "%q: expected %s", at.text, framingForms))
		}
	}
	return f
}

func (f *framing) item(words []string) bool {
	if len(words) == 0 {
		return false
	}
	if flag := map[string]*bool{"badcrc": &f.badcrc, "badmarker": &f.badmarker, "join": &f.join, "hidden": &f.hidden,
		"lost": &f.lost, "twice": &f.twice}[words[0]]; flag != nil {
		*flag = true
		ok := len(words) == 1
		if words[0] == "lost" && !ok {
			f.lose, ok = sizes(words[1:])
		}
		return ok
	}
	if words[0] == "cut" {
		f.each = len(words) == 2 && words[1] == "each"
		ok := f.each
		if !ok {
			f.cut, ok = sizes(words[1:])
		}
		return ok
	}
	if len(words) != 2 {
		return false
	}
	if words[0] == "pad" {
		var err error
		f.pad, err = hex.DecodeString(words[1])
		return err == nil && len(f.pad) <= 3
	}
	bits, known := map[string]int{"crc": 32, "length": 16, "short": 16}[words[0]]
	n, err := parseNumber(words[1])
	if err != nil || !known || n>>bits != 0 {
		return false
	}
	switch words[0] {
	case "crc":
		f.crc = &n
	case "length":
		f.length = &n
	default:
		f.short = int(n)
	}
	return true
}

// sizes reads at least one number of octets or of segments.
func sizes(words []string) (list []int, ok bool) {
	for _, s := range words {
		n, err := parseInt(s, 1, longest)
		if err != nil {
			return nil, false
		}
		list = append(list, int(n))
	}
	return list, len(list) > 0
}

// text is the list as the script has it, with a space behind it.
func (f *framing) text() string {
	if f.word.text == "" {
		return ""
	}
	return f.word.text + " "
}

// build makes the FPDU of ulpdu at position pos; ok is false if it has no
// marker to be spoilt.
func (f *framing) build(l mpa.Layout, pos uint64, ulpdu []byte) (fpdu []byte, ok bool) {
	b := make([]byte, l.FPDULen(pos, len(ulpdu)))
	copy(l.Body(b, len(ulpdu)), ulpdu)
	var t mpa.Trailer
	copy(t.Pad[:], f.pad)
	l.SealTrailer(b, pos, len(ulpdu), t)
	lead := 0
	if l.Markers && pos%mpa.MarkerInterval == 0 {
		lead = mpa.MarkerLen
	}
	if f.length != nil {
		binary.BigEndian.PutUint16(b[lead:], uint16(*f.length))
	}
	if f.badmarker {
		at := int(-pos % mpa.MarkerInterval)
		if !l.Markers || at+mpa.MarkerLen > len(b)-4 {
			return nil, false
		}
		b[at+3] ^= 0x40
	}
	end := b[len(b)-4:]
	if l.CRC {
		binary.LittleEndian.PutUint32(end, crc.CRC32C(b[:len(b)-4]))
	}
	if f.crc != nil {
		binary.LittleEndian.PutUint32(end, uint32(*f.crc))
	}
	if f.badcrc {
		end[0] ^= 1
	}
	return b[:max(0, len(b)-f.short)], true
}

// loses tells whether the ith segment, from 0 on, is lost.
func (f *framing) loses(i int) bool {
	return f.lost && (f.lose == nil || slices.Contains(f.lose, i+1))
}

// frame appends an FPDU to the peer's stream and sends it unless it is to
// wait.
func (e *endpoint) frame(f *framing, ulpdu []byte) string {
	if len(ulpdu) > mpa.MaxULPDU {
		return fmt.Sprintf("the segment has %d octets; an FPDU takes %d at most", len(ulpdu), mpa.MaxULPDU)
	}
	b, ok := f.build(e.tx(), uint64(len(e.out)-e.start), ulpdu)
	if !ok {
		return "no marker falls into this FPDU"
	}
	if f.hidden {
		if e.shown {
			e.hidden, e.shown = nil, false
		}
		e.hidden = append(e.hidden, b...)
		return ""
	}
	e.out = append(e.out, b...)
	if !f.join {
		e.push(f)
	}
	return ""
}

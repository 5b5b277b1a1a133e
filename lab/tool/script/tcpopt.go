package script

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// value is a number of a message that a script gives, or leaves open with *.
type value struct {
	n    int64
	any  bool // * or not written
	word word
}

func parseValue(w word, lo, hi int64) (value, error) {
	if w.text == "*" {
		return value{any: true, word: w}, nil
	}
	n, err := parseInt(w.text, lo, hi)
	return value{n: n, word: w}, err
}

// tcpOption is one option of a TCP header (RFC 9293 section 3.1).
type tcpOption struct {
	name   string
	values []value
	raw    []byte // of an option that has no name here: kind, length, data
	word   word
}

// optionKind is a kind of options that has a name here. Its numbers have the
// same width, and each has a text before it.
type optionKind struct {
	name   string
	octet  byte
	width  int
	before []string
}

var optionKinds = []optionKind{
	{name: "eol", octet: 0}, {name: "nop", octet: 1},
	{"mss", 2, 2, []string{" "}}, {"wscale", 3, 1, []string{" "}}, {name: "sackOK", octet: 4},
	{"sack", 5, 4, []string{" ", ":"}}, {"TS", 8, 4, []string{" val ", " ecr "}},
}

// optionOf is the kind that is one, nil if there is none.
func optionOf(is func(k optionKind) bool) *optionKind {
	if i := slices.IndexFunc(optionKinds, is); i >= 0 {
		return &optionKinds[i]
	}
	return nil
}

func optionCalled(name string) *optionKind {
	return optionOf(func(k optionKind) bool { return k.name == name })
}

// fits tells whether an option of n octets can be of that kind.
func (k *optionKind) fits(n int) bool {
	numbers := k.width * len(k.before)
	return n == 2+numbers || k.octet <= 1 || k.name == "sack" && n > 2 && (n-2)%numbers == 0
}

// tcpOptions is a list in <>. rest says that it ends with "...": other
// options may follow.
type tcpOptions struct {
	list []tcpOption
	rest bool
	word word
}

const optionForms = "mss N, sackOK, wscale N, TS val N ecr N, sack A:B ..., nop, eol, opt HEX or ..."

// parseOptions reads a list such as <mss 1460,sackOK,TS val 1 ecr 0>.
func parseOptions(l *line, w word) *tcpOptions {
	o := &tcpOptions{word: w}
	if strings.TrimSpace(w.text[1:len(w.text)-1]) == "" {
		return o
	}
	for at := range w.items() {
		if o.rest {
			panic(l.at(at, "... ends the list of options"))
		}
		if at.text == "..." {
			o.rest = true
			continue
		}
		opt, err := parseOption(at)
		if err != nil {
			panic(l.at(at, "%q: %v; expected an option: %s", at.text, err, optionForms))
		}
		o.list = append(o.list, opt)
	}
	return o
}

func parseOption(at word) (tcpOption, error) {
	f := strings.Fields(at.text)
	o := tcpOption{word: at}
	if len(f) == 0 {
		return o, fmt.Errorf("an option is missing")
	}
	o.name = f[0]
	args, kind := f[1:], optionCalled(f[0])
	switch {
	case o.name == "sack":
		return o, o.parseBlocks(args)
	case o.name == "opt":
		return o, o.parseRaw(args)
	case kind == nil:
		return o, fmt.Errorf("no option has this name")
	}
	for _, before := range kind.before {
		name := strings.TrimSpace(before)
		if name != "" && len(args) > 0 && args[0] == name {
			args = args[1:]
		} else if name != "" {
			return o, fmt.Errorf("%s is missing", name)
		}
		if len(args) == 0 {
			return o, fmt.Errorf("a number is missing")
		}
		v, err := parseValue(word{args[0], at.col}, 0, 1<<32-1)
		if err != nil {
			return o, err
		}
		o.values, args = append(o.values, v), args[1:]
	}
	if len(args) > 0 {
		return o, fmt.Errorf("%q is too much", args[0])
	}
	return o, nil
}

func (o *tcpOption) parseBlocks(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("a block A:B is missing")
	}
	for _, a := range args {
		left, right, ok := strings.Cut(a, ":")
		if !ok {
			return fmt.Errorf("%q is no block A:B", a)
		}
		for _, edge := range []string{left, right} {
			v, err := parseValue(word{edge, o.word.col}, -1<<31, 1<<32-1)
			if err != nil {
				return err
			}
			o.values = append(o.values, v)
		}
	}
	return nil
}

func (o *tcpOption) parseRaw(args []string) (err error) {
	if len(args) != 1 {
		return fmt.Errorf("one row of hexadecimal digits is missing")
	}
	o.raw, err = hex.DecodeString(args[0])
	return err
}

func (o *tcpOption) String() string {
	if o.name == "opt" {
		return "opt " + hex.EncodeToString(o.raw)
	}
	text, kind := o.name, optionCalled(o.name)
	for i, v := range o.values {
		n := "*"
		if !v.any {
			n = strconv.FormatInt(v.n, 10)
		}
		text += kind.before[i%len(kind.before)] + n
	}
	return text
}

func (o *tcpOptions) String() string {
	var all []string
	for _, opt := range o.list {
		all = append(all, opt.String())
	}
	return "<" + strings.Join(all, ",") + ">"
}

// has returns the option of that name, nil if there is none.
func (o *tcpOptions) has(name string) *tcpOption {
	if i := slices.IndexFunc(o.list, func(opt tcpOption) bool { return opt.name == name }); i >= 0 {
		return &o.list[i]
	}
	return nil
}

// appendTo encodes the list, padded with end-of-list octets to a multiple of
// four. Blocks are numbers of the NIC's stream, whose first is base.
func (o *tcpOptions) appendTo(b []byte, base, tsBase uint32) []byte {
	for i := range o.list {
		opt := &o.list[i]
		kind := optionCalled(opt.name)
		if kind == nil {
			b = append(b, opt.raw...)
			continue
		}
		b = append(b, kind.octet)
		if kind.octet > 1 {
			b = append(b, byte(2+kind.width*len(opt.values)))
		}
		for i, v := range opt.values {
			n := uint32(v.n)
			switch {
			case opt.name == "sack":
				n += base
			case opt.name == "TS" && i == 1:
				n += tsBase
			}
			b = append(b, binary.BigEndian.AppendUint32(nil, n)[4-kind.width:]...)
		}
	}
	return append(b, make([]byte, -len(b)&3)...)
}

// decodeOptions reads the options of a segment from the NIC. Blocks become
// relative to base, the peer's first number; timestamp values relative to
// tsBase.
func decodeOptions(b []byte, base, tsBase uint32) (*tcpOptions, error) {
	o := &tcpOptions{}
	for n := 1; len(b) > 0; b, n = b[n:], 1 {
		if b[0] > 1 {
			if len(b) < 2 || b[1] < 2 || int(b[1]) > len(b) {
				return o, fmt.Errorf("options cut short")
			}
			n = int(b[1])
		}
		kind := optionOf(func(k optionKind) bool { return k.octet == b[0] && k.fits(n) })
		if kind == nil {
			o.list = append(o.list, tcpOption{name: "opt", raw: b[:n]})
			continue
		}
		opt := tcpOption{name: kind.name}
		for at := 2; at < n; at += kind.width {
			var wide [4]byte
			copy(wide[4-kind.width:], b[at:])
			v := binary.BigEndian.Uint32(wide[:])
			number := int64(v)
			switch {
			case kind.name == "sack":
				number = int64(int32(v - base))
			case kind.name == "TS" && at == 2:
				number = int64(int32(v - tsBase))
			}
			opt.values = append(opt.values, value{n: number})
		}
		o.list = append(o.list, opt)
	}
	return o, nil
}

// compare says where got is not as o wants. Padding only counts if o has
// padding.
func (o *tcpOptions) compare(got *tcpOptions) []difference {
	have := got.list
	if o.has("nop") == nil && o.has("eol") == nil {
		have = slices.DeleteFunc(slices.Clone(have), func(opt tcpOption) bool {
			return opt.name == "nop" || opt.name == "eol"
		})
	}
	var diffs []difference
	for i := range o.list {
		if i >= len(have) || !o.list[i].matches(&have[i]) {
			diffs = append(diffs, difference{"option " + o.list[i].String(), o.list[i].word})
		}
	}
	if len(have) > len(o.list) && !o.rest {
		diffs = append(diffs, difference{"options: " + have[len(o.list)].String() + " is too much", o.word})
	}
	return diffs
}

func (o *tcpOption) matches(got *tcpOption) bool {
	return o.name == got.name && string(o.raw) == string(got.raw) &&
		slices.EqualFunc(o.values, got.values, func(want, v value) bool { return want.any || want.n == v.n })
}

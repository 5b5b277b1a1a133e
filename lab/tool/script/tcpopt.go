package script

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
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
	args, names := f[1:], []string{}
	switch o.name {
	case "mss", "wscale":
		names = []string{""}
	case "TS":
		names = []string{"val", "ecr"}
	case "sackOK", "nop", "eol":
	case "sack":
		return o, o.parseBlocks(args)
	case "opt":
		return o, o.parseRaw(args)
	default:
		return o, fmt.Errorf("no option has this name")
	}
	for _, name := range names {
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
	n := func(i int) string {
		if o.values[i].any {
			return "*"
		}
		return strconv.FormatInt(o.values[i].n, 10)
	}
	switch o.name {
	case "mss", "wscale":
		return o.name + " " + n(0)
	case "TS":
		return "TS val " + n(0) + " ecr " + n(1)
	case "opt":
		return "opt " + hex.EncodeToString(o.raw)
	case "sack":
		s := "sack"
		for i := 0; i+1 < len(o.values); i += 2 {
			s += " " + n(i) + ":" + n(i+1)
		}
		return s
	}
	return o.name
}

func (o *tcpOptions) String() string {
	var all []string
	for i := range o.list {
		all = append(all, o.list[i].String())
	}
	return "<" + strings.Join(all, ",") + ">"
}

// has reports whether an option of that name is in the list.
func (o *tcpOptions) has(name string) *tcpOption {
	for i := range o.list {
		if o.list[i].name == name {
			return &o.list[i]
		}
	}
	return nil
}

// appendTo encodes the list, padded with end-of-list octets to a multiple of
// four. Blocks are numbers of the NIC's stream, whose first is base.
func (o *tcpOptions) appendTo(b []byte, base, tsBase uint32) []byte {
	be := binary.BigEndian
	for i := range o.list {
		opt := &o.list[i]
		var n uint32
		if len(opt.values) > 0 {
			n = uint32(opt.values[0].n)
		}
		switch opt.name {
		case "eol":
			b = append(b, 0)
		case "nop":
			b = append(b, 1)
		case "mss":
			b = be.AppendUint16(append(b, 2, 4), uint16(n))
		case "wscale":
			b = append(b, 3, 3, byte(n))
		case "sackOK":
			b = append(b, 4, 2)
		case "sack":
			b = append(b, 5, byte(2+4*len(opt.values)))
			for _, edge := range opt.values {
				b = be.AppendUint32(b, base+uint32(edge.n))
			}
		case "TS":
			b = be.AppendUint32(append(b, 8, 10), n)
			b = be.AppendUint32(b, tsBase+uint32(opt.values[1].n))
		case "opt":
			b = append(b, opt.raw...)
		}
	}
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

// decodeOptions reads the options of a segment from the NIC. Blocks become
// relative to base, the peer's first number; timestamp values relative to
// tsBase.
func decodeOptions(b []byte, base, tsBase uint32) (*tcpOptions, error) {
	o := &tcpOptions{}
	be := binary.BigEndian
	add := func(name string, values ...int64) {
		opt := tcpOption{name: name}
		for _, n := range values {
			opt.values = append(opt.values, value{n: n})
		}
		o.list = append(o.list, opt)
	}
	for len(b) > 0 {
		n := 1
		switch {
		case b[0] == 0:
			add("eol")
		case b[0] == 1:
			add("nop")
		case len(b) < 2 || b[1] < 2 || int(b[1]) > len(b):
			return o, fmt.Errorf("options cut short")
		default:
			n = int(b[1])
			switch d := b[2:n]; {
			case b[0] == 2 && n == 4:
				add("mss", int64(be.Uint16(d)))
			case b[0] == 3 && n == 3:
				add("wscale", int64(d[0]))
			case b[0] == 4 && n == 2:
				add("sackOK")
			case b[0] == 8 && n == 10:
				add("TS", int64(int32(be.Uint32(d)-tsBase)), int64(be.Uint32(d[4:])))
			case b[0] == 5 && n%8 == 2 && n > 2:
				add("sack")
				last := &o.list[len(o.list)-1]
				for ; len(d) > 0; d = d[4:] {
					last.values = append(last.values, value{n: int64(int32(be.Uint32(d) - base))})
				}
			default:
				o.list = append(o.list, tcpOption{name: "opt", raw: b[:n]})
			}
		}
		b = b[n:]
	}
	return o, nil
}

// compare says where got is not as o wants. Padding only counts if o has
// padding.
func (o *tcpOptions) compare(got *tcpOptions) []difference {
	have := got.list
	if o.has("nop") == nil && o.has("eol") == nil {
		have = nil
		for _, opt := range got.list {
			if opt.name != "nop" && opt.name != "eol" {
				have = append(have, opt)
			}
		}
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
	if o.name != got.name || len(o.values) != len(got.values) || string(o.raw) != string(got.raw) {
		return false
	}
	for i, v := range o.values {
		if !v.any && v.n != got.values[i].n {
			return false
		}
	}
	return true
}

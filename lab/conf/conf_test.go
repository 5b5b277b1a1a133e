package conf

import (
	"errors"
	"strconv"
	"strings"
	"testing"
)

type port struct {
	name  string
	lids  []int
	inner *port
}

var fields []Field[port]

func init() {
	fields = []Field[port]{
		{Name: "name", Expect: "a name", Set: func(p *port, s string) error { p.name = s; return nil }},
		{Name: "lids", Expect: "numbers", Many: true, Set: func(p *port, s string) error {
			n, err := strconv.Atoi(s)
			p.lids = append(p.lids, n)
			return err
		}},
		{Name: "inner_port", Node: func(p *port, n Node) error {
			p.inner = &port{}
			if err := Decode(n, p.inner, "a port", fields); err != nil {
				return err
			}
			if p.inner.name == "" {
				return errors.New("it has no name")
			}
			return nil
		}},
	}
}

func decode(in string) (p port, err error) {
	n, err := Read("f.yaml", []byte(in), "a port")
	if err != nil {
		return p, err
	}
	return p, Decode(n, &p, "a port", fields)
}

func TestDecode(t *testing.T) {
	p, err := decode("name: 'a'\nlids: [1, 2]\ninner_port:\n  name: b\n  lids: 3,4\n")
	if err != nil || p.name != "a" || len(p.lids) != 2 || p.inner.name != "b" || len(p.inner.lids) != 2 || p.inner.lids[1] != 4 {
		t.Fatalf("%+v %v", p, err)
	}
}

func TestErrors(t *testing.T) {
	for _, tt := range []struct{ in, want, excerpt string }{
		{"", "f.yaml:1:1: the file is empty: expected a port", ""},
		{"name: a\nnmae: b\n", "f.yaml:2:1: nmae: unknown key; expected one of name, lids, inner_port", "  2 | nmae: b\n    | ^\n"},
		{"name: a\nname: b\n", "f.yaml:2:1: ", "^"},
		{"name: [a]\n", "f.yaml:1:7: name: expected a name", "  1 | name: [a]\n    |       ^\n"},
		{"lids: [1, x]\n", "f.yaml:1:11: lids: expected numbers", "  1 | lids: [1, x]\n    |           ^\n"},
		{"lids: {a: 1}\n", "lids: expected numbers", "^"},
		{"inner_port: 3\n", "f.yaml:1:13: expected a port", "^"},
		{"inner_port:\n  lids: 1\n", "inner_port: it has no name", "^"},
		{"- 1\n", "f.yaml:1:1: expected a port", "^"},
		{"name: a\n---\nname: b\n", "one YAML document only", "^"},
		{"name: [a\n", "f.yaml:1:", "^"},
	} {
		_, err := decode(tt.in)
		e := (*Error)(nil)
		if !errors.As(err, &e) || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", tt.in, err)
			continue
		}
		if x := e.Excerpt(); !strings.Contains(x, tt.excerpt) || (tt.excerpt == "") != (x == "") {
			t.Errorf("%q:\n%s", tt.in, x)
		}
	}
}

func TestSetFlag(t *testing.T) {
	var p port
	for _, tt := range []struct{ name, text, want string }{
		{"lids", "7,8", ""},
		{"lids", "9", ""},
		{"lids", "x", `lids: "x": expected numbers`},
		{"inner-port", "x", "inner-port: unknown setting"},
		{"speed", "1", "speed: unknown setting; known are name"},
	} {
		err := Set(&p, fields, tt.name, tt.text)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s=%s: %v", tt.name, tt.text, err)
		}
	}
	if len(p.lids) != 4 || p.lids[3] != 0 { // the fields decide what a bad value leaves behind
		t.Errorf("%v", p.lids)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("name: a\nlids: [1]\ninner_port: {name: b}\n")
	f.Add("a: &x {b: *x}\n")
	f.Add("\t- [")
	f.Fuzz(func(t *testing.T, in string) {
		_, err := decode(in)
		if e := (*Error)(nil); err != nil && errors.As(err, &e) {
			e.Excerpt()
		} else if err != nil {
			t.Fatalf("without a place: %v", err)
		}
	})
}

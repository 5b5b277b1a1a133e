package conf

import (
	"errors"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

type port struct {
	name  string
	lids  []int
	inner *port
}

func fields(p *port) []Field {
	return []Field{
		{Name: "name", Expect: "a name", Set: String(&p.name)},
		{Name: "lids", Expect: "numbers", Many: true, Set: func(s string) error {
			n, err := strconv.Atoi(s)
			p.lids = append(p.lids, n)
			return err
		}},
		{Name: "inner_port", Node: func(n Node) error {
			p.inner = &port{}
			if err := Decode(n, "a port", fields(p.inner)); err != nil {
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
	err = Decode(n, "a port", fields(&p))
	return p, err
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
		{"lids: " + strings.Repeat("[", 20000), "f.yaml:1:38: nested too deeply: expected at most 32 levels", "^"},
		{strings.Repeat("{a: ", 20000), "f.yaml:1:129: nested too deeply", "^"},
		{strings.Repeat("- ", 20000) + "1", "f.yaml:1:65: nested too deeply", "^"},
		{nested(33), "f.yaml:33:", "^"},
		{"name: " + strings.Repeat("a", MaxSize), "f.yaml:1:1: too long: expected at most 1048576 octets", "^"},
		{"name: &a b\nlids: *a\n", "name: expected a name", "^"},
	} {
		_, err := decode(tt.in)
		e := (*Error)(nil)
		if !errors.As(err, &e) || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.200q: %.400v", tt.in, err)
			continue
		}
		if x := e.Excerpt(); !strings.Contains(x, tt.excerpt) || (tt.excerpt == "") != (x == "") || len(x) > 400 {
			t.Errorf("%.200q:\n%.400s", tt.in, x)
		}
	}
}

// nested is a mapping in a mapping and so on.
func nested(levels int) string {
	var b strings.Builder
	for i := range levels {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

// Depth is that of a place, not of the file: long files may be flat.
func TestFlatFile(t *testing.T) {
	list := "a:\n" + strings.Repeat("- b: {c: 1}\n  d:\n  - 2\n", 1000)
	if _, err := Read("f.yaml", []byte(list+nested(30)[1:]), ""); err == nil {
		t.Error("not a list any more, yet no error")
	}
	if _, err := Read("f.yaml", []byte(list), ""); err != nil {
		t.Error(err)
	}
	if _, err := Read("f.yaml", []byte(nested(32)), ""); err != nil {
		t.Error(err)
	}
}

// What is refused is not parsed: it costs no memory.
func TestDeepFileCostsNothing(t *testing.T) {
	data := []byte(strings.Repeat("[", 20000))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := Read("f.yaml", data, ""); err == nil {
		t.Fatal("parsed")
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 16<<20 { // the parser takes 645 MB
		t.Errorf("%d octets", got)
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
		err := Set(fields(&p), tt.name, tt.text)
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

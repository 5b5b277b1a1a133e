package conf

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
)

// Load reads the file at path by parse.
func Load[T any](path string, parse func(path string, data []byte) (T, error)) (v T, err error) {
	data, err := ReadFile(path)
	if err != nil {
		return v, err
	}
	return parse(path, data)
}

// ReadFile is os.ReadFile of at most one octet more than Read takes. If there is no such file, the
// error names the files that could have been meant.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w%s", err, Aside(filepath.Base(path), entries(filepath.Dir(path))))
		}
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a directory; name a file, such as lab.yaml, in it", path)
	}
	return io.ReadAll(io.LimitReader(f, MaxSize+1))
}

// entries are the names of what dir holds.
func entries(dir string) (names []string) {
	all, _ := os.ReadDir(dir)
	for _, e := range all {
		names = append(names, e.Name())
	}
	return names
}

// List describes a file with a list of like things under one key.
type List[T any] struct {
	Key, One, Many string // such as nics, NIC, NICs
	// Decode reads element i, and adds what it describes, with its place. An error that
	// is no *Error is placed at the element.
	Decode func(n Node, i int, add func(at Node, v T) error) error
	// Claims returns a thing's name and what else only one of the list can have.
	Claims func(v *T) (name string, claims []Claim)
}

// Claim is what only one thing of a list can have. A zero Value claims nothing.
type Claim struct {
	Key, Verb string // such as mac, have
	Value     any    // comparable; messages show it by %v
}

// Has is the claim to have a value for itself, Uses the claim to use an interface
// or address.
func Has(key string, v any) Claim  { return Claim{key, "have", v} }
func Uses(key string, v any) Claim { return Claim{key, "use", v} }

// Parse reads a file; path is for messages only.
func (l *List[T]) Parse(path string, data []byte) ([]T, error) {
	what := fmt.Sprintf("`%s:` with a list of %s", l.Key, l.Many)
	body, err := Read(path, data, what)
	if err != nil {
		return nil, err
	}
	var all []T
	owners := map[Claim]owner{}
	err = Decode(body, what, []Field{{Name: l.Key, Node: func(n Node) error {
		expected := fmt.Sprintf("%s: expected a list with at least one %s", l.Key, l.One)
		return n.Each(1, expected, func(n Node, i int) error {
			return n.Place(l.Decode(n, i, func(at Node, v T) error {
				all = append(all, v)
				return l.claim(at, &v, owners)
			}))
		})
	}}})
	if err == nil && len(all) == 0 {
		err = body.Errorf("expected %s", what)
	}
	return all, err
}

// owner is a thing of a list that claims something.
type owner struct {
	name string
	line int
}

// claim notes what a thing of the list, which stands at n, claims.
func (l *List[T]) claim(n Node, v *T, owners map[Claim]owner) error {
	name, claims := l.Claims(v)
	me := owner{name, n.Line()}
	for _, c := range append([]Claim{{"name", "are called", name}}, claims...) {
		if reflect.ValueOf(c.Value).IsZero() {
			continue
		}
		o, taken := owners[c]
		switch {
		case !taken:
			owners[c] = me
		case o != me && c.Key == "name":
			return n.Errorf("name: two %s are called %s (the other one is at line %d)", l.Many, name, o.line)
		case o != me:
			return n.Errorf("%s: %s and %s both %s %v (the other one is at line %d)", c.Key, o.name, name,
				c.Verb, c.Value, o.line)
		}
	}
	return nil
}

// Place gives an error that has no place that of the node.
func (n Node) Place(err error) error {
	if _, placed := err.(*Error); err == nil || placed {
		return err
	}
	return n.Errorf("%v", err)
}

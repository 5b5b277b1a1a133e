package conf

import (
	"fmt"
	"io"
	"os"
)

// Load reads the file at path by parse.
func Load[T any](path string, parse func(path string, data []byte) (T, error)) (v T, err error) {
	data, err := ReadFile(path)
	if err != nil {
		return v, err
	}
	return parse(path, data)
}

// ReadFile is os.ReadFile of at most one octet more than Read takes.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, MaxSize+1))
}

// List describes a file with a list of like things under one key.
type List[T any] struct {
	Key, One, Many string // such as nics, NIC, NICs
	// Decode reads element i. An error that is no *Error is placed at the element.
	Decode func(n Node, i int) (T, error)
	// Exclude says why two cannot run side by side; empty: they can.
	Exclude func(a, b *T) string
}

// Parse reads a file; path is for messages only.
func (l *List[T]) Parse(path string, data []byte) ([]T, error) {
	what := fmt.Sprintf("`%s:` with a list of %s", l.Key, l.Many)
	body, err := Read(path, data, what)
	if err != nil {
		return nil, err
	}
	var all []T
	var lines []int
	err = Decode(body, what, []Field{{Name: l.Key, Node: func(n Node) error {
		expected := fmt.Sprintf("%s: expected a list with at least one %s", l.Key, l.One)
		return n.Each(1, expected, func(n Node, i int) error {
			v, err := l.Decode(n, i)
			if err != nil {
				return n.Place(err)
			}
			for k := range all {
				if why := l.Exclude(&all[k], &v); why != "" {
					return n.Errorf("%s (the other one is at line %d)", why, lines[k])
				}
			}
			all, lines = append(all, v), append(lines, n.Line())
			return nil
		})
	}}})
	if err == nil && len(all) == 0 {
		err = body.Errorf("expected %s", what)
	}
	return all, err
}

// Place gives an error that has no place that of the node.
func (n Node) Place(err error) error {
	if _, placed := err.(*Error); err == nil || placed {
		return err
	}
	return n.Errorf("%v", err)
}

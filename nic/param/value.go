package param

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrValue says that a value is not what was expected. Row.Set words it.
var ErrValue = errors.New("not as expected")

// Bool makes a setting of a bool. negated says that field holds the
// contrary.
func Bool(r Row, field *bool, negated bool) *Row {
	r.Type, r.Expect = "bool", "1 or 0"
	r.get = func() string { return Bit(*field != negated) }
	r.set = func(v string) error {
		on, err := strconv.ParseBool(v)
		*field = on != negated
		return err
	}
	return &r
}

// Bit is a bool as a setting shows it.
func Bit(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

// Number makes a setting of an integer from low to high. def is what zero
// stands for.
func Number[T int | uint8 | uint16 | uint32](r Row, field *T, def, low, high int) *Row {
	r.Type = "number"
	r.Expect = cmp.Or(r.Expect, "a number from "+strconv.Itoa(low)+" to "+strconv.Itoa(high))
	r.get = func() string { return strconv.Itoa(cmp.Or(int(*field), def)) }
	r.set = func(v string) error {
		n, err := strconv.ParseInt(v, 0, 64)
		if err != nil || n < int64(low) || n > int64(high) {
			return ErrValue
		}
		*field = T(n)
		return nil
	}
	return &r
}

// Duration makes a setting of a time. off is how none is shown; with it, zero
// is a value, else def stands for it.
func Duration(r Row, field *time.Duration, def, high time.Duration, off bool) *Row {
	r.Type, r.Expect = "time", "a time such as 5ms, at most "+Short(high)
	if off {
		r.Expect += "; 0 for none"
	}
	r.get = func() string { return Short(cmp.Or(*field, def)) }
	r.set = func(v string) error {
		d, err := time.ParseDuration(v)
		if err != nil || d > high || d < time.Millisecond && !(off && d == 0) {
			return ErrValue
		}
		*field = d
		return nil
	}
	return &r
}

// Short writes a time without the units that are zero.
func Short(d time.Duration) string {
	if d == 0 {
		return "0"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// Word is one word that a choice or a set knows.
type Word[T any] struct {
	Name  string
	Value T
}

// Named is a word with its value.
func Named[T any](name string, v T) Word[T] { return Word[T]{name, v} }

// Choice makes a setting of one of several words; the first is the default.
func Choice[T comparable](r Row, field *T, words ...Word[T]) *Row {
	r.Type, r.Expect = "choice", oneOf(words)
	r.get = func() string {
		i := slices.IndexFunc(words, func(w Word[T]) bool { return w.Value == *field })
		return words[max(i, 0)].Name
	}
	r.set = func(v string) error {
		i := slices.IndexFunc(words, func(w Word[T]) bool { return w.Name == v })
		if i < 0 {
			return ErrValue
		}
		*field = words[i].Value
		return nil
	}
	return &r
}

func oneOf[T any](words []Word[T]) string {
	names := make([]string, len(words))
	for i, w := range words {
		names[i] = w.Name
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// Bits makes a setting of a set of words. What "all" and "none" mean follows
// from the words; empty reports whether the empty set is a value.
func Bits[T ~uint8 | ~uint32](r Row, field *T, def T, empty bool, words ...Word[T]) *Row {
	r.Type, r.Expect = "list", "a list with commas of "+strings.Replace(oneOf(words), " or ", " and ", 1)+", or all"
	if empty {
		r.Expect += ", or none"
	}
	r.get = func() string {
		var names []string
		for _, w := range words {
			if cmp.Or(*field, def)&w.Value != 0 {
				names = append(names, w.Name)
			}
		}
		return cmp.Or(strings.Join(names, ","), "none")
	}
	r.set = func(v string) error {
		sum, err := union(v, words)
		if err != nil || sum == 0 && !empty {
			return ErrValue
		}
		*field = sum
		return nil
	}
	return &r
}

func union[T ~uint8 | ~uint32](v string, words []Word[T]) (sum T, err error) {
	for name := range strings.SplitSeq(v, ",") {
		known := name == "none"
		for _, w := range words {
			if name == w.Name || name == "all" {
				sum |= w.Value
				known = true
			}
		}
		if !known {
			return 0, ErrValue
		}
	}
	return sum, nil
}

// List makes a setting of a list with commas; none is the word for an empty one.
func List[T any](r Row, none string, field *[]T, parse func(string) (T, error), format func(T) string) *Row {
	r.Type = "list"
	r.get = func() string {
		var words []string
		for _, v := range *field {
			words = append(words, format(v))
		}
		return cmp.Or(strings.Join(words, ","), none)
	}
	r.set = func(v string) error {
		var values []T
		for word := range strings.SplitSeq(v, ",") {
			if v == none {
				break
			}
			value, err := parse(strings.TrimSpace(word))
			if err != nil {
				return err
			}
			values = append(values, value)
		}
		*field = values
		return nil
	}
	return &r
}

// Text makes a setting with its own two functions; Type and Expect of r are given.
func Text(r Row, get func() string, set func(v string) error) *Row {
	r.get, r.set = get, set
	return &r
}

package nic

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// errValue stands for "not what was expected", which Param.Set words.
var errValue = errors.New("not as expected")

// boolean makes a setting of a bool. negated says that field holds the
// contrary.
func boolean(p Param, field func(*Config) *bool, negated bool) *Param {
	p.Type, p.Expect = "bool", "1 or 0"
	p.get = func(c *Config) string { return bit(*field(c) != negated) }
	p.set = func(c *Config, v string) error {
		on, err := strconv.ParseBool(v)
		*field(c) = on != negated
		return err
	}
	return &p
}

func bit(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

// number makes a setting of an integer from low to high. def is what zero
// stands for.
func number[T int | uint8 | uint16 | uint32](p Param, field func(*Config) *T, def, low, high int) *Param {
	p.Type = "number"
	if p.Expect == "" {
		p.Expect = "a number from " + strconv.Itoa(low) + " to " + strconv.Itoa(high)
	}
	p.get = func(c *Config) string {
		if *field(c) == 0 {
			return strconv.Itoa(def)
		}
		return strconv.Itoa(int(*field(c)))
	}
	p.set = func(c *Config, v string) error {
		n, err := strconv.ParseInt(v, 0, 64)
		if err != nil || n < int64(low) || n > int64(high) {
			return errValue
		}
		*field(c) = T(n)
		return nil
	}
	return &p
}

// duration makes a setting of a time. off is how none is shown; with it, zero
// is a value, else def stands for it.
func duration(p Param, field func(*Config) *time.Duration, def, high time.Duration, off bool) *Param {
	p.Type, p.Expect = "time", "a time such as 5ms, at most "+short(high)
	if off {
		p.Expect += "; 0 for none"
	}
	p.get = func(c *Config) string {
		if *field(c) == 0 {
			return short(def)
		}
		return short(*field(c))
	}
	p.set = func(c *Config, v string) error {
		d, err := time.ParseDuration(v)
		if err != nil || d > high || d < time.Millisecond && !(off && d == 0) {
			return errValue
		}
		*field(c) = d
		return nil
	}
	return &p
}

// short writes a time without the units that are zero.
func short(d time.Duration) string {
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

// named is one word that a choice or a set knows.
type named[T any] struct {
	name  string
	value T
}

// choice makes a setting of one of several words; the first is the default.
func choice[T comparable](p Param, field func(*Config) *T, words ...named[T]) *Param {
	p.Type, p.Expect = "choice", oneOf(words)
	p.get = func(c *Config) string {
		for _, w := range words {
			if w.value == *field(c) {
				return w.name
			}
		}
		return words[0].name
	}
	p.set = func(c *Config, v string) error {
		for _, w := range words {
			if w.name == v {
				*field(c) = w.value
				return nil
			}
		}
		return errValue
	}
	return &p
}

func oneOf[T any](words []named[T]) string {
	names := make([]string, len(words))
	for i, w := range words {
		names[i] = w.name
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// bits makes a setting of a set of words. What "all" and "none" mean follows
// from the words; empty reports whether the empty set is a value.
func bits[T ~uint8 | ~uint32](p Param, field func(*Config) *T, def T, empty bool, words ...named[T]) *Param {
	p.Type, p.Expect = "list", "a list with commas of "+strings.Replace(oneOf(words), " or ", " and ", 1)+", or all"
	if empty {
		p.Expect += ", or none"
	}
	p.get = func(c *Config) string {
		have := *field(c)
		if have == 0 {
			have = def
		}
		var names []string
		for _, w := range words {
			if have&w.value != 0 {
				names = append(names, w.name)
			}
		}
		if names == nil {
			return "none"
		}
		return strings.Join(names, ",")
	}
	p.set = func(c *Config, v string) error {
		sum, err := union(v, words)
		if err != nil || sum == 0 && !empty {
			return errValue
		}
		*field(c) = sum
		return nil
	}
	return &p
}

func union[T ~uint8 | ~uint32](v string, words []named[T]) (sum T, err error) {
	for name := range strings.SplitSeq(v, ",") {
		known := name == "none"
		for _, w := range words {
			if name == w.name || name == "all" {
				sum |= w.value
				known = true
			}
		}
		if !known {
			return 0, errValue
		}
	}
	return sum, nil
}

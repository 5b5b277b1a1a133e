package conf

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"tapir/wire/ether"
)

// ErrValue is a value that is not what was expected; the field says what that
// is.
var ErrValue = errors.New("not the expected value")

type integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32
}

// Int sets v from a decimal number from least to most.
func Int[T integer](v *T, s string, least, most int64) error {
	return setInteger(v, s, 10, least, most)
}

// Number is Int of a number in any base of Go, such as 0x10.
func Number[T integer](v *T, s string, least, most int64) error {
	return setInteger(v, s, 0, least, most)
}

func setInteger[T integer](v *T, s string, base int, least, most int64) error {
	n, err := strconv.ParseInt(s, base, 64)
	if err != nil || n < least || n > most {
		return ErrValue
	}
	*v = T(n)
	return nil
}

// Uint64 sets v from a number in any base.
func Uint64(v *uint64, s string) (err error) {
	*v, err = strconv.ParseUint(s, 0, 64)
	return err
}

// Bool sets v from a truth value as Go writes it.
func Bool(v *bool, s string) (err error) {
	*v, err = strconv.ParseBool(s)
	return err
}

// Time sets v from a duration from least to most; 0 for most means any.
func Time(v *time.Duration, s string, least, most time.Duration) error {
	d, err := time.ParseDuration(s)
	if err != nil || d < least || most > 0 && d > most {
		return ErrValue
	}
	*v = d
	return nil
}

// Text sets v from a text that is not empty.
func Text(v *string, s string) error {
	if *v = s; s == "" {
		return ErrValue
	}
	return nil
}

// Word sets v from one of the words.
func Word(v *string, s string, words ...string) error {
	if *v = s; !slices.Contains(words, s) {
		return ErrValue
	}
	return nil
}

// Parsed sets v by parse.
func Parsed[T any](v *T, s string, parse func(string) (T, error)) (err error) {
	*v, err = parse(s)
	return err
}

// StationMAC sets v from the MAC address of one station.
func StationMAC(v *ether.Addr, s string) error {
	err := Parsed(v, s, ether.ParseAddr)
	if err == nil && (v.IsMulticast() || v.IsZero()) {
		return ErrValue
	}
	return err
}

// ValidName matches the names of nodes.
var ValidName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,31}$`)

// Name sets v from the name of a node.
func Name(v *string, s string) error {
	if *v = s; !ValidName.MatchString(s) {
		return ErrValue
	}
	return nil
}

// ModuleParameter checks a parameter of a kernel module.
func ModuleParameter(p string) error {
	if k, v, ok := strings.Cut(p, "="); !ok || k == "" || v == "" || strings.ContainsAny(p, " ,'\"$`\\\n") {
		return fmt.Errorf("%q: want NAME=VALUE", p)
	}
	return nil
}

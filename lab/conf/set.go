package conf

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"tapir/wire/ether"
	"tapir/wire/frame"
)

// Setter sets what it is bound to from a text.
type Setter = func(text string) error

// ErrValue is a value that is not what was expected; the field says what that
// is.
var ErrValue = errors.New("not the expected value")

type integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32
}

// Int sets v to a decimal number from least to most.
func Int[T integer](v *T, least, most int64) Setter { return setInteger(v, 10, least, most) }

// Number is Int of a number in any base of Go, such as 0x10.
func Number[T integer](v *T, least, most int64) Setter { return setInteger(v, 0, least, most) }

func setInteger[T integer](v *T, base int, least, most int64) Setter {
	parse := func(s string) (int64, error) { return strconv.ParseInt(s, base, 64) }
	return bounded(parse, least, most, func(n int64) { *v = T(n) })
}

// bounded takes a number from least to most that parse reads.
func bounded[N cmp.Ordered](parse func(string) (N, error), least, most N, set func(N)) Setter {
	return func(s string) error {
		n, err := parse(s)
		if err != nil || !(n >= least && n <= most) {
			return ErrValue
		}
		set(n)
		return nil
	}
}

// Uint64 sets v to a number in any base.
func Uint64(v *uint64) Setter {
	return Parsed(v, func(s string) (uint64, error) { return strconv.ParseUint(s, 0, 64) })
}

// Float sets v to a finite number from least on.
func Float(v *float64, least float64) Setter {
	parse := func(s string) (float64, error) { return strconv.ParseFloat(s, 64) }
	return bounded(parse, least, math.MaxFloat64, func(f float64) { *v = f })
}

// Bool sets v to a truth value as Go writes it.
func Bool(v *bool) Setter { return Parsed(v, strconv.ParseBool) }

// Time sets v to a duration from least to most; 0 for most means any.
func Time(v *time.Duration, least, most time.Duration) Setter {
	return bounded(time.ParseDuration, least, cmp.Or(most, math.MaxInt64), func(d time.Duration) { *v = d })
}

// Duration sets v to a duration that is not negative, also one of days.
func Duration(v *time.Duration) Setter {
	return bounded(ParseDuration, 0, math.MaxInt64, func(d time.Duration) { *v = d })
}

// Nanoseconds sets v to a duration as a number of nanoseconds.
func Nanoseconds(v *float64) Setter {
	return bounded(ParseDuration, 0, math.MaxInt64, func(d time.Duration) { *v = float64(d) })
}

// ParseDuration is time.ParseDuration with days, such as 1.5d.
func ParseDuration(s string) (time.Duration, error) {
	if n := len(s); n > 1 && s[n-1] == 'd' {
		days, err := strconv.ParseFloat(s[:n-1], 64)
		if err != nil || math.Abs(days) > 100*365 {
			return 0, ErrValue
		}
		return time.Duration(days * float64(24*time.Hour)), nil
	}
	return time.ParseDuration(s)
}

// Checked sets v to a text that suits check.
func Checked(v *string, check func(string) error) Setter {
	return func(s string) error {
		*v = s
		return check(s)
	}
}

// holds is the check that a text is such a one.
func holds(is func(string) bool) func(string) error {
	return func(s string) error {
		if !is(s) {
			return ErrValue
		}
		return nil
	}
}

// Frames is what FrameRate expects.
const Frames = "frames per second, such as 1000, or 1000/200 with a burst"

// FrameRate sets v to a rate of frames. The burst is that of a tenth of a second unless it
// is given.
func FrameRate(v *frame.Rate) Setter {
	return Parsed(v, func(s string) (frame.Rate, error) {
		rate, burst, both := strings.Cut(s, "/")
		n, err := strconv.ParseUint(rate, 10, 32)
		b := max(1, n/10)
		if err == nil && both {
			b, err = strconv.ParseUint(burst, 10, 32)
		}
		if n == 0 || b == 0 {
			err = ErrValue
		}
		return frame.Rate{PerSecond: uint32(n), Burst: uint32(b)}, err
	})
}

// String sets v to any text.
func String(v *string) Setter { return Checked(v, func(string) error { return nil }) }

// Text sets v to a text that is not empty.
func Text(v *string) Setter { return Checked(v, holds(func(s string) bool { return s != "" })) }

// Word sets v to one of the words.
func Word(v *string, words ...string) Setter {
	return Checked(v, holds(func(s string) bool { return slices.Contains(words, s) }))
}

// Choose sets v to the value that the text names.
func Choose[T any](v *T, values map[string]T) Setter {
	return Parsed(v, func(s string) (T, error) {
		value, ok := values[s]
		if !ok {
			return value, ErrValue
		}
		return value, nil
	})
}

// Parsed sets v by parse.
func Parsed[T any](v *T, parse func(string) (T, error)) Setter {
	return func(s string) (err error) {
		*v, err = parse(s)
		return err
	}
}

// ParsedNew sets v to a new value by parse.
func ParsedNew[T any](v **T, parse func(string) (T, error)) Setter {
	return func(s string) error {
		*v = new(T)
		return Parsed(*v, parse)(s)
	}
}

// Unmarshaled lets v read the text itself.
func Unmarshaled(v encoding.TextUnmarshaler) Setter {
	return func(s string) error { return v.UnmarshalText([]byte(s)) }
}

// Append appends what parse reads to list.
func Append[T any](list *[]T, parse func(string) (T, error)) Setter {
	return func(s string) error {
		v, err := parse(s)
		if err == nil {
			*list = append(slices.Clip(*list), v)
		}
		return err
	}
}

// Prefixes reads an address with prefix length of a family.
func Prefixes(family func(netip.Addr) bool) func(string) (netip.Prefix, error) {
	return func(s string) (netip.Prefix, error) {
		p, err := netip.ParsePrefix(s)
		if err == nil && (p.Addr().Is4In6() || !family(p.Addr())) {
			err = ErrValue
		}
		return p, err
	}
}

// StationMAC sets v to the MAC address of one station.
func StationMAC(v *ether.Addr) Setter {
	return func(s string) error {
		err := Parsed(v, ether.ParseAddr)(s)
		if err == nil && (v.IsMulticast() || v.IsZero()) {
			return ErrValue
		}
		return err
	}
}

// ValidName matches the names of nodes.
var ValidName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,31}$`)

// Name sets v to the name of a node.
func Name(v *string) Setter { return Checked(v, holds(ValidName.MatchString)) }

// ModuleParameter checks a parameter of a kernel module.
func ModuleParameter(p string) error {
	if k, v, ok := strings.Cut(p, "="); !ok || k == "" || v == "" || strings.ContainsAny(p, " ,'\"$`\\\n") {
		return fmt.Errorf("%q: want NAME=VALUE", p)
	}
	return nil
}

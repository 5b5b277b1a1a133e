package conf

import (
	"errors"
	"math"
	"strconv"
	"time"
)

// ErrValue is the error of a value that is not the expected one.
var ErrValue = errors.New("not the expected value")

// Integer is the type of a Number.
type Integer interface {
	~int | ~int8 | ~int16 | ~int64 | ~uint8 | ~uint16 | ~uint32
}

// Number is a field of integers from least to most.
func Number[T any, N Integer](name, expect string, of func(*T) *N, least, most int64) Field[T] {
	return Field[T]{Name: name, Expect: expect, Set: func(v *T, s string) error {
		n, err := strconv.ParseInt(s, 0, 64)
		if err != nil || n < least || n > most {
			return ErrValue
		}
		*of(v) = N(n)
		return nil
	}}
}

// Bool is a field that is true or false.
func Bool[T any](name, expect string, of func(*T) *bool) Field[T] {
	return Field[T]{Name: name, Expect: expect, Set: func(v *T, s string) (err error) {
		*of(v), err = strconv.ParseBool(s)
		return err
	}}
}

// Duration is a field that is a duration, not a negative one unless it is signed.
func Duration[T any](name, expect string, signed bool, of func(*T) *time.Duration) Field[T] {
	return Field[T]{Name: name, Expect: expect, Set: func(v *T, s string) error {
		d, err := ParseDuration(s)
		if err != nil || d < 0 && !signed {
			return ErrValue
		}
		*of(v) = d
		return nil
	}}
}

// Nanoseconds is a field that is a duration as a number of nanoseconds.
func Nanoseconds[T any](name, expect string, of func(*T) *float64) Field[T] {
	return Field[T]{Name: name, Expect: expect, Set: func(v *T, s string) error {
		d, err := ParseDuration(s)
		if err != nil || d < 0 {
			return ErrValue
		}
		*of(v) = float64(d)
		return nil
	}}
}

// Float is a field of finite numbers from least on.
func Float[T any](name, expect string, of func(*T) *float64, least float64) Field[T] {
	return Field[T]{Name: name, Expect: expect, Set: func(v *T, s string) error {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || !(f >= least) || math.IsInf(f, 0) {
			return ErrValue
		}
		*of(v) = f
		return nil
	}}
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

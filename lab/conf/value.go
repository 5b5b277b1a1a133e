package conf

import (
	"math"
	"strconv"
	"time"
)

// NumberField is a field of integers from least to most.
func NumberField[T any, N integer](name, expect string, of func(*T) *N, least, most int64) Field[T] {
	return Field[T]{Name: name, Expect: expect, Set: func(v *T, s string) error {
		return Number(of(v), s, least, most)
	}}
}

// BoolField is a field that is true or false.
func BoolField[T any](name, expect string, of func(*T) *bool) Field[T] {
	return Field[T]{Name: name, Expect: expect, Set: func(v *T, s string) error { return Bool(of(v), s) }}
}

// DurationField is a field that is a duration, not a negative one unless it is signed.
func DurationField[T any](name, expect string, signed bool, of func(*T) *time.Duration) Field[T] {
	return Field[T]{Name: name, Expect: expect, Set: func(v *T, s string) error {
		d, err := ParseDuration(s)
		if err != nil || d < 0 && !signed {
			return ErrValue
		}
		*of(v) = d
		return nil
	}}
}

// NanosecondsField is a field that is a duration as a number of nanoseconds.
func NanosecondsField[T any](name, expect string, of func(*T) *float64) Field[T] {
	return Field[T]{Name: name, Expect: expect, Set: func(v *T, s string) error {
		d, err := ParseDuration(s)
		if err != nil || d < 0 {
			return ErrValue
		}
		*of(v) = float64(d)
		return nil
	}}
}

// FloatField is a field of finite numbers from least on.
func FloatField[T any](name, expect string, of func(*T) *float64, least float64) Field[T] {
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

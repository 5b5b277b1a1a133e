// Package enum names the values of enumerations and sets of bits.
package enum

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Integer is what enumerations are made of.
type Integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

// Name is the name of v, or for a value without one the text other, with the
// value in place of %d.
func Name[T Integer](names []string, v T, other string) string {
	if i := uint64(v); i < uint64(len(names)) && names[i] != "" {
		return names[i]
	}
	return strings.Replace(other, "%d", strconv.FormatInt(int64(v), 10), 1)
}

// Parse is the value with name s. The error says format, with s.
func Parse[T Integer](names []string, s, format string) (T, error) {
	if i := slices.Index(names, s); i >= 0 && s != "" {
		return T(i), nil
	}
	return 0, fmt.Errorf(format, s)
}

// Bits lists the names of the bits that are set in v, with commas.
func Bits[T Integer](names []string, v T) string {
	var set []string
	for i, name := range names {
		if v&(1<<i) != 0 {
			set = append(set, name)
		}
	}
	return strings.Join(set, ",")
}

package iscsi

import (
	"bytes"
	"errors"
)

// ErrText says that a text is not a list of key=value, each with a zero octet behind it.
var ErrText = errors.New("iscsi: malformed text")

// maxKey is the length of the longest key (RFC 7143 section 6.1).
const maxKey = 63

// Pair is a key and its value.
type Pair struct{ Key, Value string }

// ParseText reads the text of a login or text PDU (RFC 7143 section 6.1).
func ParseText(b []byte) (list []Pair, err error) {
	for len(b) > 0 {
		item, rest, ended := bytes.Cut(b, []byte{0})
		key, value, ok := bytes.Cut(item, []byte{'='})
		if !ended || !ok || len(key) == 0 || len(key) > maxKey {
			return nil, ErrText
		}
		list, b = append(list, Pair{string(key), string(value)}), rest
	}
	return list, nil
}

// AppendText appends a pair as it is on the wire.
func AppendText(b []byte, key, value string) []byte {
	return append(append(append(append(b, key...), '='), value...), 0)
}

package conf

import (
	"errors"
	"strings"
)

// Words splits a command line at spaces; quotes keep them.
func Words(s string) (all []string, err error) {
	var word strings.Builder
	started := false
	quote := rune(0)
	for _, r := range s {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, started = r, true
		case quote == 0 && (r == ' ' || r == '\t' || r == '\n'):
			if started {
				all = append(all, word.String())
			}
			word.Reset()
			started = false
		default:
			word.WriteRune(r)
			started = true
		}
	}
	if quote != 0 {
		return nil, errors.New("a quote has no end")
	}
	if started {
		all = append(all, word.String())
	}
	if len(all) == 0 {
		return nil, errors.New("expected a command line")
	}
	return all, nil
}

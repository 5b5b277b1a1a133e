package dcb

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrWords is a text that EachPair does not understand.
var ErrWords = errors.New("dcb: expected words KEY:VALUE with commas")

// EachPair reads words KEY:VALUE, between commas or spaces, as iproute2's dcb takes them. A
// KEY is a number below most, or all, which stands for each of them.
func EachPair(text string, most int, set func(at int, value string) error) error {
	words := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
	if len(words) == 0 {
		return ErrWords
	}
	for _, w := range words {
		key, value, ok := strings.Cut(w, ":")
		from, to := 0, most
		if n, err := strconv.Atoi(key); err == nil && n >= 0 && n < most {
			from, to = n, n+1
		} else if key != "all" {
			ok = false
		}
		if !ok {
			return ErrWords
		}
		for at := from; at < to; at++ {
			if err := set(at, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// SetPFC reads which priorities have PFC: 3:on, or all:off.
func (c *Config) SetPFC(text string) error {
	return EachPair(text, Classes, func(at int, value string) error {
		switch value {
		case "on":
			c.PFC |= 1 << at
		case "off":
			c.PFC &^= 1 << at
		default:
			return ErrWords
		}
		return nil
	})
}

// PFCWords is what SetPFC reads.
func (c *Config) PFCWords() string {
	var words []string
	for prio := range Classes {
		if c.PFC>>prio&1 != 0 {
			words = append(words, fmt.Sprintf("%d:on", prio))
		}
	}
	if words == nil {
		return "all:off"
	}
	return strings.Join(words, ",")
}

// SetShares reads the share of classes in percent: 0:30,1:70. Those that have one are ETS
// classes, the others strict ones.
func (c *Config) SetShares(text string) error {
	return EachPair(text, Classes, func(at int, value string) error {
		n, err := strconv.Atoi(strings.TrimSuffix(value, "%"))
		if err != nil || n < 0 || n > 100 {
			return ErrWords
		}
		if c.Weight[at], c.TSA[at] = uint8(n), ETS; n == 0 {
			c.TSA[at] = Strict
		}
		return nil
	})
}

// ShareWords is what SetShares reads.
func (c *Config) ShareWords() string {
	var words []string
	for tc, w := range c.Weight {
		if w > 0 {
			words = append(words, fmt.Sprintf("%d:%d", tc, w))
		}
	}
	if words == nil {
		return "all:0"
	}
	return strings.Join(words, ",")
}
